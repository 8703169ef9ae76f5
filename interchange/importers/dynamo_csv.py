"""CSV tables of PyTorch's own benchmarks: what dynamo's runner writes, and the targets kept with it."""

import csv
import io
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from records.outcomes import OutcomeStatus

from ..errors import BadFile, SourcePlace
from ..foreign_runs import Failure, ForeignOrigin, Point, RunAccumulator, case_key
from ..runs import ImportBatch, ImportProblem
from ..source_file import Value, head, identity_of_table, made_at, number_in, number_or_none, text_of
from ..units import slug
from .dynamo_table import (
    ABOUT,
    AS_GIVEN,
    COLUMNS,
    TARGET,
    DynamoColumn,
    DynamoRow,
    DynamoTable,
    TableFileName,
    column_of,
    is_target,
    kind_of,
    status_of,
    table_of,
)

NAME = "dynamo-csv"
TITLE = "tables of PyTorch's benchmarks/dynamo (CSV)"

#: As PyTorch spells it, and as it would be right.
_MODULES = ("Benchamrking Module Name", "Benchmarking Module Name")
_TIME = "Execution Time"
#: Columns that are no measurement, or that are taken by themselves.
_NO_NUMBERS = frozenset(
    {*ABOUT, *_MODULES, _TIME, "accuracy", "Benchmarking Framework", "Case Name", "run_backward"}
)
#: Hand-kept expectations are never one series with what was measured.
_TARGET_PREFIX = "dynamo.target."
#: More reasons of graph breaks than this are counted and not kept.
_MOST_REASONS = 1000
_LONGEST_REASON = 300


@dataclass(slots=True)
class _HardwareResults:
    """What a table holds, for one hardware."""

    hardware: str = "unknown"
    points: list[Point] = field(default_factory=list[Point])
    failures: list[Failure] = field(default_factory=list[Failure])
    cases: set[str] = field(default_factory=set[str])
    problems: list[ImportProblem] = field(default_factory=list[ImportProblem])
    facts: dict[str, Any] = field(default_factory=dict[str, Any])

    def aside(self, place: SourcePlace, sentence: str) -> None:
        self.problems.append(ImportProblem(place, sentence))

    def again(self, case: str, place: SourcePlace) -> bool:
        """Whether an earlier row was about this case: then this one is set aside."""
        if case in self.cases:
            self.aside(place, f"{case} is there twice; the first row counts")
            return True
        self.cases.add(case)
        return False


def knows(path: Path) -> bool:
    """Whether a file's first row is that of one of the tables."""
    if path.suffix != ".csv":
        return False
    try:
        for row in csv.reader(io.StringIO(head(path), newline="")):
            cells = tuple(cell.strip() for cell in row)
            if any(cells):
                return kind_of(cells, path.stem) is not None
    except csv.Error:
        return False
    return False


def read_runs(path: Path) -> ImportBatch:
    """The runs of one table, one for each hardware it is about; raises BadFile."""
    text = text_of(path)
    table = table_of(text, path)
    name = TableFileName.of(path)
    accumulator = RunAccumulator(NAME)
    for problem in table.problems:
        accumulator.aside(problem.place, problem.sentence)
    for found in _READERS[table.kind](table, name):
        for problem in found.problems:
            accumulator.aside(problem.place, problem.sentence)
        origin = _origin(path, text, table, name, found)
        accumulator.add(origin, SourcePlace(path.name), found.points, found.failures)
    return accumulator.build_batch(SourcePlace(path.name))


def _origin(
    path: Path, text: str, table: DynamoTable, name: TableFileName, found: _HardwareResults
) -> ForeignOrigin:
    started, note, dated = made_at(path)
    parts = ("dynamo", name.suite or table.kind, *(("targets",) if is_target(table, name) else ()))
    return ForeignOrigin(
        format=NAME,
        suite=".".join(dict.fromkeys(parts)),
        started_at=started,
        dated=dated,
        # Two tables of one content are two where their names say that they are about different things.
        identity=f"{identity_of_table(path, text, dated=dated)} {name}",
        hardware=name.on(found.hardware),
        facts={"file": path.name, "table": table.kind, "notes": [note], **found.facts},
    )


