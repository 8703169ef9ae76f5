"""One contender: a case in one worker process, from its start to its outcome."""

import signal
import time
from collections.abc import Callable, Mapping
from dataclasses import asdict
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, TypeVar

from records.outcomes import Outcome, OutcomeStatus, PlannedReplicate
from records.telemetry import Recording

from ..session_plan import Timing
from ..telemetry.interference import InterferenceCheck, offender_clause
from ..telemetry.summary import rows_of, summarise
from ..telemetry.telemetry_interface import Telemetry
from ..worker.case_key import CaseKey
from ..worker.messages import (
    PROTOCOL,
    Block,
    Failed,
    Finish,
    Finished,
    Forget,
    Hello,
    Message,
    Nodes,
    Observe,
    Phase,
    Prepare,
    ProtocolError,
    Ready,
    Traced,
    Unchecked,
    Window,
)
from .blocks import Blocks
from .compile_cache import mark_filled, prepare_cache
from .launch import affinity_held
from .metrics import all_sampled, disturbance, replicate_metrics, roofline, sustained_throughput
from .process import Launch, WorkerGone, WorkerProcess, WorkerTimeout
from .tracing import Tracing

#: Seconds from a closed pipe to the end of the worker and its descendants.
_EXIT_SECONDS = 5.0

#: The driver's own averages are no fresher than 1/6 s, and GPM wants 0.1 s between two samples.
_OBSERVE_HZ = 5.0
#: A GPU's power sensor sees a quarter of the time on some (arXiv 2312.02741): a window on CUDA is no shorter.
_CUDA_OBSERVE_SECONDS = 5.0

#: Xids of a broken GPU, link or driver: double-bit ECC, NVLink, fallen off the bus, contained and uncontained
#: ECC, GSP timeout and error, unrecovered ECC (docs.nvidia.com/deploy/xid-errors). Others, such as 31, a page
#: fault, may be the fault of what ran.
_HARDWARE_XIDS = frozenset({48, 74, 79, 94, 95, 119, 120, 140})

#: In these phases everything is measured: a worker that ends in them costs no metric that it reported.
_MEASURED = ("finish", "check")

M = TypeVar("M", bound=Message)

#: Called with a contender's plan and the phase it enters.
OnPhase = Callable[[PlannedReplicate, str], None]

#: Explanations of signals that a case's own code may cause.
_SIGNALS = {
    signal.SIGILL: "illegal instruction: a kernel used an instruction that this machine refuses; on x86, "
    "ONEDNN_MAX_CPU_ISA in the preset's environment can cap what oneDNN uses",
    signal.SIGSEGV: "segmentation fault",
    signal.SIGBUS: "bus error",
    signal.SIGFPE: "arithmetic error",
    signal.SIGABRT: "abort",
    signal.SIGKILL: "killed from outside",
}


class ContenderFinished(Exception):
    """This contender has ended; its outcome says how."""


