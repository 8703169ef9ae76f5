"""A real Prometheus scrapes a real dashboard; the rules and the Grafana dashboard of deploy/ work there."""

import json
import shutil
import subprocess
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any
from urllib.parse import urlencode
from urllib.request import urlopen

import pytest
import yaml

from db.connection.engine import Database
from db.queue import commands as queue
from records.tasks import NewTask, SchedulerSeen
from support.builders.run_records import MLP, RESNET, a_run, an_outcome
from support.builders.stored_run import store_run
from support.servers.ports import free_port
from support.site import ROOT, unavailable
from support.sqlite_files import open_with_tables
from support.waiting import PATIENCE_SECONDS, until

pytestmark = pytest.mark.slow

CONFIGURATION, RULES = ROOT / "deploy/prometheus.yml", ROOT / "deploy/alerts.yml"
PART = 'nightly "2.13" \\ @h200'
HOUR = timedelta(hours=1)


def program(name: str) -> str:
    """Where a program of the Debian package `prometheus` is."""
    found = shutil.which(name)
    if found is None:
        unavailable(f"no {name} on PATH: apt-get install prometheus")
    assert found is not None
    return found


@dataclass(frozen=True)
class Prometheus:
    """A server that runs."""

    url: str

    def get(self, path: str, **query: str) -> Any:
        """The data of an answer of its API; None while it does not answer."""
        try:
            with urlopen(f"{self.url}/api/v1/{path}?{urlencode(query)}", timeout=PATIENCE_SECONDS) as answer:
                return json.load(answer)["data"]
        except OSError:
            return None

    def value(self, expression: str) -> dict[tuple[tuple[str, str], ...], float]:
        """The samples of an expression by their labels; fails where Prometheus cannot read it."""
        found = self.get("query", query=expression)
        assert found is not None, expression
        return {tuple(sorted(one["metric"].items())): float(one["value"][1]) for one in found["result"]}


def a_night(database: Database, at: datetime) -> None:
    """Two nights that were done, of two cases, one of which crashed; and a night that failed after them."""
    before = at - 24 * HOUR
    for name, started_at, latency in (("before", before, 2.0), ("night", at, 2.5)):
        outcomes = [an_outcome(MLP, latency=latency), an_outcome(RESNET, status="crashed", metrics={})]
        store_run(database, a_run(name, started_at=started_at), outcomes)
    for due, run, state in (
        (before, "before", "done"),
        (at, "night", "done"),
        (at + HOUR, "night", "failed"),
    ):
        queue.plan_run(database, "nightly", due, "timetable", [NewTask(PART, "measure", {})], due)
        queue.claim(database, owner="h200/b/1/1", labels=[], jobs=["measure"], token=str(due), now=due)
        queue.set_run(database, str(due), run)
        assert queue.finish(database, str(due), state, {}, "", due)


@pytest.fixture(scope="module")
def night() -> datetime:
    """When the last good night was: too long ago for the rule on it."""
    return datetime.now(UTC).replace(microsecond=0) - 40 * HOUR


