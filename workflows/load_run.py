"""Load a run as it was left: from its journal, or from the database where the journal is gone."""

from collections.abc import Iterable, Mapping
from contextlib import suppress
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from pathlib import Path

from analysis.comparison.policy import Waiver
from analysis.decision.comparison import stored_comparison
from analysis.decision.run_cases import LATENCIES, run_cases
from analysis.metrics import METRICS
from analysis.recent_level import NIGHTS
from common.bounded_files import size_of
from configuration.suggestions import unknown
from db.connection.engine import Database
from db.errors import DatabaseError
from db.findings.store import findings_of_series
from db.runs import metric_definitions, queries
from db.runs.history import measured_for
from db.runs.queries import stored_outcomes
from db.runs.series_queries import lines
from records.findings import Finding, FindingGroup, FindingState
from records.kinds import EnvironmentKind, RunKind, RunSource, RunState
from records.outcomes import MetricDefinition, Outcome
from records.runs import Run
from records.series import SeriesKey
from reports.run_report import JudgedRun
from reports.upgrade_report import JudgedUpgrade, judge_upgrade
from runner import journal
from runner.errors import JournalError

from .errors import NoSuchRun, UsageError
from .ingest import FORGOTTEN, pending_journals, read_header, read_run
from .measure import RunResult
from .recorder import OpenDatabase
from .run_header import Header

LATEST = "latest"
#: So many runs before a run are searched for those like it, and so many of these are read at once.
_SEARCHED, _AT_ONCE = 1000, 60


@dataclass(frozen=True, slots=True)
class LoadedRun:
    """How a run ended, or its progress while its state is `running`; of its outcomes, the planned ones.

    `planned` counts the replicates it was to have; `traced` says that they were traced and not measured.
    `header` is None where only the database knows the run, which then is `stored`. `defined` are the metrics
    that came from outside.
    """

    result: RunResult
    started_at: datetime
    planned: int
    traced: bool
    source: RunSource = RunSource.MEASURED
    source_format: str = ""
    header: Header | None = None
    stored: Run | None = None
    defined: Mapping[str, MetricDefinition] = field(default_factory=dict[str, MetricDefinition])

    @staticmethod
    def of(header: Header, result: RunResult) -> "LoadedRun":
        """The run that `header` began."""
        traced = header.kind == RunKind.TRACE
        if traced:
            # Of two tables the second one is subtracted from the first one that was asked for.
            order = header.replicates
            outcomes = sorted(result.outcomes, key=lambda outcome: order.index(outcome.planned_replicate))
            result = replace(result, outcomes=tuple(outcomes))
        began = datetime.fromisoformat(header.started_at)
        return LoadedRun(
            result, began, len(header.planned), traced, header.source, header.source_format, header
        )


def load_run(data_dir: Path, run: str, open_database: OpenDatabase) -> LoadedRun:
    """The run of that id, or the newest for `latest`; raises NoSuchRun.

    A journal whose database cannot be opened is loaded all the same. Raises DatabaseError where only the
    database could know, and JournalError for a journal that cannot be read.
    """
    journals = {path.parent.name: path for path in journal.paths_in(data_dir)}
    # An empty journal is a run that was killed before it began.
    journals = {
        name: path
        for name, path in journals.items()
        if size_of(path) and not path.with_name(FORGOTTEN).exists()
    }
    try:
        database = open_database()
    except DatabaseError:
        if not journals or run not in (*journals, LATEST):
            raise
        return _from_journal(journals[run if run != LATEST else max(journals)], stored=False)
    with database:
        stored = stored_outcomes(database)
        names = {*stored, *journals}
        if not names:
            raise NoSuchRun("no run is stored yet: `pyrometer run` measures one")
        name = _latest(database, journals, stored) if run == LATEST else run
        if name not in names:
            raise NoSuchRun(unknown("run", name, [*names, LATEST], newest_first=True))
        if name not in journals:
            return _from_database(database, name)
        return _from_journal(journals[name], stored=journals[name] not in pending_journals(data_dir, stored))


def _latest(database: Database, journals: Mapping[str, Path], stored: Mapping[str, int]) -> str:
    """The run that began last, in the database or in a journal that is not in it yet; there is one."""
    newest = queries.latest_run_id(database)
    summary = None if newest is None else queries.run_summary(database, newest)
    began = [] if summary is None else [(summary.started_at, summary.id)]
    for name in journals.keys() - stored.keys():
        with suppress(JournalError):
            began.append((datetime.fromisoformat(read_header(journals[name]).started_at), name))
    # Journals alone, none of which can be read: the newest name says why.
    return max(began)[1] if began else max(journals)


def _from_journal(path: Path, *, stored: bool) -> LoadedRun:
    header, contents = read_run(path)
    state = RunState.INTERRUPTED if contents.missing_replicates(header.replicates) else RunState.COMPLETE
    state = RunState.RUNNING if journal.in_use(path) else state
    return LoadedRun.of(header, RunResult(header.run, state, contents.outcomes, stored, seconds=None))


def _from_database(database: Database, name: str) -> LoadedRun:
    run = queries.run_record(database, name)
    if run is None:
        raise NoSuchRun(f"run {name} has just gone from the database")
    foreign = run.source != RunSource.MEASURED
    measured = {e.fingerprint for e in run.environments if e.kind != EnvironmentKind.CANARY}
    stored = queries.outcomes_of_run(database, name)
    outcomes = tuple(one for one in stored if one.environment in measured)
    return LoadedRun(
        RunResult(name, run.state, outcomes, stored=True, seconds=None),
        started_at=run.started_at,
        planned=run.planned,
        traced=run.kind == RunKind.TRACE,
        source=run.source,
        source_format=run.source_format,
        stored=run,
        defined=metric_definitions.metric_definitions(database) if foreign else {},
    )


