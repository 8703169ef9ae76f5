"""What `pytest --benchmark-json` writes: pytest-benchmark, read as its versions 3 to 5 write it."""

import hashlib
import json
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from analysis.metrics import Better

from ..errors import SourcePlace
from ..foreign_runs import ForeignOrigin, Point, RunAccumulator, case_key
from ..runs import ImportBatch
from ..source_file import Value, head, json_of, made_at, moment_in, text_of, text_or_empty

NAME = "pytest-benchmark"
TITLE = "pytest-benchmark JSON (--benchmark-json)"

#: Statistics over the rounds of one process: field of `stats` -> metric, unit, factor, better, title.
_STATISTICS: Mapping[str, tuple[str, str, float, Better, str]] = {
    "median": ("latency", "ms", 1e3, "lower", "Latency"),
    "min": ("latency_min", "ms", 1e3, "lower", "Latency min"),
    "mean": ("pytest_benchmark.mean", "s", 1.0, "lower", "Mean of the rounds"),
    "max": ("pytest_benchmark.max", "s", 1.0, "lower", "Slowest round"),
    "stddev": ("pytest_benchmark.stddev", "s", 1.0, "lower", "Standard deviation of the rounds"),
    "q1": ("pytest_benchmark.q1", "s", 1.0, "lower", "First quartile of the rounds"),
    "q3": ("pytest_benchmark.q3", "s", 1.0, "lower", "Third quartile of the rounds"),
    "iqr": ("pytest_benchmark.iqr", "s", 1.0, "lower", "Interquartile range of the rounds"),
    "ops": ("pytest_benchmark.ops", "1/s", 1.0, "higher", "Operations per second of the mean"),
}
#: Where a suite may write its PyTorch's version: `machine_info` or `extra_info`.
_TORCH = ("torch_version", "torch", "pytorch_version", "pytorch")
#: The text of a parameter that is no JSON; it may hold an address, which differs between processes.
_NO_JSON = "UNSERIALIZABLE["


def knows(path: Path) -> bool:
    """Whether the file begins as pytest-benchmark's does."""
    beginning = head(path).lstrip()
    return beginning.startswith("{") and '"machine_info"' in beginning[:4096]


def read_runs(path: Path) -> ImportBatch:
    """The file's benchmarks: a run, or one for each PyTorch if `extra_info` names several."""
    document = json_of(text_of(path), SourcePlace(path.name))
    benchmarks = document.need("benchmarks").list()
    machine = document.need("machine_info")
    shared = _torch_version(machine)
    accumulator = RunAccumulator(NAME)
    by_torch: dict[str, list[int]] = {}
    for number, benchmark in enumerate(benchmarks):
        with accumulator.setting_aside():
            extra = benchmark.get("extra_info")
            own = _torch_version(extra) if extra else ""
            by_torch.setdefault(own or shared, []).append(number)
    for torch_version, own in by_torch.items():
        _add(accumulator, path, document, torch_version, (benchmarks[number] for number in own))
    return accumulator.build_batch(document.place.at("benchmarks"))


def _add(
    accumulator: RunAccumulator,
    path: Path,
    document: Value,
    torch_version: str,
    benchmarks: Iterator[Value],
) -> None:
    points: list[Point] = []
    about: dict[str, Any] = {}
    project = text_or_empty(document.get("commit_info"), "project")
    for benchmark in benchmarks:
        with accumulator.setting_aside():
            name = benchmark.get("fullname") or benchmark.need("name")
            case = _case(name, benchmark, project)
            points += _points(accumulator, case, benchmark.need("stats"))
            about[case] = _about(benchmark)
    origin = _origin(path, document, torch_version, {"benchmarks": about})
    accumulator.add(origin, document.place.at("benchmarks"), points)


def _origin(path: Path, document: Value, torch_version: str, facts: Mapping[str, Any]) -> ForeignOrigin:
    machine = document.need("machine_info")
    commit = document.get("commit_info")
    written = document.get("datetime")
    started, note, dated = (moment_in(written), "", True) if written else made_at(path)
    content = "" if dated else hashlib.sha256(json.dumps(document.value).encode()).hexdigest()
    commit_facts = {name: at.value for name, at in commit.object().items()} if commit else {}
    return ForeignOrigin(
        format=NAME,
        suite=text_or_empty(commit, "project") or NAME,
        started_at=started,
        dated=dated,
        identity=f"{text_or_empty(commit, 'id')} {torch_version} {content}".strip(),
        machine=text_or_empty(machine, "node") or "unknown",
        hardware=_hardware(machine),
        torch_version=torch_version,
        python_version=text_or_empty(machine, "python_version"),
        facts={**facts, "commit": commit_facts} | ({"notes": [note]} if note else {}),
    )


def _case(name: Value, benchmark: Value, project: str) -> str:
    """The test without its id in brackets, with its parameters; `fullname` distinguishes files."""
    test, bracket, identifier = name.text().partition("[")
    given = benchmark.get("params")
    members = given.object() if given and isinstance(given.value, dict) else {}
    parameters: dict[str, Any] = {each: str(member.value) for each, member in members.items()}
    readable = all(_plain(member.value) for member in members.values())
    if bracket and not (parameters and readable):
        parameters = {"param": identifier.removesuffix("]")}
    return case_key(test, "call", {**parameters, "project": project or None})


def _plain(value: Any) -> bool:
    if isinstance(value, str):
        return not value.startswith(_NO_JSON)
    return value is None or isinstance(value, int | float)


def _points(accumulator: RunAccumulator, case: str, stats: Value) -> Iterator[Point]:
    for field, member in stats.object().items():
        if field not in _STATISTICS or member.value is None:
            continue
        metric, unit, factor, better, title = _STATISTICS[field]
        with accumulator.setting_aside():
            yield Point(
                case=case,
                metric=metric,
                unit=unit,
                better=better,
                # What is finite in seconds need not be so in milliseconds.
                values=(Value(member.number() * factor, member.place).number(),),
                place=member.place,
                title=title,
            )


def _about(benchmark: Value) -> dict[str, Any]:
    """Numbers of rounds and iterations, and the suite's own notes."""
    stats = benchmark.need("stats").object()
    about = {name: stats[name].value for name in ("rounds", "iterations", "outliers") if name in stats}
    for name in ("group", "extra_info"):
        if (member := benchmark.get(name)) and member.value:
            about[name] = member.value
    return about


def _torch_version(at: Value) -> str:
    members = at.object()
    found = (members[name].value for name in _TORCH if name in members)
    return next((each for each in found if isinstance(each, str) and each), "")


def _hardware(machine: Value) -> str:
    """The processor by its name and its logical CPUs, or what the system calls the architecture."""
    cpu = machine.get("cpu")
    members = cpu.object() if cpu and isinstance(cpu.value, dict) else {}
    names = (members[name].value for name in ("brand_raw", "brand") if name in members)
    name = next((each.strip() for each in names if isinstance(each, str) and each.strip()), "")
    count = members["count"].value if "count" in members else None
    if name and isinstance(count, int) and not isinstance(count, bool):
        return f"{name}, {count} CPUs"
    return name or text_or_empty(machine, "processor") or text_or_empty(machine, "machine") or "unknown"
