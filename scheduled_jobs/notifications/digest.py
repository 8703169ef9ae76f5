"""The digest of a night: findings grouped, the largest first, and nothing reported twice."""

from collections import defaultdict
from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass
from datetime import date, datetime

from analysis.staleness import LostCase, MachineDisturbance, Outage, part_label
from records.findings import Finding, FindingState
from records.tasks import TaskState
from reports.text.staleness_text import describe_disturbance, silence

from ..detection.border_levels import BorderChange

#: The most changes of a group that are listed.
TOP = 5

#: States of findings that are listed, and those that are only counted.
REPORTED = (FindingState.CONFIRMED, FindingState.MACHINE)
WAITING = (FindingState.CANDIDATE, FindingState.CONFIRMING)
COUNTED = (FindingState.REFUTED, FindingState.UNCLEAR)

#: The identity of a lost case across digests: its schedule, part and case.
CoverageKey = tuple[str, str, str]

_NOT_DONE = (TaskState.FAILED, TaskState.LOST, TaskState.CANCELLED, "missed")


@dataclass(frozen=True, slots=True)
class ContinuedChange:
    """A confirmed change that was `reported` with one size since the night of `since`, and has the size
    `change` on the night `now`.

    Both are log ratios of new to old, the first one measured in pairs, the second by the nights since.
    """

    finding: int
    case: str
    metric: str
    machine: str
    direction: str
    reported: float
    change: float
    since: datetime
    now: datetime


def continued_changes(
    findings: Iterable[Finding], since: datetime, until: datetime
) -> tuple[ContinuedChange, ...]:
    """The changes whose continuation was recorded after `since` and until `until`, largest first.

    Silenced findings are left out, and those with a later finding, which was measured in pairs.
    """
    found = [
        _goes_on(one)
        for one in findings
        if one.state == FindingState.CONFIRMED
        and not one.silenced(until)
        and within(_noted_at(one), since, until)
    ]
    return tuple(sorted(found, key=lambda one: (one.direction != "worse", -abs(one.change), one.finding)))


def _noted_at(one: Finding) -> datetime | None:
    continuation = one.evidence.goes_on
    if continuation is None or continuation.finding is not None:
        return None
    return datetime.fromisoformat(continuation.noted_at)


def _goes_on(one: Finding) -> ContinuedChange:
    continuation = one.evidence.goes_on
    assert continuation is not None
    return ContinuedChange(
        finding=one.id,
        case=one.key.case,
        metric=one.key.metric,
        machine=one.machine,
        direction=one.direction,
        reported=one.change,
        change=continuation.change,
        since=one.at,
        now=datetime.fromisoformat(continuation.night),
    )


@dataclass(frozen=True, slots=True)
class PartResult:
    """The result of one due part of a schedule: the state of its task, and its run if it has one.

    `state`: done, failed, lost, cancelled, waiting, running, missed. `ok` is the number of `cases` whose
    replicates are all ok. `error` is the reason if it is not done.
    """

    schedule: str
    part: str
    due_at: datetime
    state: str
    machine: str = ""
    run: str = ""
    ok: int = 0
    cases: int = 0
    error: str = ""


@dataclass(frozen=True, slots=True)
class UpgradeDecision:
    """An upgrade from `old` to `new` that was judged; `decision` is go, no-go or unclear."""

    old: str
    new: str
    decision: str
    machine: str
    run: str
    reasons: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class DigestProblem:
    """A problem of the machines or the service.

    `key` is its identity. `kind`: silent, missing, coverage, disturbed, failed, undelivered. For a missing
    night, `part` is its part and `due_at` its fire time.
    """

    kind: str
    key: str
    sentence: str
    part: str = ""
    due_at: datetime | None = None


