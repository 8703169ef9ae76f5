"""The journal of a run: an append-only file that loses no measurement.

One JSON object per line: `{"v": 1, "kind": ..., "crc": ..., "body": ...}` (see `common.journal_lines`).
Each line is flushed to the disk before anything else happens to it. A torn last line (the machine died
while writing) and a damaged line are set aside and counted; the rest is good.
"""

import contextlib
import errno
import io
import json
import os
import stat
from collections.abc import Collection, Generator, Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, BinaryIO

from common.atomic_file import append_whole, sync_folder
from common.bounded_files import MAX_LINE, Piece, bounded_lines, pieces
from common.file_lock import lock
from common.journal_lines import JournalLine, decode_line, encode_line, holds_too_much
from records.outcomes import Outcome, PlannedReplicate

from .errors import JournalError

FILE = "journal.jsonl"
#: Set aside at the start of a run and given back when the disk is full, so that the lines of the outcomes
#: still to come find room.
_RESERVE_BYTES = 8 << 20
#: A larger file, or one with more lines that cannot be used, is none of ours. From so many bytes on it takes
#: no more samples: what is left has room for the metrics of as many replicates as any run has.
MAX_BYTES, MOST_BAD, _SAMPLES_BYTES = 4 << 30, 10_000, 3 << 30
#: No plan bounds the outcomes of the canary; no run has so many.
_MOST_CANARIES = 100_000
#: Facts and metrics of all planned outcomes together take about so many bytes of memory at most, and for each
#: of them so many more, for a process may list 200 disturbed blocks; of the largest run so many in all.
_MOST_FACTS, _FACTS_OF_EACH, _FACTS_OF_ALL = 48 << 20, 256 << 10, 3 << 30
#: About how many bytes a value of JSON takes as a Python object, and a list or an object besides.
_VALUE, _CONTAINER = 64, 128
_NO_ROOM, _FULL = "no line of a journal has room for all of it", "the journal has no room for more of them"
#: `in_use` holds the lock for a moment when it asks; a writer waits that long and much longer.
_LOCK_SECONDS = 0.5


@dataclass(frozen=True, slots=True)
class Contents:
    """What a journal, or a part of one, holds. `header` is the run's description, empty in a part without it.

    A later header of the same run replaces the first one: a resumed run may know more about itself.
    Outcomes have bounded texts (see `Outcome.shorten_texts`); the file has all of them.

    `ended` is the run's last word, if it had one.
    `canaries` are the canary's outcomes, which no plan asks for; `fingerprints` are the dispatch
    fingerprints that were taken with the run (see `workflows.fingerprints`).
    """

    header: Mapping[str, Any]
    outcomes: tuple[Outcome, ...]
    ended: Mapping[str, Any] | None
    set_aside: tuple[str, ...] = field(default=())
    canaries: tuple[Outcome, ...] = field(default=())
    fingerprints: tuple[Mapping[str, Any], ...] = field(default=())

    def missing_replicates(self, planned: tuple[PlannedReplicate, ...]) -> tuple[PlannedReplicate, ...]:
        """The planned replicates that have no outcome yet."""
        finished = {outcome.planned_replicate for outcome in self.outcomes}
        return tuple(p for p in planned if p not in finished)


