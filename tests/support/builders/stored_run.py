"""A run in a database, with what its replicates say together."""

from collections.abc import Sequence

from db.connection.engine import Database
from db.runs import store
from records.outcomes import Outcome
from records.runs import Run
from support.builders.run_records import measurements_for


def store_run(database: Database, run: Run, outcomes: Sequence[Outcome]) -> None:
    """Store a run, its outcomes, and the measurements of those that are ok."""
    store.save_run(database, run)
    store.save_outcomes(database, run.id, outcomes)
    measured = [outcome for outcome in outcomes if outcome.status == "ok"]
    store.save_measurements(database, run.id, measurements_for(measured))
