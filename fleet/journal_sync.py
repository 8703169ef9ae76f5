"""Journals of a node that came while nobody mirrored them: fetched when node and head meet again."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, cast

from db.connection.engine import Database
from db.errors import DatabaseError
from db.queue.queries import task_of_run
from runner import journal
from runner.errors import JournalError
from workflows.ingest import FORGOTTEN, ingest

from .engine import Engine, EngineError
from .file_chunks import PIECE_BYTES, bytes_of
from .journal_mirror import Mirror, MirrorBusy, MirrorDiffers, is_run
from .retrying_client import CALL_SECONDS


@dataclass(frozen=True, slots=True)
class Fetched:
    """What came of a meeting: runs that grew here, whether some are `left` for another time, sentences."""

    runs: tuple[str, ...]
    left: bool
    said: tuple[str, ...]


def fetch(engine: Engine, node: str, data_dir: Path, open_database: Callable[[], Database]) -> Fetched:
    """Bring the journals of the runs that are known here up to what the node has, and store them.

    Known is what was mirrored before, and what a task names. A run that is still written to is left for
    another time, one that is longer here for ever. Raises nothing but for defects.
    """
    grown: list[str] = []
    said: list[str] = []
    try:
        told = cast("Sequence[Mapping[str, Any]]", engine.call(node, "runs", {}, CALL_SECONDS)["runs"])
        behind, left = _behind(told, data_dir, open_database, said)
        for run in behind:
            try:
                _bring(engine, node, data_dir, run)
            except MirrorBusy:
                # A child of ours goes on with it just now, and brings it along.
                continue
            except MirrorDiffers as error:
                said.append(f"{error}; it is left as it is")
                continue
            grown.append(run)
        # What cannot be stored now is stored by the next command that stores anything.
        _store(grown, data_dir, open_database, said)
    except (EngineError, DatabaseError) as error:
        return Fetched(tuple(grown), True, (*said, str(error)))
    except OSError as error:
        where = f": {error.filename}" if error.filename else ""
        return Fetched(tuple(grown), True, (*said, f"{error.strerror or error}{where}"))
    return Fetched(tuple(grown), left, tuple(said))


def _behind(
    told: Sequence[Mapping[str, Any]],
    data_dir: Path,
    open_database: Callable[[], Database],
    said: list[str],
) -> tuple[list[str], bool]:
    """The runs of which there is more on the node, and whether others have to wait."""
    behind: list[str] = []
    unknown: list[str] = []
    left = False
    for each in told:
        run, size = str(each["run"]), int(each["size"])
        if not is_run(run):
            continue
        path = data_dir / "runs" / run / journal.FILE
        here = path.stat().st_size if path.exists() else -1
        if path.with_name(FORGOTTEN).exists():
            continue
        if each["in_use"]:
            # One that is written to here as well comes along with the child that does so.
            left = left or here < 0 or not journal.in_use(path)
        elif here > size:
            said.append(f"{path} is longer than the journal on the node; it is left as it is")
        elif here < size:
            (behind if here >= 0 else unknown).append(run)
    if unknown:
        with open_database() as database:
            behind += [run for run in unknown if task_of_run(database, run) is not None]
    return behind, left


def _bring(engine: Engine, node: str, data_dir: Path, run: str) -> None:
    with Mirror(data_dir, run) as mirror:
        at, more = mirror.begin, True
        while more:
            call = {"run": run, "at": at, "most": PIECE_BYTES}
            answer = engine.call(node, "read", call, CALL_SECONDS)
            data = bytes_of(answer["data"])
            mirror.append(at, data)
            at, more = at + len(data), bool(answer["more"])
        mirror.finish()


def _store(
    runs: Sequence[str], data_dir: Path, open_database: Callable[[], Database], said: list[str]
) -> None:
    if not runs:
        return
    with open_database() as database:
        for run in runs:
            try:
                done = ingest(data_dir / "runs" / run / journal.FILE, database)
                said.append(f"run {run}: fetched, with {done.new_outcomes} outcomes that were not known here")
            except JournalError as error:
                said.append(f"{error}; it is left alone")
