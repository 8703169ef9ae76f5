"""Rows that other rows refer to: found by their identity, inserted when they are new."""

import json
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from sqlalchemy import Connection, Select, select, update

from common.text import named_values
from records.environments import Environment
from records.fingerprints import compared_settings, environment_follows, preset_follows
from records.machines import Hardware, Machine
from records.runs import RunPreset

from ..connection.statements import AnyRow, Values, insert_missing, rows_among
from ..schema import core_tables as tables

Named = (
    type[tables.HardwareRow] | type[tables.MachineRow] | type[tables.EnvironmentRow] | type[tables.PresetRow]
)


@dataclass(frozen=True, slots=True)
class _Content:
    """The content of a fingerprint: the columns that are compared and how; and the check whether the
    fingerprint follows from them, which recognises false content.
    """

    columns: tuple[str, ...]
    comparable: Callable[[Any], Any]
    follows: Callable[[str, Mapping[str, Any]], bool]


_PRESET = _Content(
    ("settings",),
    compared_settings,
    lambda fingerprint, row: preset_follows(fingerprint, row["settings"]),
)
_ENVIRONMENT = _Content(
    ("torch_version", "python_version"),
    str,
    lambda fingerprint, row: environment_follows(
        fingerprint, row["torch_version"], row["python_version"], row["facts"]
    ),
)


def machine_id(connection: Connection, machine: Machine, *, authoritative: bool = False) -> int:
    """The id of `machine`, inserted if missing; `authoritative` as for `_by_fingerprint`."""
    rows: dict[str, Values] = {
        machine.fingerprint: {"name": machine.name, "facts": _as_stored(machine.facts)}
    }
    ids = _by_fingerprint(connection, tables.MachineRow, rows, authoritative=authoritative)
    return ids[machine.fingerprint]


def hardware_id(connection: Connection, hardware: Hardware, *, authoritative: bool = False) -> int:
    """The id of `hardware`, inserted if missing; `authoritative` as for `_by_fingerprint`."""
    rows: dict[str, Values] = {
        hardware.fingerprint: {"label": hardware.label, "facts": _as_stored(hardware.facts)}
    }
    ids = _by_fingerprint(connection, tables.HardwareRow, rows, authoritative=authoritative)
    return ids[hardware.fingerprint]


def preset_id(connection: Connection, preset: RunPreset, *, authoritative: bool = False) -> int:
    """The id of `preset`, inserted if missing; raises ValueError if other settings are stored under its
    fingerprint.

    `authoritative` as for `_by_fingerprint`.
    """
    rows: dict[str, Values] = {
        preset.fingerprint: {"name": preset.name, "settings": _as_stored(preset.settings)}
    }
    ids = _by_fingerprint(connection, tables.PresetRow, rows, _PRESET, authoritative=authoritative)
    return ids[preset.fingerprint]


def environment_ids(
    connection: Connection, environments: Sequence[Environment], *, authoritative: bool = False
) -> dict[str, int]:
    """The ids of `environments` by fingerprint, inserted if missing; raises ValueError for one that differs.

    `authoritative` as for `_by_fingerprint`.
    """
    rows: dict[str, Values] = {
        each.fingerprint: {
            "name": each.name,
            "torch_version": each.torch_version,
            "python_version": each.python_version,
            "facts": _as_stored(each.facts),
            "kind": each.kind,
        }
        for each in environments
    }
    table = tables.EnvironmentRow
    return _by_fingerprint(connection, table, rows, _ENVIRONMENT, authoritative=authoritative)


def _as_stored(facts: Mapping[str, Any]) -> dict[str, Any]:
    """Facts after a round trip through JSON, so that they can be compared with stored ones."""
    return json.loads(json.dumps(dict(facts)))


def case_ids(connection: Connection, keys: Collection[str]) -> dict[str, int]:
    """The ids of these cases by key, inserted if missing; raises ValueError for a text that is not a case
    key.
    """
    table = tables.BenchmarkCaseRow

    def select_case_ids() -> dict[str, int]:
        rows = rows_among(connection, select(table.key, table.id), table.key, keys)
        return {key: id for key, id in rows}

    ids = select_case_ids()
    if missing := sorted({*keys} - ids.keys()):
        insert_missing(connection, table, [_parts(key) for key in missing])
        ids = select_case_ids()
    return ids


