"""Collect the data of a digest: tasks that were due, findings, verdicts and outages."""

from collections import defaultdict
from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass
from datetime import date, datetime, time, timedelta

from analysis.staleness import (
    OVER,
    LostCase,
    MachineDisturbance,
    MeasuredNight,
    Outage,
    coverage,
    machine_disturbance,
    newest_measured,
    runs_before,
)
from configuration.schedules import zone
from configuration.settings import Settings
from db.connection.engine import Database
from db.findings.notices import notices
from db.findings.store import findings, open_regressions
from db.queue.queries import scheduled_runs, schedulers, tasks
from db.runs.queries import endings, run_summary
from db.runs.run_changes import run_changes
from records.findings import Finding, FindingState, FindingTriage, Notice
from records.outcomes import OutcomeCount, OutcomeStatus
from records.tasks import ScheduledRun, Task, TaskState
from workflows import fleet_status
from workflows.fleet_status import Patience

from ..detection.border_levels import BORDER_CHANGES, BorderChange, border_change_of
from ..detection.series_history import border
from .delivery import given_up_at
from .digest import (
    COUNTED,
    REPORTED,
    WAITING,
    CoverageKey,
    DigestData,
    DigestProblem,
    PartResult,
    UpgradeDecision,
    within,
)

#: Kinds of notices: those that are sent here, and those of discovery about releases.
DIGEST = "digest"
RELEASE = "release"

#: The largest age of an unreported finding, and the numbers of digests and of notices of all kinds that are
#: read.
_BACK = timedelta(days=60)
_DIGESTS, _NOTICES = 500, 500
#: The most of a night that are examined one by one.
_SCHEDULED_RUNS, _TASKS, _FINDINGS = 300, 500, 10_000


@dataclass(frozen=True, slots=True)
class EarlierDigests:
    """The reports of earlier digests: their end, their findings, and the coverage in the last one.

    `as_machines` are findings that were reported only as changes of the machine. `known_since` is the time
    from which on all digests were read.
    """

    until: datetime | None
    reported: frozenset[int]
    as_machines: frozenset[int]
    coverage: frozenset[CoverageKey]
    known_since: datetime


def night_of(moment: datetime, timezone: str) -> date:
    """The local date of a moment: the key of the digest that is made then."""
    return moment.astimezone(zone(timezone)).date()


def usual_span(night: date, timezone: str) -> tuple[datetime, datetime]:
    """From noon to noon, local time: the night that ended on that date."""
    noon = datetime.combine(night, time(12), zone(timezone))
    return datetime.combine(night - timedelta(days=1), time(12), zone(timezone)), noon


def stored_digest(database: Database, night: date) -> Notice | None:
    """The last digest of a night; None if there is none, or none recent enough."""
    digests = _digests(database)
    return next((one for one in digests if one.facts["night"] == night.isoformat()), None)


def _digests(database: Database) -> list[Notice]:
    """The newest digests, newest first; queried separately, because a silent fleet makes many notices of
    other kinds.
    """
    return notices(database, _DIGESTS, kinds=(DIGEST,))


def outages(database: Database, settings: Settings, now: datetime) -> list[Outage]:
    """The machines and schedules that are overdue at this moment, by the clock that all machines share."""
    found = fleet_status.outages(database, schedulers(database), now, Patience.of(settings.alerts))
    return [*found.machines, *found.nights]


def measuring_tasks(database: Database) -> list[Task]:
    """The newest tasks that measure, in any state."""
    return tasks(database, job="measure", newest=_TASKS)


