"""What a view shows: read from the URL, written back to it, one frozen record per page.

The URL is the only place a selection lives. Names in it are slugs that stay: metric names, case keys, the
first characters of fingerprints. An unknown value in the URL becomes a complaint (one sentence) and
the view falls back to what it can show.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime, timedelta
from typing import Any, ClassVar

from dashboard.components import links, wording
from dashboard.components.query_params import (
    ALL,
    Query,
    View,
    decode_name,
    encode_name,
    find_fingerprint,
    last,
    pick,
    pick_fingerprint,
    sentence,
)
from records.findings import Finding, FindingGroup
from records.outcomes import OperatorTable, Outcome
from records.runs import Run
from records.telemetry import TelemetryWindow
from reports.text.finding_text import STATES

#: Devices side by side on the utilisation page; a machine may have more GPUs than one compares.
MAX_DEVICES = 4
#: Neither triaged nor muted.
OPEN = "open"
#: Groups of findings on offer, the first is what the page opens with; the other two are states as well.
GROUPS = (FindingGroup.OPEN, FindingGroup.IMPROVEMENT, FindingGroup.WAITING, FindingGroup.KNOWN)
#: Of the open regressions those decided within `NEW_PERIOD`.
NEW, NEW_PERIOD = "new", timedelta(days=1)
DIRECTIONS = (ALL, "worse", "better")
#: More than any page of a list has.
_DIGITS = 18


@dataclass(frozen=True, slots=True)
class Utilisation(View):
    """The utilisation page: one replicate's window. `environment` is a whole fingerprint."""

    home: ClassVar = links.UTILISATION

    run: str
    case: str
    environment: str
    replicate: int
    devices: tuple[str, ...]

    def query(self) -> dict[str, list[str]]:
        """The selection as a URL's query; what is empty is left for the page to choose."""
        chosen = self.environment != ""
        return {
            "run": [self.run],
            "case": [self.case],
            "environment": [links.short(self.environment)] if chosen else [],
            "replicate": [str(self.replicate)] if chosen else [],
            "device": list(self.devices),
        }

    def holds(self, window: TelemetryWindow) -> bool:
        """Whether a device's window belongs to the replicate that is shown."""
        shown = (self.run, self.case, self.environment, self.replicate)
        return (window.run, window.case, window.environment, window.replicate) == shown

    def after(self, name: str, value: Any) -> "Utilisation":
        """Another run or case has environments and devices of its own: those chosen before are given up."""
        after = replace(self, **{name: value})
        return replace(after, environment="", devices=()) if name in ("run", "case") else after


@dataclass(frozen=True, slots=True)
class Findings(View):
    """The list of findings; `ALL` leaves nothing out, in any field.

    `state` is a state, one of `GROUPS`, or `NEW`.
    """

    state: str
    schedule: str
    direction: str
    triage: str = ALL

    @property
    def group(self) -> FindingGroup | None:
        """The group that is shown, if it is one or a part of one."""
        wanted = FindingGroup.OPEN if self.state == NEW else self.state
        return next((group for group in GROUPS if group == wanted), None)

    def filters(self, now: datetime) -> Mapping[str, Any]:
        """The filters of the database query at a moment, which may be more than the view holds."""
        only = {name: decode_name(getattr(self, name)) or None for name in ("schedule", "direction")}
        return {
            "states": None if self.group or self.state == ALL else (self.state,),
            "group": (self.group, now) if self.group else None,
            "triage": (OPEN,) if self.triage == OPEN else None,
            "since": now - NEW_PERIOD if self.state == NEW else None,
            **only,
        }

    def holds(self, one: Finding, now: datetime | None = None) -> bool:
        """Whether the view shows a finding, at a moment: a silence ends."""
        now = now or datetime.now(UTC)
        if self.triage == OPEN and one.silenced(now):
            return False
        if self.state == NEW and (one.decided_at or one.found_at) < now - NEW_PERIOD:
            return False
        shown = one.group(now) == self.group if self.group else self.state in (ALL, one.state)
        own = self.schedule in (ALL, encode_name(one.schedule))
        return shown and own and self.direction in (ALL, one.direction)


