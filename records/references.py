"""The references of a case: its baselines and published claims."""

from dataclasses import dataclass
from fnmatch import fnmatchcase
from typing import Literal

#: How the value of a claim is computed: `ratio` is eager fp32 / case (case / eager fp32 where a low metric is
#: not better), `saved` is 1 - case / eager fp32, `value` the metric itself in the catalogue's unit,
#: `efficiency` that of scaling against one rank.
ClaimKind = Literal["ratio", "saved", "value", "efficiency"]


@dataclass(frozen=True, slots=True)
class Baseline:
    """The first of `cases` that was measured is the baseline of a gain of this `kind`.

    `speed-up`, `memory` and `size` are against eager fp32 of the same workload, `efficiency` against the same
    technique on one rank, `one process` against a single process with all the CPUs and threads of several.
    `ranks` is how many ranks the case has for each of the baseline's. `estimator` is the metric that a
    speed-up is computed from: instances are not synchronised, so they have a throughput but no common step.
    """

    kind: str
    cases: tuple[str, ...]
    ranks: int = 1
    estimator: str = "latency_floor"


@dataclass(frozen=True, slots=True)
class Claim:
    """One published or circulated claim about the cases that match one of `cases` (globs).

    It says that `metric` lies between `low` and `high`, read as `kind` says; the two are equal for a claim of
    one number. `url` is empty if the source could not be found.
    """

    cases: tuple[str, ...]
    statement: str
    metric: str
    kind: ClaimKind
    low: float
    high: float
    hardware: str
    source: str
    url: str

    def concerns(self, case: str) -> bool:
        """Whether the claim is about this case key."""
        return any(fnmatchcase(case, pattern) for pattern in self.cases)
