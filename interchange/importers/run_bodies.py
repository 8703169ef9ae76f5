"""The bodies of the lines of an export, checked field by field, as records."""

from records.environments import Environment
from records.json_values import count_of, maybe, moment_of, name_in, one_of, table_of, text_of, texts_of
from records.kinds import EnvironmentKind, RunKind, RunSource, RunState
from records.machines import Hardware, Machine
from records.old_runs import kind_of_old_environment, kind_of_old_run, source_of_old_run
from records.outcomes import Measurement, MetricDefinition, Outcome, read_outcome
from records.runs import Run, RunPreset

from ..errors import BadFile
from ..source_file import Value

DIRECTIONS = ("lower", "higher", "neither")


def run_of(at: Value) -> Run:
    """The run of a body; raises BadFile."""
    kind, source, source_format = _kinds(at)
    return Run(
        id=at.need("id").text(),
        suite=text_of(at, "suite"),
        started_at=moment_of(at.need("started_at")),
        ended_at=maybe(at, "ended_at", moment_of),
        state=RunState(one_of(at, "state", tuple(RunState))),
        machine=_machine(at.need("machine")),
        environments=tuple(_environment(each, source) for each in at.need("environments").list()),
        preset=_preset(at.need(name_in(at, "preset", "profile"))),
        harness=text_of(at, "harness"),
        planned=count_of(at, "planned"),
        command=text_of(at, "command"),
        notes=texts_of(at, "notes"),
        facts=table_of(at, "facts"),
        kind=kind,
        source=source,
        source_format=source_format,
    )


def _kinds(at: Value) -> tuple[RunKind, RunSource, str]:
    """The kind, source and source format of a run; by the rules of their time where an export lacks them."""
    if at.get("kind") is None:
        kind = kind_of_old_run(text_of(at, "command"), table_of(at, "facts"))
        return kind, *source_of_old_run(at.need("id").text())
    kind = RunKind(one_of(at, "kind", tuple(RunKind)))
    return kind, RunSource(one_of(at, "source", tuple(RunSource))), text_of(at, "source_format")


def outcome_of(at: Value) -> Outcome:
    """The outcome of a body; raises BadFile."""
    return read_outcome(at)


def measurement_of(at: Value) -> Measurement:
    """The measurement of a body; raises BadFile, also for one that contradicts itself."""
    found = Measurement(
        case=at.need("case").text(),
        environment=at.need("environment").text(),
        metric=at.need("metric").text(),
        point=at.need("point").number(),
        low=maybe(at, "low", Value.number),
        high=maybe(at, "high", Value.number),
        smallest=at.need("smallest").number(),
        largest=at.need("largest").number(),
        spread=maybe(at, "spread", Value.number),
        n=count_of(at, "n"),
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
    better = one_of(at, "better", DIRECTIONS)
    return MetricDefinition(at.need("name").text(), text_of(at, "title"), text_of(at, "unit"), better)


def _machine(at: Value) -> Machine:
    hardware = at.need("hardware")
    return Machine(
        at.need("fingerprint").text(),
        text_of(at, "name"),
        Hardware(
            hardware.need("fingerprint").text(), text_of(hardware, "label"), table_of(hardware, "facts")
        ),
        table_of(at, "facts"),
    )


def _environment(at: Value, source: RunSource) -> Environment:
    torch_version = text_of(at, "torch_version")
    if at.get("kind") is None:
        kind = kind_of_old_environment(torch_version, source)
    else:
        kind = EnvironmentKind(one_of(at, "kind", tuple(EnvironmentKind)))
    return Environment(
        at.need("fingerprint").text(),
        text_of(at, "name"),
        torch_version,
        text_of(at, "python_version"),
        table_of(at, "facts"),
        kind,
    )


def _preset(at: Value) -> RunPreset:
    return RunPreset(at.need("fingerprint").text(), text_of(at, "name"), table_of(at, "settings"))
