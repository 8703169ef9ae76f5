"""The Vega-Lite spec of a trend: bands, lines and points, and what is marked on them.

It is written out and not built with Altair, which takes longer than drawing it: hardly two views are alike
in their lines, tracks and marks. A test holds it against Vega-Lite's schema.
"""

from dataclasses import dataclass
from typing import Any

import pandas as pd

from dashboard.components.charts import QUIET, RENDERED, TONES, Spec, letter
from dashboard.trends.view import Axis

_SCHEMA = "https://vega.github.io/schema/vega-lite/v6.json"
_HEIGHT, _PANEL_HEIGHT, _TICK = 360, 128, 13
_SHAPES = ("circle", "square", "triangle-up", "diamond", "cross", "triangle-down")
#: How the lines of the first track, the second and so on are drawn: pixels on and off, as in the style sheet.
DASHES = ((1, 0), (6, 3), (2, 3), (9, 3), (4, 2), (1, 2))
#: Room on both sides of the lines, for the labels of the axis and for the letters at the lines' ends.
_PADDING = 62
#: Labels within the chart would lie over each other on a phone.
_WIDE_ONLY = {"expr": "width < 500 ? 0 : 1"}


@dataclass(frozen=True, slots=True)
class Look:
    """What a trend chart must know of its data before it sees them.

    `stacked` gives each line a panel and a scale of its own, `bars` draws the range at every point too (which
    is what shows it where a line has one point), `clock` writes the time of day on the date axis, `relative`
    draws shares. `tracks` is how many there are along dates. The others say which marks there are: `rules`
    where the version changes, the letters of the lines that have `moves`, `ticks` where something else
    changed, a point that is `opened`. `dark` is the page's theme.
    """

    stacked: bool
    bars: bool
    clock: bool
    relative: bool = False
    tracks: int = 1
    rules: bool = False
    moves: str = ""
    ticks: bool = False
    opened: bool = False
    dark: bool = False


def trend(unit: str, lines: int, axis: Axis, look: Look) -> Spec:
    """Up to six lines of one metric, in `unit`, along dates or PyTorch versions.

    Named data, made by `dashboard.trends.frames` and `dashboard.trends.marks`: `points` and `ends`, which
    `point_sets` makes of one; `versions`, which are rules along dates and names along versions; `moves`;
    `ticks`; `opened`. The band spans the smallest to the largest replicate.
    """
    panels = [_panel(unit, lines, axis, look, place) for place in range(lines if look.stacked else 1)]
    if not look.stacked:
        return {"$schema": _SCHEMA, **panels[0], **RENDERED}
    return {
        "$schema": _SCHEMA,
        "vconcat": panels,
        "spacing": 14,
        "resolve": {"scale": {"x": "shared"}},
        **RENDERED,
    }


def point_sets(points: pd.DataFrame, look: Look) -> dict[str, pd.DataFrame]:
    """The named data `ends`, and `points`, or in stacked panels those of each line by its letter.

    A browser would look through all of them for each panel otherwise, by an interpreter of its own.
    """
    found = {"points": points}
    if look.stacked:
        letters = dict.fromkeys(points["letter"])
        found = {_points_of(each): points.loc[points["letter"] == each] for each in letters}
    found["ends"] = points.loc[points["last"]]
    # Numbered anew: other numbers would travel with the rows.
    return {name: rows.reset_index(drop=True) for name, rows in found.items()}


def _points_of(only: str) -> str:
    return f"points{only}"


def _panel(unit: str, lines: int, axis: Axis, look: Look, place: int) -> Spec:
    last = place == lines - 1 or not look.stacked
    x = _dates(look, labels=last) if axis == "date" else _versions()
    only = letter(place) if look.stacked else ""
    dated = axis == "date"
    layers = [
        *(_version_rules(labels=place == 0) if look.rules and dated else ()),
        *(_version_names() if not dated and last else ()),
        *(_ticks(look) if look.ticks and dated and last else ()),
        *_lines(unit, lines, x, look, only),
        *(_moves(x, look, only) if _moved(look, only) else ()),
        *([_opened(x, look, only)] if look.opened else ()),
    ]
    return {"height": _PANEL_HEIGHT if look.stacked else _HEIGHT, "layer": layers}


