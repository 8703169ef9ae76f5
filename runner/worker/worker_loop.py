"""The worker's loop: read a message, do it, answer; whatever goes wrong becomes a message too."""

import os
import sys
import time
import traceback
from collections.abc import Callable
from contextlib import suppress
from dataclasses import asdict
from typing import TextIO

import torch

from .case import REGISTER
from .case_key import CaseKey
from .distributed.cpu_partition import TooFewCpus
from .distributed.members import GROUP_AXES, MemberFailed
from .measurements import affinity_check, compiling, device_errors, memory, timing, tracing
from .messages import (
    PROTOCOL,
    Block,
    Failed,
    Fingerprinted,
    Finish,
    Finished,
    Forget,
    Hello,
    Measure,
    Message,
    Nodes,
    Observe,
    Phase,
    Prepare,
    ProtocolError,
    Ready,
    TakeFingerprint,
    Trace,
    Traced,
    Unchecked,
    parse,
    torch_build,
)
from .prepared_case import UnknownCase, UnsupportedCase
from .single_process import CaseRunner, SingleProcess

_ONE_NODE = Nodes(())
#: Characters of a reason, and of a traceback.
_LONGEST_REASON, _LONGEST_TRACEBACK = 2_000, 20_000
#: Errors by which a case or a machine says that this cannot be measured here.
_NOT_POSSIBLE = (
    *(UnknownCase, UnsupportedCase, TooFewCpus),
    *(affinity_check.StartConditionNotMet, timing.EventsUnreliable),
)


class Worker:
    """One contender: at most one case is prepared in the life of a worker."""

    def __init__(self, out: TextIO, load_user_case: Callable[[str], object]) -> None:
        self._out = out
        self._load_user_case = load_user_case
        self._phase = "hello"
        self._prepare: Prepare | None = None
        self._nodes = _ONE_NODE
        self._runner: CaseRunner | None = None
        self._metrics: dict[str, float] = {}
        self._placement = affinity_check.ThreadPlacement()
        self._allocates_elsewhere = False

    def hello(self, harness: str, import_seconds: float) -> None:
        """Send that torch is imported and the cases are registered."""
        build = torch_build(torch.__version__, getattr(torch.version, "git_version", None))
        self._send(Hello(PROTOCOL, harness, os.getpid(), import_seconds, torch.get_num_threads(), build))

    def serve(self, lines: TextIO) -> None:
        """Answer messages until `finish`, a failure, or the controller's end of the pipe is closed."""
        for line in lines:
            try:
                self._do(parse(line))
            except BaseException as error:
                self._send(failure(error, self._phase))
                return
            if self._phase == "finished":
                return

    def _do(self, message: Message) -> None:
        if isinstance(message, Prepare):
            self._send(self._prepare_case(message))
        elif isinstance(message, Nodes):
            self._nodes = message
        elif isinstance(message, Measure):
            self._phase = "measure"
            self._send(self._block(message))
        elif isinstance(message, Forget):
            self._placement.forget()
            self._case_runner.forget()
        elif isinstance(message, Observe):
            self._phase = "observe"
            self._send(self._case_runner.observe(message.seconds))
        elif isinstance(message, Trace):
            self._enter("trace")
            self._send(self._trace_steps(message))
        elif isinstance(message, TakeFingerprint):
            self._send(self._take_fingerprint(message))
            self._phase = "finished"
        elif isinstance(message, Finish):
            self._send(self._finish_case())
            self._phase = "finished"
        else:
            raise ProtocolError(f"{type(message).__name__} is not for a worker")

    @property
    def _case_runner(self) -> CaseRunner:
        if self._runner is None:
            raise ProtocolError("nothing is prepared")
        return self._runner

    @property
    def _device(self) -> str:
        return self._prepare.device if self._prepare else "cpu"

    def _enter(self, phase: str) -> None:
        self._phase = phase
        self._send(Phase(phase))

    def _prepare_case(self, message: Prepare) -> Ready:
        if self._runner is not None:
            raise ProtocolError("a worker prepares one case in its life")
        self._prepare = message
        key = CaseKey.parse(message.case)
        self._allocates_elsewhere = allocates_elsewhere(key)
        self._enter("build")
        started = affinity_check.check_start_conditions(key, torch.get_num_threads())
        if key.name not in REGISTER:
            self._load_user_case(key.name)
        built = time.perf_counter_ns()
        self._runner = runner = start_runner(key, message.device, message.seed, self._nodes)
        build_seconds = (time.perf_counter_ns() - built) / 1e9
        self._enter("first_call")
        first_ns = runner.first_call()
        self._enter("warm_up")
        warm = runner.warm_up(message.warm_up_min_seconds, message.warm_up_max_seconds)
        if not self._allocates_elsewhere:
            self._metrics |= memory.cuda_peaks(message.device, "_compile")
        before = memory.peak_rss_mib()
        self._metrics |= {} if before is None else {"rss_peak": before}
        timing.settle()
        memory.reset_cuda_peaks(message.device)
        self._rss_was_reset = memory.reset_peak_rss()
        facts = {
            **started,
            **affinity_check.in_use(message.device, torch.get_num_threads()),
            **runner.facts(),
        }
        facts["build_seconds"] = build_seconds
        steps = {
            "iterations": warm.iterations,
            "seconds": warm.seconds,
            "ended": warm.ended,
            "reached_seconds": warm.reached_seconds,
        }
        return Ready(first_ns, warm.step_ns, steps, facts)

    def _block(self, message: Measure) -> Block:
        runner = self._case_runner
        self._placement.before()
        block = runner.block(message.iterations, message.lead_in, message.per_sample)
        self._placement.after(block)
        return block

    def _trace_steps(self, message: Trace) -> Traced:
        runner = self._case_runner
        if not isinstance(runner, SingleProcess):
            raise UnsupportedCase("a case of several processes is not traced: a trace shows one process")
        return tracing.trace(runner.prepared.step, self._device, message.steps, message.path)

    def _take_fingerprint(self, message: TakeFingerprint) -> Fingerprinted:
        if self._runner is not None:
            raise ProtocolError("a worker prepares one case in its life")
        key = CaseKey.parse(message.case)
        if any(axis in GROUP_AXES for axis, _ in key.technique):
            raise UnsupportedCase(
                "a case of several processes has no fingerprint: one shows a single process"
            )
        self._enter("build")
        affinity_check.check_start_conditions(key, torch.get_num_threads())
        if key.name not in REGISTER:
            self._load_user_case(key.name)
        runner = SingleProcess(key, message.device, message.seed)
        self._enter("fingerprint")
        return Fingerprinted(tracing.capture_dispatch(runner.prepared, message.device, message.folder))

    def _finish_case(self) -> Finished:
        runner = self._case_runner
        metrics = dict(self._metrics)
        after = memory.peak_rss_mib()
        if after is not None:
            metrics["rss_peak"] = max(after, metrics.get("rss_peak", 0.0))
            if self._rss_was_reset:
                metrics["rss_peak_steady"] = after
        if not self._allocates_elsewhere:
            metrics |= memory.cuda_peaks(self._device) | memory.cuda_allocator(self._device)
        try:
            metrics |= {**self._placement.metrics(self._device), **runner.metrics()}
            facts = {**self._placement.facts(), **runner.facts()}
        except MemberFailed:
            # All is measured, and is kept as where this process itself ends here.
            self._phase = "finish"
            raise
        if self._prepare is not None and self._prepare.check:
            self._send(Unchecked(metrics, facts))
            self._enter("check")
            checked = runner.check()
            facts["check"] = asdict(checked)
            metrics |= checked.metrics
        runner.close()
        return Finished(metrics, facts)

    def _send(self, message: Message) -> None:
        self._out.write(message.to_json() + "\n")
        self._out.flush()


