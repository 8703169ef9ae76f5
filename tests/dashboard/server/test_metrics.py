"""What Prometheus reads: parsed as strictly as its own parser does, and honest when nothing can be known."""

import json
import re
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from importlib.metadata import version
from pathlib import Path
from typing import Any

import pytest

from dashboard.server.metrics import exposition
from db.connection.engine import Database, open_database
from db.queue import commands as queue
from db.runs import store
from records.tasks import NewTask, SchedulerSeen
from support.builders.run_records import MLP, RESNET, a_run, an_environment, an_outcome
from support.builders.schedule_nights import CASES, LATENCY_MS, Mornings, a_finding, confirm
from support.builders.stored_run import store_run
from support.site import ROOT
from support.sqlite_files import open_with_tables

NOW = datetime(2026, 11, 22, 8, 0, tzinfo=UTC)
HOSTILE = 'a "b" \\ c\nd{e="f"} 1 # HELP'

Samples = dict[tuple[str, frozenset[tuple[str, str]]], float]

_NAME = r"[a-zA-Z_:][a-zA-Z0-9_:]*"
_LABEL = re.compile(r'([a-zA-Z_][a-zA-Z0-9_]*)="((?:[^"\\\n]|\\["\\n])*)"(,|$)')
_NUMBER = r"[+-]?(?:\d+(?:\.\d+)?(?:e[+-]?\d+)?|Inf|NaN)"


def parsed(text: str) -> tuple[dict[str, str], Samples]:
    """Types by family and samples by name and labels; fails where Prometheus would not take it."""
    assert text.endswith("\n") and "\r" not in text
    types: dict[str, str] = {}
    samples: Samples = {}
    family = ""
    for line in text[:-1].split("\n"):
        if helped := re.fullmatch(rf"# HELP ({_NAME}) (?:[^\\]|\\[\\n])+", line):
            family = helped[1]
            assert family not in types, "a family stands in one piece"
        elif typed := re.fullmatch(rf"# TYPE ({_NAME}) (counter|gauge)", line):
            assert typed[1] == family and (typed[2] == "counter") == family.endswith("_total")
            types[family] = typed[2]
        else:
            sample = re.fullmatch(rf"({_NAME})\{{(.*)\}} ({_NUMBER})", line)
            assert sample and sample[1] == family in types, line
            key = sample[1], frozenset(labels(sample[2]))
            assert key not in samples, f"twice: {line}"
            samples[key] = float(sample[3])
    return types, samples


def labels(text: str) -> list[tuple[str, str]]:
    found: list[tuple[str, str]] = []
    at = 0
    while at < len(text):
        match = _LABEL.match(text, at)
        assert match, text[at:]
        value = re.sub(r"\\(.)", lambda escape: {"n": "\n"}.get(escape[1], escape[1]), match[2])
        found.append((match[1], value))
        at = match.end()
    return found


def sample(samples: Samples, name: str, **of: str) -> float | None:
    return samples.get((f"pyrometer_{name}", frozenset(of.items())))


def did(database: Database, schedule: str, part: str, state: str, at: datetime, job: str = "measure") -> None:
    """One task that was due and ended a minute later."""
    token = f"{schedule}{part}{at}"
    queue.plan_run(database, schedule, at, "timetable", [NewTask(part, job, {})], at)
    queue.claim(database, owner="h200/b/1/1", labels=[], jobs=[job], token=token, now=at)
    assert queue.finish(database, token, state, {}, "", at + timedelta(minutes=1))


def test_an_empty_database_has_every_family_and_no_invented_sample(database: Database) -> None:
    types, samples = parsed(exposition(database, NOW))
    assert types == {
        "pyrometer_build_info": "gauge",
        "pyrometer_last_success_timestamp_seconds": "gauge",
        "pyrometer_tasks": "gauge",
        "pyrometer_task_failures_total": "counter",
        "pyrometer_scheduler_seen_timestamp_seconds": "gauge",
        "pyrometer_findings": "gauge",
        "pyrometer_open_regressions": "gauge",
        "pyrometer_case_latency_seconds": "gauge",
        "pyrometer_case_replicates": "gauge",
        "pyrometer_case_night_timestamp_seconds": "gauge",
        "pyrometer_case_parts_left_out": "gauge",
    }
    assert sample(samples, "build_info", version=version("pyrometer")) == 1
    assert sample(samples, "tasks", state="waiting") == 0
    assert sample(samples, "open_regressions") == 0
    assert sample(samples, "case_parts_left_out") == 0
    assert len(samples) == 9


