"""The chart of a trend: bands, lines, points and marks."""

from dataclasses import dataclass
from typing import Any

import altair as alt
import pandas as pd

from dashboard.components.charts import (
    QUIET,
    SHAPES,
    TONES,
    Spec,
    as_spec,
    letter,
    lines_of,
    once,
    spec_cache,
)
from dashboard.trends.view import Axis

_HEIGHT, _PANEL_HEIGHT, _TICK = 360, 128, 13
#: The dashes of the lines of the first track, the second and so on: pixels on and off, as in the style sheet.
DASHES = ((1, 0), (6, 3), (2, 3), (9, 3), (4, 2), (1, 2))
#: The margins on both sides of the lines, for the labels of the axis and for the letters at the ends.
_PADDING = 62
#: The common beginning of the links of all points; repeated in thousands of points it would be most of the
#: data of a page.
_PREFIX = "address"
#: The selection of the moment under the pointer.
_POINTED = "hover"
#: Labels within the chart would overlap on a phone.
_WIDE_ONLY = "width < 500 ? 0 : 1"


@dataclass(frozen=True, slots=True)
class TrendStyle:
    """The properties of the data on which the spec of a trend chart depends.

    `stacked` gives each line its own panel and scale, `bars` also draws the range at every point (needed for
    lines with one point), `clock` adds the time of day to the date axis, `relative` draws shares. `tracks` is
    the number of tracks along dates. The others are the marks: `rules` where the version changes, the letters
    of the lines with `moves`, `ticks` where something else changed, an `opened` point. `series` are the lines
    in the tooltip of a moment, with their titles. `dark` is the page's theme.
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
    series: tuple[tuple[str, str], ...] = ()
    dark: bool = False

    def field(self, name: str) -> str:
        """The drawn column of a value."""
        return f"{name}_share" if self.relative else name

    def moved(self, only: str) -> bool:
        """Whether any line has moves, or the one with the given letter."""
        return bool(self.moves) and only in self.moves


@spec_cache
def trend(unit: str, lines: int, axis: Axis, style: TrendStyle) -> Spec:
    """Up to six lines of one metric, in `unit`, along dates or PyTorch versions.

    Named data, made by `dashboard.trends.frames` and `dashboard.trends.marks`: `points` and `ends`, which
    `point_sets` makes of one; `versions`, which are rules along dates and names along versions; `moves`;
    `ticks`; `opened`; `hovered`, a row for each moment. The band spans the smallest to the largest replicate.
    """
    panels = [_panel(unit, lines, axis, style, place) for place in range(lines if style.stacked else 1)]
    chart: alt.LayerChart | alt.VConcatChart = panels[0]
    if style.stacked:
        chart = alt.vconcat(*panels, spacing=14).resolve_scale(x="shared")
    if style.series and axis == "date":
        # One selection for all panels; with one in each panel only that panel would react. Stacking renames
        # their layers.
        select = alt.PointSelectionConfig(type="point", on="pointerover", clear="pointerout", fields=["from"])
        panel_charts = chart.vconcat if isinstance(chart, alt.VConcatChart) else [chart]
        views = [
            layer.name for panel in panel_charts for layer in panel.layer if layer.name is not alt.Undefined
        ]
        chart.params = [alt.TopLevelSelectionParameter(name=_POINTED, select=select, views=views)]
    return as_spec(chart)


def leading_to(spec: Spec, prefix: str) -> Spec:
    """The same spec with this common beginning of the links of points."""
    return {**spec, "params": [*spec.get("params", ()), {"name": _PREFIX, "value": prefix}]}


def point_sets(points: pd.DataFrame, style: TrendStyle) -> dict[str, pd.DataFrame]:
    """The named data `ends`, and `points`, or in stacked panels those of each line by its letter.

    Otherwise the browser would filter all points for each panel in Vega's slow interpreter.
    """
    result = {"points": points}
    if style.stacked:
        letters = dict.fromkeys(points["letter"])
        result = {_points_of(each): points.loc[points["letter"] == each] for each in letters}
    result["ends"] = points.loc[points["last"]]
    # Reset the index, which would be sent with the rows.
    return {name: rows.reset_index(drop=True) for name, rows in result.items()}


def _points_of(only: str) -> str:
    return f"points{only}"


def _panel(unit: str, lines: int, axis: Axis, style: TrendStyle, place: int) -> alt.LayerChart:
    last = place == lines - 1 or not style.stacked
    x = _dates(style, labels=last) if axis == "date" else _versions()
    only = letter(place) if style.stacked else ""
    on_dates = axis == "date"
    # The x channel of marks without scale and axis, which are those of the lines.
    x_channel = alt.X("x:T") if on_dates else alt.X("x:Q")
    layers = [
        *([_moments(unit, style, only)] if style.series and on_dates else ()),
        *(_version_rules(x_channel, labels=place == 0) if style.rules and on_dates else ()),
        *([_version_names(x_channel)] if not on_dates and last else ()),
        *([_ticks(x_channel, style)] if style.ticks and on_dates and last else ()),
        *_lines(unit, lines, x, style, only),
        *(_moves(x_channel, style, only) if style.moved(only) else ()),
        *([_point_ring(x_channel, style, only)] if style.opened else ()),
    ]
    return alt.LayerChart(layer=layers, height=_PANEL_HEIGHT if style.stacked else _HEIGHT)


def _lines(unit: str, lines: int, x: alt.X, style: TrendStyle, only: str) -> list[alt.Chart]:
    """Band, line, points and end labels of every line, or `only` of the one with a letter."""
    # Without a range, so that the colours are those of Streamlit's theme, light or dark.
    letters = lines_of(lines)
    track_encoding: dict[str, Any] = {
        "x": x,
        "color": alt.Color("letter:N", scale=alt.Scale(domain=letters), legend=None),
    }
    dash_encoding: dict[str, Any] = {}
    if style.tracks > 1:
        track_encoding["detail"] = alt.Detail("track:N")
        dashes = alt.Scale(domain=list(range(1, style.tracks + 1)), range=[list(each) for each in DASHES])
        dash_encoding["strokeDash"] = alt.StrokeDash("track:N", scale=dashes, legend=None)
    y = _values(style, "point", only)
    span: dict[str, Any] = {
        **track_encoding,
        "y": _values(style, "smallest", only),
        "y2": style.field("largest"),
    }
    points = alt.Chart(alt.NamedData(_points_of(only)))
    line = points.mark_line(strokeWidth=1.6 if style.bars else 1.1)
    # No text for screen readers on single points: thousands of texts take as long as all the rest. The chart
    # has one, and a table has the points.
    size = 60 if style.bars else 8
    address = alt.ExprRef(f"{_PREFIX} + datum.link")
    dot = points.mark_point(filled=True, size=size, opacity=1, aria=style.bars, href=address)
    shapes = alt.Scale(domain=letters, range=SHAPES[:lines])
    end = _only(alt.Chart(alt.NamedData("ends")), only)
    end = end.mark_text(align="left", dx=9, fontWeight=700, fontSize=12)
    return [
        points.mark_area(opacity=0.18).encode(**span),
        *([points.mark_rule(strokeWidth=2, opacity=0.55).encode(**span)] if style.bars else ()),
        *([_zero()] if style.relative else ()),
        line.encode(**track_encoding, y=y, **dash_encoding),
        dot.encode(
            **track_encoding,
            y=y,
            shape=alt.Shape("letter:N", scale=shapes, legend=None),
            tooltip=_tooltip(unit, style),
        ),
        end.encode(**track_encoding, y=y, text="end:N"),
    ]


def _moments_of(only: str) -> str:
    return f"moments{only}"


def _moments(unit: str, style: TrendStyle, only: str) -> alt.Chart:
    """The tooltip between points: the nearest moment, with the values of all lines."""
    suffix = f" ({unit})" if unit else ""
    values = [alt.Tooltip(f"{end}:N", title=f"{title}{suffix}") for end, title in style.series]
    under_pointer = alt.when(alt.selection_point(name=_POINTED), empty=False)
    return (
        alt.Chart(alt.NamedData("hovered"), name=_moments_of(only))
        .mark_rect(color=QUIET, aria=False)
        .encode(
            x=alt.X("from:T"),
            x2="to",
            y=alt.value(0),
            y2=alt.value("height"),
            opacity=under_pointer.then(alt.value(0.16)).otherwise(alt.value(0)),
            tooltip=[alt.Tooltip("measured:N"), *values],
        )
    )


def _zero() -> alt.Chart:
    """The line of the baseline, at 0 %."""
    return once().mark_rule(color=QUIET, opacity=0.8).encode(y=alt.YDatum(0))


def _values(style: TrendStyle, name: str, only: str) -> alt.Y:
    # Labels are inside, above their lines, so that stacked panels have the width of the page's column.
    axis = alt.Axis(
        tickCount=4 if only else 6,
        format="+.1~%" if style.relative else ",.5~r",
        labelExpr="datum.value === 0 ? '0%' : datum.label" if style.relative else alt.Undefined,
        ticks=False,
        domain=False,
        labelAlign="left",
        labelBaseline="line-bottom",
        labelOffset=-3,
        labelPadding=0,
    )
    scale = alt.Scale(zero=False, padding=24 if style.moved(only) else 14)
    return alt.Y(style.field(name), type="quantitative", title=None, scale=scale, axis=axis)


def _dates(style: TrendStyle, *, labels: bool) -> alt.X:
    axis = alt.Axis(
        format="%d %b %Y %H:%M" if style.clock else "%d %b %Y",
        labelOverlap=True,
        labelBound=True,
        labels=labels,
        ticks=labels,
        grid=False,
        tickCount=6,
    )
    return alt.X("x:T", title=None, scale=alt.Scale(type="utc", padding=_PADDING, nice=False), axis=axis)


def _versions() -> alt.X:
    # By position, not by name: only a continuous scale leaves room on the left for the labels of the other
    # axis. The axis is needed: Vega-Lite fails to stack panels without the shared axis.
    unseen = alt.Axis(labels=False, ticks=False, grid=False, domain=False)
    return alt.X("x:Q", title=None, scale=alt.Scale(zero=False, nice=False, padding=_PADDING), axis=unseen)


def _tooltip(unit: str, style: TrendStyle) -> list[alt.Tooltip]:
    suffix = f" ({unit})" if unit else ""
    share = alt.Tooltip("point_share:Q", format="+.2~%", title="against the baseline")
    return [
        alt.Tooltip("case:N"),
        *([share] if style.relative else ()),
        alt.Tooltip("point:Q", format=".4~g", title=f"median{suffix}"),
        alt.Tooltip("interval:N", title=f"95 % interval{suffix}"),
        alt.Tooltip("smallest:Q", format=".4~g", title=f"smallest replicate{suffix}"),
        alt.Tooltip("largest:Q", format=".4~g", title=f"largest replicate{suffix}"),
        alt.Tooltip("n:Q", title="replicates (n)"),
        alt.Tooltip("torch:N"),
        *([alt.Tooltip("name:N", title="track")] if style.tracks > 1 else ()),
        alt.Tooltip("where:N", title="on"),
        alt.Tooltip("measured:N"),
        alt.Tooltip("run:N"),
    ]


def _version_rules(x: alt.X, *, labels: bool) -> list[alt.Chart]:
    """Along dates: a rule where the version changes, its label on top."""
    versions = alt.Chart(alt.NamedData("versions"))
    rule = versions.mark_rule(color=QUIET, opacity=0.6, strokeDash=[4, 3])
    rules = [rule.encode(x=x, tooltip=alt.Tooltip("version:N", title="torch"))]
    if labels:
        # If there is no room, only the tooltip of the rule has the version.
        text = versions.mark_text(
            color=QUIET, baseline="bottom", dy=-4, fontSize=11, opacity=alt.ExprRef(_WIDE_ONLY)
        )
        rules.append(text.encode(x=x, y=alt.value(0), text="label:N"))
    return rules


def _version_names(x: alt.X) -> alt.Chart:
    """Along versions: their names below the axis."""
    room = alt.ExprRef(f"datum.narrow ? 1 : {_WIDE_ONLY}")
    names = alt.Chart(alt.NamedData("versions")).mark_text(
        color=QUIET, baseline="top", dy=12, fontSize=11, opacity=room
    )
    return names.encode(
        x=x, y=alt.value("height"), text="label:N", tooltip=alt.Tooltip("version:N", title="torch")
    )


def _ticks(x: alt.X, style: TrendStyle) -> alt.Chart:
    """A short rule on the axis where something else than PyTorch changed."""
    # One panel is fitted into its height with its axis; each of several panels has its own, which no
    # expression knows.
    top = _PANEL_HEIGHT - _TICK if style.stacked else alt.ExprRef(f"height - {_TICK}")
    ticks = alt.Chart(alt.NamedData("ticks")).mark_rule(color=QUIET, strokeWidth=3, opacity=0.85)
    tooltip = [
        alt.Tooltip("what:N", title="changed"),
        alt.Tooltip("where:N", title="on"),
        alt.Tooltip("measured:N"),
    ]
    return ticks.encode(x=x, y=alt.YValue(top), y2=alt.value("height"), href="link:N", tooltip=tooltip)


def _moves(x: alt.X, style: TrendStyle, only: str) -> list[alt.Chart]:
    """The moves of lines: labels of increases are above their point, of decreases below."""
    colour: Any = alt
    for tone, value in TONES[style.dark].items():
        colour = colour.when(f"datum.tone === '{tone}'").then(alt.value(value))
    moves = _only(alt.Chart(alt.NamedData("moves")), only)
    tooltip = [alt.Tooltip(f"{field}:N") for field in ("what", "case", "measured", "torch")]
    above = moves.transform_filter("datum.up").mark_text(
        baseline="bottom", dy=-11, fontWeight=700, fontSize=12
    )
    below = moves.transform_filter("!datum.up").mark_text(baseline="top", dy=11, fontWeight=700, fontSize=12)
    encoding: dict[str, Any] = {
        "x": x,
        "y": _plain(style),
        "text": "text:N",
        "color": colour.otherwise(alt.value(QUIET)),
        "href": "link:N",
        "tooltip": tooltip,
    }
    return [above.encode(**encoding), below.encode(**encoding)]


def _point_ring(x: alt.X, style: TrendStyle, only: str) -> alt.Chart:
    """A ring around the points that are opened below the chart."""
    ring = _only(alt.Chart(alt.NamedData("opened")), only).mark_point(
        filled=False, size=260, strokeWidth=2, color=QUIET, opacity=1
    )
    return ring.encode(x=x, y=_plain(style))


def _plain(style: TrendStyle) -> alt.Y:
    """The y channel of marks without scale and axis, which are those of the lines."""
    return alt.Y(style.field("point"), type="quantitative")


def _only(chart: alt.Chart, only: str) -> alt.Chart:
    return chart.transform_filter(f"datum.letter === '{only}'") if only else chart
