"""The reasons for and against an upgrade, as data: each kind of reason with its figures."""

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Literal, get_args

from ..comparison.case_results import CaseSide
from ..comparison.screening import MISSED_LIMIT, MISSED_SHARE, SCREEN_LIMIT
from ..comparison.verdict import Verdict
from ..geomean import Geomean
from ..metrics import METRICS
from .process_modes import Modes
from .suite_decision import RuleWord

#: The decisions, the worst first.
Decision = Literal["no-go", "unclear", "go"]
#: The kinds of reasons in order of weight: correctness first.
Kind = Literal[
    "broke",
    "guarded",
    "worst",
    "share",
    "overall",
    "memory",
    "compile",
    "shaky",
    "suspected",
    "unfinished",
    "unmeasured",
    "screened",
    "repaired",
    "gained",
]

WORST_FIRST: tuple[Decision, ...] = get_args(Decision)
_KINDS: tuple[Kind, ...] = get_args(Kind)

#: The reason why a metric of a case counts as beyond its limit: its numbers, or their absence.
Cause = Literal["limit", "no pair", "too few pairs", "was 0", "was 0 in some pairs", "slow mode"]


@dataclass(frozen=True, slots=True)
class CaseRepaired:
    """A case works that did not work before, with its previous status."""

    case: str
    status: str


@dataclass(frozen=True, slots=True)
class CaseShaky:
    """A case breaks more often in the `new` environment than in `before` replicates of the old one."""

    case: str
    new: CaseSide
    before: int
    allowed: bool = False


@dataclass(frozen=True, slots=True)
class CaseBroke:
    """A case broke, or may have if the old environment has no result: `new` is its status with the reason."""

    case: str
    new: CaseSide
    old_status: str
    certain: bool
    allowed: bool


@dataclass(frozen=True, slots=True)
class CaseRegressed:
    """A case that must not regress has regressed, or may have; `modes` are those of its processes, if any."""

    case: str
    verdict: Verdict
    modes: Modes | None = None


@dataclass(frozen=True, slots=True)
class CaseSlowerUnderLoad:
    """All of so many disturbed pairs agree that a case without an interval is slower by more than `least`."""

    case: str
    pairs: int
    least: float


@dataclass(frozen=True, slots=True)
class CaseUnknown:
    """A case that must not regress is unknown: it was not measured, or lacks this `metric`."""

    case: str
    metric: str = ""


@dataclass(frozen=True, slots=True)
class CaseBeyondLimit:
    """A metric of a case is, or may be, worse than its `limit`, a logarithm of new / old.

    `more` further cases are beyond the limit too. `modes` are those of its processes, if there are two.
    `among` is the number of cases if this one is beyond the limit only by itself, else 0.
    """

    case: str
    verdict: Verdict
    limit: float
    cause: Cause = "limit"
    more: int = 0
    modes: Modes | None = None
    among: int = 0


@dataclass(frozen=True, slots=True)
class NoneBeyondLimit:
    """None of the `known` cases is worse in the metric by `limit` (a share) or more."""

    metric: str
    limit: float
    known: int


@dataclass(frozen=True, slots=True)
class SlowerShare:
    """Whether cases of more than the share `allowed` are worse by `limit` (a share) or more.

    `state` is `kept` (they are not), `open` (they may be) or `broken` (they are). `known` cases have a
    number; `most` of them may be worse, None if their weights differ.
    """

    metric: str
    state: RuleWord
    limit: float
    allowed: float
    known: int
    most: int | None


@dataclass(frozen=True, slots=True)
class NoMean:
    """There is no geomean: no case has a ratio, or none has enough pairs."""

    metric: str
    cause: Literal["no ratio", "too few pairs"]


@dataclass(frozen=True, slots=True)
class MeanChange:
    """The geomean with its limit (a logarithm).

    `exceeded` is whether it may be beyond the limit; `proved` is whether that is proved.
    """

    metric: str
    mean: Geomean
    limit: float
    exceeded: bool
    proved: bool = True
    with_pairs: bool = True


