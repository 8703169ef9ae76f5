"""The same suite across machines, normalised to one, and what a sample costs on each."""

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
    """The metric that the address names on every hardware, and what it costs there."""
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

    imported = load.imported_metrics(url) if from_files else {}
    query = page_context.complete_query(
        address, HardwareView.context, lambda query: _chosen(url, query, imported)[2]
    )
    chosen, offer, complaints = _chosen(url, query, imported)
    parts.complain(complaints)
    metric = imported.get(chosen.metric) or wording.metric(chosen.metric)
    with page_context.bar("/compare", address, query):
        parts.select("PyTorch", "version", view.versions(offer), chosen)
        parts.select("Metric", "metric", view.metrics(chosen.metric, imported), chosen)
    with st.container(horizontal=True, vertical_alignment="bottom"):
        parts.select("Preset", "preset", _presets(url, offer), chosen)
        parts.select("Reference", "to", wording.hardware_choices(offer.hardware), chosen)
    if last(address, "to") is None and _shares_most(url, chosen, offer):
        parts.caption("The reference is the hardware with most cases that others have too.")
    if from_files:
        parts.caption("Imported from other tools. A hint, not a verdict.", "How they measured is not known.")
    _sections(settings, chosen, offer, metric)
    parts.permanent_link(chosen.address)


def _presets(url: str, offer: HardwareChoices) -> dict[str, str]:
    """The presets on offer, then those of the runs that are not shown: our own, or those of files."""
    own = (place.preset_name for place in pages.measured_places(url))
    files = (key.preset_name for key in load.imported_keys(url))
    return {name: name for name in (*offer.presets, *own, *files)}


def _shares_most(url: str, chosen: HardwareView, offer: HardwareChoices) -> bool:
    """Whether the reference shares more cases with other hardware than some other does, and none more."""
    shared = load.shared_cases(url, chosen.metric)
    own, *others = (shared.get(side.hardware, 0) for side in offer.sides)
    return own >= max(others, default=own) and own > min(others, default=own)


def _sections(settings: ServerSettings, chosen: HardwareView, offer: HardwareChoices, metric: Metric) -> None:
    """What is compared, and what it costs where throughput was measured."""
    url, prices = settings.database_url, view.prices(offer, chosen, settings.prices.per_hour)
    rates = load.columns(url, "throughput", chosen.version, offer.sides)
    _cheapest(rates, prices)
    columns = load.columns(url, chosen.metric, chosen.version, offer.sides)
    if columns[0].cells:
        _comparison(columns, metric, chosen, offer, (prices, settings.prices.currency))
    else:
        of = "" if chosen.version == NEWEST else f" of torch {chosen.version}"
        missing = f"There is no {metric.title.lower()}{of} on {columns[0].label}"
        parts.caption(parts.plain(f"{missing}: choose another metric or reference."))
    if metric.name in METRICS or any(column.cells for column in rates):
        _cost(rates, prices, settings.prices.currency, offer.sides[0].name)


def _chosen(
    url: str, query: Query, imported: Mapping[str, Metric]
) -> tuple[HardwareView, HardwareChoices, list[str]]:
    """The selection of a query, what else is on offer, and complaints."""
    version, metric = last(query, "version"), view.chosen_metric(query, imported, [])
    shared = load.shared_cases(url, metric)
    if not imported:
        return view.hardware(query, pages.measured_places(url), load.spread(url, version), shared)
    return view.hardware(
        query, load.imported_places(url, metric), load.spread(url, version, metric), shared, imported
    )


def _comparison(
    columns: Sequence[HardwareColumn],
    metric: Metric,
    chosen: HardwareView,
    offer: HardwareChoices,
    prices: tuple[Mapping[str, float], str],
) -> None:
    """The hardware against the reference, the first of `columns`: overall, as a chart, case by case.

    `prices` of an hour of all of a hardware, by its fingerprint, and their currency.
    """
    found = [normalisation.overall(column, columns[0], metric.better) for column in columns]
    threshold = normalisation.threshold(columns, metric.name)
    table = tables.means(columns, found, metric, threshold, prices)
    about = _how_to_read(columns, metric, chosen)
    parts.heading(f"{metric.title}, normalised", table, f"hardware-{metric.name}.csv", about)
    for warning, reason in _warnings(columns, found, offer):
        parts.caption(parts.plain(warning), parts.plain(reason))
    parts.table(table)
    if len(columns) > 1:
        _chart(columns, found, metric, threshold)
    _case_by_case(columns, metric, threshold)
    left_out, name = tables.left_out(columns[1:], found[1:]), f"hardware-{metric.name}-left-out.csv"
    if left_out.rows:
        parts.heading("Left out of the geomeans, and why", left_out, name)
        with parts.expander(wording.plural(len(left_out.rows), "case")):
            parts.table(left_out)


