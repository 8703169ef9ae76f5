"""One run: its facts, every measurement and outcome, the panel of one of these; without a run, the list."""

from collections.abc import Collection, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from functools import partial

import streamlit as st

from analysis.decision.comparison import COMPARED
from dashboard.components import filters, frames, links, load, markup, parts, tables, wording
from dashboard.components.query_params import ALL, Query, View, choice_labels, decode_name, encode_name, pick
from dashboard.exports import page_recorder
from dashboard.header import page_context
from dashboard.runs import case_numbers, case_panel, operators, run_facts
from dashboard.server.settings import ServerSettings
from dashboard.techniques import sections
from dashboard.today.problems import needed
from records.kinds import RunCategory, RunSource, RunState
from records.outcomes import Measurement, Outcome, OutcomeStatus
from records.runs import Run, RunsOnly


def show() -> None:
    """The run that the address names, by its id or `latest`, else the list of runs."""
    query = parts.query()
    wanted = filters.last(query, "run")
    settings, now = ServerSettings.from_environment(), datetime.now(UTC)
    if wanted is None:
        _show_list(settings.database_url, query, now)
    else:
        _show_run(settings, wanted, query, now)


def _show_run(settings: ServerSettings, run_id: str, query: Query, now: datetime) -> None:
    url = settings.database_url
    known_id = load.latest_run_id(url) if run_id == "latest" else run_id
    found = load.run(url, known_id) if known_id else None
    if found is None:
        known = [run.id for run in load.recent_runs(url, limit=PAGE)]
        parts.complain([wording.no_such_run(run_id, known)])
        _show_list(url, {}, now)
        return
    run, summary = found
    if run_id != run.id:
        # Tomorrow it is another.
        page_recorder.pin(links.run(run.id, query))
    outcomes = load.outcomes(url, run.id)
    measurements = load.measurements(url, run.id)
    defined = load.metric_definitions(url)
    observed = {(w.case, w.environment, w.replicate) for w in load.windows(url, run.id)}
    chosen, complaints = filters.outcome(query, run, outcomes)
    parts.tab_title(f"{summary.suite}, {run.id}")
    parts.html(tables.run_title(summary, now, tables.source(run)))
    if COMPARED in run.facts:
        address = links.view(links.UPGRADE, {"run": [run.id]})
        parts.link(address, "The verdict on its two environments: Upgrade →")
    parts.complain(complaints)
    workload = {"workload": chosen.case.rpartition("/")[0]} if chosen is not None else {}
    page_context.keep(
        "/runs", query, hardware=run.machine.hardware.fingerprint[: links.FINGERPRINT], **workload
    )
    if chosen is not None and chosen.facts.get("operators"):
        # A trace is all that its run has, and its tables want the width of the page.
        blocks = load.samples(url, run.id, *chosen.key)
        more = partial(operators.section, settings, run, chosen, query)
        parts.outcome(run, chosen, blocks, more, observed=chosen.key in observed, defined=defined)
    elif chosen is not None:
        case_panel.of_outcome(url, run, chosen, observed=chosen.key in observed, defined=defined)
    failed = [(summary, one) for one in outcomes if one.status != OutcomeStatus.OK and needed(one)]
    if failed:
        parts.heading("Failures", lambda: frames.failures(failed), f"failures-{run.id}.csv")
        parts.html(tables.failures(failed, now))
    if run.notes:
        parts.heading("What could not be measured, and why")
        parts.html(markup.notes(run.notes))
    if measurements:
        _show_measurements(run, measurements, outcomes, defined)
    # Which processes of an imported run were alive at once is unknown.
    if run.source == RunSource.MEASURED:
        sections.of_run(run, outcomes, measurements)
    if outcomes:
        _show_outcomes(run, query, outcomes, observed)
    run_facts.section(run)


def _show_measurements(
    run: Run,
    measurements: Sequence[Measurement],
    outcomes: Sequence[Outcome],
    defined: wording.Definitions,
) -> None:
    """The medians of every case, and folded each with its interval."""
    counted = tables.items_of(outcomes)
    every = tables.measurements(run, measurements, defined, counted)
    parts.heading("Measurements", every, f"measurements-{run.id}.csv")
    parts.caption("Medians over n replicates, each a process of its own.")
    parts.table(case_numbers.by_case(run, measurements, defined, counted))
    with parts.expander("Intervals and spread of every metric"):
        parts.caption("Spread: standard deviation of the replicates' logarithms.")
        parts.table(every)