@dataclass(frozen=True, slots=True)
class UnmeasuredShare:
    """The number of `total` cases without an interval, their share by weight, and the share `allowed`."""

    cases: int
    total: int
    share: float
    allowed: float


@dataclass(frozen=True, slots=True)
class SimilarCases:
    """The number of `total` cases that are faster, or the same."""

    metric: str
    word: Literal["faster", "same"]
    cases: int
    total: int


@dataclass(frozen=True, slots=True)
class Worse:
    """The number of `total` cases that are worse in a metric, `material` ones by `limit` (a share) or more.

    `largest` is the largest change that no other reason names, `named` whether there is a larger one.
    `too_many` is the proved share by weight if it exceeds `allowed`.
    """

    metric: str
    cases: int
    total: int
    limit: float
    material: int
    allowed: float
    largest: tuple[str, Verdict] | None = None
    named: bool = False
    too_many: float | None = None


@dataclass(frozen=True, slots=True)
class Doubtful:
    """The cases, `few` with too few pairs, of `total` that may be worse by `limit` (a share) or more."""

    metric: str
    cases: int
    total: int
    limit: float
    largest: tuple[str, Verdict]
    few: int = 0


@dataclass(frozen=True, slots=True)
class OnlyScreened:
    """The number of `total` cases that passed a screen without a difference of `limit` (a share) or more.

    At most the share `missed_share` of slow-downs by `missed_limit` are missed (see `comparison.screening`).
    """

    cases: int
    total: int
    limit: float = SCREEN_LIMIT
    missed_limit: float = MISSED_LIMIT
    missed_share: float = MISSED_SHARE


@dataclass(frozen=True, slots=True)
class SlowerInShortPairs:
    """The cases, of `total`, that were slower by `limit` (a share) or more in short pairs and have no
    interval, slowest first, each with the smallest change of a short pair (a logarithm).
    """

    cases: tuple[tuple[str, float], ...]
    total: int
    limit: float = SCREEN_LIMIT


@dataclass(frozen=True, slots=True)
class UnfinishedUpgrade:
    """The upgrade has not ended: `cases` cases have outcomes, and further cases or pairs may follow."""

    cases: int


CaseDetail = (
    CaseRepaired | CaseShaky | CaseBroke | CaseRegressed | CaseSlowerUnderLoad | CaseUnknown | CaseBeyondLimit
)
Detail = (
    CaseDetail
    | NoneBeyondLimit
    | SlowerShare
    | NoMean
    | MeanChange
    | UnmeasuredShare
    | OnlyScreened
    | SlowerInShortPairs
    | UnfinishedUpgrade
    | SimilarCases
    | Worse
    | Doubtful
)


@dataclass(frozen=True, slots=True)
class Reason:
    """One reason: the decision it supports, its kind, and its content.

    `cases` and `metric` are its subject; `weight` orders reasons of its kind. A `warning` supports `go` but
    must be reported.
    """

    speaks: Decision
    kind: Kind
    detail: Detail
    cases: tuple[str, ...] = ()
    metric: str = ""
    weight: float = 0.0
    warning: bool = False


def worst_decision(decisions: Iterable[Decision | None]) -> Decision:
    """The decision of several machines together: the worst one.

    None, for a machine without a decision, counts as unclear. Raises ValueError without machines.
    """
    ranks = (WORST_FIRST.index("unclear" if one is None else one) for one in decisions)
    return WORST_FIRST[min(ranks)]


def sort_reasons(found: Iterable[Reason]) -> list[Reason]:
    """Reasons by weight: no-go, unclear, warnings, go; in each correctness first, much before little."""

    def _key(one: Reason) -> tuple[int, bool, int, float, str, str]:
        title = METRICS[one.metric].title if one.metric else ""
        case = one.cases[0] if one.cases else ""
        weight = (WORST_FIRST.index(one.speaks), not one.warning, _KINDS.index(one.kind), -one.weight)
        return *weight, case, title

    return sorted(found, key=_key)