def _chart(
    columns: Sequence[HardwareColumn], found: Sequence[Overall], metric: Metric, threshold: float
) -> None:
    drawn = charts.overall(columns, found, threshold)
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
    ratios = "First the number, then the ratio to the reference: above 1× is better."
    # Metrics of other tools come without a meaning.
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
    """What the same items cost on one hardware against another, where two prices are known.

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
    """What a million items cost where a price is known; `columns` hold the throughput in items/s.

    `example` is the label of some hardware, to show how a price is given.
    """
    priced = [column for column in columns if column.hardware in prices]
    if not priced:
        _without_prices(example)
        return
    parts.heading(
        "Cost per 1 M items",
        lambda: charts.costs(priced, prices, currency),
        "hardware-cost.csv",
    )
    parts.caption(
        parts.plain(f"In {currency} of the GPUs that a case uses; lower is better."),
        "Price of a GPU-hour × GPUs of the case / 3600 s / throughput in items/s × 1,000,000. A price is "
        "given for an hour of the whole machine; a GPU-hour is that price / its GPUs. A case uses one GPU "
        "per rank. Without GPUs it is charged the whole machine. An item is what the workload counts: an "
        "image, a token.",
    )
    columns_text = [tables.price_label(column, prices[column.hardware], currency) for column in priced]
    parts.caption(parts.plain(f"{'; '.join(columns_text)}."))
    parts.table(tables.costs(priced, prices, currency))


def _without_prices(example: str) -> None:
    parts.heading("Cost per 1 M items")
    parts.caption(
        "Needs the price of an hour of the whole machine, in `pyrometer.toml`:",
        "All GPUs of the machine together. The address may name a price too, as `price=LABEL:2.5`.",
    )
    # As a basic string of TOML is written; a label may hold anything.
    label = example.replace("\\", "\\\\").replace('"', '\\"')
    parts.code(f'[prices]\ncurrency = "USD"\nper_hour = {{ "{label}" = 2.5 }}')


def _how_to_read(columns: Sequence[HardwareColumn], metric: Metric, chosen: HardwareView) -> str:
    what = "the newest point of each case" if chosen.version == NEWEST else f"torch {chosen.version}"
    sentence = f"{metric.title} of {what} under preset {chosen.preset}"
    if any(cell.of == "run" for column in columns for cell in column.cells.values()):
        sentence += ", over several runs the median of their points, one for each environment that has it"
    if len(columns) > 1:
        sentence += (
            f", relative to {columns[0].label}: above 1× is better, whichever way the metric "
            "goes. Geomean over the cases that both have, each counting once. These ratios are made across "
            f"runs, which were not interleaved: ▲ and ▼ stand only beyond "
            f"{wording.percent(normalisation.threshold(columns, metric.name))}"
        )
    sentence += "."
    noise = normalisation.noise(columns)
    if noise is None:
        none = "No PyTorch was measured twice on one hardware here: the noise between runs is not known."
        return f"{sentence} {none}" if len(columns) > 1 else sentence
    share, series = noise
    return (
        f"{sentence} Noise between runs here: points of one PyTorch on one hardware lie "
        f"{wording.percent(share)} "
        f"apart from the least to the most (median, {series:,} series)."
    )


def _warnings(
    columns: Sequence[HardwareColumn], means: Sequence[Overall], offer: HardwareChoices
) -> list[tuple[str, str]]:
    """What is unlike between the machines, or is not there, each with what is behind it."""
    found: list[tuple[str, str]] = []
    if len(columns) == 1:
        found.append(
            (
                "Only one hardware was measured under this preset: nothing to compare.",
                "Other machines join by storing into the same database, or by export and import.",
            )
        )
    builds = {cell.torch_version for column in columns for cell in column.cells.values()}
    if len(builds) > 1 and len(set(map(strip_device, builds))) == 1:
        found.append(
            (
                "Builds differ between the machines.",
                f"Each machine has a build of its own of that release ({', '.join(sorted(builds))}): what a "
                "build was made for, as its CUDA, is part of these ratios.",
            )
        )
    elif len(builds) > 1:
        found.append(
            (
                "Not all of these points are of one PyTorch.",
                "Such a ratio is of the machine and of PyTorch together. Choose a version that they share, "
                "where there is one.",
            )
        )
    cells = [cell for column in columns for cell in column.cells.values()]
    if len({harness for cell in cells for harness in cell.harnesses}) > 1:
        several = any(len(cell.harnesses) > 1 for cell in cells)
        runs = " Medians over runs may hold runs of several." if several else ""
        found.append(
            (
                "Not all of these points were measured by one harness.",
                f"How a case is measured may have changed between them; the CSV file names each.{runs}",
            )
        )
    others = [column for column, mean in zip(columns[1:], means[1:], strict=True) if mean.n]
    if len({column.cpus for column in (columns[0], *others)} - {None}) > 1:
        found.append(
            (
                "A process has not the same number of CPUs on all machines.",
                "The preset does not give a process the same number of CPUs on all of these machines: what "
                "is compared is a process as it runs there, and not a core.",
            )
        )
    for label, differs in offer.refused:
        reason = f"Left out: {label}, whose preset of that name has other settings ({differs})."
        found.append((f"Left out, for its preset differs: {label}.", reason))
    if offer.beyond:
        found.append((f"{offer.beyond:,} more: choose one as the reference to see it.", ""))
    return found
