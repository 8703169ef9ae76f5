"""What is measured next: a plan's sessions in order, or pairs for as long as they can change the verdict."""

from collections import defaultdict, deque
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Protocol

from analysis.comparison.comparison import AGAIN, Comparison
from analysis.comparison.pairs import pairs_of
from analysis.comparison.reasons import leaves_open
from analysis.comparison.sequential_test import Advice, advise
from analysis.comparison.thresholds import threshold_of
from analysis.comparison.upgrade import TABLES
from analysis.comparison.verdict import Verdict, judge
from records.outcomes import Outcome, OutcomeStatus, Planned
from runner.session_plan import SessionPlan, Timing
from runner.suites import plan

#: A case that broke in so many pairs gets no more.
_BROKEN_ENOUGH = 2
#: What infrastructure or others did says nothing about the case.
_SAYS_NOTHING = (OutcomeStatus.CONTENDED, OutcomeStatus.THROTTLED, OutcomeStatus.LOST, OutcomeStatus.SKIPPED)
_MAY_PASS = (OutcomeStatus.OK, *_SAYS_NOTHING)


#: Is there room in the budget for all of these sessions?
Fits = Callable[[Sequence[SessionPlan]], bool]


class Queue(Protocol):
    """The sessions of one run, handed out one at a time."""

    def next(self, fits: Fits) -> SessionPlan | None:
        """The session to measure now, also where nothing fits any more; None when nothing is left."""
        ...

    def learn(self, outcome: Outcome) -> None:
        """Take note of an outcome, also of one from an earlier part of the same run."""
        ...

    def left(self) -> Iterable[SessionPlan]:
        """What would still be measured if nothing ended early."""
        ...

    def settled(self) -> Iterator[tuple[Planned, str]]:
        """Planned replicates that are not needed any more, each once, with the reason."""
        ...


class InOrder:
    """Every session of a plan."""

    def __init__(self, todo: Sequence[Planned], timing: Timing) -> None:
        self._sessions = deque(plan.sessions(todo, timing))

    def next(self, fits: Fits) -> SessionPlan | None:
        """The first that is left."""
        return self._sessions.popleft() if self._sessions else None

    def learn(self, outcome: Outcome) -> None:
        """Nothing that is learnt changes the plan."""

    def left(self) -> Iterable[SessionPlan]:
        """All that is left."""
        return self._sessions

    def settled(self) -> Iterator[tuple[Planned, str]]:
        """Everything planned is needed."""
        return iter(())


#: From all outcomes of one case, old and new: why no more pairs are needed, empty while they are.
Enough = Callable[[Sequence[Outcome]], str]


@dataclass(slots=True)
class _Case:
    """The pairs of one case: numbers to come, what was learnt, and why it is over."""

    waiting: deque[int]
    outcomes: list[Outcome] = field(default_factory=list[Outcome])
    torn: list[int] = field(default_factory=list[int])
    over: str = ""

    @property
    def measured_pairs(self) -> int:
        """How many of its pairs have a result."""
        silent = {one.replicate for one in self.outcomes if one.status in _SAYS_NOTHING}
        return len({one.replicate for one in self.outcomes} - silent)


class Pairs:
    """One session per case and pair of environments: the old and the new one, alone together.

    First pairs of all cases come before second ones, so that the pairs of a case lie apart in time. Which
    side starts first alternates. A case ends when `enough` says so, or when it broke again and again. Of a
    pair that an interruption tore apart the other half is worth nothing, and is not measured.

    Where the budget has no room to bring all cases to `first_look` pairs, before which none has a verdict,
    the first ones of the suite are brought there before any other goes on: better some that are judged than
    all of them nearly. What the pairs say plays no part in that choice, only what they cost.
    """

    def __init__(
        self,
        planned: Sequence[Planned],
        environments: tuple[str, str],
        timing: Timing,
        enough: Enough,
        first_look: int = 1,
    ) -> None:
        self._old, self._new = environments
        self._timing = timing
        self._enough = enough
        self._first_look = first_look
        numbers: dict[str, set[int]] = defaultdict(set)
        for one in planned:
            numbers[one.case].add(one.replicate)
        self._cases = {case: _Case(deque(sorted(each))) for case, each in numbers.items()}
        self._reported: set[Planned] = set()

    def next(self, fits: Fits) -> SessionPlan | None:
        """The pair with the lowest number, of the first case that has one to come."""
        open_cases = [case for case, one in self._cases.items() if self._open(one)]
        if not open_cases:
            return None
        # `min` keeps the order of the suite among equal numbers.
        case = min(
            self._brought_first(open_cases, fits) or open_cases,
            key=lambda each: self._cases[each].waiting[0],
        )
        return self._session(case, self._cases[case].waiting.popleft())

    def _brought_first(self, open_cases: Sequence[str], fits: Fits) -> list[str]:
        """Where the budget cannot bring every case to a verdict: those it can, then those that have one."""
        lacking: dict[str, list[SessionPlan]] = {}
        for case in open_cases:
            one = self._cases[case]
            if (missing := self._first_look - one.measured_pairs) > 0:
                lacking[case] = [self._session(case, number) for number in list(one.waiting)[:missing]]
        needed: list[SessionPlan] = []
        brought: list[str] = []
        for case, sessions in lacking.items():
            if fits([*needed, *sessions]):
                needed += sessions
                brought.append(case)
        if len(brought) == len(lacking):
            return []
        return brought or [case for case in open_cases if case not in lacking]

    def learn(self, outcome: Outcome) -> None:
        """A case may be over with it."""
        case = self._cases[outcome.case]
        case.outcomes.append(outcome)
        ended = {one.environment for one in case.outcomes if one.replicate == outcome.replicate}
        if not case.over and ended == {self._old, self._new}:
            case.over = _broken(case.outcomes) or self._enough(case.outcomes)

    def left(self) -> Iterable[SessionPlan]:
        """Every pair that may still be measured."""
        return [
            self._session(case, number)
            for case, one in self._cases.items()
            if self._open(one)
            for number in one.waiting
        ]

    def settled(self) -> Iterator[tuple[Planned, str]]:
        """What is not needed of cases that are over, and of pairs that were torn apart."""
        for case, one in self._cases.items():
            done = {outcome.planned for outcome in one.outcomes}
            needless = dict.fromkeys(one.torn, "its partner was measured before an interruption")
            if one.over:
                needless |= dict.fromkeys(one.waiting, one.over)
            for number, reason in needless.items():
                for environment in (self._old, self._new):
                    planned = Planned(case, environment, number)
                    if planned not in done and planned not in self._reported:
                        self._reported.add(planned)
                        yield planned, reason

    def _open(self, case: _Case) -> bool:
        done = {one.replicate for one in case.outcomes}
        while case.waiting and case.waiting[0] in done:
            case.torn.append(case.waiting.popleft())
        return bool(case.waiting) and not case.over

    def _session(self, case: str, number: int) -> SessionPlan:
        sides = (self._old, self._new) if number % 2 == 0 else (self._new, self._old)
        pair = tuple(Planned(case, side, number) for side in sides)
        return SessionPlan(f"{case}#{number}", pair, sum(plan.estimate(one, self._timing) for one in pair))


