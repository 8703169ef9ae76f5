"""Losses besides cross-entropy: of sequences, distributions, boxes, labels and triples; their gradients."""

from collections.abc import Callable

import torch
from torch import Tensor
from torch.nn import functional as F

from ...worker.case import Workload, case
from .operator import Backward, FunctionModel

#: Of a line of speech or writing: steps of scores, classes, symbols to be recognised.
_STEPS, _CLASSES, _SYMBOLS = 128, 32, 30


def _ctc(scores: Tensor, symbols: Tensor) -> Tensor:
    lines = symbols.shape[0]
    lengths = torch.full((lines,), _STEPS), torch.full((lines,), _SYMBOLS)
    return F.ctc_loss(scores.log_softmax(-1), symbols, *lengths)


def _divergence(scores: Tensor, others: Tensor) -> Tensor:
    return F.kl_div(scores.log_softmax(-1), others.softmax(-1), reduction="batchmean")


def _inputs(kind: str, rows: int, width: int) -> tuple[Tensor, ...]:
    if kind == "ctc":
        # 0 is the blank between symbols.
        return torch.randn(_STEPS, 16, _CLASSES), torch.randint(1, _CLASSES, (16, _SYMBOLS))
    if kind == "bce":
        return torch.randn(rows, width), torch.rand(rows, width).round()
    return tuple(torch.randn(rows, width) for _ in range(3 if kind == "triplet" else 2))


_LOSSES: dict[str, Callable[..., Tensor]] = {
    "ctc": _ctc,
    "kl_div": _divergence,
    "smooth_l1": F.smooth_l1_loss,
    "bce": F.binary_cross_entropy_with_logits,
    "triplet": F.triplet_margin_loss,
}


@case(
    family="elementwise",
    kind=["ctc", "kl_div", "smooth_l1", "bce", "triplet"],
    rows=[4096],
    width=[512],
)
def loss(kind: str, rows: int, width: int) -> Workload:
    """One loss: CTC over 16 lines, Kullback-Leibler, smooth L1, binary cross-entropy, a triplet's margin.

    Guards: a loss that writes what it could reduce at once, or walks a sequence in one thread.
    """
    inputs = _inputs(kind, rows, width)
    return Workload(
        FunctionModel(_LOSSES[kind]),
        inputs,
        items=inputs[-1].shape[0],
        unit="rows",
        rotated=True,
    )


@case(
    family="elementwise",
    kind=["ctc", "kl_div", "smooth_l1", "bce", "triplet"],
    rows=[4096],
    width=[512],
)
def loss_backward(kind: str, rows: int, width: int) -> Workload:
    """The gradients of one loss, alone.

    Guards: a gradient that is expanded in memory, or written number by number.
    """
    inputs = _inputs(kind, rows, width)
    return Workload(Backward(_LOSSES[kind]), inputs, items=inputs[-1].shape[0], unit="rows")
