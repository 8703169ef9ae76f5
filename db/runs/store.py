"""Everything that is written: a function called again with the same records changes nothing."""

from collections import Counter, defaultdict
from collections.abc import Sequence
from functools import cache
from math import isfinite
from operator import attrgetter
from typing import Any

from sqlalchemy import Connection, Row, bindparam, select, update

from records.outcomes import Measurement, Outcome
from records.runs import Run

from ..connection.batches import among, as_one, fetched
from ..connection.bulk import insert_rows
from ..connection.engine import Database
from ..schema import core_tables as tables
from ..series.rollups import add_to_rollups, update_rollups
from ..series.series_names import AnySelect
from ..telemetry.queries import stored_values
from . import sample_codec
from .upserts import (
    case_ids,
    environment_ids,
    hardware_id,
    insert_missing,
    machine_id,
    profile_id,
    series_ids,
)

Values = dict[str, Any]
#: The numbers of run, case and environment, and the replicate: what stands before an outcome and beside it.
Key = tuple[int, int, int, int]

_KEY = ("run_number", "case_id", "environment_id", "replicate")
_OUTCOME = (
    *_KEY,
    *("status", "reason", "phase", "started_at", "wall_seconds", "metrics", "facts", "log_tail"),
)
_SAMPLES = (*_KEY, "codec", "blob")
_POINT = ("series_id", "started_at", "run_number", "environment_id")
_NUMBERS = ("point", "low", "high", "smallest", "largest", "spread", "n")
_numbers = attrgetter(*_NUMBERS)
AnyRow = Row[*tuple[Any, ...]]

# Put together once: SQLAlchemy takes longer to do that than a database to answer.
_RUN = (
    select(
        tables.Run.number,
        tables.Run.started_at,
        tables.Run.state,
        tables.Run.counts,
        tables.Run.profile_id,
        tables.Run.hardware_id,
        tables.Run.machine_id,
        tables.Run.suite,
        tables.Run.harness,
    )
    .where(tables.Run.id == bindparam("id"))
    .with_for_update(of=tables.Run)
)
_OF_RUN = update(tables.Run).where(tables.Run.number == bindparam("of"))
_CHANGES = ("ended_at", "state", "planned", "notes", "facts")
_LATER = _OF_RUN.values({name: bindparam(name) for name in _CHANGES})
_COUNTS = _OF_RUN.values(counts=bindparam("counts"))
_THE_OUTCOME = [column == bindparam(f"the_{column.name}") for column in tables.Outcome.__table__.primary_key]
_METRICS = select(tables.Outcome.metrics).where(*_THE_OUTCOME)
_MORE_METRICS = update(tables.Outcome).where(*_THE_OUTCOME).values(metrics=bindparam("more"))
_MEASURED = select(tables.Measurement.series_id).where(tables.Measurement.run_number == bindparam("number"))
_ENVIRONMENTS = (
    select(tables.Environment.fingerprint, tables.Environment.id, tables.Environment.torch_version)
    .join(tables.RunEnvironment, tables.RunEnvironment.environment_id == tables.Environment.id)
    .where(tables.RunEnvironment.run_number == bindparam("number"))
)


def save_run(database: Database, run: Run) -> None:
    """Store a run, or what has become of it since: state, end, planned, notes and facts.

    A run that is complete stays so, whatever older record arrives later. The rows of its machine,
    environments and profile are written once: a fingerprint stands for what it was first stored with.

    Raises ValueError where the id is that of another run, of another machine for example, and where an
    environment or a profile of the same fingerprint is stored as something else.
    """
    with database.writing() as connection:
        machine = machine_id(connection, run.machine)
        hardware = hardware_id(connection, run.machine.hardware)
        profile = profile_id(connection, run.profile)
        environments = environment_ids(connection, run.environments)
        later = _later_values(run)
        identity: Values = {
            "suite": run.suite,
            "started_at": run.started_at,
            "machine_id": machine,
            "hardware_id": hardware,
            "profile_id": profile,
            "harness": run.harness,
        }
        first: Values = {"id": run.id, "command": run.command, "counts": {}, **identity}
        new = insert_missing(connection, tables.Run, [first | later])
        stored = _lock_run(connection, run.id)
        _same_run(run, stored, identity)
        if new != 1 and (stored.state != "complete" or run.state == "complete"):
            connection.execute(_LATER, later | {"of": stored.number})
        places = [
            {"run_number": stored.number, "environment_id": environments[each.fingerprint], "position": place}
            for place, each in enumerate(run.environments)
        ]
        insert_missing(connection, tables.RunEnvironment, places)


def save_outcomes(
    database: Database, run_id: str, outcomes: Sequence[Outcome], *, planned: bool = True
) -> int:
    """Store the outcomes that are not stored yet and return how many those were; the run's counts follow.

    They do not when the outcomes were not `planned`: the canary's belong to the run and to no plan.

    Of two outcomes of one replicate the first stays, and of two recordings of one device beside it. Raises
    ValueError if the run, or an outcome's environment in it, was never stored.
    """
    if not outcomes:
        return 0
    with database.writing() as connection:
        run = _lock_run(connection, run_id)
        new = _not_stored(connection, run, outcomes)
        if not new:
            return 0
        insert_rows(connection, tables.Outcome, _OUTCOME, [key + _ended(each) for key, each in new])
        samples = [key + sample_codec.encode(each.blocks) for key, each in new if each.blocks]
        insert_rows(connection, tables.Samples, _SAMPLES, samples)
        telemetry = [row for key, each in new if each.telemetry for row in _telemetry_rows(key, each)]
        if telemetry:
            insert_rows(
                connection,
                tables.Telemetry,
                (*_KEY, *telemetry[0][1]),
                [(*key, *values.values()) for key, values in telemetry],
            )
        if planned:
            counts = Counter(run.counts) + Counter(outcome.status for _, outcome in new)
            connection.execute(_COUNTS, {"of": run.number, "counts": dict(counts)})
        return len(new)


