"""One run: its facts, measurements and outcomes, and the panel of one of them; or the list of runs."""

from collections.abc import Collection, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from functools import partial

import streamlit as st

from analysis.decision.comparison import COMPARED
from dashboard.components import frames, links, load, markup, parts, tables, wording
from dashboard.components.query_params import (
    ALL,
    Query,
    View,
    choice_labels,
    decode_name,
    encode_name,
    find_fingerprint,
    last,
    pick,
    unknown_value,
)
from dashboard.exports import page_recorder
from dashboard.header import page_context
from dashboard.runs import case_panel, operators, run_tables
from dashboard.server.settings import ServerSettings
from dashboard.techniques import sections
from dashboard.today.problems import needed
from records.kinds import RunCategory, RunSource, RunState
from records.outcomes import Measurement, Outcome, OutcomeStatus
from records.runs import Run, RunsOnly


def show() -> None:
    """Show the run that the address names, by id or `latest`, else the list of runs."""
    query = parts.query()
    run_id = last(query, "run")
    settings, now = ServerSettings.from_environment(), datetime.now(UTC)
    if run_id is None:
        _show_list(settings.database_url, query, now)
    else:
        _show_run(settings, run_id, query, now)


def _show_run(settings: ServerSettings, run_id: str, query: Query, now: datetime) -> None:
    url = settings.database_url
    known_id = load.latest_run_id(url) if run_id == "latest" else run_id
    stored_run = load.run(url, known_id) if known_id else None
    if stored_run is None:
        ids = [run.id for run in load.recent_runs(url, limit=PAGE)]
        parts.complain([wording.no_such_run(run_id, ids)])
        _show_list(url, {}, now)
        return
    run, summary = stored_run
    if run_id != run.id:
        # A permanent link needs the id, because `latest` changes.
        page_recorder.pin(links.run(run.id, query))
    outcomes = load.outcomes(url, run.id)
    measurements = load.measurements(url, run.id)
    definitions = load.metric_definitions(url)
    window_keys = {(w.case, w.environment, w.replicate) for w in load.windows(url, run.id)}
    outcome, complaints = chosen_outcome(query, run, outcomes)
    parts.tab_title(f"{summary.suite}, {run.id}")
    parts.html(tables.run_title(summary, now, tables.source(run)))
    if COMPARED in run.facts:
        address = links.view(links.UPGRADE, {"run": [run.id]})
        parts.link(address, "The verdict on its two environments: Upgrade →")
    parts.complain(complaints)
    workload = {"workload": outcome.case.rpartition("/")[0]} if outcome is not None else {}
    page_context.keep(
        "/runs", query, hardware=run.machine.hardware.fingerprint[: links.FINGERPRINT], **workload
    )
    if outcome is not None and outcome.facts.get("operators"):
        # A run that traced has only tables, which need the width of the page.
        blocks = load.samples(url, run.id, *outcome.key)
        more = partial(operators.section, settings, run, outcome, query)
        case_panel.outcome_section(
            run, outcome, blocks, more, has_window=outcome.key in window_keys, definitions=definitions
        )
    elif outcome is not None:
        case_panel.of_outcome(
            url, run, outcome, has_window=outcome.key in window_keys, definitions=definitions
        )
    failures = [(summary, one) for one in outcomes if one.status != OutcomeStatus.OK and needed(one)]
    if failures:
        parts.heading("Failures", lambda: frames.failures(failures), f"failures-{run.id}.csv")
        parts.html(tables.failures(failures, now))
    if run.notes:
        parts.heading("Not measured, with reasons")
        parts.html(markup.notes(run.notes))
    if measurements:
        _show_measurements(run, measurements, outcomes, definitions)
    # Which processes of an imported run were alive at once is unknown.
    if run.source == RunSource.MEASURED:
        sections.of_run(run, outcomes, measurements)
    if outcomes:
        _show_outcomes(run, query, outcomes, window_keys)
    run_tables.facts_section(run)


def chosen_outcome(query: Query, run: Run, outcomes: Sequence[Outcome]) -> tuple[Outcome | None, list[str]]:
    """The outcome that the URL names by case, environment and replicate, or the first traced one, if any."""
    case = last(query, "case")
    if case is None:
        # A run that only traced has nothing else to show.
        return next((o for o in outcomes if o.facts.get("operators")), None), []
    matches = [o for o in outcomes if o.case == case]
    if not matches:
        return None, [unknown_value("case", case, {o.case for o in outcomes})]
    environment, replicate = last(query, "environment"), last(query, "replicate")
    if environment:
        fingerprint = find_fingerprint(environment, {o.environment: "" for o in matches})
        matches = [o for o in matches if o.environment == fingerprint]
    if replicate is not None:
        matches = [o for o in matches if str(o.replicate) == replicate]
    if not matches:
        where = f"replicate {replicate or '?'} in environment {environment or '?'}"
        return None, [f"Run {run.id} has no {where} of {case}."]
    return matches[0], []


def _show_measurements(
    run: Run,
    measurements: Sequence[Measurement],
    outcomes: Sequence[Outcome],
    definitions: wording.Definitions,
) -> None:
    """Show the medians of every case, and folded the intervals."""
    item_names = tables.items_of(outcomes)
    every = tables.measurements(run, measurements, definitions, item_names)
    parts.heading("Measurements", every, f"measurements-{run.id}.csv")
    parts.caption("Medians over n replicates, each a fresh process.")
    parts.table(run_tables.by_case(run, measurements, definitions, item_names))
    with parts.expander("Intervals and spread of every metric"):
        parts.caption("Spread: standard deviation of the replicates' logarithms.")
        parts.table(every)


