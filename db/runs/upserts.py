"""The rows that others refer to: found by what identifies them, written when they are new."""

import json
from collections.abc import Collection, Mapping, Sequence
from functools import cache
from typing import Any
from weakref import WeakKeyDictionary

from sqlalchemy import Connection, bindparam, select
from sqlalchemy.dialects import postgresql, sqlite

from records.environments import Environment
from records.machines import Hardware, Machine
from records.runs import Profile

from ..connection.batches import among, as_one, fetched
from ..connection.bulk import insert_rows
from ..schema import core_tables as tables
from ..series.series_names import AnySelect

#: The cases that a transaction has met, by its connection: each has its own. Nobody takes a case away.
_KNOWN_CASES: WeakKeyDictionary[Connection, dict[str, int]] = WeakKeyDictionary()

Values = Mapping[str, Any]
Named = type[tables.Hardware] | type[tables.Machine] | type[tables.Environment] | type[tables.Profile]


def insert_for(dialect: str, table: type[tables.Base]) -> sqlite.Insert | postgresql.Insert:
    """An insert that understands ON CONFLICT, which each database spells in its own dialect."""
    build = sqlite.insert if dialect == "sqlite" else postgresql.insert
    return build(table)


def insert_missing(connection: Connection, table: type[tables.Base], rows: Sequence[Values]) -> int:
    """Insert the rows whose key is not there yet, waiting for whoever is just inserting the same.

    All rows name the same columns in the same order. Answers how many were not there.
    """
    if not rows:
        return 0
    values = [tuple(row.values()) for row in rows]
    return insert_rows(connection, table, tuple(rows[0]), values, missing=True)


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
    """The ids of these cases, and maybe of others, by key, stored if need be.

    Raises ValueError for a text that is no case key.
    """
    dialect = connection.dialect.name
    known = _KNOWN_CASES.setdefault(connection, {})

    def look(wanted: Collection[str]) -> list[str]:
        """Look for some, and answer which are not there."""
        if wanted:
            known.update(fetched(connection, _cases(dialect), {"keys": as_one(dialect, wanted)}))
        return sorted(key for key in wanted if key not in known)

    if missing := look({*keys} - known.keys()):
        insert_missing(connection, tables.BenchmarkCase, [_parts(key) for key in missing])
        look(missing)
    return known


def series_ids(
    connection: Connection, hardware: int, profile: int, pairs: Collection[tuple[int, str]]
) -> dict[tuple[int, str], int]:
    """The ids of the series of (case id, metric) on one hardware under one profile, stored if need be."""
    table, dialect = tables.Series, connection.dialect.name
    wanted = set(pairs)

    def stored() -> dict[tuple[int, str], int]:
        cases = as_one(dialect, {case for case, _ in wanted})
        asked = {"cases": cases, "hardware": hardware, "profile": profile}
        return {(case, metric): id for case, metric, id in fetched(connection, _series(dialect), asked)}

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
    dialect = connection.dialect.name
    query = _with_fingerprints(dialect, table, tuple(telling))

    def stored() -> dict[str, int]:
        found = connection.execute(query, {"fingerprints": as_one(dialect, rows)}).all()
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
@cache
def _cases(dialect: str) -> AnySelect:
    table = tables.BenchmarkCase
    return select(table.key, table.id).where(among(dialect, table.key, "keys"))


@cache
def _series(dialect: str) -> AnySelect:
    table = tables.Series
    return select(table.case_id, table.metric, table.id).where(
        among(dialect, table.case_id, "cases"),
        table.hardware_id == bindparam("hardware"),
        table.profile_id == bindparam("profile"),
    )


@cache
def _with_fingerprints(dialect: str, table: Named, telling: tuple[str, ...]) -> AnySelect:
    columns = [getattr(table, name) for name in telling]
    return select(table.fingerprint, table.id, *columns).where(
        among(dialect, table.fingerprint, "fingerprints")
    )


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
