"""Nights of a schedule as queue and store hold them, a context for a job, made-up sessions."""

import json
import threading
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from datetime import UTC, datetime, timedelta
from itertools import pairwise
from pathlib import Path
from typing import Any

from analysis.comparison.plan import Plan
from analysis.comparison.policy import Policy
from analysis.decision.comparison import Comparison
from analysis.dispatch_difference import (
    CaseDifference,
    DispatchChange,
    DispatchDifference,
    DispatchWarning,
)
from configuration.settings import load_settings
from db.connection.engine import Database, open_database
from db.findings import store as findings
from db.queue import commands as queue
from db.queue import queries as queue_queries
from db.runs import series_queries, store
from records.dispatch import DispatchPart
from records.environments import Environment
from records.evidence import evidence_of
from records.findings import Finding, NewFinding
from records.machines import Machine
from records.outcomes import Measurement, Outcome, PlannedReplicate
from records.tasks import NewTask, Task
from runner.journal import Journal
from runner.session_plan import Timing
from scheduled_jobs.jobs.context import ChildExit, JobContext, JobResult
from support.builders.journals import a_header, environment_body, machine_body
from support.builders.run_records import (
    MLP,
    RESNET,
    RESNET_COMPILED,
    a_machine,
    a_night,
    a_preset,
    a_run,
    an_environment,
)
from workflows.run_header import Header
from workflows.session_queue import pairs_planned

CASES = (MLP, RESNET, RESNET_COMPILED)
METRIC = "latency_floor"
#: Differences between nights of about half a per cent, always the same ones.
NOISE = (0.0, 0.006, -0.004, 0.003, -0.006, 0.001, 0.005, -0.002, -0.005, 0.004, 0.002, -0.001)
TOML = """
[schedules.nightly]
cron = "30 2 * * *"
suite = "smoke"
environments = ["nightly", "2.13.0"]
baseline = "2.13.0"
watch = ["latency_floor"]

[schedules.alone]
cron = "0 4 * * *"
environments = ["nightly"]
watch = ["latency_floor"]
"""


def nightly(night: int) -> Environment:
    """The PyTorch of a night."""
    made = an_environment(f"2.16.0.dev{a_night(night):%Y%m%d}+cpu", name=f"nightly-{a_night(night):%Y-%m-%d}")
    return replace(made, facts={"torch_git": f"{night:040d}", "packages": [f"triton==3.{night}.0"]})


PINNED = an_environment("2.13.0+cpu", name="2.13.0")


@dataclass
class Nights:
    """Nights of one track: a scheduled run, a task that is done, a run with a measurement of each case."""

    database: Database
    schedule: str = "alone"
    track: str = "nightly"
    label: str = ""
    machine: Machine = field(default_factory=a_machine)
    environment: Callable[[int], Environment] = nightly
    cases: Sequence[str] = CASES

    def add(self, nights: range, factors: Mapping[str, float] | None = None, driver: str = "") -> list[str]:
        """Measure some nights; `factors` say how much longer a case takes. Answers the runs."""
        return [self._night(night, factors or {}, driver) for night in nights]

    def _night(self, night: int, factors: Mapping[str, float], driver: str) -> str:
        environment, started = self.environment(night), a_night(night)
        run = a_run(
            f"{self.schedule}-{self.track}-{self.machine.name}-{night:03d}",
            environments=[environment],
            started_at=started,
            machine=self.machine,
            planned=len(self.cases),
        )
        run = replace(run, facts={"conditions": {"driver": driver, "kernel": "6.8.0"}, "device": "cpu"})
        store.save_run(self.database, run)
        measured = [
            self._measurement(
                case, environment, 10.0 * factors.get(case, 1.0) * (1 + NOISE[(night + 5 * n) % 12])
            )
            for n, case in enumerate(self.cases)
        ]
        store.save_measurements(self.database, run.id, measured)
        due = started + timedelta(
            seconds=1 if self.track == "nightly" else 2, microseconds=len(self.machine.name)
        )
        part = f"{self.track}@{self.label}" if self.label else self.track
        task = NewTask(part, "measure", {"track": self.track}, self.label)
        assert queue.plan_run(self.database, self.schedule, due, "timetable", [task], due)
        finish(self.database, claimed(self.database, due, self.label), JobResult(), due, run.id)
        return run.id

    @staticmethod
    def _measurement(case: str, environment: Environment, value: float) -> Measurement:
        return Measurement(
            case, environment.fingerprint, METRIC, value, value, value, value, value, spread=0.002, n=3
        )


def claimed(database: Database, now: datetime, label: str = "") -> Task:
    """The task that is due longest, taken up."""
    jobs = ("measure", "detect", "confirm", "upgrade", "discover")
    token = f"token-{now.isoformat()}"
    task = queue.claim(database, owner="o", labels=[label], jobs=jobs, token=token, now=now)
    assert task is not None
    return task


