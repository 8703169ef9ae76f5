"""The bodies of the lines of an export, checked field by field, as records."""

import math
from collections.abc import Callable
from datetime import UTC, datetime
from typing import Any, TypeVar, cast

from records.environments import Environment
from records.kinds import EnvironmentKind, RunKind, RunSource
from records.machines import Hardware, Machine
from records.old_runs import kind_of_old_environment, kind_of_old_run, source_of_old_run
from records.outcomes import Measurement, MetricDefinition, Outcome, OutcomeStatus
from records.runs import Run, RunPreset
from records.telemetry import Recording

from ..errors import BadFile
from ..source_file import Value

STATES = ("running", "complete", "interrupted")
STATUSES = tuple(OutcomeStatus)
DIRECTIONS = ("lower", "higher", "neither")

#: Counts fit into the smallest integer of a database, samples into its largest; the difference of two stamps
#: is an int64 as well.
_COUNT, _SAMPLE, _STAMP = 2**31, 2**63, 2**62

T = TypeVar("T")


def run_of(at: Value) -> Run:
    """The run of a body; raises BadFile."""
    kind, source, source_format = _kinds(at)
    return Run(
        id=at.need("id").text(),
        suite=_text(at, "suite"),
        started_at=_moment(at.need("started_at")),
        ended_at=_maybe(at, "ended_at", _moment),
        state=_one_of(at, "state", STATES),
        machine=_machine(at.need("machine")),
        environments=tuple(_environment(each, source) for each in at.need("environments").list()),
        preset=_preset(at.need("profile")),
        harness=_text(at, "harness"),
        planned=_count(at, "planned"),
        command=_text(at, "command"),
        notes=_texts(at, "notes"),
        facts=_facts(at, "facts"),
        kind=kind,
        source=source,
        source_format=source_format,
    )


def _kinds(at: Value) -> tuple[RunKind, RunSource, str]:
    """The kind, source and source format of a run; by the rules of their time where an export lacks them."""
    if at.get("kind") is None:
        kind = kind_of_old_run(_text(at, "command"), _facts(at, "facts"))
        return kind, *source_of_old_run(at.need("id").text())
    kind = RunKind(_one_of(at, "kind", tuple(RunKind)))
    return kind, RunSource(_one_of(at, "source", tuple(RunSource))), _text(at, "source_format")


def outcome_of(at: Value) -> Outcome:
    """The outcome of a body; raises BadFile."""
    return Outcome(
        case=at.need("case").text(),
        environment=at.need("environment").text(),
        replicate=_count(at, "replicate"),
        status=OutcomeStatus(_one_of(at, "status", STATUSES)),
        reason=_text(at, "reason"),
        phase=_text(at, "phase"),
        started_at=_moment(at.need("started_at")),
        wall_seconds=at.need("wall_seconds").number(),
        metrics={name: value.number() for name, value in at.need("metrics").object().items()},
        facts=_facts_with_phases(at),
        log_tail=_text(at, "log_tail"),
        blocks=tuple(_integers(block, -_SAMPLE, _SAMPLE) for block in at.need("blocks").list()),
        telemetry=tuple(_recording(each) for each in at.need("telemetry").list()),
    )


def measurement_of(at: Value) -> Measurement:
    """The measurement of a body; raises BadFile, also for one that contradicts itself."""
    found = Measurement(
        case=at.need("case").text(),
        environment=at.need("environment").text(),
        metric=at.need("metric").text(),
        point=at.need("point").number(),
        low=_maybe(at, "low", Value.number),
        high=_maybe(at, "high", Value.number),
        smallest=at.need("smallest").number(),
        largest=at.need("largest").number(),
        spread=_maybe(at, "spread", Value.number),
        n=_count(at, "n"),
    )
    if found.n < 1:
        raise at.need("n").wrong("at least one value")
    if not found.smallest <= found.point <= found.largest:
        raise BadFile(at.place.at("point"), "does not lie between the smallest and the largest value")
    if found.low is not None and found.high is not None and found.low > found.high:
        raise BadFile(at.place.at("low"), "is greater than the high end of its interval")
    return found


def metric_of(at: Value) -> MetricDefinition:
    """The metric of a body; raises BadFile."""
    better = _one_of(at, "better", DIRECTIONS)
    return MetricDefinition(at.need("name").text(), _text(at, "title"), _text(at, "unit"), better)