def _lines(unit: str, lines: int, x: Spec, look: Look, only: str) -> list[Spec]:
    """Band, line, points and end labels; of every line, or `only` of one letter."""
    # No range: the colours come from Streamlit's theme, which has its own for light and for dark.
    letters = [letter(place) for place in range(lines)]
    shared: Spec = {"x": x, "color": _nominal("letter", scale={"domain": letters}, legend=None)}
    if look.tracks > 1:
        shared["detail"] = _nominal("track")
    y = _values(look, "point", only)
    span = {"y": _values(look, "smallest", only), "y2": {"field": _field(look, "largest")}}
    dashes = {"domain": list(range(1, look.tracks + 1)), "range": [list(each) for each in DASHES]}
    dashed = {"strokeDash": _nominal("track", scale=dashes, legend=None)} if look.tracks > 1 else {}
    base: Spec = {"data": {"name": _points_of(only)}}
    return [
        {**base, "mark": {"type": "area", "opacity": 0.18}, "encoding": {**shared, **span}},
        *([_bars(base, shared | span)] if look.bars else ()),
        *([_zero()] if look.relative else ()),
        {
            **base,
            "mark": {"type": "line", "strokeWidth": 1.6 if look.bars else 1.1},
            "encoding": {**shared, "y": y, **dashed},
        },
        {
            **base,
            # Names for thousands of them take as long as all the rest, and nobody has them read out: the
            # chart has one itself, and a table has the points.
            "mark": {
                "type": "point",
                "filled": True,
                "size": 60 if look.bars else 8,
                "opacity": 1,
                "aria": look.bars,
            },
            "encoding": {
                **shared,
                "y": y,
                "shape": _nominal(
                    "letter", scale={"domain": letters, "range": list(_SHAPES[:lines])}, legend=None
                ),
                "href": _nominal("link"),
                "tooltip": _tooltip(unit, look),
            },
        },
        {
            "data": {"name": "ends"},
            **_only(only),
            "mark": {"type": "text", "align": "left", "dx": 9, "fontWeight": 700, "fontSize": 12},
            "encoding": {**shared, "y": y, "text": _nominal("end")},
        },
    ]


def _bars(base: Spec, encoding: Spec) -> Spec:
    return {**base, "mark": {"type": "rule", "strokeWidth": 2, "opacity": 0.55}, "encoding": encoding}


def _zero() -> Spec:
    """Where a line stands at what it is set against."""
    mark = {"type": "rule", "color": QUIET, "opacity": 0.8}
    return {"data": {"values": [{}]}, "mark": mark, "encoding": {"y": {"datum": 0}}}


def _field(look: Look, name: str) -> str:
    return f"{name}_share" if look.relative else name


def _moved(look: Look, only: str) -> bool:
    return bool(look.moves) and only in look.moves


def _values(look: Look, name: str, only: str) -> Spec:
    # Labels stand inside, above their lines: stacked panels then start and end where the page's column does.
    inside: Spec = {
        "tickCount": 4 if only else 6,
        "format": "+.1~%" if look.relative else ",.5~r",
        **({"labelExpr": "datum.value === 0 ? '0%' : datum.label"} if look.relative else {}),
        "ticks": False,
        "domain": False,
        "labelAlign": "left",
        "labelBaseline": "line-bottom",
        "labelOffset": -3,
        "labelPadding": 0,
    }
    scale = {"zero": False, "padding": 24 if _moved(look, only) else 14}
    field = _field(look, name)
    return {"field": field, "type": "quantitative", "title": None, "scale": scale, "axis": inside}


def _dates(look: Look, *, labels: bool) -> Spec:
    shown = {
        "format": "%d %b %Y %H:%M" if look.clock else "%d %b %Y",
        "labelOverlap": True,
        "labelBound": True,
        "labels": labels,
        "ticks": labels,
        "grid": False,
        "tickCount": 6,
    }
    scale = {"type": "utc", "padding": _PADDING, "nice": False}
    return {"field": "x", "type": "temporal", "title": None, "scale": scale, "axis": shown}


def _versions() -> Spec:
    # By place, not by name: only a continuous scale leaves room on the left for the other axis's labels.
    # Not without an axis: Vega-Lite fails to put stacked panels together whose shared axis is missing.
    unseen = {"labels": False, "ticks": False, "grid": False, "domain": False}
    scale = {"zero": False, "nice": False, "padding": _PADDING}
    return {"field": "x", "type": "quantitative", "title": None, "scale": scale, "axis": unseen}


