"""Is everything that was measured stored, and stored as it was measured?"""

from collections.abc import Iterator
from pathlib import Path

from analysis.metrics import METRICS
from db.admin.check import WHOLE, Checked, guarded, metric_check, schema_check
from db.admin.check_runs import Progress, measurement_check, sample_check, telemetry_check, unseen
from db.connection.engine import Database
from db.errors import DatabaseError
from db.runs.replicates import stored_outcomes
from runner import journal
from runner.errors import JournalError

from .ingest import measured, pending


def check(
    database: Database, data_dir: Path, *, newest: int | None = None, progress: Progress = unseen
) -> Iterator[Checked]:
    """Look at everything there is, one thing after the other; of single runs only at the `newest`.

    `database` is one that `db.admin.check.looking` gives. Where its schema does not fit, nothing else is
    looked at.
    """
    first = guarded("schema", "revision", lambda: schema_check(database))
    yield first
    if first.problems:
        return
    journals = guarded("journals", "journals", lambda: _journals(database, data_dir))
    yield journals
    for name, unit, look in WHOLE:
        progress(name, 0, 1)
        yield guarded(name, unit, lambda look=look: look(database))
    yield guarded("metrics", "metrics", lambda: metric_check(database, METRICS.keys()))
    unfinished = _unfinished(database, data_dir)
    yield guarded(
        "measurements",
        "measurements",
        lambda: measurement_check(
            database,
            measured,
            unfinished=unfinished,
            newest=newest,
            progress=progress,
        ),
    )
    yield guarded("samples", "outcomes", lambda: sample_check(database, newest=newest, progress=progress))
    yield guarded(
        "telemetry", "recordings", lambda: telemetry_check(database, newest=newest, progress=progress)
    )


def _unfinished(database: Database, data_dir: Path) -> frozenset[str]:
    try:
        return frozenset(path.parent.name for path in pending(data_dir, stored_outcomes(database)))
    except DatabaseError:
        return frozenset()


def _journals(database: Database, data_dir: Path) -> Checked:
    """What lies in the data folder and is not stored to its end: no fault, the next command does it."""
    there = len(list((data_dir / "runs").glob(f"*/{journal.FILE}")))
    waiting = pending(data_dir, stored_outcomes(database))
    return Checked("journals", there, "journals", notes=tuple(map(_told, waiting)))


def _told(path: Path) -> str:
    run = path.parent.name
    try:
        if journal.in_use(path):
            return f"run {run} is being measured"
        outcomes = len(journal.read(path).outcomes)
    except (JournalError, OSError) as error:
        return f"{error}; it is left alone"
    waits = "is not stored to its end: the next command does that"
    return f"the journal of run {run} with {outcomes} outcomes {waits}"