@pytest.fixture(scope="module")
def prometheus(
    serve: Callable[..., Any], night: datetime, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Prometheus]:
    """A Prometheus that has scraped a dashboard and evaluated the rules."""
    binary, folder = program("prometheus"), tmp_path_factory.mktemp("prometheus")
    url = f"sqlite:///{folder}/pyrometer.db"
    with open_with_tables(url) as database:
        a_night(database, night)
        seen = datetime.now(UTC) - HOUR
        queue.seen_all(database, [SchedulerSeen("h200/b/1/1", "h200", (), seen, seen, 1, "0.1.0")])
    target = serve(url, metrics_cases=100).url.removeprefix("http://")
    settings = yaml.safe_load(CONFIGURATION.read_text())
    (job,) = settings["scrape_configs"]
    job["static_configs"][0]["targets"] = [target]
    # A scrape may take as long as its interval: a busy machine needs more than a second.
    job |= {"scrape_interval": "3s", "scrape_timeout": "3s"}
    settings["global"] = {"evaluation_interval": "1s"}
    (folder / "prometheus.yml").write_text(yaml.safe_dump(settings))
    shutil.copy(RULES, folder)
    port = free_port()
    command = [binary, "--config.file=prometheus.yml", "--storage.tsdb.path=data"]
    with (folder / "log").open("w") as log:
        process = subprocess.Popen(
            [*command, f"--web.listen-address=127.0.0.1:{port}"], cwd=folder, stdout=log, stderr=log
        )
    server = Prometheus(f"http://127.0.0.1:{port}")

    def evaluated() -> bool:
        assert process.poll() is None, (folder / "log").read_text()
        (target,) = (server.get("targets") or {"activeTargets": [{}]})["activeTargets"] or [{}]
        groups = (server.get("rules") or {"groups": []})["groups"]
        rules = {(rule["health"], rule["state"]) for one in groups for rule in one["rules"]}
        return target.get("health") == "up" and rules == {("ok", "firing")}

    try:
        until(evaluated, "Prometheus evaluates the rules")
        yield server
    finally:
        process.terminate()
        process.wait(PATIENCE_SECONDS)


def test_it_stores_what_the_database_says(prometheus: Prometheus, night: datetime) -> None:
    (success,) = prometheus.value("pyrometer_last_success_timestamp_seconds").items()
    labels = dict(success[0])
    assert (labels["schedule"], labels["part"], success[1]) == ("nightly", PART, night.timestamp())
    (latency,) = prometheus.value("pyrometer_case_latency_seconds").items()
    assert (dict(latency[0])["case"], latency[1]) == (MLP, 0.0025)
    (verdict,) = prometheus.value("pyrometer_case_verdict")
    assert (dict(verdict)["case"], dict(verdict)["verdict"]) == (MLP, "too few nights")
    assert list(prometheus.value("pyrometer_case_change_ratio").values()) == [pytest.approx(1.25)]
    assert sum(prometheus.value("pyrometer_tasks").values()) == 3
    assert list(prometheus.value("pyrometer_task_failures_total").values()) == [1]
    assert set(prometheus.value('up{job="pyrometer"}').values()) == {1}


def test_a_missing_night_and_a_silent_scheduler_raise_the_alarm(prometheus: Prometheus) -> None:
    alerts = {one["labels"]["alertname"]: one for one in prometheus.get("alerts")["alerts"]}
    assert {name: one["state"] for name, one in alerts.items()} == {
        "PyrometerNightMissing": "firing",
        "PyrometerSilent": "firing",
    }
    assert alerts["PyrometerNightMissing"]["labels"]["part"] == PART
    assert 40 * 3600 <= float(alerts["PyrometerNightMissing"]["value"]) < 41 * 3600


def test_every_panel_of_the_grafana_dashboard_has_data(prometheus: Prometheus) -> None:
    board = json.loads((ROOT / "deploy/grafana.json").read_text())
    # Of a day that has begun with the test there is no increase yet.
    empty = {"Findings", "Failures in a day"}
    for panel in board["panels"]:
        (target,) = panel["targets"]
        found = prometheus.value(target["expr"].replace("$schedule", ".*").replace("$case", ".*"))
        assert found or panel["title"] in empty, panel["title"]