def _tooltip(unit: str, look: Look) -> list[Spec]:
    suffix = f" ({unit})" if unit else ""
    number = {"type": "quantitative", "format": ".4~g"}
    share = {
        "field": "point_share",
        "type": "quantitative",
        "format": "+.2~%",
        "title": "against the baseline",
    }
    return [
        _nominal("case"),
        *([share] if look.relative else ()),
        {"field": "point", **number, "title": f"median{suffix}"},
        _nominal("interval", title=f"95 % interval{suffix}"),
        {"field": "smallest", **number, "title": f"smallest replicate{suffix}"},
        {"field": "largest", **number, "title": f"largest replicate{suffix}"},
        {"field": "n", "type": "quantitative", "title": "replicates (n)"},
        _nominal("torch"),
        *([_nominal("name", title="track")] if look.tracks > 1 else ()),
        _nominal("where", title="on"),
        _nominal("measured"),
        _nominal("run"),
    ]


def _version_rules(*, labels: bool) -> list[Spec]:
    """Along dates: a rule where the version changes, its label on top."""
    data, x = {"name": "versions"}, {"field": "x", "type": "temporal"}
    rule = {"type": "rule", "color": QUIET, "opacity": 0.6, "strokeDash": [4, 3]}
    rules: list[Spec] = [
        {"data": data, "mark": rule, "encoding": {"x": x, "tooltip": _nominal("version", title="torch")}}
    ]
    if labels:
        # The rule's tooltip says the version where there is no room.
        text = {"type": "text", "color": QUIET, "baseline": "bottom", "dy": -4, "fontSize": 11}
        encoding = {"x": x, "y": {"value": 0}, "text": _nominal("label")}
        rules.append({"data": data, "mark": {**text, "opacity": _WIDE_ONLY}, "encoding": encoding})
    return rules


def _version_names() -> list[Spec]:
    """Along versions: their names below the axis."""
    text = {"type": "text", "color": QUIET, "align": "right", "baseline": "top", "dy": 12, "fontSize": 11}
    encoding = {
        "x": {"field": "x", "type": "quantitative"},
        "y": {"value": "height"},
        "text": _nominal("label"),
    }
    return [{"data": {"name": "versions"}, "mark": {**text, "angle": 330}, "encoding": encoding}]


def _ticks(look: Look) -> list[Spec]:
    """A short rule on the axis where something else than PyTorch changed."""
    encoding = {
        "x": {"field": "x", "type": "temporal"},
        # One panel is fitted into its height with its axis; of several each has its own, which no expression
        # knows.
        "y": {"value": _PANEL_HEIGHT - _TICK if look.stacked else {"expr": f"height - {_TICK}"}},
        "y2": {"value": "height"},
        "href": _nominal("link"),
        "tooltip": [_nominal("what", title="changed"), _nominal("where", title="on"), _nominal("measured")],
    }
    mark = {"type": "rule", "color": QUIET, "strokeWidth": 3, "opacity": 0.85}
    return [{"data": {"name": "ticks"}, "mark": mark, "encoding": encoding}]


def _moves(x: Spec, look: Look, only: str) -> list[Spec]:
    """Where lines moved: what went up is written above its point, what went down below."""
    tones = TONES[look.dark]
    colours: list[Spec] = [{"test": f"datum.tone === '{tone}'", "value": tones[tone]} for tone in tones]
    found: list[Spec] = []
    for up in (True, False):
        where = {"filter": "datum.up" if up else "!datum.up"}
        text = {"type": "text", "baseline": "bottom" if up else "top", "dy": -11 if up else 11}
        found.append(
            {
                "data": {"name": "moves"},
                "transform": [*_only(only).get("transform", []), where],
                "mark": {**text, "fontWeight": 700, "fontSize": 12},
                "encoding": {
                    "x": {"field": "x", "type": x["type"]},
                    "y": {"field": _field(look, "point"), "type": "quantitative"},
                    "text": _nominal("text"),
                    "color": {"condition": colours, "value": QUIET},
                    "href": _nominal("link"),
                    "tooltip": [_nominal("what"), _nominal("case"), _nominal("measured"), _nominal("torch")],
                },
            }
        )
    return found


def _opened(x: Spec, look: Look, only: str) -> Spec:
    """A ring around what is opened below the chart."""
    mark = {"type": "point", "filled": False, "size": 260, "strokeWidth": 2, "color": QUIET, "opacity": 1}
    encoding = {
        "x": {"field": "x", "type": x["type"]},
        "y": {"field": _field(look, "point"), "type": "quantitative"},
    }
    return {"data": {"name": "opened"}, **_only(only), "mark": mark, "encoding": encoding}


def _only(only: str) -> Spec:
    return {"transform": [{"filter": f"datum.letter === '{only}'"}]} if only else {}


def _nominal(field: str, **about: Any) -> Spec:
    return {"field": field, "type": "nominal", **about}
