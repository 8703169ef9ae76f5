"""Probes of the driver by the program's own telemetry; run under the program's interpreter.

python benchmarks/gpu/nvml_probes.py --python MEASURED --scratch FOLDER [--uuid GPU-...]
"""

import argparse
import os
import shutil
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Generator, Mapping
from contextlib import contextmanager
from pathlib import Path
from statistics import fmean, quantiles
from typing import Any

from probe_loop import Answer, NotHere, serve

from records.telemetry import Recording
from runner.telemetry.gpu.card_state import card_state
from runner.telemetry.gpu.nvml import Absent, N, ask, gpus, library, memory, processes, text
from runner.telemetry.gpu.source import GpuSource, Pids
from runner.telemetry.sample_log import SampleLog, bare
from runner.telemetry.sampler_client import Sampler
from runner.telemetry.summary import rows_of, summarise
from runner.worker.messages import Window

FOLDER = Path(__file__).resolve().parent
TRACE = FOLDER.parents[1] / "tests/support/fakes/nvml_trace.py"
TRACE_FILE = "nvml_trace.txt"
_MIB = 1 << 20
_READS = 50
#: Between two reads, so that a row of the hardware counters is long enough.
_READ_EVERY_SECONDS = 0.12
_STATE = ("power_limit_w", "max_sm_clock_mhz", "compute_mode")
_SMI = {"power.limit": "power_limit_w", "clocks.max.sm": "max_sm_clock_mhz"}


class NvmlProbes:
    """The probes; `python` computes the load, `uuid` is the device it computes on."""

    def __init__(self, python: str, scratch: Path, uuid: str) -> None:
        self._python = python
        self._scratch = scratch
        self._handles = {text(ask(N.nvmlDeviceGetUUID, handle)): handle for handle in gpus()}
        if not self._handles:
            raise NotHere("the driver lists no GPU")
        wanted = [own for own in self._handles if not uuid or bare(own) == bare(uuid)]
        if not wanted:
            raise NotHere(f"NVML lists no device {uuid}")
        self._uuid = wanted[0]
        self._handle = self._handles[self._uuid]

    def card_state(self) -> Answer:
        """The state of every card, before anything of ours has touched one."""
        states = {uuid: card_state(handle) for uuid, handle in self._handles.items()}
        listed = {uuid: processes(handle) for uuid, handle in self._handles.items()}
        foreign = sum(len(found) for found in listed.values() if not isinstance(found, Absent))
        differing = [line for uuid, state in states.items() for line in _smi_differences(uuid, state)]
        each = states.values()
        return {
            "card_state": {
                "states": states,
                "state_missing": sum(name not in state for state in each for name in _STATE),
                "smi_differs": len(differing),
                "smi": differing,
                "foreign_processes": foreign,
                "compute_mode_default": int(all(one.get("compute_mode") == "default" for one in each)),
                "mig_off": int(all(one.get("mig", "off") == "off" for one in each)),
                "memory_used_mib": self._used_mib(),
            }
        }

    def memory_used(self) -> Answer:
        """MiB in use on all cards together."""
        return {"memory_used": {"mib": self._used_mib()}}

    def nvml_latency(self) -> Answer:
        """How long it takes to read all counters, and to write a row."""
        source = GpuSource((self._uuid,), Pids(os.getpid(), frozenset))
        if missing := source.open():
            raise NotHere(missing)
        log = SampleLog(self._scratch / "latency.jsonl")
        source.begin(os.getpid(), 10.0, log)
        reads: list[float] = []
        rows: list[float] = []
        for _ in range(_READS):
            time.sleep(_READ_EVERY_SECONDS)
            for taken, call in (
                (reads, lambda: source.read_counters(os.getpid())),
                (rows, lambda: source.row(log)),
            ):
                started = time.perf_counter()
                call()
                taken.append((time.perf_counter() - started) * 1e3)
        source.end(log)
        # A mark reads twice: before a block and after it.
        marks = [2 * read for read in reads]
        return {
            "nvml_latency": {
                "p50_ms": quantiles(marks, n=100)[49],
                "p95_ms": quantiles(marks, n=100)[94],
                "max_ms": max(*marks, *rows),
                "row_p95_ms": quantiles(rows, n=100)[94],
            }
        }

    def process_ids(self) -> Answer:
        """Whether the driver lists a process of ours that computes."""
        with self._load("product") as loading:
            time.sleep(1.0)
            listed = processes(self._handle)
            if isinstance(listed, Absent):
                raise NotHere(listed.reason)
            visible = Pids(os.getpid(), frozenset).visible(listed)
        size = listed.get(loading.pid)
        known = visible is None or loading.pid in visible
        return {
            "process_ids": {
                "own_listed_or_unknown": int(known),
                "same_namespace": int(visible is not None),
                "own_mib": size and size / _MIB,
                "listed": len(listed),
            }
        }

    def counters(self) -> Answer:
        """Means of the hardware counters at rest, under copies and under products; with them the power.

        A card without such counters, before Hopper, has its power only.
        """
        idle, _ = self._sampled(2.0)
        if idle.utilisation_source != "gpm":
            with self._load("product"):
                _, power = self._sampled(6.0)
            reason = f"no hardware counters: {'; '.join(idle.notes)}"[:300]
            return {"counters": {"skip": reason}, "power": power}
        with self._load("copy"):
            copied, _ = self._sampled(2.5)
        with self._load("product"):
            multiplied, power = self._sampled(6.0)
        means = {
            "idle_sm": _mean(idle, "sm_utilisation"),
            "copy_dram": _mean(copied, "dram_bandwidth"),
            "copy_tensor": _mean(copied, "tensor"),
            "product_sm": _mean(multiplied, "sm_utilisation"),
            "product_tensor": _mean(multiplied, "tensor"),
            "product_dram": _mean(multiplied, "dram_bandwidth"),
        }
        return {"counters": means, "power": power}

    def trace(self) -> Answer:
        """Record NVML under load into a script for its stand-in."""
        file = self._scratch / TRACE_FILE
        with self._load("product"):
            started = time.monotonic()
            subprocess.run([sys.executable, str(TRACE), str(file), "--seconds", "8"], check=True)
        lines = file.read_text().splitlines()
        return {"trace": {"lines": len(lines), "seconds": time.monotonic() - started}}

    def _used_mib(self) -> float:
        rooms = [memory(handle) for handle in self._handles.values()]
        return sum(room["used"] for room in rooms if not isinstance(room, Absent)) / _MIB

    @contextmanager
    def _load(self, kind: str) -> Generator["subprocess.Popen[str]"]:
        """A process that computes while the context lasts."""
        command = [self._python, str(FOLDER / "torch_probes.py"), "load", kind]
        with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as process:
            assert process.stdin and process.stdout
            if process.stdout.readline().strip() != "ready":
                raise RuntimeError(f"the load {kind} ended with {process.wait()}")
            yield process
            process.stdin.close()

    def _sampled(self, seconds: float) -> tuple[Recording, dict[str, float | None]]:
        """What a telemetry window of so many seconds records of the device, and figures of its power."""
        sampler = Sampler(self._scratch / "rows", (self._uuid,), (), (), "acceptance")
        instant: list[float] = []
        ends = threading.Event()
        reader = threading.Thread(target=self._read_instant_power, args=(instant, ends))
        try:
            sampler.read_counters(os.getpid())
            reader.start()
            started = time.monotonic_ns()
            sampler.start(os.getpid(), 10.0)
            time.sleep(seconds)
            recorded = sampler.stop()
            window = Window(started, time.monotonic_ns(), 1)
        finally:
            ends.set()
            sampler.close()
        rows = rows_of(recorded, window)
        (own,) = [one for one in rows if bare(one.device) == bare(self._uuid)]
        metrics, _ = summarise(rows, window, 1.0)
        energy = own.values.get("energy", ())
        known = [
            (joule, end - start)
            for joule, start, end in zip(energy, own.started_ns, own.ended_ns, strict=bool(energy))
            if joule is not None
        ]
        watts = sum(joule for joule, _ in known) / sum(ns for _, ns in known) * 1e9 if known else None
        metric = metrics.get("power")
        return own, {
            "counter_w": watts,
            "instant_w": fmean(instant) if instant else None,
            "metric_w": metric,
            "counter_by_instant": watts / fmean(instant) if watts and instant else None,
            "metric_by_counter": metric / watts if metric and watts else None,
        }

    def _read_instant_power(self, found: list[float], ends: threading.Event) -> None:
        while not ends.wait(0.1):
            answer = ask(N.nvmlDeviceGetFieldValues, self._handle, [N.NVML_FI_DEV_POWER_INSTANT])
            if not isinstance(answer, Absent) and answer[0].nvmlReturn == N.NVML_SUCCESS:
                found.append(answer[0].value.uiVal / 1e3)


