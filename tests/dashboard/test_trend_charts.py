"""The trend chart as data: what is drawn from which column, and how rows are made of points."""

import re
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any, Literal

import altair as alt
import pandas as pd
import pytest
from jsonschema import ValidationError

import dashboard
from dashboard.components.charts import TONES, Spec
from dashboard.components.wording import metric
from dashboard.trends import charts, frames, lines, marks, moves, tables, words
from dashboard.trends.charts import TrendStyle
from dashboard.trends.lines import OTHER, TrendLine
from dashboard.trends.view import Trends
from records.outcomes import MetricDefinition
from support.builders.run_records import BERT, MLP, RESNET, a_night
from support.builders.trends import EPYC, XEON, a_key, a_line, a_point, drawn, found, tracks_of_place

ONE = {OTHER: "other runs"}
PLAIN = TrendStyle(stacked=False, bars=True, clock=False)


def layers(spec: Spec) -> list[dict[str, Any]]:
    return spec["layer"]


def layer(spec: Spec, mark: str) -> dict[str, Any]:
    return next(each for each in layers(spec) if each["mark"]["type"] == mark)


def of_data(spec: Spec, name: str) -> list[str]:
    return [each["mark"]["type"] for each in layers(spec) if each["data"].get("name") == name]


def trend(number: int = 2, axis: Literal["date", "version"] = "date", **look: Any) -> Spec:
    return charts.trend("ms", number, axis, replace(PLAIN, **look))


def of_version(*points: tuple[int, str]) -> list[TrendLine]:
    return [a_line([a_point(night, version) for night, version in points])]


def every_point(drawn: list[TrendLine], levels: dict[str, float] | None = None) -> list[dict[str, Any]]:
    """The rows of the CSV file with all points."""
    view = Trends("latency", (XEON,), "quiet", "date", (MLP,))
    return tables.points(tables.newest_first(drawn), view, metric("latency"), ONE, levels).records()


def test_the_line_is_the_median_and_the_band_the_range_of_the_replicates() -> None:
    spec = trend()
    assert layer(spec, "line")["encoding"]["y"]["field"] == "point"
    band = layer(spec, "area")["encoding"]
    assert (band["y"]["field"], band["y2"]["field"]) == ("smallest", "largest")
    assert layer(spec, "line")["encoding"]["x"]["scale"]["type"] == "utc"


def test_on_a_relative_scale_all_of_it_is_shares_in_per_cent_around_zero() -> None:
    spec = trend(relative=True)
    assert layer(spec, "line")["encoding"]["y"]["field"] == "point_share"
    assert layer(spec, "line")["encoding"]["y"]["axis"]["format"].endswith("%")
    band = layer(spec, "area")["encoding"]
    assert (band["y"]["field"], band["y2"]["field"]) == ("smallest_share", "largest_share")
    assert {"datum": 0} in [each["encoding"].get("y") for each in layers(spec)]
    assert {"datum": 0} not in [each["encoding"].get("y") for each in layers(trend())]


def test_points_link_and_tell_n_interval_and_range() -> None:
    points = layer(trend(), "point")
    encoding = points["encoding"]
    (address,) = charts.leading_to(trend(), "/explore?")["params"]
    assert points["mark"]["href"] == {"expr": f"{address['name']} + datum.link"}
    fields = {each["field"] for each in encoding["tooltip"]}
    assert {"point", "interval", "smallest", "largest", "n", "torch", "run", "where"} <= fields
    assert "point_share" in {
        each["field"] for each in layer(trend(relative=True), "point")["encoding"]["tooltip"]
    }


def test_colours_are_left_to_the_theme_and_every_line_has_its_own_shape() -> None:
    encoding = layer(trend(6), "point")["encoding"]
    assert encoding["color"]["scale"] == {"domain": list("ABCDEF")}
    assert len(set(encoding["shape"]["scale"]["range"])) == 6


def test_tracks_are_distinguished_by_their_dashes_and_never_joined() -> None:
    encoding = layer(trend(tracks=2), "line")["encoding"]
    assert encoding["detail"]["field"] == encoding["strokeDash"]["field"] == "track"
    assert encoding["strokeDash"]["scale"]["domain"] == [1, 2]
    assert layer(trend(tracks=2), "area")["encoding"]["detail"]["field"] == "track"
    assert "strokeDash" not in layer(trend(), "line")["encoding"]
    assert len(set(charts.DASHES)) == len(charts.DASHES) == 6


