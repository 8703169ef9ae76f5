"""Charts as data: what is drawn from which column, and how rows are made of records."""

import itertools
from datetime import timedelta
from typing import Any

import numpy as np
import pytest
from builders import BERT, MLP, RESNET, a_night

from dashboard import charts, frames
from db.records import SeriesPoint


def a_point(night: int, version: str = "2.13.0", case: str = MLP, point: float = 2.0) -> SeriesPoint:
    return SeriesPoint(
        case=case,
        run=f"run-{night}",
        started_at=a_night(night),
        environment="environment",
        torch_version=version,
        machine="bench-1",
        harness="harness",
        point=point,
        low=point * 0.98,
        high=point * 1.02,
        smallest=point * 0.95,
        largest=point * 1.05,
        spread=0.02,
        n=3,
    )


def marks(spec: charts.Spec) -> list[str]:
    return [layer["mark"]["type"] for layer in spec["layer"]]


def layer(spec: charts.Spec, mark: str) -> dict[str, Any]:
    return next(each for each in spec["layer"] if each["mark"]["type"] == mark)


def trend(
    cases: int = 2,
    axis: charts.Axis = "date",
    *,
    stacked: bool = False,
    bars: bool = True,
    rules: bool = True,
) -> charts.Spec:
    look = charts.TrendLook(stacked=stacked, bars=bars, clock=False, rules=rules)
    return charts.trend("ms", cases, axis, look)


def test_the_line_is_the_median_and_the_band_the_range_of_the_replicates() -> None:
    spec = trend()
    assert layer(spec, "line")["encoding"]["y"]["field"] == "point"
    band = layer(spec, "area")["encoding"]
    assert (band["y"]["field"], band["y2"]["field"]) == ("smallest", "largest")
    assert layer(spec, "line")["encoding"]["x"]["scale"]["type"] == "utc"


def test_points_link_to_their_run_and_tell_n_and_range() -> None:
    encoding = layer(trend(), "point")["encoding"]
    assert encoding["href"]["field"] == "link"
    assert {"point", "smallest", "largest", "n", "torch", "run"} <= {t["field"] for t in encoding["tooltip"]}


def test_colours_are_left_to_the_theme_and_every_series_has_its_own_shape() -> None:
    encoding = layer(trend(6), "point")["encoding"]
    assert encoding["color"]["scale"] == {"domain": list("ABCDEF")}
    assert len(set(encoding["shape"]["scale"]["range"])) == 6


def test_versions_are_ruled_along_dates_and_named_along_versions() -> None:
    def of_versions(spec: charts.Spec) -> list[str]:
        return [each["mark"]["type"] for each in spec["layer"] if each.get("data") == {"name": "versions"}]

    assert of_versions(trend()) == ["rule", "text"]
    assert of_versions(trend(rules=False)) == []
    assert of_versions(trend(axis="version")) == ["text"]


def test_bars_are_drawn_when_asked_for() -> None:
    assert marks(trend(axis="version", bars=True)).count("rule") == 1
    assert marks(trend(axis="version", bars=False)).count("rule") == 0


def test_stacked_cases_have_a_panel_each_and_share_the_dates() -> None:
    spec = trend(3, stacked=True)
    assert len(spec["vconcat"]) == 3
    assert spec["resolve"] == {"scale": {"x": "shared"}}
    letters = ["'A'" in str(spec["vconcat"][0]), "'B'" in str(spec["vconcat"][1])]
    assert letters == [True, True]


@pytest.mark.parametrize(
    "spec", [trend(), trend(stacked=True), charts.samples_in_order(), charts.distribution()]
)
def test_specs_hold_no_data_and_are_drawn_as_svg(spec: charts.Spec) -> None:
    assert "datasets" not in spec
    assert spec["usermeta"]["embedOptions"]["renderer"] == "svg"


def test_data_travels_beside_a_spec_that_stays_as_it_was() -> None:
    spec = charts.distribution()
    frame = frames.histogram(np.array([1.0, 2.0, 3.0]))
    filled = charts.with_data(spec, bins=frame)
    assert filled["datasets"]["bins"] is frame
    assert "datasets" not in spec


def test_the_last_point_of_each_series_carries_its_letter() -> None:
    points = [a_point(night, case=case) for case in (MLP, RESNET) for night in range(3)]
    frame = frames.trend_points(points, (RESNET, MLP), "date")
    assert frame["letter"].tolist() == ["A"] * 3 + ["B"] * 3
    assert frame["case"].tolist()[0].startswith("resnet50")
    assert frame["last"].tolist() == [False, False, True] * 2
    assert frame["x"].is_monotonic_increasing is False
    assert frame["link"].tolist()[0] == "/run?run=run-0"


def test_versions_are_ordered_as_versions_and_dev_builds_by_date() -> None:
    shuffled = [
        "2.9.1",
        "2.14.0",
        "2.14.0.dev20260907+cpu",
        "nonsense",
        "2.13.0+cpu",
        "2.14.0.dev20260906+cpu",
    ]
    assert sorted(shuffled, key=frames.version_order) == [
        "2.9.1",
        "2.13.0+cpu",
        "2.14.0.dev20260906+cpu",
        "2.14.0.dev20260907+cpu",
        "2.14.0",
        "nonsense",
    ]


