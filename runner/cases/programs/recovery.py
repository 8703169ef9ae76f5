"""A rank that dies, and the time until torchrun has all ranks at work again."""

import os
import subprocess
import sys
import tempfile
from collections.abc import Callable
from pathlib import Path

from ...worker.case import case

#: Two ranks meet and share a number; with an argument rank 1 kills itself in the first attempt.
_PROGRAM = """
import os, signal, sys
import torch
import torch.distributed as dist

dist.init_process_group("gloo")
if sys.argv[1] == "rank" and os.environ["TORCHELASTIC_RESTART_COUNT"] == "0" and dist.get_rank() == 1:
    os.kill(os.getpid(), signal.SIGKILL)
total = torch.ones(1)
dist.all_reduce(total)
assert int(total) == dist.get_world_size() == 2
dist.destroy_process_group()
"""


@case(family="start", failure=["none", "rank"])
def elastic_restart(failure: str) -> Callable[[], object]:
    """Two ranks started by torchrun until they have met; with `failure=rank` one is killed, and all restart.

    The difference of the two is the time to recover: to notice the death, end the others, and start again.

    Guards: waits in the rendezvous and in the agent, which a training that never fails does not show.
    """
    surroundings = {name: value for name, value in os.environ.items() if name != "PYTHONPATH"}
    # In the store of the agent the second attempt would find the addresses of the first one's processes.
    surroundings["TORCH_DISABLE_SHARE_RDZV_TCP_STORE"] = "1"
    folder = tempfile.TemporaryDirectory(prefix="pyrometer-elastic-")
    (Path(folder.name) / "program.py").write_text(_PROGRAM)
    torchrun = sys.executable, "-m", "torch.distributed.run", "--standalone", "--nproc-per-node=2"

    def run() -> None:
        # By its name, which keeps the folder until the process ends.
        command = [*torchrun, "--max-restarts=1", str(Path(folder.name) / "program.py"), failure]
        done = subprocess.run(command, env=surroundings, capture_output=True, text=True, check=False)
        if done.returncode:
            raise RuntimeError(f"torchrun ended with {done.returncode}: {done.stderr.strip()[-300:]}")

    return run
