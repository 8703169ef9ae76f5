"""Upkeep of a database: deletes what is older than its limit, and checks what is stored."""

import shutil
from collections.abc import Collection, Generator, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, replace
from datetime import UTC, datetime, timedelta
from math import isclose
from pathlib import Path

from analysis.metrics import METRICS
from common.text import plural
from configuration.suggestions import unknown
from db.admin.check import (
    KEEP_STORED,
    STORE_AGAIN,
    WHOLE,
    CheckResult,
    Problem,
    Progress,
    measurement_check,
    metric_check,
    run_check,
    same_numbers,
    sample_check,
    schema_check,
    telemetry_check,
    unseen,
)
from db.admin.delete_run import DeletedRun, clear_run, forget_run
from db.admin.prune import PruneResult, prune_queue, prune_samples, prune_telemetry
from db.connection.engine import Database, one_transaction
from db.errors import DatabaseError
from db.queue.queries import shared_time
from db.runs import queries
from db.runs.queries import stored_outcomes
from records.outcomes import Outcome
from runner import journal
from runner.errors import JournalError

from .errors import CannotForget, NoSuchRun
from .ingest import FORGOTTEN, measurements_of, pending_journals, pieces_of_folder, read_run, replicates_in


@dataclass(frozen=True, slots=True)
class Retention:
    """For how many days after the start of a run its raw rows are kept; None: for ever."""

    telemetry_days: int | None = None
    samples_days: int | None = None


FOR_EVER = Retention()

#: How long the queue keeps tasks that have ended and made no run.
QUEUE_DAYS = 400
#: A run whose journal did not change for so long is no longer resumed.
LEFT_WEEKS = 4
#: Files of a run that are removed then, and the ending of their names meanwhile.
_LEFT, _GOING = ("cache", "reserve"), ".going"


def prune(database: Database, retention: Retention, *, dry_run: bool = False) -> Iterator[str]:
    """Delete raw rows that are older than `retention` allows, or with `dry_run` only count them.

    Yields a sentence for each kind of rows deleted: how many, and how old. Metrics are never deleted. Raises
    DatabaseError.
    """
    # One machine of many whose clock is ahead must not delete what all of them have stored.
    now = shared_time(database, datetime.now(UTC))
    if retention.telemetry_days is not None and (before := _days_ago(retention.telemetry_days, now)):
        deletion = prune_telemetry(database, before, dry_run=dry_run)
        if deletion.count:
            recordings = plural(deletion.count, "recording")
            yield f"{recordings} {_describe_deletion(deletion, retention.telemetry_days)}"
    if retention.samples_days is not None and (before := _days_ago(retention.samples_days, now)):
        deletion = prune_samples(database, before, dry_run=dry_run)
        if deletion.count:
            outcomes = plural(deletion.count, "outcome")
            yield f"the samples of {outcomes} {_describe_deletion(deletion, retention.samples_days)}"
    if runs := prune_queue(database, now - timedelta(days=QUEUE_DAYS), dry_run=dry_run):
        moments = plural(runs, "moment")
        yield f"the tasks of {moments} that were due more than {QUEUE_DAYS} days ago and made no run"


def clear(data_dir: Path, now: datetime) -> Iterator[str]:
    """Remove compile caches and reserved files of runs that were abandoned weeks ago; yields one sentence.

    A run removes its own when it is complete; these were interrupted or killed. They can still be resumed,
    and then compile again.
    """
    before = (now - timedelta(weeks=LEFT_WEEKS)).timestamp()
    runs = size = 0
    for path in journal.paths_in(data_dir):
        if found := _rename_leftovers(path, before):
            runs, size = runs + 1, size + sum(map(_size, found))
        for each in found:
            # The one is a folder, the other a file.
            shutil.rmtree(each, ignore_errors=True)
            with suppress(OSError):
                each.unlink()
    if runs:
        whose = plural(runs, "run")
        what = f"compile caches and room set aside ({_in_words(size)})"
        yield f"{what} of {whose} that was not resumed for {LEFT_WEEKS} weeks"


def _rename_leftovers(path: Path, before: float) -> list[Path]:
    """Rename the removable files of a run, so that a resumed run never loses them half way; returns them."""
    found: list[Path] = []
    with suppress(OSError), journal.locked_against_writers(path) as is_left:
        if is_left and path.stat().st_mtime < before:
            for name in _LEFT:
                going = path.with_name(name + _GOING)
                # One that is there already was left by a process that was killed while removing it.
                with suppress(OSError):
                    path.with_name(name).rename(going)
                found += [going] if going.exists() else []
    return found


