"""Charts in Altair as Vega-Lite specs, built on named data so that a spec can be kept and its data change.

Building a chart costs several times what showing it does, so a spec depends only on a few small arguments
(see `kept`), while the rows travel separately: see `with_data`.
"""

import json
from collections.abc import Mapping
from functools import lru_cache
from typing import Any

import altair as alt
import pandas as pd

from common.text import printable_lines

Spec = dict[str, Any]

#: At most this many lines in one chart: as many as there are colours that can be distinguished.
MAX_CASES = 6
_LETTERS = "ABCDEF"
#: The marks of the lines, in their order.
SHAPES = ("circle", "square", "triangle-up", "diamond", "cross", "triangle-down")
#: The colour of what is there to compare with, and never a series'.
QUIET = "#8a93a3"
#: The colours of marks on a light and on a dark page, by their tone; as in the style sheet.
TONES: Mapping[bool, Mapping[str, str]] = {
    False: {"good": "#0b6e4f", "bad": "#b3261e", "odd": "#8a5300"},
    True: {"good": "#4fd1ac", "bad": "#ff8a80", "odd": "#ffc266"},
}
#: SVG: marks stand in the page, where tests, screen readers, printing and `exports.pictures` find them.
RENDERED: Spec = {"usermeta": {"embedOptions": {"renderer": "svg"}}}


#: Keeps the specs that were built last: building one takes about 0.1 s, which each rerun would wait for.
kept = lru_cache(maxsize=64)


def letter(index: int) -> str:
    """What the legend and the line's end call series number `index`."""
    return _LETTERS[index]


def with_data(spec: Spec, **frames: pd.DataFrame) -> Spec:
    """`spec` with its named data filled in, ready for `st.vega_lite_chart`; no label of it steers a page."""
    plain = {name: _printable(frame) for name, frame in frames.items()}
    if any(plain[name] is not frame for name, frame in frames.items()):
        # Scales name the same texts.
        spec = json.loads(json.dumps(spec), object_pairs_hook=_printable_pairs)
    return {**spec, "datasets": plain}


def _printable(frame: pd.DataFrame) -> pd.DataFrame:
    """The frame itself, or a copy where a text of it would steer a page or a terminal."""
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
    """The chart of a mark that is drawn once, whatever the data."""
    return alt.Chart(alt.sequence(1))


def lines_of(series: int) -> list[str]:
    """The letters of so many series, the domain of their scales."""
    return [letter(place) for place in range(series)]


@kept
def samples_in_order() -> Spec:
    """Samples as they were taken.

    Named data `samples`: columns iteration, block, milliseconds, counts; `blocks`: column iteration. What
    does not count is a cross.
    """
    x = alt.X("iteration:Q", title="iteration", axis=alt.Axis(tickMinStep=1), scale=alt.Scale(nice=False))
    borders = alt.Chart(alt.NamedData("blocks")).mark_rule(color=QUIET, opacity=0.35, strokeDash=[2, 3])
    # Thousands of samples have no names of their own: the chart has one.
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


@kept
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
