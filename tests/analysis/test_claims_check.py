"""A claim's number read off the gains of a case, each kind by hand."""

from dataclasses import replace

import pytest

from analysis.claims_check import ClaimMeasurement, finding
from analysis.speedups import Gain, GainRefusal, NoGain
from records.outcomes import Outcome
from reports.text.verdict_text import refusal
from support.builders.run_records import an_outcome

CASE, EAGER = "resnet50/infer/batch=8/precision=int8-static", "resnet50/infer/batch=8/eager"


def a_gain(kind: str, metric: str, ratio: float | None, low: float | None, high: float | None) -> Gain:
    reason = None if ratio else GainRefusal(NoGain.NO_BASELINE)
    return Gain(kind, CASE, "e", EAGER, metric, ratio, low, high, 3, 0, reason)


GAINS = (
    a_gain("speed-up", "latency_floor", 2.0, 1.6, 2.5),
    a_gain("memory", "cuda_peak_allocated", 0.8, 0.5, 0.9),
    a_gain("size", "model_size", 0.25, None, None),
    a_gain("efficiency", "latency_floor", 0.9, 0.85, 0.95),
)


@pytest.mark.parametrize(
    ("kind", "metric", "wanted"),
    [
        ("ratio", "latency_floor", (2.0, 1.6, 2.5)),
        ("saved", "latency_floor", (0.5, 0.375, 0.6)),
        ("saved", "cuda_peak_allocated", (0.2, 0.1, 0.5)),
        ("ratio", "cuda_peak_allocated", (1.25, 1 / 0.9, 2.0)),
        ("ratio", "model_size", (4.0, None, None)),
        ("efficiency", "throughput", (0.9, 0.85, 0.95)),
    ],
)
def test_a_claim_is_read_off_the_gain_it_speaks_of(
    kind: str, metric: str, wanted: tuple[float, float | None, float | None]
) -> None:
    found = finding(kind, metric, GAINS, [])
    assert (found.point, found.low, found.high) == pytest.approx(wanted)
    assert (found.n, found.reason) == (3, None)


def test_a_claim_on_a_value_is_the_measurement() -> None:
    replicates = [
        an_outcome(replicate=r, metrics={"new_shape": value}) for r, value in enumerate((1.0, 2.0, 4.0))
    ]
    crashed = an_outcome(replicate=3, status="crashed", metrics={"new_shape": 100.0})
    found = finding("value", "new_shape", GAINS, [*replicates, crashed])
    assert (found.point, found.n) == (2.0, 3)
    assert found.low and found.high and found.low < 2.0 < found.high


def test_a_claim_on_a_metric_that_makes_no_gain_compares_the_pairs_of_one_session() -> None:
    def measured(case: str, values: dict[int, float], metric: str) -> list[Outcome]:
        return [an_outcome(case, replicate=r, metrics={metric: value}) for r, value in values.items()]

    base = measured(EAGER, {0: 50.0, 1: 60.0, 2: 40.0, 3: 10.0}, "sm_utilisation")
    own = measured(CASE, {0: 60.0, 1: 90.0, 2: 60.0}, "sm_utilisation")
    found = finding("ratio", "sm_utilisation", GAINS, own, base)
    assert (found.point, found.n) == (pytest.approx(1.5), 3)
    # Of what had better be low, the ratio is how many times less the case has.
    base, own = measured(EAGER, {0: 6.0}, "first_call"), measured(CASE, {0: 2.0}, "first_call")
    found = finding("ratio", "first_call", GAINS, own, base)
    assert (found.point, found.low, found.n) == (3.0, None, 1)
    assert finding("ratio", "power", GAINS, own, base).reason == GainRefusal(NoGain.NOT_MEASURED, "power")


@pytest.mark.parametrize("status", ["wrong", "not_compiled"])
def test_a_case_that_was_wrong_or_ran_something_else_has_no_value(status: str) -> None:
    well = an_outcome(replicate=0, metrics={"new_shape": 1.0})
    bad = an_outcome(replicate=1, status=status, metrics={})
    reason = f"1 of 2 replicates ended {status}"
    found = finding("value", "new_shape", GAINS, [well, bad])
    assert (replace(found, reason=None), refusal(found.reason)) == (ClaimMeasurement(None), reason)


@pytest.mark.parametrize(
    ("kind", "metric", "reason"),
    [
        ("value", "new_shape", "New shape is not measured here"),
        ("value", "", "it is not measured here"),
        ("ratio", "", "it is not measured here"),
        ("ratio", "first_call", "First call is not measured here"),
        # What the process keeps resident is not what the claim's allocator held.
        ("saved", "rss_peak_steady", "Peak RSS, steady is not measured here"),
    ],
)
def test_what_is_not_measured_says_so(kind: str, metric: str, reason: str) -> None:
    found = finding(kind, metric, GAINS, [])
    assert (replace(found, reason=None), refusal(found.reason)) == (ClaimMeasurement(None), reason)


def test_a_gain_that_there_is_not_hands_its_reason_on() -> None:
    found = finding("ratio", "latency_floor", [a_gain("speed-up", "latency_floor", None, None, None)], [])
    assert found == ClaimMeasurement(None, reason=GainRefusal(NoGain.NO_BASELINE))