def test_marks_are_drawn_where_there_are_any() -> None:
    assert of_data(trend(rules=True), "versions") == ["rule", "text"]
    assert of_data(trend(), "versions") == []
    assert of_data(trend(axis="version"), "versions") == ["text"]
    assert of_data(trend(moves="A"), "moves") == ["text", "text"]
    assert of_data(trend(ticks=True), "ticks") == ["rule"]
    assert of_data(trend(axis="version", rules=True, ticks=True), "ticks") == []
    assert of_data(trend(opened=True), "opened") == ["point"]
    bars = [each for each in layers(trend()) if each["mark"]["type"] == "rule"]
    assert [each["data"] for each in bars] == [{"name": "points"}]
    assert [each for each in layers(trend(bars=False)) if each["mark"]["type"] == "rule"] == []


def test_what_went_up_is_written_above_and_what_went_down_below() -> None:
    up, down = (each for each in layers(trend(moves="A")) if each["data"] == {"name": "moves"})
    assert (up["transform"], down["transform"]) == ([{"filter": "datum.up"}], [{"filter": "!datum.up"}])
    assert up["mark"]["dy"] < 0 < down["mark"]["dy"]
    assert up["encoding"]["href"]["field"] == "link"


def test_marks_have_the_colours_of_the_style_sheet() -> None:
    style = (Path(dashboard.__path__[0]) / "components/style.css").read_text()
    pairs = re.findall(r"--py-(good|bad|odd): light-dark\((#\w{6}), (#\w{6})\)", style)
    assert {name: light for name, light, _ in pairs} == TONES[False]
    assert {name: dark for name, _, dark in pairs} == TONES[True]
    assert TONES[True]["bad"] in str(trend(moves="A", dark=True))


def test_tracks_are_dashed_alike_in_the_chart_and_in_its_legend() -> None:
    style = (Path(dashboard.__path__[0]) / "components/style.css").read_text()
    steps = re.findall(r"\.py-dash-(\d) \{ --py-on: (\d+)px; --py-step: (\d+)px; \}", style)
    assert [(int(on), int(step) - int(on)) for _, on, step in steps] == list(charts.DASHES[1:])


def test_a_range_ends_with_the_newest_point_of_all_lines() -> None:
    first = a_line([a_point(night) for night in (0, 60, 69, 70)])
    other = a_line([a_point(night, case=BERT) for night in (1, 71, 100)], "B")
    kept = lines.since([first, other], 31)
    assert [[point.run for point in line.points] for line in kept] == [
        ["run-69", "run-70"],
        ["run-71", "run-100"],
    ]
    assert all(len(line.points) == len(line.tracks) for line in kept)
    assert lines.since([first, other], None) == (first, other)


def test_the_pointer_meets_the_nearest_moment_and_reads_every_line_there() -> None:
    first = a_line([a_point(0, point=2.0), a_point(4, point=3.0)])
    other = a_line([a_point(2, case=BERT, point=50.0), a_point(4, case=BERT, point=60.0)], "B")
    points = frames.points([first, other], ONE, "date")
    (one, _), (two, title) = named = frames.series(points)
    assert (one, two) == ("A", "B") and title.startswith("B bert_base")
    rows = frames.hover_rows(points).to_dict("records")
    assert [(row["A"], row["B"]) for row in rows] == [("2.000", "–"), ("2.000", "50.00"), ("3.000", "60.00")]
    # The time between two moments is halved, so that no place is without one.
    assert [row["to"] for row in rows[:-1]] == [row["from"] for row in rows[1:]] == [a_night(1), a_night(3)]
    (moments,) = [each for each in layers(trend(series=named)) if each["data"] == {"name": "hovered"}]
    assert [each["field"] for each in moments["encoding"]["tooltip"]] == ["measured", "A", "B"]
    # What is pointed at lights up in every panel, so the selection is of all of them by their names.
    stacked = trend(series=named, stacked=True)
    panels = [each for panel in stacked["vconcat"] for each in panel["layer"]]
    for spec, drawn_layers in ((trend(series=named), layers(trend(series=named))), (stacked, panels)):
        names = [each["name"] for each in drawn_layers if each["data"] == {"name": "hovered"}]
        assert spec["params"][0]["views"] == names and len(set(names)) == len(names) > 0
    # A single moment is no choice.
    assert frames.series(frames.points([a_line([a_point(0)])], ONE, "date")) == ()


EVERYTHING = {
    "tracks": 2,
    "rules": True,
    "moves": "AB",
    "ticks": True,
    "opened": True,
    "series": (("A", "A mlp"), ("B", "B bert")),
}


