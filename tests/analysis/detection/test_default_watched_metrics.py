"""The metrics that are judged every night are some, known, and have rules that fit their thresholds."""

import math
import random

import pytest

from analysis.comparison.thresholds import threshold_of
from analysis.detection.change_points import judge
from analysis.detection.default_watched_metrics import WATCHED, judged_by, rules_of
from analysis.detection.nights import NightValue
from analysis.metrics import METRICS


def test_what_is_watched_is_known_has_a_direction_and_is_little() -> None:
    assert 0 < len(WATCHED) <= 8 and len(set(WATCHED)) == len(WATCHED)
    assert all(METRICS[name].better != "neither" and METRICS[name].unit != "count" for name in WATCHED)


@pytest.mark.parametrize("name", WATCHED)
def test_watched_metrics_are_those_that_a_comparison_can_confirm(name: str) -> None:
    assert rules_of(name).floor >= threshold_of(name).relative


def test_floors() -> None:
    assert rules_of("latency_floor").floor == pytest.approx(0.02)
    assert rules_of("compile_cold").floor == pytest.approx(0.20)
    assert rules_of("first_call").floor == pytest.approx(0.20)
    assert rules_of("cold_start").floor == rules_of("new_shape").floor == pytest.approx(0.15)
    assert rules_of("cuda_peak_allocated").floor == pytest.approx(0.01)
    assert rules_of("graph_breaks").floor > 0


def test_a_name_that_is_no_metric_is_refused() -> None:
    with pytest.raises(ValueError, match="there is no metric latencies"):
        rules_of("latencies")


def test_a_metric_is_judged_by_the_watched_one_that_it_follows_from() -> None:
    assert {judged_by(name) for name in ("latency", "throughput", "latency_p90")} == {"latency_floor"}
    assert [judged_by(name) for name in WATCHED] == list(WATCHED)
    assert judged_by("graph_breaks") == judged_by("tool.speed") == ""
    assert all(judged_by(name) in ("", *WATCHED) for name in METRICS)


@pytest.mark.parametrize("name", WATCHED)
def test_a_quiet_series_of_any_of_them_is_watchable(name: str) -> None:
    nights = [NightValue(10.0 * (1.0 + 0.01 * (night % 3))) for night in range(40)]
    assert judge(nights, METRICS[name].better, rules_of(name)).watchable


@pytest.mark.parametrize("name", ["first_call", "cold_start", "new_shape"])
def test_a_third_more_of_what_happens_once_is_a_candidate(name: str) -> None:
    """About as much as the smallest of the reported regressions of that kind."""
    noise = random.Random(name)
    nights = [
        NightValue(math.exp(noise.gauss(0.0, 0.04)) * (1.35 if night >= 40 else 1.0)) for night in range(45)
    ]
    (found,) = judge(nights, "lower", rules_of(name)).candidates
    assert found.direction == "worse" and abs(found.index - 40) <= 1
    quiet = judge(nights[:40], "lower", rules_of(name))
    assert quiet.candidates == () and quiet.watchable
