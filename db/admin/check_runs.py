"""The integrity check of single runs: measurements, samples and recordings, run by run."""

import math
import time
from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from typing import Any

from sqlalchemy import Row, Select, select
from sqlalchemy.orm import InstrumentedAttribute

from common.text import plural
from records.kinds import RunSource, RunState
from records.outcomes import Measurement, Replicate
from records.runs import RunSummary

from ..connection.engine import Database
from ..errors import DatabaseError
from ..runs import queries, sample_codec
from ..runs.queries import replicates_of_run
from ..schema import core_tables as tables
from ..telemetry import codec as telemetry_codec
from .check import NOT_UNDERSTOOD, STORE_AGAIN, Checked, Problem, damage

AnyRow = Row[*tuple[Any, ...]]

#: What the replicates of a run say together.
Measure = Callable[[Iterable[Replicate]], Sequence[Measurement]]
#: What is looked at, how many are done, how many there are.
Progress = Callable[[str, int, int], None]

#: A process that is storing a run just now has stored the rest of it by then.
_MOMENT_SECONDS = 0.5
#: Another version of the mathematical library may round the last digit otherwise.
_ROUNDING = 1e-9

_RAW_STAYS = (
    "Its metrics are untouched; the run's journal has the rows still, and a new database that is filled from "
    "the journals holds them again."
)


def unseen(what: str, done: int, there: int) -> None:
    """Progress that is not shown."""


def measurement_check(
    database: Database,
    measure: Measure,
    *,
    unfinished: Collection[str] = (),
    newest: int | None = None,
    progress: Progress = unseen,
) -> Checked:
    """Whether the measurements of each run are what `measure` makes of its outcomes.

    Of the `newest` runs only, None for all. Runs of others hold what their files said,
    and a run that is running or `unfinished` is not all there yet: neither are compared.
    """
    runs, notes = _runs(database, newest)
    count = elsewhere = open_runs = 0
    problems: list[Problem] = []
    for run in _with_progress(runs, "measurements", progress):
        if run.source != RunSource.MEASURED:
            elsewhere += 1
        elif run.state == RunState.RUNNING or run.id in unfinished:
            open_runs += 1
        else:
            wrong, stored = _compared(database, run.id, measure)
            if wrong:
                # Outcomes are stored before measurements: another process may be storing this run.
                time.sleep(_MOMENT_SECONDS)
                wrong, stored = _compared(database, run.id, measure)
            count += stored
            problems += [Problem(wrong, STORE_AGAIN)] if wrong else []
    if elsewhere:
        notes += (f"{plural(elsewhere, 'run is', 'runs are')} imported, and taken as it came",)
    if open_runs:
        notes += (f"{plural(open_runs, 'run is', 'runs are')} not stored to its end, and not compared",)
    return Checked("measurements", count, "measurements", tuple(problems), notes)


def sample_check(database: Database, *, newest: int | None = None, progress: Progress = unseen) -> Checked:
    """Whether the samples of each outcome that has any can be read back, as many as they say."""
    return _blob_check(database, "samples", "outcomes", _SAMPLES, _read_samples, newest, progress)


def telemetry_check(database: Database, *, newest: int | None = None, progress: Progress = unseen) -> Checked:
    """Whether each recording can be read back, with as many rows and seconds as its columns say."""
    return _blob_check(database, "telemetry", "recordings", _RECORDINGS, _read_rows, newest, progress)


def _runs(database: Database, newest: int | None) -> tuple[list[RunSummary], tuple[str, ...]]:
    """The newest runs, and a note where these are not all."""
    there = queries.count_runs(database)
    runs = queries.recent_runs(database, limit=there if newest is None else newest)
    return runs, (f"of the newest {len(runs)} of {there} runs",) if len(runs) < there else ()


def _with_progress(runs: Sequence[RunSummary], what: str, progress: Progress) -> Iterator[RunSummary]:
    for done, run in enumerate(runs):
        progress(what, done, len(runs))
        yield run
    progress(what, len(runs), len(runs))


