"""The order of a run's sessions: as planned, or pairs as long as they can change the verdict."""

import itertools
from collections import defaultdict, deque
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Protocol

from analysis.comparison.pairs import pairs_of
from analysis.comparison.screening import FIRST_FULL
from analysis.comparison.sequential_test import Advice, advise
from analysis.comparison.thresholds import threshold_of
from analysis.comparison.verdict import Verdict, judge
from analysis.decision.comparison import Comparison
from analysis.decision.policy_rules import leaves_open
from analysis.decision.upgrade import TABLES
from records.outcomes import Outcome, OutcomeStatus, PlannedReplicate
from reports.text.verdict_text import describe_advice
from runner.session_plan import SessionPlan
from runner.suites import plan

#: The usual number of pairs of a case until a suite is decided, for estimates.
_USUAL_PAIRS = 6
#: The number of broken pairs after which a case gets no more.
_BROKEN_ENOUGH = 2
#: Statuses caused by the infrastructure or other programs, which do not describe the case.
_SAYS_NOTHING = (OutcomeStatus.CONTENDED, OutcomeStatus.THROTTLED, OutcomeStatus.LOST, OutcomeStatus.SKIPPED)
_MAY_PASS = (OutcomeStatus.OK, *_SAYS_NOTHING)


@dataclass(frozen=True, slots=True)
class Room:
    """The remaining budget in seconds, and the expected duration of a session."""

    seconds: float
    cost: Callable[[SessionPlan], float]


class Queue(Protocol):
    """The sessions of one run, returned one at a time."""

    def next(self, room: Room) -> SessionPlan | None:
        """The next session to measure, even if it does not fit the budget; None if nothing is left."""
        ...

    def learn(self, outcome: Outcome) -> None:
        """Record an outcome, also one from an earlier part of the same run."""
        ...

    def sessions_left(self) -> Iterable[SessionPlan]:
        """The sessions that would still be measured if nothing ended early."""
        ...

    def not_needed(self) -> Iterator[tuple[PlannedReplicate, str]]:
        """Planned replicates that are not needed any more, each once, with the reason."""
        ...


class InOrder:
    """Every session of a plan."""

    def __init__(self, todo: Sequence[PlannedReplicate]) -> None:
        self._sessions = deque(plan.sessions(todo))

    def next(self, room: Room) -> SessionPlan | None:
        """The first remaining session."""
        return self._sessions.popleft() if self._sessions else None

    def learn(self, outcome: Outcome) -> None:
        """Outcomes do not change the plan."""

    def sessions_left(self) -> Iterable[SessionPlan]:
        """All remaining sessions."""
        return self._sessions

    def not_needed(self) -> Iterator[tuple[PlannedReplicate, str]]:
        """Everything planned is needed."""
        return iter(())


#: From all outcomes of one case, old and new: the reason why no more pairs are needed, empty while they are.
Enough = Callable[[Sequence[Outcome]], str]
#: From the outcomes of all cases, and the cases that get no more pairs: the case that gets the next pair;
#: None if measuring ends, with the reason.
Allocate = Callable[[Mapping[str, Sequence[Outcome]], Collection[str]], tuple[str | None, str]]


@dataclass(slots=True)
class _Case:
    """The pairs of one case: their numbers, the outcomes so far, and the reason why it gets no more
    (`over`).
    """

    waiting: deque[int]
    outcomes: list[Outcome] = field(default_factory=list[Outcome])
    torn: list[int] = field(default_factory=list[int])
    over: str = ""

    @property
    def numbers(self) -> set[int]:
        """The pairs that count, as far as their outcomes show."""
        lost = {one.replicate for one in self.outcomes if one.status in _SAYS_NOTHING}
        return {one.replicate for one in self.outcomes} - lost

    def take(self) -> int:
        """The number of the next pair: the lowest, unless one order of starting has more pairs that count.

        So a lost pair is measured again in the same order.
        """
        new_first = [_new_first(number) for number in self.numbers]
        lacking = 2 * sum(new_first) - len(new_first)
        choices = [n for n in self.waiting if lacking == 0 or _new_first(n) == (lacking < 0)]
        number = choices[0] if choices else self.waiting[0]
        self.waiting.remove(number)
        return number


