"""From pairs to a verdict: by hand, its symmetries, what it refuses, and how often it is false."""

import math
import statistics
from collections.abc import Sequence

import numpy as np
import pytest
from hypothesis import assume, example, given
from hypothesis import strategies as st

from analysis.comparison.pairs import BEYOND, WAITS, Pair, PairFlaw, SideFlaw
from analysis.comparison.plan import Plan
from analysis.comparison.sequential_test import advise
from analysis.comparison.thresholds import Threshold, threshold_of
from analysis.comparison.verdict import (
    Doubt,
    OneSideFirst,
    Verdict,
    judge,
    not_comparable,
    pairs_needed,
)
from analysis.metrics import METRICS
from analysis.robust_mean import locate

FLOOR, RATE = "latency_floor", "throughput"
PERCENT = Threshold(0.01)
#: Six pairs that differ by a few tenths of a percent.
WOBBLE = (0.001, -0.002, 0.0, 0.002, -0.001, 0.0015)
MIRROR = {"faster": "slower", "slower": "faster"}
ratios = st.floats(min_value=-0.5, max_value=0.5).map(lambda value: round(value, 4))


def shifted(by: float, wobble: Sequence[float] = WOBBLE, old: float = 10.0) -> list[Pair]:
    """Pairs that differ by `by`, as a logarithm, and their own wobble."""
    return [Pair(old, old * math.exp(by + own)) for own in wobble]


@pytest.mark.parametrize(
    ("metric", "by", "word"),
    [
        (FLOOR, 0.05, "slower"),
        (FLOOR, -0.05, "faster"),
        (RATE, 0.05, "faster"),
        (RATE, -0.05, "slower"),
        (FLOOR, 0.0, "same"),
        (FLOOR, 0.0095, "unclear"),
    ],
)
def test_the_word_knows_which_direction_is_better(metric: str, by: float, word: str) -> None:
    assert judge(metric, shifted(by), PERCENT).word == word


def test_a_look_by_hand() -> None:
    # Here: it takes a second, and every process of the tests imports this file.
    from scipy import stats  # pyright: ignore[reportMissingTypeStubs]

    verdict = judge(FLOOR, shifted(0.03), PERCENT)
    # Of six pairs Student's t of five degrees; this look has 20 of 76 parts of the error: 0.263 % in all.
    found = locate([0.03 + own for own in WOBBLE])
    share = 20 / 76
    half = stats.t.ppf(1 - 0.01 * share / 2, 5) * statistics.stdev(WOBBLE) / math.sqrt(6)
    assert verdict.high == pytest.approx(0.03 + sum(WOBBLE) / 6 + half)
    assert verdict.change == pytest.approx(0.03 + sum(WOBBLE) / 6)
    assert verdict.low == pytest.approx(found.point - found.half(0.01 * share / 2))
    assert verdict.high == pytest.approx(found.point + found.half(0.01 * share / 2))
    assert verdict.p == pytest.approx(found.p() / share)
    assert (verdict.n, verdict.confidence, verdict.old) == (6, 0.99, 10.0)
    assert verdict.threshold == pytest.approx(math.log(1.01))
    # Of five degrees, Student's t passes 0.9195 once in five times.
    assert verdict.smallest == pytest.approx(verdict.threshold + 0.9195 * found.error, rel=1e-4)


def test_real_but_not_proved_to_matter_is_unclear() -> None:
    verdict = judge(FLOOR, shifted(0.0085), PERCENT)
    assert verdict.low is not None and verdict.low > 0
    assert (verdict.word, verdict.reason) == ("unclear", Doubt.MAY_NOT_MATTER)


def test_real_and_proved_not_to_matter_is_the_same() -> None:
    verdict = judge(FLOOR, shifted(0.004, [own / 10 for own in WOBBLE]), PERCENT)
    assert verdict.low is not None and verdict.low > 0
    assert verdict.word == "same"


def test_absence_of_proof_is_not_the_same() -> None:
    verdict = judge(FLOOR, shifted(0.0, [own * 10 for own in WOBBLE]), PERCENT)
    assert (verdict.word, verdict.reason) == ("unclear", Doubt.MAY_BE_NOTHING)
    assert verdict.needed is not None and verdict.needed > 12


