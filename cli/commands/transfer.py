"""`pyrometer export`, `import` and `submit`: runs in files, out of the database and into it."""

import gzip
import json
import sys
from collections.abc import Generator, Sequence
from contextlib import contextmanager
from dataclasses import asdict
from datetime import UTC, datetime
from pathlib import Path
from typing import Annotated, BinaryIO, Literal, cast

import typer
from rich.console import Console
from rich.progress import Progress, SpinnerColumn, TextColumn, TimeElapsedColumn

from common.atomic_file import replace_atomically
from common.interrupts import interruptible
from common.text import plural, printable
from configuration.database_url import sqlite_file
from db.connection.engine import Database, open_database
from interchange.errors import BadFile, ExchangeError, SourcePlace, UnknownFormat
from interchange.formats import FORMATS, chosen
from interchange.importers.submission import Gpu
from interchange.overrides import JOURNAL
from interchange.source_file import MAX_BYTES, in_utc, text_of
from records.machines import Machine
from workflows.app_context import AppContext
from workflows.errors import UsageError
from workflows.ingest import runs_with_journal, store_pending
from workflows.transfer import export_runs
from workflows.transfer.export_runs import OF_TABLES, ExportCounts, Format
from workflows.transfer.import_runs import Amount, files, import_path, machine_of, submit

from ..context import FAILED, INTERRUPTED, context, in_one_sentence, say
from ..options import JsonLines, named_file
from ..output.import_report import (
    ImportCounts,
    ImportReport,
    JsonImportReport,
    PlainImportReport,
    ReadFile,
    describe_amount,
    import_progress,
)

STDOUT = "-"
#: The format of a file by its suffix; with `.gz` after it the file is compressed.
_SUFFIXES: dict[str, Format] = {
    ".jsonl": "pyrometer",
    ".csv": "csv",
    ".parquet": "parquet",
    ".json": "oss-v3",
}
_DEFAULT_TABLE = "measurements"

EXPORT_HELP = """Write runs to a file: complete, for `pyrometer import`, or as tables. RUN may be `latest`.

\b
pyrometer export latest run.jsonl                      whole, with samples and telemetry; also .jsonl.gz
pyrometer export --all history.jsonl.gz                all runs
pyrometer export RUN_A RUN_B runs.csv                  a table: their measurements
pyrometer export latest --table samples raw.parquet    every timed iteration
pyrometer export latest results.json                   for the OSS benchmark database (v3)
pyrometer export latest --table outcomes - | head      on stdout

The suffix of FILE selects the format: .jsonl, .csv, .parquet or .json, each also with .gz.
docs/export.md describes every column and field; `pyrometer import` reads .jsonl back.
Exit code: 0 written, 2 wrong usage or FILE cannot be written, 130 interrupted: no file is left.
"""

Words = Annotated[
    list[str] | None,
    typer.Argument(metavar="RUN... FILE", help="ids of runs, or `latest`; the file comes last"),
]
Everything = Annotated[bool, typer.Option("--all", help="every run in the database")]
FormatOption = Annotated[
    Format | None, typer.Option("--format", help="format of the file [default: by the suffix of FILE]")
]
TableOption = Annotated[
    Literal["runs", "outcomes", "measurements", "samples", "telemetry"] | None,
    typer.Option("--table", help="the table, for csv and parquet [default: measurements]"),
]
Force = Annotated[bool, typer.Option("--force", help="replace FILE if it exists")]


def export(
    words: Words = None,
    everything: Everything = False,
    form: FormatOption = None,
    table: TableOption = None,
    force: Force = False,
) -> None:
    """Write runs to a file (the help text is a constant, which keeps its layout)."""
    with in_one_sentence(), interruptible():
        try:
            *runs, file = _runs_and_file(words or [], everything)
            chosen = _form(file, form, table)
            app_context = context(reading=True)
            store_pending(app_context)
            with _sink(file, force=force) as sink:
                done = _written(app_context, runs, sink, chosen, table or _DEFAULT_TABLE)
        except KeyboardInterrupt:
            say("interrupted: nothing was written")
            raise typer.Exit(INTERRUPTED) from None
        say(_export_summary(file, done, chosen, table or _DEFAULT_TABLE))


