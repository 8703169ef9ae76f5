"""Tests whether cases of more than a share of the weight are worse, over the cases together."""

import math

import numpy as np
from numpy.typing import NDArray

from .. import distributions

Array = NDArray[np.float64]


def partial_conjunction(p: Array, weights: Array, share: float) -> tuple[float, list[int]]:
    """The p-value of "cases of more than `share` of the weight are worse", and the cases that make it
    largest.

    Every smallest set of cases whose weight exceeds the share is tested by Fisher's combination of its
    p-values; the largest result counts, and no correction is due (Benjamini and Heller 2008). With equal
    weights that is the set of the r + 1 largest p. `weights` add up to 1; they are rounded to a thousandth
    of the share. With a share of 1 or more there is no such set, and the p-value is 0.
    """
    costs = -np.log(np.clip(p, 1e-300, 1))
    if float(np.ptp(weights)) < 1e-12:
        many = math.floor(share * len(p) + 1e-9) + 1
        if many > len(p):
            return 0.0, []
        largest = np.argsort(-p, kind="stable")[:many]
        return _fisher(float(costs[largest].sum()), many), [int(at) for at in largest]
    return _worst_set(costs, weights, share)


def _fisher(cost: float, many: int) -> float:
    return distributions.chi_squared_above(2 * many, 2 * cost)


def _worst_set(costs: Array, weights: Array, share: float) -> tuple[float, list[int]]:
    """Among minimal sets that exceed the share, the one with the largest combined p: a knapsack by size.

    Cases are added from the heaviest to the lightest, so a set is minimal when its last case makes it exceed.
    """
    if share >= 1:
        return 0.0, []
    full, order = 1000, np.argsort(-weights, kind="stable")
    units = np.minimum(np.rint(weights / max(share, 1e-9) * full), full + 1).astype(int)[order]
    # By how many cases a set has and what it weighs, which does not exceed: the least cost of any.
    least = np.full((len(order) + 1, full + 1), np.inf)
    least[0, 0] = 0.0
    #: Of each case, the sets (as bits) that are the least ones with it.
    taken: list[NDArray[np.uint8]] = []
    #: By size, the least cost of a set that exceeds, the place of its last case, and what it weighs without.
    found: dict[int, tuple[float, int, int]] = {}
    for place, (at, unit) in enumerate(zip(order, units, strict=True)):
        known = least[: place + 1]
        exceeding = known[:, full + 1 - unit :]
        if exceeding.shape[1]:
            lightest = exceeding.argmin(axis=1)
            for many, column in enumerate(lightest):
                cost = float(exceeding[many, column] + costs[at])
                if cost < found.get(many + 1, (np.inf, 0, 0))[0]:
                    found[many + 1] = cost, place, full + 1 - unit + int(column)
        grown = known[:, : full + 1 - unit] + costs[at]
        before = least[1 : place + 2, unit:]
        better = grown < before
        before[better] = grown[better]
        taken.append(np.packbits(better, axis=1))
    if not found:
        return 0.0, []
    p, many = max((_fisher(cost, many), many) for many, (cost, _, _) in found.items())
    _, last, weight = found[many]
    members = [last]
    for place in range(last - 1, -1, -1):
        left, without = many - len(members), weight - int(units[place])
        if 0 < left <= len(taken[place]) and without >= 0 and _bit(taken[place][left - 1], without):
            members.append(place)
            weight = without
    return p, sorted((int(order[place]) for place in reversed(members)), key=lambda at: costs[at])


def _bit(packed: NDArray[np.uint8], at: int) -> bool:
    return bool(packed[at // 8] >> (7 - at % 8) & 1)
