"""The sampler: one process beside a session, which reads what CPUs and GPUs count and never measures.

As a program (`python -m runner.telemetry.sampler`) it takes an order a line on its standard input, as JSON
with the members `id`, `order` and what that needs, and answers each with a line of the same `id`:

    mark    root                all counters now, as a Reading
    watch   root, hz, cpus,     rows from now on, into files that begin with `spool`, the host's about `cpus`
            spool               (none: the measured ones)
    rest                        no more rows

The end of its input, that is of whoever started it, is its own. A parent-death signal would not do: it comes
when the thread ends that started a process.
"""

import argparse
import contextlib
import json
import os
import signal
import sys
import time
from collections.abc import Iterable, Mapping
from concurrent.futures import Future, wait
from dataclasses import asdict
from pathlib import Path
from typing import Any

from .counters import GpuCounters, HostCounters, Reading
from .gpu.processes import Pids
from .gpu.source import GpuSource
from .host.source import HostSource
from .recording import MOST_HZ
from .sample_log import Spool
from .source_thread import Desk

#: Whoever asks has an answer after this long, whatever hangs.
_PATIENCE_SECONDS = 1.5
#: Loading a driver for the first time takes seconds.
_FIRST_PATIENCE_SECONDS = 20.0
_NICER = 5


class Desks:
    """The sources and what is asked of them."""

    def __init__(self, uuids: tuple[str, ...], cpus: tuple[int, ...], allowed: tuple[int, ...]) -> None:
        controller = os.getppid()
        host = HostSource(cpus, allowed, controller)
        self._started = time.monotonic()
        self._host = Desk("the kernel", host)
        self._gpus = Desk("NVML", GpuSource(uuids, Pids(controller, lambda: host.members))) if uuids else None

    def answer(self, order: Mapping[str, Any]) -> dict[str, Any]:
        """Do what one line says; answers the members of the reply."""
        match order["order"]:
            case "mark":
                return {"reading": asdict(self._mark(int(order["root"])))}
            case "watch":
                return {"trouble": self._settle(self._watch(order), cancel=False)}
            case "rest":
                return {"trouble": self._settle({desk: desk.rest() for desk in self._desks()}, cancel=False)}
            case unknown:
                return {"trouble": f"the sampler knows no order {unknown}"}

    def _desks(self) -> list[Desk]:
        return [desk for desk in (self._host, self._gpus) if desk is not None and not desk.silent]

    def _watch(self, order: Mapping[str, Any]) -> "dict[Desk, Future[Any]]":
        about = int(order["root"]), min(MOST_HZ, float(order["hz"])), tuple(map(int, order["cpus"]))
        return {
            desk: desk.watch(*about, Spool(Path(f"{order['spool']}-{number}.jsonl")))
            for number, desk in enumerate(self._desks())
        }

    def _mark(self, root: int) -> Reading:
        before = time.monotonic_ns()
        asked = {desk: desk.mark(root) for desk in self._desks()}
        trouble = [self._settle(asked, cancel=True)]
        host: HostCounters | None = _value(asked.get(self._host))
        gpus: tuple[GpuCounters, ...] = ()
        if self._gpus is not None and (told := _value(asked.get(self._gpus))) is not None:
            gpus, missing = told
            trouble.append(missing)
        text = "; ".join(part for part in trouble if part)
        return Reading((before + time.monotonic_ns()) // 2, host, gpus, text)

    def _settle(self, asked: Mapping[Desk, "Future[Any]"], cancel: bool) -> str:
        """Wait for the answers, but not for ever; answers what has gone wrong, also before."""
        wait(asked.values(), timeout=_PATIENCE_SECONDS)
        trouble: list[str] = []
        for desk, future in asked.items():
            if not future.done():
                trouble.append(self._missed(desk))
                if cancel:
                    future.cancel()
            elif (error := future.exception()) is not None:
                trouble.append(f"{desk.name}: {type(error).__name__}: {error}")
            elif isinstance(said := future.result(), str) and said:
                trouble.append(said)
        earlier = (desk for desk in (self._host, self._gpus) if desk is not None and desk not in asked)
        return "; ".join([*trouble, *(desk.silent for desk in earlier)])

    def _missed(self, desk: Desk) -> str:
        if not desk.ready.is_set() and time.monotonic() - self._started < _FIRST_PATIENCE_SECONDS:
            return f"{desk.name} is still being started"
        desk.silent = f"{desk.name} does not answer: nothing within {_PATIENCE_SECONDS:g} s"
        return desk.silent


def _value(future: "Future[Any] | None") -> Any:
    answered = future is not None and future.done() and not future.cancelled() and not future.exception()
    return future.result() if future is not None and answered else None


def _serve(desks: Desks, lines: Iterable[str]) -> None:
    for line in lines:
        order: dict[str, Any] = json.loads(line)
        reply = {"id": order["id"], **desks.answer(order)}
        sys.stdout.write(json.dumps(reply) + "\n")
        sys.stdout.flush()


def _listed(value: str) -> tuple[str, ...]:
    return tuple(part for part in value.split(",") if part)


def _numbers(value: str) -> tuple[int, ...]:
    return tuple(int(part) for part in _listed(value))


def main() -> None:
    """Take a place aside, then answer until the input ends."""
    parser = argparse.ArgumentParser(prog="sampler", description=__doc__)
    parser.add_argument("--uuids", type=_listed, default=(), help="GPUs to read")
    parser.add_argument("--cpus", type=_numbers, default=(), help="measured CPUs; none: all")
    parser.add_argument("--own-cpus", type=_numbers, default=(), help="CPUs to run on")
    options = parser.parse_args()
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    allowed = tuple(sorted(os.sched_getaffinity(0)))
    with contextlib.suppress(OSError):
        os.nice(_NICER)
        if options.own_cpus:
            os.sched_setaffinity(0, options.own_cpus)
    # Nobody reading any more is an end like any other.
    with contextlib.suppress(BrokenPipeError):
        _serve(Desks(options.uuids, options.cpus, allowed), sys.stdin)
    # A thread may hang in a driver: nobody waits for it.
    os._exit(0)


if __name__ == "__main__":
    main()
