"""The differences between two runs besides their measurements: machine, harness, preset, environment."""

import json
from collections.abc import Collection, Mapping, Sequence
from itertools import pairwise
from typing import Any

from sqlalchemy import Connection, select

from records.environments import packages_in
from records.kinds import EnvironmentKind
from records.runs import RunChange

from ..connection.engine import Database
from ..connection.statements import rows_among
from ..schema import core_tables as tables

#: Facts of a machine that differ in every run.
_RESTLESS = ("load",)
#: Facts of an environment that are not compared: its names, duplicates of other facts, facts of the machine.
_NOT_ITS_OWN = ("fingerprint", "build", "executable", "devices", "packages")

#: The facts of a run by kind and name.
RunFacts = Mapping[tuple[str, str], str]


def run_changes(database: Database, before: str, after: str) -> list[RunChange]:
    """All stored differences between two runs, without measurements.

    Of a run with several environments the last one is compared. Raises ValueError for a run that is not
    stored.
    """
    return changes_along(database, [before, after]).get(after, [])


def changes_along(database: Database, runs: Sequence[str]) -> dict[str, list[RunChange]]:
    """By run, the differences from the preceding run in `runs`; the first run is left out.

    The same as `run_changes` of all neighbours, in one query. Raises ValueError for a run that is not stored.
    """
    with database.reading() as connection:
        facts = _facts_of_runs(connection, set(runs))
    if missing := sorted(set(runs) - facts.keys()):
        raise ValueError(f"run {missing[0]} was never stored")
    return {after: _differences(facts[before], facts[after]) for before, after in pairwise(runs)}


def changes_around(
    database: Database, histories: Sequence[Sequence[tuple[str, str]]]
) -> list[list[list[RunChange]]]:
    """For each history, the differences of each place from the preceding one; none for the first.

    A place is a run (id) and one of its environments (fingerprint), which is the one that is compared. A
    deleted run has no differences.
    """
    runs = {run for history in histories for run, _ in history}
    used = {environment for history in histories for _, environment in history}
    with database.reading() as connection:
        facts = {row.id: _of_the_run(row) for row in _rows(connection, runs)}
        rows = rows_among(connection, _ENVIRONMENTS, tables.EnvironmentRow.fingerprint, used)
        environments = {row.fingerprint: _of_the_environment(row) for row in rows}

    def between(one: tuple[str, str], other: tuple[str, str]) -> list[RunChange]:
        if not {one[0], other[0]} <= facts.keys() or not {one[1], other[1]} <= environments.keys():
            return []
        own = _differences(facts[one[0]], facts[other[0]])
        # Mostly it is the same environment, and its list of packages is long.
        alike = one[1] == other[1]
        return own if alike else own + _differences(environments[one[1]], environments[other[1]])

    return [
        [[], *(between(one, other) for one, other in pairwise(history))] if history else []
        for history in histories
    ]


def _differences(before: RunFacts, after: RunFacts) -> list[RunChange]:
    if before == after:
        return []
    both = sorted(before.keys() | after.keys())
    pairs = ((key, before.get(key, ""), after.get(key, "")) for key in both)
    return [RunChange(*key, one, other) for key, one, other in pairs if one != other]


def _facts_of_runs(connection: Connection, runs: Collection[str]) -> dict[str, RunFacts]:
    """The facts of each run, including those of its environment."""
    rows = _rows(connection, runs)
    environments = _environments(connection, [row.number for row in rows])
    return {row.id: _of_the_run(row) | environments.get(row.number, {}) for row in rows}


def _rows(connection: Connection, runs: Collection[str]) -> Sequence[Any]:
    """Runs with their machines and presets."""
    run, machine, hardware, preset = tables.RunRow, tables.MachineRow, tables.HardwareRow, tables.PresetRow
    query = (
        select(
            run.id,
            run.number,
            run.harness,
            run.facts,
            machine.name.label("machine"),
            hardware.label.label("hardware"),
            hardware.facts.label("hardware_facts"),
            preset.name.label("preset"),
            preset.settings,
        )
        .join(machine, machine.id == run.machine_id)
        .join(hardware, hardware.id == run.hardware_id)
        .join(preset, preset.id == run.preset_id)
    )
    return rows_among(connection, query, run.id, runs)


def _of_the_run(row: Any) -> dict[tuple[str, str], str]:
    stated = row.facts.get("conditions")
    # An imported file may have another type under that key.
    own: Mapping[str, Any] = stated if isinstance(stated, Mapping) else {}
    conditions = {name: value for name, value in own.items() if name not in _RESTLESS}
    harness = {"harness": row.harness, "cases": row.facts.get("user_version")}
    preset = {"preset": row.preset, **row.settings}
    how = {name: row.facts.get(name) for name in ("timing", "device")}
    return {
        **_flatten_facts("machine", {"name": row.machine, **conditions}),
        **_flatten_facts("hardware", {"hardware": row.hardware, **row.hardware_facts}),
        **_flatten_facts("harness", harness),
        **_flatten_facts("preset", preset | how),
    }


def _environments(connection: Connection, numbers: Collection[int]) -> dict[int, dict[tuple[str, str], str]]:
    """By run number, the facts of the environment given last, the canary's left out."""
    table, link = tables.EnvironmentRow, tables.RunEnvironmentRow
    used = (
        select(link.run_number, link.environment_id)
        .join(table, table.id == link.environment_id)
        .where(table.kind != EnvironmentKind.CANARY)
        .order_by(link.position)
    )
    last = {
        number: environment for number, environment in rows_among(connection, used, link.run_number, numbers)
    }
    # Read once, not once per run: the list of packages is long.
    rows = rows_among(connection, _ENVIRONMENTS, table.id, last.values())
    facts = {row.id: _of_the_environment(row) for row in rows}
    return {number: facts[environment] for number, environment in last.items()}


_ENVIRONMENTS = select(
    tables.EnvironmentRow.id,
    tables.EnvironmentRow.fingerprint,
    tables.EnvironmentRow.torch_version,
    tables.EnvironmentRow.python_version,
    tables.EnvironmentRow.facts,
)


def _of_the_environment(row: Any) -> dict[tuple[str, str], str]:
    own = {name: value for name, value in row.facts.items() if name not in _NOT_ITS_OWN}
    return {
        **_flatten_facts("environment", {"torch": row.torch_version, "python": row.python_version}),
        **_flatten_facts("environment", own),
        **_flatten_facts("environment", _versions(packages_in(row.facts))),
    }


def _versions(packages: Sequence[str]) -> dict[str, str]:
    return {name: version for name, _, version in (each.partition("==") for each in packages)}


def _flatten_facts(kind: str, facts: Mapping[str, Any], within: str = "") -> dict[tuple[str, str], str]:
    """Facts by kind and name, nested ones with dots in the name; None and empty values are left out."""
    found: dict[tuple[str, str], str] = {}
    for name, value in facts.items():
        if isinstance(value, Mapping):
            found |= _flatten_facts(kind, value, f"{within}{name}.")
        elif value not in (None, "", [], ()):
            found[kind, f"{within}{name}"] = value if isinstance(value, str) else json.dumps(value)
    return found
