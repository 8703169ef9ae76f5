"""One contract, two databases: every public function that takes a database answers alike on both."""

import importlib
import inspect
import pkgutil
import sys
from collections.abc import Callable, Iterator
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from pathlib import Path
from types import CodeType
from typing import Any

import pytest

import db
from db.admin import check, delete_run, prune
from db.connection import engine
from db.connection.engine import Database, check_fits, open_database
from db.findings import notices
from db.findings import store as findings
from db.queue import commands as queue
from db.queue import prometheus_counts
from db.queue import queries as queue_queries
from db.runs import (
    coverage,
    environments_in_use,
    fingerprints,
    history,
    metric_definitions,
    queries,
    run_changes,
    series_queries,
    store,
    traces,
)
from db.runs import releases as runs_releases
from db.telemetry import queries as telemetry
from records.evidence import ComparedRuns, Confirmation
from records.findings import Delivery, DeliveryState, FindingGroup, NewFinding, Notice
from records.kinds import RunKind
from records.outcomes import MetricDefinition
from records.runs import RunsOnly
from records.series import SeriesOnly, Track
from records.tasks import NewTask, SchedulerSeen
from support.builders.run_records import (
    BERT,
    MLP,
    RESNET,
    a_case_fingerprint,
    a_machine,
    a_night,
    a_preset,
    a_recording,
    a_run,
    an_environment,
    an_outcome,
    fingerprint_conditions,
    measurements_for,
)
from support.servers.postgres import PostgresServer

OLD, NEW = an_environment("2.9.1+cpu"), an_environment("2.10.0+cpu")


def _fill(database: Database) -> None:
    """Three nights on two machines, traces, telemetry, failures, a metric from outside."""
    for night in range(3):
        outcomes = [
            an_outcome(
                case,
                environment=environment,
                replicate=replicate,
                latency=1 + night + replicate / 3,
                telemetry=[a_recording()] if night else [],
                started_at=a_night(night),
            )
            for case in (MLP, RESNET)
            for environment in (OLD, NEW)
            for replicate in range(2)
        ]
        outcomes[-1] = an_outcome(RESNET, environment=NEW, replicate=1, status="crashed", reason="signal 9")
        run = a_run(
            f"night-{night}",
            environments=[OLD, NEW],
            started_at=a_night(night),
            machine=a_machine("other" if night % 2 else "bench-1"),
        )
        store.save_run(database, run)
        assert store.save_outcomes(database, run.id, outcomes) == 8
        store.save_measurements(database, run.id, measurements_for(outcomes))
    store.save_run(database, a_run("traced", suite=traces.SUITE, started_at=a_night(3)))
    upgrade = a_run("judged", environments=[OLD, NEW], started_at=a_night(3))
    store.save_run(database, replace(upgrade, kind=RunKind.UPGRADE))
    session = a_run("confirming", environments=[OLD, NEW], started_at=a_night(3))
    store.save_run(database, replace(session, kind=RunKind.CONFIRMATION))
    store.save_run(database, a_run("20260830-020000-asv-0123abcd", started_at=a_night(-2)))
    facts = {"operators": [{"name": "aten::mm", "calls": 3}], "device": "cpu"}
    store.save_outcomes(database, "traced", [an_outcome(MLP, metrics={}, facts=facts, blocks=())])
    metric_definitions.save_metrics(database, [MetricDefinition("dynamo.speedup", "Speed-up", "x", "higher")])
    _schedule(database)


