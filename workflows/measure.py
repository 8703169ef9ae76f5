"""Measure a planned run without losing results."""

import shutil
import time
import uuid
from collections import Counter
from collections.abc import Callable, Generator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from pathlib import Path

from analysis.comparison.screening import as_evidence
from analysis.decision.suite_pairs import varies
from records.kinds import RunKind, RunState
from records.outcomes import Outcome, OutcomeStatus, PlannedReplicate
from runner import journal
from runner.errors import JournalError
from runner.execution import canary_runner
from runner.execution.compile_cache import caches_of
from runner.execution.fork_server import ForkServers
from runner.execution.harness import Harness
from runner.execution.process import sweep
from runner.execution.session import (
    MAX_LOST,
    Conditions,
    Event,
    OutcomeMeasured,
    PhaseEntered,
    RunningSession,
    SessionEnded,
)
from runner.journal import Journal
from runner.nodes import Node
from runner.preset import MachinePreset
from runner.session_plan import SessionPlan
from runner.telemetry.sampler_client import Sampler

from .app_context import Watcher
from .database_upkeep import FOR_EVER, Retention
from .planning.pair_allocation import SuiteAllocation
from .planning.screening import ScreenedPairs, timing_of_replicates
from .recorder import OpenDatabase, Recorder
from .remaining import Durations, UnderWay
from .run_header import Header
from .session_queue import InOrder, Pairs, Queue, Room, enough_lost, enough_pairs, first_look

#: The time that killed workers may take to end before the run ends without them.
_INTERRUPT_PATIENCE_SECONDS = 60.0
#: The shortest time between two runs of the canary, which would otherwise dominate a run of short sessions;
#: the first and the last boundary always run it.
_CANARY_REST_SECONDS = 10.0
#: The interval at which a request to stop is checked during a session.
_POLL_SECONDS = 0.25


@dataclass(frozen=True, slots=True)
class RunResult:
    """The result of a run: `complete` or `interrupted`, all its outcomes, and whether the database has them.

    `seconds` is the duration of the measuring by this command; None for an older run.
    """

    run: str
    state: RunState
    outcomes: tuple[Outcome, ...]
    stored: bool
    seconds: float | None


def new_run_id() -> str:
    """The id of a run: UTC time to the second and eight random hexadecimal digits.

    Of a hundred machines that start in one second, two would get the same id once in a million seconds.
    """
    return f"{datetime.now(UTC):%Y%m%d-%H%M%S}-{uuid.uuid4().hex[:8]}"


def measure(
    header: Header,
    preset: MachinePreset,
    harness: Harness,
    folder: Path,
    known: tuple[Outcome, ...],
    open_database: OpenDatabase,
    watcher: Watcher,
    interrupted: Callable[[], bool] = lambda: False,
    retention: Retention = FOR_EVER,
    nodes: tuple[Node, ...] = (),
) -> RunResult:
    """Measure the replicates of `header` that are not in `known`, in `folder`, that of the run.

    `nodes` are those of a run over several machines, this one first. It ends in order, with the results so
    far, soon after `interrupted` returns True. At its end raw rows of old runs are deleted by `retention`.
    Raises JournalError if another process measures the same run, or if its journal cannot be created. Any
    other exception has a note with the place of lines that the journal lacks.
    """
    with _begun(folder, header) as writing:
        # Processes that an earlier, killed controller left would disturb the measurement.
        sweep(header.run)
        done = {outcome.planned_replicate for outcome in known}
        todo = tuple(p for p in header.replicates if p not in done)
        recorder = Recorder(writing, header, open_database, watcher.note, retention)
        boundaries = _CanaryRuns(header, preset, recorder, journal.read_contents(writing.path, ()).canaries)
        conditions = Conditions(
            run=header.run,
            folder=folder,
            harness=harness,
            preset=preset,
            timing=header.timing_policy,
            targets=header.targets,
            device=header.device,
            gpus=header.gpus,
            one_process=header.one_process,
            gpu_node=header.gpu_node,
            telemetry=Sampler,
            nodes=nodes,
        )
        started = time.monotonic()
        run = _Run(header, todo, recorder, watcher, conditions, interrupted, boundaries)
        with _rescue_results(recorder):
            state = run.all_sessions(known)
            if state == RunState.COMPLETE:
                # The compile caches were for the warm replicates of this run and are not used again.
                shutil.rmtree(caches_of(folder), ignore_errors=True)
            stored = recorder.end(state)
    return RunResult(header.run, state, known + tuple(run.outcomes), stored, time.monotonic() - started)