def _runs_and_file(words: list[str], everything: bool) -> list[str]:
    """The runs (none for all) and the file, which comes last."""
    if everything and len(words) == 1:
        return words
    if everything:
        raise UsageError("with --all give only the file: pyrometer export --all history.jsonl.gz")
    if len(words) < 2:
        raise UsageError("give runs and a file: pyrometer export latest run.jsonl")
    return words


def _form(file: str, form: Format | None, table: str | None) -> Format:
    """What to write; raises UsageError."""
    if form is None and file == STDOUT:
        form = "csv" if table else "pyrometer"
    if form is None:
        suffix = Path(file.lower().removesuffix(".gz")).suffix
        if suffix not in _SUFFIXES:
            ends = ", ".join(_SUFFIXES)
            raise UsageError(f"{file} has no known suffix: use {ends}, or give --format")
        form = _SUFFIXES[suffix]
    if table and form not in OF_TABLES:
        raise UsageError(f"--table is for csv and parquet; {file} has format {form}")
    if form == "parquet" and file == STDOUT and sys.stdout.isatty():
        raise UsageError("Parquet cannot be written to a terminal: name a file")
    return form


def _written(
    app_context: AppContext, runs: Sequence[str], sink: BinaryIO, form: Format, table: str
) -> ExportCounts:
    console = Console(stderr=True)
    columns = (SpinnerColumn(), TextColumn("{task.description}", markup=False), TimeElapsedColumn())
    with (
        app_context.open_database() as database,
        Progress(*columns, console=console, transient=True, disable=not console.is_terminal) as display,
    ):
        names = export_runs.requested_run_ids(database, runs) if runs else export_runs.all_run_ids(database)
        task = display.add_task("exporting", total=None)

        def progress(done: ExportCounts) -> None:
            text = f"run {done.runs} of {done.total_runs}"
            display.update(task, description=f"exporting {text}" if done.total_runs > 1 else "exporting")

        return export_runs.export(
            database, names, sink, form=form, table=table, progress=progress, note=lambda s: say(f"note: {s}")
        )


@contextmanager
def _sink(file: str, *, force: bool) -> Generator[BinaryIO]:
    """The target of the bytes; a file exists at the end complete or not at all."""
    if file == STDOUT:
        yield sys.stdout.buffer
        sys.stdout.buffer.flush()
        return
    with _whole_file(Path(file), force=force) as sink:
        if not file.lower().endswith(".gz"):
            yield sink
            return
        # Without time and name in the gzip header, so that the same runs give the same bytes.
        with gzip.GzipFile(filename="", mode="wb", fileobj=sink, mtime=0) as compressed:
            yield cast("BinaryIO", compressed)


@contextmanager
def _whole_file(file: Path, *, force: bool) -> Generator[BinaryIO]:
    # The target of a link is written, not the link.
    path = file.resolve()
    if path.is_dir():
        raise UsageError(f"{file} is a folder: name a file in it")
    if not path.parent.is_dir():
        raise UsageError(f"there is no folder {path.parent}")
    if path.exists() and not path.is_file():
        raise UsageError(f"{file} is not a regular file; - writes to stdout")
    if path.exists() and not force:
        raise UsageError(f"{file} exists already; --force replaces it")
    try:
        with replace_atomically(path) as part, part.open("xb") as sink:
            yield sink
    except BrokenPipeError:
        raise
    except OSError as error:
        raise UsageError(f"{file} cannot be written: {error.strerror or error}") from error


def _export_summary(file: str, done: ExportCounts, form: Format, table: str) -> str:
    """A sentence about the written file."""
    where = "stdout" if file == STDOUT else file
    runs = f"{plural(done.runs, 'run')}"
    if form in OF_TABLES:
        return f"{where}: table {table} of {runs}"
    return f"{where}: {runs}, {done.outcomes} outcomes, {done.measurements} measurements"


