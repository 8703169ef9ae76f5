"""The sampler process: reads the counters of CPUs and GPUs for one session and never measures itself.

The program (`python -m runner.telemetry.sampler`) reads orders from standard input, one JSON object a line
with the members `id`, `order` and arguments, and writes one reply line with the same `id`:

    read    root                 read all counters now; replies with a Reading
    start   root, hz, cpus, log  write rows to files whose names begin with `log`; the host's rows cover
                                 `cpus` (none: the measured ones)
    stop                         stop writing rows

The process ends at the end of its input, that is, when the controller ends. A parent-death signal would not
do: the kernel sends it when the thread ends that started the process.
"""

import argparse
import contextlib
import json
import os
import queue
import signal
import sys
import threading
import time
from collections.abc import Callable, Iterable, Mapping
from concurrent.futures import Future, wait
from dataclasses import asdict
from pathlib import Path
from typing import Any, Protocol

from .gpu.source import GpuSource, Pids
from .host_source import HostSource
from .sample_log import SampleLog
from .telemetry_interface import GpuCounters, HostCounters, Reading


class TelemetrySource(Protocol):
    """Counters on request, and rows between requests."""

    def open(self) -> None:
        """Prepare the source, which may take seconds."""
        ...

    def read_counters(self, root: int) -> Any:
        """All counters now."""
        ...

    def begin(self, root: int, hz: float, log: SampleLog, cpus: tuple[int, ...] = ()) -> float:
        """Start the first row, about `cpus` where rows are about CPUs; returns the seconds between rows."""
        ...

    def row(self, log: SampleLog) -> None:
        """End a row and start the next."""
        ...

    def end(self, log: SampleLog) -> None:
        """Write what is still buffered."""
        ...


class SourceThread:
    """One source and its thread. Once `failure` is set (the reason), the source is not used again."""

    def __init__(self, name: str, source: TelemetrySource) -> None:
        self.name = name
        self.failure = ""
        self.ready = threading.Event()
        self._source = source
        self._orders: queue.SimpleQueue[tuple[Future[Any], Callable[[], Any]]] = queue.SimpleQueue()
        self._log: SampleLog | None = None
        self._seconds = 1.0
        self._due = 0.0
        threading.Thread(target=self._run, name=name, daemon=True).start()

    def read_counters(self, root: int) -> Future[Any]:
        """Read all counters."""
        return self._submit(lambda: self._source.read_counters(root))

    def start(self, root: int, hz: float, cpus: tuple[int, ...], log: SampleLog) -> Future[Any]:
        """Write rows from now on."""
        return self._submit(lambda: self._begin(root, hz, cpus, log))

    def stop(self) -> Future[Any]:
        """Stop writing rows; the result says how many could not be written, or is empty."""
        return self._submit(self._end)

    def _submit(self, order: Callable[[], Any]) -> "Future[Any]":
        future: Future[Any] = Future()
        self._orders.put((future, order))
        return future

    def _run(self) -> None:
        try:
            self._source.open()
        except Exception as error:
            self.failure = _defect(error)
            return
        self.ready.set()
        while not self.failure:
            try:
                future, order = self._orders.get(timeout=self._seconds_to_row())
            except queue.Empty:
                self._row()
                continue
            if future.set_running_or_notify_cancel():
                try:
                    future.set_result(order())
                except Exception as error:
                    future.set_exception(error)

    def _seconds_to_row(self) -> float | None:
        return None if self._log is None else max(0.0, self._due - time.monotonic())

    def _begin(self, root: int, hz: float, cpus: tuple[int, ...], log: SampleLog) -> None:
        self._end()
        self._seconds = self._source.begin(root, hz, log, cpus)
        self._log, self._due = log, time.monotonic() + self._seconds

    def _end(self) -> str:
        log, self._log = self._log, None
        if log is None:
            return ""
        self._source.end(log)
        return log.close()

    def _row(self) -> None:
        if self._log is None:
            return
        began = time.monotonic()
        try:
            self._source.row(self._log)
        except Exception as error:
            self._log.note_all(_defect(error))
        # A late row delays the next ones: to catch up, rows would become too short to hold a sample.
        self._due = max(began + self._seconds, time.monotonic() + self._seconds / 2)


def _defect(error: Exception) -> str:
    return f"a defect in Pyrometer: {type(error).__name__}: {error}"


#: Rows a second at most: the driver's own counters are no fresher, and GPM needs 100 ms between two samples.
MOST_HZ = 10.0
#: An order is answered within this time, whichever source hangs.
_TIMEOUT_SECONDS = 1.5
#: Loading a driver for the first time takes seconds.
_FIRST_TIMEOUT_SECONDS = 20.0
_NICENESS = 5


