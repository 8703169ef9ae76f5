"""Charts in Altair as Vega-Lite specs, built on named data so that a spec can be kept and its data change.

Building a chart takes several times as long as displaying it. Therefore a spec depends only on a few small
arguments (see `spec_cache`), and the rows are sent separately: see `with_data`.
"""

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

import altair as alt
import pandas as pd

from common.text import printable_lines

Spec = dict[str, Any]

#: The most lines in one chart: the number of colours that can be distinguished.
MAX_CASES = 6
_LETTERS = "ABCDEF"
#: The marks of the lines, in their order.
SHAPES = ("circle", "square", "triangle-up", "diamond", "cross", "triangle-down")
#: The colour of references, which no series has.
QUIET = "#8a93a3"
#: The colours of marks on a light and on a dark page, by their tone; as in the style sheet.
TONES: Mapping[bool, Mapping[str, str]] = {
    False: {"good": "#0b6e4f", "bad": "#b3261e", "odd": "#8a5300"},
    True: {"good": "#4fd1ac", "bad": "#ff8a80", "odd": "#ffc266"},
}
#: The colours of marks and of text on a light and on a dark page.
BLUE, INK = ("#1f5fc4", "#7aa9ff"), ("#1c2230", "#e6e9ef")
#: Charts are drawn as SVG, so that tests, screen readers, printing and `exports/browser.js` find the marks in
#: the page.
RENDERED: Spec = {"usermeta": {"embedOptions": {"renderer": "svg"}}}


#: Caches the last specs: building one takes about 0.1 s in each rerun.
spec_cache = lru_cache(maxsize=64)


def letter(index: int) -> str:
    """The letter of series number `index` in the legend and at the end of its line."""
    return _LETTERS[index]


def with_data(spec: Spec, **frames: pd.DataFrame) -> Spec:
    """`spec` with its named data, for `st.vega_lite_chart`; control characters are removed from labels."""
    plain = {name: _printable(frame) for name, frame in frames.items()}
    if any(plain[name] is not frame for name, frame in frames.items()):
        # Scales name the same texts.
        spec = json.loads(json.dumps(spec), object_pairs_hook=_printable_pairs)
    return {**spec, "datasets": plain}


def _printable(frame: pd.DataFrame) -> pd.DataFrame:
    """The frame itself, or a copy without control characters."""
    changes: dict[Any, list[object]] = {}
    for name in frame.columns:
        has_texts = pd.api.types.is_object_dtype(frame[name]) or pd.api.types.is_string_dtype(frame[name])
        cells = frame[name].tolist() if has_texts else []
        if any(isinstance(each, str) and each != printable_lines(each) for each in cells):
            changes[name] = [printable_lines(each) if isinstance(each, str) else each for each in cells]
    return frame.assign(**changes) if changes else frame


