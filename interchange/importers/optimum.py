"""optimum-benchmark: the JSON of its later versions, the folders and reports of 2023, or a tree of them."""

import os
import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from pathlib import Path

from analysis.metrics import Better
from records.outcomes import OutcomeStatus

from ..errors import BadFile, SourcePlace
from ..foreign_runs import Failure, Point, RunAccumulator
from ..runs import ImportBatch, ImportProblem
from ..source_file import Value, csv_rows, head, json_of, made_at, number_in, text_of
from ..units import slug, unit_slug
from .optimum_settings import OptimumSettings, flatten_json

NAME = "optimum"
TITLE = "optimum-benchmark reports"

_BENCHMARK, _REPORT, _CONFIG = "benchmark.json", "benchmark_report.json", "benchmark_config.json"
_HYDRA = "hydra_config.yaml"
_RESULTS = ("inference_results.csv", "training_results.csv")
#: All rows of a tree of folders with their settings, as its authors wrote them for their charts.
_SUMMARIES = ("full_report.csv", "inference_report.csv", "training_report.csv")
_SHORT = "short_report.csv"
_NO_SETTINGS = "holds no settings, which identify the case: only a full_report.csv can be read"
_KNOWN = frozenset((_BENCHMARK, _REPORT, _CONFIG, _HYDRA, *_RESULTS, *_SUMMARIES))
#: A tree with more folders is refused; and the number of folders searched to recognise the format.
_MOST_FOLDERS, _LOOKED_THROUGH = 20_000, 50


@dataclass(frozen=True, slots=True)
class _File:
    """A file and its name in errors, which is relative to the tree: many files share a name."""

    path: Path
    name: str

    def sibling(self, name: str) -> "_File":
        return _File(self.path.parent / name, str(Path(self.name).parent / name))

    def text(self) -> str:
        return text_of(self.path, self.name)

    def json(self) -> Value:
        return json_of(self.text(), SourcePlace(self.name))


def knows(path: Path) -> bool:
    """Whether it is one of optimum-benchmark's files, or a folder with one somewhere near its top."""
    try:
        if path.is_dir():
            folders = (
                set(files) for _, (_, _, files) in zip(range(_LOOKED_THROUGH), os.walk(path), strict=False)
            )
            return any(files & _KNOWN for files in folders)
    except (OSError, ValueError):
        return False
    if path.suffix == ".csv":
        return path.name in _RESULTS or "backend.name" in head(path).split("\n", 1)[0].split(",")
    if path.suffix == ".json":
        beginning = head(path)
        return path.name in _KNOWN or all(
            f'"{word}"' in beginning for word in ("backend", "scenario", "launcher")
        )
    return path.name == _HYDRA


def read_runs(path: Path) -> ImportBatch:
    """One run for each report, folder or row; in a tree a bad folder is skipped."""
    accumulator = RunAccumulator(NAME)
    if path.is_dir():
        tables: list[_File] = []
        for folder, names in _folders(accumulator, path):
            _read_folder(accumulator, folder, names, path)
            found = sorted(names.intersection((*_SUMMARIES, _SHORT)))
            tables += [_File(folder / name, str((folder / name).relative_to(path))) for name in found]
        _compare(accumulator, tables)
    else:
        _read_file(accumulator, _File(path, path.name))
    return accumulator.build_batch(SourcePlace(path.name))


def _folders(accumulator: RunAccumulator, path: Path) -> Iterator[tuple[Path, set[str]]]:
    def unreadable(error: OSError) -> None:
        accumulator.aside(SourcePlace(os.path.relpath(error.filename, path)), error.strerror or str(error))

    for number, (folder, folders, files) in enumerate(os.walk(path, onerror=unreadable)):
        if number >= _MOST_FOLDERS:
            raise BadFile(SourcePlace(path.name), f"holds more than {_MOST_FOLDERS} folders")
        folders.sort()
        yield Path(folder), set(files)


def _read_folder(accumulator: RunAccumulator, folder: Path, names: set[str], root: Path) -> None:
    def file(name: str) -> _File:
        return _File(folder / name, str((folder / name).relative_to(root)))

    def is_read(name: str) -> bool:
        with accumulator.setting_aside():
            _read_file(accumulator, file(name))
            return True
        return False

    # These two hold the same run.
    if _BENCHMARK in names and is_read(_BENCHMARK):
        if _REPORT in names:
            repeat = ImportProblem(SourcePlace(file(_REPORT).name), f"{_BENCHMARK} beside it holds the run")
            accumulator.repeats.append(repeat)
    elif _REPORT in names:
        is_read(_REPORT)
    elif _CONFIG in names:
        accumulator.aside(SourcePlace(file(_CONFIG).name), f"has no {_REPORT} beside it")
    results = [name for name in _RESULTS if name in names]
    for name in results or [_HYDRA] * (_HYDRA in names):
        is_read(name)


