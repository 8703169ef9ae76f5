"""What is measured next: a plan's sessions in order, or pairs for as long as they tell something."""

from collections import defaultdict, deque
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Protocol

from records.outcomes import Outcome, Planned
from runner.session_plan import SessionPlan, Timing
from runner.suites import plan

#: A case that broke in so many pairs is not going to tell anything in the next ones.
_BROKEN_ENOUGH = 2
#: What infrastructure or others did says nothing about the case.
_SAYS_NOTHING = ("contended", "throttled", "lost", "skipped")
_MAY_PASS = ("ok", *_SAYS_NOTHING)


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
    def told(self) -> int:
        """How many of its pairs have told something, as far as their outcomes say."""
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
        self._told: set[Planned] = set()

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
            if (missing := self._first_look - one.told) > 0:
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
                    if planned not in done and planned not in self._told:
                        self._told.add(planned)
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
    """Why a case has no more to tell: it is unsupported, or broke in every pair so far and more than once.

    As long as one side has told nothing, it is not known whether the case broke or never worked.
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
    if last.status == "unsupported" or (None not in bad and len(bad) >= _BROKEN_ENOUGH):
        return f"not needed: ended {last.status} in {sum(one is not None for one in bad)} pairs"
    return ""
