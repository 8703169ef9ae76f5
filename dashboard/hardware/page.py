"""The same suite on several machines, normalised to one, and the cost of items on each."""

from collections.abc import Mapping, Sequence
from html import escape

import streamlit as st

from analysis.metrics import METRICS, Metric
from dashboard.components import load as pages
from dashboard.components import parts, wording
from dashboard.components.query_params import Query, last, strip_device
from dashboard.hardware import charts, load, normalisation, tables, view
from dashboard.hardware.normalisation import HardwareColumn, Overall
from dashboard.hardware.view import NEWEST, HardwareChoices, HardwareView
from dashboard.header import page_context
from dashboard.server.settings import ServerSettings


def show() -> None:
    """Show the metric of the address on every hardware, and the cost."""
    settings = ServerSettings.from_environment()
    url = settings.database_url
    parts.title("Hardware")
    address = parts.query()
    from_files = load.shows_imported(url, last(address, "preset"))
    if not (from_files or pages.measured_places(url)):
        parts.no_match(
            pages.count_runs(url),
            "Nothing to compare yet",
            "with a metric that can be compared. This measures some on this machine:",
            pages.suite_command(url),
        )
        st.stop()

    imported_metrics = load.imported_metrics(url) if from_files else {}
    query = page_context.complete_query(
        address, HardwareView.context, lambda query: _chosen(url, query, imported_metrics)[2]
    )
    selection, offer, complaints = _chosen(url, query, imported_metrics)
    parts.complain(complaints)
    metric = imported_metrics.get(selection.metric) or wording.metric(selection.metric)
    with page_context.bar("/compare", address, query):
        parts.select("PyTorch", "version", view.versions(offer), selection)
        parts.select("Metric", "metric", view.metrics(selection.metric, imported_metrics), selection)
    with st.container(horizontal=True, vertical_alignment="bottom"):
        parts.select("Preset", "preset", _presets(url, offer), selection)
        parts.select("Reference", "to", wording.hardware_choices(offer.hardware), selection)
    if last(address, "to") is None and _shares_most(url, selection, offer):
        parts.caption("The reference has the most cases that others have too.")
    if from_files:
        parts.caption("Imported from other tools. A hint, not a verdict.", "How they measured is not known.")
    _sections(settings, selection, offer, metric)
    parts.permanent_link(selection.address)


def _presets(url: str, offer: HardwareChoices) -> dict[str, str]:
    """The presets on offer, then those of the runs that are not shown: our own, or those of files."""
    own = (place.preset_name for place in pages.measured_places(url))
    files = (key.preset_name for key in load.imported_keys(url))
    return {name: name for name in (*offer.presets, *own, *files)}


def _shares_most(url: str, selection: HardwareView, offer: HardwareChoices) -> bool:
    """Whether the reference shares the most cases with other hardware, and more than some other."""
    shared_counts = load.shared_cases(url, selection.metric)
    own, *others = (shared_counts.get(side.hardware, 0) for side in offer.sides)
    return own >= max(others, default=own) and own > min(others, default=own)


def _sections(
    settings: ServerSettings, selection: HardwareView, offer: HardwareChoices, metric: Metric
) -> None:
    """Show the comparison, and the cost if throughput was measured."""
    url, prices = settings.database_url, view.prices(offer, selection, settings.prices.per_hour)
    rates = load.columns(url, "throughput", selection.version, offer.sides)
    _cheapest(rates, prices)
    columns = load.columns(url, selection.metric, selection.version, offer.sides)
    if columns[0].cells:
        _comparison(columns, metric, selection, offer, (prices, settings.prices.currency))
    else:
        of = "" if selection.version == NEWEST else f" of torch {selection.version}"
        missing = f"There is no {metric.title.lower()}{of} on {columns[0].label}"
        parts.caption(parts.plain(f"{missing}: choose another metric or reference."))
    if metric.name in METRICS or any(column.cells for column in rates):
        _cost(rates, prices, settings.prices.currency, offer.sides[0].name)


def _chosen(
    url: str, query: Query, imported_metrics: Mapping[str, Metric]
) -> tuple[HardwareView, HardwareChoices, list[str]]:
    """The selection of a query, the options, and complaints."""
    version, metric = last(query, "version"), view.chosen_metric(query, imported_metrics, [])
    shared_counts = load.shared_cases(url, metric)
    if not imported_metrics:
        return view.hardware(query, pages.measured_places(url), load.spread(url, version), shared_counts)
    return view.hardware(
        query,
        load.imported_places(url, metric),
        load.spread(url, version, metric),
        shared_counts,
        imported_metrics,
    )


