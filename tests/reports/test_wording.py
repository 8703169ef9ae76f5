"""Numbers and verdicts in words: what people read is what was judged."""

import math
from datetime import UTC, datetime, timedelta

import pytest
from hypothesis import given
from hypothesis import strategies as st

from analysis.comparison.pairs import BEYOND, WAITS, Pair
from analysis.comparison.thresholds import Threshold, threshold_of
from analysis.comparison.verdict import Doubt, Verdict, judge, not_comparable
from analysis.decision.what_would_decide import PairsToDecide
from reports import sentences, wording
from support.builders.upgrade_reports import (
    FLOOR,
    a_result,
    a_verdict,
    an_exact_verdict,
    every_kind,
    reported,
)

BEGUN = datetime(2026, 1, 1, tzinfo=UTC)
RESIDENT = "rss_peak_steady"


@pytest.mark.parametrize(
    ("ratio", "text"),
    [
        (1.031, "+3.1 %"),
        (0.9958, "-0.42 %"),
        (1.0, "0 %"),
        (1 + 1e-9, "0 %"),
        (1.5, "+50.0 %"),
        (0.2, "-80.0 %"),
        (9.9, "+890.0 %"),
        (12.34, "12.3 times"),
        (0.001, "1/1,000"),
    ],
)
def test_a_change_as_people_read_it(ratio: float, text: str) -> None:
    assert wording.percent(math.log(ratio)) == text


def test_what_is_no_number_is_a_dash() -> None:
    assert [wording.percent(value) for value in (None, math.nan, math.inf)] == ["–"] * 3
    assert wording.percent(900.0).endswith("e+390 times")
    assert (wording.interval(None, 0.1), wording.interval(0.0, 0.0)) == ("–", "0 %")
    assert wording.within(math.log(1.01)) == "±1 %"


def test_an_interval_that_leaves_0_outside_does_not_read_as_if_it_held_it() -> None:
    assert wording.interval(4.32e-5, 0.0296) == "+0.004 % to +3.0 %"
    assert wording.interval(-0.0296, -4.32e-5) == "-2.9 % to -0.004 %"
    assert wording.interval(-4.32e-5, 0.0296) == "0 % to +3.0 %"
    assert wording.interval(0.0, 0.0296) == "0 % to +3.0 %"


@given(st.floats(min_value=-1400, max_value=1400))
def test_a_change_has_the_sign_it_has(change: float) -> None:
    text = wording.percent(change)
    if abs(change) > 1e-4:
        assert text.startswith("+" if change > 0 else ("-", "1/")) or text.endswith(" times")
    assert "nan" not in text and "inf" not in text


@pytest.mark.parametrize(
    ("value", "text"),
    [
        (0, "0"),
        (12.3, "12.30"),
        (9.9999, "10.00"),
        (48312.4, "48,310"),
        (0.00213, "0.002130"),
        (1e-7, "1.000e-07"),
    ],
)
def test_a_figure_has_four_digits(value: float, text: str) -> None:
    assert wording.figure(value) == text


def test_a_value_has_its_unit() -> None:
    assert wording.quantity("latency_floor", 12.3) == "12.30 ms"
    assert wording.quantity("graph_breaks", 1234) == "1,234"
    assert wording.quantity("rss_peak_steady", None) == "–"


@pytest.mark.parametrize(
    ("verdict", "text"),
    [
        (a_verdict(3.0), "slower"),
        (a_verdict(-3.0), "faster"),
        (a_verdict(0.0), "same within ±1 %"),
        (a_verdict(3.0, n=3), "unclear: 3 of at least 4 pairs"),
        (judge(FLOOR, [], threshold_of(FLOOR)), "no data: no pair counts"),
        (not_comparable(FLOOR), "not comparable: the two differ in the items of a step"),
        (a_verdict(3.0, "throughput"), "faster"),
        (an_exact_verdict("rss_peak_steady", 100, 150), "worse"),
        (an_exact_verdict("rss_peak_steady", 100, 50), "better"),
        # 40 % more, and yet the same, for 4 MiB do not matter: no share may be named.
        (an_exact_verdict("rss_peak_steady", 10, 14), "same"),
        (an_exact_verdict("graph_breaks", 0, 3), "worse"),
        (judge(RESIDENT, [Pair(100, 100)], threshold_of(RESIDENT)), "unclear: 1 of at least 2 pairs"),
        (
            judge(RESIDENT, [Pair(100, 100), Pair(100, 150)], threshold_of(RESIDENT)),
            "unclear: the pairs disagree",
        ),
    ],
)
def test_a_verdict_in_words(verdict: Verdict, text: str) -> None:
    assert wording.verdict(verdict) == text