@dataclass(frozen=True, slots=True)
class DigestData:
    """The data of a night.

    `night` is a local date of `timezone`; the digest covers the time after `since` and until `until` (aware).
    `reported` are the findings of earlier digests, `reported_as_machines` those attributed only to the
    machine. `not_ok` is the number of the measured `cases` that are not ok. `still` are the confirmed changes
    without a triage; `open` is the number of open regressions (`records.findings.FindingGroup`).
    `lost_before` is the coverage in the digest before, and `lost_still` the part of it that was not measured
    since. `notices` are sentences, and so are `changed`, the changes of machines from the night before.
    `crossed` are the level changes across them.
    """

    night: date
    timezone: str
    since: datetime
    until: datetime
    ran: Sequence[PartResult] = ()
    cases: int = 0
    not_ok: int = 0
    findings: Sequence[Finding] = ()
    still: Sequence[Finding] = ()
    open: int = 0
    reported: Collection[int] = frozenset()
    reported_as_machines: Collection[int] = frozenset()
    upgrades: Sequence[UpgradeDecision] = ()
    notices: Sequence[str] = ()
    changed: Sequence[str] = ()
    crossed: Sequence[BorderChange] = ()
    outages: Sequence[Outage] = ()
    lost_cases: Sequence[LostCase] = ()
    lost_before: Collection[CoverageKey] = frozenset()
    lost_still: Collection[CoverageKey] = ()
    disturbed: Sequence[MachineDisturbance] = ()
    disturbed_share: float = 0.05
    failed: Sequence[DigestProblem] = ()
    undelivered: Sequence[DigestProblem] = ()


@dataclass(frozen=True, slots=True)
class CaseChange:
    """A changed case with its metric of the largest change, as log ratios of new to old.

    `began_as` is the finding that reported a drift before; `after` is a night before the beginning of a
    drift, None for a step.
    """

    finding: int
    case: str
    metric: str
    change: float
    low: float | None
    high: float | None
    shape: str
    returned: bool
    began_as: int | None
    after: datetime | None
    link: str
    others: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class ChangeGroup:
    """Cases that changed in one night on one machine between two environments, which may be the same (`one`).

    `top` are the largest of `count`; `night` is the start of the first run with the change.
    """

    night: datetime
    machine: str
    old: str
    new: str
    one: bool
    top: tuple[CaseChange, ...]
    count: int

    @property
    def largest(self) -> CaseChange:
        """The case with the largest change."""
        return self.top[0]


@dataclass(frozen=True, slots=True)
class Digest:
    """The digest of a night, with lists sorted worst first.

    `waiting` are the reasons why candidates wait, with counts. `open` counts the open regressions, reported
    before or not; `silenced` those not reported because of their triage. `ids` are the findings in this
    digest, `machine_ids` those attributed to the machine, `coverage` the keys of lost cases.
    """

    night: date
    timezone: str
    since: datetime
    until: datetime
    ran: tuple[PartResult, ...]
    cases: int
    not_ok: int
    regressions: tuple[ChangeGroup, ...]
    improvements: tuple[ChangeGroup, ...]
    machine: tuple[ChangeGroup, ...]
    going_on: tuple[ContinuedChange, ...]
    waiting: tuple[tuple[str, int], ...]
    refuted: int
    unclear: int
    open: int
    silenced: int
    upgrades: tuple[UpgradeDecision, ...]
    notices: tuple[str, ...]
    changed: tuple[str, ...]
    crossed: tuple[BorderChange, ...]
    problems: tuple[DigestProblem, ...]
    ids: tuple[int, ...]
    machine_ids: tuple[int, ...]
    coverage: tuple[CoverageKey, ...]

    @property
    def quiet(self) -> bool:
        """Whether there is nothing to report."""
        contents = (
            self.regressions,
            self.improvements,
            self.machine,
            self.going_on,
            self.upgrades,
            self.notices,
            self.changed,
            self.crossed,
            self.problems,
            self.waiting,
        )
        return not any(contents) and all(ran.state == TaskState.DONE for ran in self.ran)


