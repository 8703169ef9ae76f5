"""From rows to metrics: rows of which one can work out by hand what they come to."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from analysis.metrics import METRICS
from records.telemetry import HOST, Recording
from runner.telemetry.capability import UtilisationSource
from runner.telemetry.columns import COLUMNS
from runner.telemetry.summary import rows_of, summarise
from runner.worker.messages import Window

MS = 1_000_000
WINDOW = Window(1_000 * MS, 4_000 * MS, 60)


def recorded(
    device: str = HOST,
    utilisation_source: UtilisationSource = "none",
    *,
    first: int = 800,
    **values: tuple[float | None, ...],
) -> Recording:
    """Rows of 200 ms from `first` on, in milliseconds."""
    length = len(next(iter(values.values()), ()))
    starts = tuple((first + 200 * i) * MS for i in range(length))
    return Recording(device, "", utilisation_source, starts, tuple(at + 200 * MS for at in starts), values)


def test_every_metric_of_a_column_stands_in_the_catalogue() -> None:
    units = {column.metric: column.unit for column in COLUMNS.values() if column.metric}
    assert {name: METRICS[name].unit for name in units} == units
    assert METRICS["energy_per_item"].unit == "J"


def test_two_sources_never_share_a_metric() -> None:
    named = [column.metric for column in COLUMNS.values() if column.metric]
    assert len(named) == len(set(named))


def test_means_are_weighted_by_length_and_absent_values_left_out() -> None:
    rows = Recording(
        HOST,
        "",
        "none",
        (1_000 * MS, 1_100 * MS, 1_200 * MS, 1_500 * MS),
        (1_100 * MS, 1_200 * MS, 1_500 * MS, 1_700 * MS),
        {
            "cpu_busy": (10.0, 20.0, 50.0, None),
            "frequency": (1000.0, 3000.0, 2000.0, None),
            "tree_memory": (None, 512.0, None, 300.0),
            "steal": (None, None, 1.0, 1.0),
            "run_queue": (1.0, 1.0, 1.0, 1.0),
            "cpu0": (1.0, 1.0, 1.0, 1.0),
        },
    )
    metrics, notes = summarise([rows], WINDOW, 1)
    assert metrics == pytest.approx({"cpu_busy": 36.0, "cpu_frequency": 2000.0, "tree_memory": 512.0})
    assert notes == ()


def test_few_rows_make_no_metric_but_a_note() -> None:
    metrics, notes = summarise([recorded(cpu_busy=(1.0, 2.0))], WINDOW, 1)
    assert (metrics, notes) == ({}, ("host: fewer than 3 rows in the window",))


def test_only_rows_of_the_window_count_and_averages_settle_first() -> None:
    host = recorded(cpu_busy=(1.0,) * 20)
    slow = recorded("GPU-1", "samples", gpu_busy=(1.0,) * 20)
    counters = recorded("GPU-2", "gpm", sm_utilisation=(1.0,) * 20)
    late = recorded("GPU-3", "dcgm", dcgm_sm_utilisation=(1.0,) * 20)
    cut = {one.device: one for one in rows_of([host, slow, counters, late], WINDOW)}
    rows = {name: len(one.started_ns) for name, one in cut.items()}
    assert rows == {"host": 15, "GPU-1": 10, "GPU-2": 15, "GPU-3": 12}
    assert cut["GPU-1"].started_ns[0] == 2_000 * MS


def test_energy_is_of_all_gpus_over_the_whole_window_by_its_items() -> None:
    # 80 J in each 200 ms: 400 W over 3 s, beside 100 W; 60 iterations of 5 items.
    one = recorded(
        "GPU-1", "gpm", first=1_100, energy=(80.0,) * 10, power=(390.0, 400.0, 410.0) + (None,) * 7
    )
    other = recorded("GPU-2", "gpm", first=1_100, energy=(20.0,) * 10, power=(100.0,) * 10)
    metrics, _ = summarise([one, other], WINDOW, 5)
    assert metrics == pytest.approx({"energy_per_item": 1500 / 300, "power": 250.0})
    short = Window(1_000 * MS, 1_900 * MS, 60)
    assert "energy_per_item" not in summarise([one, other], short, 5)[0]
    # Of one of two it would be no energy of the case.
    silent = recorded("GPU-2", "gpm", first=1_100, energy=(None,) * 10, power=(100.0,) * 10)
    assert "energy_per_item" not in summarise([one, silent], WINDOW, 5)[0]


@pytest.mark.parametrize("source", ["gpm", "samples"])
def test_power_is_that_of_the_window_though_the_driver_answers_the_last_second(
    source: UtilisationSource,
) -> None:
    # 600 W since the window began, after 120 W: five rows of 200 ms until the driver's mean has followed.
    late = tuple(min(600.0, 120.0 + 96 * row) for row in range(15))
    counted = recorded("GPU-1", source, first=1_000, power=late, energy=(120.0,) * 15)
    answered = recorded("GPU-1", source, first=1_000, power=late)
    for one in (counted, answered):
        (cut,) = rows_of([one], WINDOW)
        assert summarise([cut], WINDOW, 1)[0]["power"] == pytest.approx(600)


def test_no_energy_where_a_gpu_tells_none_or_too_little_of_the_window() -> None:
    one = recorded("GPU-1", "gpm", first=1_100, energy=(80.0,) * 10)
    host = recorded(first=1_100, cpu_busy=(1.0,) * 10)
    assert summarise([one, host], WINDOW, 1)[0]["energy_per_item"] == pytest.approx(1200 / 60)
    at = tuple((1_100 + i) * MS for i in range(10))
    others = {
        "has no such column": recorded("GPU-2", "gpm", first=1_100, power=(100.0,) * 10),
        "was not recorded": Recording("GPU-2", "", "none", (), (), {}),
        "reports 1.4 s out of 3": recorded("GPU-2", "gpm", first=1_100, energy=(20.0,) * 7),
        "has rows without length": Recording("GPU-2", "", "gpm", at, at, {"energy": (20.0,) * 10}),
    }
    metrics_of = {why: summarise([one, other], WINDOW, 1)[0] for why, other in others.items()}
    assert [why for why, metrics in metrics_of.items() if "energy_per_item" in metrics] == []
    assert summarise([host], WINDOW, 1)[0].keys() == {"cpu_busy"}


numbers = st.none() | st.floats(0, 1e6)
columns = st.dictionaries(st.sampled_from([*COLUMNS, "cpu0", "else"]), st.tuples(*[numbers] * 5), min_size=1)


@given(columns)
def test_a_metric_lies_among_the_recorded_values(
    values: dict[str, tuple[float | None, ...]],
) -> None:
    metrics, _ = summarise([recorded(first=1_000, **values)], WINDOW, 1)
    for name, column in values.items():
        known = [value for value in column if value is not None]
        if name == "power" and sum(joule is not None for joule in values.get("energy", ())) >= 3:
            # A row lasts 0.2 s.
            known = [joule / 0.2 for joule in values["energy"] if joule is not None]
        metric = COLUMNS[name].metric if name in COLUMNS else ""
        if metric in metrics:
            assert min(known) * (1 - 1e-9) <= metrics[metric] <= max(known) * (1 + 1e-9)