def finish(database: Database, task: Task, done: JobResult, now: datetime, run: str | None = None) -> None:
    """End a task as the service does: what follows is planted first."""
    for number, after in enumerate(done.follow_ups):
        due = after.due_at or now + timedelta(microseconds=number + 1)
        queue.plan_run(database, after.schedule, due, "follow-up", after.tasks, now)
    assert task.token is not None
    if run is not None:
        assert queue.set_run(database, task.token, run)
    assert queue.finish(database, task.token, done.state, done.result, done.error, now)


def a_task(database: Database, job: str, spec: Mapping[str, Any], now: datetime) -> Task:
    """A task of a job that has been taken up."""
    assert queue.plan_run(database, job, now, "by hand", [NewTask("", job, spec)], now)
    return claimed(database, now)


def waiting(database: Database, job: str) -> list[Task]:
    """The unclaimed tasks of a job."""
    return queue_queries.tasks(database, job=job, state="waiting")


@dataclass
class Child:
    """Stands for the commands of a job: writes the journal of an upgrade, with `ratios` new to old.

    `commands` are those that were asked for; `refuses` ends any upgrade with that sentence.
    """

    data_dir: Path
    environments: Sequence[Environment]
    ratios: Mapping[str, float] = field(default_factory=dict[str, float])
    machine: Machine = field(default_factory=a_machine)
    refuses: str = ""
    commands: list[list[str]] = field(default_factory=list[list[str]])

    def __call__(
        self, arguments: Sequence[str], on_event: Any = None, run: str = "", nodes: int = 1
    ) -> ChildExit:
        self.commands.append(list(arguments))
        if arguments[0] != "upgrade":
            return ChildExit(2, None, "nothing else is done here")
        if self.refuses:
            return ChildExit(2, None, self.refuses)
        run = arguments[list(arguments).index("--run-id") + 1]
        cases = [value for name, value in pairwise(arguments) if name == "--case"]
        self._journal(run, cases or [MLP], (arguments[1], arguments[2]))
        return ChildExit(0, None, "")

    def _journal(self, run: str, cases: Sequence[str], specs: tuple[str, str]) -> None:
        old, new = self.environments
        comparison = Comparison(old.fingerprint, new.fingerprint, Plan(), Policy(), specs)
        planned = pairs_planned(comparison, cases)
        header = a_session(run, comparison, planned, self.environments, self.machine)
        with Journal(self.data_dir / "runs" / run) as journal:
            journal.header(header.to_body())
            for one in planned:
                spare = one.replicate >= comparison.plan.largest
                started = datetime(2026, 9, 20, tzinfo=UTC) + timedelta(minutes=one.replicate)
                # In turns: each side is started first in half of the pairs.
                first = (one.environment == old.fingerprint) == (one.replicate % 2 == 0)
                ratio = self.ratios.get(one.case, 1.0) if one.environment == new.fingerprint else 1.0
                noise = 1 + NOISE[(one.replicate * 3 + (ratio != 1.0)) % 12] / 10
                journal.outcome(
                    Outcome(
                        case=one.case,
                        environment=one.environment,
                        replicate=one.replicate,
                        status="skipped" if spare else "ok",
                        reason="not needed" if spare else "",
                        started_at=started + timedelta(seconds=0 if first else 1),
                        wall_seconds=30.0,
                        metrics={} if spare else {METRIC: 10.0 * ratio * noise},
                    )
                )
            journal.ended({"at": datetime(2026, 9, 20, 1, tzinfo=UTC).isoformat(), "state": "complete"})


def a_session(
    run: str,
    comparison: Comparison,
    planned: Sequence[PlannedReplicate],
    sides: Sequence[Environment],
    machine: Machine,
) -> Header:
    """The header of a run that compares two environments."""
    preset = a_preset()
    about = {"fingerprint": preset.fingerprint, "name": preset.name, "settings": dict(preset.settings)}
    unlike = DispatchDifference((), {"mkl": "not built in"})
    return a_header(
        run,
        planned,
        suite="chosen",
        started_at=datetime(2026, 9, 20, tzinfo=UTC).isoformat(),
        command="pyrometer upgrade",
        machine=machine_body(machine, hardware=dict(machine.hardware.facts)),
        environments=tuple(environment_body(each, **each.facts) for each in sides),
        preset=about,
        timing=asdict(Timing()),
        comparison=comparison.to_body(),
        canary=None,
        dispatch=tuple(CaseDifference(case, unlike).to_body() for case in (MLP, RESNET_COMPILED)),
    )


