"""Findings of detection, their triage, and the notices about them."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime
from enum import StrEnum
from typing import Any

from .evidence import Evidence
from .json_values import Facts
from .series import SeriesKey


class DeliveryState(StrEnum):
    """The state of a delivery. TRYING: a sender has claimed it and has not reported a result yet."""

    TRYING = "trying"
    FAILED = "failed"
    DELIVERED = "delivered"


@dataclass(frozen=True, slots=True)
class Delivery:
    """A notice on its way to one target; `at` (aware) is when it entered its `state`.

    `tries` counts the attempts that were started; it is 0 once the target has the notice. `why` is one
    sentence without secrets on the last try that failed.
    """

    state: DeliveryState
    at: datetime
    tries: int = 0
    why: str = ""


class FindingState(StrEnum):
    """The state of a finding.

    CANDIDATE: seen from night to night only. CONFIRMING: a session is measuring it. CONFIRMED, REFUTED and
    UNCLEAR: the decision of the session. NO_LONGER: the change disappeared in later nights. MACHINE: the
    machine changed.
    """

    CANDIDATE = "candidate"
    CONFIRMING = "confirming"
    CONFIRMED = "confirmed"
    REFUTED = "refuted"
    UNCLEAR = "unclear"
    NO_LONGER = "no longer"
    MACHINE = "machine"


class FindingTriage(StrEnum):
    """The triage of a finding. EXPECTED: known and accepted. FIXED: it is reopened if the change returns."""

    OPEN = "open"
    ACKNOWLEDGED = "acknowledged"
    EXPECTED = "expected"
    FIXED = "fixed"


@dataclass(frozen=True, slots=True)
class NewFinding:
    """A change that detection saw in a series of a track.

    `direction`: worse or better; `shape`: step or drift. `at_run` is the id of the first run after it,
    `before_run` of the last one before; environments are fingerprints, those of these two runs. `change`,
    `low` and `high` are log ratios of new to old (0.05 is about 5 %). `state` is candidate, unless another
    state is known immediately. Findings with the same `group_key` are reported as one.
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
    """The group of a finding at a moment; each finding is in exactly one. All counts and lists use these
    groups.

    OPEN: a confirmed regression that is neither triaged nor muted. KNOWN: triaged or muted, and not closed.
    CLOSED: refuted, no longer seen in later nights, or attributed to the machine.
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

    `at` and `before` are when the two runs started. `muted_until` suppresses notices about it and changes
    nothing else. `returns_of` is the id of an earlier finding that was marked fixed and has returned. `owner`
    is the last person who acknowledged it; empty while it is not acknowledged.
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
        """Whether it is triaged, or muted now."""
        return self.triage != FindingTriage.OPEN or (self.muted_until is not None and self.muted_until > now)

    def group(self, now: datetime) -> FindingGroup:
        """Its group at a moment."""
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
    """A notice that was sent or will be sent. `kind` and `key` together are unique.

    `body` is Markdown. `deliveries` are by target, named without its secrets; a missing target was never
    tried.
    """

    kind: str
    key: str
    made_at: datetime
    title: str
    body: str
    facts: Facts = field(default_factory=dict[str, Any])
    deliveries: Mapping[str, Delivery] = field(default_factory=dict[str, Delivery])
