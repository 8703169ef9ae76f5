"""What detection found, what people did with it, and the notices about it."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime
from enum import StrEnum
from typing import Any

from .evidence import Evidence
from .json_values import Facts
from .series import SeriesKey


class DeliveryState(StrEnum):
    """How far a delivery is. TRYING: a sender has taken it and has not reported back."""

    TRYING = "trying"
    FAILED = "failed"
    DELIVERED = "delivered"


@dataclass(frozen=True, slots=True)
class Delivery:
    """A notice on its way to one target; `at` (aware) is when it entered its `state`.

    `tries` counts those that began, and is 0 once the target has the notice. `why` is one sentence without
    secrets on the last try that failed.
    """

    state: DeliveryState
    at: datetime
    tries: int = 0
    why: str = ""


class FindingState(StrEnum):
    """How far the measuring of a finding is, and what it came to.

    CANDIDATE: seen from night to night only. CONFIRMING: a session measures it. CONFIRMED, REFUTED and
    UNCLEAR: what the session said. NO_LONGER: later nights took it back. MACHINE: the machine changed.
    """

    CANDIDATE = "candidate"
    CONFIRMING = "confirming"
    CONFIRMED = "confirmed"
    REFUTED = "refuted"
    UNCLEAR = "unclear"
    NO_LONGER = "no longer"
    MACHINE = "machine"


class FindingTriage(StrEnum):
    """What people made of a finding. EXPECTED: known and accepted. FIXED: its return opens it again."""

    OPEN = "open"
    ACKNOWLEDGED = "acknowledged"
    EXPECTED = "expected"
    FIXED = "fixed"


@dataclass(frozen=True, slots=True)
class NewFinding:
    """A change that detection saw in a series of a track.

    `direction`: worse or better; `shape`: step or drift. `at_run` is the id of the first run after it,
    `before_run` of the last one before; environments are fingerprints, those of these two runs. `change`,
    `low` and `high` are log ratios of new to old (0.05 is about 5 %). `state` is candidate, or what is known
    at once. Findings with the same `group_key` are reported as one.
    """

    key: SeriesKey
    schedule: str
    track: str
    label: str
    direction: str
    shape: str
    at_run: str
    before_run: str
    old_environment: str
    new_environment: str
    change: float
    low: float | None = None
    high: float | None = None
    evidence: Evidence = field(default_factory=Evidence)
    group_key: str = ""
    state: FindingState = FindingState.CANDIDATE


class FindingGroup(StrEnum):
    """What a finding is to people at a moment; each is in one group. Every count and list of them asks this.

    OPEN: a confirmed regression that is neither triaged nor muted. KNOWN: triaged or muted, and
    not closed. CLOSED: refuted, taken back by later nights, or the machine's.
    """

    OPEN = "open"
    IMPROVEMENT = "improvement"
    WAITING = "waiting"
    UNCLEAR = "unclear"
    KNOWN = "known"
    CLOSED = "closed"


def group_of(state: FindingState, direction: str, *, silenced: bool) -> FindingGroup:
    """The group of a finding by its state and direction; `silenced`: triaged, or muted at that moment."""
    if state in (FindingState.REFUTED, FindingState.NO_LONGER, FindingState.MACHINE):
        return FindingGroup.CLOSED
    if silenced:
        return FindingGroup.KNOWN
    if state == FindingState.CONFIRMED:
        return FindingGroup.OPEN if direction == "worse" else FindingGroup.IMPROVEMENT
    return FindingGroup.UNCLEAR if state == FindingState.UNCLEAR else FindingGroup.WAITING


@dataclass(frozen=True, slots=True, kw_only=True)
class Finding(NewFinding):
    """A finding as it is stored, with its present state.

    `at` and `before` are when the two runs started. `muted_until` silences the report about it and changes
    nothing else. `returns_of` is the id of a finding that was fixed before. `owner` acknowledged it, the last
    one to do so; empty while it is not acknowledged.
    """

    id: int
    at: datetime
    before: datetime
    machine: str
    old_torch_version: str
    new_torch_version: str
    found_at: datetime
    decided_at: datetime | None
    triage: FindingTriage = FindingTriage.OPEN
    muted_until: datetime | None = None
    link: str = ""
    returns_of: int | None = None
    owner: str = ""

    def silenced(self, now: datetime) -> bool:
        """Whether it is triaged, or muted at present."""
        return self.triage != FindingTriage.OPEN or (self.muted_until is not None and self.muted_until > now)

    def group(self, now: datetime) -> FindingGroup:
        """What it is to people at a moment."""
        return group_of(self.state, self.direction, silenced=self.silenced(now))


@dataclass(frozen=True, slots=True)
class TriageEntry:
    """An action of a person on a finding. `action`: acknowledge, expected, fixed, mute, note, link."""

    finding_id: int
    at: datetime
    who: str
    action: str
    text: str


@dataclass(frozen=True, slots=True)
class Notice:
    """A notice that was sent, or is to be. There is one of each `kind` and `key`.

    `body` is Markdown. `deliveries` stand under their targets, which are named without their secrets; a
    target that is not there was never tried.
    """

    kind: str
    key: str
    made_at: datetime
    title: str
    body: str
    facts: Facts = field(default_factory=dict[str, Any])
    deliveries: Mapping[str, Delivery] = field(default_factory=dict[str, Delivery])
