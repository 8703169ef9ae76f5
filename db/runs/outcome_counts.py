"""How the cases of some runs ended, counted: what a night comes to without its numbers."""

from collections.abc import Sequence

from sqlalchemy import func, select

from records.kinds import EnvironmentKind
from records.outcomes import OutcomeCount

from ..connection.engine import Database
from ..connection.statements import in_batches
from ..schema import core_tables as tables


def endings(database: Database, run_ids: Sequence[str]) -> list[OutcomeCount]:
    """The endings of these runs by run, case and status, without those of the canary."""
    outcome, run, case = tables.Outcome, tables.Run, tables.BenchmarkCase
    environment = tables.Environment
    found: list[OutcomeCount] = []
    with database.reading() as connection:
        for some in in_batches(sorted(set(run_ids))):
            query = (
                select(run.id, case.key, outcome.status, func.count(), func.max(outcome.reason))
                .join(run, run.number == outcome.run_number)
                .join(case, case.id == outcome.case_id)
                .join(environment, environment.id == outcome.environment_id)
                .where(run.id.in_(some), environment.kind != EnvironmentKind.CANARY)
                .group_by(run.id, case.key, outcome.status)
            )
            found += [OutcomeCount(*row) for row in connection.execute(query)]
    # Not sorted by the database: each has its own order of texts.
    return sorted(found, key=lambda ending: (ending.run, ending.case, ending.status))