class Pairs:
    """One session per case and pair of environments, the old and the new one.

    First pairs of all cases come before second ones, so that the pairs of a case are spread over time. The
    old side starts first in the first pair, the new one in the next two, the old one in the fourth, and so
    on. A case ends when `enough` says so, or when it broke again and again. `allocate`, if given, chooses the
    case once all have `first_look` pairs, and ends the measuring. If an interruption separated a pair, its
    other half cannot be used and is not measured. If the budget is not enough for `first_look` pairs of all
    cases, before which none has a verdict, the first cases of the suite get their pairs before the others
    continue, so that at least some can be judged. This choice depends only on the duration of pairs, not on
    their results. When these cases need no more pairs, the others get single ones as long as the budget
    lasts, which at least show broken cases.
    """

    def __init__(
        self,
        planned: Sequence[PlannedReplicate],
        environments: tuple[str, str],
        enough: Enough,
        first_look: int = 1,
        allocate: Allocate | None = None,
    ) -> None:
        self._old, self._new = environments
        self._enough = enough
        self._first_look = first_look
        self._allocate = allocate
        numbers: dict[str, set[int]] = defaultdict(set)
        for one in planned:
            numbers[one.case].add(one.replicate)
        self._cases = {case: _Case(deque(sorted(each))) for case, each in numbers.items()}
        self._reported: set[PlannedReplicate] = set()

    def next(self, room: Room) -> SessionPlan | None:
        """The pair with the lowest number, of the first case with a remaining one."""
        open_cases = [case for case, one in self._cases.items() if self._open(one)]
        if not open_cases:
            return None
        case = self._choose(open_cases, room)
        return None if case is None else self._session(case, self._cases[case].take())

    def _choose(self, open_cases: Sequence[str], room: Room) -> str | None:
        """The case that gets the next pair; None if no case needs one, which ends all."""
        candidates = self._brought_first(open_cases, room) or open_cases
        if self._allocate is not None:
            behind = [case for case in candidates if self._is_behind(case)]
            if not behind:
                chosen, reason = self._allocate_pair(open_cases)
                if chosen is not None:
                    return chosen
                behind = [case for case in open_cases if self._is_behind(case)]
                for case in open_cases:
                    if case not in behind:
                        self._cases[case].over = f"not needed: {reason}"
                if not behind:
                    return None
            candidates = behind
        # `min` keeps the order of the suite among equal numbers.
        return min(candidates, key=lambda each: self._cases[each].waiting[0])

    def _is_behind(self, case: str) -> bool:
        return len(self._cases[case].numbers) < self._first_look

    def _allocate_pair(self, open_cases: Sequence[str]) -> tuple[str | None, str]:
        assert self._allocate is not None
        outcomes = {case: one.outcomes for case, one in self._cases.items()}
        ended = self._cases.keys() - {*open_cases}
        return self._allocate(outcomes, ended)

    def _brought_first(self, open_cases: Sequence[str], room: Room) -> list[str]:
        """If the budget is not enough for a verdict on every case: the cases for which it is, else those with
        one.
        """
        lacking: dict[str, list[SessionPlan]] = {}
        for case in open_cases:
            one = self._cases[case]
            if (missing := self._first_look - len(one.numbers)) > 0:
                lacking[case] = [self._session(case, number) for number in list(one.waiting)[:missing]]
        seconds = room.seconds
        brought: list[str] = []
        for case, sessions in lacking.items():
            if (needed := sum(map(room.cost, sessions))) <= seconds:
                seconds -= needed
                brought.append(case)
        if len(brought) == len(lacking):
            return []
        return brought or [case for case in open_cases if case not in lacking]

    def learn(self, outcome: Outcome) -> None:
        """Record an outcome, which may decide the case."""
        case = self._cases[outcome.case]
        case.outcomes.append(outcome)
        ended = {one.environment for one in case.outcomes if one.replicate == outcome.replicate}
        if not case.over and ended == {self._old, self._new}:
            case.over = _broken(case.outcomes) or self._enough(case.outcomes)

    def sessions_left(self) -> Iterable[SessionPlan]:
        """Every pair that may still be measured; with `allocate` the usual number of a suite."""
        open_cases = [case for case, one in self._cases.items() if self._open(one)]
        if self._allocate is not None:
            every_has = all(len(self._cases[case].numbers) >= self._first_look for case in open_cases)
            if open_cases and every_has and self._allocate_pair(open_cases)[0] is None:
                return []
        return [
            self._session(case, number)
            for case in open_cases
            for number in itertools.islice(self._cases[case].waiting, self._usual(self._cases[case]))
        ]

    def _usual(self, case: _Case) -> int | None:
        """The number of pairs that the case will get, if known; None for all remaining ones."""
        return None if self._allocate is None else max(1, _USUAL_PAIRS - len(case.numbers))

    def not_needed(self) -> Iterator[tuple[PlannedReplicate, str]]:
        """The remaining replicates of ended cases, and of pairs that an interruption separated."""
        for case, one in self._cases.items():
            done = {outcome.planned_replicate for outcome in one.outcomes}
            needless = dict.fromkeys(one.torn, "its partner was measured before an interruption")
            if one.over:
                needless |= dict.fromkeys(one.waiting, one.over)
            for number, reason in needless.items():
                for environment in (self._old, self._new):
                    planned = PlannedReplicate(case, environment, number)
                    if planned not in done and planned not in self._reported:
                        self._reported.add(planned)
                        yield planned, reason

    def _open(self, case: _Case) -> bool:
        done = {one.replicate for one in case.outcomes}
        for number in [number for number in case.waiting if number in done]:
            case.waiting.remove(number)
            case.torn.append(number)
        return bool(case.waiting) and not case.over

    def _session(self, case: str, number: int) -> SessionPlan:
        sides = (self._new, self._old) if _new_first(number) else (self._old, self._new)
        return SessionPlan(f"{case}#{number}", tuple(PlannedReplicate(case, side, number) for side in sides))


