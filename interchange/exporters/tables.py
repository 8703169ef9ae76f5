"""Runs as plain tables: the columns of each table, its rows in order, and both as CSV."""

import csv
import io
import json
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any, BinaryIO, Literal

from records.outcomes import Outcome

from ..runs import Catalogue, ExportedRun

#: Of each, None is "there is none". `json` is a text that holds a JSON document.
Kind = Literal["text", "json", "int64", "float64", "time"]
Row = tuple[Any, ...]

#: A spreadsheet takes a text that begins so for a formula. The apostrophe is among them so that what was
#: put in front can be distinguished from the original text.
_FORMULA = ("=", "+", "-", "@", "\t", "\r", "\n", "'", "＝", "＋", "－", "＠")


@dataclass(frozen=True, slots=True)
class ExportColumn:
    """A column: name, with the unit if it has one, type of its cells, and a description."""

    name: str
    kind: Kind
    meaning: str


@dataclass(frozen=True, slots=True)
class ExportTable:
    """A table: a description, columns, and the rows of a run.

    `wide` rows hold long texts; `of_outcomes` says that the rows are made of outcomes.
    """

    title: str
    columns: tuple[ExportColumn, ...]
    rows: Callable[[ExportedRun, Catalogue], Iterator[Row]]
    wide: bool = False
    of_outcomes: bool = True


def write_csv(table: ExportTable, runs: Iterable[ExportedRun], catalogue: Catalogue, sink: BinaryIO) -> None:
    """A table as CSV as in RFC 4180: UTF-8, a header, commas, lines that end in CR LF.

    Times are ISO 8601 in UTC, floats come back as they were, an empty cell is None or an empty text. A text
    that a spreadsheet might run as a formula gets an apostrophe in front; numbers never do.
    """
    # Detached at the end: the caller closes the sink.
    text = io.TextIOWrapper(sink, encoding="utf-8", errors="backslashreplace", newline="")
    try:
        writer = csv.writer(text)
        writer.writerow([column.name for column in table.columns])
        for exported in runs:
            writer.writerows([cell(value) for value in row] for row in table.rows(exported, catalogue))
    finally:
        text.detach()


def cell(value: Any) -> Any:
    """A value as a CSV file holds it: no text starts a formula, times are UTC, floats are exact."""
    if isinstance(value, str):
        return f"'{value}" if value.startswith(_FORMULA) else value
    if isinstance(value, datetime):
        return value.astimezone(UTC).isoformat(timespec="microseconds")
    return repr(value) if isinstance(value, float) else value


def _json(value: Any) -> str:
    return json.dumps(value, separators=(",", ":"))


def _runs(exported: ExportedRun, _: Catalogue) -> Iterator[Row]:
    run = exported.run
    machine, hardware, preset = run.machine, run.machine.hardware, run.preset
    versions = dict.fromkeys(each.torch_version for each in run.environments if each.torch_version)
    yield (
        run.id,
        run.suite,
        run.state,
        run.started_at,
        run.ended_at,
        machine.name,
        machine.fingerprint,
        hardware.label,
        hardware.fingerprint,
        preset.name,
        preset.fingerprint,
        ", ".join(versions),
        _json({each.fingerprint: each.name for each in run.environments}),
        run.harness,
        run.planned,
        run.command,
        _json(run.notes),
        _json(run.facts),
    )


def _whose(exported: ExportedRun, outcome: Outcome) -> Row:
    """The first five columns of what belongs to an outcome."""
    environment = exported.environments[outcome.environment]
    return exported.run.id, outcome.case, environment.name, outcome.environment, outcome.replicate


def _outcomes(exported: ExportedRun, _: Catalogue) -> Iterator[Row]:
    for outcome in exported.outcomes:
        yield (
            *_whose(exported, outcome),
            exported.environments[outcome.environment].torch_version,
            outcome.status,
            outcome.reason,
            outcome.phase,
            outcome.started_at,
            outcome.wall_seconds,
            _json(outcome.metrics),
            _json(outcome.facts),
            outcome.log_tail,
        )


def _measurements(exported: ExportedRun, catalogue: Catalogue) -> Iterator[Row]:
    run = exported.run
    for each in exported.measurements:
        environment, metric = exported.environments[each.environment], catalogue.metric(each.metric)
        yield (
            run.id,
            run.started_at,
            each.case,
            environment.name,
            each.environment,
            environment.torch_version,
            run.machine.name,
            run.machine.hardware.label,
            run.preset.name,
            each.metric,
            metric.unit if metric else None,
            metric.better if metric else None,
            each.point,
            each.low,
            each.high,
            each.smallest,
            each.largest,
            each.spread,
            each.n,
        )


def _samples(exported: ExportedRun, _: Catalogue) -> Iterator[Row]:
    for outcome in exported.outcomes:
        whose = _whose(exported, outcome)
        for number, block in enumerate(exported.samples(outcome)):
            for iteration, duration in enumerate(block):
                yield *whose, number, iteration, duration