class Contender:
    """Drives one worker. Its methods raise nothing but ContenderFinished.

    The first failure decides the outcome. `build` is the torch that the worker must report (see
    `messages.torch_build`), empty for any.
    """

    def __init__(
        self,
        planned: PlannedReplicate,
        launch: Launch,
        timing: Timing,
        device: str,
        cache: Path | None,
        on_phase: OnPhase,
        tracing: Tracing | None = None,
        telemetry: Telemetry | None = None,
        build: str = "",
    ) -> None:
        self.planned = planned
        self.outcome: Outcome | None = None
        self._timing = timing
        self._device = device
        self._build = build
        self._on_phase = on_phase
        self._tracing = tracing
        self._started_at = datetime.now(UTC)
        self._started = self._phase_started = time.monotonic()
        self._phase = "start"
        self._phases: dict[str, float] = {}
        self._budget = timing.deadline_seconds
        self._ready: Ready | None = None
        self._ready_seconds: float | None = None
        self._hello: Hello | None = None
        self._window: Window | None = None
        self._traced: Traced | None = None
        self._unchecked = Unchecked()
        self._offender = ""
        self._on_cuda = device.startswith("cuda")
        self._instances = CaseKey.parse(planned.case).count("instances")
        self._blocks = Blocks(timing, self._on_cuda, self._on_cuda and self._instances > 1)
        self._telemetry = telemetry
        self._recordings: tuple[Recording, ...] = ()
        self._cache = cache
        cold = planned.replicate < timing.cold_replicates
        self._cache_state = prepare_cache(cache, cold=cold) if cache else ""
        self._launch_facts = launch.facts
        self._nodes = launch.nodes
        self._cpus = launch.cpus
        #: Whether it ended because a node, or the connection to it, was lost.
        self.lost_node = False
        #: Whether it ended because the GPU of this machine failed.
        self.lost_device = False
        self._worker = WorkerProcess(launch)
        limit = timing.contention_limit
        self._interference_check = InterferenceCheck(
            telemetry, self._worker.root, launch.cpus, launch.own_cpus, limit
        )

    # -- phases ---------------------------------------------------------------------------

    def prepare(self) -> None:
        """Start the interpreter and warm up the case; raises ContenderFinished."""
        self._enter("import")
        self._hello = self._expect(Hello)
        if self._hello.protocol != PROTOCOL:
            raise self._fail(
                OutcomeStatus.CRASHED, f"the worker speaks protocol {self._hello.protocol}, not {PROTOCOL}"
            )
        if self._build and self._hello.build and self._hello.build != self._build:
            changed = f"torch {self._hello.build}, not {self._build}"
            raise self._fail(
                OutcomeStatus.LOST, f"the environment has changed since the run began: {changed}"
            )
        if self._nodes:
            self._send(Nodes(tuple(asdict(node) for node in self._nodes), self._cpus))
        self._ready = self._request(
            Prepare(
                case=self.planned.case,
                device=self._device,
                warm_up_min_seconds=self._timing.warm_up_min_seconds,
                warm_up_max_seconds=self._timing.warm_up_max_seconds,
                check=self._timing.check,
            ),
            Ready,
        )
        self._blocks.shapes = int(self._ready.facts.get("shapes", 1))
        # From here on blocks are timed, and at the end this process also holds the reference of the
        # correctness check: neither belongs into the sampled memory peak.
        self._worker.stop_sampling()
        self._enter("wait")
        warm_up = self._ready.warm_up
        # The last part of the warm-up only proves that it is over; it is longer on a noisier machine.
        proof = warm_up.get("seconds", 0.0) - warm_up.get("reached_seconds", 0.0)
        self._ready_seconds = sum(self._phases.values()) - proof

    def measure(self) -> None:
        """Measure one block; raises ContenderFinished."""
        assert self._ready is not None
        request = self._blocks.request(self._ready.step_ns)
        self._discard_disturbed()
        self._interference_check.before()
        self._enter("measure")
        block = self._request(request, Block)
        if block.iterations != request.iterations:
            raise self._fail(
                OutcomeStatus.CRASHED,
                f"the worker broke the protocol: {block.iterations} iterations of {request.iterations}",
            )
        self._enter("wait")
        ratio = self._blocks.clock_ratio(block)
        self._blocks.take(block, self._interference_check.after(block.wall_ns, ratio))

    @property
    def blocks(self) -> Blocks:
        """What was measured so far."""
        return self._blocks

    @property
    def exhausted(self) -> bool:
        """Whether no further round is taken for precision alone: it must not cost the case its deadline."""
        return self._blocks.exhausted or self._budget < self._timing.deadline_seconds / 2

    @property
    def satisfied(self) -> bool:
        """Whether enough is measured or the cap is reached; a traced contender is not measured."""
        return self._tracing is not None or self._blocks.satisfied

    def finish(self) -> None:
        """Take the telemetry window or the trace if requested, then the final report and the outcome."""
        self._discard_disturbed()
        self._offender = offender_clause(self._interference_check.offender())
        # Once per case: telemetry windows differ little from process to process.
        if self._timing.observe_seconds > 0 and self.planned.replicate == 0:
            least = _CUDA_OBSERVE_SECONDS if self._on_cuda else 0.0
            self._observe(max(least, self._timing.observe_seconds))
        if self._tracing is not None:
            self._enter("trace")
            self._traced = self._request(self._tracing.request, Traced)
        self._enter("finish")
        finished = self._request(Finish(), Finished)
        self._enter("end")
        report = self._worker.close()
        self._complete(finished, report)

    def _observe(self, seconds: float) -> None:
        """The telemetry window: the case runs continuously while the sampler writes rows."""
        self._enter("observe")
        if self._telemetry is None:
            self._window = self._request(Observe(seconds), Window)
            return
        self._telemetry.start(self._worker.root, _OBSERVE_HZ, self._cpus)
        recorded: tuple[Recording, ...] = ()
        try:
            self._window = self._request(Observe(seconds), Window)
        finally:
            recorded = self._telemetry.stop()
        self._recordings = rows_of(recorded, self._window)

    def _discard_disturbed(self) -> None:
        """Have the worker drop a disturbed block from its own counts; it is taken again."""
        if self._blocks.last_is_disturbed:
            self._send(Forget())

    def abandon(self) -> None:
        """Kill the worker; an outcome that does not exist yet stays None."""
        self._worker.kill()
        self._worker.close()

    def kill(self) -> None:
        """Kill the worker from another thread; the session's thread then sees WorkerGone."""
        self._worker.kill()

    # -- how it ended ---------------------------------------------------------------------

    def _complete(self, finished: Finished, report: Mapping[str, Any]) -> None:
        """The outcome after the worker's final report."""
        assert self._ready is not None
        metrics: dict[str, float] = {}
        if self._tracing is not None and self._traced is not None:
            # The profiler costs time and memory: no number of this process is a measurement.
            found: dict[str, Any] = self._tracing.facts(self._traced)
        else:
            blocks = self._blocks
            if not blocks.untimed_shapes:
                about = (finished, report, self._cache_state, self._ready_seconds, blocks.left_out)
                metrics = replicate_metrics(
                    self._ready, blocks.all, *about, on_cuda=self._on_cuda, instances=self._instances
                )
            found = disturbance(blocks.clean or blocks.all)
            share = self._interference_check.core_share()
            # Of instances each needs a core, and of other nodes nothing is counted here.
            if share is not None and self._instances <= 1 and not self._nodes:
                found["core_share"] = share
            if self._timing.contention_limit >= 1:
                # The user chose to ignore interference, so it is not reported.
                found["contention_ignored"] = True
        observed, notes = self._window_metrics()
        metrics |= observed
        found |= notes
        check = finished.facts.get("check") or {}
        status, reason = self._blocks.invalid_reason(self._offender) or (OutcomeStatus.OK, "")
        # A worker that died in its report has said so before.
        facts = {**self._ready.facts, **finished.facts, **found}
        if facts.get("not_compiled"):
            status, reason = OutcomeStatus.NOT_COMPILED, str(facts["not_compiled"])
        if check.get("wrong"):
            status, reason = OutcomeStatus.WRONG, str(check["wrong"])
        if self._cache and status == OutcomeStatus.OK:
            mark_filled(self._cache)
        self._end(status, reason, metrics, facts, report)

    def _window_metrics(self) -> tuple[dict[str, float], dict[str, Any]]:
        """Metrics of the telemetry window, and facts about what could not be measured."""
        facts = dict(self._interference_check.facts())
        if self._window is None or self._ready is None:
            return {}, facts
        # Blocks are bursts: what a GPU can do for long is only seen here.
        sustained = sustained_throughput(self._window, self._ready.facts["items"]) if self._on_cuda else {}
        if self._telemetry is None:
            return sustained, facts
        # Neither GPUs of other machines are sampled nor a second one of one process; without them there is no
        # energy per item.
        complete = all_sampled(self._recordings, self._ready.facts)
        items = float(self._ready.facts["items"]) if complete and not self._nodes else None
        metrics, notes = summarise(self._recordings, self._window, items)
        if notes := [*facts.get("telemetry_notes", ()), *notes]:
            facts["telemetry_notes"] = notes
        metrics |= sustained
        return metrics | (roofline(metrics, self._ready.facts) if complete else {}), facts

    def _fail(self, status: OutcomeStatus, reason: str, traceback: str = "") -> ContenderFinished:
        """End this contender with a failure: kill it, collect the report, make the outcome.

        Where everything is measured, that is the outcome: what cannot be checked says so.
        """
        phase = self._phase
        if status == OutcomeStatus.CRASHED and (xids := self._hardware_xids()):
            self.lost_device = True
            status, reason = OutcomeStatus.LOST, f"its GPU reported Xid {', '.join(map(str, xids))}: {reason}"
        self._worker.kill()
        report = self._worker.close()
        failure = {"traceback": traceback} if traceback else {}
        if phase in _MEASURED and status != OutcomeStatus.LOST:
            check = {"error": None, "wrong": "", "note": f"not compared: {reason}"}
            facts = {**self._unchecked.facts, **failure, "check": check}
            self._complete(Finished(self._unchecked.metrics, facts), report)
        else:
            facts = {**(self._ready.facts if self._ready else {}), **failure}
            self._end(status, reason, {}, facts, report, phase)
        return ContenderFinished()

    def _hardware_xids(self) -> list[int]:
        """The errors since the last block by which the driver says that the GPU failed, and not the case."""
        if self._telemetry is None:
            return []
        gpus = self._telemetry.read_counters(self._worker.root).gpus
        return sorted({xid for gpu in gpus for xid in gpu.xids} & _HARDWARE_XIDS)

    def _end(
        self,
        status: OutcomeStatus,
        reason: str,
        metrics: Mapping[str, float],
        facts: Mapping[str, Any],
        report: Mapping[str, Any],
        phase: str = "",
    ) -> None:
        self._enter("end")
        self._phases.pop("wait", None)
        about: dict[str, Any] = {**facts, "exit": dict(report), "device": self._device}
        if self._ready:
            about["warm_up"] = dict(self._ready.warm_up)
        if self._hello:
            about["import_seconds"] = self._hello.import_seconds
        if self._launch_facts:
            about["launch"] = {**self._launch_facts, **affinity_held(self._launch_facts, facts)}
        if self._cache_state:
            about["cache"] = self._cache_state
        about |= self._blocks.facts()
        if self._window:
            about["window"] = [self._window.started_ns, self._window.ended_ns, self._window.iterations]
        about["phases"] = dict(self._phases)
        self.outcome = Outcome(
            case=self.planned.case,
            environment=self.planned.environment,
            replicate=self.planned.replicate,
            status=status,
            reason=reason,
            phase=phase,
            started_at=self._started_at,
            wall_seconds=time.monotonic() - self._started,
            metrics=metrics,
            facts=about,
            log_tail=self._worker.log_tail(),
            blocks=tuple(block.samples_ns for block in self._blocks.all),
            telemetry=self._recordings,
        )

    # -- messages -------------------------------------------------------------------------

    def _request(self, request: Message, kind: type[M]) -> M:
        self._send(request)
        return self._expect(kind)

    def _send(self, message: Message) -> None:
        try:
            self._worker.send(message)
        except WorkerGone:
            raise self._explain_exit() from None

    def _expect(self, kind: type[M]) -> M:
        while True:
            sent = time.monotonic()
            try:
                message = self._worker.receive(self._budget)
            except WorkerGone:
                raise self._explain_exit() from None
            except WorkerTimeout:
                limit = self._timing.deadline_seconds
                raise self._fail(
                    OutcomeStatus.TIMEOUT, f"no end within {limit:g} s, last seen in {self._phase}"
                ) from None
            except ProtocolError as error:
                raise self._fail(OutcomeStatus.CRASHED, f"the worker broke the protocol: {error}") from None
            self._budget -= time.monotonic() - sent
            if isinstance(message, Phase):
                self._enter(message.name)
            elif isinstance(message, Unchecked):
                self._unchecked = message
            elif isinstance(message, Failed):
                self._phase = message.phase or self._phase
                status = status_of(message)
                self.lost_device = message.device_lost
                self.lost_node = status == OutcomeStatus.LOST and not message.device_lost
                raise self._fail(status, message.reason, message.traceback)
            elif isinstance(message, kind):
                return message
            else:
                raise self._fail(
                    OutcomeStatus.CRASHED,
                    f"the worker answered {type(message).__name__}, not {kind.__name__}",
                )

    def _explain_exit(self) -> ContenderFinished:
        # The pipe closes a moment before the process has ended. A kill in that moment would be reported as
        # the cause.
        if not self._worker.ends(_EXIT_SECONDS):
            return self._fail(
                OutcomeStatus.CRASHED, f"the worker closed its pipe to the controller in {self._phase}"
            )
        return self._fail(*explain(self._worker.close(), self._phase))

    def _enter(self, phase: str) -> None:
        now = time.monotonic()
        self._phases[self._phase] = self._phases.get(self._phase, 0.0) + now - self._phase_started
        self._phase, self._phase_started = phase, now
        if phase != "wait":
            self._on_phase(self.planned, phase)


def status_of(failed: Failed) -> OutcomeStatus:
    """The status that a worker reports; a word that is none is a crash."""
    return OutcomeStatus(failed.status) if failed.status in set(OutcomeStatus) else OutcomeStatus.CRASHED


def explain(report: Mapping[str, Any], phase: str) -> tuple[OutcomeStatus, str]:
    """Status and reason of a dead worker, from the supervisor's report."""
    if report.get("failed"):
        return OutcomeStatus.LOST, str(report["failed"])
    if report.get("killed_by") == "deadline":
        return OutcomeStatus.TIMEOUT, f"killed at the deadline in {phase}"
    number = report.get("signal")
    if number is not None:
        if report.get("oom_killed") and number == signal.SIGKILL:
            return OutcomeStatus.OOM, f"killed by the kernel in {phase}: out of memory"
        # Real-time signals have no names.
        name = signal.Signals(number).name if number in set(signal.Signals) else f"signal {number}"
        meaning = _SIGNALS.get(number, "")
        return OutcomeStatus.CRASHED, f"killed by {name} in {phase}" + (f" ({meaning})" if meaning else "")
    return OutcomeStatus.CRASHED, f"exited with code {report.get('exit_code')} in {phase}, before it was done"