def test_each_part_says_when_it_succeeded_last_and_failures_are_counted(database: Database) -> None:
    day = timedelta(days=1)
    did(database, "nightly", "2.13.0@h200", "done", NOW - 2 * day)
    did(database, "nightly", "2.13.0@h200", "failed", NOW - day)
    did(database, "nightly", "nightly@h200", "done", NOW)
    did(database, "broken", "", "failed", NOW)
    did(database, "confirm", "once", "done", NOW, "confirm")
    queue.plan_run(database, "later", NOW, "timetable", [NewTask("", "measure", {}, "a10")], NOW)
    samples = parsed(exposition(database, NOW))[1]
    success = "last_success_timestamp_seconds"
    then = (NOW - 2 * day + timedelta(minutes=1)).timestamp()
    assert sample(samples, success, schedule="nightly", part="2.13.0@h200") == then
    assert sample(samples, success, schedule="nightly", part="nightly@h200") == NOW.timestamp() + 60
    assert sum(name.endswith(success) for name, _ in samples) == 2
    assert sample(samples, "task_failures_total", schedule="nightly") == 1
    assert sample(samples, "task_failures_total", schedule="broken") == 1
    states = {state: sample(samples, "tasks", state=state) for state in ("waiting", "done", "failed", "lost")}
    assert states == {"waiting": 1, "done": 3, "failed": 2, "lost": 0}


def test_a_success_long_before_many_failures_is_still_found(database: Database) -> None:
    did(database, "nightly", "", "done", NOW - timedelta(days=1))
    for minute in range(230):
        did(database, "nightly", "", "failed", NOW + timedelta(minutes=minute))
    samples = parsed(exposition(database, NOW))[1]
    then = NOW.timestamp() - 24 * 3600 + 60
    assert sample(samples, "last_success_timestamp_seconds", schedule="nightly", part="") == then


