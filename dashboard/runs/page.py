"""One run: its facts, every measurement, every outcome, and one outcome opened; without a run, the list."""

from collections.abc import Collection, Sequence
from datetime import UTC, datetime
from functools import partial

from analysis.decision.comparison import COMPARED
from dashboard.components import filters, frames, links, load, markup, parts, run_source, tables, wording
from dashboard.components.query_params import Query
from dashboard.exports import page_recorder as kept
from dashboard.header import page_context
from dashboard.runs import gains, operators, run_facts, run_list
from dashboard.server.settings import ServerSettings
from dashboard.today.problems import needed
from records.kinds import RunSource
from records.outcomes import Measurement, Outcome, OutcomeStatus
from records.runs import Run


def show() -> None:
    """The run that the address names, by its id or `latest`, else the list of runs."""
    query = parts.query()
    wanted = filters.last(query, "run")
    settings, now = ServerSettings.from_environment(), datetime.now(UTC)
    if wanted is None:
        run_list.section(settings.database_url, query, now)
    else:
        _show_run(settings, wanted, query, now)


def _show_run(settings: ServerSettings, run_id: str, query: Query, now: datetime) -> None:
    url = settings.database_url
    known_id = load.latest_run_id(url) if run_id == "latest" else run_id
    found = load.run(url, known_id) if known_id else None
    if found is None:
        known = [run.id for run in load.recent_runs(url, limit=run_list.PAGE)]
        parts.complain([wording.no_such_run(run_id, known)])
        run_list.section(url, {}, now)
        return
    run, summary = found
    if run_id != run.id:
        # Tomorrow it is another.
        kept.pin(links.run(run.id, query))
    outcomes = load.outcomes(url, run.id)
    measurements = load.measurements(url, run.id)
    defined = load.metric_definitions(url)
    observed = {(w.case, w.environment, w.replicate) for w in load.windows(url, run.id)}
    chosen, complaints = filters.outcome(query, run, outcomes)
    parts.tab_title(f"{summary.suite}, {run.id}")
    parts.html(tables.run_title(summary, now, run_source.source(run)))
    if COMPARED in run.facts:
        address = links.upgrade({"run": [run.id]})
        parts.html(f"<p>{markup.link(address, 'The verdict on its two environments: Upgrade →')}</p>")
    parts.complain(complaints)
    workload = {"workload": chosen.case.rpartition("/")[0]} if chosen is not None else {}
    page_context.keep(
        "/runs", query, hardware=run.machine.hardware.fingerprint[: links.FINGERPRINT], **workload
    )
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
    failed = [(summary, one) for one in outcomes if one.status != OutcomeStatus.OK and needed(one)]
    if failed and chosen is None:
        parts.heading("Failures", lambda: frames.failures(failed), f"failures-{run.id}.csv")
        parts.html(tables.failures(failed, now))
    if run.notes:
        parts.heading("What could not be measured, and why")
        parts.html(markup.notes(run.notes))
    if measurements:
        _show_measurements(run, measurements, defined)
    # Which processes of an imported run were alive at once is unknown.
    if run.source == RunSource.MEASURED:
        gains.section(run, outcomes, measurements)
    if outcomes:
        _show_outcomes(run, query, outcomes, observed)
    run_facts.section(run)


def _show_measurements(run: Run, measurements: Sequence[Measurement], defined: wording.Definitions) -> None:
    """Every metric of every case, over its replicates."""
    parts.heading(
        "Measurements",
        lambda: frames.measurements(run, measurements, defined),
        f"measurements-{run.id}.csv",
    )
    parts.caption(
        "Over n replicates, each a process of its own. Spread: standard deviation of their logarithms."
    )
    parts.html(tables.measurements(run, measurements, defined))


def _show_outcomes(
    run: Run, query: Query, outcomes: Sequence[Outcome], observed: Collection[tuple[str, str, int]]
) -> None:
    """How every replicate ended, what is not ok first, a page at a time; the CSV file has all."""
    parts.heading("Outcomes", lambda: frames.outcomes(outcomes), f"outcomes-{run.id}.csv")
    complaints: list[str] = []
    page = filters.page(query, len(outcomes), tables.OUTCOMES, complaints, "outcomes")
    parts.complain(complaints)
    ordered = sorted(outcomes, key=lambda outcome: outcome.status == OutcomeStatus.OK)
    shown = ordered[tables.OUTCOMES * (page - 1) : tables.OUTCOMES * page]
    parts.html(tables.outcomes(run, shown, observed))
    pages = -(-len(outcomes) // tables.OUTCOMES)
    if pager := markup.pager(partial(links.outcomes, query), page, pages, ("Before", "After")):
        parts.html(pager)
