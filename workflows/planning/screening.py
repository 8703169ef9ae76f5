"""Measure a screened upgrade: short pairs first, then full pairs of the cases that the screen selects."""

from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import replace

from analysis.comparison.screening import FIRST_FULL, SHORT_PAIRS, Selection
from analysis.decision.comparison import Comparison
from records.outcomes import Outcome, PlannedReplicate
from runner.session_plan import SessionPlan, Timing

from ..run_header import Header
from ..session_queue import Pairs, Room, enough_lost, first_look
from .pair_allocation import SuiteAllocation

#: The start of the processes takes most of a short pair; its blocks only have to show 10 %.
_WARM_UP_SECONDS = 0.1, 1.0
_MEASURE_SECONDS, _BLOCK_SECONDS, _MAX_SECONDS = 0.25, 0.03, 2.0


def short(timing: Timing) -> Timing:
    """The timing of a process of a short pair, which finds the code that its fingerprint compiled."""
    warm_up, longest = _WARM_UP_SECONDS
    return replace(
        timing,
        cold_replicates=0,
        measure_seconds=_MEASURE_SECONDS,
        block_seconds=_BLOCK_SECONDS,
        max_seconds=_MAX_SECONDS,
        warm_up_min_seconds=warm_up,
        warm_up_max_seconds=longest,
        observe_seconds=0.0,
        pair_error=0.0,
    )


def full(timing: Timing) -> Timing:
    """The timing of a process of a full pair; the first one after the short pairs compiles again."""
    return replace(timing, cold_replicates=FIRST_FULL + timing.cold_replicates)


def timing_of_replicates(header: Header) -> Callable[[PlannedReplicate], Timing]:
    """The timing of each replicate of a run; in a screened run short pairs have another.

    Answers are checked in the first of the two short pairs, and in any replacement of a lost one.
    """
    timing, comparison = header.timing_policy, header.pair_comparison
    if comparison is None or comparison.screen is None:
        return lambda planned: timing
    of_short, of_full = short(timing), full(timing)
    second = replace(of_short, check=False)

    def of(planned: PlannedReplicate) -> Timing:
        if not comparison.is_short(planned.replicate):
            return of_full
        return second if planned.replicate == SHORT_PAIRS - 1 else of_short

    return of


class ScreenedPairs:
    """The sessions of a screened upgrade: short pairs of every case, then full ones of those selected."""

    def __init__(self, planned: Sequence[PlannedReplicate], comparison: Comparison) -> None:
        self._comparison = comparison
        self._full_planned = [one for one in planned if one.replicate >= FIRST_FULL]
        self._outcomes: dict[str, list[Outcome]] = defaultdict(list)
        short_planned = [one for one in planned if one.replicate < FIRST_FULL]
        sides = comparison.old, comparison.new
        self._short = Pairs(short_planned, sides, self._stop_reason, SHORT_PAIRS)
        self._full: Pairs | None = None
        self._selected: set[str] = set()
        self._passed: list[PlannedReplicate] = []

    def next(self, room: Room) -> SessionPlan | None:
        """A short pair while there is one, then a full pair of a case that the screen selects."""
        if self._full is None:
            if session := self._short.next(room):
                return session
            self._full = self._full_pairs()
        return self._full.next(room)

    def learn(self, outcome: Outcome) -> None:
        """It may end the short pairs of the case; full pairs are planned after all short ones."""
        if outcome.replicate < FIRST_FULL:
            self._short.learn(outcome)
        elif self._full is not None and outcome.case in self._selected:
            self._full.learn(outcome)
        self._outcomes[outcome.case].append(outcome)

    def sessions_left(self) -> Iterable[SessionPlan]:
        """The remaining short pairs, without spare ones; then the full pairs."""
        if self._full is not None:
            return self._full.sessions_left()
        return [one for one in self._short.sessions_left() if one.contenders[0].replicate < SHORT_PAIRS]

    def not_needed(self) -> Iterator[tuple[PlannedReplicate, str]]:
        """The short and the full pairs that are not needed."""
        yield from self._short.not_needed()
        if self._full is not None:
            yield from self._full.not_needed()
            passed, self._passed = self._passed, []
            for planned in passed:
                yield planned, "not needed: two short pairs show no difference"

    def _stop_reason(self, outcomes: Sequence[Outcome]) -> str:
        """The reason why a case needs no more short pairs; empty while it does."""
        screened = self._comparison.screen_outcomes(outcomes[0].case, outcomes)
        assert screened is not None
        if screened.selection == Selection.NO_PAIRS:
            return ""
        return "not needed: the case is screened"

    def _full_pairs(self) -> Pairs:
        """The full pairs of the cases that the screen selects, in order of priority.

        If the budget is not enough for all of them, the cases that fail or look slowest are judged.
        """
        selected, priorities = self._selected, dict[str, tuple[bool, float]]()
        for case in {planned.case for planned in self._full_planned}:
            screened = self._comparison.screen_outcomes(case, self._outcomes[case])
            if screened is not None and screened.selection is not None:
                selected.add(case)
                priorities[case] = screened.priority
        planned = [one for one in self._full_planned if one.case in selected]
        planned.sort(key=lambda one: priorities[one.case], reverse=True)
        passed = [one for one in self._full_planned if one.case not in selected]
        sides, look = (self._comparison.old, self._comparison.new), first_look(self._comparison)
        allocate = SuiteAllocation(self._comparison, single_cases=bool(passed)).choose
        pairs = Pairs(planned, sides, enough_lost(self._comparison), look, allocate)
        measured = {outcome.planned_replicate for own in self._outcomes.values() for outcome in own}
        self._passed = [one for one in passed if one not in measured]
        for outcome in (one for own in self._outcomes.values() for one in own):
            if outcome.replicate >= FIRST_FULL and outcome.case in selected:
                pairs.learn(outcome)
        return pairs
