"""The rows that others refer to: found by what identifies them, written when they are new."""

import json
from collections.abc import Collection, Mapping, Sequence

from sqlalchemy import Connection, select

from records.environments import Environment
from records.machines import Hardware, Machine
from records.runs import RunPreset

from ..connection.statements import Values, insert_missing, rows_among
from ..schema import core_tables as tables

Named = (
    type[tables.HardwareRow] | type[tables.MachineRow] | type[tables.EnvironmentRow] | type[tables.PresetRow]
)


def machine_id(connection: Connection, machine: Machine) -> int:
    """The id of `machine`, stored if need be."""
    values: Values = {"name": machine.name, "facts": dict(machine.facts)}
    return _by_fingerprint(connection, tables.MachineRow, {machine.fingerprint: values})[machine.fingerprint]


def hardware_id(connection: Connection, hardware: Hardware) -> int:
    """The id of `hardware`, stored if need be."""
    values: Values = {"label": hardware.label, "facts": dict(hardware.facts)}
    return _by_fingerprint(connection, tables.HardwareRow, {hardware.fingerprint: values})[
        hardware.fingerprint
    ]


def preset_id(connection: Connection, preset: RunPreset) -> int:
    """The id of `preset`, stored if need be; raises ValueError where other settings are stored for it."""
    # As it would come back: what is compared has been JSON.
    settings = json.loads(json.dumps(dict(preset.settings)))
    values: Values = {"name": preset.name, "settings": settings}
    known = _by_fingerprint(connection, tables.PresetRow, {preset.fingerprint: values}, ("settings",))
    return known[preset.fingerprint]


def environment_ids(connection: Connection, environments: Sequence[Environment]) -> dict[str, int]:
    """The ids of `environments` by fingerprint, stored if need be; raises ValueError for one that differs."""
    rows: dict[str, Values] = {
        each.fingerprint: {
            "name": each.name,
            "torch_version": each.torch_version,
            "python_version": each.python_version,
            "facts": dict(each.facts),
            "kind": each.kind,
        }
        for each in environments
    }
    return _by_fingerprint(connection, tables.EnvironmentRow, rows, ("torch_version", "python_version"))


def case_ids(connection: Connection, keys: Collection[str]) -> dict[str, int]:
    """The ids of these cases by key, stored if need be; raises ValueError for a text that is no case key."""
    table = tables.BenchmarkCaseRow

    def stored() -> dict[str, int]:
        rows = rows_among(connection, select(table.key, table.id), table.key, keys)
        return {key: id for key, id in rows}

    known = stored()
    if missing := sorted({*keys} - known.keys()):
        insert_missing(connection, table, [_parts(key) for key in missing])
        known = stored()
    return known


def series_ids(
    connection: Connection, hardware: int, preset: int, pairs: Collection[tuple[int, str]]
) -> dict[tuple[int, str], int]:
    """The ids of the series of (case id, metric) on one hardware under one preset, stored if need be."""
    table = tables.SeriesRow
    query = select(table.case_id, table.metric, table.id).where(
        table.hardware_id == hardware, table.preset_id == preset
    )

    def stored() -> dict[tuple[int, str], int]:
        rows = rows_among(connection, query, table.case_id, (case for case, _ in pairs))
        return {(case, metric): id for case, metric, id in rows}

    known = stored()
    if missing := sorted({*pairs} - known.keys()):
        owners = {"hardware_id": hardware, "preset_id": preset}
        insert_missing(
            connection, table, [{"case_id": case, "metric": metric, **owners} for case, metric in missing]
        )
        known = stored()
    return known


def _by_fingerprint(
    connection: Connection,
    table: Named,
    rows: Mapping[str, Values],
    compared: Sequence[str] = (),
) -> dict[str, int]:
    """The ids of rows by fingerprint; raises ValueError where a stored row differs in a column of `compared`.

    The other columns are descriptions, which another version may word differently.
    """
    query = select(table.fingerprint, table.id, *(getattr(table, name) for name in compared))

    def stored() -> dict[str, int]:
        found = rows_among(connection, query, table.fingerprint, rows)
        for row in found:
            for name in compared:
                new, old = getattr(row, name), rows[row.fingerprint][name]
                if new != old:
                    what = name.replace("_", " ")
                    kind = "preset" if table is tables.PresetRow else table.__tablename__
                    raise ValueError(f"{kind} {row.fingerprint} is stored with another {what}")
        return {row.fingerprint: row.id for row in found}

    known = stored()
    # Sorted, so that two writers of the same rows wait for each other in turn and never in a circle.
    if missing := sorted(rows.keys() - known.keys()):
        insert_missing(connection, table, [{"fingerprint": each, **rows[each]} for each in missing])
        known = stored()
    return known


def _parts(key: str) -> Values:
    parts = key.split("/")
    if len(parts) != 4:
        raise ValueError(f"{key!r} is no case key: expected name/phase/parameters/technique")
    name, phase, parameters, technique = parts
    return {
        "key": key,
        "name": name,
        "phase": phase,
        "parameters": _pairs(parameters),
        "technique": _pairs(technique),
    }


def _pairs(text: str) -> dict[str, str]:
    """The `name=value` pairs of one part of a key; none in `-` and `eager`."""
    return {
        name: value for name, equals, value in (each.partition("=") for each in text.split(",")) if equals
    }
