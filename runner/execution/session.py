"""A session: contenders of one workload run at the same time, their blocks interleaved.

`RunningSession` measures one in a thread of its own, so that its run can follow and cancel it.
"""

import contextlib
import itertools
import os
import queue
import shutil
import threading
import traceback
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Literal

from common.text import plural
from records.outcomes import Outcome, OutcomeStatus, PlannedReplicate

from ..nodes import Node
from ..preset import MachinePreset
from ..session_plan import SessionPlan, TargetEnvironment, Timing
from ..telemetry.interference import percent
from ..telemetry.telemetry_interface import FilteredTelemetry, StartTelemetry, Telemetry
from ..worker.case_key import CaseKey
from . import tracing
from .blocks import precise
from .compile_cache import (
    cache_folder,
    caches_of,
    cuda_caches,
    emptied_cache,
    file_name,
    inductor_cache,
)
from .contender import Contender, ContenderFinished, OnPhase
from .fork_server import ForkServers, may_fork
from .harness import Harness
from .launch import SPIN_SECONDS, CannotLaunch, allowed_cpus, read_topology, start_of, usable_numactl
from .process import Launch, sweep

#: The fact of an outcome that it was measured after the others of its session had ended, and why.
MEASURED_ALONE = "measured_alone"

#: A contender does not start beside others where less of its GPU's memory is free: near full, cuDNN, cuBLAS
#: and Inductor's autotuning take slower kernels without a word.
_FREE_SHARE = 0.15

#: Attempts for contenders lost by the infrastructure; a failure of the case itself is a result.
MAX_LOST = 3
#: Seconds to wait for a node after its first and second loss: it may restart, or first have to notice that
#: its connection is dead.
_RECOVERY_SECONDS = (5.0, 20.0)


@dataclass(frozen=True, slots=True)
class Conditions:
    """What all sessions of one run share. `folder` is the run's: it holds logs and compile caches.

    `gpus` are the UUIDs of the devices in use, in PyTorch's order; `one_process` says why a GPU takes no
    more than one process, and is empty where it does; `gpu_node` is the NUMA node of the first GPU, None
    where it is not known. `telemetry` starts the sampler of a session, None for no telemetry. `nodes` are
    those of a run over several nodes, this machine first. With `forks` workers are forked where that can be.
    """

    run: str
    folder: Path
    harness: Harness
    preset: MachinePreset
    timing: Timing
    targets: Mapping[str, TargetEnvironment]
    device: str
    gpus: tuple[str, ...] = ()
    one_process: str = ""
    gpu_node: int | None = None
    telemetry: StartTelemetry | None = None
    nodes: tuple[Node, ...] = ()
    forks: ForkServers | None = None


class DeviceLost(Exception):
    """The GPU failed, and says nothing about the case that it failed under."""


