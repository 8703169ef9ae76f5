"""A member of a group: builds its part of the case and does what the leader orders, step for step."""

import time
from collections.abc import Callable
from dataclasses import asdict
from typing import Any

from ..case import REGISTER
from ..case_key import CaseKey
from ..measurements import compiling, memory, timing
from ..measurements.affinity_check import ThreadPlacement
from ..messages import Block
from ..prepared_case import UnsupportedCase
from ..single_process import SingleProcess
from ..worker_loop import allocates_elsewhere, failure
from .channels import SocketChannel, StoreChannel
from .collectives import collective_seconds
from .parallel import device_of
from .rank import Rank

#: Sleeping is late by up to a scheduler's tick; the last stretch before a common start is spent looking.
_LOOK_NS = 1_000_000


class Member:
    """One instance or rank of a case; at most one is built in the life of a member."""

    def __init__(self, line: SocketChannel | StoreChannel, load_user_case: Callable[[str], object]) -> None:
        self._line = line
        self._load_user_case = load_user_case
        self._device = "cpu"
        self._part: SingleProcess | None = None
        self._placement = ThreadPlacement()
        self._metrics: dict[str, float] = {}
        self._allocates_elsewhere = False

    def serve(self) -> None:
        """Execute orders until the order to leave, a failure, or the end of the leader."""
        orders: dict[str, Callable[..., Any]] = {
            "build": self._build,
            "first_call": self._first_call,
            "steps": self._steps,
            "queued": self._queue_steps,
            "settle": self._settle,
            "block": self._block,
            "forget": self._placement.forget,
            "observe": self._observe,
            "local": self._local,
            "collective": self._collective,
            "facts": self._facts,
            "metrics": self._report,
            "device_time": self._device_time,
            "reference": self._reference,
            "check": self._check,
        }
        while (order := self._line.receive()) is not None and order["do"] != "leave":
            do = order.pop("do")
            try:
                self._line.send({"done": orders[do](**order)})
            except BaseException as error:
                self._line.send({"failed": asdict(failure(error, do))})
                return

    @property
    def _single_process(self) -> SingleProcess:
        assert self._part is not None, "nothing is built"
        return self._part

    @property
    def _rank(self) -> Rank:
        if not isinstance(self._part, Rank):
            raise UnsupportedCase("independent instances do not communicate")
        return self._part

    def _build(
        self, case: str, device: str, seed: int, rank: int, local: int, world: int, store_port: int | None
    ) -> int:
        """Build this member's part; answers how many steps it takes until every shape has come twice."""
        key = CaseKey.parse(case)
        if key.name not in REGISTER:
            self._load_user_case(key.name)
        self._device = device
        self._allocates_elsewhere = allocates_elsewhere(key)
        if key.axis("parallel") == "none":
            self._part = SingleProcess(key.with_technique(instances="1"), device, seed)
            if len(set(self._part.prepared.shapes)) > 1:
                # One that is done goes on to keep the others company, and so leaves the turn of its shapes.
                raise UnsupportedCase("instances are not measured with inputs of several shapes")
        else:
            # From here on: what is synchronised, and whose memory is counted, is this rank's own GPU.
            self._device = device_of(device, local)
            self._part = Rank(key, self._device, seed, rank, world, store_port)
        return compiling.calls_of_each_shape(self._single_process.prepared.shapes)

    def _first_call(self, start_ns: int) -> dict[str, Any]:
        self._await_start(start_ns)
        taken = self._single_process.first_call()
        self._single_process.prepared.rotation.fill()
        memory.release_memory(self._device)
        trace = self._part.trace if isinstance(self._part, Rank) else None
        return {"ns": taken, "trace": trace}

    def _steps(self, count: int, start_ns: int) -> list[int]:
        self._await_start(start_ns)
        return [timing.first_call(self._single_process.prepared.step, self._device) for _ in range(count)]

    def _queue_steps(self, alone_ns: int, start_ns: int) -> dict[str, Any]:
        """Nanoseconds of a step among others in the queue of this member's GPU, and the SM clock after them.

        The clock is in MHz, None where it is not known: instances would count each other's turns.
        """
        self._await_start(start_ns)
        taken = timing.queued_step_ns(self._single_process.prepared.step, self._device, alone_ns)
        return {"ns": taken, "mhz": timing.clock_now() if isinstance(self._part, Rank) else None}

    def _settle(self) -> None:
        if not self._allocates_elsewhere:
            self._metrics |= memory.cuda_peaks(self._device, "_compile")
        timing.settle()
        memory.reset_cuda_peaks(self._device)
        self._rss_was_reset = memory.reset_peak_rss()

    def _block(self, start_ns: int, on: bool, **steps: int) -> dict[str, Any]:
        """One block of `steps` from `start_ns`; with `on` untimed steps follow until the leader calls a halt.

        So the last to finish is timed while the others run, and not alone.
        """
        self._placement.before()
        block = self._time_block(self._single_process.prepared.step, start_ns, **steps)
        self._placement.after(block)
        if on:
            self._line.send({"done": True})
            while not self._line.has_message():
                self._single_process.prepared.step()
            timing.synchronize(self._device)
            self._line.receive()
        return asdict(block)

    def _observe(self, count: int, start_ns: int) -> None:
        self._await_start(start_ns)
        for _ in range(count):
            self._single_process.prepared.step()
        timing.synchronize(self._device)

    def _local(self, start_ns: int, **steps: int) -> list[int]:
        return list(self._time_block(self._rank.local_step, start_ns, **steps).samples_ns)

    def _time_block(self, step: timing.Step, start_ns: int, **steps: int) -> Block:
        return timing.block(step, self._device, ready=lambda: self._await_start(start_ns), **steps)

    def _await_start(self, start_ns: int) -> None:
        """Return at `start_ns` of the machine's clock; with 0 as soon as every rank has come this far."""
        if start_ns or isinstance(self._line, SocketChannel):
            wait_until(start_ns)
        else:
            self._line.barrier()

    def _collective(self, kind: str, sizes: list[int]) -> list[float | None]:
        return [collective_seconds(kind, size, self._device) for size in sizes]

    def _facts(self) -> dict[str, Any]:
        return {**self._placement.facts(), **self._single_process.facts()}

    def _report(self) -> dict[str, float]:
        # Peaks first: what is measured last takes memory of its own.
        metrics = dict(self._metrics)
        if not self._allocates_elsewhere:
            metrics |= memory.cuda_peaks(self._device) | memory.cuda_allocator(self._device)
        after = memory.peak_rss_mib()
        if after is not None and self._rss_was_reset:
            metrics["rss_peak_steady"] = after
        return {**metrics, **self._placement.metrics(self._device), **self._single_process.metrics()}

    def _device_time(self, step_ns: float, start_ns: int) -> dict[str, float]:
        self._await_start(start_ns)
        return dict(self._rank.device_time(step_ns))

    def _reference(self) -> dict[str, Any]:
        return self._rank.reference()

    def _check(self) -> dict[str, Any]:
        return asdict(self._single_process.check())


def wait_until(start_ns: int) -> None:
    """Return at `start_ns` of CLOCK_MONOTONIC, which is one clock for all processes of this machine."""
    while (left := start_ns - time.monotonic_ns()) > 0:
        if left > _LOOK_NS:
            time.sleep((left - _LOOK_NS) / 1e9)