def _compare(accumulator: RunAccumulator, tables: Iterable[_File]) -> None:
    """Say of tables made of runs' folders how many of their rows are in none of those that were read."""
    runs = [{(each.metric, each.point) for each in run.measurements} for run in accumulator.runs.values()]
    for table in tables:
        place = SourcePlace(table.name)
        with accumulator.setting_aside():
            if table.path.name == _SHORT:
                if _names(table) - _names(table.sibling(_SUMMARIES[0])):
                    raise BadFile(place, _NO_SETTINGS)
                accumulator.repeats.append(
                    ImportProblem(place, f"{_SUMMARIES[0]} beside it has the same rows")
                )
                continue
            scratch = RunAccumulator(NAME)
            rows = [
                {(each.metric, *each.values) for each in of_row(scratch, "-", row)}
                for row in csv_rows(table.text(), table.name, accumulator.aside)
            ]
            missing = sum(not any(row and row <= run for run in runs) for row in rows)
            if missing:
                raise BadFile(
                    place, f"has {missing} of {len(rows)} rows without a folder here: import it separately"
                )
            accumulator.repeats.append(ImportProblem(place, "repeats what the runs' folders hold"))


def _names(table: _File) -> set[str]:
    """The experiments that a table is about; none where there is no such table."""
    if not table.path.is_file():
        return set()
    ignored = RunAccumulator(NAME)
    rows = csv_rows(table.text(), table.name, ignored.aside)
    return {row["experiment_name"].text() if "experiment_name" in row else "" for row in rows}


def _read_file(accumulator: RunAccumulator, file: _File) -> None:
    if file.path.name == _SHORT:
        raise BadFile(SourcePlace(file.name), _NO_SETTINGS)
    if file.path.name == _HYDRA or file.path.name in _RESULTS:
        _read_2023(accumulator, file)
    elif file.path.suffix == ".csv":
        _read_summary(accumulator, file)
    else:
        _read_report(accumulator, file)


def _read_report(accumulator: RunAccumulator, file: _File) -> None:
    document = file.json()
    if document.get("config") and document.get("report"):
        config, report = document.need("config"), document.need("report")
    elif file.path.name == _CONFIG:
        config, report = document, file.sibling(_REPORT).json()
    else:
        if not file.sibling(_CONFIG).path.is_file():
            raise BadFile(SourcePlace(file.name), f"has no {_CONFIG} beside it")
        config, report = file.sibling(_CONFIG).json(), document
    config.need("backend").object()
    settings = OptimumSettings.of(flatten_json(config))
    case = settings.case()
    points = list(of_report(accumulator, case, report))
    origin = settings.origin(NAME, made_at(file.path), points)
    facts = {**origin.facts, "iterations": iterations(report)}
    accumulator.add(replace(origin, facts=facts), report.place, points)


def _read_2023(accumulator: RunAccumulator, file: _File) -> None:
    """The settings of a folder with its results; a folder without results is a case that was lost."""
    hydra = file.sibling(_HYDRA)
    if not hydra.path.is_file():
        raise BadFile(SourcePlace(file.name), f"has no {_HYDRA} beside it, which holds the settings")
    # The GPU acceptance imports the commands where PyYAML is not installed.
    from .optimum_yaml import yaml_settings

    values = yaml_settings(hydra.text(), hydra.name)
    settings = OptimumSettings.of({path: at.value for path, at in values.items()})
    if not settings.first("backend.name"):
        raise BadFile(SourcePlace(hydra.name), "holds no backend.name")
    tables = [file] if file.path != hydra.path else [file.sibling(name) for name in _RESULTS]
    tables = [table for table in tables if table.path.is_file()]
    for table in tables:
        for row in csv_rows(table.text(), table.name, accumulator.aside):
            _add_row(accumulator, table, settings, row)
    if not tables:
        reason = f"there is no {' or '.join(_RESULTS)} beside {_HYDRA}"
        failure = Failure(settings.case(), OutcomeStatus.LOST, reason)
        accumulator.add(
            settings.origin(NAME, made_at(hydra.path), ()), SourcePlace(hydra.name), (), [failure]
        )


