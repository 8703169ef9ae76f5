"""The statistics of `pyrometer upgrade` for one case, by the standard library alone.

They are those of `analysis/robust_mean.py`, `plan.py` and `verdict.py` of Pyrometer, whose documentation has
the sources; the tests compare the numbers.
"""

import math
import statistics
from collections.abc import Mapping, Sequence
from typing import NamedTuple

#: A change of less than this, as a logarithm, is the same.
THRESHOLD = math.log1p(0.01)
#: The numbers of pairs at which they are judged, and how the error is divided among these looks.
_LOOKS = (4, 6, 8, 10, 12, 16, 20, 24, 32)
_PARTS = (25, 20, 12, 10, 9, 8, 7, 5, 4)
_LATER = 3
#: How often a difference of the threshold is called the same, over all looks.
_ALPHA_SAME = 0.05
_ENOUGH_TO_SET_ASIDE = 8
_ORDER_CAP = 0.03


class Judgement(NamedTuple):
    """`change`, with its interval `low`..`high`, is a logarithm of new / old."""

    word: str
    change: float
    low: float
    high: float


def looks(largest: int) -> Mapping[int, float]:
    """The numbers of pairs at which up to `largest` of them (4 or more) are judged, each with its share."""
    numbers, double = [*_LOOKS], 2 * _LOOKS[-1]
    while numbers[-1] < largest:
        numbers += [double * 3 // 4, double]
        double *= 2
    numbers = [*(number for number in numbers if number < largest), largest]
    parts = [*_PARTS, *[_LATER] * len(numbers)][: len(numbers)]
    return {number: part / sum(parts) for number, part in zip(numbers, parts)}  # noqa: B905 -- Python 3.9


def judge(logs: Sequence[float], new_first: Sequence[bool], share: float, confidence: float) -> Judgement:
    """The verdict on the pairs at a look that may spend this share of the error.

    `logs` are the logarithms of new / old, `new_first` says in which pairs the new side started. Over all
    looks together the interval holds the truth in the share `confidence` of cases.
    """
    point, error, degrees = _estimate_centre(logs, new_first)
    half = quantile(degrees, 1 - (1 - confidence) * share / 2) * error
    half_same = quantile(degrees, 1 - _ALPHA_SAME * share) * error
    word = "unclear"
    if abs(point) > half and abs(point) >= THRESHOLD:
        word = "slower" if point > 0 else "faster"
    elif abs(point) + half_same < THRESHOLD:
        word = "same"
    return Judgement(word, point, point - half, point + half)


def _estimate_centre(logs: Sequence[float], new_first: Sequence[bool]) -> tuple[float, float, int]:
    """The centre, its standard error and the degrees of freedom: the winsorised t from eight pairs on.

    Half the difference between the two orders of starting is taken out.
    """
    order, balance = _order_effect(logs, new_first)
    each = zip(logs, new_first)  # noqa: B905 -- runs on Python 3.9
    values = sorted(log - order if first else log + order for log, first in each)
    n = len(values)
    aside = n // 6 if n >= _ENOUGH_TO_SET_ASIDE else 0
    kept = [min(max(value, values[aside]), values[n - 1 - aside]) for value in values]
    if kept[0] == kept[-1]:
        # Either all agree, or setting aside left no spread to judge by.
        kept, aside = values, 0
    degrees = n - 2 * aside - 1 - (1 if balance else 0)
    middle = kept[n // 2]
    deviations = [value - middle for value in kept]
    if aside:
        error = statistics.stdev(deviations) / math.sqrt(n) * (n - 1) / degrees
    else:
        error = math.sqrt(statistics.pvariance(deviations) / degrees)
    return middle + statistics.fmean(deviations), error * max(1.0, balance), degrees


def _order_effect(logs: Sequence[float], new_first: Sequence[bool]) -> tuple[float, float]:
    """By how much the side that starts first is slower, and how much less is known for want of balance."""
    each = list(zip(logs, new_first))  # noqa: B905 -- runs on Python 3.9
    news, olds = ([log for log, first in each if first is wanted] for wanted in (True, False))
    if not news or not olds:
        return 0.0, 0.0
    middle = statistics.median if len(logs) >= _ENOUGH_TO_SET_ASIDE else statistics.fmean
    effect = (middle(news) - middle(olds)) / 2
    balance = math.sqrt((1 / len(news) + 1 / len(olds)) * len(logs) / 4)
    return min(max(effect, -_ORDER_CAP), _ORDER_CAP), balance


def quantile(degrees: int, share: float) -> float:
    """Below what Student's t of `degrees` (1 or more) has the probability `share` (0.5 to below 1)."""
    low, high = 0.0, 1.0
    while _below(degrees, high) < share:
        high *= 2
    for _ in range(100):
        middle = (low + high) / 2
        low, high = (middle, high) if _below(degrees, middle) < share else (low, middle)
    return (low + high) / 2


def _below(degrees: int, value: float) -> float:
    """The distribution function at `value`, 0 or more; Abramowitz and Stegun, 26.7.3 and 26.7.4.

    A finite sum of powers of cos(theta), where tan(theta) = value / sqrt(degrees).
    """
    theta = math.atan(value / math.sqrt(degrees))
    cosine = math.cos(theta)
    term, total = (cosine, 0.0) if degrees % 2 else (1.0, 0.0)
    for number in range(1 if degrees % 2 else 0, degrees - 1, 2):
        total += term
        term *= cosine**2 * (number + 1) / (number + 2)
    inside = math.sin(theta) * total
    if degrees % 2:
        inside = 2 / math.pi * (theta + inside)
    return 0.5 + inside / 2