class Session:
    """Runs one plan. `cancel()` may be called from another thread; outcomes so far are kept."""

    def __init__(
        self,
        plan: SessionPlan,
        conditions: Conditions,
        token: str,
        on_phase: OnPhase,
        on_outcome: Callable[[Outcome], None],
    ) -> None:
        self._plan = plan
        self._conditions = conditions
        self._token = token
        self._on_phase = on_phase
        self._on_outcome = on_outcome
        self._cancelled = threading.Event()
        self._alive: list[Contender] = []
        self._waiting: list[PlannedReplicate] = []
        self._alone: dict[PlannedReplicate, str] = {}
        self._free: dict[PlannedReplicate, float] = {}
        self._losses: dict[PlannedReplicate, list[str]] = {}
        self._telemetry: Telemetry | None = None

    def run(self) -> bool:
        """Measure all contenders; returns False if cancelled.

        Every contender gets exactly one outcome, reported as soon as it is known; after a cancellation those
        that had not ended get none. A contender that runs out of memory while others run is measured once
        more alone; one for which too little of its GPU's memory is free, or whose GPU takes one process, is
        measured only alone. Its outcome says so. A case that loses a node is measured again as a whole, until
        it was lost MAX_LOST times. Raises DeviceLost where the GPU failed, and no case.
        """
        rows_folder = self._conditions.folder / "telemetry" / "rows"
        try:
            self._telemetry = self._start_telemetry(rows_folder)
            first = self._plan.contenders
            if self._conditions.one_process and len(first) > 1:
                self._alone |= dict.fromkeys(first, self._conditions.one_process)
                self._waiting += first
                first = ()
            self._measure(first)
            while self._waiting and not self._cancelled.is_set():
                planned = self._waiting.pop(0)
                if losses := self._losses.get(planned):
                    self._cancelled.wait(_RECOVERY_SECONDS[len(losses) - 1])
                self._measure((planned,))
        finally:
            for contender in self._alive:
                contender.abandon()
            if self._telemetry is not None:
                self._telemetry.close()
                shutil.rmtree(rows_folder.parent, ignore_errors=True)
        return not self._cancelled.is_set()

    def end_strays(self) -> None:
        """Kill what forked contenders have left behind; all of them have ended."""
        if self._conditions.forks is not None:
            self._conditions.forks.end_strays()

    def cancel(self) -> None:
        """Kill all contenders and stop."""
        self._cancelled.set()
        for contender in list(self._alive):
            contender.kill()

    def _start_telemetry(self, rows_folder: Path) -> Telemetry | None:
        """Start this session's sampler, which writes to `rows_folder`; a traced session has none."""
        conditions = self._conditions
        if conditions.telemetry is None or conditions.timing.trace_steps:
            return None
        keys = [CaseKey.parse(planned.case) for planned in self._plan.contenders]
        # Only the devices in use: other devices do not concern this session.
        devices = max((self._gpus(key) for key in keys), key=len)
        cpus = conditions.preset.cpus
        if cpus and any(key.axis("cpus") != "preset" for key in keys):
            # By number: without CPUs the sampler counts those it may use, which are the housekeeping CPUs.
            cpus = allowed_cpus(conditions.preset)
        with contextlib.suppress(OSError):
            rows_folder.mkdir(parents=True, exist_ok=True)
        return conditions.telemetry(rows_folder, devices, cpus, conditions.preset.housekeeping, self._token)

    def _gpus(self, key: CaseKey) -> tuple[str, ...]:
        """The GPUs of this machine that a case computes on: one for each of its ranks here."""
        return self._conditions.gpus[: key.count("ranks") // key.count("nodes")]

    def _measure(self, contenders: Iterable[PlannedReplicate]) -> None:
        """Run contenders together, from their starts to their outcomes."""
        self._prepare(contenders)
        self._interleave()
        for contender in list(self._alive):
            self._run_action(contender, contender.finish)
            if contender in self._alive and contender.outcome is not None:
                self._alive.remove(contender)
                self._report_outcome(contender)

    def _prepare(self, contenders: Iterable[PlannedReplicate]) -> None:
        for planned in contenders:
            if self._cancelled.is_set():
                return
            if full := self._too_little_memory(planned):
                self._alone[planned] = full
                self._waiting.append(planned)
                continue
            try:
                contender = self._start(planned)
            except CannotLaunch as error:
                about = (planned.case, planned.environment, planned.replicate)
                unsupported = (OutcomeStatus.UNSUPPORTED, str(error), "start", datetime.now(UTC))
                self._on_outcome(Outcome(*about, *unsupported))
                continue
            self._alive.append(contender)
            self._run_action(contender, contender.prepare)

    def _too_little_memory(self, planned: PlannedReplicate) -> str:
        """Why a contender does not start beside the others; empty where it does."""
        if self._telemetry is None or not self._conditions.gpus or not self._alive:
            return ""
        own = FilteredTelemetry(self._telemetry, self._gpus(CaseKey.parse(planned.case)))
        shares = [
            gpu.memory_free for gpu in own.read_counters(os.getpid()).gpus if gpu.memory_free is not None
        ]
        if shares:
            self._free[planned] = min(shares)
        if min(shares, default=1.0) >= _FREE_SHARE:
            return ""
        count = plural(len(self._alive), "other")
        return f"beside {count} of its session only {percent(min(shares))} of its GPU's memory was free"

    def _interleave(self) -> None:
        # A B, B A, B A, A B and so on: neither drift nor the order within a round favours a contender.
        for round_ in itertools.count():
            two_environments = len({contender.planned.environment for contender in self._alive}) == 2
            error = self._conditions.timing.pair_error if two_environments else 0.0
            contenders = needs_more_blocks(self._alive, error)
            if not contenders or self._cancelled.is_set():
                return
            if round_ % 4 in (1, 2):
                contenders.reverse()
            for contender in contenders:
                self._run_action(contender, contender.measure)
                if len(self._alive) > 1 and CaseKey.parse(contender.planned.case).axis("omp") == "spin":
                    # Its idle threads must not run into the next contender's block.
                    self._cancelled.wait(SPIN_SECONDS)

    def _run_action(self, contender: Contender, action: Callable[[], None]) -> None:
        if self._cancelled.is_set():
            return
        try:
            action()
        except ContenderFinished:
            self._alive.remove(contender)
            # Killed by a cancellation: that says nothing about the case.
            if not self._cancelled.is_set():
                self._report_outcome(contender)

    def _report_outcome(self, contender: Contender) -> None:
        outcome = contender.outcome
        if outcome is None:
            return
        others = sum(1 for other in self._alive if other is not contender)
        if outcome.status == OutcomeStatus.OOM and others:
            # The case may fit alone: this says nothing about it.
            count = plural(others, "other")
            self._alone[outcome.planned_replicate] = (
                f"out of memory beside {count} of its session ({outcome.reason})"
            )
            self._waiting.append(outcome.planned_replicate)
            return
        if contender.lost_device:
            raise DeviceLost(outcome.reason)
        if contender.lost_node and self._will_retry(outcome):
            return
        self._on_outcome(self._with_history(outcome))

    def _will_retry(self, outcome: Outcome) -> bool:
        """Whether a contender that lost a node is measured again after the others have ended."""
        losses = self._losses.setdefault(outcome.planned_replicate, [])
        losses.append(outcome.reason)
        if len(losses) == MAX_LOST:
            return False
        self._waiting.append(outcome.planned_replicate)
        return True

    def _with_history(self, outcome: Outcome) -> Outcome:
        """An outcome with what is known of its contender from before it started among its facts.

        These are the share of its GPU's memory that others had left, why it was measured alone, and earlier
        losses.
        """
        facts = dict(outcome.facts)
        if outcome.planned_replicate in self._free:
            facts["gpu_memory_free"] = self._free[outcome.planned_replicate]
        if shared := self._alone.get(outcome.planned_replicate):
            facts[MEASURED_ALONE] = shared
        losses = self._losses.get(outcome.planned_replicate, [])
        if losses:
            facts["lost_before"] = list(losses)
        lost = outcome.status == OutcomeStatus.LOST and len(losses) == MAX_LOST
        reason = f"lost {MAX_LOST} times, at last: {outcome.reason}" if lost else outcome.reason
        return replace(outcome, reason=reason, facts=facts)

    def _start(self, planned: PlannedReplicate) -> Contender:
        conditions = self._conditions
        key = CaseKey.parse(planned.case)
        target = conditions.targets[planned.environment]
        preset = conditions.preset
        if conditions.one_process and key.count("instances") > 1:
            raise CannotLaunch(f"instances need several processes on one GPU, and {conditions.one_process}")
        topology = read_topology(allowed_cpus(preset))
        start = start_of(key, preset, topology, usable_numactl, conditions.gpu_node)
        caches = caches_of(conditions.folder) / planned.environment
        cache = cache_folder(caches, key)
        variables = dict(start.variables)
        fork = conditions.forks.fork if conditions.forks and may_fork(key, conditions.device) else None
        if cache:
            variables |= inductor_cache(cache)
        elif conditions.harness.user_version and fork is None:
            variables |= emptied_cache(caches, key)
        if conditions.device.startswith("cuda"):
            variables |= cuda_caches(cache or caches / "eager")
        if conditions.timing.trace_steps:
            variables |= tracing.VARIABLES
        slug = file_name(planned.case)
        timing = conditions.timing
        launch = Launch(
            python=target.python,
            harness=conditions.harness,
            variables=variables,
            cpus=start.cpus,
            own_cpus=preset.housekeeping,
            log=conditions.folder / "logs" / planned.environment / f"{slug}-{planned.replicate}.log",
            # The supervisor's deadline is a backstop: a contender also waits while the others run.
            deadline_seconds=timing.deadline_seconds * (len(self._plan.contenders) + 1),
            token=self._token,
            prefix=start.prefix,
            facts=start.facts,
            nodes=conditions.nodes[: key.count("nodes")] if key.count("nodes") > 1 else (),
            fork=fork,
        )
        traced = tracing.of_replicate(
            conditions.folder, planned.environment, f"{slug}-{planned.replicate}", timing.trace_steps
        )
        telemetry = FilteredTelemetry(self._telemetry, self._gpus(key)) if self._telemetry else None
        return Contender(
            planned, launch, timing, conditions.device, cache, self._on_phase, traced, telemetry, target.build
        )


def needs_more_blocks(running: Sequence[Contender], error: float) -> list[Contender]:
    """The contenders of a session that take a block in the next round.

    With an `error`, two contenders that are to be compared take the same number of rounds until their ratio
    is that precise. Without one, or once either is exhausted, each takes blocks until it has enough.
    """
    unsatisfied = [contender for contender in running if not contender.satisfied]
    if error <= 0 or len(running) != 2 or any(contender.exhausted for contender in running):
        return unsatisfied
    one, other = running
    if not unsatisfied and precise(one.blocks, other.blocks, error):
        return []
    return [one, other]


#: How long killed workers may take to be gone before a session is closed without them.
_CLOSE_SECONDS = 60.0


@dataclass(frozen=True, slots=True)
class PhaseEntered:
    """A contender entered a phase."""

    planned: PlannedReplicate
    phase: str


@dataclass(frozen=True, slots=True)
class OutcomeMeasured:
    """An outcome is known."""

    outcome: Outcome


@dataclass(frozen=True, slots=True)
class SessionEnded:
    """The session is over: `done`, `cancelled` or `lost` (infrastructure: try again)."""

    kind: Literal["done", "cancelled", "lost"]
    detail: str = ""


Event = PhaseEntered | OutcomeMeasured | SessionEnded


class RunningSession:
    """One attempt at a session. It starts at once; a SessionEnded is the last of its events.

    `token` marks its processes: no two attempts share one.
    """

    def __init__(self, plan: SessionPlan, conditions: Conditions, token: str) -> None:
        self.token = token
        self._events: queue.Queue[Event] = queue.Queue()
        self._session = Session(
            plan,
            conditions,
            token,
            lambda planned, phase: self._events.put(PhaseEntered(planned, phase)),
            lambda outcome: self._events.put(OutcomeMeasured(outcome)),
        )
        # Supervisors learn of our death from a pipe, not from PR_SET_PDEATHSIG, which is sent when this
        # thread ends.
        self._thread = threading.Thread(target=self._measure, name="session", daemon=True)
        self._thread.start()

    def __enter__(self) -> "RunningSession":
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def events(self, timeout: float) -> Iterator[Event]:
        """Events since the last call, in order; waits up to `timeout` seconds for the first."""
        try:
            yield self._events.get(timeout=timeout)
            while True:
                yield self._events.get_nowait()
        except queue.Empty:
            return

    def cancel(self) -> None:
        """Kill its workers; a session that has ended is left alone."""
        self._session.cancel()

    def close(self) -> None:
        """Cancel it if it runs, and wait until its processes are gone."""
        self._session.cancel()
        self._thread.join(timeout=_CLOSE_SECONDS)

    def _measure(self) -> None:
        try:
            ended = SessionEnded("done" if self._session.run() else "cancelled")
        except DeviceLost as error:
            ended = SessionEnded("lost", str(error))
        except OSError as error:
            # No process, no pipe, no space for a log: the machine failed, not the case.
            ended = SessionEnded("lost", f"{type(error).__name__}: {error}")
        except Exception as error:
            # A defect of Pyrometer: without an end of this attempt its run would wait for ever.
            at = traceback.extract_tb(error.__traceback__)[-1]
            where = f"{Path(at.filename).name}:{at.lineno}"
            ended = SessionEnded("lost", f"a defect in Pyrometer, {type(error).__name__} at {where}: {error}")
        finally:
            # What survives a supervisor that was itself killed would disturb the next session, as would what
            # forked workers leave: their supervisor is that of the next ones.
            sweep(self.token)
            self._session.end_strays()
        self._events.put(ended)