def digest(night: DigestData) -> Digest:
    """The digest of a night, a pure function of its data."""
    known = [
        one for one in night.findings if one.state == FindingState.CONFIRMED and one.silenced(night.until)
    ]
    new = [
        one
        for one in night.findings
        if one.state in REPORTED and not _was_reported(one, night) and not one.silenced(night.until)
    ]
    confirmed = [one for one in new if one.state == FindingState.CONFIRMED and not _is_part(one, new)]
    ended = [one for one in night.findings if within(one.decided_at, night.since, night.until)]
    return Digest(
        night=night.night,
        timezone=night.timezone,
        since=night.since,
        until=night.until,
        ran=tuple(sorted(night.ran, key=lambda ran: (ran.machine, ran.schedule, ran.part, ran.due_at))),
        cases=night.cases,
        not_ok=night.not_ok,
        regressions=groups(one for one in confirmed if one.direction == "worse"),
        improvements=groups(one for one in confirmed if one.direction == "better"),
        machine=groups(one for one in new if one.state == FindingState.MACHINE),
        going_on=continued_changes(night.still, night.since, night.until),
        waiting=_waiting(one for one in night.findings if not one.silenced(night.until)),
        refuted=sum(one.state == FindingState.REFUTED for one in ended),
        unclear=sum(one.state == FindingState.UNCLEAR for one in ended),
        open=night.open,
        silenced=sum(one.id not in night.reported for one in known),
        upgrades=tuple(night.upgrades),
        notices=tuple(night.notices),
        changed=tuple(night.changed),
        crossed=tuple(night.crossed),
        problems=_problems(night),
        ids=tuple(one.id for one in new),
        machine_ids=tuple(one.id for one in new if one.state == FindingState.MACHINE),
        coverage=tuple(dict.fromkeys((*map(_coverage_key, night.lost_cases), *night.lost_still))),
    )


def _was_reported(one: Finding, night: DigestData) -> bool:
    """Whether an earlier digest reported it in its present category: machine or regression."""
    return one.id in night.reported or (
        one.state == FindingState.MACHINE and one.id in night.reported_as_machines
    )


def _is_part(one: Finding, new: Iterable[Finding]) -> bool:
    """Whether this finding is a piece of a drift that another finding of the night reports as a whole."""
    return any(
        other.shape == "drift"
        and other.state == FindingState.CONFIRMED
        and (other.key, other.machine, other.direction) == (one.key, one.machine, one.direction)
        and other.before < one.at < other.at
        for other in new
    )


def groups(findings: Iterable[Finding]) -> tuple[ChangeGroup, ...]:
    """Findings by night, machine and pair of environments, the group with the largest change first."""
    by_cause: dict[tuple[str, ...], list[Finding]] = defaultdict(list)
    for one in findings:
        by_cause[one.at_run, one.machine, one.old_environment, one.new_environment].append(one)
    made = [_group(own) for own in by_cause.values()]
    return tuple(sorted(made, key=lambda group: -abs(group.largest.change)))


def _group(findings: Sequence[Finding]) -> ChangeGroup:
    of_case: dict[str, list[Finding]] = defaultdict(list)
    for one in sorted(findings, key=lambda one: (-abs(one.change), one.id)):
        of_case[one.key.case].append(one)
    moved = [_case_change(own) for own in of_case.values()]
    first = findings[0]
    return ChangeGroup(
        first.at,
        first.machine,
        first.old_torch_version,
        first.new_torch_version,
        first.old_environment == first.new_environment,
        tuple(moved[:TOP]),
        len(moved),
    )


def _case_change(findings: Sequence[Finding]) -> CaseChange:
    largest, *others = findings
    return CaseChange(
        finding=largest.id,
        case=largest.key.case,
        metric=largest.key.metric,
        change=largest.change,
        low=largest.low,
        high=largest.high,
        shape=largest.shape,
        returned=any(one.returns_of is not None for one in findings),
        began_as=largest.evidence.began_as,
        after=largest.before if largest.shape == "drift" else None,
        link=largest.link,
        others=tuple(dict.fromkeys(one.key.metric for one in others if one.key.metric != largest.key.metric)),
    )


