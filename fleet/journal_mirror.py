"""Copies of a node's journals on the head: appended whole or not at all, and never over different bytes."""

import os
import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

from common.atomic_file import append_whole, sync_folder
from common.bounded_files import MAX_LINE
from common.file_lock import lock
from common.text import os_reason
from db.connection.engine import Database
from db.errors import DatabaseError
from db.queue.queries import task_of_run
from runner import journal
from runner.errors import JournalError
from workflows.ingest import FORGOTTEN, ingest

from .engine import Engine, EngineError, NodeJournal

#: A process that checks whether a journal is in use, or completes its mirror, holds its lock for so long.
LOCK_SECONDS = 5.0
#: How many known bytes are read again, to check that it is the same journal.
_OVERLAP_BYTES = 4096


_RUN = re.compile(r"[0-9A-Za-z][0-9A-Za-z._-]{0,99}")


class MirrorDiffers(Exception):
    """The journal on the node differs from its mirror; the text is one sentence."""


class MirrorBusy(Exception):
    """Another process writes this mirror; the text is one sentence."""


def is_run(name: str) -> bool:
    """Whether a name is a valid id of a run; another machine cannot name a path outside of `runs/`."""
    return _RUN.fullmatch(name) is not None


def append(path: Path, data: bytes) -> None:
    """Append all of `data` to a file, or raise OSError and leave the file unchanged."""
    descriptor = os.open(path, os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o644)
    try:
        append_whole(descriptor, data)
    finally:
        os.close(descriptor)


class Mirror:
    """The copy in `data_dir` of a journal on another machine.

    `at` is how many bytes of it are known. The file is created with its first line. While it is open its lock
    is held, as by the process of a run: an unfinished run is not stored as an interrupted one.
    """

    def __init__(self, data_dir: Path, run: str) -> None:
        self.path = journal.path_of(data_dir, run)
        self._run = run
        self._file = -1
        #: The beginning of a line that has no newline yet.
        self._torn = b""
        self._size = 0
        if self.path.exists():
            self._open()

    def __enter__(self) -> "Mirror":
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        """Close it; the beginning of a line is dropped."""
        if self._file >= 0:
            os.close(self._file)
            self._file = -1

    @property
    def at(self) -> int:
        """How many bytes of the journal were received, written or not."""
        return self._size + len(self._torn)

    @property
    def begin(self) -> int:
        """The offset of the next read: some known bytes are read again, and compared."""
        return max(0, self.at - _OVERLAP_BYTES)

    def append(self, at: int, data: bytes) -> None:
        """Take the bytes of the journal from offset `at` on, and write whole lines.

        Bytes that are known are compared: raises MirrorDiffers where they differ, where bytes before `at` are
        missing, and for more than a journal may have. Raises OSError where a write fails, and MirrorBusy
        where another process writes; then nothing has changed, and the same bytes may be appended again.
        """
        if at + len(data) > journal.MAX_BYTES:
            raise MirrorDiffers(f"the journal of run {self._run} on the node is larger than any of ours")
        if (b"\n" in data or len(self._torn) > MAX_LINE) and (at <= self.at or self.path.exists()):
            self._open()
        overlap = self.at - at
        if overlap < 0:
            raise MirrorDiffers(
                f"{-overlap} bytes of the journal of run {self._run} are missing before byte {at}"
            )
        again, new = data[:overlap], data[overlap:]
        if again and again != self._read_bytes(at, len(again)):
            raise MirrorDiffers(_differs(self._run, self.path))
        text = self._torn + new
        whole = text.rfind(b"\n") + 1
        if self._file >= 0 and len(text) - whole > MAX_LINE:
            # No reader takes that line, and nothing holds it in memory.
            whole = len(text)
        if whole:
            self._write(text[:whole])
        self._torn = text[whole:]

    def finish(self) -> None:
        """Write the rest, half a line as well: the journal on the node is final, and both must be equal."""
        if self._torn:
            self._open()
        if self._torn:
            self._write(self._torn)
            self._torn = b""

    def _read_bytes(self, at: int, many: int) -> bytes:
        found = os.pread(self._file, many, at) if self._file >= 0 else b""
        return found + self._torn[max(0, at - self._size) : max(0, at + many - self._size)]

    def _write(self, data: bytes) -> None:
        append_whole(self._file, data, sync=True)
        self._size += len(data)

    def _open(self) -> None:
        """Open it under its lock, with what another process has written meanwhile.

        Raises MirrorBusy while another process writes it, and MirrorDiffers where that wrote other bytes.
        """
        if self._file >= 0:
            return
        folder = self.path.parent
        folder.mkdir(parents=True, exist_ok=True)
        descriptor = os.open(self.path, os.O_RDWR | os.O_APPEND | os.O_CREAT, 0o644)
        try:
            if not lock(descriptor, wait_seconds=LOCK_SECONDS):
                raise MirrorBusy(f"another process writes {self.path}")
            size = os.fstat(descriptor).st_size
            written = os.pread(descriptor, min(size, len(self._torn)), 0)
            if not self._torn.startswith(written):
                raise MirrorDiffers(_differs(self._run, self.path))
            for each in (folder, folder.parent):
                sync_folder(each)
        except BaseException:
            os.close(descriptor)
            raise
        self._file, self._size, self._torn = descriptor, size, self._torn[size:]


def _differs(run: str, path: Path) -> str:
    return f"the journal of run {run} on the node differs from the one in {path}"


@dataclass(frozen=True, slots=True)
class FetchResult:
    """Runs whose mirror grew, whether some are `left` for the next time, and sentences about them."""

    runs: tuple[str, ...]
    left: bool
    notes: tuple[str, ...]


def fetch(engine: Engine, node: str, data_dir: Path, open_database: Callable[[], Database]) -> FetchResult:
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
        return FetchResult(tuple(grown), True, (*notes, str(error)))
    except OSError as error:
        return FetchResult(tuple(grown), True, (*notes, os_reason(error)))
    return FetchResult(tuple(grown), left, tuple(notes))


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
        path = journal.path_of(data_dir, each.run)
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
            chunk = engine.read_files(node, {there.path: at}, final=True)[there.path]
            mirror.append(at, chunk.data)
            # A node that announces more and sends nothing is not asked again.
            at, more = at + len(chunk.data), chunk.more and bool(chunk.data)
        mirror.finish()


def _store(
    runs: Sequence[str], data_dir: Path, open_database: Callable[[], Database], notes: list[str]
) -> None:
    if not runs:
        return
    with open_database() as database:
        for run in runs:
            try:
                result = ingest(journal.path_of(data_dir, run), database)
                notes.append(
                    f"run {run}: fetched, with {result.new_outcomes} outcomes that were not known here"
                )
            except JournalError as error:
                notes.append(f"{error}; it is left alone")