@given(st.lists(ratios, min_size=6, max_size=16), st.sampled_from([FLOOR, RATE]))
def test_old_for_new_mirrors_the_verdict(logs: list[float], metric: str) -> None:
    pairs = shifted(0.0, logs)
    original = judge(metric, pairs, PERCENT)
    mirrored = judge(metric, [Pair(pair.new, pair.old) for pair in pairs], PERCENT)
    assert original.change is not None and mirrored.change is not None and original.p is not None
    # Right at a bar, the last digit of a logarithm decides.
    assume(abs(abs(original.change) - original.threshold) > 1e-9 and abs(original.p - 0.01) > 1e-9)
    assert mirrored.word == MIRROR.get(original.word, original.word)
    assert mirrored.change == pytest.approx(-original.change, abs=1e-9)
    assert mirrored.p == pytest.approx(original.p, rel=1e-6, abs=1e-9)
    assert original.low is not None and mirrored.high is not None
    assert mirrored.high == pytest.approx(-original.low, abs=1e-9)


@given(st.lists(ratios, min_size=6, max_size=16), st.floats(min_value=1e-6, max_value=1e6))
def test_another_unit_changes_nothing(logs: list[float], factor: float) -> None:
    original = judge(FLOOR, shifted(0.0, logs), PERCENT)
    scaled = judge(FLOOR, shifted(0.0, logs, old=10.0 * factor), PERCENT)
    assert original.change is not None and original.p is not None
    assume(abs(abs(original.change) - original.threshold) > 1e-9 and abs(original.p - 0.01) > 1e-9)
    assert (scaled.word, scaled.n) == (original.word, original.n)
    assert scaled.change == pytest.approx(original.change, abs=1e-9)
    assert scaled.p == pytest.approx(original.p, rel=1e-6, abs=1e-9)


@given(st.lists(ratios, min_size=6, max_size=6))
@example([0.0, 0.0, 0.0, 0.0, 0.5, 0.5])
def test_more_pairs_of_the_same_widen_by_no_more_than_their_look_has_less_of_the_error(
    logs: list[float],
) -> None:
    # Here: it takes a second, and every process of the tests imports this file.
    from scipy import stats  # pyright: ignore[reportMissingTypeStubs]

    # At most Student's t of five degrees at 20 of 76 parts, and winsorised of seven at 9 of 76.
    six = stats.t.ppf(1 - 0.005 * 20 / 76, 5) / math.sqrt(5 * 6)
    twelve = stats.t.ppf(1 - 0.005 * 9 / 76, 7) / math.sqrt(11 / 2 * 12) * 11 / 7
    few, many = judge(FLOOR, shifted(0.0, logs), PERCENT), judge(FLOOR, shifted(0.0, logs * 2), PERCENT)
    assert (few.n, many.n) == (6, 12)
    assert few.low is not None and few.high is not None and many.low is not None and many.high is not None
    assert many.high - many.low <= (few.high - few.low) * (twelve / six + 1e-9)
    assert twelve / six < 1.01


@given(st.lists(ratios, min_size=0, max_size=3))
def test_fewer_pairs_than_the_plan_begins_with_are_no_verdict(logs: list[float]) -> None:
    verdict = judge(FLOOR, shifted(0.0, logs), PERCENT)
    assert verdict.word == ("unclear" if logs else "no data")
    assert verdict.low is verdict.high is verdict.p is verdict.smallest is None
    assert verdict.n == len(logs)


@given(st.lists(ratios, min_size=6, max_size=30), st.integers(0, 5))
@example([0.05] * 30, 0)
def test_every_pair_is_judged_or_left_out_with_a_reason(logs: list[float], bad: int) -> None:
    crashed = (SideFlaw("old", "ended", status="crashed"),)
    broken = [Pair(math.nan, 1.0, crashed)] * bad
    verdict = judge(FLOOR, [*broken, *shifted(0.0, logs)], PERCENT)
    assert verdict.n + len(verdict.left_out) == len(logs) + bad
    assert verdict.n == Plan().look(len(logs))
    assert verdict.left_out.count(crashed) == bad


def test_pairs_between_two_looks_wait() -> None:
    six, seven = shifted(0.003), [*shifted(0.003), Pair(1.0, 9.0)]
    assert judge(FLOOR, seven, PERCENT).change == judge(FLOOR, six, PERCENT).change
    assert judge(FLOOR, seven, PERCENT).left_out == (WAITS,)
    # Spare pairs may all be good ones, and then there is no next look.
    found = judge(FLOOR, (seven * 2)[:13], PERCENT, Plan())
    assert (found.n, found.left_out) == (12, (BEYOND,))
    assert not advise(found, Plan(), 40).go_on


