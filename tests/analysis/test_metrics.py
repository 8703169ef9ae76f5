"""The catalogue of metrics is what people read: complete, in known units, and free of double names."""

import pytest

from analysis.metrics import METRICS, Metric

UNITS = {"ms", "s", "items/s", "MiB", "TFLOP/s", "GB/s", "1/s", "share", "count", "kcycles"}
#: Metrics of samplers, in their own units.
UNITS |= {"%", "MiB/s", "W", "J", "MHz", "°C"}


@pytest.mark.parametrize("metric", METRICS.values(), ids=METRICS.keys())
def test_a_metric_says_what_it_is(metric: Metric) -> None:
    assert metric.unit in UNITS
    assert metric.better in ("lower", "higher", "neither")
    assert metric.title and metric.meaning and not metric.meaning.endswith(".")
    assert metric.name.replace("_", "").isalnum() and metric.name == metric.name.lower()


def test_titles_tell_metrics_apart() -> None:
    assert len({metric.title for metric in METRICS.values()}) == len(METRICS)


def test_more_work_in_a_second_is_better_and_more_time_is_worse() -> None:
    assert {METRICS[name].better for name in ("throughput", "model_tflops")} == {"higher"}
    assert {metric.better for metric in METRICS.values() if metric.unit in ("ms", "s", "MiB")} == {"lower"}