@pytest.mark.parametrize(
    ("low", "high", "text"),
    [
        (-0.02, 0.03, "+3.0 % and -2.0 %"),
        (-0.002, 0.03, "+3.0 %"),
        (-0.03, 0.002, "-3.0 %"),
        (0.005, 0.015, "+1.5 %"),
        (-0.015, -0.005, "-1.5 %"),
    ],
)
def test_unclear_says_what_is_not_ruled_out(low: float, high: float, text: str) -> None:
    ends = math.log1p(low), math.log1p(high)
    unclear = Verdict(
        FLOOR,
        "unclear",
        Doubt.MAY_NOT_MATTER,
        math.log1p(0.01),
        6,
        change=sum(ends) / 2,
        low=ends[0],
        high=ends[1],
    )
    # Where the interval has 0 in it, it has said why.
    expected = f"unclear: {text} not ruled out" + (
        "; real, but not proved to exceed the threshold" if low * high > 0 else ""
    )
    assert wording.verdict(unclear) == expected


def test_a_change_without_a_ratio_is_a_difference() -> None:
    assert wording.change(an_exact_verdict("graph_breaks", 0, 3)) == "+3"
    assert wording.change(an_exact_verdict("graph_breaks", 2, 0)) == "-2"
    assert wording.change(an_exact_verdict("graph_breaks", 0, 0)) == "0"
    assert wording.change(an_exact_verdict("graph_breaks", 2, 4)) == "+100.0 %"
    assert wording.change(an_exact_verdict("rss_peak_steady", 0, 612.25)) == "+612.2 MiB"
    # Of what was not located there is neither, though both medians are known.
    assert wording.change(Verdict(FLOOR, "unclear", n=6, old=100.0, new=104.0)) == "–"


def test_pairs_left_out_are_counted_by_reason() -> None:
    pairs = [Pair(1.0, 1.0, why) for why in (BEYOND, WAITS, BEYOND)]
    assert wording.left_out(judge(FLOOR, pairs, Threshold(0.01))) == [
        "2 pairs: is beyond the plan's last look",
        "1 pair: waits for the next look",
    ]


def test_what_would_decide_it() -> None:
    known = PairsToDecide("a", 24, 8.4, "share")
    unknown = PairsToDecide("b", 12, None, "share")
    assert wording.pairs_to_decide(known) == "24 new pairs, about 9 minutes"
    assert wording.pairs_to_decide(unknown) == "12 new pairs; their duration is not known"
    assert (
        wording.pairs_to_decide(PairsToDecide("c", None, None, "worst"))
        == "no reasonable number of pairs would"
    )
    assert wording.pairs_to_decide_in_all([known, known]) == "2 cases, about 17 minutes of measuring"
    assert wording.pairs_to_decide_in_all([known, unknown]).endswith("; for 1 no estimate is possible")


def test_the_headline_says_the_decision_and_what_weighs_most() -> None:
    go = reported([a_result(f"case{number}/infer/-/eager", -3.0) for number in range(4)])[2]
    assert wording.headline(go) == (
        "Go: no case of 4 is slower by 10 % or more; no case can be slower by 5 % or more; "
        "Latency (min-based) over 4 cases and 24 pairs: -3.0 % [-3.1 %, -2.9 %]"
    )
    assert wording.headline(reported([])[2]).startswith("Unclear: no case has enough pairs")
    headline = wording.headline(reported(every_kind())[2])
    assert headline.startswith(
        "No-go: 3 blockers; without them: unclear. gpt2_small/train/batch=2,tokens=128/compile=default broke"
    )
    assert headline.isprintable()


@pytest.mark.parametrize(("seconds", "text"), [(65, "1 min 05 s"), (4560, "1 h 16 min"), (0.4, "0 min 00 s")])
def test_how_long_it_took(seconds: float, text: str) -> None:
    assert wording.duration(BEGUN, BEGUN + timedelta(seconds=seconds)) == text


def test_a_metric_that_is_compared_as_it_is_has_no_chance_of_being_seen() -> None:
    assert "would have been detected with a probability of 80 %" in sentences.about_cases("latency_floor")
    assert "chance" not in sentences.about_cases("graph_breaks")
