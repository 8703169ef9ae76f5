"""Imports files of other machines and other tools into the database; importing a file again changes
nothing.
"""

from collections.abc import Callable, Collection, Generator, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, replace
from datetime import datetime
from itertools import chain, groupby
from pathlib import Path
from typing import Any, cast

from analysis.metrics import METRICS
from db.admin.delete_run import forget_run
from db.connection.engine import Database, one_transaction
from db.errors import DatabaseError
from db.runs import metric_definitions
from interchange import formats
from interchange.errors import BadFile, SourcePlace
from interchange.foreign_runs import digest, machine_called
from interchange.importers import pyrometer, submission
from interchange.importers.submission import Gpu
from interchange.overrides import JOURNAL
from interchange.runs import ImportBatch, ImportedRun, ImportProblem, ProblemLog
from interchange.source_file import json_of, refuse_streams
from records.machines import Hardware, Machine
from records.outcomes import MetricDefinition
from runner import journal, machine
from runner.errors import JournalError

from ..ingest import JournalPart
from .merge_runs import Amount, MergeResult, all_of, merge_run


class Definitions:
    """The definitions of one file, in its order; `problem` receives the reason for each one left out."""

    def __init__(self, problem: Callable[[str], None]) -> None:
        self._problem = problem
        self._definitions: list[MetricDefinition] = []
        self._meant: dict[str, MetricDefinition] = {}
        self._refused: set[str] = set()
        self._unknown: set[str] = set()

    def __len__(self) -> int:
        return len(self._definitions)

    def add(self, definitions: Iterable[MetricDefinition]) -> None:
        """Add the next definitions of the file; `define` stores them."""
        self._definitions += definitions

    def define(self, start: int, end: int, database: Database | None) -> None:
        """Store definitions `start` to `end`, and refuse those that contradict stored ones."""
        # Sorted by name, so that two imports of the same metrics do not deadlock.
        for each in sorted(self._definitions[start:end], key=lambda each: each.name):
            first = self._meant.setdefault(each.name, each)
            try:
                if (first.unit, first.better) != (each.unit, each.better):
                    raise ValueError(
                        f"metric {each.name} is defined twice in the file, with different definitions"
                    )
                if metric := METRICS.get(each.name):
                    raise ValueError(f"metric {each.name} is a metric of Pyrometer, in {metric.unit}")
                if database is not None:
                    metric_definitions.save_metrics(database, [each])
            except (KeyError, ValueError) as error:
                if each.name not in self._refused:
                    self._problem(f"{error}; its points are left out")
                self._refused.add(each.name)

    def usable(self, one: ImportedRun, database: Database | None) -> ImportedRun:
        """A run without the metrics that are refused or undefined, whose unit is unknown."""
        used = {each.metric for each in one.measurements}.union(*(each.metrics for each in one.outcomes))
        unknown = used - METRICS.keys() - self._meant.keys()
        if unknown and database is not None:
            unknown -= metric_definitions.metric_definitions(database).keys()
        for name in sorted(unknown - self._unknown):
            self._problem(f"metric {name} is not defined in the file or here; its points are left out")
        self._unknown |= unknown
        return _without(one, self._refused | unknown)


def _without(one: ImportedRun, refused: Collection[str]) -> ImportedRun:
    """A run without the metrics `refused`; its outcomes are kept."""
    if not refused:
        return one
    outcomes = tuple(
        replace(each, metrics={name: value for name, value in each.metrics.items() if name not in refused})
        for each in one.outcomes
    )
    return ImportedRun(
        one.run, outcomes, tuple(each for each in one.measurements if each.metric not in refused)
    )


#: Facts nested deeper than this are refused: they would exceed the recursion limit of a reader.
_DEEPEST = 32
#: The most bytes of a name that is a key: Postgres cannot index longer ones.
_LONGEST = 2000
#: The most characters of any other text of a file; shorter ones may be shortened (`Outcome.shorten_texts`).
_LONGEST_TEXT = 200_000
_REST = "importing the file again stores the rest"
#: The bytes of a file that are read to recognise a journal.
_SNIFFED = 64

#: Called with the number of stored runs of a file.
Progress = Callable[[int], None]
#: Called with each part of the content and its place; returns the part to store. May raise BadFile.
Restate = Callable[[ImportBatch, SourcePlace], ImportBatch]


@dataclass(frozen=True, slots=True)
class ChangedRun:
    """A run that was stored before, with the additions of the file."""

    run: str
    added: Amount


