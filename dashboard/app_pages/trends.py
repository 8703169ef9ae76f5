"""Series over dates or PyTorch versions: how they moved, and what else changed meanwhile."""

from dataclasses import replace

import streamlit as st

from dashboard import load, parts, wording
from dashboard.settings import Settings
from dashboard.trends import drawing, sections, view
from dashboard.trends.load import history

url = Settings.from_environment().database_url
parts.title("Trends")
keys = load.series_keys(url)
if not keys:
    parts.nothing_to_draw(load.count_runs(url))
    st.stop()

defined = load.metric_definitions(url)
chosen, offer, complaints = view.trends(parts.query(), keys, load.newest_places(url))
shown = chosen.lines(keys)
known = history(url, shown)
if not any(line.points for line in known.lines):
    parts.nothing_to_draw(load.count_runs(url))
    st.stop()

metric = wording.metric(chosen.metric, defined)
chosen, more = drawing.settle(known, chosen)
parts.complain([*complaints, *more])
drawn = drawing.drawing(url, shown, replace(chosen, at=""), metric.better)
sections.choices(chosen, offer, known, drawn, wording.titles(offer.metrics, defined))

opened = sections.at(known, chosen.at)
sections.chart(
    chosen, metric, drawn, [(line, point) for point, line, track in opened if track in drawn.drawn]
)
sections.captions(chosen, metric, known, drawn, load.newest_points(len(shown)))
sections.canary(chosen, offer)
if opened:
    sections.point(url, chosen, metric, known, drawn, opened)
sections.moved(chosen, drawn)
sections.stepped(chosen, drawn)
sections.every_point(chosen, metric, drawn)
parts.pinned(chosen.address)
