"""The Hardware page's tables; every text from the database is escaped."""

from collections.abc import Mapping, Sequence
from html import escape

from analysis.metrics import Metric
from dashboard.components import links, markup, wording
from dashboard.hardware import normalised
from dashboard.hardware.charts import times
from dashboard.hardware.normalised import HardwareColumn, HardwareValue, Overall

#: Rows at most; the CSV files have all.
MOST_CASES, MOST_LEFT_OUT = 150, 30


def means(
    columns: Sequence[HardwareColumn],
    found: Sequence[Overall],
    threshold: float,
    prices: Mapping[str, float],
    currency: str,
) -> str:
    """A row for each hardware: its geomean over the cases that it shares with the reference, the first.

    What differs by less than the `threshold` has no direction. `prices` are of an hour of all of a hardware,
    by its fingerprint; without any there is no column of prices.
    """
    price = [(f"Price ({currency} per GPU-hour)", True)] if prices else []
    heads = [
        ("Hardware", False),
        ("Geomean (×, higher is better)", True),
        ("Cases", True),
        ("Min-max", True),
        *price,
        ("Left out", True),
        ("CPUs of a process", True),
        ("PyTorch", False),
        ("Harness", False),
        ("Measured", False),
    ]
    rows: list[tuple[str, ...]] = []
    for place, (column, mean) in enumerate(zip(columns, found, strict=True)):
        cells = column.cells.values()
        newest = max((cell.measured_at for cell in cells), default=None)
        reach = wording.NONE
        if place and mean.smallest is not None and mean.largest is not None:
            reach = f"{wording.significant(mean.smallest)}× to {wording.significant(mean.largest)}×"
        rows.append(
            (
                f"<strong>{escape(column.label)}</strong>",
                f"<strong>{escape(times(mean.ratio, threshold))}</strong>" if place else "reference",
                f"{mean.n:,}" if place else f"{len(column.cells):,}",
                escape(reach),
                *([_gpu_hour(column, prices.get(column.hardware))] if prices else []),
                f"{len(mean.left_out):,}" if place else wording.NONE,
                f"{column.cpus:,}" if column.cpus else "not pinned",
                escape(_several({cell.torch_version for cell in cells})),
                escape(
                    _several({harness[: links.FINGERPRINT] for cell in cells for harness in cell.harnesses})
                ),
                escape(wording.NONE if newest is None else wording.timestamp(newest)),
            )
        )
    return markup.table("Hardware, normalised", heads, rows, folded=True)


def cases(columns: Sequence[HardwareColumn], metric: Metric, threshold: float) -> tuple[str, int]:
    """Every case on every hardware, absolute and as a ratio to the first; and how many rows were left out.

    What differs by less than the `threshold`, or than runs of the case do, has no direction.
    """
    reference = columns[0]
    others = [normalised.ratios(column, reference, metric.better) for column in columns[1:]]
    ratios: list[Mapping[str, float]] = [{}, *others]
    names = _most_shared(columns)
    unit = f" ({metric.unit})" if metric.unit else ""
    heads = [("Case", False), *((f"{column.label}{unit}", True) for column in columns)]
    common = wording.common_parameters(names[:MOST_CASES])
    rows = [
        (
            markup.case(case, common),
            *(
                _cell(
                    column.cells.get(case),
                    own.get(case) if place else None,
                    metric,
                    reference.cells.get(case),
                    threshold,
                )
                for place, (column, own) in enumerate(zip(columns, ratios, strict=True))
            ),
        )
        for case in names[:MOST_CASES]
    ]
    table = markup.table("Case by case", heads, rows, folded=True)
    return markup.all_cases(common) + table, max(0, len(names) - MOST_CASES)