def _compared(database: Database, run: str, measure: Measure) -> tuple[str, int]:
    """What is wrong with the measurements of a run, nothing where all is well; and how many there are."""
    try:
        return _difference(database, run, measure)
    except NOT_UNDERSTOOD as error:
        return f"Run {run}: {damage(error)}", 0


def _difference(database: Database, run: str, measure: Measure) -> tuple[str, int]:
    stored = {each.key: each for each in queries.measurements_of_run(database, run)}
    made = {each.key: each for each in measure(replicates_of_run(database, run))}
    wrong = [name for name, each in made.items() if name not in stored or not _alike(each, stored[name])]
    wrong += stored.keys() - made.keys()
    if not wrong:
        return "", len(stored)
    case, _, metric = min(wrong)
    sentence = f"{len(wrong)} of {len(made)} measurements of run {run} are not what its outcomes say"
    return f"{sentence}: {metric} of {case} is one.", len(stored)


def _alike(one: Measurement, other: Measurement) -> bool:
    pairs = zip(_numbers(one), _numbers(other), strict=True)
    return all(
        a == b or (a is not None and b is not None and math.isclose(a, b, rel_tol=_ROUNDING))
        for a, b in pairs
    )


def _numbers(m: Measurement) -> tuple[float | None, ...]:
    return m.point, m.low, m.high, m.smallest, m.largest, m.spread, m.n


def _blob_check(
    database: Database,
    name: str,
    unit: str,
    blobs: Select[*tuple[Any, ...]],
    read: Callable[[AnyRow], str],
    newest: int | None,
    progress: Progress,
) -> Checked:
    runs, notes = _runs(database, newest)
    count = 0
    problems: list[Problem] = []
    for run in _with_progress(runs, name, progress):
        with database.reading() as connection:
            rows = connection.execute(blobs.where(tables.RunRow.id == run.id)).all()
        count += len(rows)
        for row in rows:
            if wrong := _wrong(read, row):
                sentence = f"{row.replicate} of {row.key} in run {run.id}: {wrong}"
                problems.append(Problem(f"Replicate {sentence}", _RAW_STAYS))
    return Checked(name, count, unit, tuple(problems), notes)


def _wrong(read: Callable[[AnyRow], str], row: AnyRow) -> str:
    try:
        return read(row)
    except DatabaseError as error:
        return str(error)
    except NOT_UNDERSTOOD as error:
        return damage(error)


def _read_samples(row: AnyRow) -> str:
    blocks = sample_codec.decode(row.codec, row.blob)
    return "" if any(blocks) else "It has samples, and there are none."


def _read_rows(row: AnyRow) -> str:
    rows = telemetry_codec.decode(row.codec, row.blob)
    lengths = {len(rows.started_ns), len(rows.ended_ns), *map(len, rows.values.values())}
    if lengths != {row.rows}:
        return (
            f"The recording of {row.device} has {len(rows.started_ns)} rows, and its column says {row.rows}."
        )
    seconds = (rows.ended_ns[-1] - rows.started_ns[0]) / 1e9 if rows.started_ns else 0.0
    if not math.isclose(seconds, row.seconds, rel_tol=_ROUNDING):
        return f"The recording of {row.device} goes over {seconds} s, and its column says {row.seconds} s."
    return ""


def _stored_by_replicate(
    table: type[tables.SamplesRow] | type[tables.TelemetryRow], *more: InstrumentedAttribute[Any]
) -> Select[*tuple[Any, ...]]:
    case = tables.BenchmarkCaseRow
    return (
        select(case.key, table.replicate, table.codec, table.blob, *more)
        .join(tables.RunRow, tables.RunRow.number == table.run_number)
        .join(case, case.id == table.case_id)
    )


_SAMPLES = _stored_by_replicate(tables.SamplesRow)
_RECORDINGS = _stored_by_replicate(
    tables.TelemetryRow, tables.TelemetryRow.device, tables.TelemetryRow.rows, tables.TelemetryRow.seconds
)
