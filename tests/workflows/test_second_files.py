"""What a second file of a foreign run adds to what is stored of it."""

from dataclasses import replace
from datetime import timedelta
from pathlib import Path
from statistics import median

import pytest

from db.connection.engine import Database
from db.runs import queries, store
from interchange.errors import SourcePlace
from interchange.foreign_runs import machine_called
from interchange.runs import ImportBatch, ImportedRun
from records.outcomes import Outcome
from support.builders.run_records import FIRST_NIGHT, MLP, a_run, an_outcome, measurements_for
from support.servers.databases import on_both
from workflows.database_upkeep import check
from workflows.transfer.import_runs import Amount, ImportSummary, keep, machine_of

RUN = "20260901-020000-tool-0123abcd"
UNDATED = "undated-tool-0123456789abcdef"


def kept(database: Database, *outcomes: Outcome) -> ImportSummary:
    one = ImportedRun(a_run(RUN, planned=1), outcomes, tuple(measurements_for(outcomes)))
    return keep("tool", [ImportBatch("tool", (one,))], SourcePlace("f"), database, lambda stored: None)


def an_end(status: str = "ok", **metrics: float) -> Outcome:
    return an_outcome(status=status, metrics=metrics, blocks=())


@on_both
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


def test_another_copy_of_a_file_without_a_time_adds_what_it_has_more(sqlite: Database) -> None:
    """As where a newer version reads more of the same file, which was copied meanwhile."""
    for days, metrics in enumerate(({"latency": 2.0}, {"latency": 2.0, "throughput": 50.0})):
        run = replace(a_run(UNDATED, planned=1), started_at=FIRST_NIGHT + timedelta(days=days))
        outcome = replace(an_end(**metrics), started_at=run.started_at)
        one = ImportedRun(run, (outcome,), tuple(measurements_for([outcome])))
        arrived = keep("tool", [ImportBatch("tool", (one,))], SourcePlace("f"), sqlite, lambda stored: None)
    assert (arrived.new, arrived.set_aside) == (Amount(0, 0, 1), ())
    measured = {each.metric for each in queries.measurements_of_run(sqlite, UNDATED)}
    stored = queries.run_record(sqlite, UNDATED)
    assert measured == {"latency", "throughput"} and stored and stored.started_at == FIRST_NIGHT


def processes(*values: float) -> list[Outcome]:
    return [replace(an_end(latency=value), replicate=number) for number, value in enumerate(values)]


def numbers(database: Database) -> list[tuple[float, int]]:
    return [(each.point, each.n) for each in queries.measurements_of_run(database, RUN)]


@pytest.mark.parametrize(
    ("first", "second"),
    [
        ([4.9], [5.0, 6.0]),
        # Its range and its median say nothing of it.
        ([1.0, 2.5, 3.0], [1.0, 2.0, 3.0, 4.0, 5.0]),
    ],
)
def test_more_processes_count_only_where_the_first_are_reported_alike(
    database: Database, first: list[float], second: list[float]
) -> None:
    kept(database, *processes(*first))
    stored = numbers(database)
    arrived = kept(database, *processes(*second))
    assert arrived.new == Amount(0, len(second) - len(first), 0) and numbers(database) == stored
    process, number = (problem.sentence for problem in arrived.set_aside)
    assert "latency of" in process and number.endswith(
        f"latency of {MLP} is stored as {stored[0][0]} and here as {median(second)}; the first is kept"
    )
    again = kept(database, *processes(*second))
    assert again.new == Amount() and again.set_aside == arrived.set_aside


def test_more_processes_of_the_same_values_count(database: Database) -> None:
    kept(database, *processes(4.9))
    assert kept(database, *processes(4.9, 6.1)).new == Amount(0, 1, 1)
    assert numbers(database) == [(5.5, 2)]


def test_a_piece_that_tells_only_numbers_is_held_against_the_processes_as_well(sqlite: Database) -> None:
    kept(sqlite, *processes(4.9))
    outcomes = processes(5.0, 6.0)
    run = a_run(RUN, planned=2)
    pieces = [
        ImportedRun(run, tuple(outcomes), ()),
        ImportedRun(run, (), tuple(measurements_for(outcomes))),
    ]
    parts = [ImportBatch("tool", (each,)) for each in pieces]
    arrived = keep("tool", parts, SourcePlace("f"), sqlite, lambda stored: None)
    assert arrived.new == Amount(0, 1, 0) and len(arrived.set_aside) == 2
    assert numbers(sqlite) == [(4.9, 1)]


def test_a_number_is_not_stored_with_a_process_that_says_another(sqlite: Database) -> None:
    # As after an import that was killed before it came to the numbers.
    run = a_run(RUN, planned=1)
    store.save_run(sqlite, run)
    store.save_outcomes(sqlite, RUN, processes(4.9))
    assert len(kept(sqlite, *processes(5.0)).set_aside) == 1 and numbers(sqlite) == []
    assert kept(sqlite, *processes(4.9)).new == Amount(0, 0, 1) and numbers(sqlite) == [(4.9, 1)]


def test_a_label_of_hardware_is_the_same_hardware_however_it_came() -> None:
    submitted, imported = machine_of([], "gpu-07", "8 x H200"), machine_called("gpu-07", "8 x H200")
    assert submitted == imported
    other = machine_of([], "gpu-08", "8 x H200")
    assert other.hardware == imported.hardware and other.fingerprint != imported.fingerprint