def _begun(folder: Path, header: Header) -> Journal:
    """Create the journal of the run with its header."""
    try:
        begun = Journal(folder)
        if not begun.path.stat().st_size:
            try:
                begun.header(header.to_body())
            except BaseException:
                begun.close()
                raise
    except OSError as error:
        raise JournalError(f"no journal can be created in {folder}: {error.strerror or error}") from error
    return begun


@contextmanager
def _rescue_results(recorder: Recorder) -> Generator[None]:
    """Save buffered results when an exception ends the run early."""
    try:
        yield
    except BaseException as error:
        if note := recorder.abandon():
            error.add_note(note)
        raise


class _CanaryRuns:
    """Runs the canary between sessions and records it. `known` are its outcomes from before a resume."""

    def __init__(
        self, header: Header, preset: MachinePreset, recorder: Recorder, known: tuple[Outcome, ...]
    ) -> None:
        self.differs = False
        self._run = header.run
        self._recorder = recorder
        self._canary: canary_runner.Canary | None = None
        if header.canary:
            canary = canary_runner.canary_of(preset, header.device)
            self.differs = canary.fingerprint != header.canary["fingerprint"]
            self._canary = None if self.differs else canary
        self._next = 1 + max((outcome.replicate for outcome in known), default=-1)
        self._rests_until = 0.0

    def reach(self, *, last: bool = False) -> None:
        """Run the canary, unless it ran recently and this is not the `last` boundary.

        Nothing may be measured at the same time.
        """
        if self._canary is None or (time.monotonic() < self._rests_until and not last):
            return
        for outcome in self._canary.run(self._next, f"{self._run}:canary:{self._next}"):
            self._recorder.canary(outcome)
        self._next += 1
        self._rests_until = time.monotonic() + _CANARY_REST_SECONDS