def _waiting(findings: Iterable[Finding]) -> tuple[tuple[str, int], ...]:
    count: dict[str, int] = defaultdict(int)
    for one in findings:
        if one.state == FindingState.CONFIRMING:
            count["is being measured again"] += 1
        elif one.state == FindingState.CANDIDATE:
            count[one.evidence.waits or "is to be measured again"] += 1
    return tuple(sorted(count.items(), key=lambda each: (-each[1], each[0])))


def _problems(night: DigestData) -> tuple[DigestProblem, ...]:
    silent = [
        DigestProblem("silent", one.key, silence(one))
        if one.kind == "machine"
        else DigestProblem("missing", one.key, silence(one), one.name, one.since)
        for one in night.outages
    ]
    spoiled = [
        DigestProblem("disturbed", one.machine, f"machine {one.machine}: {describe_disturbance(one)}")
        for one in night.disturbed
        if one.reported(night.disturbed_share)
    ]
    return (*silent, *_missing(night), *_coverage(night), *spoiled, *night.failed, *night.undelivered)


def _missing(night: DigestData) -> list[DigestProblem]:
    """The parts that were due and not done; a part that was done later is not missing.

    A missed night within a reported outage is part of the outage.
    """
    silent = {one.name for one in night.outages if one.kind == "night"}
    # The newest one counts, in any order.
    made = sorted((ran for ran in night.ran if ran.state == TaskState.DONE), key=lambda ran: ran.due_at)
    done = {(ran.schedule, ran.part): ran.due_at for ran in made}
    whole = {ran.schedule: ran.due_at for ran in made}
    found: list[DigestProblem] = []
    for ran in night.ran:
        latest = whole.get(ran.schedule) if ran.state == "missed" else done.get((ran.schedule, ran.part))
        if ran.state not in _NOT_DONE or (latest is not None and latest >= ran.due_at):
            continue
        name = part_label(ran.schedule, ran.part)
        if ran.state != TaskState.CANCELLED or name not in silent:
            key = f"{name} {ran.due_at.isoformat()}"
            found.append(DigestProblem("missing", key, _not_done(ran, name), name, ran.due_at))
    return found


def _not_done(ran: PartResult, name: str) -> str:
    if ran.state == "missed":
        return f"{name} was due and no scheduler was running"
    why = f": {ran.error}" if ran.error else ""
    return f"{name} was due and {'was cancelled' if ran.state == TaskState.CANCELLED else ran.state}{why}"


def _coverage(night: DigestData) -> list[DigestProblem]:
    """A problem for each target with lost cases that the digest before did not report."""
    parts: dict[tuple[str, str], list[LostCase]] = defaultdict(list)
    for one in night.lost_cases:
        parts[one.schedule, one.part].append(one)
    found: list[DigestProblem] = []
    for (schedule, part), own in parts.items():
        new = [one for one in own if _coverage_key(one) not in night.lost_before]
        if not new:
            continue
        first = "; ".join(f"{one.case} {_case_ending(one)}" for one in new[:TOP])
        more = f"; and {len(new) - TOP} more" if len(new) > TOP else ""
        count, verb = ("1 case", "is") if len(new) == 1 else (f"{len(new)} cases", "are")
        name = part_label(schedule, part)
        sentence = f"{count} of {name} {verb} no longer measured: {first}{more}"
        found.append(DigestProblem("coverage", name, sentence))
    return found


def _case_ending(one: LostCase) -> str:
    return f"({one.status}: {one.reason})" if one.reason else f"({one.status})"


def _coverage_key(one: LostCase) -> CoverageKey:
    return one.schedule, one.part, one.case


def within(moment: datetime | None, since: datetime, until: datetime) -> bool:
    """Whether something happened in the time of a digest."""
    return moment is not None and since < moment <= until
