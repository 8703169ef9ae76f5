"""Journals of made-up runs: two environments, several cases, a canary, one case that crashes."""

import sys
from collections.abc import Iterable
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

from records.environments import Environment
from records.machines import Machine
from records.outcomes import Outcome, PlannedReplicate
from records.telemetry import Recording
from runner.journal import Journal
from support.builders.run_records import BERT, MLP, RESNET, a_machine, an_environment
from workflows.run_header import Header

ENVIRONMENTS = (an_environment("2.12.1+cpu"), an_environment("2.13.0+cpu"))
CANARY = {
    "name": "canary",
    "python": sys.executable,
    "fingerprint": "canary-1",
    "facts": {"python": "3.12.3"},
}
SONG = "canary_compute/infer/-/eager"


def machine_body(machine: Machine, **changes: Any) -> dict[str, Any]:
    """A machine as a header has it."""
    own = {"fingerprint": machine.fingerprint, "name": machine.name, "hardware": {}, "conditions": {}}
    own |= {"hardware_fingerprint": machine.hardware.fingerprint, "hardware_label": machine.hardware.label}
    return own | changes


def environment_body(environment: Environment, **facts: Any) -> dict[str, Any]:
    """An environment as a header has it."""
    own = {"torch": environment.torch_version, "python": environment.python_version}
    known = {"fingerprint": environment.fingerprint, "name": environment.name, "python": sys.executable}
    return known | {"facts": {**facts, **own}}


def a_header(run: str, planned: Iterable[PlannedReplicate] = (), **changes: Any) -> Header:
    """The header of a run on `builders.a_machine` in both environments."""
    values: dict[str, Any] = {
        "run": run,
        "suite": "smoke",
        "started_at": datetime.now(UTC).isoformat(),
        "command": "pyrometer run",
        "machine": machine_body(a_machine()),
        "environments": tuple(map(environment_body, ENVIRONMENTS)),
        "preset": {"fingerprint": "profile", "name": "quiet", "settings": {}},
        "harness": "harness-1f3a",
        "harness_path": "harness",
        "user_version": "",
        "timing": {},
        "device": "cpu",
        "budget_seconds": 60.0,
        "planned": tuple((each.case, each.environment, each.replicate) for each in planned),
        "canary": CANARY,
    }
    return Header(**(values | changes))


def a_plan(replicates: int = 2) -> tuple[PlannedReplicate, ...]:
    """Each of three cases in both environments."""
    return tuple(
        PlannedReplicate(case, environment.fingerprint, replicate)
        for replicate in range(replicates)
        for case in (MLP, RESNET, BERT)
        for environment in ENVIRONMENTS
    )


def an_outcome(planned: PlannedReplicate, started_at: datetime) -> Outcome:
    """A measured replicate; that of `BERT` crashed."""
    about: dict[str, Any] = {
        "case": planned.case,
        "environment": planned.environment,
        "replicate": planned.replicate,
        "started_at": started_at,
        "wall_seconds": 3.5,
    }
    if planned.case == BERT:
        return Outcome(**about, status="crashed", reason="RuntimeError: no such weather", log_tail="the end")
    latency = 2.0 + planned.replicate / 7
    nanoseconds = round(latency * 1e6)
    host = Recording("host", "a CPU", "none", (5, 9), (9, 12), {"cpu_busy": (97.25, None)})
    return Outcome(
        **about,
        status="ok",
        metrics={"latency": latency, "latency_min": latency - 0.25, "throughput": 8 / latency},
        blocks=((nanoseconds, nanoseconds + 7), (nanoseconds - 3,)),
        telemetry=() if planned.replicate else (host,),
    )


def write_journal(data_dir: Path, run: str, *, replicates: int = 2) -> Path:
    """The journal of a complete run in a data folder, not stored anywhere."""
    plan, now = a_plan(replicates), datetime.now(UTC)
    folder = data_dir / "runs" / run
    with Journal(folder) as journal:
        journal.header(a_header(run, plan).to_body())
        for number, planned in enumerate(plan):
            journal.outcome(an_outcome(planned, now + timedelta(seconds=number)))
        for boundary in range(2):
            song = {"case": SONG, "environment": CANARY["fingerprint"], "replicate": boundary, "status": "ok"}
            journal.canary(Outcome(**song, started_at=now, metrics={"latency": 1.5 + boundary}))
        journal.ended({"at": (now + timedelta(minutes=1)).isoformat(), "state": "complete"})
    return folder / "journal.jsonl"
