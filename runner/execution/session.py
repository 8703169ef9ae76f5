"""A session: contenders of one workload alive together, their blocks interleaved."""

import contextlib
import random
import shutil
import threading
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from pathlib import Path

from records.outcomes import Outcome, Planned

from ..multi_node.nodes import Node
from ..preset import MachinePreset
from ..session_plan import SessionPlan, TargetEnvironment, Timing
from ..telemetry.telemetry_interface import OwnGpus, StartTelemetry, Telemetry
from ..worker.case_key import CaseKey
from . import tracing
from .contender import Contender, OnPhase, Over
from .harness import Harness
from .launch.compile_cache import cache_folder, file_name
from .launch.launch import SPIN_SECONDS, CannotLaunch, allowed_cpus, start_of, usable_numactl
from .launch.topology import read
from .pair_precision import hungry
from .process import Launch

#: The fact of an outcome that it was measured when the others of its session were gone, and why.
MEASURED_ALONE = "measured_alone"

#: What infrastructure lost is tried again this often; what a case did itself is a result and is not.
MAX_LOST = 3
#: How long to wait for a node that was lost once, and twice: it may come up again, or have to notice first
#: that the connection to us is dead.
_RECOVERY_SECONDS = (5.0, 20.0)

#: Called with each outcome as soon as it is known.
OnOutcome = Callable[[Outcome], None]


@dataclass(frozen=True, slots=True)
class Conditions:
    """What all sessions of one run share. `folder` is the run's: logs and compile caches live there.

    `gpus` are the UUIDs of the devices in use, in the order in which PyTorch counts them; `telemetry` starts
    what looks at the machine during a session, None for nothing. `nodes` are those of a run over several,
    this machine first.
    """

    run: str
    folder: Path
    harness: Harness
    preset: MachinePreset
    timing: Timing
    targets: Mapping[str, TargetEnvironment]
    device: str
    gpus: tuple[str, ...] = ()
    telemetry: StartTelemetry | None = None
    nodes: tuple[Node, ...] = ()