IMPORT_FILES_HELP = f"""Import results of other tools and machines; importing a file twice changes nothing.

\b
pyrometer import metrics-20240603.json              the format is detected
pyrometer import results/ gh-pages/dev/bench/data.js
pyrometer import --format dynamo-csv inductor.csv   if the format cannot be detected
pyrometer import --dry-run results/                 report what would be imported
pyrometer import --date 2026-03-01 --hardware "RTX 4090" timm.csv    supply missing facts
pyrometer import machine-b/.pyrometer/runs/         journals of a machine without a database

\b
Formats:
{chr(10).join(f"  {each.NAME:<18}  {each.TITLE}" for each in FORMATS)}
  {JOURNAL:<18}  a run of another machine: its folder, or the journal.jsonl in it

A run is imported completely or not at all. An entry that cannot be used is set aside and reported with its
place and the reason; the rest is imported. Nothing in a file is executed.
Exit code: 0 everything is imported, 1 an entry was set aside or a file was refused, 2 wrong usage.
"""


def import_files(
    paths: Annotated[
        list[Path], typer.Argument(metavar="FILE...", help="files or folders", parser=named_file)
    ],
    name: Annotated[
        str | None,
        typer.Option("--format", metavar="FORMAT", help="format of the files [default: detected]"),
    ] = None,
    dry_run: Annotated[bool, typer.Option("--dry-run", help="store nothing")] = False,
    verbose: Annotated[
        bool, typer.Option("--verbose", "-v", help="list everything that was set aside")
    ] = False,
    as_json: JsonLines = False,
    date: Annotated[
        str | None,
        typer.Option(
            metavar="YYYY-MM-DD[THH:MM[:SS][+ZZ]]",
            help="time of the measurement, if a file does not contain it",
        ),
    ] = None,
    hardware: Annotated[
        str | None,
        typer.Option(metavar="LABEL", help="the measured hardware; replaces what the files contain"),
    ] = None,
) -> None:
    """Import files (the help text is a constant, which keeps its layout)."""
    with in_one_sentence():
        app_context = context()
        try:
            chosen(None if name == JOURNAL else name)
        except UnknownFormat as error:
            raise UsageError(f"{error}, {JOURNAL}") from None
        if missing := next((path for path in paths if not path.exists()), None):
            raise UsageError(f"there is no {missing}; nothing was imported")
        stated = _stated_date(date), _label("hardware", hardware)
        report = JsonImportReport() if as_json else PlainImportReport(verbose=verbose, dry_run=dry_run)
        try:
            done = _import(app_context, paths, name, dry_run, stated, report)
        except KeyboardInterrupt:
            say(
                "interrupted: the files reported so far are stored; to store the rest, import all files again"
            )
            raise typer.Exit(INTERRUPTED) from None
    report.report_totals(done)
    if done.refused or done.set_aside or not done.read:
        raise typer.Exit(FAILED)


def _stated_date(text: str | None) -> datetime | None:
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


def _label(option: str, text: str | None) -> str | None:
    """The label of --hardware or --machine; raises UsageError for an empty one, as of an unset variable."""
    if text is not None and not text.strip():
        raise UsageError(f"--{option} is empty")
    return text and text.strip()


def _import(
    app_context: AppContext,
    paths: list[Path],
    name: str | None,
    dry_run: bool,
    stated: tuple[datetime | None, str | None],
    report: ImportReport,
) -> ImportCounts:
    done = ImportCounts()
    with_journal = runs_with_journal(app_context)
    with _import_target(app_context, dry_run) as database, import_progress() as bar:
        for given in paths:
            for path in files(given, None if name == JOURNAL else name):
                read_file = ReadFile(*stated)
                try:
                    arrived = import_path(
                        path,
                        name,
                        database,
                        bar(path),
                        dry_run=dry_run,
                        restate=read_file,
                        with_journal=with_journal,
                    )
                except ExchangeError as error:
                    # Other files in a folder of results are skipped.
                    if isinstance(error, UnknownFormat) and path != given:
                        done.unknown.append(path)
                        continue
                    done.refused += 1
                    report.report_refusal(path, error)
                    continue
                done.read += 1
                done.set_aside += len(arrived.set_aside)
                done.new += arrived.new
                report.report_file(path, arrived, read_file)
    return done