@pytest.mark.slow
@pytest.mark.parametrize(
    ("axis", "look"),
    [("date", EVERYTHING), ("version", EVERYTHING), ("date", {"bars": False, "relative": True})],
)
def test_the_spec_is_vega_lite_without_data(axis: Any, look: dict[str, Any]) -> None:
    spec = trend(2, axis, **look)
    assert alt.LayerChart.from_dict(spec).to_dict()["layer"]
    stacked = trend(2, axis, stacked=True, **{**look, "relative": False})
    assert alt.VConcatChart.from_dict(stacked).to_dict()["vconcat"]
    assert "datasets" not in spec and spec["usermeta"]["embedOptions"]["renderer"] == "svg"


@pytest.mark.slow
def test_what_is_no_vega_lite_is_noticed() -> None:
    with pytest.raises(ValidationError):
        alt.LayerChart.from_dict({**trend(2, "date"), "height": "tall"})


def test_a_date_axis_always_says_the_year() -> None:
    for clock in (True, False):
        assert "%Y" in str(trend(clock=clock))


def test_the_last_point_of_each_line_carries_its_letter() -> None:
    both = drawn(
        {a_key(case): [a_point(night, case=case) for night in range(3)] for case in (RESNET, MLP)}, {}
    )
    frame = frames.points(both, ONE, "date")
    assert frame["letter"].tolist() == ["A"] * 3 + ["B"] * 3
    assert frame["case"].tolist()[0].startswith("resnet50")
    assert frame["last"].tolist() == [False, False, True] * 2
    assert frame["end"].tolist() == ["A"] * 3 + ["B"] * 3
    assert frame["link"].tolist()[0].startswith("at=run-0&detail=resnet50")
    assert frame["interval"].tolist()[0] == "1.96 to 2.04"


def test_the_points_of_a_track_are_adjacent_and_end_in_its_number() -> None:
    nightly = [a_point(night, "2.14.0", run=f"new-{night}") for night in range(3)]
    pinned = [a_point(night, run=f"old-{night}") for night in range(3)]
    about = tracks_of_place(nightly, track="nightly", baseline="2.13.0") | tracks_of_place(
        pinned, track="2.13.0"
    )
    mixed = [point for pair in zip(nightly, pinned, strict=True) for point in pair]
    frame = frames.points(drawn({a_key(): mixed}, about), {"nightly": "nightly", "2.13.0": "2.13.0"}, "date")
    assert frame["run"].tolist() == [f"{side}-{night}" for side in ("new", "old") for night in range(3)]
    assert frame["track"].tolist() == [1, 1, 1, 2, 2, 2]
    assert frame[frame["last"]]["end"].tolist() == ["A1", "A2"]
    assert frame["name"].tolist()[-1] == "2.13.0"
    # Each track by itself goes forward in time: no line goes to and fro.
    assert all(own["x"].is_monotonic_increasing for _, own in frame.groupby("track"))


@pytest.mark.parametrize(
    ("value", "level", "share"), [(2.2, 2.0, 0.1), (1.5, 2.0, -0.25), (2.0, 2.0, 0.0), (6.0, 2.0, 2.0)]
)
def test_a_share_is_the_point_by_its_level_less_one(value: float, level: float, share: float) -> None:
    line = a_line([a_point(0, point=value)])
    (row,) = frames.points([line], ONE, "date", {"A": level}).to_dict("records")
    assert row["point_share"] == pytest.approx(share)
    assert row["smallest_share"] == pytest.approx(value * 0.95 / level - 1)
    assert row["largest_share"] == pytest.approx(value * 1.05 / level - 1)
    assert row["point"] == value, "the measured value is still shown"
    (row,) = every_point([line], {"A": level})
    assert row["relative"] == pytest.approx(share)


def test_a_line_without_a_level_is_not_drawn_and_stays_in_the_table() -> None:
    both = [a_line([a_point(0)]), a_line([a_point(0, case=RESNET)], "B")]
    assert frames.points(both, ONE, "date", {"B": 2.0})["letter"].tolist() == ["B"]
    rows = every_point(both, {"B": 2.0})
    assert len(rows) == 2 and sum(row["relative"] is None for row in rows) == 1
    assert frames.points(both, ONE, "date", {}).empty