def _mean(recording: Recording, column: str) -> float | None:
    values = [value for value in recording.values.get(column, ()) if value is not None]
    return fmean(values) if values else None


def _smi_differences(uuid: str, state: Mapping[str, Any]) -> list[str]:
    """Where nvidia-smi reports another value than NVML; nothing where it is not installed."""
    smi = shutil.which("nvidia-smi")
    if smi is None:
        return []
    command = [smi, f"--id={uuid}", f"--query-gpu={','.join(_SMI)}", "--format=csv,noheader,nounits"]
    done = subprocess.run(command, capture_output=True, text=True, timeout=10)
    values = dict(zip(_SMI, done.stdout.strip().split(", "), strict=False))
    return [
        f"{uuid}: {name} {values.get(name)}, NVML {state[own]}"
        for name, own in _SMI.items()
        if own in state and values.get(name) != f"{state[own]:.2f}" and values.get(name) != str(state[own])
    ]


def main() -> None:
    """Answer probes until standard input ends."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--python", required=True)
    parser.add_argument("--scratch", type=Path, required=True)
    parser.add_argument("--uuid", default="")
    options = parser.parse_args()
    names = ("card_state", "memory_used", "nvml_latency", "process_ids", "counters", "trace")

    def probe(name: str) -> Callable[[], Answer]:
        def answer() -> Answer:
            made = NvmlProbes(options.python, options.scratch, options.uuid)
            return dict(getattr(made, name)())

        return answer

    with library() as absent:
        if absent is not None:
            serve(dict.fromkeys(names, lambda: _absent(absent.reason)))
        else:
            serve({name: probe(name) for name in names})


def _absent(reason: str) -> Answer:
    raise NotHere(reason)


if __name__ == "__main__":
    main()