class SamplerServer:
    """Executes the controller's orders on the threads of the telemetry sources."""

    def __init__(self, uuids: tuple[str, ...], cpus: tuple[int, ...], allowed: tuple[int, ...]) -> None:
        controller = os.getppid()
        host = HostSource(cpus, allowed, controller)
        self._started = time.monotonic()
        self._host = SourceThread("the kernel", host)
        self._gpus: SourceThread | None = None
        if uuids:
            self._gpus = SourceThread("NVML", GpuSource(uuids, Pids(controller, lambda: host.members)))

    def execute(self, order: Mapping[str, Any]) -> dict[str, Any]:
        """Execute one order; returns the members of the reply."""
        match order["order"]:
            case "read":
                return {"reading": asdict(self._read_sources(int(order["root"])))}
            case "start":
                return {"problem": self._collect_problems(self._start(order), cancel=False)}
            case "stop":
                stopped = {thread: thread.stop() for thread in self._responsive()}
                return {"problem": self._collect_problems(stopped, cancel=False)}
            case unknown:
                return {"problem": f"unknown sampler order {unknown}"}

    def _threads(self) -> list[SourceThread]:
        return [thread for thread in (self._host, self._gpus) if thread is not None]

    def _responsive(self) -> list[SourceThread]:
        return [thread for thread in self._threads() if not thread.failure]

    def _start(self, order: Mapping[str, Any]) -> "dict[SourceThread, Future[Any]]":
        about = int(order["root"]), min(MOST_HZ, float(order["hz"])), tuple(map(int, order["cpus"]))
        return {
            thread: thread.start(*about, SampleLog(Path(f"{order['log']}-{number}.jsonl")))
            for number, thread in enumerate(self._responsive())
        }

    def _read_sources(self, root: int) -> Reading:
        before = time.monotonic_ns()
        pending = {thread: thread.read_counters(root) for thread in self._responsive()}
        problems = [self._collect_problems(pending, cancel=True)]
        host: HostCounters | None = _result(pending.get(self._host))
        gpus: tuple[GpuCounters, ...] = ()
        if self._gpus is not None and (answer := _result(pending.get(self._gpus))) is not None:
            gpus, missing = answer
            problems.append(missing)
        text = "; ".join(part for part in problems if part)
        return Reading((before + time.monotonic_ns()) // 2, host, gpus, text)

    def _collect_problems(self, pending: Mapping[SourceThread, "Future[Any]"], cancel: bool) -> str:
        """Wait for the results, at most `_TIMEOUT_SECONDS`; returns all problems, earlier ones included."""
        wait(pending.values(), timeout=_TIMEOUT_SECONDS)
        problems: list[str] = []
        for thread, future in pending.items():
            if not future.done():
                problems.append(self._timed_out(thread))
                if cancel:
                    future.cancel()
            elif (error := future.exception()) is not None:
                problems.append(f"{thread.name}: {type(error).__name__}: {error}")
            elif isinstance(result := future.result(), str) and result:
                problems.append(result)
        earlier = (thread.failure for thread in self._threads() if thread not in pending)
        return "; ".join([*problems, *earlier])

    def _timed_out(self, thread: SourceThread) -> str:
        if not thread.ready.is_set() and time.monotonic() - self._started < _FIRST_TIMEOUT_SECONDS:
            return f"{thread.name} is still being started"
        thread.failure = f"{thread.name} does not answer: nothing within {_TIMEOUT_SECONDS:g} s"
        return thread.failure


def _result(future: "Future[Any] | None") -> Any:
    if future is None or not future.done() or future.cancelled() or future.exception():
        return None
    return future.result()


def _serve(server: SamplerServer, lines: Iterable[str]) -> None:
    for line in lines:
        order: dict[str, Any] = json.loads(line)
        reply = {"id": order["id"], **server.execute(order)}
        sys.stdout.write(json.dumps(reply) + "\n")
        sys.stdout.flush()


def _split_list(value: str) -> tuple[str, ...]:
    return tuple(part for part in value.split(",") if part)


def _numbers(value: str) -> tuple[int, ...]:
    return tuple(int(part) for part in _split_list(value))


def main() -> None:
    """Lower the priority, pin the process, and serve orders until the input ends."""
    parser = argparse.ArgumentParser(prog="sampler", description=__doc__)
    parser.add_argument("--uuids", type=_split_list, default=(), help="GPUs to read")
    parser.add_argument("--cpus", type=_numbers, default=(), help="measured CPUs; none: all")
    parser.add_argument("--own-cpus", type=_numbers, default=(), help="CPUs to run on")
    options = parser.parse_args()
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    allowed = tuple(sorted(os.sched_getaffinity(0)))
    with contextlib.suppress(OSError):
        os.nice(_NICENESS)
        if options.own_cpus:
            os.sched_setaffinity(0, options.own_cpus)
    # A closed output ends the process as a closed input does.
    with contextlib.suppress(BrokenPipeError):
        _serve(SamplerServer(options.uuids, options.cpus, allowed), sys.stdin)
    # A thread may hang in a driver: do not wait for it.
    os._exit(0)


if __name__ == "__main__":
    main()
