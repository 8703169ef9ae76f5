"""The metrics of optimum-benchmark: of the blocks of a report, and of the columns of a 2023 table."""

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass

from analysis.metrics import Better
from interchange.accumulator import Gathered
from interchange.errors import BadFile
from interchange.foreign_runs import Point, slug
from interchange.reading import At, number_in
from interchange.units import unit_slug

#: Targets that are the step itself: their median is the latency of the case.
_STEPS = ("forward", "call", "train")
#: The statistics of a latency block. Its total is its mean by its count, which is no metric: time sets it.
_LATENCIES = ("mean", "p50", "p90", "p95", "p99", "stdev")
#: Those that our catalogue knows under a name of its own.
_OF_A_STEP = {"p50": "latency", "p90": "latency_p90"}
#: The unit that a block must have, for the unit is not part of its metrics' names.
_UNITS = {"latency": "s", "memory": "MB", "energy": "kWh"}

_COLUMN = re.compile(r"(\w+)\.(\w+)\(([^()]+)\)")
#: Units as 2023 spelled them.
_SPELLED = {"samles/s": "samples/s", "tok/s": "tokens/s"}


@dataclass(frozen=True, slots=True)
class _Value:
    """A number with the metric it is one of."""

    at: At
    metric: str
    unit: str
    title: str
    better: Better = "lower"
    factor: float = 1.0


def of_report(gathered: Gathered, case: str, report: At) -> Iterator[Point]:
    """The points of a report's targets; a number that is none, or in an unknown unit, is set aside."""
    for target, blocks in report.object().items():
        if blocks.value is None:
            continue
        try:
            members = blocks.object()
        except BadFile as error:
            gathered.refuse(error)
            continue
        for name, block in members.items():
            if block.value is None:
                continue
            try:
                values = list(_values(target, name, block))
            except BadFile as error:
                gathered.refuse(error)
                continue
            for value in values:
                yield from _points(gathered, case, value)


def iterations(report: At) -> dict[str, int]:
    """How many values each target's statistics are of."""
    found: dict[str, int] = {}
    for target, blocks in report.object().items():
        latency = blocks.get("latency") if isinstance(blocks.value, dict) else None
        count = latency.get("count") if latency and isinstance(latency.value, dict) else None
        if count and isinstance(count.value, int):
            found[target] = count.value
    return found


def of_row(gathered: Gathered, case: str, row: Mapping[str, At]) -> Iterator[Point]:
    """The points of a row: its columns such as `forward.latency(s)`."""
    for column, cell in row.items():
        match = _COLUMN.fullmatch(column)
        if match is None:
            continue
        try:
            at = At(number_in(cell), cell.place)
        except BadFile as error:
            gathered.refuse(error)
            continue
        target, quantity, unit = match[1], match[2], _SPELLED.get(match[3], match[3])
        if unit not in ("s", "MB") and quantity != "throughput":
            # Such as the speed-up in % that tables for charts have beside what was measured.
            gathered.aside(cell.place, f"is in {unit}: what these tables measure is in s, MB or per second")
            continue
        yield from _points(gathered, case, _of_column(at, target, quantity, unit))


def _of_column(at: At, target: str, quantity: str, unit: str) -> _Value:
    if quantity == "throughput":
        return _Value(at, _metric(target, unit_slug(unit)), unit, f"{target}: {unit} of the mean", "higher")
    if unit == "MB":
        return _Value(at, _metric(target, quantity), unit, _memory(target, quantity))
    # A latency is a mean, which these tables give in three digits.
    name, title = ("latency_mean", "latency, mean") if quantity == "latency" else (quantity, quantity)
    return _Value(at, _metric(target, name), unit, f"{target}: {title}")


def _values(target: str, name: str, block: At) -> Iterator[_Value]:
    if name not in ("latency", "memory", "throughput", "energy", "efficiency"):
        raise BadFile(block.place, "is no block of a report that is known")
    unit = block.need("unit").text()
    if unit != _UNITS.get(name, unit):
        raise block.need("unit").wrong(f'"{_UNITS[name]}"')
    if name in ("throughput", "efficiency"):
        title = f"{target}: {unit} of the mean" if name == "throughput" else f"{target}: {unit}"
        yield _Value(block.need("value"), _metric(target, unit_slug(unit)), unit, title, "higher")
        return
    for field, at in block.object().items():
        if at.value is None:
            continue
        if name == "latency" and field in _LATENCIES:
            yield _latency(at, target, field)
        elif name == "memory" and field.startswith("max_"):
            yield _Value(at, _metric(target, field), unit, _memory(target, field))
        elif name == "energy" and field != "unit":
            yield _Value(at, _metric(target, f"energy_{field}"), unit, f"{target}: energy, {field}")


def _latency(at: At, target: str, field: str) -> _Value:
    if target in _STEPS and field in _OF_A_STEP:
        return _Value(at, _OF_A_STEP[field], "ms", "", factor=1e3)
    return _Value(at, _metric(target, f"latency_{field}"), "s", f"{target}: latency, {field}")


def _memory(target: str, field: str) -> str:
    return f"{target}: {field.replace('_', ' ')} (1 MB = 1e6 bytes)"


def _metric(target: str, name: str) -> str:
    return f"optimum.{slug(target)}.{slug(name)}"


def _points(gathered: Gathered, case: str, value: _Value) -> Iterator[Point]:
    try:
        # What is finite in seconds need not be so in milliseconds.
        number = At(value.at.number() * value.factor, value.at.place).number()
    except BadFile as error:
        gathered.refuse(error)
        return
    yield Point(
        case=case,
        metric=value.metric,
        unit=value.unit,
        better=value.better,
        values=(number,),
        place=value.at.place,
        title=value.title,
    )