def save_more_metrics(database: Database, run_id: str, outcomes: Sequence[Outcome]) -> None:
    """Give stored outcomes those metrics that they do not have yet; what else is stored of them stays.

    Raises ValueError if the run, or an outcome's environment in it, was never stored.
    """
    if not outcomes:
        return
    with database.writing() as connection:
        run = _lock_run(connection, run_id)
        environments = _environments_of(connection, run)
        cases = case_ids(connection, {outcome.case for outcome in outcomes})
        for outcome in outcomes:
            key = {
                "the_run_number": run.number,
                "the_case_id": cases[outcome.case],
                "the_environment_id": environments[outcome.environment].id,
                "the_replicate": outcome.replicate,
            }
            stored = connection.execute(_METRICS, key).scalar()
            if stored is not None and outcome.metrics.keys() - stored.keys():
                connection.execute(_MORE_METRICS, key | {"more": {**outcome.metrics, **stored}})


def save_measurements(database: Database, run_id: str, measurements: Sequence[Measurement]) -> None:
    """Store the measurements of a run; one that is stored already takes the new values, and so do rollups.

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
        series = series_ids(connection, run.hardware_id, run.profile_id, pairs)
        # Of two of the same the last one counts.
        values = {
            (series[pair], each.environment): each for pair, each in zip(pairs, measurements, strict=True)
        }
        used = {fingerprint: environments[fingerprint].id for _, fingerprint in values}
        stored = {each for (each,) in fetched(connection, _MEASURED, {"number": run.number})}
        started_at, number = run.started_at, run.number
        rows = [
            (place, started_at, number, used[fingerprint], *_numbers(each))
            for (place, fingerprint), each in values.items()
        ]
        key = _POINT if stored else ()
        insert_rows(connection, tables.Measurement, (*_POINT, *_NUMBERS), rows, replacing=key)
        versions = {fingerprint: environments[fingerprint].torch_version for fingerprint in used}
        new: dict[tuple[str, int], list[float]] = defaultdict(list)
        for (place, fingerprint), each in values.items():
            if place not in stored:
                new[versions[fingerprint], place].append(each.point)
        if again := stored.intersection(place for place, _ in values):
            update_rollups(connection, again, set(versions.values()), started_at)
        add_to_rollups(connection, new, started_at)


#: What a run cannot change without being another, by its column.
_IDENTITY = {
    "started_at": "start",
    "suite": "suite",
    "machine_id": "machine",
    "hardware_id": "hardware",
    "profile_id": "profile",
    "harness": "harness",
}


def _same_run(run: Run, stored: AnyRow, identity: Values) -> None:
    others = [name for column, name in _IDENTITY.items() if getattr(stored, column) != identity[column]]
    if others:
        raise ValueError(f"run {run.id} is stored with another {' and another '.join(others)}")


class _KnownEnvironments(dict[str, AnyRow]):
    """Environments of one run: id and PyTorch version by fingerprint."""

    def __missing__(self, fingerprint: str) -> AnyRow:
        raise ValueError(f"environment {fingerprint} does not belong to the run")


def _lock_run(connection: Connection, run_id: str) -> AnyRow:
    """What the store needs to know of a run, which nobody else writes to until this transaction ends."""
    found = connection.execute(_RUN, {"id": run_id}).first()
    if found is None:
        raise ValueError(f"run {run_id} was never stored")
    return found


def _environments_of(connection: Connection, run: AnyRow) -> _KnownEnvironments:
    found = connection.execute(_ENVIRONMENTS, {"number": run.number})
    return _KnownEnvironments({row.fingerprint: row for row in found})


def _not_stored(
    connection: Connection, run: AnyRow, outcomes: Sequence[Outcome]
) -> list[tuple[Key, Outcome]]:
    """The outcomes whose key is not taken yet, each with that key; of several with the same key the first."""
    environments = _environments_of(connection, run)
    cases = case_ids(connection, {outcome.case for outcome in outcomes})
    dialect = connection.dialect.name
    asked = {"number": run.number, "cases": as_one(dialect, cases.values())}
    taken = set(fetched(connection, _taken(dialect), asked))
    new: list[tuple[Key, Outcome]] = []
    for outcome in outcomes:
        case, environment = cases[outcome.case], environments[outcome.environment].id
        if (case, environment, outcome.replicate) in taken:
            continue
        taken.add((case, environment, outcome.replicate))
        new.append(((run.number, case, environment, outcome.replicate), outcome))
    return new


@cache
def _taken(dialect: str) -> AnySelect:
    """The keys of a run's outcomes of some cases."""
    table = tables.Outcome
    return select(table.case_id, table.environment_id, table.replicate).where(
        table.run_number == bindparam("number"), among(dialect, table.case_id, "cases")
    )


def _later_values(run: Run) -> Values:
    return {
        "ended_at": run.ended_at,
        "state": run.state,
        "planned": run.planned,
        "notes": list(run.notes),
        "facts": dict(run.facts),
    }


def _ended(outcome: Outcome) -> tuple[Any, ...]:
    """The columns of `_OUTCOME` after its key."""
    return (
        outcome.status,
        outcome.reason,
        outcome.phase,
        outcome.started_at,
        outcome.wall_seconds,
        dict(outcome.metrics),
        dict(outcome.facts),
        outcome.log_tail,
    )


def _telemetry_rows(key: Key, outcome: Outcome) -> list[tuple[Key, Values]]:
    first = {recording.device: recording for recording in reversed(outcome.telemetry)}
    return [(key, stored_values(recording)) for recording in first.values()]
