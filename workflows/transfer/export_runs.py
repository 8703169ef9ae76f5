"""Exports runs from the database to files: complete, as tables, or in the format of another database."""

import re
from collections import defaultdict
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from importlib.metadata import version
from typing import BinaryIO, Literal

from configuration.suggestions import unknown
from db.connection.engine import Database
from db.errors import DamagedSamples, DamagedTelemetry, SchemaTooNew
from db.runs import metric_definitions, queries
from db.telemetry import queries as telemetry
from interchange.exporters import pyrometer
from interchange.exporters.oss_v3 import write_oss_v3
from interchange.exporters.tables import TABLES, write_csv
from interchange.runs import Catalogue, ExportedRun
from records.kinds import RunState
from records.outcomes import Outcome
from records.telemetry import Recording
from runner.telemetry.columns import COLUMNS

from ..errors import NoSuchRun
from ..load_run import LATEST

Format = Literal["pyrometer", "csv", "parquet", "oss-v3"]
#: The formats with a table; the others contain complete runs.
OF_TABLES: tuple[Format, ...] = ("csv", "parquet")

_CPU = re.compile(r"cpu\d+")
#: Larger than the number of recordings of a run.
_ALL = 2**31 - 1
#: Errors of single outcomes, which do not prevent exporting the others.
_UNREADABLE = (DamagedSamples, DamagedTelemetry, SchemaTooNew)


@dataclass(slots=True)
class ExportCounts:
    """The amount written so far, of `total_runs` runs."""

    total_runs: int
    runs: int = 0
    outcomes: int = 0
    measurements: int = 0


#: Called for every run and outcome; and called with a sentence about parts that could not be exported.
Progress = Callable[[ExportCounts], None]
Note = Callable[[str], None]


def requested_run_ids(database: Database, requests: Sequence[str]) -> list[str]:
    """The ids of the requested runs, each once; `latest` is the one that started last. Raises NoSuchRun."""
    latest = queries.latest_run_id(database)
    if latest is None:
        raise NoSuchRun("no run is stored yet: `pyrometer run` measures one")
    names = list(dict.fromkeys(latest if name == LATEST else name for name in requests))
    stored = queries.run_ids(database)
    for name in names:
        if name not in stored:
            raise NoSuchRun(unknown("run", name, stored, newest_first=True))
    return names


def all_run_ids(database: Database) -> list[str]:
    """The ids of all runs, the oldest first; raises NoSuchRun where there is none."""
    if not (names := queries.runs_by_age(database)):
        raise NoSuchRun("no run is stored yet: `pyrometer run` measures one")
    return names


def export(
    database: Database,
    names: Sequence[str],
    sink: BinaryIO,
    *,
    form: Format,
    table: str = "",
    progress: Progress,
    note: Note,
) -> ExportCounts:
    """Write the runs of these ids, one outcome in memory at a time; `table` is one of TABLES.

    Samples and recordings that cannot be read back are left out, with a note. Raises NoSuchRun for a run that
    was deleted meanwhile, OSError for an error of the sink, and DatabaseError.
    """
    catalogue = Catalogue(metric_definitions.metric_definitions(database), _telemetry_unit)
    done = ExportCounts(len(names))
    with_outcomes = form not in OF_TABLES or TABLES[table].of_outcomes
    runs = _runs(database, names, done, progress, note, with_outcomes)
    if form == "csv":
        write_csv(TABLES[table], runs, catalogue, sink)
    elif form == "parquet":
        # Imported here: loading Arrow takes longer than most commands.
        from interchange.exporters.parquet import write_parquet

        write_parquet(TABLES[table], runs, catalogue, sink)
    elif form == "oss-v3":
        write_oss_v3(runs, catalogue, sink)
    else:
        written_at = datetime.now(UTC)
        sink.writelines(
            pyrometer.lines_of(runs, catalogue, program=version("pyrometer"), written_at=written_at)
        )
    return done


def _runs(
    database: Database,
    names: Sequence[str],
    done: ExportCounts,
    progress: Progress,
    note: Note,
    outcomes: bool,
) -> Iterator[ExportedRun]:
    for name in names:
        exported = exported_run(database, name, note, with_outcomes=outcomes)
        done.runs += 1
        done.outcomes += len(exported.outcomes)
        done.measurements += len(exported.measurements)
        progress(done)
        yield exported


def exported_run(
    database: Database, name: str, note: Note = lambda _: None, *, with_outcomes: bool = True
) -> ExportedRun:
    """One run, in an order that is the same for any database; raises NoSuchRun.

    `note` receives sentences about samples and recordings that cannot be read.
    """
    run = queries.run_record(database, name)
    if run is None:
        raise NoSuchRun(f"run {name} has just been deleted from the database")
    if run.state == RunState.RUNNING:
        note(f"run {name} has not ended: only the part stored so far is exported")
    place = {each.fingerprint: number for number, each in enumerate(run.environments)}
    devices: dict[tuple[str, str, int], list[str]] = defaultdict(list)
    if with_outcomes:
        for window in telemetry.windows(database, run=name, limit=_ALL):
            devices[window.case, window.environment, window.replicate].append(window.device)

    def samples(outcome: Outcome) -> tuple[tuple[int, ...], ...]:
        try:
            return queries.samples(database, name, *outcome.key) or ()
        except _UNREADABLE as error:
            note(f"run {name}, {outcome.case} #{outcome.replicate}: {error} Exported without them.")
            return ()

    def recordings(outcome: Outcome) -> tuple[Recording, ...]:
        found: list[Recording] = []
        for device in sorted(devices[outcome.key]):
            try:
                recording = telemetry.recording(database, name, *outcome.key, device)
            except _UNREADABLE as error:
                note(
                    f"run {name}, {outcome.case} #{outcome.replicate}, {device}: {error} Exported without it."
                )
                continue
            # It may have been pruned since the list was made.
            found += [recording] if recording else []
        return tuple(found)

    outcomes = queries.outcomes_of_run(database, name) if with_outcomes else []
    outcomes.sort(key=lambda each: (each.started_at, each.case, place[each.environment], each.replicate))
    measured = queries.measurements_of_run(database, name)
    measured.sort(key=lambda each: (each.case, place[each.environment], each.metric))
    return ExportedRun(run, outcomes, measured, samples, recordings)


def _telemetry_unit(column: str) -> str:
    definition = COLUMNS.get(column)
    return definition.unit if definition else "%" if _CPU.fullmatch(column) else ""