def series_ids(
    connection: Connection, hardware: int, preset: int, pairs: Collection[tuple[int, str]]
) -> dict[tuple[int, str], int]:
    """The ids of the series of (case id, metric) on one hardware under one preset, inserted if missing."""
    table = tables.SeriesRow
    query = select(table.case_id, table.metric, table.id).where(
        table.hardware_id == hardware, table.preset_id == preset
    )

    def select_series_ids() -> dict[tuple[int, str], int]:
        rows = rows_among(connection, query, table.case_id, (case for case, _ in pairs))
        return {(case, metric): id for case, metric, id in rows}

    ids = select_series_ids()
    if missing := sorted({*pairs} - ids.keys()):
        owners = {"hardware_id": hardware, "preset_id": preset}
        insert_missing(
            connection, table, [{"case_id": case, "metric": metric, **owners} for case, metric in missing]
        )
        ids = select_series_ids()
    return ids


def _by_fingerprint(
    connection: Connection,
    table: Named,
    rows: Mapping[str, Values],
    content: _Content | None = None,
    *,
    authoritative: bool = False,
) -> dict[str, int]:
    """The ids of rows by fingerprint; raises ValueError if a stored row has other `content`.

    Stored content that does not match its fingerprint is replaced by content that does, so that a file cannot
    claim a fingerprint in advance. The other columns are descriptions, which may differ between versions:
    those stored first are kept, unless the rows are `authoritative`.
    """
    query = select(table)

    def update_rows() -> dict[str, int]:
        found = rows_among(connection, query, table.fingerprint, rows)
        # Sorted for the same reason as below.
        for row in sorted(found, key=lambda row: row.fingerprint):
            new = _replacement_values(connection, table, row, rows[row.fingerprint], content, authoritative)
            if new:
                connection.execute(update(table).where(table.id == row.id).values(new))
        return {row.fingerprint: row.id for row in found}

    ids = update_rows()
    # Sorted, so that two writers of the same rows do not deadlock.
    if missing := sorted(rows.keys() - ids.keys()):
        insert_missing(connection, table, [{"fingerprint": each, **rows[each]} for each in missing])
        ids = update_rows()
    return ids


def _replacement_values(
    connection: Connection,
    table: Named,
    stored: AnyRow,
    new: Values,
    content: _Content | None,
    authoritative: bool,
) -> Values:
    """The values that replace those of a stored row; raises ValueError for other content.

    All values do if the stored ones do not match their fingerprint; those that differ if they are
    `authoritative`. Empty facts replace nothing.
    """
    fingerprint, old = stored.fingerprint, {name: getattr(stored, name) for name in new}
    differing = {name: value for name, value in new.items() if old[name] != value and value != {}}
    if content is None:
        return differing if authoritative else {}
    others = [
        name for name in content.columns if content.comparable(old[name]) != content.comparable(new[name])
    ]
    if not others:
        return differing if authoritative else {}
    if content.follows(fingerprint, new) and not content.follows(fingerprint, old):
        return new
    kind = "preset" if table is tables.PresetRow else table.__tablename__
    run = connection.execute(_first_run_of(table, stored.id)).scalar()
    by = f", by run {run}: `pyrometer db forget {run}` would remove both" if run else ""
    what = " and another ".join(name.replace("_", " ") for name in others)
    raise ValueError(f"{kind} {fingerprint} is stored with another {what}{by}")


def _first_run_of(table: Named, id: int) -> Select[str]:
    """The id of the first run with a preset or an environment."""
    run, link = tables.RunRow, tables.RunEnvironmentRow
    query = select(run.id).order_by(run.number).limit(1)
    if table is tables.PresetRow:
        return query.where(run.preset_id == id)
    return query.join(link, link.run_number == run.number).where(link.environment_id == id)


def _parts(key: str) -> Values:
    parts = key.split("/")
    if len(parts) != 4:
        raise ValueError(f"{key!r} is not a case key: expected name/phase/parameters/technique")
    name, phase, parameters, technique = parts
    return {
        "key": key,
        "name": name,
        "phase": phase,
        "parameters": named_values(parameters),
        "technique": named_values(technique),
    }
