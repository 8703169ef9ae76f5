"""The next comparison of a bisection, and its end."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Literal

from .comparison.case_results import BROKEN, CaseResult

#: `good`: the same as the compared environment, or faster. `bad`: slower, or broken if the other works.
#: `unclear`: more pairs may decide it. `skip`: no pair can decide it, for example because an environment
#: cannot be built.
Mark = Literal["good", "bad", "unclear", "skip"]

Kind = Literal["pair", "range", "gradual", "alike"]


@dataclass(frozen=True, slots=True)
class Answer:
    """The result of comparing the candidate at position `new` with the one at `old`."""

    old: int
    new: int
    mark: Mark


@dataclass(frozen=True, slots=True)
class Question:
    """Two candidates to compare next, by position; `again` with a larger plan, because the first comparison
    was unclear.
    """

    old: int
    new: int
    again: bool = False


@dataclass(frozen=True, slots=True)
class BisectionEnd:
    """The end of a bisection: the nearest two candidates, by position, that are known to differ.

    - `pair`: their own comparison proves that they do, and nothing lies between them.
    - `range`: the same, but those in `between` could not be judged: the change is in one of them or in `bad`.
    - `gradual`: `bad` differs from the first candidate and `good` does not, but the two are not proved to
      differ from each other: the change came in steps that are too small to be detected one by one.
    - `alike`: the two ends are not proved to differ, or the good one cannot be used; no candidate was
      compared.
    """

    kind: Kind
    good: int
    bad: int
    between: tuple[int, ...] = ()


def answer(result: CaseResult, metric: str) -> Mark:
    """The mark of the new environment, from one case in two environments and the metric that decides."""
    if result.broke:
        return "bad"
    if result.old.status in BROKEN:
        return "skip"
    verdict = result.verdicts.get(metric)
    if not result.works or verdict is None:
        return "unclear"
    if verdict.word == "not comparable":
        return "skip"
    if verdict.word in ("unclear", "no data"):
        return "unclear"
    return "bad" if verdict.word == "slower" else "good"


def walk(count: int, answers: Sequence[Answer]) -> Question | BisectionEnd:
    """The next question or the end, from the answers so far about `count` candidates, at least two, the good
    end first.

    The ends are compared first, then the middle of the remaining candidates with the good end, and finally
    the two that remain with each other. A candidate that stays unclear under a larger plan is passed over
    like a skipped one: its neighbour is tried. For k candidates between the ends these are at most
    ceil(log2(k + 1)) comparisons, one for each that is passed over, those made twice, and two.
    """
    if count < 2:
        raise ValueError("a bisection has two ends")
    last = count - 1
    ends = _mark_or_question(answers, 0, last)
    if isinstance(ends, Question):
        return ends
    if ends != "bad":
        return BisectionEnd("alike", 0, last)
    low, high = _known_ends(last, answers)
    if between := _open(low, high, answers):
        middle = _mark_or_question(answers, 0, between[len(between) // 2])
        # An open candidate has no final mark yet.
        assert isinstance(middle, Question)
        return middle
    between = tuple(range(low + 1, high))
    direct = _mark_or_question(answers, low, high)
    if isinstance(direct, Question):
        return direct
    if direct != "bad":
        return BisectionEnd("gradual", low, high, between)
    return BisectionEnd("range" if between else "pair", low, high, between)


def count_remaining(count: int, answers: Sequence[Answer]) -> tuple[int, int]:
    """The number of candidates without a final mark, and about how many comparisons they take."""
    low, high = _known_ends(count - 1, answers)
    many = len(_open(low, high, answers))
    return many, many.bit_length()


def _known_ends(last: int, answers: Iterable[Answer]) -> tuple[int, int]:
    """The last candidate known to be good and the first known to be bad."""
    low, high = 0, last
    for one in answers:
        if one.old == 0 and 0 < one.new < last:
            low = max(low, one.new) if one.mark == "good" else low
            high = min(high, one.new) if one.mark == "bad" else high
    return low, high


def _open(low: int, high: int, answers: Sequence[Answer]) -> tuple[int, ...]:
    """The candidates between two that have no final mark yet."""
    return tuple(at for at in range(low + 1, high) if isinstance(_mark_or_question(answers, 0, at), Question))


def _mark_or_question(answers: Iterable[Answer], old: int, new: int) -> Mark | Question:
    """The final mark of a comparison, or the question that is still open about it."""
    mark: list[Mark] = [one.mark for one in answers if (one.old, one.new) == (old, new)]
    if not mark or (mark[0] == "unclear" and len(mark) == 1):
        return Question(old, new, again=bool(mark))
    return mark[-1]
