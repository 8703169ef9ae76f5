"""Bisection: monotone histories end at the right pair, in as few comparisons as promised."""

import math
from collections.abc import Callable

import pytest
from hypothesis import given
from hypothesis import strategies as st

from analysis.bisection import Answer, BisectionEnd, Mark, Question, answer, count_remaining, walk
from analysis.comparison.case_results import CaseResult, CaseSide
from analysis.comparison.verdict import Verdict, not_comparable

Judge = Callable[[Question], Mark]


def walked(count: int, judge: Judge) -> tuple[BisectionEnd, list[Answer]]:
    """Answer every question until the end; no question comes again unless it was unclear."""
    answers: list[Answer] = []
    while isinstance(step := walk(count, answers), Question):
        assert 0 <= step.old < step.new < count
        before = [one for one in answers if (one.old, one.new) == (step.old, step.new)]
        assert [one.mark for one in before] == (["unclear"] if step.again else [])
        answers.append(Answer(step.old, step.new, judge(step)))
    return step, answers


@st.composite
def histories(draw: st.DrawFn) -> tuple[int, int, set[int], set[int], set[int]]:
    """How many candidates, the first bad one, those without a verdict, and those unclear once or always."""
    count = draw(st.integers(2, 70))
    between = list(range(1, count - 1))
    some = st.sets(st.sampled_from(between)) if between else st.just(set[int]())
    return count, draw(st.integers(1, count - 1)), draw(some), draw(some), draw(some)


@given(histories())
def test_a_monotone_history_ends_at_the_right_pair(
    history: tuple[int, int, set[int], set[int], set[int]],
) -> None:
    count, first_bad, skipped, once, never = history
    mute = skipped | never

    def judge(step: Question) -> Mark:
        if step.old == 0 and step.new in skipped:
            return "skip"
        if step.old == 0 and (step.new in never or (step.new in once and not step.again)):
            return "unclear"
        return "bad" if step.old < first_bad <= step.new else "good"

    end, answers = walked(count, judge)
    tested = [at for at in range(count) if at not in mute]
    assert end.good == max(at for at in tested if at < first_bad)
    assert end.bad == min(at for at in tested if at >= first_bad)
    assert end.between == tuple(range(end.good + 1, end.bad)) and set(end.between) <= mute
    assert end.kind == ("range" if end.between else "pair")
    assert Answer(end.good, end.bad, "bad") in answers
    passed = {one.new for one in answers if one.old == 0 and one.new in mute}
    twice = sum(one.mark == "unclear" for one in answers) - len(passed - skipped)
    assert len(answers) <= 2 + math.ceil(math.log2(count - 1)) + len(passed) + twice


@given(st.integers(2, 40), st.data())
def test_whatever_is_answered_the_walk_ends_between_what_is_known(count: int, data: st.DataObject) -> None:
    words: st.SearchStrategy[Mark] = st.sampled_from(("good", "bad", "unclear", "skip"))
    end, answers = walked(count, lambda step: data.draw(words))
    mark = {(one.old, one.new): one.mark for one in answers}
    if end.kind == "alike":
        assert mark[0, count - 1] != "bad" and {(one.old, one.new) for one in answers} == {(0, count - 1)}
        return
    assert mark[0, end.bad] == "bad"
    assert end.good == 0 or mark[0, end.good] == "good"
    assert all(mark[0, at] in ("unclear", "skip") for at in end.between)
    assert (mark[end.good, end.bad] == "bad") == (end.kind != "gradual")


def test_six_between_take_three_steps_and_the_pair_itself() -> None:
    end, answers = walked(8, lambda step: "bad" if step.old < 6 <= step.new else "good")
    assert end == BisectionEnd("pair", 5, 6)
    assert [(one.old, one.new) for one in answers] == [(0, 7), (0, 4), (0, 6), (0, 5), (5, 6)]


def test_next_to_the_good_end_the_walk_has_made_the_comparison_already() -> None:
    end, answers = walked(4, lambda step: "bad")
    assert end == BisectionEnd("pair", 0, 1)
    assert [(one.old, one.new) for one in answers] == [(0, 3), (0, 2), (0, 1)]


def test_what_is_left_is_counted() -> None:
    assert count_remaining(7, []) == (5, 3)
    assert count_remaining(7, [Answer(0, 6, "bad"), Answer(0, 3, "good")]) == (2, 2)
    assert count_remaining(7, [Answer(0, 6, "bad"), Answer(0, 3, "good"), Answer(0, 5, "skip")]) == (1, 1)
    assert count_remaining(2, []) == (0, 0)


def test_there_are_two_ends() -> None:
    with pytest.raises(ValueError, match="two ends"):
        walk(1, [])


def a_result(old: str, new: str, *verdicts: Verdict) -> CaseResult:
    return CaseResult("k", "eager", CaseSide(old), CaseSide(new), {one.metric: one for one in verdicts})


def said_by(word: str) -> Mark:
    verdict = Verdict("latency_floor", word)  # type: ignore[arg-type]
    return answer(a_result("ok", "ok", verdict), "latency_floor")


def test_a_verdict_says_on_which_side_a_candidate_lies() -> None:
    words = ("slower", "same", "faster", "unclear", "no data")
    assert [said_by(word) for word in words] == ["bad", "good", "good", "unclear", "unclear"]
    unlike = not_comparable("latency_floor")
    assert answer(a_result("ok", "ok", unlike), "latency_floor") == "skip"
    assert answer(a_result("ok", "ok"), "latency_floor") == "unclear"


@pytest.mark.parametrize(
    ("old", "new", "mark"),
    [
        ("ok", "crashed", "bad"),
        ("ok", "wrong", "bad"),
        ("ok", "unsupported", "bad"),
        ("ok", "lost", "unclear"),
        ("contended", "ok", "unclear"),
        ("crashed", "ok", "skip"),
        ("crashed", "crashed", "skip"),
    ],
)
def test_what_is_broken_says_more_than_any_number(old: str, new: str, mark: Mark) -> None:
    assert answer(a_result(old, new, Verdict("latency_floor", "same")), "latency_floor") == mark
