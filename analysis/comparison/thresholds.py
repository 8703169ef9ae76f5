"""From what on a change of a metric matters."""

import math
from collections.abc import Mapping
from dataclasses import dataclass

from ..metrics import METRICS

#: Logarithms that differ by less are one: that of 22 / 20 is somewhat more than that of 1.1.
_ROUNDING = 1e-9


def exceeds(worse: float, limit: float) -> bool:
    """Whether a logarithm is above a limit, by more than it was rounded."""
    return worse > limit + _ROUNDING


def reaches(worse: float, limit: float) -> bool:
    """Whether a logarithm is at a limit or above it, but for how it was rounded."""
    return worse >= limit - _ROUNDING


@dataclass(frozen=True, slots=True)
class Threshold:
    """A change matters from the share `relative` on: 0.01 is 1 % more, or that much less turned round.

    `exact` is for metrics that hardly vary from process to process: they are compared as they are, and a
    difference of up to `absolute`, in the metric's unit, does not matter either.
    """

    relative: float
    absolute: float = 0.0
    exact: bool = False

    def __post_init__(self) -> None:
        """Raise ValueError for what cannot be a threshold."""
        for share in (self.relative, self.absolute):
            if not (math.isfinite(share) and share >= 0):
                raise ValueError(f"a threshold is a finite number from 0 on, not {share}")
        if not self.exact and self.relative == 0:
            raise ValueError(
                "a metric that varies needs a threshold above 0: nothing is ever proved the same"
            )

    @property
    def log(self) -> float:
        """The relative threshold on the scale of log ratios."""
        return math.log1p(self.relative)


#: For steady times the smallest change that pairs on a quiet machine decide within a minute.
_TIME = Threshold(0.01)
#: What happens once in a process varies more, and matters less.
_ONCE = Threshold(0.10)
#: The kernel's own count of pages differs by a few between equal processes.
_RESIDENT = Threshold(0.02, absolute=4.0, exact=True)
_ALLOCATED = Threshold(0.01, absolute=1.0, exact=True)
_COUNT = Threshold(0.0, exact=True)
_SIZE = Threshold(0.001, exact=True)

_DEFAULTS: Mapping[str, Threshold] = {
    **dict.fromkeys(("first_call", "cold_start", "compile_cold", "compile_warm", "export_time"), _ONCE),
    **dict.fromkeys(("capture", "instantiate", "first_replay", "new_shape", "known_shape"), _ONCE),
    **dict.fromkeys(("rss_peak", "rss_peak_steady"), _RESIDENT),
    **dict.fromkeys((name for name in METRICS if name.startswith("cuda_peak_")), _ALLOCATED),
    "graph_pool": _ALLOCATED,
    **dict.fromkeys((name for name, known in METRICS.items() if known.unit == "count"), _COUNT),
    **dict.fromkeys(("model_size", "package_size"), _SIZE),
}


def threshold_of(metric: str, given: Mapping[str, Threshold] | None = None) -> Threshold:
    """The threshold of a metric: the one `given` for it, or the default. Raises ValueError for no metric."""
    if metric not in METRICS:
        raise ValueError(f"no metric is called {metric}")
    return (given or {}).get(metric) or _DEFAULTS.get(metric, _TIME)
