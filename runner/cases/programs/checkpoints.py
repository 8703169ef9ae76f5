"""Saving and loading the weights of a model, or all of it; its state, copied and pickled."""

import copy
import importlib
import pickle
import shutil
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn

from ...worker.case import case
from ...worker.prepared_case import UnsupportedCase

#: Numbers in each tensor, and along each side of it as a matrix: 4 MiB of fp32.
_NUMBERS, _SIDE = 1 << 20, 1 << 10
_DISTRIBUTED = "torch.distributed.checkpoint"


def _by_torch(folder: Path, state: dict[str, Tensor]) -> None:
    torch.save(state, folder / "model.pt")
    torch.load(folder / "model.pt", weights_only=True)


def _by_distributed_checkpoint(folder: Path, state: dict[str, Tensor]) -> None:
    checkpoint: Any = importlib.import_module(_DISTRIBUTED)
    checkpoint.save(state, checkpoint_id=folder, no_dist=True)
    checkpoint.load(state, checkpoint_id=folder, no_dist=True)


def _script_writer(state: dict[str, Tensor]) -> Callable[[Path, dict[str, Tensor]], None]:
    """What writes and reads a program of TorchScript with these weights, which is made here and now."""
    layers: list[nn.Module] = []
    for weight in state.values():
        layer = nn.Linear(_SIDE, _SIDE, bias=False)
        layer.weight = nn.Parameter(weight.view(_SIDE, _SIDE))
        layers += [layer, nn.ReLU()]
    program: Any = torch.jit.script(nn.Sequential(*layers))

    def write(folder: Path, state: dict[str, Tensor]) -> None:
        torch.jit.save(program, str(folder / "model.pt"))
        torch.jit.load(str(folder / "model.pt"))

    return write


@case(family="input pipeline", way=["torch", "distributed", "script"], mebibytes=[64])
def save_and_load(way: str, mebibytes: int) -> Callable[[], object]:
    """Weights written to a file and read back: by torch.save, torch.distributed.checkpoint or torch.jit.save.

    Guards: a copy or a check more for each tensor, and the code of a program that is read twice. The page
    cache answers: the disk is not measured.
    """
    if way == "distributed" and not hasattr(importlib.import_module(_DISTRIBUTED), "save"):
        raise UnsupportedCase(f"{_DISTRIBUTED}.save is not in this version of PyTorch ({torch.__version__})")
    state = {f"weight_{number}": torch.randn(_NUMBERS) for number in range(mebibytes // 4)}
    ways = {"torch": _by_torch, "distributed": _by_distributed_checkpoint}
    write = _script_writer(state) if way == "script" else ways[way]

    def run() -> None:
        folder = Path(tempfile.mkdtemp(prefix="pyrometer-checkpoint-"))
        try:
            write(folder, state)
        finally:
            shutil.rmtree(folder)

    return run


def _small_modules(count: int) -> nn.Sequential:
    """So many pairs of a linear layer and a layer norm, 16 wide."""
    return nn.Sequential(*(nn.Sequential(nn.Linear(16, 16), nn.LayerNorm(16)) for _ in range(count)))


@case(family="input pipeline", kind=["built", "read", "loaded", "copied", "pickled"], modules=[200])
def module_state(kind: str, modules: int) -> Callable[[], object]:
    """A network of many small modules: built, its state read, loaded or pickled, all of it copied.

    Guards: work that is done again for each module and entry, so that large models take minutes to load.
    """
    network = _small_modules(modules)
    state = network.state_dict()
    return {
        "built": lambda: _small_modules(modules),
        "read": network.state_dict,
        "loaded": lambda: network.load_state_dict(state),
        "copied": lambda: copy.deepcopy(network),
        "pickled": lambda: pickle.loads(pickle.dumps(state)),
    }[kind]