def _schedule(database: Database) -> None:
    """What a service did of itself: a night measured, one lost, a finding, a notice."""
    queue.seen_all(database, [SchedulerSeen("one", "bench-1", ("h200",), a_night(0), a_night(1), 7, "0.7.0")])
    for night in range(4):
        task = NewTask("nightly@h200", "measure", {"track": "nightly"}, "h200")
        queue.plan_run(database, "nightly", a_night(night), "timetable", [task], a_night(night))
        assert _claim(database, f"token-{night}", night) is not None
        queue.set_run(database, f"token-{night}", f"night-{night}")
        queue.plan_run(database, "weekly", a_night(night), "missed", [], a_night(night))
        if night < 2:
            queue.finish(database, f"token-{night}", "done", {"cases": 2}, "", a_night(night))
    waiting = NewTask("", "measure", {"track": "nightly"}, "a10")
    queue.plan_run(database, "monthly", a_night(4), "timetable", [waiting], a_night(4))
    findings.save_findings(database, [_finding(database)], a_night(3))
    findings.triage(database, 1, "note", "ann", "noisy", None, a_night(3))
    notices.save_notice(database, Notice("digest", "night-2", a_night(3), "One finding", "**One**", {"n": 1}))


def _claim(database: Database, token: str, night: int) -> Any:
    about = {"owner": "one", "labels": ["h200"], "jobs": ["measure"]}
    return queue.claim(database, token=token, now=a_night(night), **about)


def _finding(database: Database) -> NewFinding:
    sides = "night-2", "night-1", OLD.fingerprint, NEW.fingerprint
    return NewFinding(_latency(database)[0], "nightly", "nightly", "h200", "worse", "step", *sides, 0.1)


def _technique_runs(database: Database) -> Any:
    outcome = an_outcome(BERT, environment=NEW, metrics={"rss_peak": 5.0})
    store.save_outcomes(database, "night-2", [outcome])
    store.save_measurements(database, "night-2", measurements_for([outcome]))
    return coverage.technique_runs(database)


def _refute_and_reopen(database: Database) -> Any:
    findings.decide(database, 1, "refuted", 0.0, -0.1, 0.1, Confirmation(), a_night(4))
    findings.reopen(database, {1: findings.RepeatRequest(0.2, ComparedRuns("a"), "once more")}, a_night(5))
    return findings.finding(database, 1)


def _latency(database: Database) -> list[Any]:
    return [key for key in series_queries.series_keys(database) if key.metric == "latency"]


def _in_one(database: Database) -> int:
    with engine.one_transaction(database) as one:
        store.save_run(one, a_run("night-2", environments=[OLD, NEW], started_at=a_night(2)))
        return queries.count_runs(one)


_OUTCOME = ("night-2", MLP, NEW.fingerprint, 0)