def _show_outcomes(
    run: Run, query: Query, outcomes: Sequence[Outcome], observed: Collection[tuple[str, str, int]]
) -> None:
    """How every replicate ended, what is not ok first, a page at a time; the CSV file has all."""
    parts.heading("Outcomes", lambda: tables.outcomes(run, outcomes), f"outcomes-{run.id}.csv")
    complaints: list[str] = []
    page = filters.page(query, len(outcomes), tables.OUTCOMES, complaints, "outcomes")
    parts.complain(complaints)
    ordered = sorted(outcomes, key=lambda outcome: outcome.status == OutcomeStatus.OK)
    shown = ordered[tables.OUTCOMES * (page - 1) : tables.OUTCOMES * page]
    parts.table(tables.outcomes(run, shown, observed))
    pages = -(-len(outcomes) // tables.OUTCOMES)
    if pager := markup.pager(partial(links.outcomes, query), page, pages, ("Before", "After")):
        parts.html(pager)


#: Runs on one page of the list, and characters of a text that they are searched for.
PAGE, _TEXT = 50, 200


@dataclass(frozen=True, slots=True)
class RunList(View):
    """Which runs are listed, as addresses have it: see `query_params.encode_name`.

    `ALL` leaves nothing out. Another choice begins at the first page.
    """

    suite: str
    machine: str
    state: str
    kind: str = ALL
    text: str = ""

    def query(self) -> dict[str, list[str]]:
        """The whole selection as a URL's query."""
        names = ("kind", "suite", "machine", "state", *(("text",) if self.text else ()))
        return {name: [getattr(self, name)] for name in names}

    @property
    def only(self) -> RunsOnly:
        """The filters of the database query."""
        kind = decode_name(self.kind)
        return RunsOnly(
            decode_name(self.suite), decode_name(self.machine), decode_name(self.state), kind, self.text
        )

    def page(self, number: int) -> str:
        """The address of a page of the list, from 1."""
        return links.runs(number, **{name: value for name, (value,) in self.query().items()})


def selection(query: Query, suites: list[str], machines: list[str]) -> tuple[RunList, list[str]]:
    """The selection in `query`, and complaints."""
    complaints: list[str] = []
    offers = {"suite": suites, "machine": machines, "state": tuple(RunState), "kind": tuple(RunCategory)}
    chosen = [
        pick(query, name, (ALL, *map(encode_name, offer)), ALL, complaints) for name, offer in offers.items()
    ]
    return RunList(*chosen, text=(filters.last(query, "text") or "").strip()[:_TEXT]), complaints


def _show_list(url: str, query: Query, now: datetime) -> None:
    """The list and its filters; of an empty database, what to type."""
    parts.title("Runs")
    if load.count_runs(url) == 0:
        parts.nothing_measured()
        return
    suites, machines = load.suites_and_machines(url)
    chosen, complaints = selection(query, suites, machines)
    counts = load.runs_by_category(url)
    total = load.count_runs(url, chosen.only)
    page = filters.page(query, total, PAGE, complaints)
    parts.complain(complaints)
    kinds = {ALL: f"All {sum(counts.values()):,}"}
    kinds |= {
        kind: f"{kind.capitalize()} {many:,}" for kind, many in counts.items() if many or kind == chosen.kind
    }
    parts.segments("Kind", "kind", kinds, chosen, tabs=True)
    with st.container(horizontal=True, vertical_alignment="bottom"):
        parts.select("Suite", "suite", choice_labels("All suites", suites), chosen)
        parts.select("Machine", "machine", choice_labels("All machines", machines), chosen)
        parts.select("State", "state", choice_labels("All states", tuple(RunState)), chosen)
        parts.field("Search all runs", "text", chosen, _TEXT)
    if total == 0:
        st.text("No such run." if chosen.text else "No run of that kind.")
        st.html(markup.link(links.RUNS, "All runs →"))
        return
    runs = load.recent_runs(url, limit=PAGE, offset=PAGE * (page - 1), only=chosen.only)
    whole = partial(load.every_run, url, chosen.only)
    parts.heading(wording.plural(total, "run"), lambda: tables.runs(whole(), now), "runs.csv")
    compared = len(runs) > 1
    table = tables.runs(runs, now, load.sources(url, runs), compared=compared)
    parts.html(tables.run_list(table, compared=compared, paged=total > PAGE))
    if pager := markup.pager(chosen.page, page, -(-total // PAGE)):
        st.html(pager)
