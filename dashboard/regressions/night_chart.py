"""The nights around a finding as a chart: its track, the pinned baseline, the change, and borders."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import altair as alt
import pandas as pd

from dashboard.components import wording
from dashboard.components.charts import BLUE, QUIET, TONES, Spec, as_spec, spec_cache
from dashboard.trends.lines import Place, PlaceTracks, TrendLine, place_of
from dashboard.trends.moves import border
from records.findings import Finding, FindingState
from records.runs import RunChange
from records.series import SeriesPoint
from reports.text.numbers import percent

#: Nights that are drawn, those of them before the finding at least, and pixels with axis and legend.
NIGHTS, _BEFORE, _HEIGHT = 90, 30, 260
#: The kinds of changes of the machine that are printed beside its line.
_LABEL = 40


@dataclass(frozen=True, slots=True)
class NightChart:
    """The data of a chart: `tracks` are that of the finding and the pinned ones, `words` describe the
    chart.
    """

    unit: str
    words: str
    tracks: tuple[str, ...]
    nights: pd.DataFrame
    changes: pd.DataFrame
    borders: pd.DataFrame


def night_chart(
    one: Finding,
    line: TrendLine,
    tracks: PlaceTracks,
    changes: Mapping[tuple[str, Place], Sequence[RunChange]],
    findings: Sequence[Finding],
) -> NightChart | None:
    """The newest nights of a finding's series, which reach back to it; None for fewer than two.

    `tracks` are by place, `changes` by the line's letter and place. `findings` are all of the series.
    """
    pinned_tracks = {each.baseline for each in tracks.values() if each.baseline and each.track == one.track}
    on_machine = [
        (point, track)
        for point, track in line.points_with_tracks
        if (track == one.track or track in pinned_tracks) and point.machine == one.machine
    ]
    own = _window([point for point, track in on_machine if track == one.track], one)
    if len(own) < 2:
        return None
    rows = [
        (
            point.started_at,
            point.point,
            track,
            track != one.track,
            point.torch_version,
            wording.utc(point.started_at),
        )
        for point, track in on_machine
        if own[0].started_at <= point.started_at <= own[-1].started_at
    ]
    at_run = {point.run: point for point in own}
    matches = [
        (point.started_at, point.point, _label(each), _tone(each))
        for each in findings
        if (point := at_run.get(each.at_run)) and (each.id == one.id or _confirmed(each))
    ]
    moments = [
        (point.started_at, _border_words(changes[place]))
        for point in own
        if (place := (line.letter, place_of(point))) in changes and border(changes[place])
    ]
    metric = wording.metric(one.key.metric)
    many = wording.plural(len(own), "night")
    baseline = (
        f", beside the pinned {', '.join(sorted(pinned_tracks))}" if any(row[3] for row in rows) else ""
    )
    return NightChart(
        metric.unit,
        f"{metric.title} of {wording.case(one.key.case).text} over {many} on {one.machine}{baseline}",
        (one.track, *sorted({row[2] for row in rows} - {one.track})),
        pd.DataFrame(rows, columns=["night", "value", "track", "baseline", "torch", "measured"]),
        pd.DataFrame(matches, columns=["night", "value", "label", "tone"]),
        pd.DataFrame(moments, columns=["night", "label"]),
    )


def _window(nights: Sequence[SeriesPoint], one: Finding) -> Sequence[SeriesPoint]:
    """The newest nights; of an older finding more of them, from some before it on."""
    at = next((place for place, point in enumerate(nights) if point.run == one.at_run), len(nights))
    return nights[max(0, min(at - _BEFORE, len(nights) - NIGHTS)) :]


def _confirmed(one: Finding) -> bool:
    return one.state == FindingState.CONFIRMED


def _label(one: Finding) -> str:
    sign = "▲" if one.change > 0 else "▼"
    return f"{sign} {percent(one.change)}{'' if _confirmed(one) else ' ?'}"


def _tone(one: Finding) -> str:
    # Only findings that were measured again are good or bad.
    return {"worse": "bad", "better": "good"}[one.direction] if _confirmed(one) else "quiet"


def _border_words(changes: Sequence[RunChange]) -> str:
    words = "; ".join(f"{each.name} {each.before} → {each.after}" for each in changes if border([each]))
    return words if len(words) <= _LABEL else f"{words[:_LABEL]}…"


@spec_cache
def spec(title: str, tracks: tuple[str, ...], *, dark: bool = False) -> Spec:
    """The chart of a `NightChart` with its `tracks`; `title` is that of its value axis.

    Named data `nights`, `changes` and `borders`, as the record has them.
    """
    x = alt.X(
        "night:T",
        title=None,
        scale=alt.Scale(type="utc"),
        axis=alt.Axis(format="%d %b", tickCount="day", ticks=False, labelOverlap=True, grid=False),
    )
    y = alt.Y("value:Q", title=title, scale=alt.Scale(zero=False, padding=12), axis=alt.Axis(tickCount=4))
    colours = [BLUE[dark], *[QUIET] * (len(tracks) - 1)]
    lines = (
        alt.Chart(alt.NamedData("nights"))
        .mark_line(point=alt.OverlayMarkDef(size=14, filled=True), aria=False)
        .encode(
            x=x,
            y=y,
            color=alt.Color(
                "track:N",
                scale=alt.Scale(domain=list(tracks), range=colours),
                legend=alt.Legend(orient="top", title=None),
            ),
            tooltip=[
                alt.Tooltip("measured:N", title="night (UTC)"),
                alt.Tooltip("track:N"),
                alt.Tooltip("value:Q", format=".4~g", title=title),
                alt.Tooltip("torch:N", title="PyTorch"),
            ],
        )
    )
    rule = alt.Chart(alt.NamedData("borders")).mark_rule(color=TONES[dark]["odd"], strokeDash=[3, 3])
    border_labels = alt.Chart(alt.NamedData("borders")).mark_text(
        color=TONES[dark]["odd"], align="left", dx=4, dy=6, baseline="top", fontSize=11
    )
    tone = alt.Color("tone:N", legend=None, scale=_tones(dark))
    dots = alt.Chart(alt.NamedData("changes")).mark_point(filled=True, size=70, opacity=1)
    labels = alt.Chart(alt.NamedData("changes")).mark_text(dy=-13, align="right", dx=-4, fontWeight=600)
    return as_spec(
        alt.layer(
            rule.encode(x="night:T", tooltip=[alt.Tooltip("label:N", title="machine")]),
            border_labels.encode(x="night:T", y=alt.value(0), text="label:N"),
            lines,
            dots.encode(
                x="night:T", y="value:Q", color=tone, tooltip=[alt.Tooltip("label:N", title="change")]
            ),
            labels.encode(x="night:T", y="value:Q", color=tone, text="label:N"),
        )
        .resolve_scale(color="independent")
        .properties(height=_HEIGHT)
    )


def _tones(dark: bool) -> alt.Scale:
    tones = {**TONES[dark], "quiet": QUIET}
    return alt.Scale(domain=list(tones), range=list(tones.values()))