#: How each function is called; the last ones delete. An answer that is not empty is a better test.
CALLS: dict[Callable[..., Any], Callable[[Database], Any]] = {
    store.save_run: lambda database: store.save_run(database, a_run("more", started_at=a_night(4))),
    store.save_outcomes: lambda database: store.save_outcomes(database, "more", [an_outcome(), an_outcome()]),
    fingerprints.save_fingerprints: lambda database: fingerprints.save_fingerprints(
        database, fingerprint_conditions(NEW), [a_case_fingerprint(), a_case_fingerprint(RESNET)]
    ),
    fingerprints.fingerprints_under: lambda database: fingerprints.fingerprints_under(
        database, fingerprint_conditions(NEW), [MLP, BERT]
    ),
    fingerprints.fingerprints_by_environment: lambda database: fingerprints.fingerprints_by_environment(
        database,
        [NEW.fingerprint, OLD.fingerprint],
        a_machine().hardware.fingerprint,
        a_preset().fingerprint,
        [MLP, RESNET, BERT],
    ),
    store.save_more_metrics: lambda database: store.save_more_metrics(
        database, "more", [an_outcome(metrics={"accuracy": 0.5})]
    ),
    store.save_measurements: lambda database: store.save_measurements(
        database, "more", measurements_for([an_outcome()])
    ),
    metric_definitions.save_metrics: lambda database: metric_definitions.save_metrics(
        database, [MetricDefinition("dynamo.graphs", "Graphs", "", "neither")]
    ),
    metric_definitions.correct_metric: lambda database: metric_definitions.correct_metric(
        database, "dynamo.graphs", unit="graphs"
    ),
    metric_definitions.metric_definitions: metric_definitions.metric_definitions,
    queries.recent_runs: lambda database: [
        queries.recent_runs(database, limit=3, offset=1, after=after)
        for after in (None, queries.place_of_run(database, "night-2"))
    ],
    queries.place_of_run: lambda database: [
        queries.place_of_run(database, run) for run in ("night-2", "nothing")
    ],
    queries.count_runs: lambda database: queries.count_runs(
        database, RunsOnly(suite="smoke", machine="bench-1", state="complete", text="NIGHT bench")
    ),
    queries.suites_and_machines: queries.suites_and_machines,
    queries.run_summary: lambda database: queries.run_summary(database, "night-2"),
    queries.run_summaries: lambda database: queries.run_summaries(database, ["night-2", "night-1"]),
    queries.foreign_runs: queries.foreign_runs,
    queries.run_ids: queries.run_ids,
    queries.runs_by_age: queries.runs_by_age,
    queries.latest_run_id: queries.latest_run_id,
    queries.run_record: lambda database: queries.run_record(database, "night-2"),
    queries.outcomes_of_run: lambda database: queries.outcomes_of_run(database, "night-2"),
    queries.samples: lambda database: queries.samples(database, *_OUTCOME),
    queries.measurements_of_run: lambda database: queries.measurements_of_run(database, "night-2"),
    series_queries.series_keys: lambda database: [
        series_queries.series_keys(database, only)
        for only in (None, SeriesOnly(RESNET, "latency"), SeriesOnly(preset=a_preset().fingerprint))
    ],
    series_queries.series: lambda database: series_queries.series(database, _latency(database), newest=2),
    series_queries.page_of_series: lambda database: [
        series_queries.page_of_series(database, key, 1, offset, newest=2)
        for key in _latency(database)
        for offset in (0, 1)
    ],
    series_queries.before_newest: lambda database: [
        series_queries.before_newest(database, key, newest)
        for key in _latency(database)
        for newest in (1, 2, 2**62)
    ],
    queries.upgrade_runs: lambda database: [
        queries.upgrade_runs(database, kind, newest=3)[0] for kind in (RunKind.UPGRADE, RunKind.CONFIRMATION)
    ],
    series_queries.headlines: lambda database: series_queries.headlines(database, "latency"),
    queries.replicates_of_run: lambda database: queries.replicates_of_run(database, "night-2"),
    queries.stored_outcomes: queries.stored_outcomes,
    coverage.places: lambda database: coverage.places(database, "latency"),
    coverage.most_nights: coverage.most_nights,
    coverage.foreign_presets: lambda database: sorted(coverage.foreign_presets(database)),
    coverage.longest_series: coverage.longest_series,
    coverage.case_extents: lambda database: [
        coverage.case_extents(database, "latency", [key.hardware], key.preset, recent=recent)
        for key in _latency(database)[:1]
        for recent in (False, True)
    ],
    coverage.technique_runs: lambda database: _technique_runs(database),
    runs_releases.technique_versions: lambda database: runs_releases.technique_versions(
        database, "rss_peak", a_machine().hardware.fingerprint, a_preset().fingerprint
    ),
    runs_releases.version_places: lambda database: runs_releases.version_places(
        database, "latency", [OLD.torch_version, NEW.torch_version, "2.0"]
    ),
    runs_releases.version_harnesses: lambda database: runs_releases.version_harnesses(
        database, OLD.torch_version, "latency"
    ),
    runs_releases.points_of_version: lambda database: runs_releases.points_of_version(
        database, "latency", OLD.torch_version, newest=2
    ),
    runs_releases.releases: runs_releases.releases,
    runs_releases.release_points: lambda database: runs_releases.release_points(
        database, runs_releases.releases(database), "latency"
    ),
    telemetry.windows: lambda database: telemetry.windows(database, case=MLP, limit=5),
    telemetry.recording: lambda database: telemetry.recording(database, *_OUTCOME, "host"),
    engine.one_transaction: _in_one,
    traces.operator_tables: lambda database: traces.operator_tables(
        database, workload=MLP.rpartition("/")[0], like="traced"
    ),
    traces.newest_operator_table: lambda database: traces.newest_operator_table(
        database, _latency(database)[0], "2.13.0+cpu"
    ),
    queue_queries.running_tasks: queue_queries.running_tasks,
    queue_queries.tasks: lambda database: queue_queries.tasks(database, schedule="nightly", newest=2),
    queue_queries.waiting_tasks: lambda database: [
        (task, more)
        for labels in (None, ["a10", "h200"], [""])
        for found, more in [queue_queries.waiting_tasks(database, labels=labels, oldest=1)]
        for task in found
    ],
    queue_queries.waiting_for: lambda database: queue_queries.waiting_for(database, a_night(4)),
    queue_queries.task: lambda database: queue_queries.task(database, 2),
    queue_queries.task_of_run: lambda database: queue_queries.task_of_run(database, "night-1"),
    queue_queries.scheduled_runs: lambda database: queue_queries.scheduled_runs(database, "nightly", 2),
    queue_queries.last_due: queue_queries.last_due,
    queue_queries.last_of_each: queue_queries.last_of_each,
    queue_queries.last_taken_up: lambda database: queue_queries.last_taken_up(database, "nightly"),
    queue_queries.not_started: lambda database: queue_queries.not_started(database, "measure"),
    queue_queries.attempts: lambda database: queue_queries.attempts(database, 3),
    queue_queries.schedulers: queue_queries.schedulers,
    # A file takes the machine's clock, which is the same one here.
    queue_queries.shared_time: lambda database: (
        abs(queue_queries.shared_time(database, datetime.now(UTC)) - datetime.now(UTC)) < timedelta(days=1)
    ),
    queue_queries.night_tasks: lambda database: queue_queries.night_tasks(
        database, a_night(1), a_night(9), 5
    ),
    queue_queries.missed_runs: lambda database: queue_queries.missed_runs(database, ["weekly"], a_night(1)),
    queue_queries.last_scheduled_runs: queue_queries.last_scheduled_runs,
    series_queries.has_series: lambda database: [
        series_queries.has_series(database, key)
        for key in (_latency(database)[0], replace(_latency(database)[0], metric="nothing"))
    ],
    series_queries.points_of_runs: lambda database: series_queries.points_of_runs(
        database, ["night-0", "night-2"], ["latency"]
    ),
    series_queries.lines: lambda database: series_queries.lines(
        database, _latency(database), ["night-0", "night-2"]
    ),
    queries.runs_before: lambda database: queries.runs_before(
        database, a_run("night-2", environments=[OLD, NEW], started_at=a_night(2)), 5
    ),
    queries.comparison_runs: lambda database: queries.comparison_runs(database, ["night-0", "traced"]),
    environments_in_use.newest_of_machines: environments_in_use.newest_of_machines,
    environments_in_use.newest_named: lambda database: environments_in_use.newest_named(
        database, "other", NEW.name
    ),
    environments_in_use.environments_used: lambda database: environments_in_use.environments_used(
        database, 3
    ),
    history.history: lambda database: history.history(
        database, Track("nightly", "nightly", "h200"), ["latency", "rss_peak"]
    ),
    history.measured_for: lambda database: sorted(
        history.measured_for(database, ["night-0", "night-2"]),
        key=lambda one: (one.run, one.environment),
    ),
    run_changes.changes_around: lambda database: run_changes.changes_around(
        database, [[("night-0", OLD.fingerprint), ("night-1", NEW.fingerprint)]]
    ),
    run_changes.run_changes: lambda database: run_changes.run_changes(database, "night-0", "night-1"),
    run_changes.changes_along: lambda database: run_changes.changes_along(database, ["night-0", "night-1"]),
    findings.save_findings: lambda database: findings.save_findings(
        database, [_finding(database)], a_night(4)
    ),
    findings.set_state: lambda database: findings.set_state(database, [1], "confirming"),
    findings.revise_evidence: lambda database: findings.revise_evidence(
        database, {1: lambda known: replace(known, began_as=2), 99: lambda known: known}
    ),
    findings.defer: lambda database: findings.defer(database, [1, 99], "no space left"),
    findings.reopen: lambda database: _refute_and_reopen(database),
    findings.decide: lambda database: findings.decide(
        database, 1, "confirmed", 0.1, 0.05, 0.2, Confirmation(run="night-1"), a_night(4)
    ),
    findings.triage: lambda database: findings.triage(database, 1, "mute", "ann", "", a_night(9), a_night(5)),
    findings.findings: lambda database: findings.findings(
        database,
        states=["confirmed"],
        direction="worse",
        since=a_night(3),
        group=(FindingGroup.KNOWN, a_night(8)),
    ),
    findings.group_counts: lambda database: findings.group_counts(database, a_night(8), "nightly"),
    findings.open_regressions: lambda database: findings.open_regressions(database, a_night(10)),
    findings.schedules_with_findings: findings.schedules_with_findings,
    findings.findings_of_series: lambda database: findings.findings_of_series(database, _latency(database)),
    findings.finding: lambda database: findings.finding(database, 1),
    findings.triage_log: lambda database: findings.triage_log(database, 1),
    findings.triage_refusal: lambda database: [findings.triage_refusal(database)],
    notices.save_notice: lambda database: notices.save_notice(
        database, Notice("digest", "night-3", a_night(3), "A quiet night", "")
    ),
    notices.notice: lambda database: notices.notice(database, "digest", "night-3"),
    notices.replace_delivery: lambda database: notices.replace_delivery(
        database, "digest", "night-3", "mail", None, Delivery(DeliveryState.FAILED, a_night(4), 1, "no")
    ),
    notices.notices: lambda database: notices.notices(database, kinds=["digest"]),
    queries.endings: lambda database: [
        queries.endings(database, ["night-2", "night-1"], only=only)
        for only in (None, {"night-2": NEW.fingerprint}, {})
    ],
    prometheus_counts.tallies: prometheus_counts.tallies,
    queue.beat_all: lambda database: queue.beat_all(database, ["token-2", "token-9"]),
    queue.release: lambda database: queue.release(database, "token-2", "stopped", a_night(4)),
    # Of what was given back and not taken up yet.
    queue_queries.machines_with_partial_runs: queue_queries.machines_with_partial_runs,
    queue.claim: lambda database: _claim(database, "token-4", 4),
    queue.set_run: lambda database: queue.set_run(database, "token-4", "night-2"),
    queue.set_wait_reason: lambda database: queue.set_wait_reason(
        database, "token-4", "another run measures this machine"
    ),
    queue_queries.wait_reasons: lambda database: queue_queries.wait_reasons(database, [1, 2, 3, 4, 5, 6]),
    queue.finish: lambda database: queue.finish(database, "token-4", "failed", {}, "no", a_night(4)),
    queue_queries.attempt_seconds: lambda database: queue_queries.attempt_seconds(
        database, [1, 2, 3, 4, 5, 6]
    ),
    queue.plan_run: lambda database: queue.plan_run(
        database, "nightly", a_night(5), "missed", [NewTask("", "check", {})], a_night(6)
    ),
    queue.cancel: lambda database: queue.cancel(database, 6, a_night(6)),
    queue.supersede: lambda database: queue.supersede(database, "monthly", a_night(6), a_night(6)),
    queue.lose: lambda database: queue.lose(database, "token-3", "gone", a_night(6), 3),
    queue.seen_all: lambda database: queue.seen_all(
        database,
        [SchedulerSeen(owner, "bench-2", (), a_night(0), a_night(1), 7, "0.7.0") for owner in ("one", "two")],
    ),
    queue.gone_all: lambda database: queue.gone_all(database, ["one", "two"]),
    # It raises or says nothing.
    check_fits: lambda database: check_fits(database) is None,
    check.schema_check: check.schema_check,
    # Pages of a file: Postgres has none to look at.
    check.file_check: lambda database: check.file_check(database).problems == (),
    check.reference_check: check.reference_check,
    check.count_check: check.count_check,
    check.point_check: check.point_check,
    check.metric_check: lambda database: check.metric_check(database, {"latency": "ms"}),
    check.queue_check: check.queue_check,
    check.measurement_check: lambda database: check.measurement_check(database, measurements_for),
    check.sample_check: check.sample_check,
    check.telemetry_check: check.telemetry_check,
    delete_run.forget_run: lambda database: delete_run.forget_run(database, "traced"),
    delete_run.clear_run: lambda database: (
        delete_run.clear_run(database, "night-1"),
        queries.run_summary(database, "night-1"),
        queries.measurements_of_run(database, "night-1"),
    ),
    prune.prune_samples: lambda database: prune.prune_samples(database, a_night(1)),
    prune.prune_telemetry: lambda database: prune.prune_telemetry(database, a_night(2)),
    prune.prune_queue: lambda database: prune.prune_queue(database, a_night(9)),
    queue.withdraw_missed: lambda database: queue.withdraw_missed(database, "weekly", a_night(0)),
}
WRITERS = {
    store.save_run,
    store.save_more_metrics,
    store.save_measurements,
    metric_definitions.save_metrics,
    findings.set_state,
    findings.revise_evidence,
    findings.defer,
    queue.seen_all,
    queue.gone_all,
}


