"""What is known of a series night by night, and what is found in it."""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from statistics import median
from typing import Literal

Direction = Literal["worse", "better"]
Shape = Literal["step", "drift"]
#: `open`: too young to judge; `stayed`: later nights confirm it; `returned`: the level went back.
State = Literal["open", "stayed", "returned"]

#: So many nights before the place that was found, 95 of 100 steps of 5 % have not begun (97 of 10 %).
_CLEAR = 5
#: The place of a change that began a level may be early: of long levels so many first nights are left out.
_EDGE = 3


@dataclass(frozen=True, slots=True)
class NightValue:
    """One night's `value`, above 0 and as measured.

    `border` says what of the machine changed before this night (driver, hardware, harness...): a segment
    starts here. Empty: nothing did. On a `weekly` night the level is also compared with the one that its
    segment began with (the anchored check).
    """

    value: float
    border: str = ""
    weekly: bool = False


@dataclass(frozen=True, slots=True)
class Decision:
    """The decision of an interleaved session on a change: `confirmed`, or refuted.

    `index` is the night that the change was reported for, `night` the newest one when the session was
    measured. Nights after `night` are judged with this known. What stayed unclear is no decision.
    """

    index: int
    night: int
    confirmed: bool


@dataclass(frozen=True, slots=True)
class Rules:
    """When a change between nights is worth a comparison; raises ValueError for what cannot be meant.

    `floor` is the smallest change that matters, as a share: 0.02 is 2 %. The rest was chosen by measurement
    (docs/decisions/0016-detection.md), in standard deviations between nights where nothing else is said:

    - `slack`: by how much a night may be off without speaking for a change.
    - `reach`: how much nights together must be off beyond that.
    - `clip`: how much of it one night can say at most. So no night alone is a change, and two can be.
    - `learn`: nights before anything is judged; `relearn`: nights after a border.
    - `stay`: nights of a new level after which it is decided whether the level stayed.
    - `recent`: a candidate is listed for so many nights, so that a missed night loses none.
    - `coarsest`: a series that cannot show a step of this share within a week is not watchable.
    """

    floor: float = 0.02
    slack: float = 0.5
    reach: float = 5.5
    clip: float = 3.0
    learn: int = 8
    relearn: int = 4
    stay: int = 7
    recent: int = 7
    coarsest: float = 0.20

    def __post_init__(self) -> None:
        """Raise ValueError for rules that no series could be judged by."""
        if not (math.isfinite(self.floor) and self.floor > 0):
            raise ValueError(f"the floor is a share above 0, not {self.floor}")
        if not 0 < self.slack < self.clip < self.reach <= 2 * self.clip:
            raise ValueError(
                "slack, clip and reach grow from 0 in this order, and reach is clip twice at most"
            )
        if not 2 <= self.relearn <= self.learn or self.stay < 2 or self.recent < 1:
            raise ValueError("too few nights to learn from, to stay for or to answer for")

    @property
    def log_floor(self) -> float:
        """The floor on the scale of log ratios."""
        return math.log1p(self.floor)


@dataclass(frozen=True, slots=True)
class Change:
    """A change of `change` (a log ratio) of which night `index` is the first.

    A drift has no first night: `index` is where it left its level for good. `since` is the first night of
    the level that was left. `raised` is the night on which the change could first be seen. `strength` counts
    standard errors of the difference. `machine`: the control moved likewise, so it is the machine's and not
    PyTorch's. `relative`: it was seen against the control, as a change of their ratio, which a border does
    not hide; the series alone may look otherwise. `anchored`: a drift that the weekly check found. `change`
    is its whole size against the first nights of the segment, or against the last confirmed level, which
    begins on night `since`; `index` is the first of the nights that show it, not the night it began on.
    """

    index: int
    change: float
    direction: Direction
    shape: Shape
    strength: float
    raised: int
    since: int
    state: State = "stayed"
    machine: bool = False
    relative: bool = False
    anchored: bool = False

    @property
    def against(self) -> int:
        """The night to compare the newest one with: surely before the change, and else as late as can be.

        For a step some nights before `index`, which may be late by a few. For a drift, and for a step that
        took more nights to be seen, whose place is uncertain, an early night of the level.
        """
        if self.shape == "drift" or self.raised - self.index >= _CLEAR:
            return early(self.since, self.index)
        return max(self.since, self.index - _CLEAR)


