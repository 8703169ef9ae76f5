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
    full = 1000
    units = np.rint(weights / max(share, 1e-9) * full).astype(int)
    least: dict[tuple[int, int], tuple[float, tuple[int, ...]]] = {(0, 0): (0.0, ())}
    found: list[tuple[float, tuple[int, ...]]] = []
    for at in np.argsort(-weights, kind="stable"):
        added: dict[tuple[int, int], tuple[float, tuple[int, ...]]] = {}
        closing: dict[int, tuple[float, tuple[int, ...]]] = {}
        for (many, weight), (cost, members) in least.items():
            total, sum_, now = weight + int(units[at]), cost + float(costs[at]), (*members, int(at))
            if total > full:
                if many not in closing or sum_ < closing[many][0]:
                    closing[many] = sum_, now
            elif (many + 1, total) not in added or sum_ < added[many + 1, total][0]:
                added[many + 1, total] = sum_, now
        found += [(_fisher(cost, many + 1), members) for many, (cost, members) in closing.items()]
        for key, entry in added.items():
            if key not in least or entry[0] < least[key][0]:
                least[key] = entry
    if not found:
        return 0.0, []
    p, members = max(found)
    return p, sorted(members, key=lambda at: costs[at])
