"""What a fresh process pays before its first result: import, first operator, first compilation."""

import os
import subprocess
import sys
from collections.abc import Callable

import torch

from ...worker.case import case
from ...worker.prepared_case import UnsupportedCase

_PROGRAMS = {
    "import": "import torch",
    "first_operator": "import torch; torch.ones(2, 2) @ torch.ones(2, 2)",
    "first_cuda_operator": (
        "import torch; (torch.ones(2, 2, device='cuda') @ torch.ones(2, 2, device='cuda')).cpu()"
    ),
    "first_compile": "import torch; torch.compile(lambda x: x.sin() + 1, backend='aot_eager')(torch.ones(2))",
    "spawned_worker": (
        "import torch; from torch.utils.data import DataLoader, TensorDataset\n"
        "data = TensorDataset(torch.arange(8))\n"
        "next(iter(DataLoader(data, num_workers=1, multiprocessing_context='spawn')))"
    ),
}


@case(
    family="start",
    program=["import", "first_operator", "first_cuda_operator", "first_compile", "spawned_worker"],
)
def start(program: str) -> Callable[[], object]:
    """A fresh process from start to end: import, first operator, first compilation, a spawned worker.

    Guards: modules that are imported early, and libraries that set themselves up in the first call.
    """
    if program == "first_cuda_operator" and not torch.cuda.is_available():
        raise UnsupportedCase("program=first_cuda_operator needs a CUDA device, and there is none")
    text = _PROGRAMS[program]
    # As a user starts Python, but for what the harness sets for its own process.
    surroundings = {name: value for name, value in os.environ.items() if name != "PYTHONPATH"}

    def run() -> None:
        done = subprocess.run(
            [sys.executable, "-c", text], env=surroundings, capture_output=True, text=True, check=False
        )
        if done.returncode:
            raise RuntimeError(
                f"the fresh process ended with {done.returncode}: {done.stderr.strip()[-300:]}"
            )

    return run
