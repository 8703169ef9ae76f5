"""The first page: what ran last, what failed and why, and the newest numbers."""

from datetime import UTC, datetime

import streamlit as st

from dashboard import frames, load, parts, tables
from dashboard.settings import Settings

#: Runs listed, and runs in which what failed is looked for.
LISTED, SEARCHED = 10, 5

url = Settings.from_environment().database_url
now = datetime.now(UTC)
parts.title("Overview")
runs = load.recent_runs(url, LISTED)
if not runs:
    parts.nothing_measured()
    st.stop()

headlines = load.headlines(url, "latency")
failures = load.failures(url, SEARCHED)
st.html(tables.last_run(runs[0], load.count_runs(url), now))

if failures:
    parts.heading(f"Not ok in the last {SEARCHED} runs", lambda: frames.failures(failures), "not-ok.csv")
    st.html(tables.failures(failures, now))

if headlines:
    parts.heading("Latest latency", lambda: frames.headlines(headlines), "latest-latency.csv")
    st.caption("Changes are against the run before on the same hardware and profile: a hint, not a verdict.")
    st.html(tables.headlines(headlines, now))

parts.heading("Last runs", lambda: frames.runs(runs), "runs.csv")
st.html(tables.runs(runs, now))
