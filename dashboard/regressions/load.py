"""The view of the Regressions page and its queries, cached for a few seconds.

All functions that ask raise `db.errors.DatabaseError`.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Any

from dashboard.auth import reader
from dashboard.components.load import MOST_FINDINGS, cache
from dashboard.components.query_params import ALL, Query, View, decode_name, encode_name, pick
from dashboard.server.database import by_url, database_at
from db.findings import store
from records.findings import Finding, FindingGroup, TriageEntry
from reports.text.finding_text import STATES

#: Neither triaged nor muted.
OPEN = "open"
#: The groups of findings to choose from, the default first; the other two are also states.
GROUPS = (FindingGroup.OPEN, FindingGroup.IMPROVEMENT, FindingGroup.WAITING, FindingGroup.KNOWN)
#: Of the open regressions those decided within `NEW_PERIOD`.
NEW, NEW_PERIOD = "new", timedelta(days=1)
DIRECTIONS = (ALL, "worse", "better")


@dataclass(frozen=True, slots=True)
class Findings(View):
    """The list of findings; `ALL` in a field does not filter.

    `state` is a state, one of `GROUPS`, or `NEW`.
    """

    state: str
    schedule: str
    direction: str
    triage: str = ALL

    @property
    def group(self) -> FindingGroup | None:
        """The displayed group, if the state is one or a part of one."""
        wanted = FindingGroup.OPEN if self.state == NEW else self.state
        return next((group for group in GROUPS if group == wanted), None)

    def filters(self, now: datetime) -> Mapping[str, Any]:
        """The filters of the database query at a moment; the result may contain more than the view."""
        only = {name: decode_name(getattr(self, name)) or None for name in ("schedule", "direction")}
        return {
            "states": None if self.group or self.state == ALL else (self.state,),
            "group": (self.group, now) if self.group else None,
            "triage": (OPEN,) if self.triage == OPEN else None,
            "since": now - NEW_PERIOD if self.state == NEW else None,
            **only,
        }

    def holds(self, one: Finding, now: datetime | None = None) -> bool:
        """Whether the view shows a finding at a moment, because a mute may have ended."""
        now = now or datetime.now(UTC)
        if self.triage == OPEN and one.silenced(now):
            return False
        if self.state == NEW and (one.decided_at or one.found_at) < now - NEW_PERIOD:
            return False
        is_visible = one.group(now) == self.group if self.group else self.state in (ALL, one.state)
        own = self.schedule in (ALL, encode_name(one.schedule))
        return is_visible and own and self.direction in (ALL, one.direction)


def chosen(query: Query, schedules: Sequence[str]) -> tuple[Findings, list[str]]:
    """The selection of findings in `query`, one of `schedules`, and complaints."""
    complaints: list[str] = []
    state = pick(query, "state", (NEW, *GROUPS, ALL, *STATES), FindingGroup.OPEN, complaints)
    schedule = pick(query, "schedule", (ALL, *map(encode_name, schedules)), ALL, complaints)
    direction = pick(query, "direction", DIRECTIONS, ALL, complaints)
    triage = pick(query, "triage", (ALL, OPEN), ALL, complaints)
    return Findings(state, schedule, direction, triage), complaints


schedules_with_findings = cache(by_url(store.schedules_with_findings))
triage_refusal = cache(by_url(store.triage_refusal))


@cache
def findings(url: str, selection: Findings) -> list[Finding]:
    """The findings of a kind, newest first; one more than are listed if there are more."""
    filters = selection.filters(datetime.now(UTC))
    return store.findings(database_at(url), **filters, newest=MOST_FINDINGS + 1)


@cache
def findings_by_group(url: str, schedule: str | None) -> Mapping[FindingGroup, int]:
    """The number of findings in each group now, of all schedules or of one."""
    return store.group_counts(database_at(url), datetime.now(UTC), schedule)


@cache
def finding(url: str, number: int) -> tuple[Finding, list[TriageEntry]] | None:
    """One finding with its triage log; None for an unknown number."""
    one = store.finding(database_at(url), number)
    return None if one is None else (one, store.triage_log(database_at(url), number))


def triage(url: str, number: int, action: str, who: str, text: str, until: datetime | None) -> None:
    """Record an action of a person on a finding, and clear the caches.

    With a login it is recorded under that name instead of `who`. Raises NotAllowed if the reader may not
    triage, or no longer.
    """
    name = reader.signature(who)
    store.triage(database_at(url), number, action, name, text, until, datetime.now(UTC))
    findings.clear()
    findings_by_group.clear()
    finding.clear()