def collect_digest_data(
    database: Database,
    settings: Settings,
    night: date,
    since: datetime | None,
    until: datetime,
    shared: datetime | None = None,
) -> DigestData:
    """The data of the time after `since` (None: the digest before) and up to `until`, both aware.

    `shared` is `until` by the clock that all machines share (None: the same).
    """
    notices_made = notices(database, _NOTICES)
    earlier = before(_digests(database), until)
    since = since or earlier.until or until - timedelta(days=1)
    due = {
        name: _of_window(scheduled_runs(database, name, _SCHEDULED_RUNS), since, until)
        for name in _measuring(database, settings)
    }
    own = [(run, task) for each in due.values() for run in each for task in run.tasks]
    ids = {task.id for _, task in own}
    recent = fleet_status.recent_nights(database, until)
    parts = _parts(recent, [task for _, task in own])
    nights = [found for each in parts.values() if (found := newest_measured(each))]
    still = findings(
        database, states=(FindingState.CONFIRMED,), triage=(FindingTriage.OPEN,), newest=_FINDINGS
    )
    tonight = [task.run_id for _, task in own if task.run_id]
    by_run = endings(database, [*tonight, *(run for each in nights for run in each.runs)])
    own_endings = [ending for task in _runs(own) for ending in by_run[task.run_id or ""]]
    over = [task for task in _others(database) if within(task.ended_at, since, until)]
    return DigestData(
        night=night,
        timezone=settings.timezone,
        since=since,
        until=until,
        ran=[*(_ran(task, by_run) for _, task in own), *_missed_runs(due.values())],
        cases=len({ending.case for ending in own_endings}),
        not_ok=len({ending.case for ending in own_endings if ending.status != OutcomeStatus.OK}),
        findings=_to_report(database, still, since, max(until - _BACK, earlier.known_since)),
        still=still,
        open=open_regressions(database, until),
        reported=earlier.reported,
        reported_as_machines=earlier.as_machines,
        upgrades=_upgrades(database, over),
        notices=_notices(notices_made, since, until),
        changed=_machine_changes(database, parts, own),
        crossed=_border_changes(database, since, until),
        outages=outages(database, settings, shared or until),
        lost_cases=_lost_cases(nights, ids, by_run),
        lost_before=earlier.coverage,
        lost_still=_lost_still(earlier.coverage, recent, nights, ids),
        disturbed=_machine_disturbances(own, by_run),
        disturbed_share=settings.alerts.disturbed_share,
        failed=_failure_problems(over),
        undelivered=_delivery_problems(notices_made, since, until),
    )


def before(newest: Sequence[Notice], until: datetime) -> EarlierDigests:
    """What earlier digests reported, of the `newest` digests, which are sorted newest first."""
    earlier = [one for one in newest if datetime.fromisoformat(one.facts["until"]) < until]
    as_machines = [_as_machines(one) for one in earlier]
    reported = [
        frozenset(map(int, one.facts["ids"])) - own for one, own in zip(earlier, as_machines, strict=True)
    ]
    last = earlier[0] if earlier else None
    return EarlierDigests(
        until=datetime.fromisoformat(last.facts["until"]) if last else None,
        reported=frozenset().union(*reported),
        as_machines=frozenset().union(*as_machines),
        coverage=_coverage_of(last) if last else frozenset(),
        known_since=newest[-1].made_at if len(newest) == _DIGESTS else until - _BACK,
    )


def _as_machines(notice: Notice) -> frozenset[int]:
    """The findings that a digest attributed to the machine; in digests of an earlier version, those that it
    named.
    """
    ids = notice.facts.get("machine_ids")
    if ids is None:
        ids = [moved["finding"] for group in notice.facts.get("machine", ()) for moved in group["top"]]
    return frozenset(map(int, ids))


def _coverage_of(notice: Notice) -> frozenset[CoverageKey]:
    """The lost cases of a digest; none for an earlier version, whose keys cannot be divided into parts."""
    keys = (each for each in notice.facts["coverage"] if not isinstance(each, str))
    return frozenset((str(schedule), str(part), str(case)) for schedule, part, case in keys)


def _measuring(database: Database, settings: Settings) -> list[str]:
    """The schedules that measure: those of these settings and those that other machines have."""
    configured = {name for name, schedule in settings.schedules.items() if schedule.job == "measure"}
    return sorted(configured | {task.schedule for task in measuring_tasks(database)})