class Session:
    """Runs one plan. `cancel()` may be called from another thread: what is measured so far is kept."""

    def __init__(self, plan: SessionPlan, conditions: Conditions, token: str) -> None:
        self._plan = plan
        self._conditions = conditions
        self._token = token
        self._cancelled = threading.Event()
        self._alive: list[Contender] = []
        self._waiting: list[Planned] = []
        self._crowded: dict[Planned, str] = {}
        self._losses: dict[Planned, list[str]] = {}
        self._telemetry: Telemetry | None = None

    def run(self, on_phase: OnPhase, on_outcome: OnOutcome) -> bool:
        """Measure all contenders; answers False if it was cancelled.

        Every contender gets exactly one outcome, unless cancelled: then those that had not ended get none.
        Who runs out of memory beside others is measured once more when they are gone, and its outcome says
        so: what does not fit at once takes turns as whole processes. A case that loses a node is likewise
        measured again, as a whole, until it was lost MAX_LOST times.
        """
        spool = self._conditions.folder / "telemetry" / "rows"
        try:
            self._telemetry = self._start_telemetry(spool)
            self._measure(self._plan.contenders, on_phase, on_outcome)
            while self._waiting and not self._cancelled.is_set():
                planned = self._waiting.pop(0)
                if losses := self._losses.get(planned):
                    self._cancelled.wait(_RECOVERY_SECONDS[len(losses) - 1])
                self._measure((planned,), on_phase, on_outcome)
        finally:
            for contender in self._alive:
                contender.abandon()
            if self._telemetry is not None:
                self._telemetry.close()
                shutil.rmtree(spool.parent, ignore_errors=True)
        return not self._cancelled.is_set()

    def cancel(self) -> None:
        """Stop as soon as the kernel can kill."""
        self._cancelled.set()
        for contender in list(self._alive):
            contender.kill()

    def _start_telemetry(self, spool: Path) -> Telemetry | None:
        """What samples this session, into a folder that lives as long; what is traced is not sampled."""
        conditions = self._conditions
        if conditions.telemetry is None or conditions.timing.trace_steps:
            return None
        keys = [CaseKey.parse(planned.case) for planned in self._plan.contenders]
        # Only the devices in use: what others do on the rest of them is no matter of ours.
        devices = max((self._gpus(key) for key in keys), key=len)
        cpus = conditions.preset.cpus
        if cpus and any(key.axis("cpus") != "profile" for key in keys):
            # By number: a sampler that is told none counts those it may use, which are housekeeping's by now.
            cpus = allowed_cpus(conditions.preset)
        with contextlib.suppress(OSError):
            spool.mkdir(parents=True, exist_ok=True)
        return conditions.telemetry(spool, devices, cpus, conditions.preset.housekeeping, self._token)

    def _gpus(self, key: CaseKey) -> tuple[str, ...]:
        """The GPUs of this machine that a case computes on: one for each of its ranks here."""
        return self._conditions.gpus[: key.count("ranks") // key.count("nodes")]

    def _measure(self, contenders: Iterable[Planned], on_phase: OnPhase, on_outcome: OnOutcome) -> None:
        """Contenders alive together, from their starts to their outcomes."""
        self._prepare(contenders, on_phase, on_outcome)
        self._interleave(on_outcome)
        for contender in list(self._alive):
            self._guarded(contender, contender.finish, on_outcome)
            if contender in self._alive and contender.outcome is not None:
                self._alive.remove(contender)
                self._hand_over(contender, on_outcome)

    def _prepare(self, contenders: Iterable[Planned], on_phase: OnPhase, on_outcome: OnOutcome) -> None:
        for planned in contenders:
            if self._cancelled.is_set():
                return
            try:
                contender = self._start(planned, on_phase)
            except CannotLaunch as error:
                on_outcome(_never_started(planned, str(error)))
                continue
            self._alive.append(contender)
            self._guarded(contender, contender.prepare, on_outcome)

    def _interleave(self, on_outcome: OnOutcome) -> None:
        # A B, B A, B A, A B...: each round in the opposite or the same order at random, so that neither
        # drift nor the order within a round favours anybody. Seeded: a resumed session repeats its order.
        order = random.Random(self._plan.id)
        while not self._cancelled.is_set():
            hungry = self._hungry()
            if not hungry:
                return
            if order.random() < 0.5:
                hungry.reverse()
            for contender in hungry:
                self._guarded(contender, contender.measure, on_outcome)
                if len(self._alive) > 1 and CaseKey.parse(contender.planned.case).axis("omp") == "spin":
                    # Its idle threads must not run into the next contender's block.
                    self._cancelled.wait(SPIN_SECONDS)

    def _hungry(self) -> list[Contender]:
        """Who takes a block in the next round."""
        apart = len({contender.planned.environment for contender in self._alive}) == 2
        return hungry(self._alive, self._conditions.timing.pair_error if apart else 0.0)

    def _guarded(self, contender: Contender, action: Callable[[], None], on_outcome: OnOutcome) -> None:
        if self._cancelled.is_set():
            return
        try:
            action()
        except Over:
            self._alive.remove(contender)
            # Killed because we were asked to stop: that says nothing about the case.
            if not self._cancelled.is_set():
                self._hand_over(contender, on_outcome)

    def _hand_over(self, contender: Contender, on_outcome: OnOutcome) -> None:
        outcome = contender.outcome
        if outcome is None:
            return
        others = sum(1 for other in self._alive if other is not contender)
        if outcome.status == "oom" and others:
            # What fits alone may not fit beside them: that says nothing about the case.
            beside = "1 other" if others == 1 else f"{others} others"
            self._crowded[outcome.planned] = f"beside {beside} of its session ({outcome.reason})"
            self._waiting.append(outcome.planned)
            return
        if contender.lost_node and self._tried_again(outcome):
            return
        on_outcome(self._told(outcome))

    def _tried_again(self, outcome: Outcome) -> bool:
        """Whether one that lost a node is to be measured again, when the others are gone."""
        losses = self._losses.setdefault(outcome.planned, [])
        losses.append(outcome.reason)
        if len(losses) == MAX_LOST:
            return False
        self._waiting.append(outcome.planned)
        return True

    def _told(self, outcome: Outcome) -> Outcome:
        """An outcome with what happened to its contender before."""
        facts = dict(outcome.facts)
        if crowded := self._crowded.get(outcome.planned):
            facts[MEASURED_ALONE] = crowded
        losses = self._losses.get(outcome.planned, [])
        if losses:
            facts["lost_before"] = list(losses)
        lost = outcome.status == "lost" and len(losses) == MAX_LOST
        reason = f"lost {MAX_LOST} times, at last: {outcome.reason}" if lost else outcome.reason
        return replace(outcome, reason=reason, facts=facts)

    def _start(self, planned: Planned, on_phase: OnPhase) -> Contender:
        conditions = self._conditions
        key = CaseKey.parse(planned.case)
        target = conditions.targets[planned.environment]
        preset = conditions.preset
        start = start_of(key, preset, read(allowed_cpus(preset)), usable_numactl)
        cache = cache_folder(conditions.folder / "cache", key, planned.environment)
        variables = dict(start.variables)
        if cache:
            variables |= {"TORCHINDUCTOR_CACHE_DIR": str(cache), "TRITON_CACHE_DIR": str(cache / "triton")}
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
            # The supervisor's deadline is the backstop: a contender also waits while the others work.
            deadline_seconds=timing.deadline_seconds * (len(self._plan.contenders) + 1),
            token=self._token,
            prefix=start.prefix,
            facts=start.facts,
            nodes=conditions.nodes[: key.count("nodes")] if key.count("nodes") > 1 else (),
        )
        traced = tracing.of_replicate(
            conditions.folder, planned.environment, f"{slug}-{planned.replicate}", timing.trace_steps
        )
        telemetry = OwnGpus(self._telemetry, self._gpus(key)) if self._telemetry else None
        return Contender(
            planned, launch, timing, conditions.device, cache, on_phase, traced, telemetry, target.build
        )


def _never_started(planned: Planned, reason: str) -> Outcome:
    """The outcome of a contender that this machine cannot start so."""
    about = (planned.case, planned.environment, planned.replicate)
    return Outcome(*about, "unsupported", reason, "start", datetime.now(UTC))