def _machine(at: Value) -> Machine:
    hardware = at.need("hardware")
    return Machine(
        at.need("fingerprint").text(),
        _text(at, "name"),
        Hardware(hardware.need("fingerprint").text(), _text(hardware, "label"), _facts(hardware, "facts")),
        _facts(at, "facts"),
    )


def _environment(at: Value, source: RunSource) -> Environment:
    torch_version = _text(at, "torch_version")
    if at.get("kind") is None:
        kind = kind_of_old_environment(torch_version, source)
    else:
        kind = EnvironmentKind(_one_of(at, "kind", tuple(EnvironmentKind)))
    return Environment(
        at.need("fingerprint").text(),
        _text(at, "name"),
        torch_version,
        _text(at, "python_version"),
        _facts(at, "facts"),
        kind,
    )


def _preset(at: Value) -> RunPreset:
    return RunPreset(at.need("fingerprint").text(), _text(at, "name"), _facts(at, "settings"))


def _recording(at: Value) -> Recording:
    started = _integers(at.need("started_ns"), 0, _STAMP)
    ended = _integers(at.need("ended_ns"), 0, _STAMP)
    values = {name: _column(column) for name, column in at.need("values").object().items()}
    if {len(started)} != {len(started), len(ended), *map(len, values.values())}:
        raise BadFile(at.place, "has columns of different lengths")
    device = at.need("device").text()
    return Recording(
        device, _text(at, "name"), _text(at, "rung"), started, ended, values, _texts(at, "notes")
    )


def _column(at: Value) -> tuple[float | None, ...]:
    values: list[Any] = at.value if isinstance(at.value, list) else []
    if values and all(value is None or (type(value) is float and math.isfinite(value)) for value in values):
        return tuple(values)
    return tuple(None if each.value is None else each.number() for each in at.list())


def _integers(at: Value, low: int, high: int) -> tuple[int, ...]:
    """Many integers in `low` <= i < `high`: only a wrong one is worth a look of its own."""
    if isinstance(at.value, list):
        values: list[Any] = at.value
        if all(type(value) is int and low <= value < high for value in values):
            return tuple(values)
    for each in at.list():
        if type(each.value) is not int or not low <= each.value < high:
            raise each.wrong(f"an integer from {low} to {high - 1}")
    return ()


def _text(at: Value, name: str) -> str:
    """A text that may be empty, but has to be there."""
    member = at.need(name)
    return member.value if member.value == "" else member.text()


def _texts(at: Value, name: str) -> tuple[str, ...]:
    member = at.need(name)
    values: list[Any] = member.value if isinstance(member.value, list) else []
    if values and all(type(value) is str for value in values):
        return tuple(values)
    return tuple(each.value if each.value == "" else each.text() for each in member.list())


def _facts(at: Value, name: str) -> dict[str, Any]:
    member = at.need(name)
    if not isinstance(member.value, dict):
        raise member.wrong("an object")
    return dict(cast("dict[str, Any]", member.value))


def _facts_with_phases(at: Value) -> dict[str, Any]:
    """The facts of an outcome; its phases stand apart from them, save in exports of 0.1.0."""
    phases = _facts(at, "phases") if at.get("phases") else {}
    return _facts(at, "facts") | ({"phases": phases} if phases else {})


def _count(at: Value, name: str) -> int:
    return _integers(Value([at.need(name).value], at.place.at(name)), 0, _COUNT)[0]


def _one_of(at: Value, name: str, known: tuple[str, ...]) -> str:
    member = at.need(name)
    if member.value not in known:
        raise member.wrong(f"one of {', '.join(known)}")
    return member.value


def _maybe(at: Value, name: str, read: Callable[[Value], T]) -> T | None:
    member = at.get(name)
    return None if member is None else read(member)


def _moment(at: Value) -> datetime:
    expected = "a time with its zone, as 2026-11-21T20:15:00.000001+00:00"
    try:
        moment = datetime.fromisoformat(at.text())
        if moment.tzinfo is None:
            raise at.wrong(expected)
        return moment.astimezone(UTC)
    except (ValueError, OverflowError):
        raise at.wrong(expected) from None
