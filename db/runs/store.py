"""Writes of runs and their contents; a repeated call with the same records changes nothing."""

from collections import Counter
from collections.abc import Sequence
from math import isfinite
from typing import Any

from sqlalchemy import Connection, insert, select, update

from records.kinds import RunState
from records.outcomes import Measurement, Outcome
from records.runs import Run

from ..connection.engine import Database
from ..connection.statements import AnyRow, insert_missing, insert_or_replace, rows_among
from ..schema import core_tables as tables
from ..telemetry.queries import stored_values
from . import sample_codec
from .upserts import case_ids, environment_ids, hardware_id, machine_id, preset_id, series_ids

Values = dict[str, Any]

_KEY = ("run_number", "case_id", "environment_id", "replicate")
_POINT = ("series_id", "started_at", "run_number", "environment_id")
_NUMBERS = ("point", "low", "high", "smallest", "largest", "spread", "n")


def save_run(database: Database, run: Run, *, authoritative: bool = False) -> None:
    """Store a run, or update its state, end, planned, notes and facts.

    A complete run stays complete, even if an older record arrives later. The rows of its machine, hardware,
    preset and environments (their names, kinds and facts) are those that were stored first. They are replaced
    if they do not match their fingerprints, and by those of a later run that is `authoritative`: one from a
    journal of this data folder, not from an imported file. Raises ValueError if the id is that of another
    run, for example of another machine, and if an environment or a preset is stored with the same fingerprint
    and other content.
    """
    with database.writing() as connection:
        machine = machine_id(connection, run.machine, authoritative=authoritative)
        hardware = hardware_id(connection, run.machine.hardware, authoritative=authoritative)
        preset = preset_id(connection, run.preset, authoritative=authoritative)
        environments = environment_ids(connection, run.environments, authoritative=authoritative)
        later = _later_values(run)
        identity: Values = {
            "suite": run.suite,
            "started_at": run.started_at,
            "machine_id": machine,
            "hardware_id": hardware,
            "preset_id": preset,
            "harness": run.harness,
        }
        about: Values = {"kind": run.kind, "source": run.source, "source_format": run.source_format}
        first: Values = {"id": run.id, "command": run.command, "counts": {}, **about, **identity}
        new = insert_missing(connection, tables.RunRow, [first | later])
        stored = _lock_run(connection, run.id)
        _same_run(run, stored, identity)
        if new != 1 and (stored.state != RunState.COMPLETE or run.state == RunState.COMPLETE):
            connection.execute(
                update(tables.RunRow).where(tables.RunRow.number == stored.number).values(later)
            )
        places = [
            {"run_number": stored.number, "environment_id": environments[each.fingerprint], "position": place}
            for place, each in enumerate(run.environments)
        ]
        insert_missing(connection, tables.RunEnvironmentRow, places)


def save_outcomes(
    database: Database, run_id: str, outcomes: Sequence[Outcome], *, planned: bool = True
) -> int:
    """Store the outcomes that are not stored yet, update the counts of the run, and return the number of new
    ones.

    Outcomes that are not `planned`, those of the canary, do not count. Of two outcomes of one replicate the
    first is kept, and so is the first of two recordings of one device. Raises ValueError if the run, or an
    outcome's environment in it, was never stored.
    """
    if not outcomes:
        return 0
    with database.writing() as connection:
        run = _lock_run(connection, run_id)
        new = _not_stored(connection, run, outcomes)
        if not new:
            return 0
        connection.execute(insert(tables.OutcomeRow), [key | _outcome_values(each) for key, each in new])
        samples = [key | _sample_values(each.blocks) for key, each in new if each.blocks]
        if samples:
            connection.execute(insert(tables.SamplesRow), samples)
        telemetry = [key | values for key, each in new for values in _telemetry_values(each)]
        if telemetry:
            connection.execute(insert(tables.TelemetryRow), telemetry)
        if planned:
            counts = Counter(run.counts) + Counter(outcome.status for _, outcome in new)
            of_run = update(tables.RunRow).where(tables.RunRow.number == run.number)
            connection.execute(of_run.values(counts=dict(counts)))
        return len(new)


def save_more_metrics(database: Database, run_id: str, outcomes: Sequence[Outcome]) -> None:
    """Add to stored outcomes the metrics that they do not have yet; the other fields are unchanged.

    Raises ValueError if the run, or an outcome's environment in it, was never stored.
    """
    if not outcomes:
        return
    with database.writing() as connection:
        run = _lock_run(connection, run_id)
        environments = _environments_of(connection, run)
        cases = case_ids(connection, {outcome.case for outcome in outcomes})
        for outcome in outcomes:
            place = (run.number, cases[outcome.case], environments[outcome.environment], outcome.replicate)
            key = zip(_KEY, place, strict=True)
            this = [getattr(tables.OutcomeRow, name) == value for name, value in key]
            stored = connection.execute(select(tables.OutcomeRow.metrics).where(*this)).scalar()
            if stored is not None and outcome.metrics.keys() - stored.keys():
                metrics = {**outcome.metrics, **stored}
                connection.execute(update(tables.OutcomeRow).where(*this).values(metrics=metrics))