def _read_summary(accumulator: RunAccumulator, file: _File) -> None:
    for row in csv_rows(file.text(), file.name, accumulator.aside):
        # Hydra's settings of itself, and what the table's author derived, are no settings of the run.
        values = {
            column: Value(str(cell.value), cell.place).text()
            for column, cell in row.items()
            if column.startswith(("backend.", "benchmark.", "launcher.", "environment."))
            or column in ("experiment_name", "model", "device", "task")
        }
        settings = OptimumSettings.of(values)
        if not settings.first("backend.name"):
            place = next(iter(row.values())).place
            accumulator.aside(SourcePlace(place.file, place.line, "backend.name"), "is missing")
            continue
        _add_row(accumulator, file, settings, row)


def _add_row(
    accumulator: RunAccumulator, file: _File, settings: OptimumSettings, row: Mapping[str, Value]
) -> None:
    points = list(of_row(accumulator, settings.case(), row))
    place = next(iter(row.values())).place
    origin = settings.origin(NAME, made_at(file.path), points)
    accumulator.add(origin, SourcePlace(file.name, place.line), points)


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

    at: Value
    metric: str
    unit: str
    title: str
    better: Better = "lower"
    factor: float = 1.0


def of_report(accumulator: RunAccumulator, case: str, report: Value) -> Iterator[Point]:
    """The points of a report's targets; a number that is none, or in an unknown unit, is set aside."""
    for target, blocks in report.object().items():
        if blocks.value is None:
            continue
        with accumulator.setting_aside():
            for name, block in blocks.object().items():
                if block.value is None:
                    continue
                with accumulator.setting_aside():
                    for value in list(_values(target, name, block)):
                        yield from _points(accumulator, case, value)


def iterations(report: Value) -> dict[str, int]:
    """How many values each target's statistics are of."""
    found: dict[str, int] = {}
    for target, blocks in report.object().items():
        latency = blocks.get("latency") if isinstance(blocks.value, dict) else None
        count = latency.get("count") if latency and isinstance(latency.value, dict) else None
        if count and isinstance(count.value, int):
            found[target] = count.value
    return found


def of_row(accumulator: RunAccumulator, case: str, row: Mapping[str, Value]) -> Iterator[Point]:
    """The points of a row: its columns such as `forward.latency(s)`."""
    for column, cell in row.items():
        match = _COLUMN.fullmatch(column)
        if match is None:
            continue
        with accumulator.setting_aside():
            at = Value(number_in(cell), cell.place)
            target, quantity, unit = match[1], match[2], _SPELLED.get(match[3], match[3])
            if unit not in ("s", "MB") and quantity != "throughput":
                # Such as the speed-up in % that tables for charts have in addition to what was measured.
                raise BadFile(
                    cell.place, f"is in {unit}: the measurements of these tables are in s, MB or per second"
                )
            yield from _points(accumulator, case, _of_column(at, target, quantity, unit))


def _of_column(at: Value, target: str, quantity: str, unit: str) -> _Value:
    if quantity == "throughput":
        return _Value(at, _metric(target, unit_slug(unit)), unit, f"{target}: {unit} of the mean", "higher")
    if unit == "MB":
        return _Value(at, _metric(target, quantity), unit, _memory(target, quantity))
    # A latency is a mean, which these tables give in three digits.
    name, title = ("latency_mean", "latency, mean") if quantity == "latency" else (quantity, quantity)
    return _Value(at, _metric(target, name), unit, f"{target}: {title}")


def _values(target: str, name: str, block: Value) -> Iterator[_Value]:
    if name not in ("latency", "memory", "throughput", "energy", "efficiency"):
        raise BadFile(block.place, "is no known block of a report")
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


def _latency(at: Value, target: str, field: str) -> _Value:
    if target in _STEPS and field in _OF_A_STEP:
        return _Value(at, _OF_A_STEP[field], "ms", "", factor=1e3)
    return _Value(at, _metric(target, f"latency_{field}"), "s", f"{target}: latency, {field}")


def _memory(target: str, field: str) -> str:
    return f"{target}: {field.replace('_', ' ')} (1 MB = 1e6 bytes)"


def _metric(target: str, name: str) -> str:
    return f"optimum.{slug(target)}.{slug(name)}"


def _points(accumulator: RunAccumulator, case: str, value: _Value) -> Iterator[Point]:
    with accumulator.setting_aside():
        yield Point(
            case=case,
            metric=value.metric,
            unit=value.unit,
            better=value.better,
            # What is finite in seconds need not be so in milliseconds.
            values=(Value(value.at.number() * value.factor, value.at.place).number(),),
            place=value.at.place,
            title=value.title,
        )