def _printable_pairs(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    return {name: _printable_value(value) for name, value in pairs}


def _printable_value(value: Any) -> Any:
    if isinstance(value, list):
        return [_printable_value(each) for each in value]
    return printable_lines(value) if isinstance(value, str) else value


def as_spec(chart: alt.TopLevelMixin) -> Spec:
    """`chart` as a dictionary, drawn as SVG and in the colours of the page's theme."""
    # A test validates each spec; here it would double what building it costs.
    spec = chart.to_dict(validate=False)
    # Altair's own theme.
    spec.pop("config", None)
    return {**spec, **RENDERED}


def once() -> alt.Chart:
    """The chart of a mark that is drawn once for any data."""
    return alt.Chart(alt.sequence(1))


def lines_of(series: int) -> list[str]:
    """The letters of so many series, the domain of their scales."""
    return [letter(place) for place in range(series)]


@spec_cache
def samples_in_order() -> Spec:
    """Samples as they were taken.

    Named data `samples`: columns iteration, block, milliseconds, counts; `blocks`: column iteration. Samples
    that do not count are crosses.
    """
    x = alt.X("iteration:Q", title="iteration", axis=alt.Axis(tickMinStep=1), scale=alt.Scale(nice=False))
    borders = alt.Chart(alt.NamedData("blocks")).mark_rule(color=QUIET, opacity=0.35, strokeDash=[2, 3])
    # Single samples have no text for screen readers, because there are thousands; the chart has one.
    dots = alt.Chart(alt.NamedData("samples")).mark_point(filled=True, opacity=0.75, aria=False)
    left_out = alt.when("!datum.counts")
    y = alt.Y("milliseconds:Q", title="sample (ms)", scale=alt.Scale(zero=False, padding=10))
    tooltip = [
        alt.Tooltip("iteration:Q"),
        alt.Tooltip("block:Q"),
        alt.Tooltip("milliseconds:Q", format=".4~g", title="ms"),
        alt.Tooltip("counts:N"),
    ]
    return as_spec(
        alt.layer(
            borders.encode(x=x),
            dots.encode(
                x=x,
                y=y,
                tooltip=tooltip,
                shape=left_out.then(alt.value("cross")).otherwise(alt.value("circle")),
                size=left_out.then(alt.value(40)).otherwise(alt.value(28)),
                color=left_out.then(alt.value(QUIET)),
            ),
        ).properties(height=240)
    )


@spec_cache
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
    return as_spec(alt.layer(bars, median.encode(x="milliseconds:Q")).properties(height=240))


#: The format of ratios along an axis.
TIMES = "format(datum.value, '~g') + '×'"
#: The height of a row and of the axis below, in pixels.
_ROW, _AXIS = 32, 62
#: From this width on, text is beside the marks; on a narrower chart it is above them.
_WIDE = "width >= 760"
#: The width of names at the left and of the gap beside them, in pixels.
_NAMES, _GAP = "min(440, 0.34 * width)", 16
#: The positions in a row of the text, of the marks, and of both ends of the rule at 1.
_WORDS = f"({_WIDE} ? 0.5 : 0.28)"
_DRAWN = f"({_WIDE} ? 0.5 : 0.72)"
_RULE = f"({_WIDE} ? 0.06 : 0.5)", "0.94"


@dataclass(frozen=True, slots=True)
class RowWords:
    """The layout of a row's text: `number` pixels at the right are for the number.

    On a chart narrower than `narrow` the text takes the whole width, and only the table below has the number.
    """

    number: int = 96
    narrow: int = 0

    @property
    def limit(self) -> alt.ExprRef:
        """Of the words' width."""
        above = f"width < {self.narrow} ? width : width - {self.number}"
        return alt.ExprRef(f"{_WIDE} ? {_NAMES} - {_GAP} : {above}")

    @property
    def opacity(self) -> alt.ExprRef:
        """Of the number."""
        return alt.ExprRef(f"width < {self.narrow} ? 0 : 1")

    @property
    def scale_range(self) -> dict[str, Any]:
        """The range of an x scale: between names and numbers if these are beside the marks."""
        return {
            "rangeMin": alt.ExprRef(f"{_WIDE} ? {_NAMES} : 0"),
            "rangeMax": alt.ExprRef(f"{_WIDE} ? width - {self.number} : width"),
        }


def row_chart(
    rows: int,
    layers: Sequence[alt.Chart],
    *,
    dark: bool,
    behind: Sequence[alt.Chart] = (),
    words: RowWords | None = None,
) -> Spec:
    """Rows below each other with `layers` of marks, and marks `behind` them.

    Each row has a name at the left and a number at the right; on a narrow chart both are above the marks, so
    that a long name takes no width. The x scales of the layers are those of `words`. Named data `rows`:
    columns row (from 0), label and text, and the columns of the layers.
    """
    y, ink, words = row_y(rows), INK[dark], words or RowWords()
    at = alt.Chart().transform_calculate(row=f"datum.row + {_WORDS}")
    label = at.mark_text(align="left", fontSize=11.5, limit=words.limit, color=ink)
    number = at.mark_text(align="right", fontSize=12, fontWeight=700, color=ink, opacity=words.opacity)
    text_marks = [
        label.encode(x=alt.value(0), y=y, text="label:N", tooltip="label:N"),
        number.encode(x=alt.value("width"), y=y, text="text:N"),
    ]
    layers_chart = alt.layer(*behind, *text_marks, *layers, data=alt.NamedData("rows"))
    return as_spec(layers_chart.properties(height=_ROW * max(1, rows) + _AXIS))


def ratio_chart(rows: int, title: str, layers: Sequence[alt.Chart], *, dark: bool) -> Spec:
    """The same along ratios, with a rule at 1; `title` is of the axis. See `ratio_x`."""
    # In pieces, so that it does not cross text.
    begin, end = _RULE
    pieces = alt.Chart().transform_calculate(end=f"datum.row + {end}")
    rule = pieces.transform_calculate(row=f"datum.row + {begin}").mark_rule(color=QUIET, strokeDash=[4, 3])
    x = alt.XDatum(1, type="quantitative", **_along_ratios(title))
    return row_chart(rows, layers, dark=dark, behind=[rule.encode(x=x, y=row_y(rows), y2="end")])


def in_row(data: alt.NamedData | None = None) -> alt.Chart:
    """The chart of a layer that is drawn beside the words of its rows, of the chart's data or of its own."""
    return alt.Chart(data or alt.Undefined).transform_calculate(row=f"datum.row + {_DRAWN}")


def row_y(rows: int) -> alt.Y:
    """The y channel of a layer."""
    scale = alt.Scale(domain=[0, max(1, rows)], reverse=True, nice=False, zero=False)
    return alt.Y("row:Q", scale=scale, axis=None)


def ratio_x(field: str, title: str) -> alt.X:
    """The x channel of a layer: ratios on a logarithmic scale, so that half and twice are equally far
    from 1.
    """
    return alt.X(f"{field}:Q", **_along_ratios(title))


def _along_ratios(title: str) -> dict[str, Any]:
    return {
        "scale": alt.Scale(type="log", padding=12, nice=False, **RowWords().scale_range),
        "axis": alt.Axis(labelExpr=TIMES, tickCount=8, labelOverlap=True, title=title),
    }


#: Pixels of a bar's row and of the axis.
_BAR, _BAR_AXIS = 28, 58
#: Additional width for the names at the left, which are measured before their font is loaded.
_PADDING = {"left": 14, "right": 5, "top": 5, "bottom": 5}
#: Pixels for the number behind the longest bar.
_NUMBER = 48
#: The smallest end of the axis of speed-ups, so that a small one looks small.
_ALWAYS = [0.5, 1.5]


@spec_cache
def speed_ups(rows: int, *, dark: bool = False) -> Spec:
    """Bars from 1×, names at the left. Named data `rows`: columns label, case, ratio, low, high and text."""
    y = alt.Y("label:N", sort=None, title=None, axis=alt.Axis(labelLimit=420, ticks=False, domain=False))
    x = alt.X(
        "ratio:Q",
        title="speed-up over eager fp32 (×, higher is better)",
        scale=alt.Scale(zero=False, padding=_NUMBER, domain=alt.DomainUnionWith(unionWith=_ALWAYS)),
        axis=alt.Axis(tickCount=6),
    )
    data = alt.Chart(alt.NamedData("rows"))
    bar = data.mark_bar(height=14, color=BLUE[dark], opacity=0.85).encode(
        x=x,
        x2=alt.X2Datum(1),
        y=y,
        tooltip=[
            alt.Tooltip("case:N"),
            alt.Tooltip("text:N", title="speed-up"),
            alt.Tooltip("low:Q", format=".4~g", title="95 % low"),
            alt.Tooltip("high:Q", format=".4~g", title="95 % high"),
        ],
    )
    interval = data.mark_rule(strokeWidth=2, color=QUIET).encode(x="low:Q", x2="high:Q", y=y)
    # Right of the bar, which ends at 1 where the ratio is less.
    behind = data.transform_calculate(end="max(datum.ratio, 1)")
    number = behind.mark_text(align="left", dx=6, color=INK[dark]).encode(x="end:Q", y=y, text="text:N")
    one = once().mark_rule(color=QUIET, strokeDash=[3, 3]).encode(x=alt.datum(1))
    return as_spec(
        alt.layer(bar, interval, number, one).properties(height=_BAR * rows + _BAR_AXIS, padding=_PADDING)
    )