def _comparison(
    columns: Sequence[HardwareColumn],
    metric: Metric,
    selection: HardwareView,
    offer: HardwareChoices,
    prices: tuple[Mapping[str, float], str],
) -> None:
    """The hardware against the reference, the first of `columns`: overall, as a chart, case by case.

    `prices` are per hour of a whole hardware, by its fingerprint, with their currency.
    """
    matches = [normalisation.overall(column, columns[0], metric.better) for column in columns]
    threshold = normalisation.threshold(columns, metric.name)
    table = tables.means(columns, matches, metric, threshold, prices)
    about = _how_to_read(columns, metric, selection)
    parts.heading(f"{metric.title}, normalised", table, f"hardware-{metric.name}.csv", about)
    for warning, reason in _warnings(columns, matches, offer):
        parts.caption(parts.plain(warning), parts.plain(reason))
    parts.table(table)
    if len(columns) > 1:
        _chart(columns, matches, metric, threshold)
    _case_by_case(columns, metric, threshold)
    left_out, name = tables.left_out(columns[1:], matches[1:]), f"hardware-{metric.name}-left-out.csv"
    if left_out.rows:
        parts.heading("Left out of the geomeans, with reasons", left_out, name)
        with parts.expander(wording.plural(len(left_out.rows), "case")):
            parts.table(left_out)


def _chart(
    columns: Sequence[HardwareColumn], means: Sequence[Overall], metric: Metric, threshold: float
) -> None:
    drawn = charts.overall(columns, means, threshold)
    builds = dict.fromkeys(column.build for column in columns if column.build)
    parts.subject(metric.title, f"PyTorch {', '.join(builds)}" if builds else "")
    if drawn.empty:
        parts.caption("No hardware shares a case with the reference: no ratio.")
        return
    title = "speed-up over the reference (higher is better)"
    rows = drawn.to_dict("records")
    ratios = [f"{row['label']} {row['text']} over {wording.plural(row['n'], 'case')}" for row in rows]
    dots = charts.dots(columns, drawn, metric)
    parts.chart(
        charts.machines(len(drawn), title, dark=st.context.theme.type == "dark"),
        f"{metric.title} normalised to {columns[0].label}: {'; '.join(ratios)}",
        rows=drawn,
        cases=dots,
    )
    each = "Dots: cases. " if len(dots) else ""
    parts.caption(f"{each}Diamond: their geomean. Bar: min-max.")


def _case_by_case(columns: Sequence[HardwareColumn], metric: Metric, threshold: float) -> None:
    table = tables.cases(columns, metric, threshold)
    ratios = "The value, then its ratio to the reference: above 1× is better."
    # Metrics of other tools have no description.
    about = "; ".join(filter(None, (metric.meaning, f"{metric.better} is better")))
    explanation = f"{metric.title}: {about}. {ratios if columns[1:] else ''}"
    parts.heading(
        "Case by case",
        lambda: charts.cells(columns, metric),
        f"hardware-{metric.name}-cases.csv",
        explanation,
    )
    parts.table(table)


def _cheapest(columns: Sequence[HardwareColumn], prices: Mapping[str, float]) -> None:
    """The relative cost of the same items on hardware, if two prices are known.

    `columns` hold the throughput in items/s.
    """
    over = normalisation.cheapest(columns, prices)
    if len(over) < 2:
        return
    first, *rest = over
    threshold = normalisation.threshold(columns, "throughput")
    costs = [
        f"{column.label} {wording.significant(ratio)}× ({wording.plural(n, 'case')}, "
        f"{_dearer(ratio, threshold)})"
        for column, ratio, n in rest
    ]
    sentence = f"Cost of the same items, against {first[0].label} (geomean): {'; '.join(costs)}"
    parts.html(f"<p>{escape(sentence)}</p>")


def _dearer(ratio: float, threshold: float) -> str:
    if not normalisation.beyond(ratio, threshold):
        return "the same within noise"
    return "▼ cheaper" if ratio < 1 else "▲ dearer"


