"""Series over dates or PyTorch versions, with the range between replicates."""

from collections import Counter
from dataclasses import replace

import streamlit as st

from dashboard import charts, filters, frames, load, markup, origins, parts, wording
from dashboard.settings import Settings

url = Settings.from_environment().database_url
parts.title("Trends")
keys = load.series_keys(url)
if not keys:
    parts.nothing_to_draw(load.count_runs(url))
    st.stop()

defined = load.metric_definitions(url)
chosen, offer, complaints = filters.trends(parts.query(), keys, load.newest_places(url))
parts.complain(complaints)
with st.container(horizontal=True, vertical_alignment="bottom"):
    parts.select("Metric", "metric", wording.titles(offer.metrics, defined), chosen)
    parts.select("Hardware", "hardware", offer.hardware, chosen)
    parts.select("Profile", "profile", offer.profiles, chosen)
    parts.segments("Along", "axis", {"date": "dates", "version": "PyTorch versions"}, chosen)
named = {case: wording.case(case).text for case in offer.cases}
parts.several(f"Cases, up to {charts.MAX_CASES}", "cases", named, chosen, charts.MAX_CASES)

shown = tuple(key for key in keys if chosen.holds(key))
points = load.series(url, shown)
if not points:
    parts.nothing_to_draw(load.count_runs(url))
    st.stop()
drawn = frames.trend_points(points, chosen.cases, chosen.axis)
known = wording.metric(chosen.metric, defined)
look = frames.trend_look(points)
st.html(markup.legend(chosen.cases) + markup.strong(wording.trend_title(known, stacked=look.stacked)))
marks = frames.version_names(points) if chosen.axis == "version" else frames.version_changes(points)
parts.chart(
    load.trend_spec(known.unit, len(chosen.cases), chosen.axis, look),
    alt=wording.trend_in_words(known, chosen.cases, len(points)),
    points=drawn,
    versions=marks,
)
spelled = replace(known, title=parts.plain(known.title))
st.caption(wording.how_to_read(spelled, chosen.axis, parts.plain(origins.teller(points[-1].run))))
if chosen.axis == "date" and frames.at_one_moment(marks):
    st.caption("Several PyTorch versions stand at one moment: along PyTorch versions they stand apart.")
if max(Counter(point.case for point in points).values()) >= (newest := load.newest_points(len(shown))):
    fewer = "; fewer cases show more of each" if newest < load.NEWEST_POINTS else ""
    st.caption(f"Of each case the newest {newest} points{fewer}; `pyrometer export` has all.")

table = frames.trend_table(points, known.unit)
parts.heading("Every point", lambda: table, f"trend-{chosen.metric}.csv")
parts.point_table(table)
st.html(markup.link(chosen.address, "Link to this view, with nothing left to defaults"))
