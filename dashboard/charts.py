"""Vega-Lite specs as plain dictionaries, built on named data so that a spec can be kept and its data change.

Building and validating a chart costs several times what showing it does, so a spec depends only on a few
small arguments (and is cached by `dashboard.load`), while the rows travel beside it: see `with_data`.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Literal

import altair as alt
import pandas as pd

Spec = dict[str, Any]
Axis = Literal["date", "version"]

#: At most this many cases in one chart: as many as there are colours that can be told apart.
MAX_CASES = 6
_LETTERS = "ABCDEF"
#: The colour of what is there to compare with, and never a series'.
QUIET = "#8a93a3"
#: SVG: marks stand in the page, where tests, screen readers and printing find them.
RENDERED: Spec = {"usermeta": {"embedOptions": {"renderer": "svg", "actions": False}}}
_POINT_SHAPES = ("circle", "square", "triangle-up", "diamond", "cross", "triangle-down")


def letter(index: int) -> str:
    """What the legend and the line's end call series number `index`."""
    return _LETTERS[index]


def with_data(spec: Spec, **frames: pd.DataFrame) -> Spec:
    """`spec` with its named data filled in, ready for `st.vega_lite_chart`."""
    return {**spec, "datasets": dict(frames)}


@dataclass(frozen=True, slots=True)
class TrendLook:
    """What a trend chart must know of its points before it sees them.

    `stacked` gives each case a panel and a scale of its own, `bars` draws the range at every point too
    (which is what shows it where a series has one point), `clock` writes the time of day on the date axis,
    `rules` says that the version changes somewhere along it.
    """

    stacked: bool
    bars: bool
    clock: bool
    rules: bool


def trend(unit: str, cases: int, axis: Axis, look: TrendLook) -> Spec:
    """The series of up to six cases of one metric, in `unit`, along dates or PyTorch versions.

    Named data `points`: columns x, letter, point, smallest, largest and those of the tooltip (see
    `frames.trend_points`). `versions`: columns x, version and label (see `frames.version_changes` and
    `frames.version_names`). The band spans the smallest to the largest replicate.
    """
    count = cases if look.stacked else 1
    height = 128 if look.stacked else 360
    panels: list[alt.LayerChart] = []
    for place in range(count):
        last = place == count - 1
        if axis == "date":
            x = _dates(look, labels=last)
            behind = _version_rules(labels=place == 0) if look.rules else ()
        else:
            x, behind = _versions(), _version_names(labels=last)
        only = letter(place) if look.stacked else None
        series = _series(unit, cases, only=only, x=x, bars=look.bars)
        panels.append(alt.LayerChart(layer=[*behind, *series], height=height))
    return _finish(alt.vconcat(*panels, spacing=14).resolve_scale(x="shared") if look.stacked else panels[0])


def samples_in_order() -> Spec:
    """Samples as they were taken.

    Named data `samples`: columns iteration, block, milliseconds, counts; `blocks`: column iteration. What
    does not count is a cross.
    """
    x = alt.X("iteration:Q", title="iteration", axis=alt.Axis(tickMinStep=1), scale=alt.Scale(nice=False))
    borders = alt.Chart(alt.NamedData("blocks")).mark_rule(color=QUIET, opacity=0.35, strokeDash=[2, 3])
    dots = alt.Chart(alt.NamedData("samples")).mark_point(filled=True, opacity=0.75)
    left_out = alt.when("!datum.counts")
    y = alt.Y("milliseconds:Q", title="sample (ms)", scale=alt.Scale(zero=False, padding=10))
    tooltip = [
        alt.Tooltip("iteration:Q"),
        alt.Tooltip("block:Q"),
        alt.Tooltip("milliseconds:Q", format=".4~g", title="ms"),
        alt.Tooltip("counts:N"),
    ]
    return _finish(
        alt.layer(
            borders.encode(x=x),
            dots.encode(
                x=x,
                y=y,
                tooltip=tooltip,
                shape=left_out.then(alt.value("cross")).otherwise(alt.value("circle")),
                size=left_out.then(alt.value(30)).otherwise(alt.value(16)),
                color=left_out.then(alt.value(QUIET)),
            ),
        ).properties(height=240)
    )


def distribution() -> Spec:
    """A histogram. Named data `bins`: low, high (ms), count; `median`: milliseconds."""
    x = alt.X(
        "low:Q", bin="binned", title="sample (ms), line: median", scale=alt.Scale(zero=False, nice=False)
    )
    y = alt.Y("count:Q", title="samples", axis=alt.Axis(tickMinStep=1))
    tooltip = [
        alt.Tooltip("low:Q", format=".4~g", title="from (ms)"),
        alt.Tooltip("high:Q", format=".4~g", title="to (ms)"),
        alt.Tooltip("count:Q", title="samples"),
    ]
    bars = alt.Chart(alt.NamedData("bins")).mark_bar(opacity=0.8)
    bars = bars.encode(x=x, x2="high:Q", y=y, tooltip=tooltip)
    median = alt.Chart(alt.NamedData("median")).mark_rule(color=QUIET, strokeWidth=2)
    return _finish(alt.layer(bars, median.encode(x="milliseconds:Q")).properties(height=240))