def _new_first(number: int) -> bool:
    """Whether the new side starts first in the pair of this number: A B, B A, B A, A B and so on."""
    return number % 4 in (1, 2)


def _broken(outcomes: Sequence[Outcome]) -> str:
    """The reason why a case needs no more pairs: it is unsupported, or broke in every pair so far and more
    than once.

    Without a result of one side it is unknown whether the case broke or never worked.
    """
    if len({one.environment for one in outcomes if one.status not in _SAYS_NOTHING}) < 2:
        return ""
    by_number: dict[int, list[Outcome]] = defaultdict(list)
    for outcome in outcomes:
        by_number[outcome.replicate].append(outcome)
    bad = [next((one for one in pair if one.status not in _MAY_PASS), None) for pair in by_number.values()]
    last = next((one for one in reversed(bad) if one is not None), None)
    if last is None:
        return ""
    if last.status == OutcomeStatus.UNSUPPORTED or (None not in bad and len(bad) >= _BROKEN_ENOUGH):
        return f"not needed: ended {last.status} in {sum(one is not None for one in bad)} pairs"
    return ""


#: One spare pair is reserved for this number of planned pairs, for those that end without a number.
_ONE_SPARE_OF = 4
#: The number of lost pairs that every case of a suite may have, even with fewer spare ones.
_LEAST_LOST = 4


def first_look(comparison: Comparison) -> int:
    """The number of pairs before which no case has a verdict on the deciding metric."""
    policy = comparison.policy
    return 1 if threshold_of(policy.metric, policy.thresholds).exact else comparison.plan.smallest


