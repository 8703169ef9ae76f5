"""A recording as small charts: gaps stay gaps, sources stay apart, and nothing is lost on the way."""

from dataclasses import replace
from itertools import accumulate

import altair as alt
import pandas as pd
import pytest

from analysis.metrics import METRICS
from dashboard.components import charts, wording
from dashboard.utilisation import page, panels, window_charts
from db.telemetry.queries import stored_values
from records.outcomes import Measurement
from records.telemetry import Recording
from runner.telemetry.columns import COLUMNS
from support.builders.telemetry import (
    BOOTED_NS,
    H200,
    ROW_NS,
    a_host,
    a_recording,
    an_a100,
    an_h200,
    wave,
    without,
)

#: The columns that answer the one question, how busy the GPU is, by source.
UTILISATION_SOURCES = {
    "gpm": "sm_utilisation",
    "dcgm": "dcgm_sm_utilisation",
    "samples": "gpu_busy",
    "polling": "gpu_busy_polled",
}


def pieces(recording: Recording, column: str) -> list[list[tuple[float, float]]]:
    """The uninterrupted lines of one column as points (second, value)."""
    drawn = panels.panels(recording)
    places = [place for place, panel in enumerate(drawn) if column in dict(panel.lines)]
    frame = panels.lines(recording, drawn, BOOTED_NS)[window_charts.line_set(places[0])]
    label = dict(drawn[places[0]].lines)[column]
    own = frame[frame["line"] == label]
    return [
        list(zip(each["second"].round(3), each["value"], strict=True)) for _, each in own.groupby("piece")
    ]


def test_a_row_without_a_value_is_a_gap_and_no_zero() -> None:
    values = {"power": without(lambda second: 100 + round(10 * second), 0.4, 0.7)}
    recording = a_recording(H200, "H200", "gpm", values, rows=5)
    assert recording.values["power"] == (100, 102, None, None, 108)
    assert pieces(recording, "power") == [[(0.0, 100), (0.2, 100), (0.4, 102)], [(0.8, 108), (1.0, 108)]]


def test_time_without_a_row_is_a_gap_too() -> None:
    recording = a_recording(H200, "H200", "gpm", {"power": wave(300)}, rows=4)
    late = tuple(at + (5 * ROW_NS if row > 1 else 0) for row, at in enumerate(recording.started_ns))
    restarted = replace(recording, started_ns=late, ended_ns=tuple(at + ROW_NS for at in late))
    ends = [(piece[0][0], piece[-1][0]) for piece in pieces(restarted, "power")]
    assert ends == [(0.0, 0.4), (1.4, 1.8)]


def test_two_sources_never_share_a_panel_and_every_title_names_its_own() -> None:
    everything = dict.fromkeys(UTILISATION_SOURCES.values(), wave(50))
    drawn = panels.panels(a_recording(H200, "H200", "gpm", everything))
    titles = {column: panel.title for panel in drawn for column, _ in panel.lines}
    assert len(drawn) == len(UTILISATION_SOURCES)
    assert titles["sm_utilisation"] == "SM utilisation (hardware counters, GPM)"
    assert titles["dcgm_sm_utilisation"] == "SM utilisation (hardware counters, DCGM)"
    assert titles["gpu_busy"] == "GPU busy, share of time with a kernel (driver's buffer)"
    assert titles["gpu_busy_polled"] == "GPU busy, share of time with a kernel (polled)"
    spec = window_charts.window(drawn, 3.2)
    assert [each["title"]["text"] for each in spec["vconcat"]] == [f"{t} · %" for t in titles.values()]


@pytest.mark.parametrize("utilisation_source", UTILISATION_SOURCES)
def test_a_window_in_the_list_is_titled_like_its_chart(utilisation_source: str) -> None:
    what, source = wording.utilisation(H200, utilisation_source)
    (panel,) = panels.panels(
        a_recording(H200, "H200", utilisation_source, {UTILISATION_SOURCES[utilisation_source]: wave(50)})
    )
    assert panel.title == f"{what} ({source})"


def test_series_of_two_sources_are_metrics_with_names_of_their_own() -> None:
    metrics = [COLUMNS[column].metric for column in UTILISATION_SOURCES.values()]
    assert len(set(metrics)) == len(UTILISATION_SOURCES)
    assert len({METRICS[metric].title for metric in metrics}) == len(UTILISATION_SOURCES)


def test_an_older_gpu_has_no_panel_for_what_it_cannot_tell() -> None:
    titles = [panel.title for panel in panels.panels(an_a100())]
    assert titles[0] == "GPU busy, share of time with a kernel (driver's buffer)"
    assert not any("SM" in title or "Occupancy" in title for title in titles)


