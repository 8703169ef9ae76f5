"""The rows that others refer to: found by what identifies them, written when they are new."""

import json
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from sqlalchemy import Connection, Select, select, update

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
    """What a fingerprint stands for: the columns that are compared, with how; and whether it follows from
    these columns, so that content from anywhere else is recognised as false."""

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
    """The id of `machine`, stored if need be; its stored name is corrected where it is `authoritative`."""
    values: Values = {"name": machine.name, "facts": dict(machine.facts)}
    known = _by_fingerprint(connection, tables.MachineRow, {machine.fingerprint: values})
    if authoritative:
        _correct(connection, tables.MachineRow, machine.fingerprint, name=machine.name)
    return known[machine.fingerprint]


def hardware_id(connection: Connection, hardware: Hardware, *, authoritative: bool = False) -> int:
    """The id of `hardware`, stored if need be; its stored label is corrected where it is `authoritative`."""
    values: Values = {"label": hardware.label, "facts": dict(hardware.facts)}
    known = _by_fingerprint(connection, tables.HardwareRow, {hardware.fingerprint: values})
    if authoritative:
        _correct(connection, tables.HardwareRow, hardware.fingerprint, label=hardware.label)
    return known[hardware.fingerprint]


def _correct(connection: Connection, table: Named, fingerprint: str, **values: str) -> None:
    """Give a row these texts where it has others."""
    (name, text), *_ = values.items()
    others = (table.fingerprint == fingerprint) & (getattr(table, name) != text)
    connection.execute(update(table).where(others).values(values))


def preset_id(connection: Connection, preset: RunPreset) -> int:
    """The id of `preset`, stored if need be; raises ValueError where other settings are stored for it."""
    # As it would come back: what is compared has been JSON.
    settings = json.loads(json.dumps(dict(preset.settings)))
    values: Values = {"name": preset.name, "settings": settings}
    known = _by_fingerprint(connection, tables.PresetRow, {preset.fingerprint: values}, _PRESET)
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
    return _by_fingerprint(connection, tables.EnvironmentRow, rows, _ENVIRONMENT)


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
    connection: Connection, table: Named, rows: Mapping[str, Values], content: _Content | None = None
) -> dict[str, int]:
    """The ids of rows by fingerprint; raises ValueError where a stored row has other `content`.

    Stored content from which its fingerprint does not follow is replaced by content from which it does: a
    file that took the fingerprint in advance does not keep it. The other columns are descriptions, which
    another version may word differently.
    """
    query = select(table)

    def stored() -> dict[str, int]:
        found = rows_among(connection, query, table.fingerprint, rows)
        if content is not None:
            for row in found:
                _replace_or_refuse(connection, table, row, rows[row.fingerprint], content)
        return {row.fingerprint: row.id for row in found}

    known = stored()
    # Sorted, so that two writers of the same rows wait for each other in turn and never in a circle.
    if missing := sorted(rows.keys() - known.keys()):
        insert_missing(connection, table, [{"fingerprint": each, **rows[each]} for each in missing])
        known = stored()
    return known


def _replace_or_refuse(
    connection: Connection, table: Named, stored: AnyRow, new: Values, content: _Content
) -> None:
    """Replace a stored row that cannot be what its fingerprint stands for; raise where that is unknown."""
    fingerprint, old = stored.fingerprint, {name: getattr(stored, name) for name in new}
    others = [
        name for name in content.columns if content.comparable(old[name]) != content.comparable(new[name])
    ]
    if not others:
        return
    if content.follows(fingerprint, new) and not content.follows(fingerprint, old):
        connection.execute(update(table).where(table.id == stored.id).values(new))
        return
    kind = "preset" if table is tables.PresetRow else table.__tablename__
    run = connection.execute(_first_run_of(table, stored.id)).scalar()
    by = f", by run {run}: `pyrometer db forget {run}` would remove both" if run else ""
    what = " and another ".join(name.replace("_", " ") for name in others)
    raise ValueError(f"{kind} {fingerprint} is stored with another {what}{by}")


def _first_run_of(table: Named, id: int) -> Select[str]:
    """The id of the first run that names a preset or an environment."""
    run, link = tables.RunRow, tables.RunEnvironmentRow
    query = select(run.id).order_by(run.number).limit(1)
    if table is tables.PresetRow:
        return query.where(run.preset_id == id)
    return query.join(link, link.run_number == run.number).where(link.environment_id == id)


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
