"""The `data.js` that github-action-benchmark keeps on a repository's pages: a history of commits."""

import re
from collections.abc import Mapping
from datetime import datetime
from pathlib import Path
from typing import Any

from analysis.metrics import Better

from ..errors import BadFile, SourcePlace
from ..foreign_runs import ForeignOrigin, Point, RunAccumulator, case_key
from ..runs import ImportBatch
from ..source_file import Value, head, json_of, moment_in, moment_in_milliseconds, text_of, text_or_empty
from ..units import unit_slug

NAME = "action-benchmark"
TITLE = "github-action-benchmark data.js"

_SCRIPT = re.compile(r"\s*window\.BENCHMARK_DATA\s*=\s*")
#: The better direction of a tool's values, from the action's own table; unknown for other tools.
_BETTER: Mapping[str, Better] = {
    "benchmarkjs": "higher",
    "pytest": "higher",
    "customBiggerIsBetter": "higher",
    "cargo": "lower",
    "go": "lower",
    "googlecpp": "lower",
    "catch2": "lower",
    "julia": "lower",
    "jmh": "lower",
    "benchmarkdotnet": "lower",
    "benchmarkluau": "lower",
    "customSmallerIsBetter": "lower",
}
#: Tools of times that write rates as well; `customSmallerIsBetter` states the direction itself.
_TIMES = frozenset(tool for tool, better in _BETTER.items() if better == "lower") - {"customSmallerIsBetter"}
_RATE = re.compile(r"(?:/|\bper\b)\s*(?:[nuµμm]?s|sec|seconds?|min|minutes?|h|hours?)\s*$", re.IGNORECASE)


def knows(path: Path) -> bool:
    """Whether the file begins by assigning `window.BENCHMARK_DATA`."""
    return _SCRIPT.match(head(path)) is not None


def read_runs(path: Path) -> ImportBatch:
    """One run for each entry of each suite; the script is never run: the assigned value is read as JSON."""
    text = text_of(path)
    place = SourcePlace(path.name)
    script = _SCRIPT.match(text)
    if script is None:
        raise BadFile(SourcePlace(path.name, 1), "does not begin with window.BENCHMARK_DATA =")
    # Blanks for the assignment, so that an error's line and column are those of the file.
    blanks = re.sub(r"[^\n]", " ", script[0])
    document = json_of(blanks + text[script.end() :].rstrip().removesuffix(";"), place)
    repository = _repository(document)
    accumulator = RunAccumulator(NAME)
    for suite, entries in document.need("entries").object().items():
        with accumulator.setting_aside():
            for entry in entries.list():
                with accumulator.setting_aside():
                    _add(accumulator, entry, suite, repository)
    return accumulator.build_batch(place.at("entries"))


def _add(accumulator: RunAccumulator, entry: Value, suite: str, repository: str) -> None:
    commit = entry.get("commit")
    tool = text_or_empty(entry, "tool")
    facts: dict[str, Any] = {"repository": repository, "tool": tool}
    if commit is not None:
        facts["commit"] = {
            name: member.value
            for name, member in commit.object().items()
            if name in ("id", "message", "timestamp", "url")
        }
    points: list[Point] = []
    about: dict[str, dict[str, str]] = {}
    for bench in entry.need("benches").list():
        with accumulator.setting_aside():
            point = _point(bench, suite, repository, tool)
            points.append(point)
            extra = {name: text_or_empty(bench, name) for name in ("range", "extra")}
            if any(extra.values()):
                about[point.case] = {name: text for name, text in extra.items() if text}
    origin = ForeignOrigin(
        format=NAME,
        suite=suite or NAME,
        started_at=_time(entry, commit),
        identity=f"{repository} {text_or_empty(commit, 'id')}",
        facts={**facts, "benches": about},
    )
    accumulator.add(origin, entry.place, points)


def _point(bench: Value, suite: str, repository: str, tool: str) -> Point:
    name = bench.need("name").text()
    unit = text_or_empty(bench, "unit")
    better = _better(tool, unit)
    value = bench.need("value")
    return Point(
        # Two suites of one name, or of one repository, may hold benchmarks of one name.
        case=case_key(name, "call", {"suite": suite or None, "repository": repository or None}),
        metric=f"action_benchmark.{better}.{unit_slug(unit)}",
        unit=unit,
        better=better,
        values=(value.number(),),
        place=value.place,
        title=f"Benchmark, {unit or 'without a unit'}",
    )


def _better(tool: str, unit: str) -> Better:
    """The better direction of a value: go's MB/s and jmh's ops/s are rates among times."""
    if tool in _TIMES and _RATE.search(unit):
        return "higher"
    return _BETTER.get(tool, "neither")


def _time(entry: Value, commit: Value | None) -> datetime:
    """When the action ran; of old entries without that, when the commit was made."""
    date = entry.get("date")
    if date is not None:
        return moment_in_milliseconds(date)
    if commit is not None and (stamp := commit.get("timestamp")):
        return moment_in(stamp)
    raise BadFile(entry.place.at("date"), "is missing")


def _repository(document: Value) -> str:
    """Owner and name out of the address, or the address itself."""
    address = text_or_empty(document, "repoUrl")
    return "/".join(address.rstrip("/").split("/")[-2:]) if "://" in address else address
