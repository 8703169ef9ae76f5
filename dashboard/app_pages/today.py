"""The first page: what needs attention, and the results of the last night or the last runs."""

import streamlit as st

from dashboard.components import load, parts, tables
from dashboard.server.database import present_time
from dashboard.server.settings import ServerSettings
from dashboard.today import manual_runs, nightly
from dashboard.today.load import chosen, morning

#: Runs listed.
LISTED = 10

url = ServerSettings.from_environment().database_url
now = present_time(url)
runs = load.recent_runs(url, limit=LISTED)
scheduled = bool(morning(url).parts)
if not runs and not scheduled:
    parts.title("Today")
    parts.nothing_measured()
    nightly.first_night(url, now)
    st.stop()

view, complaints = chosen(parts.query())
parts.complain(complaints)
if scheduled:
    nightly.show(url, view, now)
else:
    parts.title("Today")
    nightly.first_night(url, now)
    manual_runs.show(url, runs, now)
    table = tables.runs(runs, now, load.sources(url, runs))
    parts.heading("Last runs", table, "runs.csv")
    parts.html(tables.run_list(table))