def _show_outcomes(
    run: Run, query: Query, outcomes: Sequence[Outcome], window_keys: Collection[tuple[str, str, int]]
) -> None:
    """Show the outcomes in pages, those that are not ok first; the CSV file has all."""
    parts.heading("Outcomes", lambda: tables.outcomes(run, outcomes), f"outcomes-{run.id}.csv")
    complaints: list[str] = []
    page = list_page(query, len(outcomes), tables.OUTCOMES, complaints, "outcomes")
    parts.complain(complaints)
    in_order = sorted(outcomes, key=lambda outcome: outcome.status == OutcomeStatus.OK)
    page_rows = in_order[tables.OUTCOMES * (page - 1) : tables.OUTCOMES * page]
    parts.table(tables.outcomes(run, page_rows, window_keys))
    pages = -(-len(outcomes) // tables.OUTCOMES)
    if pager := markup.pager(partial(links.outcomes, query), page, pages, ("Before", "After")):
        parts.html(pager)


#: The number of runs on one page of the list, and the most characters of a search text.
PAGE, _TEXT = 50, 200
#: Larger than any page number.
_DIGITS = 18


def list_page(query: Query, rows: int, per_page: int, complaints: list[str], name: str = "page") -> int:
    """The number of a page of a list, from 1 to the last one; `name` is its parameter in the URL.

    An invalid number is a complaint.
    """
    text = last(query, name) or "1"
    pages = max(1, -(-rows // per_page))
    # Python refuses to parse numbers of thousands of digits: the text is cut.
    number = min(max(1, int(text[:_DIGITS])), pages) if text.isdecimal() else 1
    if text != str(number):
        there = "there is one page" if pages == 1 else f"pages are 1 to {pages:,}"
        complaints.append(f'"{text}" is not a page ({name}): {there}; this is page {number:,}.')
    return number


@dataclass(frozen=True, slots=True)
class RunList(View):
    """The filter of the list of runs, in the form of addresses: see `query_params.encode_name`.

    `ALL` does not filter. Changing the filter returns to the first page.
    """

    kind: str
    suite: str
    machine: str
    state: str
    text: str = ""

    @property
    def only(self) -> RunsOnly:
        """The filters of the database query."""
        kind, suite, machine, state = map(decode_name, (self.kind, self.suite, self.machine, self.state))
        return RunsOnly(suite, machine, state, kind, self.text)

    def page(self, number: int) -> str:
        """The address of a page of the list, from 1."""
        return links.runs(number, **{name: value for name, (value,) in self.query().items()})


def selection(query: Query, suites: list[str], machines: list[str]) -> tuple[RunList, list[str]]:
    """The selection in `query`, and complaints."""
    complaints: list[str] = []
    offers = {"kind": tuple(RunCategory), "suite": suites, "machine": machines, "state": tuple(RunState)}
    kind, suite, machine, state = (
        pick(query, name, (ALL, *map(encode_name, offer)), ALL, complaints) for name, offer in offers.items()
    )
    text = (last(query, "text") or "").strip()[:_TEXT]
    return RunList(kind, suite, machine, state, text), complaints


def _show_list(url: str, query: Query, now: datetime) -> None:
    """Show the list and its filters; for an empty database the first command."""
    parts.title("Runs")
    if load.count_runs(url) == 0:
        parts.nothing_measured()
        return
    suites, machines = load.suites_and_machines(url)
    filters, complaints = selection(query, suites, machines)
    counts = load.runs_by_category(url)
    total = load.count_runs(url, filters.only)
    page = list_page(query, total, PAGE, complaints)
    parts.complain(complaints)
    kinds = {ALL: f"All {sum(counts.values()):,}"}
    kinds |= {
        kind: f"{kind.capitalize()} {many:,}" for kind, many in counts.items() if many or kind == filters.kind
    }
    parts.segments("Kind", "kind", kinds, filters, tabs=True)
    with st.container(horizontal=True, vertical_alignment="bottom"):
        parts.select("Suite", "suite", choice_labels("All suites", suites), filters)
        parts.select("Machine", "machine", choice_labels("All machines", machines), filters)
        parts.select("State", "state", choice_labels("All states", tuple(RunState)), filters)
        parts.field("Search all runs", "text", filters, _TEXT)
    if total == 0:
        st.text("No such run." if filters.text else "No run of that kind.")
        st.html(markup.link(links.RUNS, "All runs →"))
        return
    runs = load.recent_runs(url, limit=PAGE, offset=PAGE * (page - 1), only=filters.only)
    whole = partial(load.every_run, url, filters.only)
    parts.heading(wording.plural(total, "run"), lambda: tables.runs(whole(), now), "runs.csv")
    selectable = len(runs) > 1
    table = tables.runs(runs, now, load.sources(url, runs), selectable=selectable)
    parts.html(tables.run_list(table, selectable=selectable, has_pages=total > PAGE))
    if pager := markup.pager(filters.page, page, -(-total // PAGE)):
        st.html(pager)