class Journal:
    """A journal open for writing; one process at a time (a lock on the file sees to that)."""

    def __init__(self, folder: Path) -> None:
        folder.mkdir(parents=True, exist_ok=True)
        self.path = folder / FILE
        self._reserve = folder / "reserve"
        self._unwritten: list[bytes] = []
        # O_APPEND: whatever happens to the offset, nothing already written is overwritten.
        self._file = os.open(self.path, os.O_RDWR | os.O_APPEND | os.O_CREAT, 0o644)
        try:
            if not lock(self._file, wait_seconds=_LOCK_SECONDS):
                raise JournalError(f"another process is writing {self.path}")
        except BaseException:
            os.close(self._file)
            raise
        # A torn last line; on a full disk that has to wait for the next one.
        with contextlib.suppress(OSError):
            self._end_half_line()
        sync_folder(folder)
        self._set_room_aside()

    def __enter__(self) -> "Journal":
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def header(self, body: Mapping[str, Any]) -> None:
        """The run's description and plan, the first line, or what a resume adds to it; raises OSError."""
        self._end_half_line()
        append_whole(self._file, _encode_body("header", body), sync=True)

    def outcome(self, outcome: Outcome) -> bool:
        """Write an outcome through to the disk; False if the disk refuses and it waits in memory."""
        return self._append(self._line("outcome", outcome))

    def canary(self, outcome: Outcome) -> bool:
        """Write an outcome of the canary; False if the disk refuses and it waits in memory."""
        return self._append(self._line("canary", outcome))

    def fingerprint(self, body: Mapping[str, Any]) -> bool:
        """Write a dispatch fingerprint; False if the disk refuses and it waits in memory."""
        return self._append(_encode_body("fingerprint", body))

    def ended(self, body: Mapping[str, Any]) -> bool:
        """How the run ended; a resumed run may end again."""
        return self._append(_encode_body("ended", body))

    def close(self) -> None:
        """Try once more to write what waits, give the reserve back, unlock."""
        if self._file < 0:
            return
        self._append(b"")
        with contextlib.suppress(OSError):
            self._reserve.unlink()
        os.close(self._file)
        self._file = -1

    @property
    def pending_lines(self) -> int:
        """Lines that could not be written yet."""
        return len(self._unwritten)

    def unwritten(self) -> bytes:
        """The lines that could not be written, in the form of the file."""
        return b"".join(self._unwritten)

    def _line(self, kind: str, outcome: Outcome) -> bytes:
        """The line of an outcome, without samples where no reader takes a file with many more of them."""
        size = os.fstat(self._file).st_size + sum(map(len, self._unwritten))
        return _readable(kind, outcome if size < _SAMPLES_BYTES else _without_samples(outcome, _FULL))

    def _append(self, line: bytes) -> bool:
        if line:
            self._unwritten.append(line)
        while self._unwritten:
            try:
                self._end_half_line()
                append_whole(self._file, self._unwritten[0], sync=True)
            except OSError:
                if not self._reserve.exists():
                    return False
                self._reserve.unlink()
                continue
            self._unwritten.pop(0)
        return True

    def _end_half_line(self) -> None:
        """End a line that was torn, or that could not be taken back; raises OSError.

        The next one would be glued to it, and lost.
        """
        size = os.fstat(self._file).st_size
        if size and os.pread(self._file, 1, size - 1) != b"\n":
            append_whole(self._file, b"\n")

    def _set_room_aside(self) -> None:
        # A disk too full for the reserve may still hold the run: go on without.
        with contextlib.suppress(OSError), self._reserve.open("wb") as file:
            os.posix_fallocate(file.fileno(), 0, _RESERVE_BYTES)


def read_contents(path: Path, plan: Collection[PlannedReplicate] | None = None) -> Contents:
    """What a journal holds, each outcome once (the first counts); raises JournalError without a header.

    With a `plan` only its outcomes, without samples, recordings and fingerprints, nearly all of a journal,
    and of the canary's outcomes their keys. Raises JournalError also for more facts than any run has.
    """
    contents = _parse_lines(_all_lines(path), _Outcomes(path, plan))
    if not contents.header:
        raise JournalError(f"{path} has no readable header")
    return contents


def parse(path: Path, data: bytes, first: int = 1) -> Contents:
    """What lines of a journal hold, each outcome once (the first counts); `first` is their first number.

    Raises JournalError for more facts than any run has.
    """
    return _parse_lines(_lines(io.BytesIO(data), first), _Outcomes(path))


def check_facts(path: Path, size: int, planned: int) -> None:
    """Raise JournalError where facts of the outcomes of a plan take more memory than any run's would.

    `size` is the sum of `size_of_facts`.
    """
    most = min(_MOST_FACTS + _FACTS_OF_EACH * planned, _FACTS_OF_ALL)
    if size > most:
        raise JournalError(f"{path} has outcomes whose facts and metrics take more than {most >> 20} MiB")


def size_of_facts(outcome: Outcome) -> int:
    """About how many bytes of memory facts and metrics of an outcome take."""
    text = json.dumps([outcome.facts, outcome.metrics], default=str)
    return len(text) + _VALUE * text.count(",") + _CONTAINER * (text.count("{") + text.count("["))


@dataclass(slots=True)
class _Outcomes:
    """The outcomes of a journal so far, each once (the first counts): all, or those of a plan.

    `facts` is the sum of `size_of_facts`.
    """

    path: Path
    plan: Collection[PlannedReplicate] | None = None
    planned: dict[PlannedReplicate, Outcome] = field(default_factory=dict[PlannedReplicate, Outcome])
    canaries: dict[PlannedReplicate, Outcome] = field(default_factory=dict[PlannedReplicate, Outcome])
    facts: int = 0

    def take(self, kind: str, outcome: Outcome) -> None:
        """One more; raises JournalError where their facts are too many."""
        key, plan = outcome.planned_replicate, self.plan
        if kind == "canary":
            if len(self.canaries) < _MOST_CANARIES:
                bare = Outcome(*outcome.key, outcome.status, started_at=outcome.started_at)
                self.canaries.setdefault(key, outcome if plan is None else bare)
        elif key not in self.planned and (plan is None or key in plan):
            self.facts += size_of_facts(outcome)
            check_facts(self.path, self.facts, len(self.planned) if plan is None else len(plan))
            self.planned[key] = outcome if plan is None else replace(outcome, blocks=(), telemetry=())


