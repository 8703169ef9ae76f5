"""Statements of the user that override a file: when it was measured, and on what hardware."""

from collections.abc import Mapping
from dataclasses import replace
from datetime import datetime
from typing import Any

from .errors import BadFile, SourcePlace
from .foreign_runs import digest, is_undated, machine_called, run_id
from .importers import pyrometer
from .runs import ImportBatch, ImportedRun
from .source_file import NO_TIME

#: A run of ours on its way between machines, which is no format of this room.
JOURNAL = "journal"


def override_runs(
    imported: ImportBatch, place: SourcePlace, date: datetime | None = None, hardware: str | None = None
) -> ImportBatch:
    """The same runs measured at `date` on hardware called `hardware`; None leaves what the file says.

    They differ from the runs without overrides, and are the same each time they are given. Raises BadFile for
    runs of our own, and for a date where the file states the time itself.
    """
    if date is None and hardware is None:
        return imported
    if imported.format in (pyrometer.NAME, JOURNAL):
        raise BadFile(
            place, "holds runs of Pyrometer, which state their time and hardware: neither can be changed"
        )
    dated = sum(not is_undated(each.run.id) for each in imported.runs)
    if date is not None and dated:
        of = "" if dated == len(imported.runs) else f" of {dated} of its {len(imported.runs)} runs"
        raise BadFile(place, f"states the time{of} itself; --date is for files without a time")
    return replace(imported, runs=tuple(_override_run(each, date, hardware) for each in imported.runs))


def _override_run(one: ImportedRun, date: datetime | None, hardware: str | None) -> ImportedRun:
    run = one.run
    stated: dict[str, Any] = {}
    notes = run.notes
    if date is not None:
        stated["date"] = date.isoformat()
        notes = (*(note for note in notes if note != NO_TIME), "the time is that of --date, not the file's")
    if hardware is not None:
        label = run.machine.hardware.label
        stated |= {"hardware": hardware, "hardware_of_the_file": label}
        notes = (*notes, f"the hardware is that of --hardware; by the file it is {label}")
    started = run.started_at if date is None else date
    has_time = date is not None or not is_undated(run.id)
    facts: Mapping[str, Any] = {**run.facts, "notes": list(notes), "stated": stated}
    changed = replace(
        run,
        id=run_id(started if has_time else None, run.harness, digest(run.id, *map(str, stated.items()))),
        started_at=started,
        machine=run.machine
        if hardware is None
        else machine_called(run.machine.name, hardware, run.machine.facts),
        notes=notes,
        facts=facts,
    )
    outcomes = one.outcomes if date is None else tuple(replace(o, started_at=date) for o in one.outcomes)
    return ImportedRun(changed, outcomes, one.measurements)
