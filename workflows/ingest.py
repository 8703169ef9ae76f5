"""Store journals in the database; storing one again changes nothing."""

import os
from collections import defaultdict
from collections.abc import Collection, Generator, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import asdict, dataclass, replace
from importlib.metadata import version
from math import isfinite
from pathlib import Path
from typing import Any

from analysis.decision.comparison import DECIDED
from analysis.replicates import summarise
from common.bounded_files import Piece, size_of
from common.text import plural, printable
from db.connection.engine import Database, one_transaction
from db.errors import DatabaseError
from db.runs import store
from db.runs.fingerprints import fingerprints_under, save_fingerprints
from db.runs.queries import STILL_RUNNING, replicates_of_run, stored_outcomes
from records.dispatch import CaseFingerprint, FingerprintConditions, from_journal_body
from records.json_values import finite
from records.kinds import RunState
from records.outcomes import Measurement, Outcome, OutcomeStatus, Replicate
from records.runs import Run
from reports.text.reason_text import decision_body
from runner import journal
from runner.errors import JournalError

from .app_context import AppContext
from .run_header import Header

#: The file next to a journal that contains the stored size.
_STORED = "stored"
#: Pyrometer writes no longer mark.
_MARK_BYTES = 200
#: The file next to the journal of a run that was deleted from the database: the run is not stored again.
FORGOTTEN = "forgotten"
#: The most bad lines of a journal that the page of its run lists; the others are counted.
_NOTED_LINES = 20
#: With more cases than this the replicates of all cases are read.
_SOME_CASES = 500


@dataclass(frozen=True, slots=True)
class IngestResult:
    """The result of ingesting: run, new outcomes, lines set aside with their reasons."""

    run: str
    new_outcomes: int
    set_aside: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Position:
    """The stored part of a journal in bytes and lines, with the state needed to read the rest.

    `facts` is the memory that the facts of its outcomes take (see `journal.size_of_facts`).
    """

    size: int = 0
    lines: int = 0
    header: Header | None = None
    outcomes: tuple[Outcome, ...] = ()
    ended_at: str | None = None
    set_aside: tuple[str, ...] = ()
    facts: int = 0