def test_on_the_version_axis_the_runs_of_a_version_are_put_together() -> None:
    points = [
        a_point(0, "2.9.0", point=1.0),
        a_point(1, "2.13.0", point=2.0),
        a_point(2, "2.13.0", point=4.0),
    ]
    frame = frames.trend_points(points, (MLP,), "version")
    assert frame["torch"].tolist() == ["2.9.0", "2.13.0"]
    assert frame["x"].tolist() == [0, 1]
    row = frame.iloc[1]
    assert (row["point"], row["n"]) == (3.0, 6)
    assert (row["smallest"], row["largest"]) == (pytest.approx(1.9), pytest.approx(4.2))
    assert row["run"] == "2 runs, newest run-2"
    assert row["link"] == "/run?run=run-2"


def test_a_rule_stands_where_the_version_changes() -> None:
    versions = ["2.13.0+cpu", "2.13.0+cpu", "2.14.0+cpu", "2.14.0+cpu"]
    frame = frames.version_changes([a_point(n, v) for n, v in enumerate(versions)])
    assert frame["version"].tolist() == ["2.14.0+cpu"]
    assert frame["label"].tolist() == ["2.14.0"]
    assert frame["x"].tolist() == [a_night(2)]


def test_labels_that_would_overlap_are_left_out_but_their_rules_stay() -> None:
    versions = ["2.13.0"] * 50 + ["2.14.0.dev20261001", "2.14.0.dev20261002"] + ["2.14.0"] * 50
    frame = frames.version_changes([a_point(n, v) for n, v in enumerate(versions)])
    assert frame["label"].tolist() == ["2.14.0.dev20261001", "", ""]


def test_many_nightlies_are_ruled_by_release() -> None:
    versions = [f"2.14.0.dev202610{day:02d}" for day in range(1, 15)] + ["2.15.0.dev20261015"]
    frame = frames.version_changes([a_point(n, v) for n, v in enumerate(versions)])
    assert frame["label"].tolist() == ["2.15.0"]


def test_one_scale_for_like_cases_and_one_each_for_unlike_ones() -> None:
    like = [a_point(0, point=2.0), a_point(0, case=RESNET, point=5.0)]
    assert not frames.trend_look(like).stacked
    assert frames.trend_look([*like, a_point(0, case=BERT, point=200.0)]).stacked
    assert not frames.trend_look([a_point(0, point=0.0)]).stacked


def test_the_clock_is_written_only_within_days_and_bars_only_for_few_points() -> None:
    assert frames.trend_look([a_point(0), a_point(2)]).clock
    assert not frames.trend_look([a_point(0), a_point(3)]).clock
    assert frames.trend_look([a_point(n) for n in range(120)]).bars
    assert not frames.trend_look([a_point(n) for n in range(121)]).bars


def test_rules_are_drawn_only_where_the_version_changes() -> None:
    assert not frames.trend_look([a_point(0), a_point(1)]).rules
    assert frames.trend_look([a_point(0), a_point(1, "2.14.0")]).rules


def test_names_along_the_version_axis_are_in_order_and_never_too_many() -> None:
    few = frames.version_names([a_point(0, "2.14.0"), a_point(1, "2.9.0"), a_point(2, "2.14.0")])
    assert few.to_dict("list") == {
        "x": [0, 1],
        "version": ["2.9.0", "2.14.0"],
        "label": ["2.9.0", "2.14.0"],
    }
    many = frames.version_names([a_point(n, f"2.13.{n}") for n in range(100)])
    assert many["x"].tolist() == list(range(100))
    assert 10 <= sum(many["label"] != "") <= 18


def test_samples_keep_their_order_and_blocks() -> None:
    blocks = [(1_000_000, 2_000_000), (3_000_000,)]
    frame = frames.samples(blocks)
    assert frame.to_dict("list") == {
        "iteration": [1, 2, 3],
        "block": [1, 1, 2],
        "milliseconds": [1.0, 2.0, 3.0],
        "counts": [True, True, True],
    }
    assert frames.block_starts(blocks)["iteration"].tolist() == [2.5]


def test_thinning_keeps_every_spike() -> None:
    values = [1_000_000] * 10_000
    values[4_321] = 9_000_000
    values[7_000] = 500_000
    frame = frames.thinned([tuple(values)])
    assert len(frame) <= frames.MAX_SAMPLES
    assert frame["milliseconds"].max() == 9.0
    assert frame["milliseconds"].min() == 0.5
    assert frame["iteration"].is_monotonic_increasing
    assert frame.loc[frame["milliseconds"] == 9.0, "iteration"].tolist() == [4_322]


@pytest.mark.parametrize("values", [[5.0], [5.0, 5.0, 5.0], list(np.linspace(1, 9, 1000))])
def test_a_histogram_counts_every_sample_once(values: list[float]) -> None:
    bins = frames.histogram(np.array(values))
    assert bins["count"].sum() == len(values)
    assert all(a == b for (_, a), (b, _) in itertools.pairwise(zip(bins["low"], bins["high"], strict=True)))


def test_a_histogram_is_cut_only_where_few_samples_would_take_the_axis() -> None:
    even = np.linspace(1, 2, 1000)
    assert len(frames.bulk(even)) == 1000
    spiked = np.append(even, [50.0, 60.0])
    assert frames.bulk(spiked).max() <= 2.0
    assert len(frames.bulk(spiked)) >= 0.98 * len(spiked)
    assert frames.bulk(np.array([5.0, 5.0])).tolist() == [5.0, 5.0]


def test_the_table_holds_every_point_newest_first() -> None:
    table = frames.trend_table([a_point(0), a_point(1)], "ms")
    assert table["run"].tolist() == ["run-1", "run-0"]
    assert {"point", "unit", "n", "smallest", "largest", "95 % low", "torch", "harness"} <= set(table.columns)
    assert table["measured (UTC)"].tolist()[0] - table["measured (UTC)"].tolist()[1] == timedelta(days=1)
