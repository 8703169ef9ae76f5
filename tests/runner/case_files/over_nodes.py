"""Cases over two machines: a small transformer, and ones that die or stop on the second machine's rank."""

import os
import signal
from collections.abc import Callable
from pathlib import Path

import torch
from torch import Tensor, nn

from runner.worker.case import Workload, case

WIDTH, INNER, CLASSES = 16, 32, 8


class Block(nn.Module):
    """A mixing layer and a feed-forward one, each added to its input."""

    def __init__(self) -> None:
        super().__init__()
        self.mix = nn.Linear(WIDTH, WIDTH)
        self.feed_forward = nn.Sequential(nn.Linear(WIDTH, INNER), nn.GELU(), nn.Linear(INNER, WIDTH))

    def forward(self, hidden: Tensor) -> Tensor:
        hidden = hidden + self.mix(hidden)
        return hidden + self.feed_forward(hidden)


def loss_for(batch: int) -> Callable[[Tensor], Tensor]:
    """Cross-entropy against targets drawn now."""
    targets = torch.randint(CLASSES, (batch,))
    return lambda output: nn.functional.cross_entropy(output, targets)


@case(phases=("train",), batch=[4])
def blocks(batch: int) -> Workload:
    between = [Block() for _ in range(3)]
    model = nn.Sequential(nn.Linear(WIDTH, WIDTH), *between, nn.Linear(WIDTH, CLASSES))
    inputs = (torch.randn(batch, WIDTH),)
    return Workload(model, inputs, items=batch, loss=loss_for(batch), checkpointed=("1", "2", "3"))


class EndsOnRankOne(nn.Sequential):
    """In its tenth step rank 1 kills itself, or stops: `twice` in its first two processes."""

    def __init__(self, how: str) -> None:
        super().__init__(nn.Linear(WIDTH, CLASSES))
        self.how = how
        self.steps = 0

    def forward(self, inputs: Tensor) -> Tensor:
        self.steps += 1
        if self.steps == 10 and torch.distributed.get_rank() == 1:
            folder = Path(os.environ["CASES_SCRATCH"])
            before = list(folder.glob(f"{self.how}*.pid"))
            note = folder / f"{self.how}{os.getpid()}"
            note.write_text(str(os.getpid()))
            note.rename(note.with_suffix(".pid"))
            if not (self.how == "twice" and len(before) == 2):
                os.kill(os.getpid(), signal.SIGKILL if self.how == "dies" else signal.SIGSTOP)
        return super().forward(inputs)


@case(phases=("train",), how=["dies", "stops", "twice"])
def ends(how: str) -> Workload:
    if not torch.distributed.is_initialized():
        # As the baseline in its session, which is not read: refused, it costs no training.
        raise NotImplementedError("it is about several ranks")
    return Workload(EndsOnRankOne(how), (torch.randn(4, WIDTH),), items=4, loss=loss_for(4))
