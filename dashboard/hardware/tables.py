"""The Hardware page's tables."""

from collections.abc import Callable, Collection, Mapping, Sequence
from html import escape

from analysis.metrics import Metric
from dashboard.components import links, markup, wording
from dashboard.hardware import normalisation
from dashboard.hardware.charts import times
from dashboard.hardware.normalisation import HardwareColumn, HardwareValue, Overall
from interchange.foreign_runs import is_undated
from reports.table import Column, DataTable
from reports.tables import reason_text

#: The most rows; the CSV files have all.
MOST_CASES, MOST_LEFT_OUT = 150, 30

#: A hardware with its geomean over the cases that it shares with the reference.
Mean = tuple[HardwareColumn, Overall]


def means(
    columns: Sequence[HardwareColumn],
    means: Sequence[Overall],
    metric: Metric,
    threshold: float,
    prices: tuple[Mapping[str, float], str],
) -> DataTable[Mean]:
    """A row for each hardware; the first of `columns` is the reference.

    Differences below the `threshold` have no direction. `prices` are per hour of a whole hardware, by its
    fingerprint, with their currency; without prices there is no such column.
    """
    reference, (per_hour, currency) = columns[0], prices

    def cell_text(
        of_other: Callable[[Overall], str], of_reference: str = wording.NONE
    ) -> Callable[[Mean], str]:
        return lambda row: of_reference if row[0] is reference else of_other(row[1])

    def several(texts: Callable[[HardwareValue], Sequence[str]]) -> Callable[[Mean], str]:
        return lambda row: _several({each for cell in row[0].cells.values() for each in texts(cell)})

    price: Column[Mean] = Column(
        "",
        f"Price ({currency} per GPU-hour)",
        html=lambda row: _gpu_hour(row[0], per_hour.get(row[0].hardware)),
        number=True,
    )
    ratio = cell_text(lambda mean: f"<strong>{times(mean.ratio, threshold)}</strong>", "reference")
    columns_shown: list[Column[Mean]] = [
        Column("hardware", "Hardware", lambda row: row[0].label, html=lambda row: _strong(row[0].label)),
        Column("metric", value=lambda _: metric.name),
        Column("geomean", "Geomean (×, higher is better)", lambda row: row[1].ratio, html=ratio, number=True),
        Column("to", value=lambda _: reference.label),
        Column("cases", "Cases", lambda row: row[1].n, lambda row: f"{_many(row, reference):,}", number=True),
        Column("smallest", value=lambda row: row[1].smallest),
        Column("largest", value=lambda row: row[1].largest),
        Column("", "Min-max", format=cell_text(_reach), number=True),
        *([price] if per_hour else []),
        Column(
            "left_out",
            "Left out",
            lambda row: len(row[1].left_out),
            cell_text(lambda mean: f"{len(mean.left_out):,}"),
            number=True,
        ),
        Column("", "CPUs of a process", format=_cpus, number=True),
        Column("", "PyTorch", format=several(lambda cell: [cell.torch_version])),
        Column(
            "",
            "Harness",
            format=several(lambda cell: [each[: links.FINGERPRINT] for each in cell.harnesses]),
        ),
        Column("", "Measured", format=_newest_time),
    ]
    return DataTable("Hardware, normalised", columns_shown, list(zip(columns, means, strict=True)))


def _strong(text: str) -> str:
    return f"<strong>{escape(text)}</strong>"


def _cpus(row: Mean) -> str:
    """The number of CPUs of a process; unknown for files of other tools."""
    return wording.NONE if row[0].cpus is None else f"{row[0].cpus or 'not pinned'}"


def _many(row: Mean, reference: HardwareColumn) -> int:
    return len(row[0].cells) if row[0] is reference else row[1].n


def _reach(mean: Overall) -> str:
    if mean.smallest is None or mean.largest is None:
        return wording.NONE
    return f"{wording.significant(mean.smallest)}× to {wording.significant(mean.largest)}×"


def _newest_time(row: Mean) -> str:
    newest = max(row[0].cells.values(), key=lambda cell: cell.measured_at, default=None)
    return wording.NONE if newest is None else wording.run_time(newest.run, newest.measured_at)


def cases(columns: Sequence[HardwareColumn], metric: Metric, threshold: float) -> DataTable[str]:
    """Every case on the hardware that has any, absolute and as a ratio to the first.

    Differences below the `threshold`, or below the noise of the case, have no direction.
    """
    reference, names = columns[0], _most_shared(columns)
    columns = [column for column in columns if column is reference or column.cells]
    unit = f" ({metric.unit})" if metric.unit else ""
    common = wording.common_parameters(names[:MOST_CASES])
    every = [_measured_how(cell) for column in columns for cell in column.cells.values()]
    shared = [each for each in every[0] if all(each in other for other in every)] if every else []

    def of(column: HardwareColumn) -> Column[str]:
        ratios = {} if column is reference else normalisation.ratios(column, reference, metric.better)

        def cell(case: str) -> str:
            both = column.cells.get(case), reference.cells.get(case)
            return _cell(*both, ratios.get(case), metric, threshold, shared)

        return Column("", f"{column.label}{unit}", html=cell, number=True)

    first: Column[str] = Column("", "Case", html=lambda case: markup.case(case, common))
    about = " ".join(
        filter(None, (wording.all_cases(common), f"Each: {', '.join(shared)}." if shared else ""))
    )
    return DataTable("Case by case", [first, *map(of, columns)], names, MOST_CASES, dense=True, about=about)


