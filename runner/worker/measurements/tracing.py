"""Passes under torch.profiler: a trace with its table of operators, or the files of a fingerprint.

The profiler slows what it looks at, so a worker that traces measures no block.
"""

import contextlib
import ctypes
import gzip
import os
import re
import sys
from collections.abc import Generator, Iterable
from dataclasses import asdict
from typing import Any

import torch
from torch.profiler import ProfilerActivity, profile, schedule

from ..messages import Traced
from ..prepared_case import PreparedCase
from . import compiling
from .timing import Step, synchronize

#: Steps under the profiler that are thrown away: its own first steps are slow.
_WARM_UP_STEPS = 2
#: A larger trace, compressed, is not kept: a browser could hardly open it.
_TRACE_BYTES = 64 << 20
_CHUNK_BYTES = 1 << 20
#: A case may name its regions after anything; this many rows are kept, the longest ones.
_ROWS = 1000
#: What the profiler calls a whole step. Its own time is what no operator within it accounts for.
_STEP = "ProfilerStep"
#: Rows of the profiler's that are no operator.
_NO_OPERATOR = ("[memory]", "[OutOfMemory]")
#: Inductor names a call after the hash of its graph, which differs between any two versions.
_GRAPH_HASH = re.compile(r"^(## Call CompiledFxGraph) \w+ ##$")


def trace(step: Step, device: str, steps: int, path: str) -> Traced:
    """Run `steps` profiled steps; the trace goes to `path`, which ends in `.json.gz`.

    Times are microseconds a step, as the profiler slows them down. A trace that is too large or cannot be
    written is a note; the table is kept.
    """
    answers: list[Traced] = []
    last = _WARM_UP_STEPS + steps
    number = 0

    def ready(profiler: Any) -> None:
        # Also called when a step raised: then there is no table of whole steps.
        if number == last:
            answers.append(_summarise_trace(profiler, steps, path))

    with profile(
        activities=_activities(device),
        schedule=schedule(wait=0, warmup=_WARM_UP_STEPS, active=steps, repeat=1),
        on_trace_ready=ready,
        record_shapes=True,
        profile_memory=True,
    ) as profiler:
        while number < last:
            step()
            number += 1
            if number in (_WARM_UP_STEPS, last):
                # What the thrown-away steps launched must not end in the first one kept, nor be cut off.
                synchronize(device)
            profiler.step()
    return answers[0]


def _activities(device: str) -> list[ProfilerActivity]:
    """What the profiler looks at."""
    return [ProfilerActivity.CPU, *([ProfilerActivity.CUDA] if device.startswith("cuda") else ())]


def _summarise_trace(profiler: Any, steps: int, path: str) -> Traced:
    rows, outside = _table(profiler.key_averages(), steps)
    totals = {
        "steps": float(steps),
        "self_cpu_us": _sum(rows, "operator", "self_cpu_us"),
        "self_device_us": _sum(rows, "kernel", "self_device_us"),
        "outside_us": round(outside, 3),
        "rows_left_out": float(max(0, len(rows) - _ROWS)),
    }
    try:
        note = _write(profiler, path)
    except (OSError, RuntimeError) as error:
        note = f"the trace could not be written: {error}"
    return Traced(tuple(rows[:_ROWS]), totals, "" if note else path, note)


def _sum(rows: list[dict[str, Any]], kind: str, column: str) -> float:
    return round(sum((row[column] for row in rows if row["kind"] == kind), 0.0), 3)


def _table(averages: Iterable[Any], steps: int) -> tuple[list[dict[str, Any]], float]:
    """Rows by name and kind, longest first, and the CPU time of a step that lies in no operator.

    An `operator` runs on the CPU, a `kernel` on the device; the device time of an operator is that of the
    kernels it launched, and is in their rows too.
    """
    rows: dict[tuple[str, str], dict[str, Any]] = {}
    outside = 0.0
    for event in averages:
        on_cpu = event.device_type.name == "CPU"
        if str(event.key).startswith(_STEP):
            outside += _number(event, "self_cpu_time_total") / steps if on_cpu else 0.0
            continue
        # A marked region is also drawn on the device, over the kernels that it consists of.
        if event.key in _NO_OPERATOR or (not on_cpu and getattr(event, "is_user_annotation", False)):
            continue
        name, kind = _GRAPH_HASH.sub(r"\1 ##", str(event.key)), "operator" if on_cpu else "kernel"
        row = rows.setdefault((name, kind), {"name": name, "kind": kind})
        for column, value in _columns(event).items():
            row[column] = row.get(column, 0.0) + value / steps
    ordered = sorted(rows.values(), key=lambda row: -max(row["self_cpu_us"], row["self_device_us"]))
    return [
        {k: round(v, 3) if isinstance(v, float) else v for k, v in row.items()} for row in ordered
    ], outside