def _each_row(
    table: DynamoTable,
    found: _HardwareResults,
    case_of: Callable[[DynamoRow], str],
    take: Callable[[DynamoRow, str], None],
) -> list[_HardwareResults]:
    """Take row by row, the first of each case; a bad one is set aside, a disabled one was skipped."""
    for row in table.rows:
        try:
            if row.disabled and len(row.cells) < 2:
                raise BadFile(row.place, "is a remark")
            case = case_of(row)
            if found.again(case, row.place):
                continue
            if row.disabled:
                found.failures.append(Failure(case, OutcomeStatus.SKIPPED, "its row is disabled by `#`"))
            else:
                take(row, case)
        except BadFile as error:
            found.aside(error.place, error.sentence)
    return [found]


def _performance(table: DynamoTable, name: TableFileName) -> list[_HardwareResults]:
    found = _HardwareResults()
    prefix = _prefix(table, name)

    def take(row: DynamoRow, case: str) -> None:
        headline = [row.cells[column] for column in ("speedup", "abs_latency") if column in row.cells]
        if any((number_or_none(cell) or 0.0) > 0 for cell in headline):
            _numbers(row, case, prefix, found, name.device_of(row))
            return
        word = next((cell.text() for cell in headline if status_of(cell.text())), "")
        reason = word or "its row has neither a speed-up nor a latency"
        _add_failure(row, case, status_of(word) or OutcomeStatus.CRASHED, reason, found)

    return _each_row(table, found, name.case, take)


def _accuracy(table: DynamoTable, name: TableFileName) -> list[_HardwareResults]:
    found = _HardwareResults()
    prefix = _prefix(table, name)

    def take(row: DynamoRow, case: str) -> None:
        word = row.need("accuracy")
        status = status_of(word)
        if status is None:
            raise row.cells["accuracy"].wrong("a word for how the check ended")
        if status == OutcomeStatus.OK:
            found.failures.append(Failure(case, status, word))
            _numbers(row, case, prefix, found)
        else:
            _add_failure(row, case, status, word, found)

    return _each_row(table, found, name.case, take)


def _compilation(table: DynamoTable, name: TableFileName) -> list[_HardwareResults]:
    found = _HardwareResults()
    return _each_row(table, found, name.case, lambda row, case: _numbers(row, case, "dynamo.compile.", found))


def _graph_breaks(table: DynamoTable, name: TableFileName) -> list[_HardwareResults]:
    """Each row is one break; the user's stack is not taken."""
    reasons: dict[str, Counter[str]] = {}
    places: dict[str, SourcePlace] = {}
    found = _HardwareResults()
    for row in table.rows:
        try:
            model = row.need("model")
        except BadFile as error:
            found.aside(error.place, error.sentence)
            continue
        places.setdefault(model, row.place)
        reasons.setdefault(model, Counter())[row.text("reason") or ""] += 1
    about = DynamoColumn("count", "lower", "Rows in the table of graph breaks")
    for model, own in reasons.items():
        case = name.key(DynamoRow(places[model], {}), model)
        _point(float(own.total()), places[model], case, "dynamo.graph_break_rows", about, found)
    counts = [[model, text[:_LONGEST_REASON], n] for model, own in reasons.items() for text, n in own.items()]
    found.facts["reasons"] = counts[:_MOST_REASONS]
    found.facts["reasons_left_out"] = max(0, len(counts) - _MOST_REASONS)
    return [found]


def _operators(table: DynamoTable, name: TableFileName) -> list[_HardwareResults]:
    found = _HardwareResults()
    prefix = _prefix(table, name)
    time = DynamoColumn("µs", "lower", "Time of one call, by operator_benchmark", True)

    def case_of(row: DynamoRow) -> str:
        backward = (row.text("run_backward") or "").lower() == "true"
        about = {
            "framework": row.text("Benchmarking Framework"),
            "module": next((text for column in _MODULES if (text := row.text(column))), None),
            "tag": row.text("tag"),
            "direction": "backward" if backward else "forward",
            "precision": name.precision,
            "device": name.device,
            **name.others(),
        }
        return case_key(row.need("Case Name"), "call", about)

    def take(row: DynamoRow, case: str) -> None:
        row.need(_TIME)
        _number(row.cells[_TIME], case, f"{prefix}operator_time", time, found)
        _numbers(row, case, f"{prefix}operator.", found)

    return _each_row(table, found, case_of, take)