class _Run:
    """One pass over the sessions, one at a time, within the budget."""

    def __init__(
        self,
        header: Header,
        todo: tuple[PlannedReplicate, ...],
        recorder: Recorder,
        watcher: Watcher,
        conditions: Conditions,
        interrupted: Callable[[], bool],
        boundaries: _CanaryRuns,
    ) -> None:
        self.outcomes: list[Outcome] = []
        self._kept: set[PlannedReplicate] = set()
        self._header = header
        self._comparison = header.pair_comparison
        self._recorder = recorder
        self._watcher = watcher
        self._conditions = conditions
        self._interrupted = interrupted
        self._boundaries = boundaries
        self._queue = _queue_of(header, todo)
        self._todo = todo
        self._timing_of = timing_of_replicates(header)
        on_cuda = header.device.startswith("cuda")
        self._durations = Durations(header.timing_policy, self._timing_of, on_cuda=on_cuda)
        self._under_way = UnderWay(self._durations)
        self._later = 0.0
        self._forks = ForkServers(conditions.folder / "logs", f"{header.run}:fork")

    def all_sessions(self, known: tuple[Outcome, ...]) -> RunState:
        """Measure until nothing is left or the run is interrupted; returns the state.

        `known` are the outcomes of earlier parts of the same run.
        """
        for outcome in known:
            self._queue.learn(outcome)
            self._durations.learn(outcome)
        self._look_ahead()
        self._watcher.report_start(self._header, self._todo, self._later)
        self._recorder.begin()
        if self._boundaries.differs:
            self._watcher.note("the canary has changed since this run began: it is left out from here on")
        # The budget is for the whole run, including earlier parts of it.
        started = time.monotonic() - sum(sum(one.phases.values()) for one in known)
        try:
            self._boundaries.reach()
            while not self._interrupted() and (session := self._next(time.monotonic() - started)):
                if self._affordable(session, time.monotonic() - started):
                    self._measure(session)
                    if not self._interrupted():
                        self._boundaries.reach(last=not any(self._queue.sessions_left()))
                    self._recorder.between_sessions()
                self._spare()
            self._spare()
        finally:
            self._forks.close()
            sweep(self._header.run)
        return RunState.COMPLETE if len(self.outcomes) == len(self._todo) else RunState.INTERRUPTED

    def _spare(self) -> None:
        """Record the planned replicates that are no longer needed as skipped."""
        spared: Counter[tuple[str, str]] = Counter()
        for planned, reason in self._queue.not_needed():
            self._keep(_without(planned, OutcomeStatus.SKIPPED, reason), report=False)
            spared[planned.case, reason] += 1
        for (case, reason), many in spared.items():
            self._watcher.report_unneeded(case, many, reason)

    def _measure(self, session: SessionPlan) -> None:
        self._look_ahead()
        self._under_way.begin(session)
        try:
            self._try(session)
        finally:
            self._under_way.end()

    def _try(self, session: SessionPlan) -> None:
        for number in range(1, MAX_LOST + 1):
            token = f"{self._header.run}:{session.id}:{uuid.uuid4().hex[:8]}"
            with RunningSession(session, self._conditions_of(session), token) as running:
                ended = self._follow(running)
            if ended.kind != "lost" or self._interrupted():
                return
            self._watcher.note(f"attempt {number} of {session.id} was lost: {ended.detail}")
            if number == MAX_LOST:
                self._close_without(
                    session, OutcomeStatus.LOST, f"lost {MAX_LOST} times, at last: {ended.detail}"
                )

    def _conditions_of(self, session: SessionPlan) -> Conditions:
        """The settings of its short pair or of its full one; only the processes of a short pair are
        forked.
        """
        first = session.contenders[0]
        conditions = replace(self._conditions, timing=self._timing_of(first))
        if not self._is_short(first):
            self._forks.close()
            return conditions
        # The two short pairs of a case share no parent process.
        self._forks.renew(first.replicate)
        return replace(conditions, forks=self._forks)

    def _is_short(self, planned: PlannedReplicate) -> bool:
        return self._comparison is not None and self._comparison.is_short(planned.replicate)

    def _follow(self, running: RunningSession) -> SessionEnded:
        """Handle the events of the session until it ends, or until the time limit after an interrupt."""
        give_up = float("inf")
        while time.monotonic() < give_up:
            if give_up == float("inf") and self._interrupted():
                self._watcher.note("interrupted: stopping the workers; finished results are kept")
                running.cancel()
                give_up = time.monotonic() + _INTERRUPT_PATIENCE_SECONDS
            for event in running.events(timeout=_POLL_SECONDS):
                if isinstance(event, SessionEnded):
                    return event
                self._take(event)
        return SessionEnded("cancelled", "its processes did not end in time")

    def _take(self, event: Event) -> None:
        if isinstance(event, OutcomeMeasured):
            # `scancel` and similar commands end a whole tree at once: then the cause of a worker's death is
            # unknown.
            if not (event.outcome.status == OutcomeStatus.CRASHED and self._interrupted()):
                short = self._is_short(event.outcome.planned_replicate)
                self._keep(as_evidence(event.outcome) if short else event.outcome)
                self._look_ahead()
        elif isinstance(event, PhaseEntered):
            self._under_way.enter_phase(event.planned, event.phase)
            self._watcher.report_phase(
                event.planned, event.phase, self._under_way.seconds_left() + self._later
            )

    def _keep(self, outcome: Outcome, *, report: bool = True) -> None:
        if outcome.planned_replicate in self._kept:
            return
        self._kept.add(outcome.planned_replicate)
        self._recorder.outcome(outcome)
        outcome = outcome.shorten_texts()
        self.outcomes.append(outcome)
        self._under_way.end_replicate(outcome.planned_replicate)
        self._durations.learn(outcome)
        self._queue.learn(outcome)
        if report:
            self._watcher.report_outcome(outcome)

    def _next(self, spent: float) -> SessionPlan | None:
        return self._queue.next(Room(self._header.budget_seconds - spent, self._durations.session))

    def _affordable(self, session: SessionPlan, spent: float) -> bool:
        cost = self._durations.session(session)
        budget = self._header.budget_seconds
        if spent + cost <= budget or not self.outcomes:
            return True
        reason = f"budget of {budget:.0f} s: {spent:.0f} s are spent, this would take about {cost:.0f} s"
        self._close_without(session, OutcomeStatus.SKIPPED, reason)
        return False

    def _close_without(self, session: SessionPlan, status: OutcomeStatus, reason: str) -> None:
        for planned in session.contenders:
            if planned not in self._kept:
                self._keep(_without(planned, status, reason))

    def _look_ahead(self) -> None:
        """Estimate the time of the sessions after this one again after each outcome."""
        self._later = sum(map(self._durations.session, self._queue.sessions_left()))


def _queue_of(header: Header, todo: tuple[PlannedReplicate, ...]) -> Queue:
    comparison = header.pair_comparison
    if comparison is None:
        return InOrder(todo)
    cases = len({planned.case for planned in header.replicates})
    sides = (comparison.old, comparison.new)
    look = first_look(comparison)
    if comparison.screen is not None:
        return ScreenedPairs(header.replicates, comparison)
    if header.kind == RunKind.UPGRADE and varies(comparison.policy):
        allocate = SuiteAllocation(comparison).choose
        return Pairs(header.replicates, sides, enough_lost(comparison), look, allocate)
    enough = enough_pairs(comparison, cases)
    return Pairs(header.replicates, sides, enough, look)


def _without(planned: PlannedReplicate, status: OutcomeStatus, reason: str) -> Outcome:
    """The outcome of a replicate that was never started."""
    now = datetime.now(UTC)
    about = (planned.case, planned.environment, planned.replicate)
    return Outcome(*about, status=status, reason=reason, started_at=now)