def test_what_was_never_answered_is_named_once() -> None:
    assert panels.without_values(an_h200()) == ["NVLink"]
    assert panels.without_values(a_host()) == ["CPU frequency"]
    one = a_recording(H200, "H200", "gpm", {"sm_clock": wave(1), "memory_clock": lambda second: None})
    assert panels.without_values(one) == ["Clocks: memory clock"]


def test_every_column_is_drawn_and_a_new_one_under_its_own_name() -> None:
    drawn = panels.panels(a_recording(H200, "H200", "gpm", dict.fromkeys([*COLUMNS, "flux"], wave(1))))
    columns = [column for panel in drawn for column, _ in panel.lines]
    assert sorted(columns) == sorted([*(set(COLUMNS) - {"energy"}), "flux"])
    assert all(len({COLUMNS[c].unit for c, _ in panel.lines if c in COLUMNS}) <= 1 for panel in drawn)


def test_few_cpus_are_lines_and_many_are_a_map() -> None:
    few, *_ = panels.panels(a_host(6))
    many, *_ = panels.panels(a_host(64))
    assert ([label for _, label in few.lines][:2], few.heat, many.heat) == (["CPU 0", "CPU 1"], False, True)
    assert panels.panels(a_host(1))[0].title == "CPU 0 busy"
    host = a_host(64)
    cells = panels.heat(host, panels.panels(host), BOOTED_NS)
    assert len(cells) == 64 * 16
    assert cells["cpu"].max() == 63
    lines = panels.lines(host, panels.panels(host), BOOTED_NS)
    assert list(lines) == [window_charts.line_set(place) for place in (1, 2, 3, 4, 5, 6)]


def test_cells_of_the_map_count_rows_by_how_long_they_are() -> None:
    # To read the memory of a large machine takes seconds now and then, and the row then is as long.
    lengths = [ROW_NS] * 5 + [30 * ROW_NS] + [ROW_NS] * 4
    ends = list(accumulate(lengths, initial=BOOTED_NS))
    busy = (100.0,) * 5 + (0.0,) + (100.0,) * 4
    every = {"cpu_busy": busy, **{f"cpu{cpu}": busy for cpu in range(512)}}
    host = Recording("host", "CPU", "none", tuple(ends[:-1]), tuple(ends[1:]), every, ())
    cells = panels.heat(host, panels.panels(host), BOOTED_NS)
    own = cells[cells["cpu"] == 300]
    assert 1 < len(own) < len(busy)
    spans = own["ended"] - own["began"]
    mean = stored_values(host)["utilisation"]
    assert (spans * own["value"]).sum() / spans.sum() == pytest.approx(mean)


@pytest.mark.parametrize("cpus", [64, 384])
def test_a_long_window_of_a_large_machine_stays_small(cpus: int) -> None:
    host = a_host(cpus, rows=600)
    drawn = panels.panels(host)
    assert len(panels.heat(host, drawn, BOOTED_NS)) <= panels.MAX_POINTS
    assert 0 < sum(map(len, panels.lines(host, drawn, BOOTED_NS).values())) <= panels.MAX_POINTS
    assert len(panels.hover_rows(host, BOOTED_NS)) == 0


def test_what_is_left_out_of_a_long_line_is_never_its_spike_nor_its_gap() -> None:
    flicker = {"power": lambda second: None if round(second / 0.2) % 2 else 300.0 + (second == 200.0) * 400}
    recording = a_recording(H200, "H200", "gpm", flicker, rows=5000)
    drawn = pieces(recording, "power")
    values = [value for piece in drawn for _, value in piece]
    assert len(values) <= panels.MAX_POINTS
    assert max(values) == 700
    assert all(len(piece) == 2 for piece in drawn)


