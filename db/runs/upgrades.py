"""The runs that measured one environment against another."""

from collections import defaultdict
from collections.abc import Collection

from sqlalchemy import Connection, select

from records.environments import NamedEnvironment
from records.kinds import EnvironmentKind, RunKind
from records.runs import UpgradeRun

from ..connection.engine import Database
from ..schema import core_tables as tables


def upgrade_runs(
    database: Database, kind: RunKind = RunKind.UPGRADE, *, newest: int = 100
) -> list[UpgradeRun]:
    """The newest runs of a kind that measures two environments in turns, newest first."""
    run, machine, hardware, preset = tables.RunRow, tables.MachineRow, tables.HardwareRow, tables.PresetRow
    query = (
        select(
            run.number,
            run.id,
            run.suite,
            run.started_at,
            run.state,
            machine.name.label("machine"),
            hardware.fingerprint.label("hardware"),
            hardware.label.label("hardware_label"),
            preset.name.label("preset"),
            run.facts,
            run.kind,
            run.source,
        )
        .join(machine, machine.id == run.machine_id)
        .join(hardware, hardware.id == run.hardware_id)
        .join(preset, preset.id == run.preset_id)
        .where(run.kind == kind)
        .order_by(run.started_at.desc(), run.number.desc())
        .limit(newest)
    )
    with database.reading() as connection:
        rows = [dict(row) for row in connection.execute(query).mappings()]
        numbers = [row.pop("number") for row in rows]
        environments = _environments(connection, numbers)
    return [
        UpgradeRun(**row, environments=tuple(environments[number]))
        for number, row in zip(numbers, rows, strict=True)
    ]


def _environments(connection: Connection, runs: Collection[int]) -> dict[int, list[NamedEnvironment]]:
    """By run number the environments but the canary's."""
    table, link = tables.EnvironmentRow, tables.RunEnvironmentRow
    query = (
        select(link.run_number, table.fingerprint, table.name, table.torch_version)
        .join(table, table.id == link.environment_id)
        .where(link.run_number.in_(runs), table.kind != EnvironmentKind.CANARY)
        .order_by(link.run_number, link.position)
    )
    found: dict[int, list[NamedEnvironment]] = defaultdict(list)
    for number, fingerprint, name, version in connection.execute(query):
        found[number].append(NamedEnvironment(fingerprint, name, version))
    return found