@pytest.mark.parametrize("bad", [math.nan, math.inf, 0.0, -1.0])
@pytest.mark.parametrize("side", ["old", "new"])
def test_what_is_no_positive_number_is_refused(bad: float, side: str) -> None:
    pair = Pair(bad, 1.0) if side == "old" else Pair(1.0, bad)
    with pytest.raises(ValueError, match="cannot be compared"):
        judge(FLOOR, [*shifted(0.0), pair], PERCENT)
    # Left out for a reason, it does no harm.
    assert judge(FLOOR, [*shifted(0.0), Pair(pair.old, pair.new, BEYOND)], PERCENT).left_out == (BEYOND,)


@pytest.mark.parametrize("metric", ["no_such", "gpu_busy"])
def test_a_metric_that_knows_no_better_is_refused(metric: str) -> None:
    with pytest.raises(ValueError, match=metric):
        judge(metric, shifted(0.0), PERCENT)


@pytest.mark.parametrize(
    ("first", "word", "reason"),
    [
        ([True, False] * 3, "slower", None),
        ([True, True, True, True, False, False], "slower", None),
        ([None] * 6, "slower", None),
        ([True] * 5 + [False], "unclear", OneSideFirst("new", 5, 6)),
        ([False] * 6, "unclear", OneSideFirst("old", 6, 6)),
    ],
)
def test_who_always_starts_first_is_not_judged(
    first: list[bool | None], word: str, reason: OneSideFirst | None
) -> None:
    pairs = [Pair(p.old, p.new, new_first=one) for p, one in zip(shifted(0.05), first, strict=True)]
    verdict = judge(FLOOR, pairs, PERCENT)
    assert (verdict.word, verdict.reason, verdict.n) == (word, reason, 6)
    assert advise(verdict, Plan()).go_on == (word == "unclear")


def test_unlike_things_are_not_compared() -> None:
    verdict = judge(FLOOR, [*shifted(0.0), Pair(1.0, 1.0, (PairFlaw.OTHER_ITEMS,))], PERCENT)
    assert (verdict.word, verdict.reason) == ("not comparable", Doubt.OTHER_WORK)
    assert not_comparable(FLOOR).word == "not comparable"


EXACT = Threshold(0.01, absolute=1.0, exact=True)
COUNT = Threshold(0.0, exact=True)


@pytest.mark.parametrize(
    ("metric", "threshold", "pairs", "word"),
    [
        ("graph_breaks", COUNT, [Pair(0, 0), Pair(0, 0)], "same"),
        ("graph_breaks", COUNT, [Pair(0, 1), Pair(0, 1)], "slower"),
        ("graph_breaks", COUNT, [Pair(3, 0), Pair(3, 0)], "faster"),
        ("graph_breaks", COUNT, [Pair(0, 1), Pair(0, 0)], "unclear"),
        ("graph_breaks", COUNT, [Pair(0, 1)], "unclear"),
        ("graph_breaks", COUNT, [], "no data"),
        ("cuda_peak_allocated", EXACT, [Pair(1000, 1009), Pair(1000, 991)], "same"),
        ("cuda_peak_allocated", EXACT, [Pair(1000, 1011), Pair(1000, 1020)], "slower"),
        ("cuda_peak_allocated", EXACT, [Pair(1000, 1011), Pair(1000, 1009)], "unclear"),
        ("cuda_peak_allocated", EXACT, [Pair(10, 10.9), Pair(10, 9.1)], "same"),
        # By 1 % exactly, whose logarithm may be rounded up or down.
        ("cuda_peak_allocated", EXACT, [Pair(200, 202), Pair(300, 303)], "same"),
        ("model_tflops", EXACT, [Pair(100, 90), Pair(100, 90)], "slower"),
    ],
)
def test_what_hardly_varies_is_compared_as_it_is(
    metric: str, threshold: Threshold, pairs: list[Pair], word: str
) -> None:
    verdict = judge(metric, pairs, threshold)
    assert (verdict.word, verdict.confidence, verdict.p) == (word, None, None)
    mirrored = judge(metric, [Pair(pair.new, pair.old) for pair in pairs], threshold)
    assert mirrored.word == MIRROR.get(word, word)


@pytest.mark.parametrize("bad", [math.nan, -1.0])
def test_exact_metrics_also_allow_zero_and_nothing_else(bad: float) -> None:
    with pytest.raises(ValueError, match="cannot be compared"):
        judge("graph_breaks", [Pair(bad, 1.0)], COUNT)


@pytest.mark.parametrize("relative", [-0.1, math.nan, 0.0])
def test_a_threshold_that_cannot_be_is_refused(relative: float) -> None:
    with pytest.raises(ValueError, match="threshold"):
        Threshold(relative)


