"""Real measuring for tests: files of cases, sessions, and what became of each case."""

import contextlib
import os
import time
import uuid
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

import psutil
import pytest

from records.outcomes import Outcome, PlannedReplicate
from runner.execution import harness
from runner.execution.fork_server import ForkServers
from runner.execution.process import sweep
from runner.execution.session import Conditions, OutcomeMeasured, PhaseEntered, RunningSession, SessionEnded
from runner.preset import MachinePreset
from runner.session_plan import SessionPlan, TargetEnvironment, Timing
from runner.telemetry.telemetry_interface import StartTelemetry
from support.processes import alive
from support.site import INDUCTOR, PATIENCE_SECONDS, carriers, measured_python

CASE_FILES = Path(__file__).resolve().parents[1] / "runner/case_files"
ENVIRONMENT = "default"
AS_IT_COMES = MachinePreset("as-it-comes", INDUCTOR)

#: As short as it can be while everything still happens.
QUICK = Timing(
    measure_seconds=0.03,
    block_seconds=0.01,
    min_blocks=3,
    max_seconds=1.0,
    warm_up_min_seconds=0.0,
    warm_up_max_seconds=0.3,
    deadline_seconds=PATIENCE_SECONDS,
)


@dataclass(frozen=True)
class Happened:
    """The events of some sessions, in order."""

    run: str
    outcomes: tuple[Outcome, ...]
    ended: tuple[SessionEnded, ...]
    entered: tuple[PhaseEntered, ...]

    def of(self, name: str) -> Outcome:
        """The only outcome of the case named `name`."""
        (outcome,) = [o for o in self.outcomes if o.case.split("/")[0] == name]
        return outcome


def conditions(
    folder: Path,
    *case_files: Path,
    timing: Timing = QUICK,
    preset: MachinePreset | None = None,
    state: Path | None = None,
    telemetry: StartTelemetry | None = None,
    gpus: tuple[str, ...] = (),
) -> Conditions:
    """What sessions of a new run share; logs and caches go to `state`, by default inside `folder`.

    Nothing samples the machine unless `telemetry` does.
    """
    built = harness.build(folder / "harness", case_files)
    target = TargetEnvironment(ENVIRONMENT, str(measured_python()), "not asked")
    return Conditions(
        run=f"test-{uuid.uuid4().hex[:12]}",
        folder=state or folder / "run",
        harness=built,
        preset=preset or AS_IT_COMES,
        timing=timing,
        targets={ENVIRONMENT: target},
        device="cpu",
        gpus=gpus,
        telemetry=telemetry,
    )


@contextlib.contextmanager
def forked(shared: Conditions, *first: str) -> Iterator[Conditions]:
    """These conditions with workers that are forked where they may be: all of them import torch once.

    With a case that is measured `first`, what they are forked from stands before the block begins.
    """
    forks = ForkServers(shared.folder / "logs", f"forks-{shared.run}")
    try:
        forking = replace(shared, forks=forks)
        if first:
            measure(forking, [first])
        yield forking
    finally:
        forks.close()


def key(case: str) -> str:
    """The whole key of a case given by name, or the key itself."""
    return case if "/" in case else f"{case}/infer/-/eager"


def start(shared: Conditions, *cases: str, replicate: int = 0) -> RunningSession:
    """Start a session of these cases."""
    contenders = tuple(PlannedReplicate(key(case), ENVIRONMENT, replicate) for case in cases)
    plan = SessionPlan(f"{contenders[0].case}#0", contenders)
    return RunningSession(plan, shared, f"{shared.run}:{plan.id}:{uuid.uuid4().hex[:8]}")


def measure(shared: Conditions, sessions: Sequence[Sequence[str]], *, again: bool = False) -> Happened:
    """Measure sessions one after the other, to the end of all.

    `again`: each holds the next replicates of the same cases, and not the first ones of others.
    """
    each: list[Happened] = []
    try:
        for number, cases in enumerate(sessions):
            with start(shared, *cases, replicate=number if again else 0) as session:
                each.append(follow(session, shared))
    finally:
        sweep(shared.run)
    return Happened(
        shared.run,
        tuple(outcome for one in each for outcome in one.outcomes),
        tuple(ended for one in each for ended in one.ended),
        tuple(entered for one in each for entered in one.entered),
    )


def follow(
    session: RunningSession,
    shared: Conditions,
    meanwhile: Callable[[PhaseEntered | OutcomeMeasured], None] = lambda event: None,
) -> Happened:
    """The events of a session until it has ended; `meanwhile` is called with each as it comes."""
    outcomes: list[Outcome] = []
    ended: list[SessionEnded] = []
    entered: list[PhaseEntered] = []
    quiet_since = time.monotonic()
    while not ended:
        assert time.monotonic() - quiet_since < PATIENCE_SECONDS * 2, "the session is silent"
        for event in session.events(timeout=1.0):
            quiet_since = time.monotonic()
            if isinstance(event, SessionEnded):
                ended.append(event)
                continue
            if isinstance(event, OutcomeMeasured):
                outcomes.append(event.outcome)
            else:
                entered.append(event)
            meanwhile(event)
    return Happened(shared.run, tuple(outcomes), tuple(ended), tuple(entered))


def below() -> set[int]:
    """The living processes below this one."""
    return {child.pid for child in psutil.Process().children(recursive=True) if alive(child.pid)}


class Scratch:
    """A folder that cases find in CASES_SCRATCH, and the processes below us before anything ran."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self._before = below()

    def assert_no_process_left(self, run: str) -> None:
        """Assert that no process carries the run's token and none is new below us."""
        assert carriers(run) == []
        self.assert_no_child_process()

    def assert_no_child_process(self) -> None:
        """Assert that no process below us is new."""
        left = {pid: " ".join(psutil.Process(pid).cmdline()) for pid in below() - self._before}
        assert left == {}

    def pids(self, name: str = "") -> list[int]:
        """The process ids that cases wrote down under names beginning with `name`."""
        return [int(file.read_text()) for file in self.folder.glob(f"{name}*.pid")]


def one_scratch(folder: Path) -> Iterator[Scratch]:
    """For fixtures: sets CASES_SCRATCH for as long as the fixture lives."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("CASES_SCRATCH", str(folder))
        yield Scratch(folder)


def fill(folder: Path) -> Path:
    """A file that takes all the room there is in the folder's file system."""
    path = folder / "filling"
    with path.open("wb", buffering=0) as file, contextlib.suppress(OSError):
        while True:
            file.write(bytes(1 << 16))
    assert os.statvfs(folder).f_bfree == 0
    return path
