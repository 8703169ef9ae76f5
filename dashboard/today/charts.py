"""The chart of a first run's speed-ups."""

import altair as alt

from dashboard.components.charts import QUIET, Spec, as_spec, kept

#: Pixels of a row and of the axis, and the colour of bars on a light and on a dark page.
_ROW, _AXIS, _BLUE = 28, 58, {False: "#1f5fc4", True: "#7aa9ff"}
#: Room for the names at the left, which are measured before their font is there.
_PADDING = {"left": 14, "right": 5, "top": 5, "bottom": 5}


@kept
def speed_ups(rows: int, *, dark: bool = False) -> Spec:
    """Bars from 1×, names at the left. Named data `rows`: columns label, case, ratio, low, high and text."""
    y = alt.Y("label:N", sort=None, title=None, axis=alt.Axis(labelLimit=420, ticks=False, domain=False))
    x = alt.X(
        "ratio:Q",
        title="speed-up over eager fp32 (×, higher is better)",
        scale=alt.Scale(zero=True),
        axis=alt.Axis(tickCount=6),
    )
    data = alt.Chart(alt.NamedData("rows"))
    bar = data.mark_bar(height=14, color=_BLUE[dark], opacity=0.85).encode(
        x=x,
        y=y,
        tooltip=[
            alt.Tooltip("case:N"),
            alt.Tooltip("text:N", title="speed-up"),
            alt.Tooltip("low:Q", format=".4~g", title="95 % low"),
            alt.Tooltip("high:Q", format=".4~g", title="95 % high"),
        ],
    )
    interval = data.mark_rule(strokeWidth=2, color=QUIET).encode(x="low:Q", x2="high:Q", y=y)
    number = data.mark_text(align="left", dx=6, color="#e6e9ef" if dark else "#1c2230").encode(
        x=alt.X("ratio:Q"), y=y, text="text:N"
    )
    one = alt.Chart(alt.sequence(1)).mark_rule(color=QUIET, strokeDash=[3, 3]).encode(x=alt.datum(1))
    return as_spec(
        alt.layer(bar, interval, number, one).properties(height=_ROW * rows + _AXIS, padding=_PADDING)
    )