def test_thresholds_by_metric() -> None:
    assert threshold_of(FLOOR) == Threshold(0.01)
    assert threshold_of(FLOOR, {FLOOR: Threshold(0.05)}) == Threshold(0.05)
    assert threshold_of("graph_breaks").exact and threshold_of("rss_peak").exact
    with pytest.raises(ValueError, match="no metric"):
        threshold_of("speed")


@pytest.mark.parametrize("metric", [name for name, known in METRICS.items() if known.unit == "count"])
def test_a_count_that_was_0_has_a_verdict(metric: str) -> None:
    for old, new, word in ((0.0, 5.0, "slower"), (0.0, 0.0, "same"), (5.0, 0.0, "faster")):
        assert judge(metric, [Pair(old, new)] * 2, threshold_of(metric)).word == word


@pytest.mark.slow
@pytest.mark.parametrize(("spread", "n"), [(0.02, 8), (0.05, 6), (0.003, 12)])
def test_the_smallest_effect_is_seen_in_four_cases_of_five(spread: float, n: int) -> None:
    rng, plan, trials = np.random.default_rng(4), Plan(n), 1500

    def verdicts_at(effect: float) -> list[Verdict]:
        rows = (effect + rng.normal(0.0, spread, (trials, n))).tolist()
        return [judge(FLOOR, [Pair(1.0, math.exp(own)) for own in row], PERCENT, plan) for row in rows]

    # The noise that was seen is the root of the mean of squares over many.
    smallest = [verdict.smallest for verdict in verdicts_at(0.0)]
    seen = math.sqrt(statistics.fmean(one**2 for one in smallest if one is not None))
    slower = sum(verdict.word == "slower" for verdict in verdicts_at(seen)) / trials
    assert slower == pytest.approx(0.80, abs=0.05)


def test_what_is_needed_decides_it() -> None:
    found = locate([0.0, 0.01, -0.01, 0.02, -0.02, 0.012])
    needed = pairs_needed(found, PERCENT.log, Plan())
    assert needed is not None and needed > 12
    assert pairs_needed(found, 0.5, Plan()) == 12
    # Right at the threshold no number would do.
    assert pairs_needed(locate([0.98, 1.0]), 0.990001, Plan()) is None


def sequentially(row: Sequence[float]) -> Verdict:
    """The verdict where the advice is to stop."""
    plan, pairs = Plan(), [Pair(1.0, math.exp(own)) for own in row]
    measured = plan.looks[0]
    while True:
        verdict = judge(FLOOR, pairs[:measured], PERCENT, plan)
        advice = advise(verdict, plan)
        if not advice.go_on:
            return verdict
        measured += advice.more


@pytest.mark.slow
@pytest.mark.parametrize(
    ("kind", "spread"), [("normal", 0.03), ("wild", 0.01), ("wild", 0.03), ("order", 0.02)]
)
def test_adding_pairs_until_it_is_decided_makes_no_false_verdicts(kind: str, spread: float) -> None:
    rng, trials = np.random.default_rng(1), 800
    x = rng.normal(0.0, spread, (trials, 12))
    if kind == "wild":
        x += rng.uniform(0.11, 0.24, x.shape) * rng.choice([-1, 1], x.shape) * (rng.random(x.shape) < 1 / 8)
    if kind == "order":
        # The first to start is faster, and the sides start first in turn.
        x += np.tile([0.02, -0.02], 6)
    verdicts = [sequentially(row) for row in x.tolist()]
    false = sum(verdict.word in ("faster", "slower") for verdict in verdicts)
    small = sum(verdict.p is not None and verdict.p <= 0.01 for verdict in verdicts)
    # Three standard errors above 1 %.
    assert max(false, small) <= trials * (0.01 + 3 * math.sqrt(0.01 / trials))


def test_what_is_there_is_seen_and_never_turned_round() -> None:
    rng = np.random.default_rng(2)
    x = np.log(1.03) + rng.normal(0.0, 0.01, (300, 12))
    words = [sequentially(row).word for row in x.tolist()]
    assert words.count("slower") >= 0.97 * len(words)
    assert "faster" not in words


def test_the_same_is_said_of_a_change_at_the_threshold_in_at_most_one_case_of_twenty() -> None:
    rng, trials = np.random.default_rng(3), 800
    x = np.log(1.01) + rng.normal(0.0, 0.004, (trials, 12))
    same = sum(sequentially(row).word == "same" for row in x.tolist())
    assert 0 < same <= trials * (0.05 + 3 * math.sqrt(0.05 / trials))