@pytest.mark.parametrize(
    ("seen_minutes_ago", "done_hours_ago", "firing"),
    [
        (1, 35, set[str]()),
        (1, 37, {"PyrometerNightMissing"}),
        (31, 35, {"PyrometerSilent"}),
        (None, 35, {"PyrometerSilent"}),
    ],
)
def test_promtool_raises_each_alarm_at_its_hour(
    seen_minutes_ago: int | None, done_hours_ago: int, firing: set[str], tmp_path: Path
) -> None:
    now = 100 * 3600
    series = {
        'pyrometer_last_success_timestamp_seconds{schedule="nightly",part="a"}': now - 3600 * done_hours_ago
    }
    if seen_minutes_ago is not None:
        name = 'pyrometer_scheduler_seen_timestamp_seconds{machine="h200"}'
        series[name] = now - 60 * seen_minutes_ago
    labels = {
        "PyrometerNightMissing": {"schedule": "nightly", "part": "a"},
        "PyrometerSilent": {} if seen_minutes_ago is None else {"machine": "h200"},
    }
    test = {
        "interval": "1m",
        "input_series": [{"series": name, "values": f"{value}+0x6001"} for name, value in series.items()],
        "alert_rule_test": [
            {
                "eval_time": "100h",
                "alertname": name,
                "exp_alerts": [{"exp_labels": labels[name]}] if name in firing else [],
            }
            for name in labels
        ],
    }
    file = tmp_path / "test.yml"
    file.write_text(yaml.safe_dump({"rule_files": [str(RULES)], "tests": [test]}))
    done = subprocess.run([program("promtool"), "test", "rules", file], capture_output=True, text=True)
    assert done.returncode == 0, done.stdout + done.stderr


def evaluated(title: str, labels: str, value: float, series: dict[str, str], tmp_path: Path) -> str:
    """What promtool objects to that value of a panel of Grafana, 100 hours after 1970 began."""
    board = json.loads((ROOT / "deploy/grafana.json").read_text())
    (panel,) = (each for each in board["panels"] if each["title"] == title)
    expression = {
        "expr": panel["targets"][0]["expr"].replace("$schedule", ".*"),
        "eval_time": "100h",
        "exp_samples": [{"labels": labels, "value": value}],
    }
    given = [{"series": name, "values": values} for name, values in series.items()]
    test = {"interval": "1h", "input_series": given, "promql_expr_test": [expression]}
    file = tmp_path / "test.yml"
    file.write_text(yaml.safe_dump({"tests": [test]}))
    done = subprocess.run([program("promtool"), "test", "rules", file], capture_output=True, text=True)
    return done.stdout + done.stderr if done.returncode else ""


def test_old_failures_that_are_deleted_are_no_new_ones(tmp_path: Path) -> None:
    """The count falls then, which `increase` takes for a counter that began anew at what is left."""
    series = {'pyrometer_task_failures_total{schedule="nightly"}': "40+0x90 38+0x30"}
    assert not evaluated("Failures in a day", '{schedule="nightly"}', 0, series, tmp_path)


def test_the_age_of_a_night_is_not_that_of_another_job(tmp_path: Path) -> None:
    """The built-in schedule `prune` runs once a week, and an upgrade on a label once."""
    night = "pyrometer_case_night_timestamp_seconds"
    moments = {
        f'{night}{{schedule="nightly",part="a",case="c"}}': 70,
        f'{night}{{schedule="nightly",part="b",case="c"}}': 75,
        f'{night}{{schedule="upgrade:on",part="h200",case="c"}}': 2,
        'pyrometer_last_success_timestamp_seconds{schedule="prune",part=""}': 1,
        'pyrometer_last_success_timestamp_seconds{schedule="nightly",part="a"}': 71,
    }
    series = {name: f"{hour * 3600}+0x120" for name, hour in moments.items()}
    assert not evaluated("Age of the oldest part's last night", "{}", 30 * 3600, series, tmp_path)


def test_promtool_finds_nothing_wrong_with_rules_and_metrics(
    serve: Callable[..., Any], full_url: str
) -> None:
    promtool = program("promtool")
    rules = subprocess.run([promtool, "check", "rules", RULES], capture_output=True, text=True)
    assert rules.returncode == 0 and "2 rules found" in rules.stdout, rules.stdout + rules.stderr
    checked = subprocess.run([promtool, "check", "config", CONFIGURATION], capture_output=True, text=True)
    assert checked.returncode == 0, checked.stdout + checked.stderr
    text = serve(full_url, metrics_cases=100).get("/metrics")[2]
    metrics = subprocess.run([promtool, "check", "metrics"], input=text, capture_output=True)
    assert (metrics.returncode, metrics.stderr) == (0, b"")