def _series(unit: str, cases: int, *, only: str | None, x: alt.X, bars: bool) -> Sequence[alt.Chart]:
    """Band, line and points; of every case, or `only` of one letter."""
    base = alt.Chart(alt.NamedData("points")).encode(x=x, color=_colour(cases))
    if only is not None:
        base = base.transform_filter(alt.datum.letter == only)
    scale = alt.Scale(zero=False, padding=14)
    # Labels stand inside, above their lines: stacked panels then start and end where the page's column does.
    inside = alt.Axis(
        tickCount=4 if only else 6,
        format=",.5~r",
        ticks=False,
        domain=False,
        labelAlign="left",
        labelBaseline="line-bottom",
        labelOffset=-3,
        labelPadding=0,
    )
    y = alt.Y("point:Q", title=None, scale=scale, axis=inside)
    low, high = alt.Y("smallest:Q", scale=scale, title=None), alt.Y2("largest:Q")
    layers = [base.mark_area(opacity=0.18).encode(y=low, y2=high)]
    if bars:
        layers.append(base.mark_rule(strokeWidth=2, opacity=0.55).encode(y=low, y2=high))
    layers.append(base.mark_line(strokeWidth=1.6 if bars else 1.1).encode(y=y))
    layers.append(_trend_points(base, cases, unit, bars=bars).encode(y=y))
    ends = base.transform_filter("datum.last").mark_text(align="left", dx=9, fontWeight=700, fontSize=12)
    return [*layers, ends.encode(y=y, text="letter:N")]


def _dates(look: TrendLook, *, labels: bool) -> alt.X:
    shown = alt.Axis(
        format="%d %b %Y %H:%M" if look.clock else "%d %b %Y",
        labelOverlap=True,
        labelBound=True,
        labels=labels,
        ticks=labels,
        grid=False,
        tickCount=6,
    )
    return alt.X("x:T", title=None, scale=alt.Scale(type="utc", padding=62, nice=False), axis=shown)


def _versions() -> alt.X:
    # By place, not by name: only a continuous scale leaves room on the left for the other axis's labels.
    # Not `axis=None`: Vega-Lite fails to put stacked panels together whose shared axis is missing.
    unseen = alt.Axis(labels=False, ticks=False, grid=False, domain=False)
    return alt.X("x:Q", title=None, scale=alt.Scale(zero=False, nice=False, padding=62), axis=unseen)


def _colour(cases: int) -> alt.Color:
    # No range: the colours come from Streamlit's theme, which has its own for light and for dark.
    return alt.Color("letter:N", scale=alt.Scale(domain=list(_LETTERS[:cases])), legend=None)


def _trend_points(base: alt.Chart, cases: int, unit: str, *, bars: bool) -> alt.Chart:
    suffix = f" ({unit})" if unit else ""
    shapes = alt.Scale(domain=list(_LETTERS[:cases]), range=list(_POINT_SHAPES[:cases]))
    return base.mark_point(filled=True, size=60 if bars else 8, opacity=1).encode(
        shape=alt.Shape("letter:N", scale=shapes, legend=None),
        href="link:N",
        tooltip=[
            alt.Tooltip("case:N"),
            alt.Tooltip("point:Q", format=".4~g", title=f"median{suffix}"),
            alt.Tooltip("smallest:Q", format=".4~g", title=f"smallest replicate{suffix}"),
            alt.Tooltip("largest:Q", format=".4~g", title=f"largest replicate{suffix}"),
            alt.Tooltip("n:Q", title="replicates (n)"),
            alt.Tooltip("torch:N"),
            alt.Tooltip("measured:N"),
            alt.Tooltip("run:N"),
        ],
    )


def _version_rules(*, labels: bool) -> Sequence[alt.Chart]:
    """Along dates: a rule where the version changes, its label on top."""
    versions = alt.Chart(alt.NamedData("versions"))
    x = alt.X("x:T")
    rule = versions.mark_rule(color=QUIET, opacity=0.6, strokeDash=[4, 3])
    rules = [rule.encode(x=x, tooltip=alt.Tooltip("version:N", title="torch"))]
    if labels:
        # On a phone the labels would lie over each other; there the rule's tooltip says the version.
        room = alt.ExprRef("width < 500 ? 0 : 1")
        text = versions.mark_text(color=QUIET, baseline="bottom", dy=-4, fontSize=11, opacity=room)
        rules.append(text.encode(x=x, y=alt.value(0), text="label:N"))
    return rules


def _version_names(*, labels: bool) -> Sequence[alt.Chart]:
    """Along versions: their names below the axis."""
    if not labels:
        return ()
    names = alt.Chart(alt.NamedData("versions"))
    text = names.mark_text(color=QUIET, align="right", baseline="top", dy=12, fontSize=11, angle=330)
    return [text.encode(x="x:Q", y=alt.value("height"), text="label:N")]


def _finish(chart: alt.TopLevelMixin) -> Spec:
    return {**chart.to_dict(), **RENDERED}