def save_measurements(database: Database, run_id: str, measurements: Sequence[Measurement]) -> None:
    """Store the measurements of a run; a stored one is updated with the new values.

    Raises ValueError for a value that is not finite, and if the run, or a measurement's environment in it,
    was never stored.
    """
    for each in measurements:
        if not (isfinite(each.point) and isfinite(each.smallest) and isfinite(each.largest)):
            raise ValueError(f"{each.metric} of {each.case} is not a finite number")
    if not measurements:
        return
    with database.writing() as connection:
        run = _lock_run(connection, run_id)
        environments = _environments_of(connection, run)
        cases = case_ids(connection, {each.case for each in measurements})
        pairs = [(cases[each.case], each.metric) for each in measurements]
        series = series_ids(connection, run.hardware_id, run.preset_id, pairs)
        # Of two with the same key the last one counts.
        rows = {
            (series[pair], each.environment): {
                "series_id": series[pair],
                "started_at": run.started_at,
                "run_number": run.number,
                "environment_id": environments[each.environment],
                **{name: getattr(each, name) for name in _NUMBERS},
            }
            for pair, each in zip(pairs, measurements, strict=True)
        }
        insert_or_replace(connection, tables.MeasurementRow, list(rows.values()), _POINT)


#: The columns that identify a run, with their names in messages.
_IDENTITY = {
    "started_at": "start",
    "suite": "suite",
    "machine_id": "machine",
    "hardware_id": "hardware",
    "preset_id": "preset",
    "harness": "harness",
}


def _same_run(run: Run, stored: AnyRow, identity: Values) -> None:
    others = [name for column, name in _IDENTITY.items() if getattr(stored, column) != identity[column]]
    if others:
        raise ValueError(f"run {run.id} is stored with another {' and another '.join(others)}")


class _KnownEnvironments(dict[str, int]):
    """The ids of the environments of one run by fingerprint."""

    def __missing__(self, fingerprint: str) -> int:
        raise ValueError(f"environment {fingerprint} does not belong to the run")


def _lock_run(connection: Connection, run_id: str) -> AnyRow:
    """The columns of a run that writes need; its row is locked until the transaction ends."""
    query = select(tables.RunRow).where(tables.RunRow.id == run_id).with_for_update()
    found = connection.execute(query).first()
    if found is None:
        raise ValueError(f"run {run_id} was never stored")
    return found


def _environments_of(connection: Connection, run: AnyRow) -> _KnownEnvironments:
    environment, link = tables.EnvironmentRow, tables.RunEnvironmentRow
    query = (
        select(environment.fingerprint, environment.id)
        .join(link, link.environment_id == environment.id)
        .where(link.run_number == run.number)
    )
    return _KnownEnvironments({fingerprint: id for fingerprint, id in connection.execute(query)})


def _not_stored(
    connection: Connection, run: AnyRow, outcomes: Sequence[Outcome]
) -> list[tuple[Values, Outcome]]:
    """The outcomes whose key is new, each with the key; of several with the same key the first."""
    environments = _environments_of(connection, run)
    cases = case_ids(connection, {outcome.case for outcome in outcomes})
    table = tables.OutcomeRow
    of_run = select(table.case_id, table.environment_id, table.replicate).where(
        table.run_number == run.number
    )
    keys = {tuple(row) for row in rows_among(connection, of_run, table.case_id, cases.values())}
    new: list[tuple[Values, Outcome]] = []
    for outcome in outcomes:
        case, environment = cases[outcome.case], environments[outcome.environment]
        if (case, environment, outcome.replicate) in keys:
            continue
        keys.add((case, environment, outcome.replicate))
        key = run.number, case, environment, outcome.replicate
        new.append((dict(zip(_KEY, key, strict=True)), outcome))
    return new


def _later_values(run: Run) -> Values:
    return {
        "ended_at": run.ended_at,
        "state": run.state,
        "planned": run.planned,
        "notes": list(run.notes),
        "facts": dict(run.facts),
    }


def _outcome_values(outcome: Outcome) -> Values:
    return {
        "status": outcome.status,
        "reason": outcome.reason,
        "phase": outcome.phase,
        "started_at": outcome.started_at,
        "wall_seconds": outcome.wall_seconds,
        "metrics": dict(outcome.metrics),
        "facts": dict(outcome.facts),
        "log_tail": outcome.log_tail,
    }


def _sample_values(blocks: Sequence[Sequence[int]]) -> Values:
    codec, blob = sample_codec.encode(blocks)
    return {"codec": codec, "blob": blob}


def _telemetry_values(outcome: Outcome) -> list[Values]:
    first = {recording.device: recording for recording in reversed(outcome.telemetry)}
    return [stored_values(recording) for recording in first.values()]
