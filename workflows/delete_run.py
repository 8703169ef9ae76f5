"""A run taken out for good: out of the database, and its journal marked, which would bring it back."""

from collections.abc import Generator
from contextlib import contextmanager, suppress
from datetime import UTC, datetime
from pathlib import Path

from configuration.suggestions import unknown
from db.admin.delete_run import Forgotten, forget_run
from db.connection.engine import Database
from db.runs import queries
from runner import journal

from .errors import CannotForget, NoSuchRun
from .ingest import FORGOTTEN


def forget(
    database: Database, data_dir: Path, run: str, *, force: bool = False, dry_run: bool = False
) -> Forgotten | None:
    """Delete a run from the database, or only count it; None where only its journal is left to be marked.

    The journal stays, beside it a mark: with it no command stores the journal again, or tells of it. Raises
    NoSuchRun, CannotForget for a run that is being measured, and what `forget_run` raises.
    """
    path = data_dir / "runs" / run / journal.FILE
    there = path.is_file()
    if there and journal.in_use(path):
        raise CannotForget(f"run {run} is being measured just now")
    if dry_run:
        found = forget_run(database, run, force=force, dry_run=True)
    else:
        with _marked(path, there):
            found = forget_run(database, run, force=force)
    if found is None and not there:
        raise NoSuchRun(unknown("run", run, sorted(queries.run_ids(database))))
    return found


@contextmanager
def _marked(path: Path, there: bool) -> Generator[None]:
    """Mark a journal before its run goes: else the next command would store it again. Not where it stays."""
    mark = path.with_name(FORGOTTEN)
    if not there or mark.exists():
        yield
        return
    mark.write_text(f"forgotten at {datetime.now(UTC).isoformat()}; without this file it is stored again\n")
    try:
        yield
    except BaseException:
        with suppress(OSError):
            mark.unlink()
        raise
