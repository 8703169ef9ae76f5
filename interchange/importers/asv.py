"""The results folder of airspeed velocity: result files of format 1 and 2, `benchmarks.json` of 1 and 2."""

import itertools
import json
import math
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from analysis.metrics import Better
from records.outcomes import OutcomeStatus

from ..errors import BadFile, SourcePlace
from ..foreign_runs import Failure, ForeignOrigin, Point, RunAccumulator, case_key
from ..runs import ImportBatch
from ..source_file import Value, json_of, moment_in_milliseconds, text_of, text_or_empty
from ..units import unit_slug

NAME = "asv"
TITLE = "airspeed velocity (asv) results folder"

_CATALOGUE = "benchmarks.json"
_MACHINE = "machine.json"
#: A folder with more result files is refused.
_MOST_FILES = 20_000
#: More combinations of one benchmark's parameters are refused: a file of a few bytes can claim any number.
_MOST_COMBINATIONS = 100_000
#: The requirement for PyTorch, by its name for pip and for conda.
_TORCH = ("torch", "pytorch")
#: The version of a benchmark whose author gave none is a hash of its code.
_DIGEST = re.compile(r"[0-9a-f]{32,}")
#: asv takes any rise of these as a regression; for a `track_` benchmark it knows no direction.
_BETTER: Mapping[str, Better] = {
    "time": "lower",
    "memory": "lower",
    "peakmemory": "lower",
    "timeraw": "lower",
}


@dataclass(frozen=True, slots=True)
class _Benchmark:
    """The entry of a benchmark in `benchmarks.json`."""

    kind: str
    unit: str
    names: tuple[str, ...]
    version: str


@dataclass(frozen=True, slots=True)
class _Result:
    """A benchmark in a result file: a value for each combination of parameters, or one without parameters."""

    at: Value
    values: Value | None
    parameters: tuple[tuple[str, ...], ...]
    version: str


def knows(path: Path) -> bool:
    """Whether it is a results folder, a machine's folder in it, or one of its result files."""
    try:
        catalogue = _catalogue_of(path)
        folder = catalogue.parent
        return catalogue.is_file() and next(folder.glob(f"*/{_MACHINE}"), None) is not None
    except (OSError, ValueError, BadFile):
        return False


def read_runs(path: Path) -> ImportBatch:
    """One run for each result file, which is one commit in one environment; a bad file is set aside."""
    catalogue = _catalogue_of(path)
    accumulator = RunAccumulator(NAME)
    benchmarks = dict(_benchmarks(accumulator, _document(catalogue, catalogue.name)))
    for file in _result_files(path, catalogue.parent):
        name = f"{file.parent.name}/{file.name}"
        with accumulator.setting_aside():
            _add(accumulator, _document(file, name), benchmarks)
    return accumulator.build_batch(SourcePlace(path.name))


def _catalogue_of(path: Path) -> Path:
    """`benchmarks.json` lies in the results folder, above the folders of the machines."""
    for folder in (path, path.parent) if path.is_dir() else (path.parent, path.parent.parent):
        if (folder / _CATALOGUE).is_file():
            return folder / _CATALOGUE
    raise BadFile(SourcePlace(path.name), f"has no {_CATALOGUE} in it or above it")


def _result_files(path: Path, results: Path) -> list[Path]:
    """The files of a results folder or of one machine's folder, or the named file alone."""
    if path.is_file() and path.name != _CATALOGUE:
        return [path]
    try:
        of_all = path.is_file() or path == results
        folders = [each for each in results.iterdir() if each.is_dir()] if of_all else [path]
        files = (file for folder in folders for file in folder.iterdir() if file.suffix == ".json")
        found = list(itertools.islice(files, _MOST_FILES + 1))
    except OSError as error:
        raise BadFile(SourcePlace(path.name), error.strerror or str(error)) from None
    if len(found) > _MOST_FILES:
        raise BadFile(SourcePlace(path.name), f"holds more than {_MOST_FILES} files")
    return sorted(file for file in found if file.name not in (_CATALOGUE, _MACHINE))


def _document(path: Path, name: str) -> Value:
    return json_of(text_of(path, name), SourcePlace(name))


def _benchmarks(accumulator: RunAccumulator, document: Value) -> Iterator[tuple[str, _Benchmark]]:
    for name, about in document.object().items():
        if name == "version":
            continue
        with accumulator.setting_aside():
            parameters = about.get("param_names")
            yield (
                name,
                _Benchmark(
                    kind=about.need("type").text(),
                    unit=text_or_empty(about, "unit"),
                    names=tuple(each.text() for each in parameters.list()) if parameters else (),
                    version=text_or_empty(about, "version"),
                ),
            )


def _add(accumulator: RunAccumulator, document: Value, benchmarks: Mapping[str, _Benchmark]) -> None:
    points: list[Point] = []
    failures: list[Failure] = []
    shared = _environment(document)
    for name, result in _results(accumulator, document):
        benchmark = benchmarks.get(name)
        if benchmark is None:
            accumulator.aside(result.at.place, f"{_CATALOGUE} has no entry for it, so its unit is unknown")
            continue
        with accumulator.setting_aside():
            for case, value in list(_cases(name, benchmark, result, shared)):
                if isinstance(value, Failure):
                    failures.append(value)
                else:
                    points += _points(accumulator, case, benchmark, value)
    accumulator.add(_origin(document), document.place, points, failures)


