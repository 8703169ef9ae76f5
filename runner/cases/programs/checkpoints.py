"""Saving and loading the weights of a model."""

import shutil
import tempfile
from collections.abc import Callable
from pathlib import Path

import torch
from torch import Tensor

from ...worker.case import case
from ...worker.prepared_case import Unsupported

#: Numbers in each tensor: 4 MiB of fp32.
_NUMBERS = 1 << 20


def _by_torch(folder: Path, state: dict[str, Tensor]) -> None:
    torch.save(state, folder / "model.pt")
    torch.load(folder / "model.pt", weights_only=True)


def _by_distributed_checkpoint(folder: Path, state: dict[str, Tensor]) -> None:
    from torch.distributed import checkpoint

    checkpoint.save(state, checkpoint_id=folder, no_dist=True)
    checkpoint.load(state, checkpoint_id=folder, no_dist=True)


@case(family="input pipeline", way=["torch", "distributed"], mebibytes=[64])
def save_and_load(way: str, mebibytes: int) -> Callable[[], object]:
    """Weights written to a file and read back, by torch.save or by torch.distributed.checkpoint.

    Guards: a copy or a check more for each tensor. The page cache answers: the disk is not measured.
    """
    if way == "distributed":
        from torch.distributed import checkpoint

        if not hasattr(checkpoint, "save"):
            raise Unsupported(f"torch.distributed.checkpoint.save is not in PyTorch {torch.__version__}")
    state = {f"weight_{number}": torch.randn(_NUMBERS) for number in range(mebibytes // 4)}
    write = {"torch": _by_torch, "distributed": _by_distributed_checkpoint}[way]

    def run() -> None:
        folder = Path(tempfile.mkdtemp(prefix="pyrometer-checkpoint-"))
        try:
            write(folder, state)
        finally:
            shutil.rmtree(folder)

    return run