@dataclass(frozen=True, slots=True)
class JournalPart:
    """The part of a journal after a position, as records of the database; `position` is its end."""

    path: Path
    position: Position
    run: Run
    outcomes: tuple[Outcome, ...]
    canaries: tuple[Outcome, ...]
    fingerprints: tuple[tuple[FingerprintConditions, CaseFingerprint], ...] = ()

    @staticmethod
    def pieces(path: Path) -> "Iterator[JournalPart]":
        """The whole journal, a large one in pieces: only the last piece has the end of the run.

        Raises JournalError when it has no header or its lines do not fit together.
        """
        position = Position()
        for piece in journal.read_pieces(path):
            read = JournalPart.after(position, path, piece, running=not piece.last)
            position = read.position
            # Its lines are released while it is stored, and its samples while the next one is read.
            del piece
            yield read
            del read

    @staticmethod
    def after(
        before: Position, path: Path, piece: Piece, waiting: bytes = b"", *, running: bool = False
    ) -> "JournalPart":
        """The lines after a position, including buffered ones; with `running` more lines will follow.

        Raises JournalError as `pieces` does.
        """
        with _guard_journal(path):
            contents = journal.parse(path, piece.lines + waiting, before.lines + 1)
            header, later = before.header, contents.header
            if later and (header is None or later.get("run") == header.run):
                header = Header.from_body(later)
            if header is None:
                raise JournalError(f"{path} has no readable header")
            measured = {outcome.planned_replicate for outcome in before.outcomes}
            plan = {*header.replicates}
            unplanned = tuple(
                f"outcome of {each.case}, replicate {each.replicate}: the run did not plan it"
                for each in contents.outcomes
                if each.planned_replicate not in plan
            )
            missing = plan - measured
            new = [each for each in contents.outcomes if each.planned_replicate in missing]
            facts = before.facts + sum(map(journal.size_of_facts, new))
            journal.check_facts(path, facts, len(plan))
            outcomes = (*before.outcomes, *(replace(each, blocks=(), telemetry=()) for each in new))
            fingerprints, unfit = _fingerprints(header, contents.fingerprints)
            aside = before.set_aside + contents.set_aside + unplanned + unfit
            if len(aside) > journal.MOST_BAD:
                raise JournalError(f"{path} has more than {journal.MOST_BAD:,} lines that cannot be used")
            position = Position(
                before.size + piece.size,
                before.lines + piece.lines.count(b"\n"),
                header,
                outcomes,
                str(contents.ended["at"]) if contents.ended else before.ended_at,
                aside,
                facts,
            )
            run = _run_of(position, running=running)
            stored, canaries = (tuple(map(finite_outcome, each)) for each in (new, contents.canaries))
            return JournalPart(path, position, run, stored, canaries, fingerprints)

    def store(self, database: Database) -> int:
        """Store it atomically, and return the number of new outcomes of the plan.

        Only for a journal of this data folder, because its names of machine and hardware take precedence. No
        lock is held while it is read. Raises JournalError and DatabaseError.
        """
        with _guard_journal(self.path), one_transaction(database) as whole:
            store.save_run(whole, self.run, authoritative=True)
            new = store.save_outcomes(whole, self.run.id, self.outcomes)
            store.save_outcomes(whole, self.run.id, self.canaries, planned=False)
            self._store_fingerprints(whole)
            if cases := {each.case for each in (*self.outcomes, *self.canaries)}:
                # Counted in the database: another process may have stored more lines meanwhile.
                some = cases if len(cases) <= _SOME_CASES else None
                replicates = replicates_of_run(whole, self.run.id, cases=some)
                store.save_measurements(whole, self.run.id, measurements_of(replicates))
        return new

    def _store_fingerprints(self, database: Database) -> None:
        """Store its dispatch fingerprints for display: they do not replace those taken here.

        Of two journals the newer one counts. They do not prevent taking the fingerprint of the case: see
        `is_final`.
        """
        for conditions, taken in self.fingerprints:
            stored = fingerprints_under(database, conditions, [taken.case]).get(taken.case)
            if stored is None or not (stored.is_final or taken.taken_at <= stored.taken_at):
                if taken.fingerprint is not None:
                    taken = replace(taken, reason=f"from the journal of run {self.run.id}")
                save_fingerprints(database, conditions, [taken])

    @property
    def measurements(self) -> list[Measurement]:
        """The decision on its outcomes."""
        return measurements_of(replicates_in((*self.outcomes, *self.canaries)))


def refuse_other_run(path: Path, run: str) -> None:
    """Raise JournalError if the run of a journal is not that of its folder."""
    if run != path.parent.name:
        # Its writer, perhaps on another machine, has not measured that run.
        raise JournalError(f"{path} holds run {printable(run)}, not the run of its folder")


def read_header(path: Path) -> Header:
    """The first header of the journal in the folder of a run; raises JournalError."""
    header = _storable(path, journal.read_header(path))
    refuse_other_run(path, header.run)
    return header


def _storable(path: Path, body: Mapping[str, Any]) -> Header:
    """A header; raises JournalError for one that cannot be stored, so neither reported nor resumed."""
    header = Header.from_body(body)
    with _guard_journal(path):
        header.run_record(RunState.RUNNING, None)
    return header


def read_run(path: Path) -> tuple[Header, journal.Contents]:
    """The journal in the folder of a run, with the planned outcomes; raises JournalError.

    Outcomes have neither samples nor recordings.
    """
    header = read_header(path)
    contents = journal.read_contents(path, frozenset(header.replicates))
    # A later header of the same run has more facts.
    return _storable(path, contents.header), contents


def pieces_of_folder(path: Path) -> Iterator[JournalPart]:
    """The pieces of a journal in the folder of its run; raises JournalError, also where it is another's."""
    for read in JournalPart.pieces(path):
        refuse_other_run(path, read.run.id)
        yield read
        del read


def ingest(path: Path, database: Database) -> IngestResult:
    """Store one journal; storing it again changes nothing, also concurrently.

    It is stored atomically; a journal above 4 MiB in pieces, and the run is running until the last one. Lines
    that cannot be used are set aside, and noted with the run. Raises JournalError if it has no readable
    header, is of another run than its folder, or has inconsistent lines; DatabaseError if the database
    refuses it.
    """
    new, position = 0, Position()
    for read in pieces_of_folder(path):
        new += read.store(database)
        position = read.position
        del read
    mark_stored(path, position.size, len(position.outcomes), position.set_aside)
    return IngestResult(path.parent.name, new, position.set_aside)