def test_every_target_of_a_night_is_exported_and_only_runs_are_too_old(
    database: Database, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("db.queue.prometheus_counts._RECENT", 2)
    monkeypatch.setattr("db.queue.prometheus_counts._LATELY", timedelta(days=1))
    first, *later = (NOW - timedelta(days=age) for age in (3, 2, 1))
    parts = [f"nightly@node{number}" for number in range(5)]
    did(database, "nightly", "gone", "done", first)
    for due in later:
        queue.plan_run(database, "nightly", due, "timetable", [NewTask(p, "measure", {}) for p in parts], due)
        for token in (f"{due}{part}" for part in parts):
            queue.claim(database, owner="h200/b/1/1", labels=[], jobs=["measure"], token=token, now=due)
            # The last one failed when it was newest.
            ended = "failed" if due == later[1] and token.endswith("4") else "done"
            assert queue.finish(database, token, ended, {}, "", due + timedelta(minutes=1))
    # These ask for no part again: one was missed, and one confirms what is seen once.
    queue.plan_run(database, "nightly", NOW, "missed", [], NOW)
    did(database, "nightly", "once", "done", NOW + timedelta(hours=1), "confirm")
    samples = parsed(exposition(database, NOW))[1]
    name = "last_success_timestamp_seconds"
    exported = {
        part: sample(samples, name, schedule="nightly", part=part) for part in [*parts, "gone", "once"]
    }
    before, last = (due.timestamp() + 60 for due in later)
    assert exported == dict.fromkeys(parts[:4], last) | {parts[4]: before, "gone": None, "once": None}


def test_a_schedule_with_a_run_for_each_target_is_exported_for_all_of_them(
    database: Database, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As what follows the tasks of a large night: more runs of one part each than are looked at."""
    monkeypatch.setattr("db.queue.prometheus_counts._RECENT", 2)
    for number in range(5):
        did(database, "detect:nightly", f"node{number}", "done", NOW + timedelta(seconds=number), "detect")
    samples = parsed(exposition(database, NOW))[1]
    name = "last_success_timestamp_seconds"
    exported = [sample(samples, name, schedule="detect:nightly", part=f"node{number}") for number in range(5)]
    assert None not in exported


def test_a_counter_is_there_before_it_rises(database: Database) -> None:
    did(database, "nightly", "", "done", NOW - timedelta(days=1))
    before = parsed(exposition(database, NOW))[1]
    did(database, "nightly", "", "failed", NOW)
    after = parsed(exposition(database, NOW))[1]
    counts = [sample(samples, "task_failures_total", schedule="nightly") for samples in (before, after)]
    assert counts == [0, 1]


def test_of_several_schedulers_of_a_machine_the_newest_speaks_and_no_name_breaks_a_line(
    database: Database,
) -> None:
    for number, machine in enumerate(("h200", "h200", HOSTILE)):
        seen = NOW + timedelta(seconds=number, milliseconds=500)
        queue.seen_all(database, [SchedulerSeen(f"o{number}", machine, (), NOW, seen, 1, "0.1.0")])
    did(database, HOSTILE, HOSTILE, "failed", NOW)
    samples = parsed(exposition(database, NOW))[1]
    name = "scheduler_seen_timestamp_seconds"
    assert sample(samples, name, machine="h200") == NOW.timestamp() + 1.5
    assert sample(samples, name, machine=HOSTILE) == NOW.timestamp() + 2.5
    assert sample(samples, "task_failures_total", schedule=HOSTILE) == 1


def a_measured_night(database: Database, part: str, at: datetime, latency_ms: float, crashed: int) -> None:
    """A task that is done, with a run of two cases; of the second some of three processes crashed."""
    outcomes = [an_outcome(MLP, latency=latency_ms, replicate=replicate) for replicate in range(3)]
    outcomes += [
        an_outcome(RESNET, replicate=replicate, status="crashed" if replicate < crashed else "ok")
        for replicate in range(3)
    ]
    run = a_run(f"{part}-{at:%d}", started_at=at)
    store_run(database, run, outcomes)
    token = f"{part}{at}"
    queue.plan_run(database, "nightly", at, "timetable", [NewTask(part, "measure", {})], at)
    queue.claim(database, owner="h200/b/1/1", labels=[], jobs=["measure"], token=token, now=at)
    queue.set_run(database, token, run.id)
    assert queue.finish(database, token, "done", {}, "", at + timedelta(hours=1))


def test_the_cases_of_the_last_night_have_latency_endings_and_time(database: Database) -> None:
    a_measured_night(database, "2.13.0@h200", NOW - timedelta(days=2), 3.0, 0)
    a_measured_night(database, "2.13.0@h200", NOW - timedelta(days=1), 2.5, 3)
    did(database, "nightly", "2.13.0@h200", "failed", NOW)
    samples = parsed(exposition(database, NOW))[1]
    of = {"schedule": "nightly", "part": "2.13.0@h200"}
    assert sample(samples, "case_latency_seconds", **of, case=MLP) == pytest.approx(0.0025)
    assert sample(samples, "case_latency_seconds", **of, case=RESNET) is None
    assert sample(samples, "case_replicates", **of, case=MLP, status="ok") == 3
    assert sample(samples, "case_replicates", **of, case=RESNET, status="crashed") == 3
    began = (NOW - timedelta(days=1)).timestamp()
    assert sample(samples, "case_night_timestamp_seconds", **of, case=RESNET) == began
    assert sample(samples, "case_parts_left_out") == 0


def test_of_an_upgrade_latency_and_endings_are_those_of_the_new_environment(database: Database) -> None:
    """Also where the new one was known before the old one, and where a case broke in it."""
    old, new = an_environment("2.13.0+cpu"), an_environment("2.14.0+cpu")
    store.save_run(database, a_run("before", started_at=NOW - timedelta(days=3), environments=[new]))
    outcomes = [
        *(an_outcome(case, environment=old, latency=9.0) for case in (MLP, RESNET)),
        an_outcome(MLP, environment=new, latency=2.0),
        an_outcome(RESNET, environment=new, status="crashed", metrics={}),
    ]
    run = a_run("upgrade", started_at=NOW - timedelta(days=1), environments=[old, new])
    store_run(database, run, outcomes)
    queue.plan_run(database, "move", NOW, "timetable", [NewTask("bench", "upgrade", {})], NOW)
    queue.claim(database, owner="h200/b/1/1", labels=[], jobs=["upgrade"], token="t", now=NOW)
    queue.set_run(database, "t", run.id)
    assert queue.finish(database, "t", "done", {}, "", NOW + timedelta(hours=1))
    samples = parsed(exposition(database, NOW))[1]
    of = {"schedule": "move", "part": "bench"}
    assert sample(samples, "case_latency_seconds", **of, case=MLP) == pytest.approx(0.002)
    assert sample(samples, "case_latency_seconds", **of, case=RESNET) is None
    assert sample(samples, "case_replicates", **of, case=MLP, status="ok") == 1
    assert sample(samples, "case_replicates", **of, case=RESNET, status="crashed") == 1
    assert sample(samples, "case_replicates", **of, case=RESNET, status="ok") is None


def test_cases_are_bounded_by_whole_parts_and_the_rest_is_counted(
    database: Database, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("dashboard.server.metrics._CASES", 5)
    for number in range(4):
        a_measured_night(database, f"node{number}", NOW - timedelta(days=number), 2.0, 1)
    samples = parsed(exposition(database, NOW))[1]
    exported = {dict(labels)["part"] for name, labels in samples if name == "pyrometer_case_latency_seconds"}
    assert exported == {"node0", "node1"}
    assert sample(samples, "case_parts_left_out") == 2


def test_results_of_cases_are_exported_on_request(database: Database, mornings: Mornings) -> None:
    runs = mornings.nights([6, 5, 4, 3, 2, 1])
    runs += mornings.nights([0], factor=1.1)
    confirm(database, mornings, a_finding(database, mornings, runs))
    plain, asked = (parsed(exposition(database, mornings.now, most)) for most in (0, 100))
    results = {f"pyrometer_case_{name}" for name in ("result_seconds", "change_ratio", "verdict")}
    assert asked[0].keys() - plain[0].keys() == results | {"pyrometer_case_result_parts_left_out"}
    samples = asked[1]
    of = {"schedule": "nightly", "part": "nightly", "metric": "latency_floor"}
    for case, verdict in ((MLP, "worse"), (RESNET, "outside noise")):
        assert sample(samples, "case_change_ratio", **of, case=case) == pytest.approx(1.1)
        assert sample(samples, "case_verdict", **of, case=case, verdict=verdict) == 1
    value = sample(samples, "case_result_seconds", **of, case=MLP)
    assert value == pytest.approx(1.1 * LATENCY_MS[MLP] / 1e3, rel=0.01)
    assert sum(name == "pyrometer_case_verdict" for name, _ in samples) == len(CASES)
    assert sample(samples, "case_result_parts_left_out") == 0


def test_results_are_bounded_by_whole_parts_and_the_rest_is_counted(
    database: Database, mornings: Mornings
) -> None:
    for age, part in enumerate(("one", "two", "three")):
        mornings.trigger(mornings.due(age), (part, ""))
        mornings.measure(mornings.due(age))
    samples = parsed(exposition(database, mornings.now, 2 * len(CASES) + 1))[1]
    verdicts = [dict(labels)["part"] for name, labels in samples if name == "pyrometer_case_verdict"]
    assert len(verdicts) == 2 * len(CASES) and len(set(verdicts)) == 2
    assert sample(samples, "case_result_parts_left_out") == 1


@pytest.mark.parametrize("file", ["alerts.yml", "grafana.json"])
def test_the_files_of_deploy_use_metrics_that_are_exported(file: str, database: Database) -> None:
    exported = parsed(exposition(database, NOW, 1))[0]
    used = set(re.findall(r"pyrometer_\w+", (ROOT / "deploy" / file).read_text()))
    assert used and used <= exported.keys()


def test_the_labels_of_the_grafana_dashboard_are_exported(full_url: str) -> None:
    with open_database(full_url) as database:
        samples = parsed(exposition(database, datetime.now(UTC), 100))[1]
    board = json.loads((ROOT / "deploy" / "grafana.json").read_text())
    for panel in board["panels"]:
        (target,) = panel["targets"]
        expression = target["expr"]
        (metric,) = re.findall(r"pyrometer_\w+", expression)
        known = {name for family, labels in samples if family == metric for name, _ in labels}
        used = re.findall(r"{{(\w+)}}", target["legendFormat"]) + re.findall(r"(\w+)!?=~", expression)
        for group in re.findall(r"by \((.*?)\)", expression):
            used += group.split(", ")
        assert set(used) <= known, panel["title"]


def test_it_is_served_with_the_dashboard_and_says_when_the_database_is_away(
    serve: Callable[..., Any], tmp_path: Path
) -> None:
    file = tmp_path / "pyrometer.db"
    url = f"sqlite:///{file}"
    with open_with_tables(url) as database:
        did(database, "nightly", "", "done", NOW)
    dashboard = serve(url)
    status, headers, body = dashboard.get("/metrics")
    assert (status, headers["content-type"]) == (200, "text/plain; version=0.0.4; charset=utf-8")
    assert headers["cache-control"] == "no-store"
    samples = parsed(body.decode())[1]
    assert sample(samples, "tasks", state="done") == 1
    file.rename(file.with_suffix(".away"))
    status, headers, body = dashboard.get("/metrics")
    assert status == 503 and str(file) in body.decode() and body.count(b"\n") == 1
    assert "Traceback" not in dashboard.log