def _cost(
    columns: Sequence[HardwareColumn], prices: Mapping[str, float], currency: str, example: str
) -> None:
    """Show the cost of a million items if a price is known; `columns` hold the throughput in items/s.

    `example` is the label of some hardware, for the example of a price.
    """
    priced_columns = [column for column in columns if column.hardware in prices]
    if not priced_columns:
        _without_prices(example)
        return
    parts.heading(
        "Cost per 1 M items",
        lambda: charts.costs(priced_columns, prices, currency),
        "hardware-cost.csv",
    )
    parts.caption(
        parts.plain(f"In {currency}, for the GPUs that a case uses; lower is better."),
        "Price of a GPU-hour × GPUs of the case / 3600 s / throughput in items/s × 1,000,000. Prices are per "
        "hour of the whole machine; that of a GPU-hour is the price / its GPUs. A case uses one GPU per "
        "rank. Without GPUs it is charged the whole machine. An item is the unit of the workload: an image, "
        "a token.",
    )
    columns_text = [
        tables.price_label(column, prices[column.hardware], currency) for column in priced_columns
    ]
    parts.caption(parts.plain(f"{'; '.join(columns_text)}."))
    parts.table(tables.costs(priced_columns, prices, currency))


def _without_prices(example: str) -> None:
    parts.heading("Cost per 1 M items")
    parts.caption(
        "Requires the price per hour of the whole machine, in `pyrometer.toml`:",
        "The price is for all GPUs of the machine together. The address may contain a price too: "
        "`price=LABEL:2.5`.",
    )
    # Quoted as a basic string of TOML, because a label may contain any text.
    label = example.replace("\\", "\\\\").replace('"', '\\"')
    parts.code(f'[prices]\ncurrency = "USD"\nper_hour = {{ "{label}" = 2.5 }}')


def _how_to_read(columns: Sequence[HardwareColumn], metric: Metric, selection: HardwareView) -> str:
    what = "the newest point of each case" if selection.version == NEWEST else f"torch {selection.version}"
    sentence = f"{metric.title} of {what} under preset {selection.preset}"
    if any(cell.of == "run" for column in columns for cell in column.cells.values()):
        sentence += ", for several runs the median of their points, one for each environment of that version"
    if len(columns) > 1:
        sentence += (
            f", relative to {columns[0].label}: above 1× is better, also for metrics where lower is better. "
            f"Geomean over the cases that both have, each counting once. These ratios are between runs that "
            f"were not interleaved: ▲ and ▼ mark only differences above "
            f"{wording.percent(normalisation.threshold(columns, metric.name))}"
        )
    sentence += "."
    noise = normalisation.noise(columns)
    if noise is None:
        none = "No PyTorch was measured twice on the same hardware: the noise between runs is not known."
        return f"{sentence} {none}" if len(columns) > 1 else sentence
    share, series = noise
    return (
        f"{sentence} Noise between runs here: the range of points of one PyTorch on one hardware is "
        f"{wording.percent(share)} (median, {series:,} series)."
    )


def _warnings(
    columns: Sequence[HardwareColumn], means: Sequence[Overall], offer: HardwareChoices
) -> list[tuple[str, str]]:
    """Notes on differences between the machines and on missing ones, each with an explanation."""
    results: list[tuple[str, str]] = []
    if len(columns) == 1:
        results.append(
            (
                "Only one hardware was measured under this preset: there is nothing to compare.",
                "To add other machines, store their runs in the same database, or export and import them.",
            )
        )
    builds = {cell.torch_version for column in columns for cell in column.cells.values()}
    if len(builds) > 1 and len(set(map(strip_device, builds))) == 1:
        results.append(
            (
                "Builds differ between the machines.",
                f"The machines have different builds of that release ({', '.join(sorted(builds))}): "
                f"differences of the builds, for example in CUDA, are part of these ratios.",
            )
        )
    elif len(builds) > 1:
        results.append(
            (
                "These points are of several PyTorch versions.",
                "The ratios include differences of PyTorch. Choose a common version if there is one.",
            )
        )
    cells = [cell for column in columns for cell in column.cells.values()]
    if len({harness for cell in cells for harness in cell.harnesses}) > 1:
        several = any(len(cell.harnesses) > 1 for cell in cells)
        runs = " Medians over runs may include several." if several else ""
        results.append(
            (
                "These points were measured by several harnesses.",
                f"The measurement of a case may differ between them; the CSV file has the harness of each "
                f"point.{runs}",
            )
        )
    others = [column for column, mean in zip(columns[1:], means[1:], strict=True) if mean.n]
    if len({column.cpus for column in (columns[0], *others)} - {None}) > 1:
        results.append(
            (
                "The number of CPUs per process differs between machines.",
                "Under the preset a process has different numbers of CPUs on these machines: the comparison "
                "is per process, not per core.",
            )
        )
    for label, differs in offer.refused:
        reason = f"Left out: {label}, because its preset of that name has other settings ({differs})."
        results.append((f"Left out, because its preset differs: {label}.", reason))
    if offer.beyond:
        results.append((f"{offer.beyond:,} more: choose one as the reference to see it.", ""))
    return results
