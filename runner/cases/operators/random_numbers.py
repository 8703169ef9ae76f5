"""Random numbers: drawn, dropped, shuffled and sampled."""

from collections.abc import Callable

import torch
from torch import Tensor
from torch.nn import functional as F

from ...worker.case import Workload, case
from .operator import FunctionModel

_DRAWN: dict[str, Callable[[Tensor], Tensor]] = {
    "normal": torch.randn_like,
    "uniform": torch.rand_like,
    "exponential": lambda numbers: torch.empty_like(numbers).exponential_(),
    "bernoulli": torch.bernoulli,
    "dropout": lambda numbers: F.dropout(numbers, 0.1),
    "permutation": lambda numbers: torch.randperm(numbers.shape[-1], device=numbers.device),
    "multinomial": lambda numbers: torch.multinomial(numbers, 1),
}


def _checkable(draw: Callable[[Tensor], Tensor]) -> Callable[[Tensor], Tensor]:
    """`draw`, answering only whether the largest number is above -100, for no two draws are the same."""
    return lambda numbers: draw(numbers).amax() > -100


@case(
    family="elementwise",
    kind=["normal", "uniform", "exponential", "bernoulli", "dropout", "permutation", "multinomial"],
    rows=[64],
    columns=[16384],
)
def random_numbers(kind: str, rows: int, columns: int) -> Workload:
    """A million numbers drawn or dropped out; the places of a row shuffled; one place of each row sampled.

    Guards: a generator that draws one number at a time, or sampling that sorts.
    """
    weights = torch.rand(rows, columns)
    items = {"permutation": columns, "multinomial": rows}.get(kind, rows * columns)
    return Workload(
        FunctionModel(_checkable(_DRAWN[kind])),
        (weights,),
        items=items,
        unit="numbers",
        rotated=True,
    )
