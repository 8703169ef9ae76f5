"""`pyrometer submit`: what a team's own script measured on this machine, as points of series."""

import json
import sys
from collections.abc import Sequence
from dataclasses import asdict
from datetime import UTC, datetime
from pathlib import Path
from typing import Annotated

import typer

from common.text import printable
from interchange.errors import BadFile, SourcePlace
from interchange.importers.submitted import Gpu
from interchange.source_file import MAX_BYTES, text_of
from records.machines import Machine
from workflows.errors import UsageError
from workflows.transfer.import_runs import Amount
from workflows.transfer.submit import machine_of, submit

from ..context import FAILED, context, in_one_sentence
from ..options import named_file
from .import_ import described

HELP = """Add what a script of yours measured on this machine to the database.

\b
pyrometer submit results.json
python train.py | pyrometer submit -                          from stdin
pyrometer submit results.json --machine gpu-07 --hardware '8 x H200'

FILE holds one JSON object, or a list of them:

\b
{"suite": "training", "case": "my_model/train/batch=8", "started_at": "2026-11-21T20:15:00+00:00",
 "torch": "2.13.0",
 "metrics": {"tokens_per_second": {"value": 51300, "unit": "tokens/s", "better": "higher"}}}

docs/import.md has every field, examples/submit_from_training.py ten lines that write it. A metric that
Pyrometer knows (latency, throughput, ...) needs neither unit nor direction. Submitting twice changes nothing.
Exit code: 0 it is stored, 1 some of it is stored as something else already, 2 file or call makes no sense.
"""


def submit_file(
    file: Annotated[
        Path, typer.Argument(metavar="FILE", help="a JSON file, or - for stdin", parser=named_file)
    ],
    machine: Annotated[
        str | None, typer.Option(help="the machine that measured it [default: this one]")
    ] = None,
    hardware: Annotated[
        str | None, typer.Option(help="what makes machines comparable [default: that of this machine]")
    ] = None,
    as_json: Annotated[bool, typer.Option("--json", help="one JSON object on stdout")] = False,
) -> None:
    """Submit results (the help text is above, where its layout survives)."""

    def named(gpus: Sequence[Gpu]) -> Machine:
        return machine_of(gpus, machine, hardware)

    with in_one_sentence():
        here = context()
        try:
            text, place, written_at = _content(file)
            with here.open_database() as database:
                runs, arrived = submit(text, place, written_at, database, named)
        except BadFile as error:
            raise UsageError(f"{error}; nothing was stored") from None
    if as_json:
        aside = [{**asdict(each.place), "reason": each.sentence} for each in arrived.set_aside]
        typer.echo(json.dumps({"runs": runs, **asdict(arrived), "set_aside": aside}))
    else:
        told = (
            f"new: {described(arrived.new)}" if arrived.new != Amount() else "stored already, nothing is new"
        )
        typer.echo(printable(f"{', '.join(runs)}: {told}"))
        for problem in arrived.set_aside:
            typer.echo(printable(f"set aside: {problem}"))
    if arrived.set_aside:
        raise typer.Exit(FAILED)


def _content(file: Path) -> tuple[str, SourcePlace, datetime | None]:
    """A file's text, what it is called, and when it was written; what comes through a pipe does not say."""
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
        raise BadFile(place, f"is no UTF-8 text: {error.reason} at byte {error.start}") from None
