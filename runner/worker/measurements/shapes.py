"""What a shape costs when it is new, and once it is known."""

import itertools
from collections.abc import Mapping, Sequence
from statistics import median

from ..prepared_case import Shapes


def calls_of_each(shapes: Sequence[Shapes]) -> int:
    """How many steps it takes until every shape has come twice; 0 where all are alike."""
    return 2 * len(shapes) if len(set(shapes)) > 1 else 0


def costs(shapes: Sequence[Shapes], calls_ns: Sequence[int]) -> Mapping[str, float]:
    """`new_shape` in s and `known_shape` in ms, from the first calls of a process, `shapes` taken in turn.

    Medians: of each shape's first call, without the very first, which costs more than a shape; and of each
    shape's second call. Empty where all are alike.
    """
    if len(set(shapes)) < 2:
        return {}
    seen: dict[Shapes, int] = {}
    new: list[int] = []
    known: list[int] = []
    for shape, taken in zip(itertools.cycle(shapes), calls_ns, strict=False):
        number = seen[shape] = seen.get(shape, 0) + 1
        if number == 1 and len(seen) > 1:
            new.append(taken)
        elif number == 2:
            known.append(taken)
    found: dict[str, float] = {}
    if new:
        found["new_shape"] = median(new) / 1e9
    if known:
        found["known_shape"] = median(known) / 1e6
    return found
