"""Job `detect`: judge the nights of a track, store findings, and request confirming sessions."""

from collections import Counter, defaultdict
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from datetime import datetime
from functools import partial

from analysis.detection.change_points import judge
from analysis.detection.default_watched_metrics import WATCHED, rules_of
from analysis.detection.nights import Crossing
from analysis.metrics import METRICS
from configuration.schedules import ScheduleSettings
from configuration.suggestions import unknown
from db.connection.engine import Database
from db.findings import store as stored
from db.queue import queries as queue_queries
from db.runs.history import history
from db.runs.run_changes import run_changes
from records.evidence import Continuation, Evidence
from records.findings import Finding, FindingState, NewFinding
from records.runs import RunChange
from records.series import Track
from records.tasks import NewTask, Task, TaskState
from scheduled_jobs.jobs.context import FollowUp, JobContext, JobResult
from workflows.errors import JobError

from ..detection.border_levels import BORDER_CHANGES, border_changes, newest_crossing
from ..detection.drift_followup import continuations, findings_to_repeat
from ..detection.findings import MachineSeries, decisions_of, series_findings
from ..detection.series_history import (
    MachineSeriesKey,
    by_machine,
    control_of,
    holds_zero,
    machine_borders,
    machine_series_key,
    nights,
    runs_by_machine,
)
from ..detection.sessions import CONFIRM, MOST_TRIES, plan_sessions

#: The number of judged nights: more than a year, so that a series usually begins with the same night.
NEWEST = 400
#: The number of findings of a track with which new ones are compared, and of confirmations that are searched.
_KNOWN, _TASKS = 5000, 500


@dataclass(slots=True)
class DetectionCounts:
    """The result of a detection in numbers: series judged, and findings that are new."""

    series: int = 0
    unwatchable: int = 0
    candidates: int = 0
    machine: int = 0
    returned: int = 0
    repeated: int = 0
    without_logarithm: int = 0

    @property
    def summary(self) -> str:
        """In one line for people."""
        parts = [f"{self.series} series", f"{self.candidates} new candidates"]
        parts += [f"{self.machine} changes of the machine"] if self.machine else []
        parts += [f"{self.returned} taken back"] if self.returned else []
        parts += [f"{self.repeated} to be measured a second time"] if self.repeated else []
        if self.without_logarithm:
            parts.append(f"{self.without_logarithm} with values of 0, which are left out")
        parts += [f"{self.unwatchable} too young or too noisy to judge"] if self.unwatchable else []
        return ", ".join(parts)


@dataclass(frozen=True, slots=True)
class _TrackHistory:
    """The stored data that a detection on one track needs; `pinned`: the track is the schedule's baseline.

    `without_logarithm` counts the series with values of 0, which are left out of the points.
    """

    track: Track
    series: Sequence[MachineSeries]
    controls: Mapping[MachineSeriesKey, MachineSeries]
    runs: Mapping[str, Sequence[str]]
    borders: Mapping[str, str]
    known: Mapping[MachineSeriesKey, Sequence[Finding]]
    pinned: bool = False
    without_logarithm: int = 0

    @property
    def machines(self) -> frozenset[int]:
        """The findings (ids) that were attributed to the machine before this detection."""
        return frozenset(
            one.id for own in self.known.values() for one in own if one.state == FindingState.MACHINE
        )


@dataclass(slots=True)
class _TrackFindings:
    """The findings of all series of a track.

    `returned` are the ids of findings that disappeared in later nights, `continuations` belong to confirmed
    findings, `repeated` are refuted ones to measure again, and `crossings` are the newest borders, across
    which change points are not searched.
    """

    fresh: list[NewFinding] = field(default_factory=list[NewFinding])
    returned: list[int] = field(default_factory=list[int])
    continuations: dict[int, Continuation] = field(default_factory=dict[int, Continuation])
    repeated: dict[int, stored.RepeatRequest] = field(default_factory=dict[int, stored.RepeatRequest])
    crossings: list[tuple[MachineSeries, Crossing]] = field(
        default_factory=list[tuple[MachineSeries, Crossing]]
    )


def detect(task: Task, context: JobContext) -> JobResult:
    """Judge the newest nights of a track, store findings, and enqueue sessions for candidates.

    Raises JobStopped, and DatabaseUnavailable.
    """
    track = Track(*(str(task.spec[name]) for name in ("schedule", "track", "label")))
    now = context.now()
    with context.open_database() as database:
        look = _look(database, track, context.settings.schedules.get(track.schedule))
        counted = DetectionCounts(series=len(look.series), without_logarithm=look.without_logarithm)
        machines = look.machines
        found = _judge_track(look, counted, now, context.check_stopped)
        returned = found.returned
        stored_findings = stored.save_findings(database, _with_changes(database, found.fresh), now)
        stored.set_state(database, returned, FindingState.NO_LONGER)
        stored.revise_evidence(database, _evidence_revisions(found.continuations))
        stored.reopen(database, found.repeated, now)
        sessions = _sessions(database, track, look.series)
    fresh = [
        one
        for one in stored_findings
        if one.found_at == now or (one.state == FindingState.CANDIDATE and one.id in machines)
    ]
    new = Counter(one.state for one in fresh)
    counted.candidates, counted.machine, counted.returned = (
        new[FindingState.CANDIDATE],
        new[FindingState.MACHINE],
        len(returned),
    )
    counted.repeated = len(found.repeated)
    levels = [one.body for one in border_changes(track.track, found.crossings)]
    result = {
        **asdict(counted),
        BORDER_CHANGES: levels,
        "sessions": len(sessions),
        "summary": counted.summary,
    }
    follow_ups = (FollowUp(f"{CONFIRM}:{track.schedule}", tuple(sessions)),) if sessions else ()
    return JobResult(result=result, follow_ups=follow_ups)


