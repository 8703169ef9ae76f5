"""The newest run of each machine, and the environments in use."""

from sqlalchemy import select

from records.environments import EnvironmentUsed
from records.kinds import EnvironmentKind, RunSource

from ..connection.engine import Database
from ..schema import core_tables as tables


def newest_of_machines(database: Database) -> dict[str, str]:
    """By machine fingerprint the id of its newest run; machines without one are left out.

    Submitted runs do not count: they are stored under the machine on which the script ran.
    """
    run, machine = tables.RunRow, tables.MachineRow
    newest = (
        select(run.id)
        .where(run.machine_id == machine.id, run.source != RunSource.SUBMITTED)
        .order_by(run.started_at.desc(), run.number.desc())
        .limit(1)
        .correlate(machine)
        .scalar_subquery()
    )
    with database.reading() as connection:
        rows = connection.execute(select(machine.fingerprint, newest.label("run"))).all()
    return {row.fingerprint: row.run for row in rows if row.run is not None}


def newest_named(database: Database, machine: str, name: str) -> str | None:
    """The fingerprint of the environment that last had a name on a machine; None without one.

    It is the one in the machine's newest run with an environment of that name. Runs of other tools and
    scripts do not count: they do not describe the interpreters of the machine.
    """
    run, link, environment = tables.RunRow, tables.RunEnvironmentRow, tables.EnvironmentRow
    own_machine = select(tables.MachineRow.id).where(tables.MachineRow.name == machine)
    query = (
        select(environment.fingerprint)
        .join(link, link.environment_id == environment.id)
        .join(run, run.number == link.run_number)
        .where(
            environment.name == name,
            run.machine_id.in_(own_machine),
            run.source == RunSource.MEASURED,
        )
        .order_by(run.started_at.desc(), run.number.desc(), link.position)
        .limit(1)
    )
    with database.reading() as connection:
        return connection.execute(query).scalar()


def environments_used(database: Database, runs: int) -> list[EnvironmentUsed]:
    """The environments of the given number of newest runs, last used first.

    The canary's is left out.
    """
    run, link, environment = tables.RunRow, tables.RunEnvironmentRow, tables.EnvironmentRow
    recent = (
        select(run.number, run.id, run.started_at, run.machine_id)
        .order_by(run.started_at.desc(), run.number.desc())
        .limit(runs)
        .subquery()
    )
    uses = (
        select(link.environment_id, recent.c.id, recent.c.started_at, recent.c.machine_id)
        .join(recent, recent.c.number == link.run_number)
        .order_by(recent.c.started_at.desc(), recent.c.number.desc(), link.position.desc())
    )
    columns = (
        environment.id,
        environment.fingerprint,
        environment.name,
        environment.torch_version,
        environment.python_version,
    )
    with database.reading() as connection:
        rows = connection.execute(uses).all()
        newest = {row.environment_id: row for row in reversed(rows)}
        named = select(*columns).where(
            environment.id.in_(list(newest)),
            environment.kind != EnvironmentKind.CANARY,
            # A submitted run without a PyTorch version has no environment to list.
            environment.torch_version != "",
        )
        about = {row[0]: row[1:] for row in connection.execute(named)}
        machines = select(tables.MachineRow.id, tables.MachineRow.name)
        names = {id: name for id, name in connection.execute(machines)}
    counts: dict[int, int] = {}
    for row in rows:
        counts[row.environment_id] = counts.get(row.environment_id, 0) + 1
    return [
        EnvironmentUsed(
            *about[id], counts[id], newest[id].id, newest[id].started_at, names[newest[id].machine_id]
        )
        for id in dict.fromkeys(row.environment_id for row in rows)
        if id in about
    ]
