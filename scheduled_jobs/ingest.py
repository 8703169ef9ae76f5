"""From journals to the database: as often as one likes, the same thing once."""

from collections import defaultdict
from collections.abc import Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from math import isfinite
from pathlib import Path
from typing import Any, cast

from analysis.replicates import summarise
from db import queries, records, store
from db.engine import Database
from runner import journal
from runner.errors import JournalError
from runner.records import Outcome
from runner.telemetry.reading import Recording

from .header import Header

#: Beside a journal: its size when all of it was stored.
_STORED = "stored"


@dataclass(frozen=True, slots=True)
class Ingested:
    """What came of ingesting: run, new outcomes, lines set aside with their reasons."""

    run: str
    new_outcomes: int
    set_aside: tuple[str, ...]


def ingest(path: Path, database: Database, *, running: bool = False) -> Ingested:
    """Store one journal; storing it again changes nothing.

    Raises JournalError when it has no header that can be read or its lines do not fit together,
    DatabaseError when the database refuses.
    """
    try:
        return _ingested(path, database, running)
    except (AttributeError, KeyError, OverflowError, TypeError, ValueError) as error:
        # A line with a right checksum may still hold anything; it must not stop the journals after it.
        raise JournalError(f"{path} does not fit together: {type(error).__name__}: {error}") from error


def _ingested(path: Path, database: Database, running: bool) -> Ingested:
    size = path.stat().st_size
    contents = journal.read(path)
    header = Header.from_body(contents.header)
    complete = not contents.missing(header.replicates)
    state = "complete" if complete else "running" if running else "interrupted"
    ended_at = str(contents.ended["at"]) if contents.ended and state != "running" else None
    store.save_run(database, header.run_record(state, ended_at))
    new = store.save_outcomes(database, header.run, [stored_outcome(o) for o in contents.outcomes])
    store.save_outcomes(database, header.run, [stored_outcome(o) for o in contents.canaries], planned=False)
    store.save_measurements(database, header.run, measurements(contents.outcomes + contents.canaries))
    if not running:
        mark_stored(path, size)
    return Ingested(header.run, new, contents.set_aside)


def ingest_pending(data_dir: Path, database: Database) -> Iterator[Ingested | JournalError]:
    """Store every journal that is not stored to its end; a journal without a header is answered as its error.

    A journal that another process is writing just now is left to that process.
    """
    for path in pending(data_dir, queries.run_ids(database)):
        try:
            if not journal.in_use(path):
                yield ingest(path, database)
        except JournalError as error:
            yield error
        except OSError as error:
            yield JournalError(f"{path}: {error.strerror or error}")


def pending(data_dir: Path, known: Collection[str]) -> list[Path]:
    """The journals with something in them that is not stored yet, oldest run first.

    `known` are the runs in the database: the mark beside a journal speaks of the database it was stored in,
    which may have been deleted or exchanged since. An empty journal belongs to a run that was killed before
    it began.
    """
    found: list[Path] = []
    for path in sorted((data_dir / "runs").glob(f"*/{journal.FILE}")):
        mark = path.with_name(_STORED)
        try:
            stored = int(mark.read_text()) if mark.exists() else 0
        except ValueError:
            stored = 0
        size = path.stat().st_size
        if size and (stored != size or path.parent.name not in known):
            found.append(path)
    return found


def measurements(outcomes: Iterable[Outcome]) -> list[records.Measurement]:
    """One measurement per case, environment and metric, from the replicates that ended well."""
    values: dict[tuple[str, str, str], list[float]] = defaultdict(list)
    for outcome in outcomes:
        if outcome.status == "ok":
            for metric, value in outcome.metrics.items():
                if isfinite(value):
                    values[outcome.case, outcome.environment, metric].append(value)
    found: list[records.Measurement] = []
    for (case, environment, metric), replicates in values.items():
        s = summarise(replicates)
        found.append(
            records.Measurement(
                case, environment, metric, s.point, s.low, s.high, s.smallest, s.largest, s.spread, s.n
            )
        )
    return found


def stored_outcome(outcome: Outcome) -> records.Outcome:
    """An outcome as the database knows it."""
    started = datetime.fromisoformat(outcome.started_at) if outcome.started_at else datetime.now(UTC)
    return records.Outcome(
        case=outcome.case,
        environment=outcome.environment,
        replicate=outcome.replicate,
        status=outcome.status,
        reason=outcome.reason,
        phase=outcome.phase,
        started_at=started,
        wall_seconds=outcome.wall_seconds,
        metrics={name: value for name, value in outcome.metrics.items() if isfinite(value)},
        facts=_finite({**outcome.facts, "phases": dict(outcome.phases)}),
        log_tail=outcome.log_tail,
        blocks=outcome.blocks,
        telemetry=tuple(map(_stored_recording, outcome.telemetry)),
    )


def _stored_recording(recording: Recording) -> records.Recording:
    """A recording as the database knows it: what is not finite was no value."""
    return records.Recording(
        device=recording.device,
        name=recording.name,
        rung=recording.rung,
        started_ns=recording.started_ns,
        ended_ns=recording.ended_ns,
        values={column: tuple(_finite(values)) for column, values in recording.values.items()},
        notes=recording.notes,
    )


def mark_stored(path: Path, size: int) -> None:
    """Remember beside a journal that its first `size` bytes are stored."""
    try:
        path.with_name(_STORED).write_text(str(size))
    except OSError:
        # Storing twice changes nothing, so a lost mark costs only time.
        return


def _finite(value: Any) -> Any:
    """`value` with None for what is not finite: JSON has no such numbers, and Postgres insists on that."""
    if isinstance(value, float):
        return value if isfinite(value) else None
    if isinstance(value, Mapping):
        return {k: _finite(v) for k, v in cast("Mapping[str, Any]", value).items()}
    if isinstance(value, list | tuple):
        return [_finite(each) for each in cast("list[Any]", value)]
    return value