def pairs_planned(comparison: Comparison, cases: Iterable[str]) -> list[PlannedReplicate]:
    """Every replicate that may be needed: the first pair of all cases, then the second, and so on.

    In a screened upgrade the short pairs come first.
    """
    listed, largest = list(cases), comparison.plan.largest
    sides = (comparison.old, comparison.new)
    numbers = range(largest + largest // _ONE_SPARE_OF + (FIRST_FULL if comparison.screen else 0))
    return [PlannedReplicate(case, side, n) for n in numbers for case in listed for side in sides]


def enough_pairs(comparison: Comparison, cases: int) -> Enough:
    """A function that returns, from the outcomes of one of `cases` cases, the reason why it needs no more
    pairs.

    The deciding metric is judged first. Other metrics that vary keep a case open only while the newest pair
    has them, because more pairs do not help a metric of cold pairs. Metrics in `also` are measured until they
    have a verdict, metrics with a limit until they are on one side of it, and metrics of a table until their
    first verdict.
    """
    policy, plan = comparison.policy, comparison.plan

    def _enough(outcomes: Sequence[Outcome]) -> str:
        decides, advice = _judge_metric(comparison, policy.metric, outcomes, cases)
        # Two pairs are enough for an exact metric.
        if advice.go_on or (decides.n >= plan.smallest and lacks_others(comparison, outcomes, cases)):
            return ""
        return f"not needed: {describe_advice(advice)}"

    return _enough


def enough_lost(comparison: Comparison) -> Enough:
    """A function that ends a case of a suite when more pairs are lost than the plan has spare ones.

    A lost pair is one that does not count, for any reason: such a case will hardly be decided, and delays the
    others.
    """
    metric, most = comparison.policy.metric, max(_LEAST_LOST, comparison.plan.largest // _ONE_SPARE_OF)

    def _enough(outcomes: Sequence[Outcome]) -> str:
        lost = sum(bool(pair.left_out) for pair in pairs_of(metric, *comparison.sides(outcomes)))
        return f"not needed: {lost} pairs were disturbed or lost" if lost > most else ""

    return _enough


def lacks_others(comparison: Comparison, outcomes: Sequence[Outcome], cases: int) -> bool:
    """Whether one of `cases` cases needs more pairs for a metric other than the deciding one."""
    others = _metrics_of_newest_pair(outcomes) & _open_metrics(comparison) - {comparison.policy.metric}
    return any(_lacks(comparison, metric, outcomes, cases) for metric in others)


def _judge_metric(
    comparison: Comparison, metric: str, outcomes: Sequence[Outcome], cases: int
) -> tuple[Verdict, Advice]:
    policy, plan = comparison.policy, comparison.plan
    threshold = threshold_of(metric, policy.thresholds)
    pairs = pairs_of(metric, *comparison.sides(outcomes), threshold.exact)
    verdict = judge(metric, pairs, threshold, plan)
    return verdict, advise(verdict, plan, cases, rate=policy.false_discovery_rate)


def _lacks(comparison: Comparison, metric: str, outcomes: Sequence[Outcome], cases: int) -> bool:
    verdict, advice = _judge_metric(comparison, metric, outcomes, cases)
    if not advice.go_on:
        return False
    limited = metric in comparison.policy.worst and leaves_open(verdict, comparison.policy)
    return metric in comparison.also or limited or verdict.n < comparison.plan.smallest


def _open_metrics(comparison: Comparison) -> set[str]:
    """The metrics that may need more pairs, besides the deciding one."""
    metrics = {
        *comparison.also,
        *comparison.policy.worst,
        *(one for table in TABLES.values() for one in table),
    }
    return {one for one in metrics if not threshold_of(one, comparison.policy.thresholds).exact}


def _metrics_of_newest_pair(outcomes: Sequence[Outcome]) -> set[str]:
    """The metrics that the newest pair has."""
    ended = [one for one in outcomes if one.status == OutcomeStatus.OK]
    newest = max((one.replicate for one in ended), default=0)
    return {metric for one in ended if one.replicate == newest for metric in one.metrics}