def _size(path: Path) -> int:
    """How large a file is, or all in a folder together, in bytes."""
    found = 0
    for each in (path, *path.rglob("*")):
        with suppress(OSError):
            found += each.stat().st_size if each.is_file() else 0
    return found


def _days_ago(days: int, now: datetime) -> datetime | None:
    """The time so many days before; None if the calendar does not go back that far, which keeps all."""
    try:
        return now - timedelta(days=days)
    except OverflowError:
        return None


def _describe_deletion(pruned: PruneResult, days: int) -> str:
    age = plural(days, "day")
    return f"({_in_words(pruned.bytes)}) of runs that started more than {age} ago; all metrics stay"


def _in_words(size: int) -> str:
    return f"{size / 2**20:.1f} MiB" if size >= 2**20 else f"{size / 2**10:.1f} KiB"


def forget(
    database: Database, data_dir: Path, run: str, *, force: bool = False, dry_run: bool = False
) -> DeletedRun | None:
    """Delete a run from the database, or only count it; None where only its journal is left to be marked.

    The journal stays, with a mark next to it, so that no command stores or reports the journal again. Raises
    NoSuchRun, CannotForget for a run that is being measured, and what `forget_run` raises.
    """
    path = journal.path_of(data_dir, run)
    there = path.is_file()
    if there and journal.in_use(path):
        raise CannotForget(f"run {run} is being measured just now")
    if dry_run:
        found = forget_run(database, run, force=force, dry_run=True)
    else:
        with _mark_journal(path, there):
            found = forget_run(database, run, force=force)
    if found is None and not there:
        raise NoSuchRun(unknown("run", run, queries.run_ids(database), newest_first=True))
    return found


@contextmanager
def _mark_journal(path: Path, there: bool) -> Generator[None]:
    """Mark a journal before its run is deleted: the next command would store the run again."""
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


def check(
    database: Database, data_dir: Path, *, newest: int | None = None, progress: Progress = unseen
) -> Iterator[CheckResult]:
    """Run all checks, one after the other; those of single runs only for the `newest`.

    `database` comes from `db.admin.check.open_read_only`. If its schema does not fit, only that is checked.
    """
    first = run_check("schema", "revision", lambda: schema_check(database))
    yield first
    if first.problems:
        return
    journals = run_check("journals", "journals", lambda: _journals(database, data_dir))
    yield journals
    for name, unit, look in WHOLE:
        progress(name, 0, 1)
        yield run_check(name, unit, lambda look=look: look(database))
    units = {name: metric.unit for name, metric in METRICS.items()}
    yield run_check("metrics", "metrics", lambda: metric_check(database, units))
    yield run_check("contents", "journals", lambda: journal_check(database, data_dir, newest, progress))
    unfinished = _runs_to_store(database, data_dir)
    yield run_check(
        "measurements",
        "measurements",
        lambda: measurement_check(
            database,
            measurements_of,
            unfinished=unfinished,
            newest=newest,
            progress=progress,
        ),
    )
    yield run_check("samples", "outcomes", lambda: sample_check(database, newest=newest, progress=progress))
    yield run_check(
        "telemetry", "recordings", lambda: telemetry_check(database, newest=newest, progress=progress)
    )


def repair(database: Database, data_dir: Path) -> Iterator[str]:
    """Store each run again from its journal where the database holds something else; one sentence for each.

    What no journal has, as what a file added, is deleted; but a run is left alone whose journal lacks stored
    outcomes of its plan or canary. Runs whose journal is not in this data folder are not looked at. Raises
    DatabaseError.
    """
    waiting = _runs_to_store(database, data_dir)
    for path in journal.paths_in(data_dir):
        if path.with_name(FORGOTTEN).exists():
            continue
        try:
            if not journal.in_use(path) and (difference := _difference(database, path, waiting)):
                run = path.parent.name
                if lost := _lost_lines(database, path):
                    stored = plural(lost, "stored outcome")
                    yield f"run {run}: its journal lacks {stored} of it; it is left alone"
                    continue
                with one_transaction(database) as whole:
                    clear_run(whole, run)
                    for read in pieces_of_folder(path):
                        read.store(whole)
                yield f"run {run} is stored again from its journal: {difference}"
        except JournalError as error:
            yield f"{error}; it is left alone"
        except OSError as error:
            yield f"{path}: {error.strerror or error}; it is left alone"


