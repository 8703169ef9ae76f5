"""What a database must hold for every page of the dashboard to have something to show."""

from datetime import UTC, datetime, timedelta
from pathlib import Path

from db.connection.engine import Database
from db.findings import store as findings
from db.runs import queries, series_queries
from records.evidence import Evidence
from records.findings import NewFinding
from support.builders import technique_runs
from support.builders.detection_nights import METRIC, Nights, a_regression
from support.builders.run_records import MLP, a_machine
from support.builders.schedule_nights import Mornings, facts
from support.builders.upgrade_journals import Story, write_upgrade
from support.sqlite_files import open_with_tables
from workflows.ingest import ingest

#: The days that have passed since the quiet nights.
_AGES = (4, 3, 2, 1)


def add(url: str, folder: Path) -> None:
    """Add what `add_past` does, and nights up to this morning, of which the last one is bad."""
    evidence = add_past(url, folder)
    with open_with_tables(url) as database:
        last_night(database, folder, evidence)


def add_past(url: str, folder: Path) -> Evidence:
    """Add nights and a finding of fixed days, techniques on two machines, and an upgrade.

    Answers the evidence of the finding.
    """
    on_cpu = technique_runs.outcomes(technique_runs.ON_CPU)
    technique_runs.save(url, technique_runs.run("techniques-cpu"), on_cpu)
    on_gpu = technique_runs.outcomes(technique_runs.ON_GPU, device="cuda")
    technique_runs.save(url, technique_runs.run("techniques-gpu", hardware=technique_runs.GPU), on_gpu)
    with open_with_tables(url) as database:
        ingest(write_upgrade(folder / "data", Story()), database)
        Nights(database).add(range(4))
        return a_regression(database).evidence


def last_night(database: Database, folder: Path, evidence: Evidence) -> None:
    """Nights up to this morning; the last one is a tenth slower, which was confirmed an hour ago."""
    mornings = Mornings(database)
    mornings.scheduler(a_machine().name, facts=facts(folder, mornings.now))
    *_, before = mornings.nights(_AGES)
    (after,) = mornings.nights([0], factor=1.1)
    old, new = (queries.run_record(database, run) for run in (before, after))
    assert old is not None and new is not None
    found = NewFinding(
        key=next(
            key
            for key in series_queries.series_keys(database)
            if (key.case, key.metric, key.hardware) == (MLP, METRIC, new.machine.hardware.fingerprint)
        ),
        schedule="nightly",
        track="nightly",
        label="",
        direction="worse",
        shape="step",
        at_run=after,
        before_run=before,
        old_environment=old.environments[0].fingerprint,
        new_environment=new.environments[0].fingerprint,
        change=0.1,
        evidence=evidence,
    )
    now = datetime.now(UTC)
    (stored,) = findings.save_findings(database, [found], now - timedelta(hours=5))
    decided = findings.decide(
        database, stored.id, "confirmed", 0.095, 0.09, 0.1, evidence.confirmation, now - timedelta(hours=1)
    )
    assert decided is not None