def left_out(columns: Sequence[HardwareColumn], means: Sequence[Overall]) -> DataTable[tuple[str, str, str]]:
    """The cases that are not in a geomean, with the hardware and the reason."""
    rows = [
        (case, column.label, reason)
        for column, mean in zip(columns, means, strict=True)
        for case, reason in mean.left_out
    ]
    columns_shown: list[Column[tuple[str, str, str]]] = [
        Column("case", "Case", lambda row: row[0], html=lambda row: markup.case(row[0])),
        Column("hardware", "Hardware", lambda row: row[1]),
        Column("reason", "Why", lambda row: row[2], lambda row: reason_text(row[2])),
    ]
    return DataTable("Left out", columns_shown, rows, MOST_LEFT_OUT)


def costs(columns: Sequence[HardwareColumn], prices: Mapping[str, float], currency: str) -> DataTable[str]:
    """The cost of a million items, by case and hardware with a price; `columns` hold the throughput."""

    def of(column: HardwareColumn) -> Column[str]:
        price = prices[column.hardware]
        return Column("", column.label, html=lambda case: _cost(column, case, price), number=True)

    priced_columns = [column for column in columns if column.hardware in prices]
    label = f"Cost per 1 M items ({currency}, lower is better)"
    first: Column[str] = Column("", "Case", html=markup.case)
    items = [first, *map(of, priced_columns)]
    return DataTable(label, items, _most_shared(priced_columns), MOST_CASES)


def price_label(column: HardwareColumn, price: float, currency: str) -> str:
    """A hardware with its price per hour, and the price per GPU-hour if it has several."""
    title = f"{column.label}, at {price:g} {currency}/h"
    if column.gpus < 2:
        return title
    return f"{title} = {wording.significant(price / column.gpus)} {currency} per GPU-hour"


def _gpu_hour(column: HardwareColumn, price: float | None) -> str:
    """The price of a GPU-hour; for hardware without GPUs that of an hour of the whole hardware."""
    if price is None:
        return wording.NONE
    share = wording.significant(price / max(column.gpus, 1))
    return escape(share) + ("" if column.gpus else "<small>whole machine</small>")


def _cost(column: HardwareColumn, case: str, price: float) -> str:
    cell = column.cells.get(case)
    result = None if cell is None else normalisation.cost(price, cell.value, column.share(case))
    if cell is None or result is None:
        return wording.NONE
    about = f"{wording.quantity(cell.value, 'items/s')}, {wording.plural(cell.n, cell.of)}"
    if column.gpus:
        about += f", {column.used_gpus(case):,} of {wording.plural(column.gpus, 'GPU')}"
    return f"{escape(wording.significant(result))}<small>{escape(about)}</small>"


def _cell(
    cell: HardwareValue | None,
    reference: HardwareValue | None,
    ratio: float | None,
    metric: Metric,
    threshold: float,
    common: Collection[str],
) -> str:
    """A value with its ratio and, in small, the properties that are not in `common`, which is above the
    table.
    """
    if cell is None:
        return wording.NONE
    value = markup.link(links.run(cell.run), wording.number(cell.value, metric.unit))
    about = [each for each in _measured_how(cell) if each not in common]
    # The two are different and must not have the same word.
    if reference is not None and cell.torch_version != reference.torch_version:
        about.append(f"torch {cell.torch_version or wording.NONE}")
    if reference is not None and set(cell.harnesses) != set(reference.harnesses):
        apart = set(cell.harnesses).isdisjoint(reference.harnesses)
        about.append("other harness" if apart else "harness partly another")
    noise = max(threshold, *(each.apart or 0.0 for each in (cell, reference) if each is not None))
    times_as_good = "" if ratio is None else f" <strong>{escape(times(ratio, noise))}</strong>"
    small = f"<small>{escape(', '.join(about))}</small>" if about else ""
    return f"{value}{times_as_good}{small}"


def _measured_how(cell: HardwareValue) -> list[str]:
    """The number of replicates or runs of a value, and its day."""
    day = [] if is_undated(cell.run) else [f"{cell.measured_at:%Y-%m-%d}"]
    return [wording.plural(cell.n, cell.of), *day]


def _most_shared(columns: Sequence[HardwareColumn]) -> list[str]:
    """Cases in the order of the number of hardware that has them, then by name."""
    many: dict[str, int] = {}
    for column in columns:
        for case in column.cells:
            many[case] = many.get(case, 0) + 1
    return sorted(many, key=lambda case: (-many[case], case))


def _several(values: set[str]) -> str:
    texts = sorted(value for value in values if value)
    if len(texts) > 2:
        return f"{texts[0]} and {len(texts) - 1} more"
    return ", ".join(texts) or wording.NONE