def test_many_lines_that_are_interrupted_everywhere_share_what_a_chart_may_draw() -> None:
    def flicker(second: float) -> float | None:
        return None if round(second / 0.2) % 2 else 300.0 + second % 7

    names = ("power", "sm_clock", "memory_clock", "temperature", "memory_used", "sm_utilisation")
    recording = a_recording(H200, "H200", "gpm", dict.fromkeys(names, flicker), rows=5000)
    points = pd.concat(panels.lines(recording, panels.panels(recording), BOOTED_NS).values())
    assert set(points.groupby("line").size()) == {panels.MAX_POINTS // 12 * 2}


def test_devices_share_one_zero_and_one_end() -> None:
    both = [an_h200(), a_host()]
    assert panels.origin(both) == BOOTED_NS
    assert panels.length(both) == 3.3
    assert (panels.origin([]), panels.length([])) == (0, 0.1)


def test_the_pointer_says_no_value_where_there_is_none() -> None:
    hovered = panels.hover_rows(an_h200(), BOOTED_NS)
    assert hovered["sm_utilisation"].tolist()[6:9] == ["no value"] * 3
    assert hovered["power"][0] == "612.0"


def test_the_csv_has_every_row_and_column_with_its_unit_and_empty_gaps() -> None:
    table = panels.table(an_h200(), BOOTED_NS)
    assert len(table) == 16
    assert {"device", "utilisation_source", "began_s", "ended_s", "energy (J)", "sm_utilisation (%)"} <= set(
        table.columns
    )
    assert table["sm_utilisation (%)"].isna().sum() == 3


def test_a_recording_without_a_row_is_no_error() -> None:
    empty = a_recording(H200, "H200", "gpm", {"power": wave(1)}, rows=0)
    assert panels.panels(empty) == ()
    assert len(panels.table(empty, 0)) == len(panels.hover_rows(empty, 0)) == 0


def test_the_spec_has_one_selection_for_all_panels_and_no_data() -> None:
    drawn = panels.panels(a_host(64))
    spec = window_charts.window(drawn, 3.3)
    (hover,) = spec["params"]
    assert len(hover["views"]) == len(drawn)
    assert "datasets" not in spec
    lines = [
        layer for panel in spec["vconcat"] for layer in panel["layer"] if layer["mark"]["type"] == "line"
    ]
    assert {layer["encoding"]["detail"]["field"] for layer in lines} == {"piece"}
    assert {layer["mark"]["interpolate"] for layer in lines} == {"step-before"}
    named = {layer["data"]["name"] for layer in lines}
    assert named == set(panels.lines(a_host(64), drawn, BOOTED_NS)) and len(named) == len(lines)


def test_where_nothing_answers_to_the_pointer_there_is_nothing_that_could() -> None:
    drawn = panels.panels(a_host(64))
    silent = window_charts.window(drawn, 3.3, with_tooltips=False)
    assert "params" not in silent
    drawn_from = [layer | panel for panel in silent["vconcat"] for layer in panel["layer"]]
    names = {each["data"]["name"] for each in drawn_from}
    assert "rows" not in names and len(silent["vconcat"]) == len(drawn)


@pytest.mark.slow
@pytest.mark.parametrize("recording", [an_h200(), a_host(64)])
def test_the_spec_is_vega_lite(recording: Recording) -> None:
    spec = window_charts.window(panels.panels(recording), 3.3)
    assert alt.VConcatChart.from_dict(spec).to_dict()["vconcat"]


@pytest.mark.parametrize(("seconds", "ticks"), [(3.3, 7), (0.1, 6), (30.0, 7), (600.0, 7), (8.0, 5)])
def test_ticks_are_few_and_round_and_never_beyond_the_end(seconds: float, ticks: int) -> None:
    axis = window_charts.window(panels.panels(an_a100()), seconds)["vconcat"][0]["layer"][0]["encoding"]["x"]
    values = axis["axis"]["values"]
    assert (len(values), values[0]) == (ticks, 0)
    assert values[-1] <= seconds


def test_crosses_are_what_does_not_count() -> None:
    shape = charts.samples_in_order()["layer"][1]["encoding"]["shape"]
    assert shape == {"condition": [{"test": "!datum.counts", "value": "cross"}], "value": "circle"}


def measured(case: str, **metrics: float) -> list[Measurement]:
    return [
        Measurement(case, "e", name, value, None, None, value, value, None, 1)
        for name, value in metrics.items()
    ]


def test_what_limits_cases_is_shown_by_source_and_the_busiest_comes_first() -> None:
    rows = [
        *measured("a/infer/-/eager", sm_utilisation=40.0, tensor_active=12.5, power=300.0),
        *measured("b/infer/-/eager", sm_utilisation=90.0, energy_per_item=0.25),
        *measured("c/infer/-/eager", gpu_busy=99.0, power=120.0),
        *measured("d/infer/-/eager", latency=5.0),
    ]
    found = page.by_source("run", rows)
    assert {source: [one.case[0] for one in cases] for source, cases in found.items()} == {
        "GPM, hardware counters": ["b", "a"],
        "the driver's samples": ["c"],
    }
    table = page.limits_table("GPM, hardware counters", found["GPM, hardware counters"])
    assert [column.label for column in table.visible_columns] == [
        "Case",
        "SM utilisation (%)",
        "Tensor cores active (%)",
        "Power (W)",
        "Energy per item (J)",
    ]
    both = page.by_source("run", [*rows, *(replace(one, environment="other") for one in rows)])
    two = page.limits_table("the driver's samples", both["the driver's samples"], {"other": "my nightly"})
    assert two.visible_columns[1].label == "Environment"
    assert sorted(two.visible_columns[1].cell(one) for one in two.rows) == ["e", "my nightly"]
    assert table.records()[0]["energy_per_item"] == 0.25 and table.records()[0]["power"] is None
    assert "view=utilisation" in table.html()
