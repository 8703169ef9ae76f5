"""Recordings as samplers leave them: an H200 on hardware counters, an A100 on its driver's buffer, hosts."""

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from datetime import timedelta
from typing import Any

from db.runs.store import save_outcomes, save_run
from records.machines import Machine
from records.outcomes import Outcome
from records.telemetry import Recording
from support.builders.run_records import (
    BERT,
    MLP,
    RESNET,
    RESNET_COMPILED,
    a_machine,
    a_night,
    a_run,
    an_outcome,
)
from support.sqlite_files import open_with_tables

H200 = "GPU-5d0c4f0a-1111-2222-3333-444455556666"
H200_TWO = "GPU-9e77b1d2-1111-2222-3333-444455556666"
A100 = "GPU-a1007c55-1111-2222-3333-444455556666"

#: CLOCK_MONOTONIC of a machine that has been up for an hour.
BOOTED_NS = 3_600_000_000_000
ROW_NS = 200_000_000

Wave = Callable[[float], float | None]

#: What was found on the machine of the last night.
CAPABILITIES: Mapping[str, Any] = {
    "gpu": {
        "driver": "580.65.06",
        "cuda": "13.0",
        "absent": "",
        "gpus": [
            {
                "index": 0,
                "uuid": H200,
                "name": "NVIDIA H200",
                "utilisation_source": "gpm",
                "mig_of": "",
                "capabilities": [
                    {"name": "sm_utilisation", "present": True, "detail": "hardware counters (GPM)"},
                    {"name": "energy", "present": False, "detail": "this user has no permission <yet>"},
                ],
            }
        ],
    },
    "cpu": [
        {"name": "core_busy", "present": True, "detail": "busy time of each CPU, in ticks of 10 ms"},
        {"name": "frequency", "present": False, "detail": "this kernel has no /sys/devices/system/cpu"},
    ],
}


def a_recording(
    device: str,
    name: str,
    utilisation_source: str,
    waves: Mapping[str, Wave],
    *,
    rows: int = 16,
    notes: Sequence[str] = (),
    delayed_ns: int = 0,
) -> Recording:
    """Rows of 0.2 s each; a wave maps the second in which a row began to its value."""
    began = [BOOTED_NS + delayed_ns + ROW_NS * row for row in range(rows)]
    values = {column: tuple(wave((at - BOOTED_NS) / 1e9) for at in began) for column, wave in waves.items()}
    ended = tuple(at + ROW_NS for at in began)
    return Recording(device, name, utilisation_source, tuple(began), ended, values, tuple(notes))


def wave(middle: float, swing: float = 0.0, every: float = 1.0) -> Wave:
    """Around `middle`, to and fro by `swing`."""
    return lambda second: round(middle + swing * math.sin(2 * math.pi * second / every), 3)


def without(own: Wave, start: float, end: float) -> Wave:
    """The same, without values between two seconds."""
    return lambda second: None if start <= second < end else own(second)


def an_h200(device: str = H200, busy: float = 88.0) -> Recording:
    """All columns of the hardware counters; the driver was silent for half a second."""
    return a_recording(
        device,
        "NVIDIA H200",
        "gpm",
        {
            "sm_utilisation": without(wave(busy, 6), 1.2, 1.7),
            "gpu_busy": wave(99.5, 0.4),
            "sm_occupancy": without(wave(busy / 2, 4), 1.2, 1.7),
            "tensor": without(wave(busy / 1.5, 5, 0.7), 1.2, 1.7),
            "dram_bandwidth": without(wave(31, 3, 0.5), 1.2, 1.7),
            "fp32": wave(8, 1),
            "fp16": wave(2, 0.5),
            "tensor_half": wave(busy / 1.6, 5, 0.7),
            "pcie_tx": wave(210, 30),
            "pcie_rx": wave(160, 20),
            "power": wave(612, 22),
            "energy": wave(122, 4),
            "sm_clock": wave(1965, 15),
            "memory_clock": wave(3201),
            "temperature": lambda second: 58 + round(second),
            "memory_temperature": lambda second: 63 + round(second),
            "memory_used": wave(41_216),
            "process_memory": wave(40_518),
            "memory_reserved": wave(641),
            "throttled": wave(0.4, 0.3),
            "nvlink_tx": lambda second: None,
            "nvlink_rx": lambda second: None,
        },
        notes=("Hardware counters (GPM): no answer for 0.5 s.",),
    )


