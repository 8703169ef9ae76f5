"""Cases that several processes share: a small transformer, one that dies, one that is greedy, a closure."""

import gc
import os
import signal
from collections import Counter
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


class Blocks(nn.Module):
    """Three blocks between two linear layers: (batch, width) to (batch, classes)."""

    def __init__(self) -> None:
        super().__init__()
        self.first = nn.Linear(WIDTH, WIDTH)
        self.layers = nn.Sequential(*(Block() for _ in range(3)))
        self.last = nn.Linear(WIDTH, CLASSES)

    def forward(self, inputs: Tensor) -> Tensor:
        return self.last(self.layers(self.first(inputs)))


def loss_for(batch: int) -> Callable[[Tensor], Tensor]:
    """Cross-entropy against targets drawn now."""
    targets = torch.randint(CLASSES, (batch,))
    return lambda output: nn.functional.cross_entropy(output, targets)


@case(phases=("infer", "train"), batch=[4])
def blocks(batch: int) -> Workload:
    return Workload(
        Blocks(),
        (torch.randn(batch, WIDTH),),
        items=batch,
        flops=2.0 * batch,
        loss=loss_for(batch),
        checkpointed=tuple(f"layers.{number}" for number in range(3)),
    )


def greedy() -> dict[str, float]:
    """Last words that take half a GiB."""
    return {"data_wait": float(torch.ones(128 << 20)[-1])}


@case()
def greedy_at_its_end() -> Workload:
    return Workload(nn.Linear(4, 4), (torch.randn(4, 4),), items=4, report=greedy)


class DiesOnRankOne(Blocks):
    """Rank 1 kills itself in the forward pass of its tenth step; its child keeps its connections open."""

    def __init__(self) -> None:
        super().__init__()
        self.steps = 0

    def forward(self, inputs: Tensor) -> Tensor:
        self.steps += 1
        note = Path(os.environ["CASES_SCRATCH"]) / f"rank{os.getpid()}.pid"
        note.write_text(str(os.getpid()))
        if self.steps == 10 and torch.distributed.get_rank() == 1:
            self._leave_a_child()
            os.kill(os.getpid(), signal.SIGKILL)
        return super().forward(inputs)

    def _leave_a_child(self) -> None:
        if (child := os.fork()) == 0:
            while True:
                signal.pause()
        note = Path(os.environ["CASES_SCRATCH"]) / f"forked{child}.pid"
        note.write_text(str(child))


@case(phases=("train",))
def ends() -> Workload:
    return Workload(DiesOnRankOne(), (torch.randn(4, WIDTH),), items=4, loss=loss_for(4))


def ends_on_rank_one() -> dict[str, float]:
    """Last words after which there is no rank 1 any more."""
    if torch.distributed.get_rank() == 1:
        os.kill(os.getpid(), signal.SIGKILL)
    return {}


@case(phases=("train",))
def ends_in_its_report() -> Workload:
    return Workload(Blocks(), (torch.randn(4, WIDTH),), items=4, loss=loss_for(4), report=ends_on_rank_one)


class NotesNewShapes(nn.Module):
    """Counts what is late: first and second calls with a shape after objects were frozen, before blocks."""

    def __init__(self) -> None:
        super().__init__()
        self.layer = nn.Linear(4, 4)
        self.calls: Counter[torch.Size] = Counter()
        self.frozen = gc.get_freeze_count()
        self.late = 0

    def forward(self, inputs: Tensor) -> Tensor:
        self.calls[inputs.shape] += 1
        self.late += self.calls[inputs.shape] <= 2 and gc.get_freeze_count() > self.frozen
        return self.layer(inputs)


@case(phases=("train",))
def in_turn() -> Workload:
    model = NotesNewShapes()
    first, *others = ((torch.randn(4, length, 4),) for length in range(1, 7))
    return Workload(
        model,
        first,
        items=4,
        variants=tuple(others),
        loss=lambda output: output.square().mean(),
        report=lambda: {"data_wait": float(model.late)},
    )


@case()
def closure() -> Callable[[], object]:
    return lambda: torch.zeros(1)