@dataclass(frozen=True, slots=True)
class TooFewNights:
    """A series, or its part since the border `since` (empty: all of it), has `nights` of those `needed`."""

    nights: int
    needed: int
    since: str = ""


@dataclass(frozen=True, slots=True)
class TooNoisy:
    """Nights differ by `noise` by themselves; no step under `smallest` shows within a week (log ratios)."""

    noise: float
    smallest: float


@dataclass(frozen=True, slots=True)
class JudgedSeries:
    """What a series shows.

    - `candidates`: changes of the newest nights, each to be confirmed by a comparison before it is reported.
      One keeps its index, direction and shape as nights are added.
    - `returned`: what was a candidate once, and later nights took back.
    - `noise`: the standard deviation of logarithms between nights; None before two that can be compared.
    - `smallest`: the smallest step, as a log ratio, that would be a candidate within a week in four cases of
      five; None where nothing is judged yet.
    - `unwatchable`: why nothing, or nothing small, could be seen; None where it could.
    - `factor`: how many times as far as usual the next night must move: 2 after two refutations within 60
      nights, and else 1.
    """

    candidates: tuple[Change, ...]
    returned: tuple[Change, ...]
    noise: float | None
    smallest: float | None
    unwatchable: TooFewNights | TooNoisy | None = None
    factor: float = 1.0

    @property
    def watchable(self) -> bool:
        """Whether a change could be seen."""
        return self.unwatchable is None


def early(since: int, index: int) -> int:
    """A night early in the level from about `since` to `index`, and not one of the level before it.

    The first night of a level is an estimate itself, but for that of the series: where it is a night early,
    that night still has what was before.
    """
    return since + _EDGE if since and index - since >= 2 * _CLEAR else since


def logs_of(nights: Sequence[NightValue]) -> list[float]:
    """Logarithms of the values; raises ValueError for a value that is not a number above 0."""
    for number, night in enumerate(nights):
        if not (math.isfinite(night.value) and night.value > 0):
            raise ValueError(f"night {number} is {night.value}, and only numbers above 0 have a logarithm")
    return [math.log(night.value) for night in nights]


def borders_of(nights: Sequence[NightValue]) -> frozenset[int]:
    """The nights at which segments start, the first one not among them."""
    return frozenset(number for number, night in enumerate(nights) if night.border and number)


#: A level is the median of at most so many nights next to the border.
_LEVEL_NIGHTS = 30


@dataclass(frozen=True, slots=True)
class Crossing:
    """A level that moved by `change` (a log ratio) across the `border` before night `index`.

    `nights` is how many nights since the border say so. It is no verdict: what moved is not known.
    """

    index: int
    border: str
    change: float
    nights: int


def crossings(nights: Sequence[NightValue]) -> list[Crossing]:
    """Every border of a series with the levels on either side, oldest first.

    A level is the median of the 30 nights next to the border, or of as many as its segment has. Raises
    ValueError for a value that is not above 0.
    """
    values = logs_of(nights)
    edges = [0, *(at for at, night in enumerate(nights) if night.border and at), len(nights)]
    found: list[Crossing] = []
    for begin, at, end in zip(edges, edges[1:], edges[2:], strict=False):
        before, after = values[max(begin, at - _LEVEL_NIGHTS) : at], values[at : min(end, at + _LEVEL_NIGHTS)]
        found.append(Crossing(at, nights[at].border, median(after) - median(before), len(after)))
    return found
