"""The same suite across machines, normalised to one, and what a sample costs on each."""

from collections.abc import Sequence

import streamlit as st

from dashboard.components import load as pages
from dashboard.components import parts, wording
from dashboard.components.query_params import Query, last
from dashboard.hardware import load, sections, view
from dashboard.header import page_context
from dashboard.server.settings import ServerSettings
from records.series import MeasurementConditions


def show() -> None:
    """The metric that the address names on every hardware, and what it costs there."""
    settings = ServerSettings.from_environment()
    url = settings.database_url
    parts.title("Hardware")
    places = load.places(url)
    if not places:
        parts.no_match(
            pages.count_runs(url),
            "Nothing to compare yet",
            "that Pyrometer measured itself: imported runs have no known preset. This measures one "
            "on this machine:",
            pages.suite_of_device(url),
        )
        st.stop()

    address = parts.query()
    query = page_context.completed(
        address, view.HardwareView.context, lambda query: _chosen(url, query, places)[2]
    )
    chosen, offer, complaints = _chosen(url, query, places)
    parts.complain(complaints)
    metric = wording.metric(chosen.metric)
    with page_context.bar("/compare", address, query):
        parts.select("PyTorch", "version", view.versions(offer), chosen)
        parts.select("Metric", "metric", view.metrics(chosen.metric), chosen)
    with st.container(horizontal=True, vertical_alignment="bottom"):
        parts.select("Preset", "preset", {name: name for name in offer.presets}, chosen)
        parts.select("Normalised to", "to", offer.hardware, chosen)

    rates = load.columns(url, "throughput", chosen.version, offer.sides)
    prices = view.prices(offer, chosen, settings.prices.per_hour)
    sections.cheapest(rates, prices)
    columns = load.columns(url, chosen.metric, chosen.version, offer.sides)
    if columns[0].cells:
        sections.compared(columns, metric, chosen, offer, (prices, settings.prices.currency))
    else:
        of = "" if chosen.version == view.NEWEST else f" of torch {chosen.version}"
        missing = f"There is no {metric.title.lower()}{of} on {columns[0].label}"
        parts.caption(parts.plain(f"{missing}: choose another metric or reference."))
    sections.cost(rates, prices, settings.prices.currency, offer.sides[0].name)
    parts.pinned(chosen.address)


def _chosen(
    url: str, query: Query, places: Sequence[MeasurementConditions]
) -> tuple[view.HardwareView, view.HardwareChoices, list[str]]:
    """The selection of a query, what else is on offer, and complaints."""
    return view.hardware(query, places, load.spread(url, last(query, "version")))