def _broken(outcomes: Sequence[Outcome]) -> str:
    """Why a case needs no more pairs: it is unsupported, or broke in every pair so far and more than once.

    As long as one side has no result, it is not known whether the case broke or never worked.
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


#: Of so many planned pairs one more is kept in store, for those that end without a number.
_ONE_SPARE_OF = 4


def first_look(comparison: Comparison) -> int:
    """With fewer pairs than this no case has a verdict on the metric that decides."""
    policy = comparison.policy
    return 1 if threshold_of(policy.metric, policy.thresholds).exact else comparison.plan.smallest


def pairs_planned(comparison: Comparison, cases: Iterable[str]) -> list[Planned]:
    """Every replicate that may be needed, first pairs of all cases first."""
    listed, largest = list(cases), comparison.plan.largest
    sides = (comparison.old, comparison.new)
    numbers = range(largest + largest // _ONE_SPARE_OF)
    return [Planned(case, side, n) for n in numbers for case in listed for side in sides]


def enough_pairs(comparison: Comparison, cases: int) -> Enough:
    """Says of one of so many cases, from its outcomes so far, why no more pairs are needed.

    The metric that decides says so. Others, of those that vary, have a say as long as the newest pair knows
    them, for no other brings what only a cold one does: what the comparison is also for goes on until its
    verdict stands, what has a limit until it is on one side of that, what has a table has its first look.
    """
    policy, plan = comparison.policy, comparison.plan
    varying = _varying(comparison) - {policy.metric}

    def _judged(metric: str, outcomes: Sequence[Outcome]) -> tuple[Verdict, Advice]:
        threshold = threshold_of(metric, policy.thresholds)
        pairs = pairs_of(metric, *comparison.sides(outcomes), threshold.exact)
        verdict = judge(metric, pairs, threshold, plan)
        return verdict, advise(verdict, plan, cases, rate=policy.false_discovery_rate)

    def _lacks(metric: str, outcomes: Sequence[Outcome]) -> bool:
        verdict, advice = _judged(metric, outcomes)
        if not advice.go_on:
            return False
        limited = metric in policy.worst and leaves_open(verdict, policy)
        return metric in comparison.also or limited or verdict.n < plan.smallest

    def _enough(outcomes: Sequence[Outcome]) -> str:
        decides, advice = _judged(policy.metric, outcomes)
        others = _known_of_the_newest(outcomes) & varying
        # For an exact metric two pairs are enough.
        if advice.go_on or (decides.n >= plan.smallest and any(_lacks(one, outcomes) for one in others)):
            return ""
        return f"not needed: {advice.reason}"

    return _enough


def _varying(comparison: Comparison) -> set[str]:
    """The metrics that may need more pairs, besides the one that decides."""
    metrics = {
        *comparison.also,
        *comparison.policy.worst,
        *(one for table in TABLES.values() for one in table),
    }
    return {one for one in metrics if not threshold_of(one, comparison.policy.thresholds).exact}


def _known_of_the_newest(outcomes: Sequence[Outcome]) -> set[str]:
    """What the newest pair that ended ok knows."""
    ended = [one for one in outcomes if one.status == OutcomeStatus.OK]
    newest = max((one.replicate for one in ended), default=0)
    return {metric for one in ended if one.replicate == newest for metric in one.metrics}


def again(fingerprint: str) -> str:
    """The identity of an environment that is compared with itself: which shows what the method makes up."""
    return fingerprint + AGAIN


def without_again(fingerprint: str) -> str:
    """The environment's own fingerprint."""
    return fingerprint.removesuffix(AGAIN)
