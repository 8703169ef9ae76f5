"""`pyrometer export`: runs out of the database and into a file, whole or not at all."""

import gzip
import sys
from collections.abc import Generator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Annotated, BinaryIO, Literal, cast

import typer
from rich.console import Console
from rich.progress import Progress, SpinnerColumn, TextColumn, TimeElapsedColumn

from common.atomic_file import replacing
from common.interrupts import interruptible
from common.text import plural
from workflows.app_context import AppContext
from workflows.errors import UsageError
from workflows.ingest import store_pending
from workflows.transfer import export_runs
from workflows.transfer.export_runs import OF_TABLES, Exported, Format

from ..context import INTERRUPTED, context, in_one_sentence, say

STDOUT = "-"
#: What is written to a file whose name ends so; `.gz` after it compresses.
_SUFFIXES: dict[str, Format] = {
    ".jsonl": "pyrometer",
    ".csv": "csv",
    ".parquet": "parquet",
    ".json": "oss-v3",
}
_DEFAULT_TABLE = "measurements"

HELP = """Write runs into a file: whole, to be imported elsewhere, or as tables. RUN may be `latest`.

\b
pyrometer export latest run.jsonl                      whole, with samples and telemetry; also .jsonl.gz
pyrometer export --all history.jsonl.gz                every run there is
pyrometer export RUN_A RUN_B runs.csv                  a table: their measurements
pyrometer export latest --table samples raw.parquet    every timed iteration
pyrometer export latest results.json                   for the OSS benchmark database (v3)
pyrometer export latest --table outcomes - | head      on stdout

The end of FILE's name says what is written: .jsonl, .csv, .parquet or .json, each also with .gz.
docs/export.md has every column and field; `pyrometer import` reads .jsonl back.
Exit code: 0 written, 2 the call makes no sense or FILE cannot be written, 130 interrupted: no file is left.
"""

Words = Annotated[
    list[str] | None, typer.Argument(metavar="RUN... FILE", help="ids of runs, or `latest`; last the file")
]
Everything = Annotated[bool, typer.Option("--all", help="every run in the database")]
FormatOption = Annotated[
    Format | None, typer.Option("--format", help="what to write [default: as FILE's name says]")
]
TableOption = Annotated[
    Literal["runs", "outcomes", "measurements", "samples", "telemetry"] | None,
    typer.Option("--table", help="which table, of csv and parquet [default: measurements]"),
]
Force = Annotated[bool, typer.Option("--force", help="replace FILE if it is there")]


def export(
    words: Words = None,
    everything: Everything = False,
    form: FormatOption = None,
    table: TableOption = None,
    force: Force = False,
) -> None:
    """Write runs into a file (the help text is above, where its layout survives)."""
    with in_one_sentence(), interruptible():
        try:
            *runs, file = _asked(words or [], everything)
            chosen = _form(file, form, table)
            here = context()
            store_pending(here)
            with _sink(file, force=force) as sink:
                done = _written(here, runs, sink, chosen, table or _DEFAULT_TABLE)
        except KeyboardInterrupt:
            say("interrupted: nothing was written")
            raise typer.Exit(INTERRUPTED) from None
        say(_told(file, done, chosen, table or _DEFAULT_TABLE))


def _asked(words: list[str], everything: bool) -> list[str]:
    """The runs (none for all) and at last the file."""
    if everything and len(words) == 1:
        return words
    if everything:
        raise UsageError("--all takes only the file: pyrometer export --all history.jsonl.gz")
    if len(words) < 2:
        raise UsageError("say which runs and which file: pyrometer export latest run.jsonl")
    return words


def _form(file: str, form: Format | None, table: str | None) -> Format:
    """What to write; raises UsageError."""
    if form is None and file == STDOUT:
        form = "csv" if table else "pyrometer"
    if form is None:
        suffix = Path(file.lower().removesuffix(".gz")).suffix
        if suffix not in _SUFFIXES:
            ends = ", ".join(_SUFFIXES)
            raise UsageError(f"{file} does not say what to write: let it end in {ends}, or give --format")
        form = _SUFFIXES[suffix]
    if table and form not in OF_TABLES:
        raise UsageError(f"--table is for csv and parquet; {file} would be {form}")
    if form == "parquet" and file == STDOUT and sys.stdout.isatty():
        raise UsageError("Parquet is not for a terminal: name a file")
    return form


def _written(here: AppContext, runs: Sequence[str], sink: BinaryIO, form: Format, table: str) -> Exported:
    console = Console(stderr=True)
    columns = (SpinnerColumn(), TextColumn("{task.description}", markup=False), TimeElapsedColumn())
    with (
        here.open_database() as database,
        Progress(*columns, console=console, transient=True, disable=not console.is_terminal) as display,
    ):
        names = export_runs.chosen(database, runs) if runs else export_runs.every(database)
        task = display.add_task("exporting", total=None)

        def progress(done: Exported) -> None:
            text = f"run {done.runs} of {done.runs_asked}"
            display.update(task, description=f"exporting {text}" if done.runs_asked > 1 else "exporting")

        return export_runs.export(
            database, names, sink, form=form, table=table, progress=progress, note=lambda s: say(f"note: {s}")
        )


@contextmanager
def _sink(file: str, *, force: bool) -> Generator[BinaryIO]:
    """Where the bytes go; a file is there at the end, whole, or not at all."""
    if file == STDOUT:
        yield sys.stdout.buffer
        sys.stdout.buffer.flush()
        return
    with _whole_file(Path(file), force=force) as sink:
        if not file.lower().endswith(".gz"):
            yield sink
            return
        # Without a time and a name inside: the same runs give the same bytes.
        with gzip.GzipFile(filename="", mode="wb", fileobj=sink, mtime=0) as compressed:
            yield cast("BinaryIO", compressed)


@contextmanager
def _whole_file(file: Path, *, force: bool) -> Generator[BinaryIO]:
    # What a link points to is written, not the link.
    path = file.resolve()
    if path.is_dir():
        raise UsageError(f"{file} is a folder: name a file in it")
    if not path.parent.is_dir():
        raise UsageError(f"there is no folder {path.parent}")
    if path.exists() and not path.is_file():
        raise UsageError(f"{file} is no regular file; - writes to stdout")
    if path.exists() and not force:
        raise UsageError(f"{file} is there already; --force replaces it")
    try:
        with replacing(path) as part, part.open("xb") as sink:
            yield sink
    except BrokenPipeError:
        raise
    except OSError as error:
        raise UsageError(f"{file} cannot be written: {error.strerror or error}") from error


def _told(file: str, done: Exported, form: Format, table: str) -> str:
    """What was written, in a sentence."""
    where = "stdout" if file == STDOUT else file
    runs = f"{plural(done.runs, 'run')}"
    if form in OF_TABLES:
        return f"{where}: table {table} of {runs}"
    return f"{where}: {runs}, {done.outcomes} outcomes, {done.measurements} measurements"