def job_context(folder: Path, now: datetime, child: Any = None, toml: str = TOML) -> JobContext:
    """What a job works with, in a folder that holds the fixture `sqlite` as well."""
    url = f"sqlite:///{folder}/database/pyrometer.db"
    (folder / "pyrometer.toml").write_text(toml)
    settings = load_settings(cwd=folder, environ={})
    runs: list[str] = []
    return JobContext(
        settings=settings,
        data_dir=folder / "data",
        machine=a_machine().name,
        open_database=lambda: open_database(url),
        now=lambda: now,
        stop=threading.Event(),
        child=child,
        set_run=runs.append,
        say=lambda sentence: None,
    )


def build(data_dir: Path, environment: Environment, digest: str) -> Path:
    """An environment as it lies there once it was built; nothing in it can be started."""
    folder = data_dir / "environments" / f"{environment.name}-{digest}"
    (folder / "bin").mkdir(parents=True)
    (folder / "bin" / "python").touch()
    (folder / "recipe.json").write_text("{}")
    facts = {"fingerprint": environment.fingerprint, "torch": environment.torch_version}
    body = {
        "label": environment.name,
        "recipe": {},
        "facts": facts,
        "size_mib": 1,
        "seconds": 1.0,
        "built_at": 1.0,
    }
    (folder / "built.json").write_text(json.dumps(body))
    return folder


#: A text that means something to a browser, a terminal and a spreadsheet.
HOSTILE = "<script>alert(1)</script> [bold]=1+1\x1b[31m"


def a_finding(database: Database, case: str = MLP, *, night: int = 2, direction: str = "worse") -> Finding:
    """A candidate between two nights that `Nights` has measured, with all that a session may say of it."""
    (key,) = (k for k in series_queries.series_keys(database) if (k.case, k.metric) == (case, METRIC))
    new = NewFinding(
        key=key,
        schedule="alone",
        track="nightly",
        label="",
        direction=direction,
        shape="step",
        at_run=f"alone-nightly-bench-1-{night:03d}",
        before_run=f"alone-nightly-bench-1-{night - 1:03d}",
        old_environment=nightly(night - 1).fingerprint,
        new_environment=nightly(night).fingerprint,
        change=0.1 if direction == "worse" else -0.1,
        evidence=evidence_of(
            {
                "detected": {"nights": 20, "noise": 0.006, "before": 10.0, "after": 11.0},
                "changes": [{"kind": "environment", "name": "triton", "before": "3.1", "after": HOSTILE}],
            }
        ),
        group_key="group",
    )
    (found,) = findings.save_findings(database, [new], a_night(night))
    return found


def _differs(case: str) -> dict[str, Any]:
    """What runs differently: a reference kernel in place of another one whose name is hostile."""
    change = DispatchChange(
        DispatchPart.ONEDNN,
        f"matmul by {HOSTILE}",
        "matmul by ref:any",
        3,
        3,
        DispatchWarning.REFERENCE_KERNEL,
    )
    return CaseDifference(case, DispatchDifference((change,), {})).to_body()


def a_regression(database: Database, case: str = MLP) -> Finding:
    """A confirmed finding with every kind of evidence."""
    found = a_finding(database, case)
    other = {"finding": 99, "case": "matmul/infer/k=8,m=8,n=8/eager", "metric": METRIC, "direction": "worse"}
    row = {
        "name": f"aten::mm {HOSTILE}",
        "kind": "operator",
        "self_us_a": 10.0,
        "self_us_b": 14.0,
        "delta_us": 4.0,
    }
    verdict = {
        "metric": METRIC,
        "unit": "ms",
        "word": "slower",
        "reason": "",
        "pairs": 8,
        "old": 10.0,
        "new": 11.0,
        "change": 0.095,
        "low": 0.09,
        "high": 0.1,
        "confidence": 0.99,
        "smallest": 0.011,
    }
    evidence = evidence_of(
        {
            "reason": "the session shows the change too",
            "run": found.at_run,
            "verdict": verdict,
            "compared": [
                {"name": "old", "torch": found.old_torch_version},
                {"name": HOSTILE, "torch": "2.16"},
            ],
            "neighbours": [
                {"case": RESNET, "word": "same", "change": 0.001, "low": -0.004, "high": 0.005, "pairs": 8}
            ],
            "moved_with": [{**other, "change": 0.2, "state": "candidate"}],
            "operators": {"old_run": "traced-1", "new_run": "traced-2", "rows": [row]},
            "dispatch": _differs(case),
            "bisect": "pyrometer bisect 'nightly 2026-09-01' 'nightly 2026-09-04' --case KEY",
            "reproduce": "pyrometer upgrade old new --case KEY",
        }
    )
    decided = findings.decide(
        database, found.id, "confirmed", 0.095, 0.09, 0.1, evidence.confirmation, a_night(3).replace(hour=9)
    )
    assert decided is not None
    return decided