def _of_window(newest: Iterable[ScheduledRun], since: datetime, until: datetime) -> list[ScheduledRun]:
    """The runs that were due in the time, and of earlier ones the tasks that ended since or still run."""
    found: list[ScheduledRun] = []
    for run in newest:
        if run.due_at > until:
            continue
        own = tuple(
            task
            for task in run.tasks
            if run.due_at > since or task.state == TaskState.RUNNING or within(task.ended_at, since, until)
        )
        if own or (run.kind == "missed" and run.due_at > since):
            found.append(ScheduledRun(run.schedule, run.due_at, run.kind, run.made_at, own))
    return found


def _runs(own: Iterable[tuple[ScheduledRun, Task]]) -> list[Task]:
    return [task for _, task in own if task.run_id and task.state in OVER]


def _parts(recent: Iterable[Task], own: Sequence[Task]) -> dict[tuple[str, str], list[Task]]:
    """By schedule and part the nights of each part that is among `own`, newest first."""
    names = {(task.schedule, task.part) for task in own}
    tasks = {task.id: task for task in (*recent, *own) if (task.schedule, task.part) in names}
    found: dict[tuple[str, str], list[Task]] = defaultdict(list)
    for task in sorted(tasks.values(), key=lambda task: (task.due_at, task.id), reverse=True):
        found[task.schedule, task.part].append(task)
    return found


def _ran(task: Task, by_run: dict[str, list[OutcomeCount]]) -> PartResult:
    cases: dict[str, bool] = {}
    for ending in by_run.get(task.run_id or "", ()):
        cases[ending.case] = cases.get(ending.case, True) and ending.status == OutcomeStatus.OK
    return PartResult(
        schedule=task.schedule,
        part=task.part,
        due_at=task.due_at,
        state=task.state,
        machine=task.machine,
        run=task.run_id or "",
        ok=sum(cases.values()),
        cases=len(cases),
        error=task.error,
    )


def _missed_runs(due: Iterable[Sequence[ScheduledRun]]) -> list[PartResult]:
    return [
        PartResult(run.schedule, "", run.due_at, "missed")
        for own in due
        for run in own
        if run.kind == "missed"
    ]


def _machine_changes(
    database: Database, parts: dict[tuple[str, str], list[Task]], own: Sequence[tuple[ScheduledRun, Task]]
) -> list[str]:
    """The changes of each machine from the run before, at which its series start new segments."""
    found: dict[str, str] = {}
    for _, task in own:
        if task.state != TaskState.DONE or task.run_id is None or task.machine in found:
            continue
        earlier = runs_before(task, parts[task.schedule, task.part])
        before = next((run for run in earlier if _machine_of(database, run) == task.machine), None)
        # A run that is not stored is skipped; otherwise the digest would fail every day.
        if before is None or not _machine_of(database, task.run_id):
            continue
        if changes := border(run_changes(database, before, task.run_id)):
            found[task.machine] = changes
    return [f"machine {machine}: {changes}" for machine, changes in sorted(found.items())]


def _border_changes(database: Database, since: datetime, until: datetime) -> list[BorderChange]:
    """The level changes across borders, from the detections that ended within the time.

    A detection covers all machines of its label and is repeated after sessions: each statement counts once.
    """
    first: dict[tuple[str, BorderChange], datetime | None] = {}
    for task in reversed(tasks(database, job="detect", state=TaskState.DONE, newest=_TASKS)):
        for body in task.result.get(BORDER_CHANGES, ()):
            first.setdefault((task.schedule, border_change_of(body)), task.ended_at)
    return [one for (_, one), ended in first.items() if within(ended, since, until)]


def _machine_of(database: Database, run: str) -> str:
    found = run_summary(database, run)
    return found.machine if found else ""


def _lost_cases(
    nights: Iterable[MeasuredNight], own: Collection[int], by_run: dict[str, list[OutcomeCount]]
) -> list[LostCase]:
    """The cases that lost coverage in the newest night of each part, if it is among `own` (task ids)."""
    tonight = sorted(
        (one for one in nights if one.task.id in own), key=lambda one: (one.task.schedule, one.task.part)
    )
    return [lost for night in tonight for lost in coverage(night, by_run).lost]


