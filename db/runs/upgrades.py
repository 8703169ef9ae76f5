"""The runs that measured one environment against another, for whoever lists them."""

from collections import defaultdict
from collections.abc import Collection

from sqlalchemy import Connection, select, type_coerce

from records.environments import NamedEnvironment
from records.runs import UpgradeRun

from ..connection.engine import Database
from ..schema import core_tables as tables
from ..schema.types import PlainText

#: How the command of such a run begins.
_COMMAND = "pyrometer upgrade"
#: What the facts of one hold that was measured for what the nights had found; within a text of theirs each
#: quote has a backslash before it.
_CONFIRMS = '"confirms":true'


def upgrade_runs(database: Database, *, newest: int = 100, confirms: bool | None = None) -> list[UpgradeRun]:
    """The newest runs of `pyrometer upgrade`, newest first, whoever had them measured.

    With `confirms` only sessions about what the nights had found, or only all others.
    """
    run, machine, hardware, profile = tables.Run, tables.Machine, tables.Hardware, tables.Profile
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
            profile.name.label("profile"),
            run.facts,
        )
        .join(machine, machine.id == run.machine_id)
        .join(hardware, hardware.id == run.hardware_id)
        .join(profile, profile.id == run.profile_id)
        .where(run.command.startswith(_COMMAND, autoescape=True))
        .order_by(run.started_at.desc(), run.number.desc())
        .limit(newest)
    )
    if confirms is not None:
        # Facts are compared as the text that they are stored as: they may hold what SQL's JSON does not.
        about = type_coerce(run.facts, PlainText()).contains(_CONFIRMS, autoescape=True)
        query = query.where(about if confirms else ~about)
    with database.reading() as connection:
        rows = [dict(row) for row in connection.execute(query).mappings()]
        numbers = [row.pop("number") for row in rows]
        environments = _environments(connection, numbers)
    return [
        UpgradeRun(**row, environments=tuple(environments[number]))
        for number, row in zip(numbers, rows, strict=True)
    ]


def _environments(connection: Connection, runs: Collection[int]) -> dict[int, list[NamedEnvironment]]:
    """By run number the environments that have a PyTorch."""
    table, link = tables.Environment, tables.RunEnvironment
    query = (
        select(link.run_number, table.fingerprint, table.name, table.torch_version)
        .join(table, table.id == link.environment_id)
        .where(link.run_number.in_(runs), table.torch_version != "")
        .order_by(link.run_number, link.position)
    )
    found: dict[int, list[NamedEnvironment]] = defaultdict(list)
    for number, fingerprint, name, version in connection.execute(query):
        found[number].append(NamedEnvironment(fingerprint, name, version))
    return found