@contextmanager
def _import_target(app_context: AppContext, dry_run: bool) -> Generator[Database | None]:
    """The database; None for a dry run without a database, because a dry run does not create one."""
    url = app_context.places.database_url
    file = sqlite_file(url)
    if dry_run and file is not None and not file.exists():
        yield None
        return
    with open_database(url, create=not dry_run) as database:
        yield database


SUBMIT_FILE_HELP = """Add the results of your own script on this machine to the database.

\b
pyrometer submit results.json
python train.py | pyrometer submit -                          from stdin
pyrometer submit results.json --machine gpu-07 --hardware '8 x H200'

FILE holds one JSON object, or a list of them:

\b
{"suite": "training", "case": "my_model/train/batch=8", "started_at": "2026-11-21T20:15:00+00:00",
 "torch": "2.13.0",
 "metrics": {"tokens_per_second": {"value": 51300, "unit": "tokens/s", "better": "higher"}}}

docs/import.md describes every field; examples/submit_from_training.py writes such a file. A metric that
Pyrometer knows (latency, throughput, ...) needs neither unit nor direction. Submitting twice changes nothing.
Exit code: 0 stored, 1 part of it contradicts what is stored, 2 wrong usage or unreadable file.
"""


def submit_file(
    file: Annotated[
        Path, typer.Argument(metavar="FILE", help="a JSON file, or - for stdin", parser=named_file)
    ],
    machine: Annotated[
        str | None, typer.Option(help="the machine that measured it [default: this one]")
    ] = None,
    hardware: Annotated[
        str | None,
        typer.Option(help="the hardware under which results are compared [default: that of this machine]"),
    ] = None,
    as_json: Annotated[bool, typer.Option("--json", help="one JSON object on stdout")] = False,
) -> None:
    """Submit results (the help text is a constant, which keeps its layout)."""

    with in_one_sentence():
        labels = _label("machine", machine), _label("hardware", hardware)

        def label_machine(gpus: Sequence[Gpu]) -> Machine:
            return machine_of(gpus, *labels)

        app_context = context()
        try:
            text, place, written_at = _content(file)
            with app_context.open_database() as database:
                runs, arrived = submit(text, place, written_at, database, label_machine)
        except BadFile as error:
            raise UsageError(f"{error}; nothing was stored") from None
    if as_json:
        aside = [{**asdict(each.place), "reason": each.sentence} for each in arrived.set_aside]
        typer.echo(json.dumps({"runs": runs, **asdict(arrived), "set_aside": aside}))
    else:
        sentence = (
            f"new: {describe_amount(arrived.new)}"
            if arrived.new != Amount()
            else "stored already; nothing is new"
        )
        typer.echo(printable(f"{', '.join(runs)}: {sentence}"))
        for problem in arrived.set_aside:
            typer.echo(printable(f"set aside: {problem}"))
    if arrived.set_aside:
        raise typer.Exit(FAILED)


def _content(file: Path) -> tuple[str, SourcePlace, datetime | None]:
    """The text of a file, its name, and the time of its last change, which is unknown for a pipe."""
    if str(file) != "-":
        text = text_of(file)
        return text, SourcePlace(file.name), datetime.fromtimestamp(int(file.stat().st_mtime), UTC)
    place = SourcePlace("stdin")
    content = sys.stdin.buffer.read(MAX_BYTES + 1)
    if len(content) > MAX_BYTES:
        raise BadFile(place, f"is larger than {MAX_BYTES >> 20} MiB")
    try:
        return content.decode("utf-8-sig"), place, None
    except UnicodeDecodeError as error:
        raise BadFile(place, f"is not UTF-8 text: {error.reason} at byte {error.start}") from None
