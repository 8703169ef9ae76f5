"""Saving and loading the weights of a model."""

import importlib
import shutil
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from ...worker.case import case
from ...worker.prepared_case import Unsupported

#: Numbers in each tensor: 4 MiB of fp32.
_NUMBERS = 1 << 20
_DISTRIBUTED = "torch.distributed.checkpoint"


def _by_torch(folder: Path, state: dict[str, Tensor]) -> None:
    torch.save(state, folder / "model.pt")
    torch.load(folder / "model.pt", weights_only=True)


def _by_distributed_checkpoint(folder: Path, state: dict[str, Tensor]) -> None:
    checkpoint: Any = importlib.import_module(_DISTRIBUTED)
    checkpoint.save(state, checkpoint_id=folder, no_dist=True)
    checkpoint.load(state, checkpoint_id=folder, no_dist=True)


@case(family="input pipeline", way=["torch", "distributed"], mebibytes=[64])
def save_and_load(way: str, mebibytes: int) -> Callable[[], object]:
    """Weights written to a file and read back, by torch.save or by torch.distributed.checkpoint.

    Guards: a copy or a check more for each tensor. The page cache answers: the disk is not measured.
    """
    if way == "distributed" and not hasattr(importlib.import_module(_DISTRIBUTED), "save"):
        raise Unsupported(f"{_DISTRIBUTED}.save is not in this version of PyTorch ({torch.__version__})")
    state = {f"weight_{number}": torch.randn(_NUMBERS) for number in range(mebibytes // 4)}
    write = {"torch": _by_torch, "distributed": _by_distributed_checkpoint}[way]

    def run() -> None:
        folder = Path(tempfile.mkdtemp(prefix="pyrometer-checkpoint-"))
        try:
            write(folder, state)
        finally:
            shutil.rmtree(folder)

    return run
