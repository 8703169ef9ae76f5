"""Nights of schedules up to this moment, as queue and store leave them, for pages that look at the clock."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from itertools import count
from typing import Any

from configuration.settings import load_settings
from db.connection.engine import Database
from db.findings import store as findings
from db.queue import commands as queue
from db.runs import series_queries
from records.evidence import Confirmation
from records.findings import Finding, NewFinding
from records.tasks import NewTask, SchedulerSeen
from scheduled_jobs.scheduler.planner import advertised_facts
from support.builders.run_records import (
    BERT,
    MLP,
    RESNET,
    a_machine,
    a_run,
    an_environment,
    an_outcome,
)
from support.builders.stored_run import store_run

CASES = (MLP, RESNET, BERT)
#: What each case takes, in milliseconds.
LATENCY_MS = {MLP: 2.0, RESNET: 48.0, BERT: 210.0}
HOSTILE = "<img src=x onerror=alert(1)> **b** [x](javascript:alert(1))"


@dataclass
class Mornings:
    """A schedule whose nights were due `ago` before now; a part is a track and the label it is asked by."""

    database: Database
    now: datetime = field(default_factory=lambda: datetime.now(UTC))
    schedule: str = "nightly"
    baseline: str = ""
    numbers: Iterator[int] = field(default_factory=count)

    def due(self, age: int, hours: float = 6.0) -> datetime:
        """When the night was due that is so many days old."""
        return self.now - timedelta(days=age, hours=hours)

    def trigger(self, due: datetime, *parts: tuple[str, str], kind: str = "timetable") -> None:
        """Plan a night; one without parts may be missed."""
        tasks = [
            NewTask(
                f"{track}@{label}" if label else track,
                "measure",
                {"track": track, "baseline": self.baseline, "suite": "smoke"},
                label,
            )
            for track, label in parts
        ]
        assert queue.plan_run(self.database, self.schedule, due, kind, tasks, due)

    def begin(self, due: datetime, machine: str, *labels: str) -> str:
        """Have a machine take up what waits longest; answers the token."""
        token = f"token-{next(self.numbers)}"
        about = {"owner": f"{machine}/boot/7/1", "labels": labels, "jobs": ["measure"]}
        assert queue.claim(self.database, token=token, now=due, **about) is not None
        return token

    def measure(
        self,
        due: datetime,
        machine: str = "bench-1",
        *labels: str,
        version: str = "2.14.0+cpu",
        factor: float = 1.0,
        not_ok: Mapping[str, str] | None = None,
        state: str = "done",
        error: str = "",
        hardware: str = "Xeon 6430, 2 cores",
    ) -> str:
        """Have a machine measure what waits longest; `not_ok` says how some cases ended. Answers the run."""
        token = self.begin(due, machine, *labels)
        run = f"run-{machine}-{version}-{due:%m%d-%H%M%S}"
        environment = an_environment(version)
        outcomes = [
            self._outcome(case, environment, replicate, factor, (not_ok or {}).get(case, "ok"), due)
            for case in CASES
            for replicate in range(2)
        ]
        made = a_run(
            run,
            environments=[environment],
            started_at=due,
            machine=a_machine(machine, hardware),
            planned=len(outcomes),
        )
        store_run(self.database, made, outcomes)
        assert queue.set_run(self.database, token, run)
        ended = due + timedelta(minutes=40)
        assert queue.finish(self.database, token, state, {}, error, ended)
        return run

    @staticmethod
    def _outcome(
        case: str, environment: Any, replicate: int, factor: float, status: str, due: datetime
    ) -> Any:
        latency = LATENCY_MS[case] * factor * (1 + 0.001 * replicate)
        metrics = {"latency": 1.2 * latency, "latency_floor": latency} if status == "ok" else {}
        about = {"status": status, "metrics": metrics, "started_at": due, "blocks": ()}
        return an_outcome(case, environment=environment, replicate=replicate, **about)

    def nights(self, ages: Sequence[int], machine: str = "bench-1", **options: Any) -> list[str]:
        """Whole nights of one track on any machine."""
        made: list[str] = []
        for age in ages:
            self.trigger(self.due(age), ("nightly", ""))
            made.append(self.measure(self.due(age), machine, **options))
        return made

    def scheduler(
        self, machine: str, *labels: str, seen: timedelta = timedelta(seconds=3), facts: Any = None
    ) -> SchedulerSeen:
        """A scheduler of a machine that was seen so long ago."""
        one = SchedulerSeen(
            f"{machine}/boot/7/1",
            machine,
            (machine, *labels),
            self.now - timedelta(days=7),
            self.now - seen,
            9,
            "0.1.0",
            {} if facts is None else facts,
        )
        queue.seen_all(self.database, [one])
        return one


def facts(folder: Any, at: datetime, toml: str = "", *, measures: bool = True) -> dict[str, Any]:
    """What a scheduler with these settings says of itself at a moment."""
    (folder / "pyrometer.toml").write_text(toml or TOML)
    return advertised_facts(load_settings(cwd=folder, environ={}), at, measures=measures)


TOML = """
timezone = "UTC"
[schedules.nightly]
cron = "30 2 * * *"
suite = "smoke"
environments = ["nightly", "2.13.0"]
baseline = "2.13.0"
machines = ["h200"]
[alerts]
silent_minutes = 20
overdue_hours = 5
"""


def a_finding(
    database: Database, mornings: Mornings, runs: list[str], case: str = MLP, direction: str = "worse"
) -> Finding:
    """A candidate between the last two of some runs."""
    (key,) = (
        k for k in series_queries.series_keys(database) if (k.case, k.metric) == (case, "latency_floor")
    )
    side = an_environment("2.14.0+cpu").fingerprint
    change = 0.1 if direction == "worse" else -0.2
    new = NewFinding(key, "nightly", "nightly", "", direction, "step", runs[-1], runs[-2], side, side, change)
    (found,) = findings.save_findings(database, [new], mornings.now - timedelta(hours=5))
    return found


def confirm(
    database: Database, mornings: Mornings, one: Finding, ago: timedelta = timedelta(hours=2)
) -> None:
    """Say of a candidate so long ago that it is so."""
    findings.decide(
        database, one.id, "confirmed", one.change, one.change, one.change, Confirmation(), mornings.now - ago
    )