def test_on_the_version_axis_the_runs_of_a_version_are_merged() -> None:
    points = [
        a_point(0, "2.9.0", point=1.0),
        a_point(1, "2.13.0", point=2.0),
        a_point(2, "2.13.0", point=4.0),
    ]
    frame = frames.points([a_line(points)], ONE, "version")
    assert frame["torch"].tolist() == ["2.9.0", "2.13.0"]
    assert frame["x"].tolist() == [0, 1]
    first, row = frame.to_dict("records")
    assert (row["point"], row["n"]) == (3.0, 6)
    assert (row["smallest"], row["largest"]) == (pytest.approx(1.9), pytest.approx(4.2))
    assert row["run"] == "2 runs, newest run-2" and row["link"].startswith("at=run-2&")
    assert (first["interval"], row["interval"]) == ("0.98 to 1.02", "–")
    assert frames.points([a_line(points)], ONE, "version", {"A": 2.0})["point_share"].tolist() == [-0.5, 0.5]


def test_a_rule_stands_where_the_version_changes() -> None:
    frame = frames.version_changes(
        of_version((0, "2.13.0+cpu"), (1, "2.13.0+cpu"), (2, "2.14.0+cpu"), (3, "2.14.0+cpu"))
    )
    assert frame["version"].tolist() == ["2.14.0+cpu"]
    assert frame["label"].tolist() == ["2.14.0"]
    assert frame["x"].tolist() == [a_night(2)]


def test_tracks_that_alternate_change_no_version() -> None:
    nightly = [a_point(night, "2.14.0" if night else "2.13.1", run=f"new-{night}") for night in range(4)]
    pinned = [a_point(night, run=f"old-{night}") for night in range(4)]
    about = tracks_of_place(nightly, track="nightly") | tracks_of_place(pinned, track="2.13.0")
    mixed = [point for pair in zip(nightly, pinned, strict=True) for point in pair]
    assert frames.version_changes(drawn({a_key(): mixed}, about))["version"].tolist() == ["2.14.0"]


def test_labels_that_would_overlap_are_left_out_but_their_rules_stay() -> None:
    versions = ["2.13.0"] * 50 + ["2.14.0.dev20261001", "2.14.0.dev20261002"] + ["2.14.0"] * 50
    frame = frames.version_changes(of_version(*enumerate(versions)))
    assert frame["label"].tolist() == ["2.14.0.dev20261001", "", ""]


def test_many_nightlies_are_ruled_by_release() -> None:
    versions = [f"2.14.0.dev202610{day:02d}" for day in range(1, 15)] + ["2.15.0.dev20261015"]
    assert frames.version_changes(of_version(*enumerate(versions)))["label"].tolist() == ["2.15.0"]


def test_versions_at_one_moment_share_a_label() -> None:
    at_once = [(0, version) for version in ("2.9.1", "1.10", "2.4.0+cu1", "1.10")]
    changes = frames.version_changes(of_version(*at_once))
    assert list(changes["label"]) == ["1.10 … 2.9.1"] and frames.at_one_moment(changes)
    changes = frames.version_changes(of_version(*at_once, (400, "2.9.1")))
    assert list(changes["x"]) == [a_night(0), a_night(400)]
    alone = frames.version_changes(of_version((0, "2.4.0"), (0, "2.4.0")))
    assert alone.empty and not frames.at_one_moment(alone)


def test_one_scale_for_like_lines_and_one_each_for_unlike_ones() -> None:
    like = [a_line([a_point(0, point=2.0)]), a_line([a_point(0, case=RESNET, point=5.0)], "B")]
    unlike = [*like, a_line([a_point(0, case=BERT, point=200.0)], "C")]
    assert not frames.look(like).stacked
    assert frames.look(unlike).stacked
    assert not frames.look(unlike, "relative").stacked, "shares have one scale"
    assert not frames.look([a_line([a_point(0, point=0.0)])]).stacked


def test_the_clock_is_written_only_within_days_and_bars_only_for_few_points() -> None:
    assert frames.look([a_line([a_point(0), a_point(2)])]).clock
    assert not frames.look([a_line([a_point(0), a_point(3)])]).clock
    assert frames.look([a_line([a_point(n) for n in range(120)])]).bars
    assert not frames.look([a_line([a_point(n) for n in range(121)])]).bars


