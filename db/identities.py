"""The rows that others refer to: found by what identifies them, written when they are new."""

import json
from collections.abc import Collection, Mapping, Sequence
from functools import cache
from typing import Any

from sqlalchemy import Connection, bindparam, select
from sqlalchemy.dialects import postgresql, sqlite

from . import tables
from .bulk import insert_rows
from .parts import in_parts
from .records import Environment, Hardware, Machine, Profile
from .series_names import AnySelect

Values = Mapping[str, Any]
Named = type[tables.Hardware] | type[tables.Machine] | type[tables.Environment] | type[tables.Profile]


def insert_for(dialect: str, table: type[tables.Base]) -> sqlite.Insert | postgresql.Insert:
    """An insert that understands ON CONFLICT, which each database spells in its own dialect."""
    build = sqlite.insert if dialect == "sqlite" else postgresql.insert
    return build(table)


def insert_missing(connection: Connection, table: type[tables.Base], rows: Sequence[Values]) -> None:
    """Insert the rows whose key is not there yet, waiting for whoever is just inserting the same.

    All rows name the same columns in the same order.
    """
    if rows:
        insert_rows(connection, table, tuple(rows[0]), [tuple(row.values()) for row in rows], missing=True)


def machine_id(connection: Connection, machine: Machine) -> int:
    """The id of `machine`, stored if need be."""
    values: Values = {"name": machine.name, "facts": dict(machine.facts)}
    return _by_fingerprint(connection, tables.Machine, {machine.fingerprint: values})[machine.fingerprint]


def hardware_id(connection: Connection, hardware: Hardware) -> int:
    """The id of `hardware`, stored if need be."""
    values: Values = {"label": hardware.label, "facts": dict(hardware.facts)}
    return _by_fingerprint(connection, tables.Hardware, {hardware.fingerprint: values})[hardware.fingerprint]


def profile_id(connection: Connection, profile: Profile) -> int:
    """The id of `profile`, stored if need be; raises ValueError where other settings are stored for it."""
    # As it would come back: what is compared has been JSON.
    settings = json.loads(json.dumps(dict(profile.settings)))
    values: Values = {"name": profile.name, "settings": settings}
    known = _by_fingerprint(connection, tables.Profile, {profile.fingerprint: values}, ("settings",))
    return known[profile.fingerprint]


def environment_ids(connection: Connection, environments: Sequence[Environment]) -> dict[str, int]:
    """The ids of `environments` by fingerprint, stored if need be; raises ValueError for one that differs."""
    rows: dict[str, Values] = {
        each.fingerprint: {
            "name": each.name,
            "torch_version": each.torch_version,
            "python_version": each.python_version,
            "facts": dict(each.facts),
        }
        for each in environments
    }
    return _by_fingerprint(connection, tables.Environment, rows, ("torch_version", "python_version"))


def case_ids(connection: Connection, keys: Collection[str]) -> dict[str, int]:
    """The ids of cases by key, stored if need be; raises ValueError for a text that is no case key."""
    table = tables.BenchmarkCase
    wanted = set(keys)

    def stored() -> dict[str, int]:
        found: dict[str, int] = {}
        for some in in_parts(list(wanted)):
            found |= {key: id for key, id in connection.execute(_CASES, {"keys": some})}
        return found

    known = stored()
    if missing := sorted(wanted - known.keys()):
        insert_missing(connection, table, [_parts(key) for key in missing])
        known = stored()
    return known


def series_ids(
    connection: Connection, hardware: int, profile: int, pairs: Collection[tuple[int, str]]
) -> dict[tuple[int, str], int]:
    """The ids of the series of (case id, metric) on one hardware under one profile, stored if need be."""
    table = tables.Series
    wanted = set(pairs)

    def stored() -> dict[tuple[int, str], int]:
        found: dict[tuple[int, str], int] = {}
        for some in in_parts(list({case for case, _ in wanted})):
            asked = {"cases": some, "hardware": hardware, "profile": profile}
            found |= {(case, metric): id for case, metric, id in connection.execute(_SERIES, asked)}
        return found

    known = stored()
    if missing := sorted(wanted - known.keys()):
        owners = {"hardware_id": hardware, "profile_id": profile}
        insert_missing(
            connection, table, [{"case_id": case, "metric": metric, **owners} for case, metric in missing]
        )
        known = stored()
    return known


def _by_fingerprint(
    connection: Connection,
    table: Named,
    rows: Mapping[str, Values],
    telling: Sequence[str] = (),
) -> dict[str, int]:
    """The ids of rows by fingerprint. Raises ValueError where one is stored that is otherwise in `telling`.

    What is told of a thing may be worded otherwise by another Pyrometer; what tells things apart may not.
    """
    query = _with_fingerprints(table, tuple(telling))

    def stored() -> dict[str, int]:
        found = connection.execute(query, {"fingerprints": list(rows)}).all()
        for row in found:
            for name in telling:
                here, there = getattr(row, name), rows[row.fingerprint][name]
                if here != there:
                    kind, what = table.__tablename__, name.replace("_", " ")
                    raise ValueError(f"{kind} {row.fingerprint} is stored with another {what}")
        return {row.fingerprint: row.id for row in found}

    known = stored()
    # Sorted, so that two writers of the same rows wait for each other in turn and never in a circle.
    if missing := sorted(rows.keys() - known.keys()):
        insert_missing(connection, table, [{"fingerprint": each, **rows[each]} for each in missing])
        known = stored()
    return known


# Put together once: SQLAlchemy takes longer to do that than a database to answer.
_CASES = select(tables.BenchmarkCase.key, tables.BenchmarkCase.id).where(
    tables.BenchmarkCase.key.in_(bindparam("keys", expanding=True))
)
_SERIES = select(tables.Series.case_id, tables.Series.metric, tables.Series.id).where(
    tables.Series.case_id.in_(bindparam("cases", expanding=True)),
    tables.Series.hardware_id == bindparam("hardware"),
    tables.Series.profile_id == bindparam("profile"),
)


@cache
def _with_fingerprints(table: Named, telling: tuple[str, ...]) -> AnySelect:
    columns = [getattr(table, name) for name in telling]
    wanted = table.fingerprint.in_(bindparam("fingerprints", expanding=True))
    return select(table.fingerprint, table.id, *columns).where(wanted)


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