def _results(accumulator: RunAccumulator, document: Value) -> Iterator[tuple[str, _Result]]:
    """The results of a file: of format 2 by `result_columns`, of format 1 a value or an object."""
    version = document.get("version")
    if version is not None and version.value not in (1, 2):
        raise version.wrong("format 1 or 2 of asv's results")
    read = _of_format_2 if version is not None and version.value == 2 else _of_format_1
    versions = document.get("benchmark_version")
    columns = [each.text() for each in document.need("result_columns").list()] if read is _of_format_2 else []
    for name, at in document.need("results").object().items():
        with accumulator.setting_aside():
            members = read(at, columns)
            own = members.get("version") or (versions.get(name) if versions else None)
            yield (
                name,
                _Result(
                    at=at,
                    values=members.get("result"),
                    parameters=_lists(members.get("params")),
                    version=own.value if own and isinstance(own.value, str) else "",
                ),
            )


def _of_format_1(at: Value, columns: Sequence[str]) -> dict[str, Value]:
    members = at.object() if isinstance(at.value, dict) else {"result": at}
    return {name: member for name, member in members.items() if member.value is not None}


def _of_format_2(at: Value, columns: Sequence[str]) -> dict[str, Value]:
    """Columns that are missing at the end of a row are null."""
    row = at.list()
    if len(row) > len(columns):
        raise BadFile(at.place, f"has {len(row)} columns, result_columns has {len(columns)}")
    named = zip(columns, row, strict=False)
    return {
        name: Value(member.value, at.place.at(name)) for name, member in named if member.value is not None
    }


def _lists(at: Value | None) -> tuple[tuple[str, ...], ...]:
    return tuple(tuple(each.text() for each in values.list()) for values in at.list()) if at else ()


def _cases(
    name: str, benchmark: _Benchmark, result: _Result, shared: Mapping[str, str]
) -> Iterator[tuple[str, Value | Failure]]:
    """Each combination of parameters, the last varying fastest, with its value or its failure."""
    count = math.prod(len(values) for values in result.parameters)
    if count > _MOST_COMBINATIONS:
        raise BadFile(
            result.at.place, f"has {count} combinations of parameters, more than {_MOST_COMBINATIONS}"
        )
    values = _values(result.values, count)
    # A benchmark that was edited is another benchmark, which asv would not compare.
    version = result.version or benchmark.version
    version = version[:12] if _DIGEST.fullmatch(version) else version
    names = [
        *benchmark.names,
        *(f"param{number}" for number in range(len(benchmark.names) + 1, 1 + len(result.parameters))),
    ]
    for number, combination in enumerate(itertools.product(*result.parameters)):
        own = dict(zip(names, combination, strict=False))
        case = case_key(name, "call", {**shared, "asv.version": version or None, **own})
        value = values[number] if values else None
        if value is None or value.value is None:
            yield (
                case,
                Failure(case, OutcomeStatus.CRASHED, "asv recorded no value (null): the benchmark failed"),
            )
        elif isinstance(value.value, float) and math.isnan(value.value):
            yield case, Failure(case, OutcomeStatus.SKIPPED, "asv recorded NaN: the suite skipped it")
        else:
            yield case, value


def _values(at: Value | None, count: int) -> Sequence[Value]:
    """A value for each combination; none where all failed."""
    if at is None:
        return []
    values = at.list() if isinstance(at.value, list) else [at]
    if len(values) != count:
        raise BadFile(at.place, f"has {len(values)} values for {count} combinations of parameters")
    return values


def _points(accumulator: RunAccumulator, case: str, benchmark: _Benchmark, value: Value) -> Iterator[Point]:
    kind, unit = benchmark.kind, benchmark.unit
    with accumulator.setting_aside():
        yield Point(
            case=case,
            metric=f"asv.{unit_slug(kind)}.{unit_slug(unit)}",
            unit=unit,
            better=_BETTER.get(kind, "neither"),
            values=(value.number(),),
            place=value.place,
            title=f"asv {kind}, {unit or 'without a unit'}",
        )


def _environment(document: Value) -> dict[str, str]:
    """The parts of the environment that distinguish series: all but PyTorch, which changes along a series."""
    found = {"env.python": text_or_empty(document, "python")}
    for prefix, field in (("env.", "requirements"), ("var.", "env_vars")):
        members = document.get(field)
        for name, at in members.object().items() if members else ():
            if name not in _TORCH:
                # An empty requirement is the newest there was; null is one that this environment lacks.
                found[f"{prefix}{name}"] = "" if at.value is None else str(at.value) or "latest"
    return {name: value for name, value in found.items() if value}


def _origin(document: Value) -> ForeignOrigin:
    params = document.get("params") or Value({}, document.place)
    commit = document.need("commit_hash").text()
    environment = text_or_empty(document, "env_name")
    requirements = document.get("requirements") or Value({}, document.place)
    return ForeignOrigin(
        format=NAME,
        suite=NAME,
        started_at=moment_in_milliseconds(document.need("date")),
        # Early files have no name of the environment.
        identity=json.dumps([commit, environment, _environment(document), requirements.value], default=str),
        machine=text_or_empty(params, "machine") or "unknown",
        hardware=_hardware(params),
        torch_version=next(filter(None, (text_or_empty(requirements, name) for name in _TORCH)), ""),
        environment=environment,
        python_version=text_or_empty(document, "python"),
        environment_facts={"requirements": requirements.value},
        facts={
            "commit": commit,
            "machine": params.value,
            "notes": ["the time is the commit's; asv does not keep the run's own"],
        },
    )


def _hardware(params: Value) -> str:
    """Processor and number of CPUs as asv's machine file has them; else the machine's name."""
    cpu, count = text_or_empty(params, "cpu"), text_or_empty(params, "num_cpu")
    if not cpu:
        return text_or_empty(params, "machine") or "unknown"
    return f"{cpu}, {count} CPUs" if count else cpu