def _lost_lines(database: Database, path: Path) -> int:
    """How many outcomes of a run's plan, or of its canary, the database has and its journal lacks.

    Lines are damaged, are cut off, or do not fit on a full disk.
    """
    run, contents = read_run(path)
    stored = queries.outcomes_of_run(database, run.run)
    held = {each.planned_replicate for each in (*contents.outcomes, *contents.canaries)}
    canary = run.canary["fingerprint"] if run.canary else None
    planned = {*run.replicates}
    return sum(
        each.planned_replicate not in held
        and (each.planned_replicate in planned or each.environment == canary)
        for each in stored
    )


def journal_check(database: Database, data_dir: Path, newest: int | None, progress: Progress) -> CheckResult:
    """Whether the outcomes of each stored run are those of its journal, where that is in this data folder."""
    paths = journal.paths_in(data_dir)[::-1][:newest]
    waiting = _runs_to_store(database, data_dir)
    problems: list[Problem] = []
    for done, path in enumerate(paths):
        progress("contents", done, len(paths))
        # A journal that cannot be read, or is being written, is a matter of another check.
        with suppress(JournalError, OSError):
            is_ignored = path.with_name(FORGOTTEN).exists() or journal.in_use(path)
            if not is_ignored and (difference := _difference(database, path, waiting)):
                remedy = KEEP_STORED if _lost_lines(database, path) else STORE_AGAIN
                problems.append(Problem(f"Run {path.parent.name}: {difference}.", remedy))
    return CheckResult("contents", len(paths), "journals", tuple(problems))


def _difference(database: Database, path: Path, waiting: Collection[str]) -> str:
    """In what the database and the journal of a run differ, in words; empty for nothing.

    Of a run that is `waiting` to be stored to its end the database may hold less.
    """
    run = path.parent.name
    stored = {each.key: each for each in queries.outcomes_of_run(database, run)}
    own = {
        each.key: replace(each, blocks=(), telemetry=())
        for read in pieces_of_folder(path)
        for each in (*read.outcomes, *read.canaries)
    }
    if added := stored.keys() - own.keys():
        return f"{plural(len(added), 'outcome')} that its journal does not have"
    if run not in waiting and (lacking := own.keys() - stored.keys()):
        return f"{plural(len(lacking), 'outcome')} of its journal were lost"
    changed = [key for key, each in stored.items() if not _is_same(each, own[key])]
    if changed:
        return f"{plural(len(changed), 'outcome')} with other values than its journal has"
    numbers = {each.key: each for each in queries.measurements_of_run(database, run)}
    made = {each.key: each for each in measurements_of(replicates_in(own.values()))}
    if stored.keys() == own.keys() and (
        numbers.keys() != made.keys()
        or not all(same_numbers(each, made[key]) for key, each in numbers.items())
    ):
        return "measurements that do not follow from its journal"
    return ""


def _is_same(one: Outcome, other: Outcome) -> bool:
    same = one.status == other.status and one.metrics.keys() == other.metrics.keys()
    return same and all(isclose(value, other.metrics[name]) for name, value in one.metrics.items())


def _runs_to_store(database: Database, data_dir: Path) -> frozenset[str]:
    """The runs whose journals are not stored to their end."""
    try:
        return frozenset(path.parent.name for path in pending_journals(data_dir, stored_outcomes(database)))
    except DatabaseError:
        return frozenset()


def _journals(database: Database, data_dir: Path) -> CheckResult:
    """Journals in the data folder that are not stored completely: no fault, the next command stores them."""
    there = len(journal.paths_in(data_dir))
    waiting = pending_journals(data_dir, stored_outcomes(database))
    return CheckResult("journals", there, "journals", notes=tuple(map(_journal_note, waiting)))


def _journal_note(path: Path) -> str:
    run = path.parent.name
    try:
        if journal.in_use(path):
            return f"run {run} is being measured"
        outcomes = len(read_run(path)[1].outcomes)
    except (JournalError, OSError) as error:
        return f"{error}; it is left alone"
    waits = "is not stored to its end: the next command does that"
    return f"the journal of run {run} with {outcomes} outcomes {waits}"