def unwatchable_reason(metrics: Iterable[str]) -> str:
    """The reason why a schedule cannot watch some metrics, as the rest of a sentence about it; empty if it
    can.

    A metric without a better direction has no verdict, so that a session could not judge it.
    """
    judged = [name for name, metric in METRICS.items() if metric.better != "neither"]
    for metric in metrics:
        if metric not in METRICS:
            return f"watches an {unknown('metric', metric, judged)}"
        if metric not in judged:
            return f"watches {metric}, which is neither better nor worse: no change of it can be judged"
    return ""


def _look(database: Database, track: Track, schedule: ScheduleSettings | None) -> _TrackHistory:
    metrics = (schedule and schedule.watch) or WATCHED
    if why := unwatchable_reason(metrics):
        raise JobError(f"schedule {track.schedule} {why}")
    read = history(database, track, metrics, newest=NEWEST)
    series, zeros = by_machine(read), sum(map(holds_zero, read))
    baseline = schedule.baseline if schedule else None
    controls: dict[MachineSeriesKey, MachineSeries] = {}
    if baseline is not None and baseline != track.track:
        pinned = Track(track.schedule, baseline, track.label)
        controls = {
            machine_series_key(one): one
            for one in by_machine(history(database, pinned, metrics, newest=NEWEST))
        }
    runs = runs_by_machine(series)
    known: dict[MachineSeriesKey, list[Finding]] = defaultdict(list)
    for one in _known_findings(database, track, None):
        key = one.key
        known[key.case, key.metric, key.hardware, key.preset, one.machine].append(one)
    borders, pinned = machine_borders(database, runs), baseline == track.track
    return _TrackHistory(track, series, controls, runs, borders, known, pinned, zeros)


def _known_findings(
    database: Database, track: Track, states: Collection[FindingState] | None
) -> list[Finding]:
    return stored.findings(database, states=states, track=track, newest=_KNOWN)


def _judge_track(
    look: _TrackHistory, counted: DetectionCounts, now: datetime, check_stopped: Callable[[], None]
) -> _TrackFindings:
    found_in_track = _TrackFindings()
    for series in look.series:
        check_stopped()
        metric, place = series.key.metric, machine_series_key(series)
        own, rules = nights(series, look.borders, look.runs[series.machine]), rules_of(metric)
        control, findings = control_of(series, look.controls.get(place)), look.known.get(place, ())
        judged = judge(own, METRICS[metric].better, rules, control, decisions_of(series, findings))
        counted.unwatchable += not judged.watchable
        found = series_findings(look.track, series, judged, findings)
        found_in_track.fresh += found.findings
        found_in_track.returned += found.returned
        found_in_track.continuations |= continuations(series, findings, own, control, rules, now)
        found_in_track.repeated |= findings_to_repeat(series, findings, own, control, rules)
        # On the first night after a border, and again when its segment is judged, because a single night is
        # imprecise.
        tonight = series.points[-1].at.run == look.runs[series.machine][-1]
        alone = tonight and control is None and not look.pinned
        border = newest_crossing(own, (1, rules.relearn)) if alone else None
        found_in_track.crossings += [(series, border)] if border else []
    return found_in_track


def _with_changes(database: Database, found: Iterable[NewFinding]) -> list[NewFinding]:
    """Each finding with the other differences between its two runs."""
    pairs: dict[tuple[str, str], tuple[RunChange, ...]] = {}
    completed: list[NewFinding] = []
    for one in found:
        pair = one.before_run, one.evidence.new_run
        if pair not in pairs:
            pairs[pair] = tuple(run_changes(database, *pair))
        completed.append(replace(one, evidence=replace(one.evidence, changes=pairs[pair])))
    return completed


def _evidence_revisions(noted: Mapping[int, Continuation]) -> dict[int, Callable[[Evidence], Evidence]]:
    """The updated evidence of findings, by id."""

    def add_continuation(known: Evidence, continuation: Continuation) -> Evidence:
        return replace(known, goes_on=continuation)

    return {finding: partial(add_continuation, continuation=each) for finding, each in noted.items()}


def _sessions(database: Database, track: Track, series: Iterable[MachineSeries]) -> list[NewTask]:
    """Sessions for all candidates of a track that have none queued and may still be tried."""
    coming = [
        task
        for state in (TaskState.WAITING, TaskState.RUNNING)
        for task in queue_queries.tasks(database, job=CONFIRM, state=state, newest=_TASKS)
    ]
    awaited = {int(each) for task in coming for each in task.spec.get("findings", ())}
    # A session that was lost or cancelled will not decide anything.
    orphans = [
        one.id for one in _known_findings(database, track, [FindingState.CONFIRMING]) if one.id not in awaited
    ]
    stored.set_state(database, orphans, FindingState.CANDIDATE)
    candidates = [
        one
        for one in _known_findings(database, track, [FindingState.CANDIDATE])
        if one.id not in awaited and one.evidence.tries < MOST_TRIES
    ]
    cases: dict[str, list[str]] = defaultdict(list)
    for each in series:
        cases[each.machine].append(each.key.case)
    return [one.task(track) for one in plan_sessions(candidates, cases)]