def _lost_still(
    lost: Collection[CoverageKey],
    recent: Iterable[Task],
    nights: Iterable[MeasuredNight],
    own: Collection[int],
) -> list[CoverageKey]:
    """The keys of earlier lost cases of parts that are still followed, and not measured by `own` (task ids).

    The lost cases of a part that pauses for a night must not be reported again.
    """
    looked_at = {(one.task.schedule, one.task.part) for one in nights if one.task.id in own}
    others = {(task.schedule, task.part) for task in recent} - looked_at
    return sorted(key for key in lost if key[:2] in others)


def _machine_disturbances(
    own: Sequence[tuple[ScheduledRun, Task]], by_run: dict[str, list[OutcomeCount]]
) -> list[MachineDisturbance]:
    machines: dict[str, list[dict[OutcomeStatus, int]]] = defaultdict(list)
    for task in _runs(own):
        counts = [{ending.status: ending.count} for ending in by_run[task.run_id or ""]]
        machines[task.machine] += counts
    return [machine_disturbance(machine, counts) for machine, counts in sorted(machines.items())]


def _to_report(
    database: Database, still: Iterable[Finding], since: datetime, known_since: datetime
) -> list[Finding]:
    """The findings of the time whose digests are known, and open ones whose mute ended this night."""
    recent = findings(database, states=(*REPORTED, *WAITING, *COUNTED), since=known_since, newest=_FINDINGS)
    unmuted = [one for one in still if one.muted_until is not None and one.muted_until > since]
    return list({one.id: one for one in (*unmuted, *recent)}.values())


def _others(database: Database) -> list[Task]:
    """The newest tasks of jobs other than measuring that matter for a digest."""
    ended = [
        task
        for state in (TaskState.FAILED, TaskState.LOST)
        for task in tasks(database, state=state, newest=_TASKS)
    ]
    judged = tasks(database, job="upgrade", state=TaskState.DONE, newest=_TASKS)
    return [*(task for task in ended if task.job != "measure"), *judged]


def _upgrades(database: Database, over: Iterable[Task]) -> list[UpgradeDecision]:
    done = (task for task in over if (task.job, task.state) == ("upgrade", TaskState.DONE))
    return [_upgrade_decision(database, task) for task in done]


def _upgrade_decision(database: Database, task: Task) -> UpgradeDecision:
    spec, result = task.spec, task.result
    run = run_summary(database, task.run_id) if task.run_id else None
    return UpgradeDecision(
        old=str(result.get("old") or spec.get("old", "")),
        new=str(result.get("new") or spec.get("new", "")),
        decision=str(result.get("decision", "")),
        machine=run.machine if run else task.machine,
        run=task.run_id or "",
        reasons=tuple(map(str, result.get("reasons", ()))),
    )


def _failure_problems(over: Iterable[Task]) -> list[DigestProblem]:
    """A problem for each schedule and job with failed tasks, with the newest error."""
    failures: dict[tuple[str, str], list[Task]] = defaultdict(list)
    for task in over:
        if task.state in (TaskState.FAILED, TaskState.LOST):
            failures[task.job, task.schedule].append(task)
    found: list[DigestProblem] = []
    for (job, schedule), own in sorted(failures.items()):
        last = max(own, key=lambda task: task.ended_at or task.due_at)
        times = "" if len(own) == 1 else f" {len(own)} times, last"
        why = f": {last.error}" if last.error else ""
        name = schedule if job in schedule else f"{job} of {schedule}"
        found.append(DigestProblem("failed", f"{job} {schedule}", f"{name} {last.state}{times}{why}"))
    return found


def _notices(newest: Iterable[Notice], since: datetime, until: datetime) -> list[str]:
    return [one.title for one in newest if one.kind == RELEASE and within(one.made_at, since, until)]


def _delivery_problems(newest: Iterable[Notice], since: datetime, until: datetime) -> list[DigestProblem]:
    return [
        DigestProblem(
            "undelivered",
            f"{one.kind} {one.key} {target}",
            f"{one.title!r} did not reach {target}: {was.why or 'its sender ended before it was delivered'}",
        )
        for one in newest
        for target, was in sorted(one.deliveries.items())
        if within(given_up_at(was), since, until)
    ]
