"""`pyrometer import`: the history that a team has, from the files of other tools and of other machines."""

import json
import sys
from collections.abc import Callable, Generator
from contextlib import contextmanager
from dataclasses import asdict, dataclass, field
from datetime import UTC, datetime
from pathlib import Path
from typing import Annotated, Any, Protocol

import typer
from rich.console import Console
from rich.markup import escape
from rich.progress import Progress as Bar
from rich.progress import SpinnerColumn, TextColumn

from common.text import plural, printable
from configuration.database_url import sqlite_file
from db.connection.engine import Database, open_database
from interchange.errors import BadFile, ExchangeError, SourcePlace, UnknownFormat
from interchange.foreign_runs import is_undated
from interchange.formats import FORMATS, chosen
from interchange.overrides import JOURNAL, restated
from interchange.runs import Imported, ImportProblem
from interchange.source_file import NO_TIME, in_utc
from workflows.app_context import AppContext
from workflows.errors import UsageError
from workflows.transfer.import_runs import Amount, ImportSummary, Progress, files, import_path

from ..context import FAILED, INTERRUPTED, context, in_one_sentence, say
from ..options import named_file

#: How many of what was set aside are shown without --verbose, of each file.
_SHOWN = 10

HELP = f"""Store what files of other tools and of other machines hold; storing it again changes nothing.

\b
pyrometer import metrics-20240603.json              the format is told by the file
pyrometer import results/ gh-pages/dev/bench/data.js
pyrometer import --format dynamo-csv inductor.csv   where it cannot be told
pyrometer import --dry-run results/                 what would come in, and what would be left out
pyrometer import --date 2026-03-01 --hardware "RTX 4090" timm.csv    what a file does not say
pyrometer import machine-b/.pyrometer/runs/         journals of a machine that reaches no database

\b
Formats:
{chr(10).join(f"  {each.NAME:<18}  {each.TITLE}" for each in FORMATS)}
  {JOURNAL:<18}  a run of another machine: its folder, or the journal.jsonl in it

Each run goes in whole or not at all. What a file holds and cannot be used is set aside, with its place and
the reason; the rest goes in. Nothing in a file is ever executed.
Exit code: 0 everything went in, 1 something was set aside or a file was refused, 2 the call makes no sense.
"""


@dataclass(slots=True)
class _Done:
    """What came of all files."""

    read: int = 0
    refused: int = 0
    set_aside: int = 0
    new: Amount = field(default_factory=Amount)
    unknown: list[Path] = field(default_factory=list[Path])


@dataclass(frozen=True, slots=True)
class _Stated:
    """What the call says of all files."""

    date: datetime | None
    hardware: str | None


@dataclass(slots=True)
class _Told:
    """What is to be known of one file, beside what of it is stored."""

    stated: _Stated
    runs: int = 0
    undated: int = 0
    repeats: list[ImportProblem] = field(default_factory=list[ImportProblem])

    def __call__(self, imported: Imported, place: SourcePlace) -> Imported:
        """What was read, with what the call says of it; raises BadFile."""
        made = restated(imported, place, self.stated.date, self.stated.hardware)
        self.runs += len(made.runs)
        self.undated += sum(is_undated(each.run.id) for each in made.runs)
        self.repeats += made.repeats
        return made


