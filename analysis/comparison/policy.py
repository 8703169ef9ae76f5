"""What a team wants from an upgrade."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from common.text import key_matches

from ..metrics import METRICS
from .thresholds import Threshold

#: What is larger is a slip of the pen, and sums of it may be too large for a float.
_MOST = 1e6


#: The three limits of a kind of metric, by the names of their fields.
RULES = ("case", "worst", "mean")


def _worst() -> dict[str, float]:
    return {"latency_floor": 0.10}


@dataclass(frozen=True, slots=True)
class Limits:
    """By how much a kind of metric may be worse, as shares: 0.05 is 5 %. Raises ValueError for no limits.

    - `case`: at most the policy's `slower_share` of the cases may be worse by this or more.
    - `worst`: no single case may be worse by more.
    - `mean`: the geomean may not be worse by more.
    - `blocks`: which of these three are a no-go where they are proved to be exceeded; of the others that is
      a warning.
    """

    case: float
    worst: float
    mean: float
    blocks: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        """Check that limits are numbers above 0, and that what blocks is one of them."""
        for limit in (self.case, self.worst, self.mean):
            if not 0 < limit <= _MOST:
                raise ValueError(f"a limit is a number above 0, at most 1e6, and {limit:g} is not")
        if self.case > self.worst:
            raise ValueError(f"the limit `case` ({self.case:g}) is above the limit `worst` ({self.worst:g})")
        for rule in self.blocks:
            if rule not in RULES:
                raise ValueError(f'what can block is one of {", ".join(RULES)}, not "{rule}"')


#: Compiling is paid once a process, and a cache spares most of it: nothing stops working, so it warns.
_COMPILE_TIME = Limits(case=0.25, worst=0.50, mean=0.10)
#: What needs a tenth more memory may not fit any more; what all cases have in common (libraries that grew by
#: 3 % from one release to the next) is seldom a reason to stay.
_PEAK_MEMORY = Limits(case=0.05, worst=0.10, mean=0.02, blocks=("worst",))


@dataclass(frozen=True, slots=True)
class Policy:
    """When an upgrade is a go; raises ValueError for what cannot be meant.

    - `metric` is what cases and the geomean are judged by.
    - `thresholds` say from what on a change of a metric matters; see `thresholds` for the defaults.
    - `must_not_regress`: globs of case keys of which none may be worse, in `metric`, in any metric of `worst`
      or in peak memory. In a `metric` that varies each of them has to be proved not to be worse by `case`.
    - `may_break`: globs of cases that may stop working, but for those that must not regress. Of all others,
      one that breaks outweighs any gain.
    - `weights`: glob to weight, the first that matches counts; 1 where none does. The user's own mix.
    - `case`: from which share on a case is materially slower. 0.05 is 5 %.
    - `slower_share`: at most this share of the measured cases, by weight, may be materially slower.
    - `worst`: by how much any single case may be worse, by metric.
    - `overall`: by how much the geomean may be worse; below 0 a gain is demanded.
    - `compile_time` and `peak_memory`: their limits, and which of them block. A metric that `worst` names has
      its single case judged by that.
    - `unmeasured_share`: more cases than this without a number, by weight, and nothing is decided.
    - `false_discovery_rate`: of what is called faster or slower, the share that may be chance; above 0, below
      0.5.
    """

    metric: str = "latency_floor"
    thresholds: Mapping[str, Threshold] = field(default_factory=dict[str, Threshold])
    must_not_regress: tuple[str, ...] = ()
    may_break: tuple[str, ...] = ()
    weights: Mapping[str, float] = field(default_factory=dict[str, float])
    case: float = 0.05
    slower_share: float = 0.10
    worst: Mapping[str, float] = field(default_factory=_worst)
    overall: float = 0.01
    compile_time: Limits = _COMPILE_TIME
    peak_memory: Limits = _PEAK_MEMORY
    unmeasured_share: float = 0.10
    false_discovery_rate: float = 0.05

    def __post_init__(self) -> None:
        """Check that names are metrics and shares are shares."""
        for name in (self.metric, *self.thresholds, *self.worst):
            if name not in METRICS:
                raise ValueError(f"no metric is called {name}")
            if METRICS[name].better == "neither":
                raise ValueError(f"{name} is a metric that is neither better nor worse, and decides nothing")
        for share in (self.slower_share, self.unmeasured_share):
            if not 0 <= share <= 1:
                raise ValueError(f"a share lies between 0 and 1, and {share} does not")
        if not 0 < self.false_discovery_rate < 0.5:
            raise ValueError(
                f"false_discovery_rate lies above 0 and below 0.5, and {self.false_discovery_rate} does not"
            )
        for limit in (self.case, *self.worst.values(), *self.weights.values()):
            if not 0 < limit <= _MOST:
                raise ValueError(f"weights and limits are numbers above 0, at most 1e6, and {limit:g} is not")
        if not -1 < self.overall <= _MOST:
            raise ValueError(
                f"the geomean can be worse by a share above -1, at most 1e6, not by {self.overall:g}"
            )

    def weight(self, case: str) -> float:
        """How much a case counts."""
        return next((weight for glob, weight in self.weights.items() if key_matches(case, glob)), 1.0)

    def guards(self, case: str) -> bool:
        """Whether the case must not regress."""
        return any(key_matches(case, glob) for glob in self.must_not_regress)

    def forgives(self, case: str) -> bool:
        """Whether the case may break; one that must not regress may not, whatever glob it matches besides."""
        return not self.guards(case) and any(key_matches(case, glob) for glob in self.may_break)

    def unmatched_globs(self, cases: Sequence[str]) -> list[tuple[str, str]]:
        """Rules and their globs that match none of the cases, as (`must_not_regress`, glob)."""
        rules = {
            "must_not_regress": self.must_not_regress,
            "may_break": self.may_break,
            "weights": self.weights,
        }
        return [
            (rule, glob)
            for rule, globs in rules.items()
            for glob in globs
            if not any(key_matches(case, glob) for case in cases)
        ]


@dataclass(frozen=True, slots=True)
class Waiver:
    """Cases that are left out of a decision: `case` is a key, a glob or the first parts of a key.

    `because` is the reason as it was given, `by` who gave it, `on` the day as YYYY-MM-DD.
    """

    case: str
    because: str
    by: str = ""
    on: str = ""

    def matches(self, case: str) -> bool:
        """Whether the case is waived."""
        return key_matches(case, self.case)