def _targets(table: DynamoTable, name: TableFileName) -> list[_HardwareResults]:
    """One run for each machine that has a column of targets."""

    def case_of(row: DynamoRow) -> str:
        more = {
            "precision": row.text("data_type"),
            "shapes": row.text("shape"),
            "wrapper": row.text("wrapper"),
        }
        return name.key(row, row.need("name"), {key: value for key, value in more.items() if value})

    every: list[_HardwareResults] = []
    for column in dict.fromkeys(column for column in table.header if column.startswith(TARGET)):
        found = _HardwareResults(hardware=column.removeprefix(TARGET) or "unknown")

        def take(row: DynamoRow, case: str, column: str = column, found: _HardwareResults = found) -> None:
            row.need(column)
            _number(row.cells[column], case, "dynamo.target.speedup", COLUMNS["speedup"], found)

        every += _each_row(table, found, case_of, take)
    return every


def _instructions(table: DynamoTable, name: TableFileName) -> list[_HardwareResults]:
    found = _HardwareResults()

    def case_of(row: DynamoRow) -> str:
        about = {"benchmark": "pr_time_benchmarks", "counted": row.need("metric"), **name.others()}
        return case_key(row.need("name"), "call", about)

    def take(row: DynamoRow, case: str) -> None:
        metric = row.need("metric")
        row.need("expected")
        unit = "instructions" if metric.endswith("instruction_count") else AS_GIVEN
        counted = DynamoColumn(unit, "neither" if unit == AS_GIVEN else "lower", metric, True)
        target = f"dynamo.target.{slug(metric) or 'value'}"
        _number(row.cells["expected"], case, target, counted, found)
        if margin := row.cells.get("noise_margin"):
            about = DynamoColumn("share", "neither", f"Noise that is allowed for {metric}")
            _number(margin, case, f"{target}.margin", about, found)

    return _each_row(table, found, case_of, take)


_READERS: dict[str, Callable[[DynamoTable, TableFileName], list[_HardwareResults]]] = {
    "performance": _performance,
    "accuracy": _accuracy,
    "compilation": _compilation,
    "graph_breaks": _graph_breaks,
    "operators": _operators,
    "targets": _targets,
    "instructions": _instructions,
}


def _prefix(table: DynamoTable, name: TableFileName) -> str:
    return _TARGET_PREFIX if is_target(table, name) else "dynamo."


def _add_failure(
    row: DynamoRow, case: str, status: OutcomeStatus, reason: str, found: _HardwareResults
) -> None:
    """A model without a valid answer has no measurements: what its row says beyond noughts is set aside."""
    found.failures.append(Failure(case, status, reason))
    for column, cell in row.cells.items():
        if column not in _NO_NUMBERS and cell.text() != reason and number_or_none(cell) != 0:
            found.aside(cell.place, f"{cell.text()[:60]} is of a model that ended as {status}")


def _numbers(
    row: DynamoRow, case: str, prefix: str, found: _HardwareResults, device: str | None = None
) -> None:
    """The measurements of a row: every column that does not say which case it is."""
    for column, cell in row.cells.items():
        if column not in _NO_NUMBERS:
            unknown = DynamoColumn(AS_GIVEN, "neither", f"{column}, in the table's unit")
            about = column_of(column, device) or unknown
            metric = prefix + (about.name or slug(column) or "value")
            _number(cell, case, metric, about, found)


def _number(cell: Value, case: str, metric: str, column: DynamoColumn, found: _HardwareResults) -> None:
    try:
        value = number_in(cell)
    except BadFile as error:
        found.aside(error.place, error.sentence)
        return
    if column.positive and value <= 0:
        found.aside(cell.place, f"{cell.text()} is no measurement")
        return
    _point(value / column.divisor, cell.place, case, metric, column, found)


def _point(
    value: float, place: SourcePlace, case: str, metric: str, column: DynamoColumn, found: _HardwareResults
) -> None:
    title = f"Target: {column.title}" if metric.startswith(_TARGET_PREFIX) else column.title
    found.points.append(
        Point(
            case=case,
            metric=metric,
            unit=column.unit,
            better=column.better,
            values=(value,),
            place=place,
            title=title,
        )
    )