def start_runner(key: CaseKey, device: str, seed: int, nodes: Nodes = _ONE_NODE) -> CaseRunner:
    """The case of `key` built and ready to be called: in this process, or in several it leads."""
    if any(axis in GROUP_AXES for axis, _ in key.technique):
        # Here, because torch.distributed is no part of what other cases import.
        from .distributed.leader import RankGroup
        from .distributed.torchrun import NodeSpec

        specs = tuple(NodeSpec(each["name"], each["address"], tuple(each["command"])) for each in nodes.nodes)
        return RankGroup(key, device, seed, specs, nodes.cpus)
    return SingleProcess(key, device, seed)


def allocates_elsewhere(key: CaseKey) -> bool:
    """Whether a case computes in a runtime whose memory PyTorch's allocator does not see."""
    return key.axis("export") == "onnxruntime" or key.axis("compile") in ("tensorrt", "onnxrt")


def _first_sentence(error: BaseException) -> str:
    """The first line of what an error says, and the next where that one only announces it with a colon."""
    lines = [line.strip() for line in str(error).splitlines() if line.strip()]
    return " ".join(lines[: 2 if lines and lines[0].endswith(":") else 1])


def failure(error: BaseException, phase: str) -> Failed:
    """The message for an exception: what kind of outcome it is, in one sentence, with the traceback."""
    if isinstance(error, MemoryError):
        # What filled the memory hangs on the frames; without letting go of it there is no room to answer.
        traceback.clear_frames(error.__traceback__)
    text = _first_sentence(error)[:500]
    reason = ": ".join(filter(None, (type(error).__name__, text, compiling.compiler_error(error)[:500])))
    status = "crashed"
    if isinstance(error, MemberFailed):
        about = (str(error)[:_LONGEST_REASON], phase, error.traceback[-_LONGEST_TRACEBACK:])
        return Failed(error.status, *about, error.device_lost)
    if isinstance(error, _NOT_POSSIBLE):
        status, reason = "unsupported", text
    elif isinstance(error, NotImplementedError):
        status = "unsupported"
    elif missing := compiling.unavailable(error):
        status, reason = "unsupported", missing[:500]
    elif isinstance(error, SystemExit):
        reason = f"the case called sys.exit({error.code!r:.500})"
    elif device_errors.device_is_lost(error):
        status = "lost"
    elif device_errors.device_is_busy(error):
        status = "contended"
    elif memory.is_out_of_memory(error):
        status = "oom"
        memory.log_cuda_memory()
        if isinstance(error, SystemError):
            reason = f"MemoryError, for which there was no memory either ({reason})"
    lost = device_errors.device_is_lost(error)
    return Failed(status, reason, phase, _ends_of("".join(traceback.format_exception(error))), lost)


def _ends_of(trace: str) -> str:
    """A traceback as short as it is stored: of a longer one both ends, and all of it goes to the log."""
    if len(trace) <= _LONGEST_TRACEBACK:
        return trace
    with suppress(OSError):
        sys.stderr.write(trace)
        sys.stderr.flush()
    left_out = len(trace) - _LONGEST_TRACEBACK
    half = _LONGEST_TRACEBACK // 2
    mark = f"\n[... some {left_out:,} characters are left out here; the log of the process has all ...]\n"
    return trace[: half - len(mark)] + mark + trace[-half:]