def _contract() -> set[Callable[..., Any]]:
    """Every public function of the room whose first parameter is a database."""
    found: set[Callable[..., Any]] = set()
    for module in pkgutil.walk_packages(db.__path__, "db."):
        for name, function in inspect.getmembers(importlib.import_module(module.name), inspect.isfunction):
            parameters = list(inspect.signature(function).parameters.values())
            mine = function.__module__ == module.name and not name.startswith("_")
            if mine and parameters and parameters[0].annotation is Database:
                found.add(function)
    return found


def test_no_function_is_left_out() -> None:
    assert {each.__qualname__ for each in _contract()} == {each.__qualname__ for each in CALLS}


@pytest.fixture(scope="module")
def both(postgres: PostgresServer, tmp_path_factory: pytest.TempPathFactory) -> Iterator[list[Database]]:
    file: Path = tmp_path_factory.mktemp("both") / "pyrometer.db"
    opened = [open_database(url) for url in (f"sqlite:///{file}", postgres.new_database("template0"))]
    for database in opened:
        _fill(database)
    yield opened
    for database in opened:
        database.close()


@pytest.mark.postgres
def test_both_databases_answer_alike(both: list[Database]) -> None:
    # One test: later calls read what earlier ones wrote, so they must not be spread over processes.
    problems: dict[str, str] = {}
    for function, call in CALLS.items():
        called: set[CodeType] = set()
        sys.setprofile(lambda frame, *_, called=called: called.add(frame.f_code))
        try:
            sqlite, postgres = (call(database) for database in both)
        finally:
            sys.setprofile(None)
        if inspect.unwrap(function).__code__ not in called:
            problems[function.__qualname__] = "CALLS has something else under this name"
        elif sqlite != postgres:
            problems[function.__qualname__] = f"SQLite answers {sqlite!r}, Postgres {postgres!r}"
        elif not sqlite and function not in WRITERS:
            problems[function.__qualname__] = "an empty answer proves nothing"
    assert problems == {}