def judge_run(header: Header, result: RunResult, waived: tuple[Waiver, ...] = ()) -> JudgedUpgrade:
    """The verdict on what was measured so far, without the cases that are `waived` now or were before."""
    comparison = header.pair_comparison
    assert comparison is not None
    comparison = replace(comparison, waived=(*comparison.waived, *waived))
    # The end of a run that was imported later is not known.
    ended_at = datetime.now(UTC).isoformat() if result.seconds is not None else None
    return judge_upgrade(header.run_record(result.state, ended_at), comparison, result.outcomes)


def judge_loaded(loaded: LoadedRun, waived: tuple[Waiver, ...] = ()) -> JudgedUpgrade | None:
    """The verdict of a run of pairs as it was left, None for any other; raises UsageError, JournalError."""
    if loaded.header is not None:
        return (
            judge_run(loaded.header, loaded.result, waived) if loaded.header.comparison is not None else None
        )
    return judge_stored(loaded.stored, loaded.result.outcomes, waived) if loaded.stored is not None else None


def judge_stored(
    run: Run, outcomes: Iterable[Outcome], waived: tuple[Waiver, ...] = ()
) -> JudgedUpgrade | None:
    """The verdict of a run of pairs as the database has it, None for any other; raises UsageError."""
    try:
        comparison = stored_comparison(run.facts)
        if comparison is None:
            return None
        comparison = replace(comparison, waived=(*comparison.waived, *waived))
        return judge_upgrade(run, comparison, outcomes)
    except ValueError as error:
        raise UsageError(f"run {run.id} holds {error}") from error


def refuse_report(run: str, source: RunSource, *, traced: bool) -> None:
    """Raise UsageError for a run of which no report is written (see `judge_cases`)."""
    if traced or source != RunSource.MEASURED:
        what = "was traced" if traced else "was not measured by Pyrometer"
        raise UsageError(f"run {run} {what}: --report needs a run of cases or an upgrade")


def judge_cases(loaded: LoadedRun, open_database: OpenDatabase) -> JudgedRun:
    """The cases of a run of one environment, with its earlier runs where the database opens.

    Raises UsageError for a run that was traced, or that was not measured by Pyrometer.
    """
    result = loaded.result
    refuse_report(result.run, loaded.source, traced=loaded.traced)
    run = loaded.stored
    resume = ""
    if loaded.header is not None:
        ended_at = datetime.now(UTC).isoformat() if result.seconds is not None else None
        run = loaded.header.run_record(result.state, ended_at)
        if result.state == RunState.INTERRUPTED:
            resume = f"pyrometer run --resume {result.run}"
    assert run is not None
    try:
        with open_database() as database:
            earlier, regressions = _earlier_runs(database, run, result.outcomes)
    except DatabaseError as error:
        note = f"not compared with earlier runs: {error}"
        return JudgedRun(run, run_cases(result.outcomes), (note,), resume)
    return JudgedRun(run, run_cases(result.outcomes, earlier, regressions), resume=resume)


def _earlier_runs(
    database: Database, run: Run, outcomes: Iterable[Outcome]
) -> tuple[dict[tuple[str, str], list[float]], dict[str, Finding]]:
    """By case and metric the latencies of earlier runs, and by case the open regression in its environment.

    Compared are runs of one environment on the same machine, with the same preset and harness, of an
    environment of the same name or for the same track of a schedule.
    """
    cases = sorted({one.case for one in outcomes})
    measured = next((one for one in run.environments if one.kind != EnvironmentKind.CANARY), None)
    if measured is None:
        return {}, {}
    # Not the newest points of a series: in a fleet those are of other machines, and of an old run all later.
    before = queries.runs_before(database, run, _SEARCHED)
    environments = measured_for(database, [*before, run.id])
    tracks = {(one.run, one.environment): one.track for one in environments}
    track = tracks.get((run.id, measured.fingerprint), "")
    alike = {
        (one.run, one.environment)
        for one in environments
        if one.name == measured.name or (track != "" and one.track == track)
    }
    named = {name for name, _ in alike} - queries.comparison_runs(database, before)
    candidates = [name for name in before if name in named]
    earlier: dict[tuple[str, str], list[float]] = {}
    lacking = [key for metric in LATENCIES for key in _keys(run, cases, metric)]
    for start in range(0, len(candidates), _AT_ONCE):
        if not lacking:
            break
        for key, points in lines(database, lacking, candidates[start : start + _AT_ONCE]).items():
            own = [one.point for one in points if (one.run, one.environment) in alike]
            earlier[key.case, key.metric] = own + earlier.get((key.case, key.metric), [])
        lacking = [key for key in lacking if len(earlier.get((key.case, key.metric), ())) < NIGHTS]
    return earlier, _regressions(database, run, measured.fingerprint, cases)


def _keys(run: Run, cases: Iterable[str], metric: str) -> list[SeriesKey]:
    """The series of a metric that a run is part of."""
    hardware, preset = run.machine.hardware, run.preset
    where = (hardware.fingerprint, hardware.label, preset.fingerprint, preset.name)
    return [SeriesKey(case, metric, *where) for case in cases]


def _regressions(database: Database, run: Run, environment: str, cases: Iterable[str]) -> dict[str, Finding]:
    """By case the newest open regression confirmed in an environment, on the run's machine, up to the run."""
    now = datetime.now(UTC)
    keys = [key for metric in METRICS for key in _keys(run, cases, metric)]
    return {
        one.key.case: one
        for one in findings_of_series(database, keys)
        if (one.state, one.new_environment) == (FindingState.CONFIRMED, environment)
        and one.machine == run.machine.name
        and one.at <= run.started_at
        and one.group(now) == FindingGroup.OPEN
    }
