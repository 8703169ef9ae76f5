"""What a second file of a foreign run adds to what is stored of it."""

from dataclasses import replace
from pathlib import Path

from builders import MLP, a_run, an_outcome, measurements_for

from db import queries
from db.engine import Database
from db.records import Outcome
from exchange.errors import Place
from exchange.foreign import machine_called
from exchange.imported import Imported, ImportedRun
from scheduled_jobs.checking import check
from scheduled_jobs.importing import Amount, Arrived, keep
from scheduled_jobs.submitting import machine_of

RUN = "20260901-020000-tool-0123abcd"


def kept(database: Database, *outcomes: Outcome) -> Arrived:
    one = ImportedRun(a_run(RUN, planned=1), outcomes, tuple(measurements_for(outcomes)))
    return keep("tool", [Imported("tool", (one,))], Place("f"), database, lambda stored: None)


def an_end(status: str = "ok", **metrics: float) -> Outcome:
    return an_outcome(status=status, metrics=metrics, blocks=())


def test_an_outcome_gains_the_metrics_that_it_has_not(database: Database, tmp_path: Path) -> None:
    kept(database, an_end(latency=2.0))
    arrived = kept(database, an_end(latency=2.0, throughput=50.0, rss_peak=9.0))
    assert (arrived.new, arrived.set_aside) == (Amount(0, 0, 2), ())
    (outcome,) = queries.outcomes_of_run(database, RUN)
    assert dict(outcome.metrics) == {"latency": 2.0, "throughput": 50.0, "rss_peak": 9.0}
    summary = queries.run_summary(database, RUN)
    assert summary and (summary.counts, summary.planned) == ({"ok": 1}, 1)
    assert [problem for each in check(database, tmp_path) for problem in each.problems] == []
    assert kept(database, an_end(latency=2.0, throughput=50.0, rss_peak=9.0)).new == Amount()


def test_what_an_outcome_has_stays_and_one_that_ended_otherwise_gains_nothing(sqlite: Database) -> None:
    kept(sqlite, an_end(latency=2.0))
    arrived = kept(sqlite, an_end(latency=3.0, throughput=50.0))
    assert arrived.new == Amount(0, 0, 1) and len(arrived.set_aside) == 1
    (outcome,) = queries.outcomes_of_run(sqlite, RUN)
    assert dict(outcome.metrics) == {"latency": 2.0, "throughput": 50.0}
    kept(sqlite, replace(an_end("wrong", rss_peak=1.0), reason="it differs"))
    assert queries.outcomes_of_run(sqlite, RUN) == [outcome]
    assert [each.case for each in queries.outcomes_of_run(sqlite, RUN, cases=[MLP])] == [MLP]
    assert queries.outcomes_of_run(sqlite, RUN, cases=["another"]) == []


def test_a_label_of_hardware_is_the_same_hardware_however_it_came() -> None:
    submitted, imported = machine_of([], "gpu-07", "8 x H200"), machine_called("gpu-07", "8 x H200")
    assert submitted == imported
    other = machine_of([], "gpu-08", "8 x H200")
    assert other.hardware == imported.hardware and other.fingerprint != imported.fingerprint
