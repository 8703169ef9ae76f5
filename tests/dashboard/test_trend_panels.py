"""The trend chart's panels and the data that each of their marks is drawn from."""

from typing import Any

import pandas as pd

from dashboard.trends import charts
from dashboard.trends.charts import TrendStyle


def trend(lines: int, **look: Any) -> charts.Spec:
    return charts.trend("ms", lines, "date", a_look(**look))


def a_look(**look: Any) -> TrendStyle:
    style: dict[str, Any] = {"stacked": False, "bars": True, "clock": False, **look}
    return TrendStyle(**style)


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
    point_rows = charts.point_sets(frame, a_look())
    assert {name: list(rows["x"]) for name, rows in point_rows.items()} == {
        "points": [0, 1, 2, 3],
        "ends": [1, 3],
    }
    apart = charts.point_sets(frame, a_look(stacked=True))
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
