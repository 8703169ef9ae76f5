"""Estimates the remaining time of a run from its results so far."""

import bisect
import itertools
import math
import time
from collections import defaultdict
from collections.abc import Callable
from dataclasses import dataclass
from statistics import median

from records.outcomes import Outcome, OutcomeStatus, PlannedReplicate
from runner.session_plan import SessionPlan, Timing
from runner.suites import plan
from runner.worker.case_key import CaseKey

#: The phases in which blocks are measured.
_LAST_PHASES = ("observe", "trace", "finish", "check", "end")
#: The assumed seconds of these phases without `observe`, until a replicate of the case has ended.
_LAST_SECONDS = 1.0
#: The smallest remaining time of a running phase.
_LEAST_SECONDS = 1.0


@dataclass(frozen=True, slots=True)
class _ReplicateTimes:
    """An ended replicate: its active seconds, those of its last phases, and those of its whole life."""

    planned: PlannedReplicate
    active: float
    last: float
    wall: float


class Durations:
    """Expected seconds of replicates and sessions.

    A case takes as long as its last replicate, scaled by the plan's ratio of cold and warm caches; a case
    that was not measured yet takes the time of the plan, scaled by the median error of the plan for similar
    cases: those compiled by the same mode with the same state of the cache, else all. `timing_of` is for runs
    that measure some replicates shorter than others.
    """

    def __init__(
        self,
        timing: Timing,
        timing_of: Callable[[PlannedReplicate], Timing] | None = None,
        *,
        on_cuda: bool = False,
    ) -> None:
        self._on_cuda = on_cuda
        self._timing = timing
        self._timing_of: Callable[[PlannedReplicate], Timing] = timing_of or (lambda planned: timing)
        self._seen: dict[str, _ReplicateTimes] = {}
        self._paces: dict[tuple[str, bool], list[float]] = defaultdict(list)

    def learn(self, outcome: Outcome) -> None:
        """Learn from a replicate, unless it was never started."""
        active = sum(outcome.phases.values()) or outcome.wall_seconds
        if not active or outcome.status == OutcomeStatus.SKIPPED:
            return
        last = sum(outcome.phases.get(phase, 0.0) for phase in _LAST_PHASES)
        self._seen[outcome.case] = _ReplicateTimes(
            outcome.planned_replicate, active, last, outcome.wall_seconds
        )
        if outcome.status == OutcomeStatus.OK:
            pace = active / self._planned_for(outcome.planned_replicate)
            bisect.insort(self._paces[self._kind(outcome.planned_replicate)], pace)

    def replicate(self, planned: PlannedReplicate) -> float:
        """Seconds that a replicate will be active, without waiting for the others of its session."""
        expected = self._planned_for(planned)
        if last := self._seen.get(planned.case):
            return last.active * expected / self._planned_for(last.planned)
        return expected * self._pace(self._kind(planned))

    def last(self, planned: PlannedReplicate) -> float:
        """Seconds from its last block to its end."""
        observed = self._timing.observe_seconds if planned.replicate == 0 else 0.0
        latest = self._seen.get(planned.case)
        if latest is None or not latest.last:
            return _LAST_SECONDS + observed
        before = self._timing.observe_seconds if latest.planned.replicate == 0 else 0.0
        return max(0.0, latest.last - before) + observed

    def session(self, session: SessionPlan) -> float:
        """Seconds from the first start to the last end."""
        alone = sum(map(self.replicate, session.contenders))
        latest = [self._seen[one.case] for one in session.contenders if one.case in self._seen]
        if len(latest) < len(session.contenders) or len({one.planned.replicate for one in latest}) > 1:
            return alone
        # The wall time of a contender spans its whole session, including the time between contenders, if a
        # similar one was measured.
        alike = all(
            self._planned_for(one.planned) == self._planned_for(planned)
            for one, planned in zip(latest, session.contenders, strict=True)
        )
        return max(alone, *(one.wall for one in latest)) if alike else alone

    def rounds(self, blocks: int, seconds: float) -> float:
        """Seconds of the remaining blocks, from the number and duration of the measured ones."""
        timing = self._timing
        if timing.trace_steps:
            return 0.0
        if not blocks:
            return max(0.0, timing.measure_seconds * 1.2 - seconds)
        each = max(seconds / blocks, 1e-6)
        return each * max(timing.min_blocks - blocks, math.ceil((timing.measure_seconds - seconds) / each), 0)

    def _planned_for(self, planned: PlannedReplicate) -> float:
        return plan.estimate(planned, self._timing_of(planned), on_cuda=self._on_cuda)

    def _pace(self, kind: tuple[str, bool]) -> float:
        # The median is robust against single cases that take minutes.
        paces = self._paces.get(kind) or list(itertools.chain.from_iterable(self._paces.values()))
        return median(paces) if paces else 1.0

    def _kind(self, planned: PlannedReplicate) -> tuple[str, bool]:
        compiled = CaseKey.parse(planned.case).axis("compile")
        return compiled, compiled != "none" and planned.replicate < self._timing_of(planned).cold_replicates


@dataclass(slots=True)
class _Turn:
    """A contender of the running session, in seconds."""

    active: float = 0.0
    blocks: int = 0
    measured: float = 0.0
    last: float = 0.0


class UnderWay:
    """The running session: one contender is active at a time, from one phase to the next."""

    def __init__(self, durations: Durations, clock: Callable[[], float] = time.monotonic) -> None:
        self._durations = durations
        self._clock = clock
        self._turns: dict[PlannedReplicate, _Turn] = {}
        self._phases: dict[PlannedReplicate, str] = {}
        self._now: PlannedReplicate | None = None
        self._since = 0.0

    def begin(self, session: SessionPlan) -> None:
        """Reset for a new session."""
        self._turns = {planned: _Turn() for planned in session.contenders}
        self._phases = {}
        self._now = None

    def enter_phase(self, planned: PlannedReplicate, phase: str) -> None:
        """A contender enters a phase; a restarted one begins again."""
        self._account()
        if self._now is not None and self._phases[self._now] == "measure":
            self._turns[self._now].blocks += 1
        if planned not in self._turns:
            return
        if phase == "import":
            self._turns[planned] = _Turn()
        self._phases[planned] = phase
        self._now = planned

    def end_replicate(self, planned: PlannedReplicate) -> None:
        """A contender has ended."""
        self._account()
        self._turns.pop(planned, None)
        self._now = None if self._now == planned else self._now

    def end(self) -> None:
        """The session has ended, regardless of its contenders."""
        self._turns = {}
        self._now = None

    def seconds_left(self) -> float:
        """Seconds until its last contender ends; 0 only if all have ended."""
        self._account()
        if not self._turns:
            return 0.0
        return max(_LEAST_SECONDS, sum(self._of(planned, turn) for planned, turn in self._turns.items()))

    def _of(self, planned: PlannedReplicate, turn: _Turn) -> float:
        phase, last = self._phases.get(planned, ""), self._durations.last(planned)
        if phase in _LAST_PHASES:
            return max(0.0, last - turn.last)
        estimate = self._durations.rounds(turn.blocks, turn.measured) + last
        if turn.blocks or phase == "measure":
            return estimate
        return max(estimate, self._durations.replicate(planned) - turn.active)

    def _account(self) -> None:
        """Assign the time since the last event to the active contenders."""
        now = self._clock()
        if self._now is not None and (turn := self._turns.get(self._now)) is not None:
            passed, phase = now - self._since, self._phases[self._now]
            turn.active += passed
            if phase == "measure":
                turn.measured += passed
            elif phase in _LAST_PHASES:
                turn.last += passed
        self._since = now