def _fingerprints(
    header: Header, bodies: Sequence[Mapping[str, Any]]
) -> tuple[tuple[tuple[FingerprintConditions, CaseFingerprint], ...], tuple[str, ...]]:
    """The dispatch fingerprints of a run, and a sentence for each that cannot be used."""
    if not bodies:
        return (), ()
    run = header.run_record(RunState.RUNNING, None)
    found: list[tuple[FingerprintConditions, CaseFingerprint]] = []
    unfit: list[str] = []
    for body in bodies:
        try:
            conditions, taken = from_journal_body(run, body)
            # A failed one has the reason; that a case has none is decided on its machine.
            content = not taken.is_final if taken.fingerprint is None else taken.fingerprint.content_hash
            if content:
                found.append((conditions, taken))
        except (AttributeError, KeyError, TypeError, ValueError) as error:
            unfit.append(f"fingerprint of case {body.get('case')!r}: {type(error).__name__}: {error}")
    return tuple(found), tuple(unfit)


def _run_of(position: Position, *, running: bool) -> Run:
    """The record of a run from the part of its journal read so far."""
    header = position.header
    assert header is not None
    notes = _notes(position.set_aside)
    if running:
        run = header.run_record(RunState.RUNNING, None)
        return replace(run, notes=run.notes + notes).shorten_texts()
    complete = {*header.replicates} <= {outcome.planned_replicate for outcome in position.outcomes}
    run = header.run_record(RunState.COMPLETE if complete else RunState.INTERRUPTED, position.ended_at)
    facts = {**run.facts, **(_decision_facts(header, position.outcomes) if complete else {})}
    return replace(run, notes=run.notes + notes, facts=facts).shorten_texts()


def _decision_facts(header: Header, outcomes: Sequence[Outcome]) -> dict[str, Any]:
    """The decision on a complete run of pairs, as a fact; empty for any other run, and if unknown."""
    try:
        comparison = header.pair_comparison
        if comparison is None:
            return {}
        return {DECIDED: decision_body(comparison.verdict(comparison.results(outcomes)))}
    except (JournalError, ValueError):
        # The page of the run has the error; the run is stored anyway.
        return {}


@contextmanager
def _guard_journal(path: Path) -> Generator[None]:
    """A line with a correct checksum may still be invalid; it must not prevent storing the next journals."""
    try:
        yield
    except (AttributeError, KeyError, OverflowError, RecursionError, TypeError, ValueError) as error:
        raise JournalError(f"{path} is inconsistent: {type(error).__name__}: {error}") from error


def _notes(set_aside: Sequence[str]) -> tuple[str, ...]:
    """The notes of a run about lines that could not be stored."""
    notes = [f"journal {line}; set aside" for line in set_aside[:_NOTED_LINES]]
    if more := len(set_aside) - len(notes):
        notes.append(f"{more} more lines of the journal were set aside")
    return tuple(notes)


def ingest_pending(
    data_dir: Path, database: Database, runs: Collection[str] = ()
) -> Iterator[IngestResult | JournalError]:
    """Store every journal that is not completely stored; for a journal without a header its error is
    returned.

    With `runs` only theirs. A journal that another process is writing is left to that process.
    """
    for path in pending_journals(data_dir, stored_outcomes(database), runs):
        try:
            if not journal.in_use(path):
                yield ingest(path, database)
        except JournalError as error:
            yield error
        except OSError as error:
            yield JournalError(f"{path}: {error.strerror or error}")


def store_pending(app: AppContext, runs: Collection[str] = ()) -> None:
    """Store the journals of earlier commands, with `runs` only theirs; reports errors instead of raising
    them.
    """
    try:
        with app.open_database() as database:
            for done in ingest_pending(app.places.data_dir, database, runs):
                if isinstance(done, JournalError):
                    app.reporter.note(f"{done}; it is skipped")
                    continue
                if done.new_outcomes:
                    app.reporter.note(
                        f"stored {plural(done.new_outcomes, 'outcome')} of run {done.run} from its journal"
                    )
                for line in done.set_aside:
                    app.reporter.note(f"run {done.run}: journal {line}; set aside")
    except DatabaseError as error:
        app.reporter.note(str(error))


def runs_with_journal(app: AppContext) -> frozenset[str]:
    """The runs with a journal in the data folder, which is the source for any database."""
    found = journal.paths_in(app.places.data_dir)
    return frozenset(path.parent.name for path in found if not path.with_name(FORGOTTEN).exists())


