"""What an import prints: a few lines per file, or JSON events."""

import sys
from collections.abc import Callable, Generator
from contextlib import contextmanager
from dataclasses import asdict, dataclass, field
from datetime import datetime
from pathlib import Path
from typing import Any, Protocol

import typer
from rich.console import Console
from rich.markup import escape
from rich.progress import Progress as Bar
from rich.progress import SpinnerColumn, TextColumn

from common.text import plural, printable
from interchange.errors import BadFile, ExchangeError, SourcePlace, UnknownFormat
from interchange.foreign_runs import is_undated
from interchange.overrides import override_runs
from interchange.runs import ImportBatch, ImportProblem
from interchange.source_file import NO_TIME
from workflows.transfer.import_runs import Amount, ImportSummary, Progress

from .console import print_event, report_console

#: The number of entries set aside that are printed for each file without --verbose.
_SHOWN = 10


@dataclass(slots=True)
class ImportCounts:
    """The counts over all files."""

    read: int = 0
    refused: int = 0
    set_aside: int = 0
    new: Amount = field(default_factory=Amount)
    unknown: list[Path] = field(default_factory=list[Path])


@dataclass(slots=True)
class ReadFile:
    """The content of one file; `date` and `hardware` are those of the command line and override it."""

    date: datetime | None = None
    hardware: str | None = None
    runs: int = 0
    undated: int = 0
    repeats: list[ImportProblem] = field(default_factory=list[ImportProblem])

    def __call__(self, imported: ImportBatch, place: SourcePlace) -> ImportBatch:
        """The content with the overrides of the command line; raises BadFile."""
        made = override_runs(imported, place, self.date, self.hardware)
        self.runs += len(made.runs)
        self.undated += sum(is_undated(each.run.id) for each in made.runs)
        self.repeats += made.repeats
        return made


@contextmanager
def import_progress() -> Generator[Callable[[Path], Progress]]:
    """A callback for the number of stored runs of a file, which updates a line on a terminal."""
    columns = (SpinnerColumn(), TextColumn("{task.description}: {task.completed} runs"))
    watched = sys.stdout.isatty() and sys.stderr.isatty()
    with Bar(*columns, console=Console(stderr=True), transient=True, disable=not watched) as bar:
        task = bar.add_task("", total=None)

        def of(path: Path) -> Progress:
            bar.update(task, description=escape(printable(path.name)), completed=0, total=None)
            return lambda stored: bar.update(task, completed=stored)

        yield of


class ImportReport(Protocol):
    """Reports the result of each file."""

    def report_file(self, path: Path, arrived: ImportSummary, read_file: ReadFile) -> None:
        """Report an imported file."""
        ...

    def report_refusal(self, path: Path, error: ExchangeError) -> None:
        """Report a refused file."""
        ...

    def report_totals(self, done: ImportCounts) -> None:
        """Report the end."""
        ...


class PlainImportReport:
    """A few lines per file, for people."""

    def __init__(self, *, verbose: bool, dry_run: bool) -> None:
        self._verbose = verbose
        self._new = "would be new" if dry_run else "new"

    def report_file(self, path: Path, arrived: ImportSummary, read_file: ReadFile) -> None:
        """Print the contents of the file, the new ones, notes, and the entries set aside."""
        new = f"{self._new}: {describe_amount(arrived.new)}" if arrived.new != Amount() else "nothing is new"
        _echo(f"{path}: {arrived.format}, {describe_amount(arrived.held)}; {new}")
        for change in arrived.changed:
            _echo(f"  added to run {change.run}, which was stored before: {describe_amount(change.added)}")
        if read_file.undated:
            of = f" (of {read_file.undated:,} of {read_file.runs:,} runs)" if read_file.runs > 1 else ""
            _echo(f"  note: {NO_TIME}{of}; --date says when it was measured")
        if read_file.repeats:
            _echo(
                f"  note: {plural(len(read_file.repeats), 'repeat')} of entries that are in already, such as "
                f"{read_file.repeats[0]}"
            )
            for repeat in read_file.repeats[1:] if self._verbose else ():
                _echo(f"  note: {repeat}")
        listed = arrived.set_aside if self._verbose else arrived.set_aside[:_SHOWN]
        for problem in listed:
            _echo(f"  set aside: {problem}")
        if more := len(arrived.set_aside) - len(listed):
            _echo(f"  set aside: {more} more (--verbose lists them)")

    def report_refusal(self, path: Path, error: ExchangeError) -> None:
        """Print the error, which names the file."""
        where = "" if isinstance(error, UnknownFormat) else f"{path.parent}/"
        _echo(f"refused: {where}{error}")

    def report_totals(self, done: ImportCounts) -> None:
        """Print the totals, and the files of unknown format."""
        if done.unknown:
            first = done.unknown if self._verbose else done.unknown[:_SHOWN]
            more = len(done.unknown) - len(first)
            beyond = f" and {more} more (--verbose lists them)" if more else ""
            listed = ", ".join(map(str, first))
            _echo(f"skipped, in no known format: {plural(len(done.unknown), 'file')}: {listed}{beyond}")
        parts = [f"{plural(done.read, 'file')} read", f"{self._new}: {describe_amount(done.new)}"]
        parts += [f"{done.set_aside:,} set aside"] if done.set_aside else []
        parts += [f"{plural(done.refused, 'file')} refused"] if done.refused else []
        _echo(", ".join(parts))


class JsonImportReport:
    """One JSON object per line, for machines."""

    def report_file(self, path: Path, arrived: ImportSummary, read_file: ReadFile) -> None:
        """Event `file`."""
        aside = [_problem(each) for each in arrived.set_aside]
        repeats = [_problem(each) for each in read_file.repeats]
        about = {**asdict(arrived), "set_aside": aside, "repeats": repeats, "undated": read_file.undated}
        _emit("file", file=str(path), **about)

    def report_refusal(self, path: Path, error: ExchangeError) -> None:
        """Event `refused`."""
        found = {"line": error.place.line, "field": error.place.field} if isinstance(error, BadFile) else {}
        _emit("refused", file=str(path), reason=str(error), **found)

    def report_totals(self, done: ImportCounts) -> None:
        """Event `ended`."""
        sums = {"read": done.read, "refused": done.refused, "set_aside": done.set_aside}
        _emit("ended", **sums, new=asdict(done.new), left_alone=list(map(str, done.unknown)))


def _problem(problem: ImportProblem) -> dict[str, Any]:
    return {**asdict(problem.place), "reason": problem.sentence}


def _emit(event: str, **values: Any) -> None:
    print_event(report_console(), event, values)


def _echo(line: str) -> None:
    # Names and texts come from files: they must not contain control characters.
    typer.echo(printable(line))


def describe_amount(amount: Amount) -> str:
    """`1 run, 2 outcomes, 3 measurements`."""
    parts = (
        plural(amount.runs, "run"),
        plural(amount.outcomes, "outcome"),
        plural(amount.measurements, "measurement"),
    )
    return ", ".join(parts)