def left_out(columns: Sequence[HardwareColumn], found: Sequence[Overall]) -> str:
    """What is in no geomean, and why; the first ones, and how many more there are."""
    rows = [
        (markup.case(case), escape(column.label), f'<span class="py-reason">{escape(reason)}</span>')
        for column, mean in zip(columns, found, strict=True)
        for case, reason in mean.left_out
    ]
    heads = [("Case", False), ("Hardware", False), ("Why", False)]
    rest = markup.more(len(rows) - MOST_LEFT_OUT, "more in the CSV file")
    return markup.table("Left out", heads, rows[:MOST_LEFT_OUT], folded=True) + rest


def costs(columns: Sequence[HardwareColumn], prices: Mapping[str, float], currency: str) -> tuple[str, int]:
    """What a million items cost, by case and hardware with a price; and how many rows were left out.

    `columns` hold the throughput in items/s.
    """
    priced = [column for column in columns if column.hardware in prices]
    heads = [
        ("Case", False),
        *((column.label, True) for column in priced),
    ]
    names = _most_shared(priced)
    rows = [
        (markup.case(case), *(_cost(column, case, prices[column.hardware]) for column in priced))
        for case in names[:MOST_CASES]
    ]
    label = f"Cost of a million items ({currency}, lower is better)"
    return markup.table(label, heads, rows, folded=True), max(0, len(names) - MOST_CASES)


def priced(column: HardwareColumn, price: float, currency: str) -> str:
    """A hardware with its price of an hour, and what a GPU of several is of that."""
    title = f"{column.label}, at {price:g} {currency}/h"
    if column.gpus < 2:
        return title
    return f"{title} = {wording.significant(price / column.gpus)} {currency} per GPU-hour"


def _gpu_hour(column: HardwareColumn, price: float | None) -> str:
    """What an hour of one of its GPUs costs; of hardware without GPUs, an hour of all of it."""
    if price is None:
        return wording.NONE
    share = wording.significant(price / max(column.gpus, 1))
    return escape(share) + ("" if column.gpus else "<small>whole machine</small>")


def _cost(column: HardwareColumn, case: str, price: float) -> str:
    cell = column.cells.get(case)
    found = None if cell is None else normalised.cost(price, cell.value, column.share(case))
    if cell is None or found is None:
        return wording.NONE
    about = f"{wording.quantity(cell.value, 'items/s')}, {wording.plural(cell.n, cell.of)}"
    if column.gpus:
        about += f", {column.used_gpus(case):,} of {wording.plural(column.gpus, 'GPU')}"
    return f"{escape(wording.significant(found))}<small>{escape(about)}</small>"


def _cell(
    cell: HardwareValue | None,
    ratio: float | None,
    metric: Metric,
    reference: HardwareValue | None,
    threshold: float,
) -> str:
    if cell is None:
        return wording.NONE
    value = markup.link(links.run(cell.run), wording.number(cell.value, metric.unit))
    about = [wording.plural(cell.n, cell.of), f"{cell.measured_at:%Y-%m-%d}"]
    # The same word for both would be read as the same thing.
    if reference is not None and cell.torch_version != reference.torch_version:
        about.append(f"torch {cell.torch_version}")
    if reference is not None and set(cell.harnesses) != set(reference.harnesses):
        apart = set(cell.harnesses).isdisjoint(reference.harnesses)
        about.append("other harness" if apart else "harness partly another")
    noise = max(threshold, *(each.apart or 0.0 for each in (cell, reference) if each is not None))
    times_as_good = "" if ratio is None else f" <strong>{escape(times(ratio, noise))}</strong>"
    return f"{value}{times_as_good}<small>{escape(', '.join(about))}</small>"


def _most_shared(columns: Sequence[HardwareColumn]) -> list[str]:
    """The cases that most hardware has first, then by name."""
    many: dict[str, int] = {}
    for column in columns:
        for case in column.cells:
            many[case] = many.get(case, 0) + 1
    return sorted(many, key=lambda case: (-many[case], case))


def _several(values: set[str]) -> str:
    named = sorted(value for value in values if value)
    if len(named) > 2:
        return f"{named[0]} and {len(named) - 1} more"
    return ", ".join(named) or wording.NONE