def import_files(
    paths: Annotated[
        list[Path], typer.Argument(metavar="FILE...", help="files or folders", parser=named_file)
    ],
    name: Annotated[
        str | None,
        typer.Option("--format", metavar="FORMAT", help="the files' format [default: told by them]"),
    ] = None,
    dry_run: Annotated[bool, typer.Option("--dry-run", help="store nothing")] = False,
    verbose: Annotated[
        bool, typer.Option("--verbose", "-v", help="list everything that was set aside")
    ] = False,
    as_json: Annotated[bool, typer.Option("--json", help="one JSON object per line on stdout")] = False,
    date: Annotated[
        str | None,
        typer.Option(
            metavar="YYYY-MM-DD[THH:MM[:SS][+ZZ]]", help="when it was measured, where no file says so"
        ),
    ] = None,
    hardware: Annotated[
        str | None, typer.Option(metavar="LABEL", help="what it was measured on, whatever the files say")
    ] = None,
) -> None:
    """Import files (the help text is above, where its layout survives)."""
    with in_one_sentence():
        here = context()
        try:
            chosen(None if name == JOURNAL else name)
        except UnknownFormat as error:
            raise UsageError(f"{error}, {JOURNAL}") from None
        if missing := next((path for path in paths if not path.exists()), None):
            raise UsageError(f"there is no {missing}; nothing was imported")
        stated = _Stated(_date(date), _label(hardware))
        teller = _Json() if as_json else _Plain(verbose=verbose, dry_run=dry_run)
        try:
            done = _import(here, paths, name, dry_run, stated, teller)
        except KeyboardInterrupt:
            say("interrupted: the files reported so far are stored, and importing all again stores the rest")
            raise typer.Exit(INTERRUPTED) from None
    teller.ended(done)
    if done.refused or done.set_aside or not done.read:
        raise typer.Exit(FAILED)


def _date(text: str | None) -> datetime | None:
    """The time of --date, in UTC."""
    if text is None:
        return None
    try:
        found = in_utc(text)
    except (ValueError, OverflowError):
        raise UsageError(
            f"--date is a time such as 2026-03-01 or 2026-03-01T12:30+00:00, not {text}"
        ) from None
    if found > datetime.now(UTC):
        raise UsageError(f"--date {text} is in the future")
    return found


def _label(text: str | None) -> str | None:
    """The label of --hardware."""
    if text is not None and not text.strip():
        raise UsageError("--hardware is empty")
    return text and text.strip()


def _import(
    here: AppContext, paths: list[Path], name: str | None, dry_run: bool, stated: "_Stated", teller: "_Teller"
) -> _Done:
    done = _Done()
    with _database(here, dry_run) as database, _progress() as bar:
        for given in paths:
            for path in files(given, None if name == JOURNAL else name):
                told = _Told(stated)
                try:
                    arrived = import_path(path, name, database, bar(path), dry_run=dry_run, restate=told)
                except ExchangeError as error:
                    # What lies beside the results in a folder was never meant.
                    if isinstance(error, UnknownFormat) and path != given:
                        done.unknown.append(path)
                        continue
                    done.refused += 1
                    teller.refused(path, error)
                    continue
                done.read += 1
                done.set_aside += len(arrived.set_aside)
                done.new += arrived.new
                teller.read(path, arrived, told)
    return done


@contextmanager
def _database(here: AppContext, dry_run: bool) -> Generator[Database | None]:
    """The database; None for a dry run where there is none yet, which a dry run does not change."""
    url = here.places.database_url
    file = sqlite_file(url)
    if dry_run and file is not None and not file.exists():
        yield None
        return
    with open_database(url, create=not dry_run) as database:
        yield database


@contextmanager
def _progress() -> Generator[Callable[[Path], Progress]]:
    """Something that hears how many runs of a file are stored: a live line where somebody looks on."""
    columns = (SpinnerColumn(), TextColumn("{task.description}: {task.completed} runs"))
    watched = sys.stdout.isatty() and sys.stderr.isatty()
    with Bar(*columns, console=Console(stderr=True), transient=True, disable=not watched) as bar:
        task = bar.add_task("", total=None)

        def of(path: Path) -> Progress:
            bar.update(task, description=escape(printable(path.name)), completed=0, total=None)
            return lambda stored: bar.update(task, completed=stored)

        yield of


class _Teller(Protocol):
    """Tells what comes of the files."""

    def read(self, path: Path, arrived: ImportSummary, told: _Told) -> None:
        """A file is in."""
        ...

    def refused(self, path: Path, error: ExchangeError) -> None:
        """A file is not."""
        ...

    def ended(self, done: _Done) -> None:
        """That was all."""
        ...


