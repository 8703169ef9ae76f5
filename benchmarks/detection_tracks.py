"""Series with autocorrelated noise for detection.py: is a find true, early, and straddled?

Noise is drawn here and not fitted: independent, autoregressive, or with two modes that last some nights. A
session compares the night `against` of a candidate with the newest one; it straddles a step that begins
between the two. Of a drift the two have to lie apart by the floor, by the truth.
"""

import math
from collections.abc import Callable, Sequence

import numpy as np
from detection_series import Array

from analysis.change_points import Night, judge
from analysis.nights import Change, Decision, Rules

#: Standard deviations between nights: below 1 %, 1 to 3 %, more.
KINDS = {"low": 0.005, "mid": 0.02, "high": 0.04}
#: Two modes of a machine lie this far apart, as a log ratio.
APART = 0.05
YEAR = 365
#: A step is found within so many nights.
LATE = 30
Noise = Callable[[np.random.Generator, int, float], Array]


def autoregressive(keep: float) -> Noise:
    """Normal noise of which each night keeps the share `keep` of the one before; 0 is independent."""

    def noise(rng: np.random.Generator, nights: int, spread: float) -> Array:
        fresh = rng.normal(size=nights)
        out = fresh.copy()
        for night in range(1, nights):
            out[night] = keep * out[night - 1] + math.sqrt(1 - keep**2) * fresh[night]
        return spread * out

    return noise


def two_modes(shortest: int, longest: int, apart: float = APART) -> Noise:
    """Independent noise around two levels that take turns every `shortest` to `longest` nights."""

    def noise(rng: np.random.Generator, nights: int, spread: float) -> Array:
        lengths = rng.integers(shortest, longest + 1, nights // shortest + 2)
        modes = np.repeat(np.arange(len(lengths)) % 2, lengths)
        first = int(rng.integers(0, shortest + 1))
        return spread * rng.normal(size=nights) + apart * modes[first : first + nights]

    return noise


def outliers(rng: np.random.Generator, nights: int, spread: float) -> Array:
    """Independent noise, of which 3 of 100 times two nights are off by 5 to 20 %."""
    values = spread * rng.normal(size=nights)
    for night in np.flatnonzero(rng.random(nights) < 0.03):
        values[night : night + 2] += rng.uniform(0.05, 0.20)
    return values


def quantised(rng: np.random.Generator, nights: int, spread: float) -> Array:
    """Independent noise in steps of half a deviation."""
    return 0.5 * spread * np.round(2 * rng.normal(size=nights))


NOISES: dict[str, Noise] = {
    "independent": autoregressive(0.0),
    "AR(1) .6": autoregressive(0.6),
    "AR(1) .8": autoregressive(0.8),
    "two modes, 4-10 nights": two_modes(4, 10),
    "two modes, 4-20 nights": two_modes(4, 20),
    "outliers of two nights": outliers,
    "quantised": quantised,
}


def raised(values: Array, decisions: Sequence[Decision] = ()) -> list[Change]:
    """Every candidate of a series of logarithms, oldest first; in one pass, for the scan is causal."""
    nights = [Night(value, weekly=number % 7 == 0) for number, value in enumerate(np.exp(values).tolist())]
    judged = judge(nights, "lower", Rules(recent=len(values)), None, decisions)
    return sorted(judged.candidates + judged.returned, key=lambda one: one.raised)