def test_names_along_the_version_axis_are_in_order_and_never_too_many() -> None:
    few = frames.version_names(of_version((0, "2.14.0"), (1, "2.9.0"), (2, "2.14.0")))
    assert few.to_dict("list") == {
        "x": [0, 1],
        "version": ["2.9.0", "2.14.0"],
        "label": ["2.9.0", "2.14.0"],
        "narrow": [True, False],
    }
    many = frames.version_names(of_version(*((n, f"2.13.{n}") for n in range(100))))
    assert many["x"].tolist() == list(range(100))
    assert 5 <= sum(many["label"] != "") <= 8
    assert 2 <= sum(many["narrow"]) <= 3, "on a phone they stand side by side too"


def test_names_along_the_version_axis_are_short_and_level() -> None:
    builds = ["2.13.0+cpu", "2.14.0+cpu", "2.14.0+cu130", "2.15.0.dev20261124+cu130"]
    names = frames.version_names(of_version(*enumerate(builds)))
    assert names["version"].tolist() == builds
    assert names["label"].tolist() == ["2.13.0", "2.14.0+cpu", "2.14.0+cu130", "nightly 24 Nov"]
    spec = trend(1, "version")
    (drawn,) = (layer for layer in spec["layer"] if layer.get("data", {}).get("name") == "versions")
    assert not drawn["mark"].get("angle")


def test_a_mark_stands_on_its_line_on_each_axis_and_scale() -> None:
    points = [
        a_point(0, "2.13.0", point=1.0),
        a_point(1, "2.14.0", point=2.0),
        a_point(2, "2.14.0", point=4.0),
    ]
    line = a_line(points)
    moved = moves.moves_of_findings([line], [found(points[1], a_key())])

    def placed(axis: Literal["date", "version"], levels: frames.Levels | None) -> dict[str, Any]:
        rows = frames.points([line], ONE, axis, levels)
        (row,) = marks.moves(moved, axis, rows, levels).to_dict("records")
        return row

    row = placed("date", None)
    assert (row["x"], row["point"], row["text"], row["up"]) == (a_night(1), 2.0, "▲ +10.0 %", True)
    assert row["link"] == "/regressions?finding=7"
    assert placed("date", {"A": 1.0})["point_share"] == 1.0
    row = placed("version", {"A": 1.0})
    assert (row["x"], row["point"], row["point_share"]) == (1, 3.0, 2.0)
    # A line that cannot be set against the baseline is not drawn, nor what stands on it.
    assert marks.moves(moved, "date", frames.points([line], ONE, "date", {}), {}).empty
    assert marks.ring_points([(line, points[2])], "date", frames.points([line], ONE, "date"), None)[
        "point"
    ].tolist() == [4.0]


def test_the_table_holds_every_point_newest_first() -> None:
    last, first = every_point([a_line([a_point(0), a_point(1)])])
    assert (last["run"], first["run"]) == ("run-1", "run-0")
    assert {"point", "unit", "n", "smallest", "largest", "95 % low", "torch", "harness"} <= set(last)
    assert {"track", "hardware", "machine"} <= set(last) and "relative" not in last
    assert last["measured (UTC)"] - first["measured (UTC)"] == timedelta(days=1)


def test_the_scale_says_its_direction_in_both_spellings() -> None:
    latency, throughput, power = metric("latency"), metric("throughput"), metric("power")
    assert words.title(latency, stacked=True) == "Latency (ms) · lower is better · each line on its own scale"
    assert words.title(latency, stacked=False, baseline="2.13.0") == (
        "Latency, change against 2.13.0 (%) · below 0 % is better"
    )
    assert words.title(throughput, stacked=False, baseline="2.13.0").endswith("above 0 % is better")
    assert words.title(power, stacked=False, baseline="2.13.0") == "Power, change against 2.13.0 (%)"


def test_the_caption_of_a_relative_scale_says_what_zero_is_and_what_is_left_out() -> None:
    both = [a_line([a_point(0), a_point(1, "2.14.0")]), a_line([a_point(0, "2.12.0", RESNET)], "B")]
    caption = words.against(metric("latency"), "2.13.0", {"A": 2.0}, both, run=False)
    assert caption.startswith("0 % is 2.13.0, the median over the points of its runs: A 2.00 ms.")
    assert "B has nothing measured with 2.13.0" in caption and "a hint, not a verdict" in caption
    assert "that run's point" in words.against(metric("latency"), "run-0", {"A": 2.0}, both, run=True)
    builds = [a_line([a_point(0, "2.13.0+cu126"), a_point(1, "2.13.0+cu130")])]
    caption = words.against(metric("latency"), "2.13.0", {"A": 2.0}, builds, run=False)
    assert caption.startswith(
        "0 % is 2.13.0, the median over the points of its runs: A 2.00 ms of 2.13.0+cu130."
    )


