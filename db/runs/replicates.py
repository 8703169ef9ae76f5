"""What of a run is stored: how many outcomes, and the metrics that its measurements are made of."""

from collections.abc import Collection

from sqlalchemy import select

from records.outcomes import Replicate

from ..connection.engine import Database
from ..schema import core_tables as tables

#: Less than any number of outcomes: of a run that is stored as running it is not known what is missing.
STILL_RUNNING = -1


def replicates_of_run(
    database: Database, run_id: str, *, cases: Collection[str] | None = None
) -> list[Replicate]:
    """The metrics of every outcome of a run that is `ok`, by case, environment and replicate.

    Of all cases, or only of `cases`.
    """
    outcome, case, environment = tables.Outcome, tables.BenchmarkCase, tables.Environment
    query = (
        select(case.key.label("case"), environment.fingerprint.label("environment"), outcome.metrics)
        .join(tables.Run, tables.Run.number == outcome.run_number)
        .join(case, case.id == outcome.case_id)
        .join(environment, environment.id == outcome.environment_id)
        .where(tables.Run.id == run_id, outcome.status == "ok")
        .order_by(case.key, environment.id, outcome.replicate)
    )
    if cases is not None:
        query = query.where(case.key.in_(set(cases)))
    with database.reading() as connection:
        return [Replicate(**row) for row in connection.execute(query).mappings()]


def stored_outcomes(database: Database) -> dict[str, int]:
    """How many outcomes of its plan each run has, by the run's id; STILL_RUNNING where it has no end yet."""
    run = tables.Run
    with database.reading() as connection:
        rows = connection.execute(select(run.id, run.state, run.counts))
        return {row.id: STILL_RUNNING if row.state == "running" else sum(row.counts.values()) for row in rows}
