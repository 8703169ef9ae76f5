"""The first page: what ran last, what failed and why, and the newest numbers."""

from datetime import UTC, datetime

import streamlit as st

from dashboard import frames, load, markup, origins, parts, tables
from dashboard.settings import Settings

#: Runs listed, and runs in which what failed is looked for.
LISTED, SEARCHED = 10, 5
#: Series of other tools whose newest number is shown where there is none of our own.
FOREIGN = 20

url = Settings.from_environment().database_url
now = datetime.now(UTC)
parts.title("Overview")
runs = load.recent_runs(url, LISTED)
if not runs:
    parts.nothing_measured()
    st.stop()

known = load.headlines(url, "latency")
headlines = [headline for headline in known if origins.measured(headline.latest.run)]
own = load.own_runs(url, SEARCHED)
failures = load.failures(url, origins.to_search(runs, own)[:SEARCHED])
mixed = bool(own) and not all(origins.measured(run.id) for run in runs)
st.html(tables.last_run((own or runs)[0], load.count_runs(url), now, own=mixed))

if failures:
    which = f"last {SEARCHED} {'own ' if mixed else ''}runs"
    parts.heading(f"Not ok in the {which}", lambda: frames.failures(failures), "not-ok.csv")
    st.html(tables.failures(failures, now))

if known:
    parts.heading("Latest latency", lambda: frames.headlines(headlines or known), "latest-latency.csv")
    st.caption("Changes are against the run before on the same hardware and profile: a hint, not a verdict.")
    newest = sorted(known, key=lambda headline: headline.latest.started_at, reverse=True)[:FOREIGN]
    st.html(tables.headlines(headlines or newest, now))
    if not headlines and len(known) > FOREIGN:
        st.html(markup.link("/trends", f"and {len(known) - FOREIGN:,} more series: Trends →"))

parts.heading("Last runs", lambda: frames.runs(runs), "runs.csv")
st.html(tables.runs(runs, now, load.sources(url, runs)))