def test_the_meaning_of_a_metric_is_that_of_its_tool() -> None:
    latency = metric("latency", {"latency": MetricDefinition("latency", "x", "s", "higher")})
    assert "Latency: as the script reports it." in words.how_to_read(latency, "date", "the script")
    assert "as " not in words.how_to_read(latency, "date").partition("Latency:")[2]


@pytest.mark.parametrize(
    ("before", "after", "command"),
    [
        (
            "2.13.0+cu130",
            "2.15.0rc1+cpu",
            "pyrometer upgrade 2.13.0 2.15.0rc1 --case mlp_overhead/infer/batch=8/eager",
        ),
        (
            "2.13.0",
            "2.16.0.dev20261120+cpu",
            "pyrometer upgrade 2.13.0 2.16.0.dev20261120 --case mlp_overhead/infer/batch=8/eager",
        ),
        (
            "2.13.0",
            "2.14.0a0+git12",
            "pyrometer upgrade 2.13.0 'my build' --case mlp_overhead/infer/batch=8/eager",
        ),
        ("2.13.0", "2.13.0", ""),
        ("", "2.13.0", ""),
    ],
)
def test_two_points_are_measured_against_each_other_by_a_command(
    before: str, after: str, command: str
) -> None:
    old, new = a_point(0, before), a_point(1, after)
    names = {
        place: about
        for place, about in (tracks_of_place([old]) | tracks_of_place([new], name="my build")).items()
    }
    sides = names.get(lines.place_of(old)), names.get(lines.place_of(new))
    assert words.comparison(*sides, old, new) == command


def test_a_chart_in_words_names_lines_points_and_hardware() -> None:
    both = [a_line([a_point(0), a_point(1)]), a_line([a_point(0)], "B", a_key(hardware=EPYC))]
    said = words.in_words(metric("latency"), both, 2, "2.13.0")
    assert said.startswith("Latency, against 2.13.0: 2 lines in 2 tracks with 3 points on ")
    assert XEON in said and EPYC in said and said.count("mlp_overhead") == 1


def test_moments_are_utc_wherever_they_come_from() -> None:
    (row,) = frames.points([a_line([a_point(0)])], ONE, "date").to_dict("records")
    assert (row["measured"], row["x"]) == ("2026-09-01 02:00 UTC", datetime(2026, 9, 1, 2, tzinfo=UTC))


def test_stacked_lines_have_a_panel_each_and_share_the_axis() -> None:
    spec = trend(3, stacked=True, moves="ABC", ticks=True)
    assert len(spec["vconcat"]) == 3
    assert spec["resolve"] == {"scale": {"x": "shared"}}
    for place, panel in enumerate(spec["vconcat"]):
        letters = {each["transform"][0]["filter"] for each in panel["layer"] if "transform" in each}
        assert letters == {f"datum.letter === '{'ABC'[place]}'"}
        lines = [each["data"] for each in panel["layer"] if each["mark"]["type"] in ("area", "line", "point")]
        assert lines == [{"name": f"points{'ABC'[place]}"}] * 3
    ticks = [any(each["data"] == {"name": "ticks"} for each in panel["layer"]) for panel in spec["vconcat"]]
    assert ticks == [False, False, True]


def test_panels_without_a_move_have_no_place_for_one() -> None:
    spec = trend(3, stacked=True, moves="B")
    assert [
        sum(each["data"] == {"name": "moves"} for each in panel["layer"]) for panel in spec["vconcat"]
    ] == [0, 2, 0]


def test_every_point_is_drawn_once_and_every_line_ends_once() -> None:
    frame = pd.DataFrame({"letter": list("AABB"), "x": range(4), "last": [False, True, False, True]})
    point_rows = charts.point_sets(frame, PLAIN)
    assert {name: list(rows["x"]) for name, rows in point_rows.items()} == {
        "points": [0, 1, 2, 3],
        "ends": [1, 3],
    }
    apart = charts.point_sets(frame, replace(PLAIN, stacked=True))
    assert {name: list(rows["x"]) for name, rows in apart.items()} == {
        "pointsA": [0, 1],
        "pointsB": [2, 3],
        "ends": [1, 3],
    }


def test_few_points_have_names_and_thousands_have_not() -> None:
    def named(**look: Any) -> bool:
        marks = [each["mark"] for each in trend(1, **look)["layer"]]
        return next(mark["aria"] for mark in marks if mark["type"] == "point")

    assert named(bars=True)
    assert not named(bars=False)
