"""One run: its facts, every measurement, every outcome, and one outcome opened; without a run, the list."""

from datetime import UTC, datetime

import streamlit as st

from dashboard import (
    capabilities,
    filters,
    frames,
    gains,
    load,
    markup,
    operators,
    origins,
    parts,
    tables,
    wording,
)
from dashboard.settings import Settings
from db.records import Run

#: Runs on one page of the list.
PAGE = 50

settings = Settings.from_environment()
url = settings.database_url
now = datetime.now(UTC)
query = parts.query()


def show_list() -> None:
    """The list of runs, a page at a time."""
    total = load.count_runs(url)
    parts.title("Runs")
    if total == 0:
        parts.nothing_measured()
        return
    page = filters.page(query, total, PAGE)
    runs = load.recent_runs(url, PAGE, PAGE * (page - 1))
    parts.heading(wording.plural(total, "run"), lambda: frames.runs(runs), "runs.csv")
    st.html(tables.runs(runs, now, load.sources(url, runs)) + markup.pager("/run", page, -(-total // PAGE)))


def show_run(run_id: str) -> None:
    """One run by its id or `latest`."""
    known_id = load.latest_run_id(url) if run_id == "latest" else run_id
    found = load.run(url, known_id) if known_id else None
    if found is None:
        parts.complain([wording.no_such_run(run_id, [run.id for run in load.recent_runs(url, PAGE)])])
        show_list()
        return
    run, summary = found
    outcomes = load.outcomes(url, run.id)
    measurements = load.measurements(url, run.id)
    defined = load.metric_definitions(url)
    observed = {(w.case, w.environment, w.replicate) for w in load.windows(url, run.id)}
    chosen, complaints = filters.outcome(query, run, outcomes)
    st.html(tables.run_title(summary, now, origins.source(run)))
    parts.complain(complaints)
    if chosen is not None:
        blocks = load.samples(url, run.id, chosen.case, chosen.environment, chosen.replicate)
        parts.outcome(
            run,
            chosen,
            blocks,
            lambda: operators.section(settings, run, chosen, query),
            observed=(chosen.case, chosen.environment, chosen.replicate) in observed,
            defined=defined,
        )
    if run.notes:
        parts.heading("What could not be measured, and why")
        st.html(markup.notes(run.notes))
    if measurements:
        parts.heading(
            "Measurements",
            lambda: frames.measurements(run, measurements, defined),
            f"measurements-{run.id}.csv",
        )
        st.caption(
            "Over n replicates, each a process of its own. Spread: standard deviation of their logarithms."
        )
        st.html(tables.measurements(run, measurements, defined))
    # Of what others measured nobody knows what was alive together.
    if origins.measured(run.id):
        gains.section(run, outcomes, measurements)
    if outcomes:
        parts.heading("Outcomes", lambda: frames.outcomes(outcomes), f"outcomes-{run.id}.csv")
        st.html(tables.outcomes(run, outcomes, observed))
    show_facts(run)


def show_facts(run: Run) -> None:
    """The command that made a run, and all it knows of itself."""
    parts.heading("Facts")
    # Of what a script submitted the command tells nothing that anybody could type again.
    if origins.measured(run.id) or origins.imported(run.id):
        st.code(run.command, language="bash")
    st.html(tables.run_facts(run))
    if told := capabilities.tables(run):
        with st.expander("What this machine could tell of GPUs and CPUs, and what not"):
            st.html(told)


wanted = filters.last(query, "run")
if wanted is None:
    show_list()
else:
    show_run(wanted)
