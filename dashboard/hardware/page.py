"""The same suite across machines, normalised to one, and what a sample costs on each."""

from collections.abc import Mapping

import streamlit as st

from analysis.metrics import METRICS, Metric
from dashboard.components import load as pages
from dashboard.components import parts, wording
from dashboard.components.query_params import Query, last
from dashboard.hardware import load, sections, view
from dashboard.header import page_context
from dashboard.server.settings import ServerSettings


def show() -> None:
    """The metric that the address names on every hardware, and what it costs there."""
    settings = ServerSettings.from_environment()
    url = settings.database_url
    parts.title("Hardware")
    address = parts.query()
    # Runs of our own and files of other tools are never compared: the preset of the latter is not known.
    imported = {} if load.places(url) else load.imported_metrics(url)
    if not (imported or load.places(url)):
        parts.no_match(
            pages.count_runs(url),
            "Nothing to compare yet",
            "with a metric that can be compared. This measures some on this machine:",
            pages.suite_of_device(url),
        )
        st.stop()

    query = page_context.completed(
        address, view.HardwareView.context, lambda query: _chosen(url, query, imported)[2]
    )
    chosen, offer, complaints = _chosen(url, query, imported)
    parts.complain(complaints)
    metric = imported.get(chosen.metric) or wording.metric(chosen.metric)
    with page_context.bar("/compare", address, query):
        parts.select("PyTorch", "version", view.versions(offer), chosen)
        parts.select("Metric", "metric", view.metrics(chosen.metric, imported), chosen)
    with st.container(horizontal=True, vertical_alignment="bottom"):
        parts.select("Preset", "preset", {name: name for name in offer.presets}, chosen)
        parts.select("Normalised to", "to", offer.hardware, chosen)
    if imported:
        parts.caption("Imported from other tools; how they measured is not known. A hint, not a verdict.")
    _sections(settings, chosen, offer, metric)
    parts.pinned(chosen.address)


def _sections(
    settings: ServerSettings, chosen: view.HardwareView, offer: view.HardwareChoices, metric: Metric
) -> None:
    """What is compared, and what it costs where throughput was measured."""
    url, prices = settings.database_url, view.prices(offer, chosen, settings.prices.per_hour)
    rates = load.columns(url, "throughput", chosen.version, offer.sides)
    sections.cheapest(rates, prices)
    columns = load.columns(url, chosen.metric, chosen.version, offer.sides)
    if columns[0].cells:
        sections.compared(columns, metric, chosen, offer, (prices, settings.prices.currency))
    else:
        of = "" if chosen.version == view.NEWEST else f" of torch {chosen.version}"
        missing = f"There is no {metric.title.lower()}{of} on {columns[0].label}"
        parts.caption(parts.plain(f"{missing}: choose another metric or reference."))
    if metric.name in METRICS or any(column.cells for column in rates):
        sections.cost(rates, prices, settings.prices.currency, offer.sides[0].name)


def _chosen(
    url: str, query: Query, imported: Mapping[str, Metric]
) -> tuple[view.HardwareView, view.HardwareChoices, list[str]]:
    """The selection of a query, what else is on offer, and complaints."""
    version = last(query, "version")
    if not imported:
        return view.hardware(query, load.places(url), load.spread(url, version))
    metric = view.chosen_metric(query, imported, [])
    return view.hardware(
        query, load.imported_places(url, metric), load.spread(url, version, metric), imported
    )