def _telemetry(exported: ExportedRun, catalogue: Catalogue) -> Iterator[Row]:
    for outcome in exported.outcomes:
        whose = _whose(exported, outcome)
        for recording in exported.recordings(outcome):
            about = (*whose, recording.device, recording.name, recording.utilisation_source)
            for name, values in recording.values.items():
                unit = catalogue.telemetry_unit(name)
                stamps = zip(recording.started_ns, recording.ended_ns, values, strict=True)
                for row, (started, ended, value) in enumerate(stamps):
                    yield *about, name, unit, row, started, ended, value


_RUN = ExportColumn("run", "text", "id of the run")
_CASE = ExportColumn("case", "text", "key of the case: name/phase/parameters/technique")
_ENVIRONMENT = ExportColumn("environment", "text", "name of the environment")
_FINGERPRINT = ExportColumn("environment_fingerprint", "text", "identity of the environment")
_TORCH = ExportColumn("torch_version", "text", "its PyTorch; empty for the canary")
_OUTCOME = (
    _RUN,
    _CASE,
    _ENVIRONMENT,
    _FINGERPRINT,
    ExportColumn("replicate", "int64", "number of the process"),
)
_MACHINE = ExportColumn("machine", "text", "name of the machine")
_HARDWARE = ExportColumn("hardware", "text", "hardware label: machines with the same label are compared")
_PRESET = ExportColumn("preset", "text", "name of the measurement preset")
_UNIT = ExportColumn("unit", "text", "unit of the values in this row")
_STARTED = ExportColumn("started_at", "time", "when the run started")

TABLES: dict[str, ExportTable] = {
    "runs": ExportTable(
        "one row per run",
        (
            _RUN,
            ExportColumn("suite", "text", "what was measured"),
            ExportColumn("state", "text", "running, complete or interrupted"),
            _STARTED,
            ExportColumn("ended_at", "time", "when it ended"),
            _MACHINE,
            ExportColumn("machine_fingerprint", "text", "identity of the machine"),
            _HARDWARE,
            ExportColumn("hardware_fingerprint", "text", "identity of the hardware"),
            _PRESET,
            ExportColumn("preset_fingerprint", "text", "identity of the preset"),
            ExportColumn("torch_versions", "text", "with commas"),
            ExportColumn("environments", "json", "name by fingerprint"),
            ExportColumn("harness", "text", "version of what measured"),
            ExportColumn("planned", "int64", "planned replicates"),
            ExportColumn("command", "text", "what was typed"),
            ExportColumn("notes", "json", "sentences about what could not be measured"),
            ExportColumn("facts", "json", "settings and conditions"),
        ),
        _runs,
        wide=True,
        of_outcomes=False,
    ),
    "outcomes": ExportTable(
        "one row per replicate",
        (
            *_OUTCOME,
            _TORCH,
            ExportColumn("status", "text", "ok, skipped, unsupported, oom, timeout, crashed, wrong, ..."),
            ExportColumn("reason", "text", "reason of a status other than ok"),
            ExportColumn("phase", "text", "phase in which it ended"),
            ExportColumn("started_at", "time", "when the process started"),
            ExportColumn("wall_s", "float64", "how long it took"),
            ExportColumn("metrics", "json", "value by metric; units are those of the measurements"),
            ExportColumn("facts", "json", "further facts about it"),
            ExportColumn("log_tail", "text", "last lines of its output"),
        ),
        _outcomes,
        wide=True,
    ),
    "measurements": ExportTable(
        "one row per metric of a case in a run and environment",
        (
            *(_RUN, _STARTED, _CASE, _ENVIRONMENT, _FINGERPRINT, _TORCH, _MACHINE, _HARDWARE, _PRESET),
            ExportColumn("metric", "text", "name of the metric"),
            _UNIT,
            ExportColumn("better", "text", "lower, higher or neither"),
            ExportColumn("point", "float64", "median of the replicates"),
            ExportColumn("low", "float64", "95 % interval; none for fewer than two replicates"),
            ExportColumn("high", "float64", "95 % interval; none for fewer than two replicates"),
            ExportColumn("smallest", "float64", "of the replicates"),
            ExportColumn("largest", "float64", "of the replicates"),
            ExportColumn("spread_log", "float64", "standard deviation of the replicates' natural logarithms"),
            ExportColumn("n", "int64", "replicates"),
        ),
        _measurements,
        of_outcomes=False,
    ),
    "samples": ExportTable(
        "one row per timed iteration",
        (
            *_OUTCOME,
            ExportColumn("block", "int64", "from 0 on, in the order of measuring"),
            ExportColumn("iteration", "int64", "from 0 on, within its block"),
            ExportColumn("duration_ns", "int64", "how long it took"),
        ),
        _samples,
    ),
    "telemetry": ExportTable(
        "one row per reading of one column of one device",
        (
            *_OUTCOME,
            ExportColumn("device", "text", "host, or the GPU"),
            ExportColumn("device_name", "text", "its model"),
            ExportColumn("utilisation_source", "text", "source of GPU utilisation; none for the host"),
            ExportColumn("column", "text", "what was read"),
            _UNIT,
            ExportColumn("row", "int64", "from 0 on, within the recording"),
            ExportColumn("started_ns", "int64", "begin of the reading on CLOCK_MONOTONIC"),
            ExportColumn("ended_ns", "int64", "its end"),
            ExportColumn("value", "float64", "none if no value was read"),
        ),
        _telemetry,
    ),
}
