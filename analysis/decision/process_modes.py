"""Whether the processes of a case fall into two groups, one slower than the other for its whole life."""

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from .. import distributions

#: Two groups lie at least so far apart (a logarithm), and so many times the spread within them.
_APART, _SPREADS = math.log(1.10), 6.0
#: So many processes make a group, and so many pairs within one group can be judged.
_FEWEST, _FEWEST_PAIRS = 2, 4
#: With this p-value or less one side has more slow processes than the other by more than chance; with the
#: second one it may have.
_UNEVEN, _SUSPECT = 0.01, 0.2


@dataclass(frozen=True, slots=True)
class Modes:
    """Processes in two modes, found without looking at their side.

    `slower` is the ratio of the two centres; `old_slow` and `new_slow` of a side's `pairs` processes were in
    the slow mode. `within` says for each pair whether both its processes were in the same mode. `p` is that
    of Fisher's exact test that both sides are slow equally often. `split` is whether pairs are judged within
    a mode: not where each side has a mode of its own, for that is a change and no mode.
    """

    slower: float
    old_slow: int
    new_slow: int
    pairs: int
    within: tuple[bool, ...]
    p: float
    split: bool

    @property
    def has_more_slow(self) -> bool:
        """Whether new processes may be in the slow mode oftener, of which pairs within a mode say nothing."""
        return self.split and self.new_slow > self.old_slow and self.p <= _SUSPECT


def find_modes(floors: Sequence[tuple[float, float]]) -> Modes | None:
    """The modes of the processes of pairs (log value old, log value new); None where there is but one.

    The processes of both sides are pooled. The widest gap between neighbours parts them where it is wider
    than 10 % and than six times the robust spread of either group, with two processes or more on either bank.
    """
    pooled = np.sort(np.array([value for pair in floors for value in pair]))
    if len(pooled) < 2 * _FEWEST or not np.isfinite(pooled).all():
        return None
    gaps = np.diff(pooled)[_FEWEST - 1 : len(pooled) - _FEWEST]
    at = int(np.argmax(gaps)) + _FEWEST
    fast, slow = pooled[:at], pooled[at:]
    spread = max(_spread(fast), _spread(slow))
    if gaps[at - _FEWEST] <= max(_APART, _SPREADS * spread):
        return None
    bar = (fast[-1] + slow[0]) / 2
    old = [bool(pair[0] > bar) for pair in floors]
    new = [bool(pair[1] > bar) for pair in floors]
    within = tuple(one == other for one, other in zip(old, new, strict=True))
    n = len(floors)
    p = distributions.fisher_exact([[sum(old), n - sum(old)], [sum(new), n - sum(new)]])
    own_mode = (all(old) and not any(new)) or (all(new) and not any(old))
    split = not own_mode and p > _UNEVEN and sum(within) >= _FEWEST_PAIRS
    ratio = math.exp(float(np.median(slow) - np.median(fast)))
    return Modes(ratio, sum(old), sum(new), n, within, p, split)


def _spread(values: NDArray[np.float64]) -> float:
    """The standard deviation by the median of absolute deviations."""
    return 1.4826 * float(np.median(np.abs(values - np.median(values))))