def utilisation(
    query: Query, run: str, windows: Sequence[TelemetryWindow], preferred: Sequence[TelemetryWindow] = ()
) -> tuple[Utilisation, list[TelemetryWindow], list[str]]:
    """The replicate and devices of `run` that `query` names, the windows of all its devices, and complaints.

    `windows` are those of the run and must not be empty; without a case in `query` it is one of `preferred`.
    Raises SharedLabel for an environment that is named as several are.
    """
    complaints: list[str] = []
    cases = sorted({w.case for w in windows})
    opening = sorted({w.case for w in preferred or windows})
    with_utilisation = {w.case for w in windows if w.utilisation is not None}
    first = next((each for each in opening if each in with_utilisation), opening[0])
    case = pick(query, "case", cases, first, complaints)
    own = [w for w in windows if w.case == case]
    # The environment given last is the candidate, and stands first in a list that begins with the newest.
    environments = {w.environment: w.environment_name for w in own}
    environment = pick_fingerprint(query, "environment", environments, own[0].environment, complaints)
    own = [w for w in own if w.environment == environment]
    replicates = sorted({w.replicate for w in own})
    wanted = pick(query, "replicate", list(map(str, replicates)), str(replicates[0]), complaints)
    own = sorted((w for w in own if w.replicate == int(wanted)), key=_gpus_first)
    devices = _pick_devices(query, [w.device for w in own], complaints)
    return Utilisation(run, case, environment, int(wanted), devices), own, complaints


def findings(query: Query, known: Sequence[str]) -> tuple[Findings, list[str]]:
    """The selection of findings in `query`, whose schedules are those `known`, and complaints."""
    complaints: list[str] = []
    schedules = (ALL, *map(encode_name, known))
    state = pick(query, "state", (NEW, *GROUPS, ALL, *STATES), FindingGroup.OPEN, complaints)
    schedule = pick(query, "schedule", schedules, ALL, complaints)
    direction = pick(query, "direction", DIRECTIONS, ALL, complaints)
    triage = pick(query, "triage", (ALL, OPEN), ALL, complaints)
    return Findings(state, schedule, direction, triage), complaints


def outcome(query: Query, run: Run, outcomes: Sequence[Outcome]) -> tuple[Outcome | None, list[str]]:
    """The outcome that the URL names by case, environment and replicate, or the first traced one, if any."""
    wanted = last(query, "case")
    if wanted is None:
        # A run that only traced has nothing else to show.
        return next((o for o in outcomes if o.facts.get("operators")), None), []
    found = [o for o in outcomes if o.case == wanted]
    if not found:
        return None, [sentence("case", wanted, {o.case for o in outcomes})]
    environment, replicate = last(query, "environment"), last(query, "replicate")
    if environment:
        fingerprint = find_fingerprint(environment, {o.environment: "" for o in found})
        found = [o for o in found if o.environment == fingerprint]
    if replicate is not None:
        found = [o for o in found if str(o.replicate) == replicate]
    if not found:
        where = f"replicate {replicate or '?'} in environment {environment or '?'}"
        return None, [f"Run {run.id} has no {where} of {wanted}."]
    return found[0], []


def against(
    query: Query, own: OperatorTable, like: Sequence[OperatorTable]
) -> tuple[OperatorTable | None, list[str]]:
    """The table that the URL sets against `own`, by run and case, if it names one that is alike."""
    wanted = last(query, "against")
    if not wanted:
        return None, []
    found = [table for table in like if table_name(table) == wanted]
    if found:
        return found[0], []
    return None, [f"{wanted} is no operator table that can be subtracted from that of {table_name(own)}."]


def table_name(table: OperatorTable) -> str:
    """How an address names an operator table."""
    return f"{table.run}/{table.case}"


def page(query: Query, rows: int, per_page: int, complaints: list[str], name: str = "page") -> int:
    """The page of a list, from 1, never beyond its end; `name` is what the URL calls it.

    An address that names no page of the list is a complaint.
    """
    wanted = last(query, name) or "1"
    pages = max(1, -(-rows // per_page))
    # Of thousands of digits Python reads no number; so many say enough.
    shown = min(max(1, int(wanted[:_DIGITS])), pages) if wanted.isdecimal() else 1
    if wanted != str(shown):
        there = "there is one page" if pages == 1 else f"pages are 1 to {pages:,}"
        complaints.append(f'"{wanted}" is no page ({name}): {there}; shown is page {shown:,}.')
    return shown


def _pick_devices(query: Query, known: Sequence[str], complaints: list[str]) -> tuple[str, ...]:
    wanted = list(dict.fromkeys(query.get("device", ())))
    complaints += [sentence("device", device, known) for device in wanted if device not in known]
    devices = [device for device in wanted if device in known]
    if len(devices) > MAX_DEVICES:
        complaints.append(f"{MAX_DEVICES} devices stand side by side; the first {MAX_DEVICES} are shown.")
    if devices:
        return tuple(devices[:MAX_DEVICES])
    gpus = [device for device in known if device != wording.HOST]
    host = [device for device in known if device == wording.HOST]
    return (*gpus[: MAX_DEVICES - len(host)], *host)


def _gpus_first(window: TelemetryWindow) -> tuple[bool, str, str]:
    return window.device == wording.HOST, window.name, window.device