def an_a100() -> Recording:
    """The columns of an older GPU: busy time, and no hardware counters."""
    return a_recording(
        A100,
        "NVIDIA A100-SXM4-80GB",
        "samples",
        {
            "gpu_busy": wave(97, 2),
            "power": wave(331, 12),
            "sm_clock": wave(1410),
            "memory_clock": wave(1593),
            "temperature": wave(52, 1, 3),
            "memory_used": wave(9_316),
            "process_memory": wave(8_400),
        },
        notes=("SM utilisation: needs Hopper or newer (GPM).",),
    )


def a_host(cpus: int = 2, rows: int = 16) -> Recording:
    """The kernel's side; the first CPU is the busy one, and the frequency cannot be read."""
    each = {f"cpu{cpu}": wave(96 if cpu == 0 else 4 + cpu % 7, 3, 0.8) for cpu in range(cpus)}
    return a_recording(
        "host",
        "Xeon 6430",
        "none",
        {
            **each,
            "cpu_busy": wave(52, 2),
            "foreign": wave(1.5, 1.2, 0.9),
            "steal": wave(0),
            "delay": wave(0.8, 0.5),
            "run_queue": wave(2),
            "frequency": lambda second: None,
            "tree_memory": lambda second: 2_310 + 14 * second,
            "switches": wave(420, 60),
            "pages_local": wave(100),
        },
        rows=rows,
        delayed_ns=30_000_000,
        notes=("Frequency: this kernel has no /sys/devices/system/cpu/cpu0/cpufreq.",),
    )


def observed(case: str, *recordings: Recording, second: int = 1, **more: Any) -> Outcome:
    """An `ok` outcome with its telemetry window."""
    outcome = an_outcome(case, started_at=a_night(0) + timedelta(seconds=second), **more)
    return with_telemetry(outcome, *recordings)


def with_telemetry(outcome: Outcome, *recordings: Recording) -> Outcome:
    """`outcome` with recordings."""
    return replace(outcome, telemetry=recordings)


def disturbed_blocks() -> dict[str, Any]:
    """Three blocks of twenty samples, the second of which took twice as long and does not count."""
    quiet = tuple(2_000_000 + 1_000 * place for place in range(20))
    interference = {
        "block": 1,
        "status": "contended",
        "cause": "cpu",
        "reason": "others took 31 % of <CPU 1>",
        "share": 0.31,
    }
    return {
        "blocks": (quiet, tuple(2 * each for each in quiet), quiet),
        "facts": {"threads": 1, "tainted_blocks": [interference]},
    }


def save(url: str, id: str, night: int, machine: Machine, *outcomes: Outcome, **facts: Any) -> None:
    """One run with its outcomes."""
    run = a_run(id, started_at=a_night(night), machine=machine, planned=len(outcomes))
    with open_with_tables(url) as database:
        save_run(database, replace(run, facts={**run.facts, **facts}))
        save_outcomes(database, run.id, outcomes)


def fill(url: str) -> None:
    """A run without telemetry, one of an A100, one of two H200s."""
    save(url, "before", 0, a_machine(), observed(MLP))
    save(url, "on-a100", 1, a_machine("dgx-1", "A100"), observed(RESNET, an_a100(), a_host()))
    save(
        url,
        "on-h200",
        2,
        a_machine("dgx-2", "2 x H200"),
        observed(RESNET, an_h200(), an_h200(H200_TWO, 61), a_host(64), second=3),
        observed(RESNET_COMPILED, an_h200(busy=96), a_host(64), second=2),
        observed(MLP, an_h200(busy=7), a_host(64), second=1, **disturbed_blocks()),
        an_outcome(MLP, replicate=1, status="contended", reason="9 of 12 blocks, at worst: others took 31 %"),
        an_outcome(BERT, status="throttled", reason="7 of 9 blocks, at worst: hw_thermal 12 % of the time"),
        telemetry=CAPABILITIES,
    )
