"""From what a team's own script measured on this machine to the database."""

from collections.abc import Callable, Sequence
from datetime import datetime

from db.connection.engine import Database
from interchange.errors import SourcePlace
from interchange.foreign_runs import digest, machine_called
from interchange.importers import submitted
from interchange.importers.submitted import Gpu
from interchange.source_file import json_of
from records.machines import Hardware, Machine
from runner import machine

from .import_runs import ImportSummary, keep


def submit(
    text: str,
    place: SourcePlace,
    written_at: datetime | None,
    database: Database,
    named: Callable[[Sequence[Gpu]], Machine],
) -> tuple[tuple[str, ...], ImportSummary]:
    """Store the JSON in `text`, which came from `place`; answers the runs' ids and what came of it.

    `written_at` is when what does not say so was measured; None: it has to say. `named` gives the machine
    (see `machine_of`). All or nothing: raises BadFile for the first mistake, and DatabaseError.
    """
    parts = submitted.submissions(json_of(text, place), written_at)
    imported = submitted.imported(parts, named)
    summary = keep(submitted.NAME, [imported], place, database, _unwatched)
    return tuple(one.run.id for one in imported.runs), summary


def machine_of(gpus: Sequence[Gpu], name: str | None = None, hardware: str | None = None) -> Machine:
    """This machine with these GPUs, as runs of ours describe it; or one of another name or other hardware."""
    here = machine.describe(list(gpus))
    if hardware is not None:
        return machine_called(name or here.name, hardware)
    made = Hardware(here.hardware_fingerprint, here.hardware_label, here.hardware)
    if name is None:
        return Machine(here.fingerprint, here.name, made)
    return Machine(digest("machine", name, made.fingerprint), name, made)


def _unwatched(stored: int) -> None:
    """There is nothing to watch: a file of one's own is small."""