@dataclass(frozen=True, slots=True)
class ImportSummary:
    """The result of one file: its usable runs, the new ones among them, and the entries set aside."""

    format: str
    held: Amount
    new: Amount
    set_aside: tuple[ImportProblem, ...] = ()
    #: The additions to runs that were stored before.
    changed: tuple[ChangedRun, ...] = ()


def files(path: Path, name: str | None = None) -> Iterator[Path]:
    """`path`, or for a folder that no importer reads as a whole, every file below it, in order.

    Files of unknown format are included: reading them raises UnknownFormat.
    """
    if not path.is_dir() or _journal(path) or _is_one(path, name):
        yield path
        return
    for below in sorted(path.iterdir()):
        # A link to a folder may lead to a parent folder, and a pipe has no end.
        if below.is_file() or (below.is_dir() and not below.is_symlink()):
            yield from files(below, name)


def _is_one(folder: Path, name: str | None) -> bool:
    return formats.is_one(folder, name) and not any(folder.rglob(journal.FILE))


def _identity(imported: ImportBatch, place: SourcePlace) -> ImportBatch:
    return imported


def import_path(
    path: Path,
    name: str | None,
    database: Database | None,
    progress: Progress,
    *,
    dry_run: bool = False,
    restate: Restate = _identity,
    with_journal: Collection[str] = (),
) -> ImportSummary:
    """Read a file, or a folder that is a single source, and store it; storing it again changes nothing.

    Without a `database` everything is new; with `dry_run` nothing is stored. `restate` may add facts that the
    file lacks. Nothing is added to the runs `with_journal`, which have one in this data folder. Raises
    UnknownFormat, BadFile, and DatabaseError.
    """
    place = SourcePlace(path.name)
    try:
        # Before anything opens the file: opening a pipe waits for its writer.
        refuse_streams(path, place)
        found = _journal(path) if name in (None, JOURNAL) else None
        if found is not None:
            restate(ImportBatch(JOURNAL, ()), place)
            return _from_journal(found, database, progress, dry_run, with_journal)
        if name == JOURNAL:
            raise BadFile(place, f"is not a {journal.FILE} or the folder of a run")
        importer = formats.reader(path, name)
        # An export may be larger than the memory.
        parts = pyrometer.parts(path) if importer.NAME == pyrometer.NAME else iter([importer.read_runs(path)])
        restated = (restate(part, place) for part in parts)
        return keep(
            importer.NAME, restated, place, database, progress, dry_run=dry_run, with_journal=with_journal
        )
    except RecursionError:
        raise BadFile(place, "is nested too deep") from None


def keep(
    name: str,
    parts: Iterable[ImportBatch],
    place: SourcePlace,
    database: Database | None,
    progress: Progress,
    *,
    dry_run: bool = False,
    with_journal: Collection[str] = (),
) -> ImportSummary:
    """Store the runs of a file of format `name`, each atomically; raises DatabaseError.

    Stored values never change: if the file has another value for a case or a measurement, the stored one is
    kept and the other is set aside. So is a metric in another unit, or without a definition. A run may come
    in several consecutive pieces. Each is stored separately, so that other writers do not wait while the next
    one is read; until the last one is stored, the run has the note `merging.UNFINISHED`.
    """
    keeping = _FileImport(place, database, dry_run, with_journal)
    try:
        for number, (run, pieces) in enumerate(groupby(keeping.run_pieces(parts), _id_of), start=1):
            keeping.keep(run, pieces)
            progress(number)
    except BadFile as error:
        if not keeping.held.runs:
            raise
        keeping.log.add(error.place, f"{error.sentence}; the rest of the file is not read")
    return ImportSummary(name, keeping.held, keeping.new, keeping.problems, tuple(keeping.changed))


@dataclass(frozen=True, slots=True)
class _RunPiece:
    """A part of one run, and the number of metric definitions in the file so far."""

    one: ImportedRun
    defined: int


def _id_of(taken: _RunPiece) -> str:
    return taken.one.run.id


class _Undo(Exception):
    """Ends the transaction of a dry run."""


@contextmanager
def _whole(database: Database | None, dry_run: bool) -> Generator[Database | None]:
    """The database in one transaction, which a dry run rolls back; None without a database."""
    if database is None:
        yield None
        return
    with suppress(_Undo), one_transaction(database) as whole:
        yield whole
        if dry_run:
            raise _Undo


