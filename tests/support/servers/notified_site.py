"""A machine that measures every night, and a team that is notified by a webhook."""

import threading
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from datetime import datetime, timedelta
from pathlib import Path
from typing import Any

from configuration.settings import Settings, load_settings
from db.connection.engine import Database, open_database
from db.findings import notices
from db.findings import store as findings
from db.queue import commands as queue
from db.runs.series_queries import series_keys
from db.runs.store import save_measurements, save_outcomes, save_run
from records.evidence import Confirmation
from records.findings import Finding, NewFinding, Notice
from records.tasks import NewTask, Task
from scheduled_jobs.jobs.context import ChildExit, JobContext, JobResult
from scheduled_jobs.jobs.digest import health_check, send_digest
from support.builders.notifications import DUE, MORNING, a_scheduler
from support.builders.run_records import (
    MLP,
    RESNET,
    a_machine,
    a_run,
    an_environment,
    an_outcome,
    measurements_for,
)
from support.servers.notification_servers import WebSink

DAY, MINUTE = timedelta(days=1), timedelta(minutes=1)
OLD, NEW = an_environment("2.13.0+cpu"), an_environment("2.14.0+cpu")


class NotifiedSite:
    """A database with a machine h200 that measures every night, and a team that is notified by a webhook."""

    def __init__(self, url: str, database: Database, folder: Path, web: WebSink, more: str = "") -> None:
        self.url, self.database, self.web = url, database, web
        (folder / "pyrometer.toml").write_text(
            f'[alerts]\ntargets = ["{web.url}"]\n{more}\n[schedules.nightly]\ncron = "30 2 * * *"\n'
        )
        self.settings: Settings = load_settings(cwd=folder, environ={})
        self.said: list[str] = []
        self.stop = threading.Event()

    def job_context(self, now: datetime) -> JobContext:
        def no_child(_: Sequence[str], on_event: Callable[[Mapping[str, Any]], None] = print) -> ChildExit:
            raise AssertionError(f"a notification job measures nothing, {on_event}")

        return JobContext(
            settings=self.settings,
            data_dir=Path("/nowhere"),
            machine="h200",
            open_database=lambda: open_database(self.url, timeout=30),
            now=lambda: now,
            stop=self.stop,
            child=no_child,
            set_run=lambda run: None,
            say=self.said.append,
            # These nights are not today's: a server's own clock is.
            shared_time=lambda _, now: now,
        )

    def due(
        self,
        due_at: datetime = DUE,
        kind: str = "timetable",
        tasks: bool = True,
        part: str = "nightly@h200",
    ) -> None:
        """The night is due on h200."""
        spec = {"track": "nightly"}
        new = [NewTask(part, "measure", spec, "h200")] if tasks else []
        assert queue.plan_run(self.database, "nightly", due_at, kind, new, due_at)

    def measured(
        self,
        due_at: datetime = DUE,
        run: str = "run-2",
        *,
        driver: str = "575.57",
        state: str = "done",
        part: str = "nightly@h200",
        **statuses: str,
    ) -> None:
        """It was, in a run in which each case ended as said (`a` for MLP, `b` for RESNET; default: ok)."""
        self.due(due_at, part=part)
        outcomes = [
            an_outcome(case, environment=NEW, status=statuses.get(name, "ok"), started_at=due_at)
            for name, case in (("a", MLP), ("b", RESNET))
        ]
        machine = a_machine("h200")
        about = a_run(run, environments=[NEW], machine=machine, started_at=due_at, planned=2)
        save_run(self.database, replace(about, facts={"conditions": {"driver": driver}}))
        save_outcomes(self.database, run, outcomes)
        save_measurements(self.database, run, measurements_for([each for each in outcomes if each.metrics]))
        self.ended(state, due_at + 40 * MINUTE, run=run)

    def ended(self, state: str, now: datetime, error: str = "", run: str = "") -> None:
        """The task that waits longest is taken up by h200 and ends."""
        owner, jobs = "h200/boot/7/1", ["measure"]
        assert queue.claim(self.database, owner=owner, labels=["h200"], jobs=jobs, token=str(now), now=now)
        if run:
            assert queue.set_run(self.database, str(now), run)
        assert queue.finish(self.database, str(now), state, {}, error, now)

    def seen(self, machine: str, at: datetime) -> None:
        queue.seen_all(self.database, [a_scheduler(machine, at)])

    def found(self, case: str = RESNET, **changes: Any) -> Finding:
        """A candidate of the newest two nights."""
        keys = [key for key in series_keys(self.database) if (key.case, key.metric) == (case, "latency")]
        values: dict[str, Any] = {"at_run": "run-2", "before_run": "run-1", "direction": "worse", **changes}
        values |= {"old_environment": NEW.fingerprint, "new_environment": NEW.fingerprint}
        new = NewFinding(keys[0], "nightly", "nightly", "h200", shape="step", change=0.1, **values)
        return findings.save_findings(self.database, [new], DUE)[0]

    def confirmed(self, one: Finding, at: datetime = DUE) -> None:
        findings.decide(self.database, one.id, "confirmed", 0.1, 0.08, 0.12, Confirmation(), at)

    def run_digest(self, now: datetime = MORNING, due_at: datetime | None = None) -> JobResult:
        """Run the digest job that is due at eight that day, or at `due_at`."""
        due_at = due_at or now.replace(hour=8, minute=0)
        return send_digest(replace(a_job("digest"), due_at=due_at), self.job_context(now))

    def checked(self, now: datetime = MORNING) -> JobResult:
        return health_check(a_job("check"), self.job_context(now))

    def subjects(self) -> list[str]:
        """What the team read, in the order in which it came."""
        return [post["title"] for post in self.web.posts]

    def digest(self, night: str = "2026-11-22") -> Notice:
        found = notices.notice(self.database, "digest", night)
        assert found is not None
        return found


def a_job(job: str) -> Task:
    return Task(1, job, MORNING, "", job, {}, "", "running", 1)