class _Plain:
    """A few lines per file, for people."""

    def __init__(self, *, verbose: bool, dry_run: bool) -> None:
        self._verbose = verbose
        self._new = "would be new" if dry_run else "new"

    def read(self, path: Path, arrived: ImportSummary, told: _Told) -> None:
        """What it holds, what of it is new, what is to be known of it, and what was set aside."""
        new = f"{self._new}: {described(arrived.new)}" if arrived.new != Amount() else "nothing is new"
        _echo(f"{path}: {arrived.format}, {described(arrived.held)}; {new}")
        if told.undated:
            of = f" (of {told.undated:,} of {told.runs:,} runs)" if told.runs > 1 else ""
            _echo(f"  note: {NO_TIME}{of}; --date says when it was measured")
        if told.repeats:
            _echo(f"  note: {plural(len(told.repeats), 'repeat')} of what is in, such as {told.repeats[0]}")
            for repeat in told.repeats[1:] if self._verbose else ():
                _echo(f"  note: {repeat}")
        shown = arrived.set_aside if self._verbose else arrived.set_aside[:_SHOWN]
        for problem in shown:
            _echo(f"  set aside: {problem}")
        if more := len(arrived.set_aside) - len(shown):
            _echo(f"  set aside: {more} more (--verbose lists them)")

    def refused(self, path: Path, error: ExchangeError) -> None:
        """Why not; the error names the file."""
        where = "" if isinstance(error, UnknownFormat) else f"{path.parent}/"
        _echo(f"refused: {where}{error}")

    def ended(self, done: _Done) -> None:
        """The sum, and the files that nobody knows."""
        if done.unknown:
            shown = done.unknown if self._verbose else done.unknown[:_SHOWN]
            more = len(done.unknown) - len(shown)
            beyond = f" and {more} more (--verbose lists them)" if more else ""
            listed = ", ".join(map(str, shown))
            _echo(f"left alone, in no known format: {plural(len(done.unknown), 'file')}: {listed}{beyond}")
        parts = [f"{plural(done.read, 'file')} read", f"{self._new}: {described(done.new)}"]
        parts += [f"{done.set_aside:,} set aside"] if done.set_aside else []
        parts += [f"{plural(done.refused, 'file')} refused"] if done.refused else []
        _echo(", ".join(parts))


class _Json:
    """One JSON object per line, for machines."""

    def read(self, path: Path, arrived: ImportSummary, told: _Told) -> None:
        """Event `file`."""
        aside = [_problem(each) for each in arrived.set_aside]
        repeats = [_problem(each) for each in told.repeats]
        about = {**asdict(arrived), "set_aside": aside, "repeats": repeats, "undated": told.undated}
        _emit("file", file=str(path), **about)

    def refused(self, path: Path, error: ExchangeError) -> None:
        """Event `refused`."""
        found = {"line": error.place.line, "field": error.place.field} if isinstance(error, BadFile) else {}
        _emit("refused", file=str(path), reason=str(error), **found)

    def ended(self, done: _Done) -> None:
        """Event `ended`."""
        sums = {"read": done.read, "refused": done.refused, "set_aside": done.set_aside}
        _emit("ended", **sums, new=asdict(done.new), left_alone=list(map(str, done.unknown)))


def _problem(problem: ImportProblem) -> dict[str, Any]:
    return {**asdict(problem.place), "reason": problem.sentence}


def _emit(event: str, **values: Any) -> None:
    typer.echo(json.dumps({"event": event, **values}))


def _echo(line: str) -> None:
    # Names and texts are strangers': none may move the terminal's cursor.
    typer.echo(printable(line))


def described(amount: Amount) -> str:
    """`1 run, 2 outcomes, 3 measurements`."""
    parts = (
        plural(amount.runs, "run"),
        plural(amount.outcomes, "outcome"),
        plural(amount.measurements, "measurement"),
    )
    return ", ".join(parts)