class _FileImport:
    """The import of the runs of one file."""

    def __init__(
        self, place: SourcePlace, database: Database | None, dry_run: bool, with_journal: Collection[str]
    ) -> None:
        self.held = Amount()
        self.new = Amount()
        self.log = ProblemLog()
        self.changed: list[ChangedRun] = []
        self._with_journal = with_journal
        self._place = place
        self._database = database
        self._dry_run = dry_run
        self._definitions = Definitions(self._problem)
        #: The number of definitions that are committed.
        self._defined = 0

    def run_pieces(self, parts: Iterable[ImportBatch]) -> Iterator[_RunPiece]:
        """The runs; notes of the reader are collected meanwhile, including those of the next run."""
        for part in parts:
            for each in part.set_aside:
                self.log.add(each.place, each.sentence)
            self.log.many_more += part.many_more
            self._definitions.add(part.metrics)
            for one in part.runs:
                yield _RunPiece(one, len(self._definitions))

    def keep(self, run: str, pieces: Iterable[_RunPiece]) -> None:
        """Store one run, or report the reason why not."""
        held, new = Amount(), MergeResult()
        try:
            for piece, more in _with_a_look_ahead(pieces):
                amount, added = self._store_piece(piece, more)
                held += amount
                new |= added
        except (KeyError, TypeError, ValueError, OverflowError) as error:
            # Content that the importer accepts and the store refuses, such as an outcome without an
            # environment.
            self._problem(f"run {run} is {self._withdraw_run(run, new)}: {error}")
            return
        except BadFile as error:
            if new.nothing:
                raise
            sentence = f"{error.sentence}; run {run} is {self._withdraw_run(run, new)}"
            raise BadFile(error.place, sentence) from None
        except DatabaseError as error:
            if new.nothing or self._dry_run:
                raise
            raise type(error)(f"{error} Only a part of run {run} is stored; {_REST}.") from error
        self.held += replace(held, runs=1)
        self.new += new.amount
        if not (new.run or new.nothing):
            self.changed.append(ChangedRun(run, new.amount))
        for each in new.otherwise:
            self._problem(f"run {run}: {each}; the first is kept")

    def _store_piece(self, piece: _RunPiece, more: bool) -> tuple[Amount, MergeResult]:
        """Store one piece in a separate transaction; returns its amount and the new part."""
        if _too_deep(piece.one):
            raise ValueError("its facts are nested too deep")
        for name in _keys(piece.one):
            if not isinstance(name, str):
                raise ValueError(f"{name!r:.40} is not a valid name of a case or of a metric")
            if len(name.encode(errors="replace")) > _LONGEST:
                raise ValueError(f"the name of a case or of a metric is longer than {_LONGEST:,} bytes")
        if any(len(text) > _LONGEST_TEXT for text in _texts(piece.one)):
            raise ValueError(f"a text of it is longer than {_LONGEST_TEXT:,} characters")
        with _whole(self._database, self._dry_run) as whole:
            self._definitions.define(self._defined, piece.defined, whole)
            usable = self._definitions.usable(piece.one, whole)
            journaled = usable.run.id in self._with_journal
            bounded = ImportedRun(
                usable.run.shorten_texts(),
                tuple(each.shorten_texts() for each in usable.outcomes),
                usable.measurements,
            )
            added = merge_run(bounded, whole, more=more, has_journal=journaled) if whole else all_of(usable)
        # Definitions of a piece that was rolled back are stored with the next one.
        self._defined = piece.defined
        # Each piece of a run names the run.
        return Amount(0, len(usable.outcomes), len(usable.measurements)), added

    def _withdraw_run(self, run: str, new: MergeResult) -> str:
        """Handle a run with a piece that cannot be stored: remove the earlier pieces, if possible."""
        if new.nothing or self._database is None or self._dry_run:
            return "left out"
        if new.run:
            with suppress(DatabaseError):
                forget_run(self._database, run)
                return "left out"
        return f"only partly stored, and {_REST}"

    def _problem(self, sentence: str) -> None:
        self.log.add(self._place, sentence)

    @property
    def problems(self) -> tuple[ImportProblem, ...]:
        """The entries set aside, with the count of those that are not listed."""
        more = ImportProblem(self._place, f"and {self.log.many_more:,} more")
        return (*self.log.problems, *([more] if self.log.many_more else []))


def _with_a_look_ahead(pieces: Iterable[_RunPiece]) -> Iterator[tuple[_RunPiece, bool]]:
    """The pieces of a run, each with a flag whether more follow; the next is read before this one is
    stored.
    """
    before: _RunPiece | None = None
    for each in chain(pieces, [None]):
        if before is not None:
            yield before, each is not None
        before = each


def _too_deep(one: ImportedRun) -> bool:
    run = one.run
    facts = [run.facts, run.machine.facts, run.machine.hardware.facts, run.preset.settings]
    facts += [each.facts for each in (*run.environments, *one.outcomes)]
    level: list[Any] = list(facts)
    for _ in range(_DEEPEST):
        level = [inner for each in level for inner in _inside(each)]
    return bool(level)


