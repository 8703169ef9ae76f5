"""The worker's loop: read a message, do it, answer; whatever goes wrong becomes a message too."""

import errno
import os
import time
import traceback
from collections.abc import Callable
from dataclasses import asdict
from typing import Any, TextIO

import torch

from . import answer, compiling, memory, stage, timing
from .case import REGISTER
from .case_key import CaseKey
from .messages import (
    PROTOCOL,
    Failed,
    Finish,
    Finished,
    Hello,
    Measure,
    Message,
    Observe,
    Phase,
    Prepare,
    ProtocolError,
    Ready,
    parse,
)

#: Texts by which PyTorch and the C++ runtime say that memory ran out.
_OUT_OF_MEMORY = ("out of memory", "can't allocate memory", "cannot allocate memory", "bad_alloc")


class Worker:
    """One contender: at most one case is prepared in the life of a worker."""

    def __init__(self, out: TextIO, load_user_cases: Callable[[], object]) -> None:
        self._out = out
        self._load_user_cases = load_user_cases
        self._phase = "hello"
        self._prepare: Prepare | None = None
        self._stage: stage.Stage | None = None
        self._first_step: answer.FirstStep | None = None
        self._metrics: dict[str, float] = {}

    def hello(self, harness: str, import_seconds: float) -> None:
        """Say that torch is imported and the cases are registered."""
        self._say(Hello(PROTOCOL, harness, os.getpid(), import_seconds, torch.get_num_threads()))

    def serve(self, lines: TextIO) -> None:
        """Answer messages until `finish`, a failure, or the controller's end of the pipe is closed."""
        for line in lines:
            try:
                self._do(parse(line))
            except BaseException as error:
                self._say(failure(error, self._phase))
                return
            if self._phase == "finished":
                return

    def _do(self, message: Message) -> None:
        if isinstance(message, Prepare):
            self._say(self._prepared(message))
        elif isinstance(message, Measure):
            self._phase = "measure"
            self._say(timing.block(self._staged.step, self._device, message.iterations))
        elif isinstance(message, Observe):
            self._phase = "observe"
            self._say(timing.observe(self._staged.step, self._device, message.seconds))
        elif isinstance(message, Finish):
            self._say(self._finished())
            self._phase = "finished"
        else:
            raise ProtocolError(f"{type(message).__name__} is not for a worker")

    @property
    def _staged(self) -> stage.Stage:
        if self._stage is None:
            raise ProtocolError("nothing is prepared")
        return self._stage

    @property
    def _device(self) -> str:
        return self._prepare.device if self._prepare else "cpu"

    def _enter(self, phase: str) -> None:
        self._phase = phase
        self._say(Phase(phase))

    def _prepared(self, message: Prepare) -> Ready:
        if self._stage is not None:
            raise ProtocolError("a worker prepares one case in its life")
        self._prepare = message
        key = CaseKey.parse(message.case)
        self._enter("build")
        if key.name not in REGISTER:
            self._load_user_cases()
        if key.axis("compile") != "none":
            compiling.keep_headers_beside_the_cache()
        built = time.perf_counter_ns()
        self._stage = staged = stage.build(key, message.device, message.seed)
        build_seconds = (time.perf_counter_ns() - built) / 1e9
        self._enter("first_call")
        returned: list[Any] = []
        first_ns = timing.first_call(lambda: returned.append(staged.step()), message.device)
        self._first_step = answer.first_step(staged, returned.pop())
        self._enter("warm_up")
        warm = timing.warm_up(
            staged.step, message.device, message.warm_up_min_seconds, message.warm_up_max_seconds
        )
        self._metrics |= memory.cuda_peaks(message.device, "_compile")
        before = memory.peak_rss_mib()
        self._metrics |= {} if before is None else {"rss_peak": before}
        timing.settle()
        memory.reset_cuda_peaks(message.device)
        self._rss_was_reset = memory.reset_peak_rss()
        facts = self._facts(staged) | {"build_seconds": build_seconds}
        steps = {"iterations": warm.iterations, "seconds": warm.seconds, "ended": warm.ended}
        return Ready(first_ns, warm.step_ns, steps, facts)

    def _facts(self, staged: stage.Stage) -> dict[str, Any]:
        facts: dict[str, Any] = {
            "items": staged.items,
            "unit": staged.unit,
            "flops": staged.flops,
            "parameters": staged.parameters,
            "dtype": staged.dtype,
            "threads": torch.get_num_threads(),
        }
        if staged.key.axis("compile") != "none":
            facts["compile"] = asdict(compiling.report())
        return facts

    def _finished(self) -> Finished:
        staged = self._staged
        metrics = dict(self._metrics)
        after = memory.peak_rss_mib()
        if after is not None:
            metrics["rss_peak"] = max(after, metrics.get("rss_peak", 0.0))
            if self._rss_was_reset:
                metrics["rss_peak_steady"] = after
        metrics |= memory.cuda_peaks(self._device)
        facts: dict[str, Any] = {}
        if staged.key.axis("compile") != "none":
            compiled = compiling.report()
            facts["compile"] = asdict(compiled)
            facts["not_compiled"] = compiled.ran_eager
            for name in ("graph_breaks", "recompiles"):
                value = getattr(compiled, name)
                if value is not None:
                    metrics[name] = float(value)
        if self._prepare is not None and self._prepare.check:
            self._enter("check")
            facts["check"] = asdict(self._checked(staged, self._prepare.seed))
        return Finished(metrics, facts)

    def _checked(self, staged: stage.Stage, seed: int) -> answer.Check:
        try:
            return answer.check(staged, self._device, seed, self._first_step)
        except Exception as error:
            # Everything is measured; what the check cannot compare must not cost that.
            traceback.print_exc()
            return answer.Check(None, answer.tolerance(staged.key), note=f"not compared: {error}"[:500])

    def _say(self, message: Message) -> None:
        self._out.write(message.to_json() + "\n")
        self._out.flush()


def failure(error: BaseException, phase: str) -> Failed:
    """The message for an exception: what kind of outcome it is, in one sentence, with the traceback."""
    if isinstance(error, MemoryError):
        # What filled the memory hangs on the frames; without letting go of it there is no room to answer.
        traceback.clear_frames(error.__traceback__)
    text = str(error).strip().split("\n")[0][:500]
    reason = f"{type(error).__name__}: {text}" if text else type(error).__name__
    status = "crashed"
    if isinstance(error, stage.UnknownCase):
        status, reason = "unsupported", text
    elif isinstance(error, NotImplementedError):
        status = "unsupported"
    elif isinstance(error, SystemExit):
        reason = f"the case called sys.exit({error.code!r})"
    elif _out_of_memory(error):
        status = "oom"
    return Failed(status, reason, phase, "".join(traceback.format_exception(error))[-20_000:])


def _out_of_memory(error: BaseException) -> bool:
    if isinstance(error, (MemoryError, torch.OutOfMemoryError)):
        return True
    if isinstance(error, OSError):
        return error.errno == errno.ENOMEM
    return isinstance(error, RuntimeError) and any(t in str(error).lower() for t in _OUT_OF_MEMORY)