def _is_elsewhere(app: AppContext) -> bool:
    """Whether a variable names a database but no data folder, so that it may be a copy or a backup."""
    named = app.settings.by_variable
    return "database_url" in named and "data_dir" not in named


def store_then_read(app: AppContext) -> None:
    """`store_pending` if the database belongs to this folder; for another one only report what it lacks,
    because a copy or a backup should not be changed by reading it.
    """
    if not _is_elsewhere(app):
        store_pending(app)
        return
    try:
        with app.open_database() as database:
            pending = len(pending_journals(app.places.data_dir, stored_outcomes(database)))
    except DatabaseError as error:
        app.reporter.note(str(error))
        return
    if pending:
        runs, them = ("1 run", "it") if pending == 1 else (f"{pending} runs", "them")
        app.reporter.note(
            f"{runs} of {app.runs} are not in the database that PYROMETER_DATABASE_URL names, and commands "
            f"that only read do not store {them}: `pyrometer run` and `pyrometer report` do"
        )


def pending_journals(data_dir: Path, known: Mapping[str, int], runs: Collection[str] = ()) -> list[Path]:
    """The journals with lines that are not stored yet, oldest run first; with `runs` only theirs.

    `known` is the result of `stored_outcomes`: the mark next to a journal is not sufficient, because the
    database may have been deleted, replaced or restored since. If the database has the run as running, the
    journal decides. Empty journals, of runs killed before they began, and those of deleted runs are left out.
    """
    found: list[Path] = []
    named = (path for run in sorted({*runs}) if (path := journal.path_of(data_dir, run)).exists())
    for path in named if runs else journal.paths_in(data_dir):
        size = size_of(path)
        stored, outcomes = _mark(path)
        held = known.get(path.parent.name, STILL_RUNNING)
        forgotten = path.with_name(FORGOTTEN).exists()
        if size and not forgotten and (stored != size or held < outcomes):
            found.append(path)
    return found


def replicates_in(outcomes: Iterable[Outcome]) -> Iterator[Replicate]:
    """The outcomes from which measurements are computed: those that are ok."""
    for each in outcomes:
        if each.status == OutcomeStatus.OK:
            yield Replicate(each.case, each.environment, each.metrics)


def measurements_of(replicates: Iterable[Replicate]) -> list[Measurement]:
    """One measurement per case, environment and metric of the replicates."""
    values: dict[tuple[str, str, str], list[float]] = defaultdict(list)
    for replicate in replicates:
        for metric, value in replicate.metrics.items():
            values[replicate.case, replicate.environment, metric].append(value)
    return [Measurement(*key, **asdict(summarise(each))) for key, each in values.items()]


def finite_outcome(outcome: Outcome) -> Outcome:
    """An outcome without numbers that are not finite, which JSON does not have and Postgres refuses."""
    return replace(
        outcome,
        metrics={name: value for name, value in outcome.metrics.items() if isfinite(value)},
        facts=finite(outcome.facts),
        telemetry=tuple(
            replace(each, values={column: tuple(finite(values)) for column, values in each.values.items()})
            for each in outcome.telemetry
        ),
    )


def mark_stored(path: Path, size: int, outcomes: int, set_aside: Sequence[str] = ()) -> None:
    """Write the mark that the first `size` bytes of a journal are stored, with the number of outcomes of the
    plan.

    With lines set aside the mark is valid only for this version of Pyrometer: another one may read them.
    """
    mark = [str(size), str(outcomes), *([version("pyrometer")] if set_aside else [])]
    # A link or a pipe in its place is neither followed nor waited for.
    flags = os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC
    try:
        with os.fdopen(os.open(path.with_name(_STORED), flags, 0o666), "w") as file:
            file.write(" ".join(mark))
    except OSError:
        # Storing twice changes nothing, so a lost mark costs only time.
        return


def _mark(path: Path) -> tuple[int, int]:
    """The stored bytes and outcomes of a journal according to its mark."""
    try:
        size, outcomes, *by = journal.read_beginning(path.with_name(_STORED), _MARK_BYTES).decode().split(" ")
        # Cached, because reading the version takes a millisecond, and there are as many marks as runs.
        is_current = not by or by == [version("pyrometer")]
        return (int(size), int(outcomes)) if is_current else (0, 0)
    except (OSError, ValueError):
        return 0, 0
