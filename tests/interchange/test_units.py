"""Which numbers a unit lets stand, and which are set aside as impossible."""

import pytest

from analysis.metrics import Better
from interchange.units import objection


@pytest.mark.parametrize("unit", ["ms", "s", "µs", "us", "nanoseconds", "ns/iter", "ms per token", "h"])
def test_a_time_is_above_0(unit: str) -> None:
    assert objection("a.b", unit, "lower", -1.5) == f"-1.5 {unit} is not a valid time: it is below 0"
    assert objection("a.b", unit, "lower", 0.0) == f"0 {unit} is not a valid time: nothing was measured"
    assert objection("a.b", unit, "lower", 1e-9) == ""


@pytest.mark.parametrize(
    "unit", ["1/s", "samples/s", "iter/sec", "GB/s", "TFLOP/s", "fps", "tokens per second"]
)
def test_a_rate_is_above_0_unless_less_of_it_is_better(unit: str) -> None:
    assert objection("a.b", unit, "higher", -1.0) == f"-1 {unit} is not a valid rate: it is below 0"
    assert objection("a.b", unit, "higher", 0.0) == f"0 {unit} is not a valid rate: nothing was measured"
    assert objection("migrations", unit, "lower", 0.0) == ""
    assert objection("migrations", unit, "lower", -1.0) == f"-1 {unit} is not a valid rate: it is below 0"


@pytest.mark.parametrize("unit", ["MB", "MiB", "bytes", "count", "instructions"])
def test_an_amount_may_be_0_and_not_below(unit: str) -> None:
    assert objection("a.b", unit, "lower", 0.0) == ""
    assert objection("a.b", unit, "lower", -1.0) == f"-1 {unit} is not a valid amount: it is below 0"


@pytest.mark.parametrize(
    ("name", "unit", "better", "value"),
    [
        ("loss", "", "lower", -3.0),
        ("a.speedup", "x", "higher", -0.5),
        ("error", "share", "lower", 0.0),
        ("a.latency", "as given", "lower", -1.0),
        ("a.change", "%", "higher", -5.0),
        ("a.latency_stdev", "s", "lower", 0.0),
        ("a.latency_overhead", "ms", "lower", -0.1),
        ("pcie_tx", "MiB/s", "neither", 0.0),
    ],
)
def test_what_may_be_0_or_below_stands(name: str, unit: str, better: Better, value: float) -> None:
    assert objection(name, unit, better, value) == ""


def test_a_spread_is_not_below_0_and_what_may_be_nought_is_said() -> None:
    assert objection("a.latency_stdev", "s", "lower", -1.0) == "-1 s is not a valid time: it is below 0"
    assert objection("queue", "ms", "lower", 0.0, nought=True) == ""
    assert objection("queue", "ms", "lower", -1.0, nought=True) == "-1 ms is not a valid time: it is below 0"