def _columns(event: Any) -> dict[str, float]:
    return {
        "calls": float(event.count),
        "self_cpu_us": _number(event, "self_cpu_time_total"),
        "total_cpu_us": _number(event, "cpu_time_total"),
        "self_device_us": _number(event, "self_device_time_total", "self_cuda_time_total"),
        "total_device_us": _number(event, "device_time_total", "cuda_time_total"),
        "self_memory_bytes": _number(event, "self_cpu_memory_usage")
        + _number(event, "self_device_memory_usage", "self_cuda_memory_usage"),
    }


def _number(event: Any, *names: str) -> float:
    """The first of these attributes that this PyTorch has."""
    return next((float(getattr(event, name)) for name in names if hasattr(event, name)), 0.0)


def _write(profiler: Any, path: str) -> str:
    """Write the compressed trace; answers why it was not kept, or an empty text."""
    raw = path.removesuffix(".gz")
    os.makedirs(os.path.dirname(path), exist_ok=True)
    fits = False
    try:
        profiler.export_chrome_trace(raw)
        fits = _compressed(raw, path)
    finally:
        for leftover in (raw,) if fits else (raw, path):
            if os.path.exists(leftover):
                os.remove(leftover)
    return "" if fits else f"the trace was larger than {_TRACE_BYTES >> 20} MiB, and only the table is kept"


def _compressed(source: str, target: str) -> bool:
    """Compress one file into another; False when that grows beyond the bound."""
    with open(source, "rb") as raw, open(target, "wb") as file:
        with gzip.GzipFile(fileobj=file, mode="wb", compresslevel=6, mtime=0) as packed:
            while chunk := raw.read(_CHUNK_BYTES):
                packed.write(chunk)
                if file.tell() > _TRACE_BYTES:
                    return False
        return file.tell() <= _TRACE_BYTES


#: Files in the folder of a fingerprint: events of the profiler, and what the libraries printed.
EVENTS, PRINTED = "events.json", "printed.txt"
#: The first step compiles and fills caches; under CUDA graphs the second records and the third replays.
_STEPS_BEFORE = 3


def capture_dispatch(prepared: PreparedCase, device: str, folder: str) -> dict[str, Any]:
    """Run one untimed step (of inputs of several shapes one of each) and write what was chosen into `folder`.

    The verbose modes of oneDNN and MKL are on. Answers counters of the compiler, and by library why it has no
    lines. The controller reads the files: what they mean can be learnt anew without another harness.
    """
    steps = len(prepared.shapes) if len(set(prepared.shapes)) > 1 else 1
    for _ in range(_STEPS_BEFORE * steps):
        prepared.step()
    synchronize(device)
    prepared.rotation.rewind()
    with contextlib.ExitStack() as stack:
        stack.enter_context(_stdout_in(os.path.join(folder, PRINTED)))
        missing = _verbose(stack)
        profiler = stack.enter_context(profile(activities=_activities(device), record_shapes=True))
        for _ in range(steps):
            prepared.step()
        synchronize(device)
    profiler.export_chrome_trace(os.path.join(folder, EVENTS))
    facts: dict[str, Any] = {"missing": missing}
    if prepared.key.axis("compile") != "none":
        facts["compile"] = asdict(compiling.report())
    return facts


def _verbose(stack: contextlib.ExitStack) -> dict[str, str]:
    """Switch the verbose modes on within `stack`; answers why one is not."""
    missing: dict[str, str] = {}
    for name, library in (("onednn", torch.backends.mkldnn), ("mkl", torch.backends.mkl)):
        if not library.is_available():
            missing[name] = "this PyTorch is built without it"
            continue
        try:
            stack.enter_context(library.verbose(library.VERBOSE_ON))
        except Exception as error:
            missing[name] = f"its verbose mode cannot be switched on: {type(error).__name__}"
    return missing


@contextlib.contextmanager
def _stdout_in(path: str) -> Generator[None]:
    """Within the block what this process prints, C libraries included, goes to a file."""
    _flush()
    stdout = os.dup(1)
    file = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o644)
    try:
        os.dup2(file, 1)
        yield
    finally:
        _flush()
        os.dup2(stdout, 1)
        os.close(file)
        os.close(stdout)


def _flush() -> None:
    sys.stdout.flush()
    ctypes.CDLL(None).fflush(None)