def _keys(one: ImportedRun) -> Iterator[object]:
    """The names that identify a run and its contents; in a damaged journal they may be anything."""
    run = one.run
    yield from (run.id, run.machine.fingerprint, run.machine.hardware.fingerprint, run.preset.fingerprint)
    yield from (each.fingerprint for each in run.environments)
    yield from (each.case for each in one.outcomes)
    for each in one.measurements:
        yield from (each.case, each.metric)


def _texts(one: ImportedRun) -> Iterator[str]:
    """The texts of a run that pages show, without facts."""
    run = one.run
    yield from (run.suite, run.command, run.harness, *run.notes, run.machine.name, run.machine.hardware.label)
    yield from (text for each in run.environments for text in (each.name, each.torch_version))
    yield from (text for each in one.outcomes for text in (each.reason, each.log_tail))


def _inside(value: Any) -> Iterable[Any]:
    if isinstance(value, Mapping):
        return cast("Mapping[str, Any]", value).values()
    return cast("list[Any]", value) if isinstance(value, list | tuple) else ()


def _journal(path: Path) -> Path | None:
    """The journal with a plan at `path`, or in the folder of a run; None for anything else."""
    if path.is_file() and pyrometer.knows(path):
        return None
    try:
        if path.is_dir():
            inside = path / journal.FILE
            return inside if inside.is_file() else None
        with path.open("rb") as file:
            start = file.read(_SNIFFED)
    except OSError:
        return None
    return path if start.startswith(b'{"v":') and b'"kind":"header"' in start else None


def _from_journal(
    path: Path,
    database: Database | None,
    progress: Progress,
    dry_run: bool,
    with_journal: Collection[str],
) -> ImportSummary:
    """Store the journal of another machine's run, by the rules of other files."""
    place = SourcePlace(path.name)
    if journal.in_use(path):
        raise BadFile(place, "a run is writing it")
    parts = _parts_of_journal(path, place)
    return keep(JOURNAL, parts, place, database, progress, dry_run=dry_run, with_journal=with_journal)


def _parts_of_journal(path: Path, place: SourcePlace) -> Iterator[ImportBatch]:
    """A journal in pieces, without its dispatch fingerprints, which each machine takes itself."""
    reported = 0
    try:
        for read in JournalPart.pieces(path):
            aside = read.position.set_aside
            problems = tuple(_torn(place, line) for line in aside[reported:])
            reported = len(aside)
            one = ImportedRun(read.run, (*read.outcomes, *read.canaries), tuple(read.measurements))
            del read
            yield ImportBatch(JOURNAL, (one,), (), problems)
    except JournalError as error:
        raise BadFile(place, str(error).removeprefix(f"{path} ").removeprefix(f"{path}: ")) from None


def _torn(place: SourcePlace, line: str) -> ImportProblem:
    """A line that a journal set aside: `line 3: torn`, or another sentence."""
    number, _, reason = line.removeprefix("line ").partition(": ")
    if not number.isdecimal():
        return ImportProblem(place, line)
    return ImportProblem(replace(place, line=int(number)), reason)


def submit(
    text: str,
    place: SourcePlace,
    written_at: datetime | None,
    database: Database,
    named: Callable[[Sequence[Gpu]], Machine],
) -> tuple[tuple[str, ...], ImportSummary]:
    """Store the JSON in `text`, which came from `place`; returns the runs' ids and the result.

    `written_at` is the time of results without one; None: they must have it. `named` is the machine (see
    `machine_of`). Atomic: raises BadFile for the first error, and DatabaseError.
    """
    parts = submission.submissions(json_of(text, place), written_at)
    imported = submission.group_submissions(parts, named)
    arrived = keep(submission.NAME, [imported], place, database, _ignore_progress)
    return tuple(one.run.id for one in imported.runs), arrived


def machine_of(gpus: Sequence[Gpu], name: str | None = None, hardware: str | None = None) -> Machine:
    """This machine with these GPUs, as in our runs; or one with another name or other hardware."""
    facts = machine.describe(list(gpus))
    if hardware is not None:
        return machine_called(name or facts.name, hardware)
    made = Hardware(facts.hardware_fingerprint, facts.hardware_label, facts.hardware)
    if name is None:
        return Machine(facts.fingerprint, facts.name, made)
    return Machine(digest("machine", name, made.fingerprint), name, made)


def _ignore_progress(stored: int) -> None:
    """No progress: submitted files are small."""
