"""One pass under torch.profiler: the table of operators and kernels, and the trace as a file.

The profiler slows what it looks at, so a worker that traces measures no block.
"""

import gzip
import os
import re
from collections.abc import Iterable
from typing import Any

from torch.profiler import ProfilerActivity, profile, schedule

from ..messages import Traced
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
    activities = [ProfilerActivity.CPU]
    if device.startswith("cuda"):
        activities.append(ProfilerActivity.CUDA)
    answers: list[Traced] = []
    last = _WARM_UP_STEPS + steps
    number = 0

    def ready(profiler: Any) -> None:
        # Also called when a step raised: then there is no table of whole steps.
        if number == last:
            answers.append(_summarise_trace(profiler, steps, path))

    with profile(
        activities=activities,
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
