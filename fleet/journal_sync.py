"""Fetch journals of a node that grew while they were not mirrored."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

from db.connection.engine import Database
from db.errors import DatabaseError
from db.queue.queries import task_of_run
from runner import journal
from runner.errors import JournalError
from workflows.ingest import FORGOTTEN, ingest

from .engine import Engine, EngineError, NodeJournal
from .journal_mirror import Mirror, MirrorBusy, MirrorDiffers, is_run


@dataclass(frozen=True, slots=True)
class Fetched:
    """Runs whose mirror grew, whether some are `left` for the next time, and sentences about them."""

    runs: tuple[str, ...]
    left: bool
    notes: tuple[str, ...]


def fetch(engine: Engine, node: str, data_dir: Path, open_database: Callable[[], Database]) -> Fetched:
    """Complete the mirrors of a node's journals, and store their runs.

    Only runs that were mirrored before, or that a task names. A journal that is in use is left for the next
    time, one that is longer on the head for ever. What fails is a note; raises only for defects.
    """
    grown: list[str] = []
    notes: list[str] = []
    try:
        behind, left = _behind(engine.runs(node), data_dir, open_database, notes)
        for each in behind:
            try:
                _copy(engine, node, data_dir, each)
            except MirrorBusy:
                # A child resumes it, and its journal is mirrored with that.
                continue
            except MirrorDiffers as error:
                notes.append(f"{error}; it is left as it is")
                continue
            grown.append(each.run)
        # What cannot be stored now is stored by the next ingest.
        _store(grown, data_dir, open_database, notes)
    except (EngineError, DatabaseError) as error:
        return Fetched(tuple(grown), True, (*notes, str(error)))
    except OSError as error:
        where = f": {error.filename}" if error.filename else ""
        return Fetched(tuple(grown), True, (*notes, f"{error.strerror or error}{where}"))
    return Fetched(tuple(grown), left, tuple(notes))


def _behind(
    journals: Sequence[NodeJournal],
    data_dir: Path,
    open_database: Callable[[], Database],
    notes: list[str],
) -> tuple[list[NodeJournal], bool]:
    """The journals that are longer on the node, and whether others have to wait."""
    behind: list[NodeJournal] = []
    unknown: list[NodeJournal] = []
    left = False
    for each in journals:
        if not is_run(each.run):
            continue
        path = data_dir / "runs" / each.run / journal.FILE
        local_size = path.stat().st_size if path.exists() else -1
        if path.with_name(FORGOTTEN).exists():
            continue
        if each.in_use:
            # One that is in use on the head as well is mirrored with its child.
            left = left or local_size < 0 or not journal.in_use(path)
        elif local_size > each.size:
            notes.append(f"{path} is longer than the journal on the node; it is left as it is")
        elif local_size < each.size:
            (behind if local_size >= 0 else unknown).append(each)
    if unknown:
        with open_database() as database:
            behind += [each for each in unknown if task_of_run(database, each.run) is not None]
    return behind, left


def _copy(engine: Engine, node: str, data_dir: Path, there: NodeJournal) -> None:
    with Mirror(data_dir, there.run) as mirror:
        at, more = mirror.begin, True
        while more:
            chunk = engine.read(node, {there.path: at}, final=True)[there.path]
            mirror.append(at, chunk.data)
            at, more = at + len(chunk.data), chunk.more
        mirror.finish()


def _store(
    runs: Sequence[str], data_dir: Path, open_database: Callable[[], Database], notes: list[str]
) -> None:
    if not runs:
        return
    with open_database() as database:
        for run in runs:
            try:
                done = ingest(data_dir / "runs" / run / journal.FILE, database)
                notes.append(
                    f"run {run}: fetched, with {done.new_outcomes} outcomes that were not known here"
                )
            except JournalError as error:
                notes.append(f"{error}; it is left alone")