def _parse_lines(lines: Iterable[tuple[int, JournalLine | ValueError]], outcomes: _Outcomes) -> Contents:
    header: Mapping[str, Any] = {}
    fingerprints: list[Mapping[str, Any]] = []
    ended: Mapping[str, Any] | None = None
    aside: list[str] = []
    for number, line in lines:
        if len(aside) > MOST_BAD:
            raise JournalError(f"line {number} comes after {MOST_BAD:,} that cannot be used")
        if isinstance(line, ValueError):
            aside.append(f"line {number}: {line}")
        elif line.kind == "header":
            header = line.body if not header or line.body.get("run") == header.get("run") else header
        elif line.kind in ("outcome", "canary"):
            try:
                outcome = Outcome.from_body(line.body).shorten_texts()
            except TypeError as error:
                aside.append(f"line {number}: {error}")
                continue
            outcomes.take(line.kind, outcome)
        elif line.kind == "ended":
            ended = line.body
        elif line.kind == "fingerprint":
            fingerprints += (line.body,) if outcomes.plan is None else ()
        else:
            aside.append(f"line {number}: unknown kind {line.kind!r}, perhaps from a newer Pyrometer")
        # Its samples are not held while those of the next line are read.
        line = outcome = None
    return Contents(
        header,
        tuple(outcomes.planned.values()),
        ended,
        tuple(aside),
        tuple(outcomes.canaries.values()),
        tuple(fingerprints),
    )


def read_header(path: Path) -> Mapping[str, Any]:
    """The run's description alone, without what was measured; raises JournalError where it has none."""
    for _, line in _all_lines(path):
        if isinstance(line, JournalLine) and line.kind == "header":
            return line.body
    raise JournalError(f"{path} has no readable header")


def in_use(path: Path) -> bool:
    """Whether a process holds the journal open for writing; raises OSError."""
    with _open_file(path) as file:
        return not lock(file.fileno(), shared=True)


@contextlib.contextmanager
def locked_against_writers(path: Path) -> Generator[bool]:
    """Lock the journal against writers for the block; yields False if a process has it open for writing.

    Keep the block short: a writer waits for the lock, but not for long. Raises OSError.
    """
    with _open_file(path) as file:
        yield lock(file.fileno())


def path_of(data_dir: Path, run: str) -> Path:
    """Where the journal of a run lies in a data folder."""
    return data_dir / "runs" / run / FILE


def paths_in(data_dir: Path) -> list[Path]:
    """The journals in a data folder, oldest run first."""
    return sorted((data_dir / "runs").glob(f"*/{FILE}"))


def read_beginning(path: Path, most: int) -> bytes:
    """The first `most` bytes of a file beside a journal; raises OSError, also for what is no file."""
    with _open_file(path) as file:
        return file.read(most)


def _open_file(path: Path) -> BinaryIO:
    """The file at `path`; raises OSError for anything else: to open a pipe waits for its writer."""
    descriptor = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)
    if not stat.S_ISREG(os.fstat(descriptor).st_mode):
        os.close(descriptor)
        raise OSError(errno.EINVAL, "is no file", str(path))
    return os.fdopen(descriptor, "rb")


def read_pieces(path: Path, start: int = 0) -> Iterator[Piece]:
    """A journal from byte `start` on in pieces, as far as it goes now; raises JournalError."""
    with _open_bounded(path) as (file, size):
        file.seek(start)
        yield from pieces(file, size - start)


def _all_lines(path: Path) -> Iterator[tuple[int, JournalLine | ValueError]]:
    with _open_bounded(path) as (file, size):
        yield from _lines(line for line, _ in bounded_lines(file, size))


@contextlib.contextmanager
def _open_bounded(path: Path) -> Generator[tuple[BinaryIO, int]]:
    """A journal, and how far it goes now; raises JournalError, also where that is too far."""
    try:
        with _open_file(path) as file:
            size = os.fstat(file.fileno()).st_size
            if size > MAX_BYTES:
                raise JournalError(f"{path} is larger than {MAX_BYTES >> 30} GiB")
            yield file, size
    except OSError as error:
        raise JournalError(f"{path}: {error.strerror or error}") from error


def _lines(lines: Iterable[bytes], first: int = 1) -> Iterator[tuple[int, JournalLine | ValueError]]:
    """The numbered lines; in the place of one that cannot be used, the reason."""
    for number, line in enumerate(lines, start=first):
        if line != b"\n":
            try:
                yield number, decode_line(line)
            except ValueError as error:
                yield number, error


def _readable(kind: str, outcome: Outcome) -> bytes:
    """The line of an outcome; where no reader would take it, with cut texts, or else also without samples."""
    bounded = outcome.shorten_texts(_NO_ROOM)
    line = b""
    for each in (outcome, bounded, _without_samples(bounded, _NO_ROOM)):
        line = _encode_body(kind, each.to_body())
        if len(line) <= MAX_LINE and not holds_too_much(line):
            break
    return line


def _without_samples(outcome: Outcome, why: str) -> Outcome:
    facts = {**outcome.facts, "left_out": f"samples and recordings: {why}"}
    return replace(outcome, blocks=(), telemetry=(), facts=facts)


def _encode_body(kind: str, body: Mapping[str, Any]) -> bytes:
    return encode_line(kind, body)[0]
