"""Every change of a whole history, seen from today."""

import math
from collections.abc import Collection, Sequence
from itertools import groupby, pairwise

import numpy as np
from numpy.typing import NDArray

from .nights import Rules, Shape

#: The shortest segment.
SHORTEST = 5
#: The penalty of a change point, in logarithms of the number of nights. It was chosen and tested on different
#: series: docs/decisions/0016-detection.md.
_PENALTY = 3.0
#: Changes in one direction are one drift if the levels between them rise by this share of a change.
_SLOPE = 0.5

Nights = NDArray[np.float64]
Segment = tuple[int, int]


def segments(values: Sequence[float], borders: Collection[int], rules: Rules) -> list[Segment]:
    """First night and end of each segment of a series of logarithms; every border begins a segment."""
    if not values:
        return []
    edges = [0, *sorted(borders), len(values)]
    return [
        (first + low, first + high)
        for first, end in pairwise(edges)
        for low, high in pairwise(_parts(np.asarray(values[first:end], np.float64), rules.log_floor))
    ]


def _parts(values: Nights, floor: float) -> list[int]:
    """Edges of the parts of a series without borders, of which neighbours differ by `floor` or more."""
    edges = _split(values, _PENALTY * math.log(max(2, len(values))))
    while len(edges) > 2:
        levels = [float(np.median(values[low:high])) for low, high in pairwise(edges)]
        sizes = [abs(after - before) for before, after in pairwise(levels)]
        smallest = min(range(len(sizes)), key=sizes.__getitem__)
        if sizes[smallest] >= floor:
            break
        del edges[smallest + 1]
    return edges


def _split(values: Nights, penalty: float) -> list[int]:
    """Edges between which no further change is detected.

    The penalised least squares of PELT (Killick, Fearnhead and Eckley, JASA 107, 2012) are those of the
    normal scores of ranks, which make the noise normal and limit spikes. Ranks hide a change between larger
    ones, so each part is ranked again and split further.
    """
    n = len(values)
    if n < 2 * SHORTEST:
        return [0, n]
    # Imported here, because it takes as long as all the rest.
    from ruptures import KernelCPD
    from scipy import special, stats  # pyright: ignore[reportMissingTypeStubs]

    ranks = np.asarray(stats.rankdata(values), np.float64)
    scores = np.asarray(special.ndtri((ranks - 0.5) / n), np.float64)
    found = KernelCPD(kernel="linear", min_size=SHORTEST).fit(scores[:, None])
    edges = [0, *map(int, found.predict(pen=penalty) or (n,))]
    if len(edges) == 2:
        return edges
    return [
        0,
        *(low + edge for low, high in pairwise(edges) for edge in _split(values[low:high], penalty)[1:]),
    ]


def changes_between(
    values: Sequence[float], found: Sequence[Segment], borders: Collection[int]
) -> list[tuple[int, int, Shape]]:
    """The changes between segments: the first and the last one's first night, and the shape.

    Consecutive steps in one direction are one drift if the levels between them rise too. Between two segments
    with a border there is no change.
    """
    levels = [float(np.median(values[low:high])) for low, high in found]
    steps = [
        (number, 1 if levels[number] > levels[number - 1] else -1)
        for number in range(1, len(found))
        if found[number][0] not in borders
    ]
    # Neighbours in one direction, without a border between them, have the same key.
    runs = groupby(enumerate(steps), key=lambda item: (item[1][0] - item[0], item[1][1]))
    changes: list[tuple[int, int, Shape]] = []
    for (_, sign), members in runs:
        run = [number for _, (number, _) in members]
        between = found[run[0] : run[-1]] if len(run) > 1 else ()
        rise = sign * sum(_rise(values[low:high]) for low, high in between)
        steepest = sign * (levels[run[-1]] - levels[run[0] - 1]) / len(run)
        if between and rise / len(between) >= _SLOPE * steepest:
            changes.append((run[0], run[-1], "drift"))
        else:
            changes.extend((number, number, "step") for number in run)
    return changes


def _rise(values: Sequence[float]) -> float:
    """The rise of a level from first to last night, by the median of slopes (Theil 1950, Sen 1968)."""
    earlier, later = np.triu_indices(len(values), 1)
    nights = np.asarray(values, np.float64)
    return float(np.median((nights[later] - nights[earlier]) / (later - earlier))) * (len(values) - 1)
