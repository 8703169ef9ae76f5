"""Runs that measured techniques, on a CPU and on a GPU, with numbers that are easy to check by hand."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime, timedelta
from hashlib import sha256

from analysis.speedups import Gain, GainRefusal, NoGain
from dashboard.techniques.results import TechniqueRun, read_techniques
from records.environments import Environment
from records.machines import Machine
from records.outcomes import Outcome
from records.runs import Run, RunPreset
from support.builders.run_records import (
    FIRST_NIGHT,
    a_machine,
    a_preset,
    a_run,
    an_environment,
    an_outcome,
    measurements_for,
)
from support.builders.stored_run import store_run
from support.sqlite_files import open_with_tables

RESNET, BERT = "resnet50/infer/batch=8,image=64", "bert_base/infer/batch=4,tokens=128"
TRAIN = "bert_base/train/batch=1,tokens=128"
MLP = "mlp_overhead/infer/batch=64"
CPU, GPU = "Xeon 6430, 2 cores", "8 x H200"
VERSION = "2.13.0+cpu"


@dataclass(frozen=True)
class Measured:
    """One case: its min-based latency (ms) by replicate, items of a step, and whatever else it measured."""

    case: str
    floors: tuple[float, ...]
    items: int = 8
    metrics: Mapping[str, float] = field(default_factory=dict[str, float])
    status: str = "ok"
    reason: str = ""
    tolerance: float = 0.001
    cold: float | None = None
    warm: float | None = None


#: Compiled twice as fast, 10 s of compiling: 10 / (0.05 x (2 - 1)) is 200 steps.
ON_CPU = (
    Measured(f"{RESNET}/eager", (100.0, 101.0, 100.0), metrics={"rss_peak_steady": 600.0}),
    Measured(
        f"{RESNET}/compile=default",
        (50.0, 50.5, 50.0),
        metrics={"rss_peak_steady": 900.0},
        cold=10.0,
        warm=1.0,
    ),
    Measured(f"{RESNET}/compile=max-autotune", (40.0, 40.5, 40.0), cold=60.0, warm=2.0),
    Measured(f"{RESNET}/compile=aot_eager", (105.0, 106.0, 104.0), cold=3.0, warm=0.5),
    Measured(
        f"{BERT}/eager",
        (120.0, 121.0, 120.0),
        items=512,
        metrics={"rss_peak_steady": 700.0, "model_size": 147.0},
    ),
    Measured(
        f"{BERT}/precision=int8-dynamic",
        (60.0, 60.5, 60.0),
        items=512,
        metrics={"error": 0.027, "rss_peak_steady": 700.0, "model_size": 105.0},
        tolerance=0.1,
    ),
    Measured(f"{BERT}/precision=bf16", (), status="wrong", reason="error 0.4 is more than 0.05"),
    Measured(f"{RESNET}/cpus=all", (60.0, 61.0, 60.0), metrics={"throughput_per_core": 66.0}),
    Measured(f"{RESNET}/cpus=all,instances=2", (90.0, 91.0, 90.0), items=16),
    Measured(f"{RESNET}/allocator=jemalloc", (99.0, 102.0, 101.0)),
    Measured(f"{TRAIN}/eager", (200.0, 201.0, 200.0), items=128),
    Measured(f"{TRAIN}/cpus=all,parallel=ddp", (200.0, 201.0, 200.0), items=128),
    Measured(
        f"{TRAIN}/cpus=all,parallel=ddp,ranks=2",
        (250.0, 251.25, 250.0),
        items=256,
        metrics={"exposed_communication": 40.0, "exposed_share": 0.16, "bus_bandwidth": 1.5},
    ),
    Measured(f"{MLP}/compile=tensorrt", (), status="unsupported", reason="torch_tensorrt is not installed"),
)
ON_GPU = (
    Measured(
        f"{MLP}/eager",
        (0.20, 0.201, 0.20),
        metrics={
            "launch_bound": 0.7,
            "cuda_peak_allocated": 10.0,
            "intensity_by_ridge": 0.2,
            "roofline_share": 0.65,
        },
    ),
    Measured(
        f"{MLP}/graph=capture",
        (0.08, 0.081, 0.08),
        metrics={"launch_bound": 0.1, "capture": 4.0, "cuda_peak_allocated": 12.0},
    ),
    Measured(f"{RESNET}/eager", (5.0, 5.05, 5.0)),
)


def fingerprint(text: str) -> str:
    """As long and as arbitrary as a real one."""
    return sha256(text.encode()).hexdigest()


def machine(hardware: str = CPU) -> Machine:
    """A machine of some hardware."""
    found = a_machine(f"host-{fingerprint(hardware)[:4]}", hardware)
    made = replace(found.hardware, fingerprint=fingerprint(hardware))
    return replace(found, fingerprint=fingerprint(found.name), hardware=made)


def environment(version: str = VERSION) -> Environment:
    """The environment of a PyTorch version."""
    found = an_environment(version)
    return replace(found, fingerprint=fingerprint(found.fingerprint))


def preset(name: str = "quiet", pinned: int = 1, **variables: str) -> RunPreset:
    """A preset as it applies to a machine with so many CPUs for a process."""
    settings = {"name": name, "variables": variables, "pinned_cpus": pinned, "threads": None}
    return replace(a_preset(name), fingerprint=fingerprint(f"{name} {settings}"), settings=settings)


def outcomes(
    cases: Sequence[Measured], *, version: str = VERSION, device: str = "cpu", apart: bool = False
) -> list[Outcome]:
    """The outcomes of the cases; those of one replicate were alive together, unless they were `apart`."""
    found: list[Outcome] = []
    for place, one in enumerate(cases):
        for replicate, floor in enumerate(one.floors or (0.0, 0.0)):
            metrics: dict[str, float] = {}
            if one.status == "ok":
                metrics = {"latency": floor, "latency_floor": floor, "throughput": 1e3 * one.items / floor}
                metrics |= one.metrics
                if one.cold is not None and one.warm is not None:
                    name, value = ("compile_warm", one.warm) if replicate else ("compile_cold", one.cold)
                    metrics[name] = value
            minutes = 100 * replicate + (place if apart else 0)
            found.append(
                an_outcome(
                    one.case,
                    environment=environment(version),
                    replicate=replicate,
                    status=one.status,
                    reason=one.reason,
                    metrics=metrics,
                    facts={"items": one.items, "device": device, "check": {"tolerance": one.tolerance}},
                    started_at=FIRST_NIGHT + timedelta(minutes=minutes),
                )
            )
    return found


def run(
    id: str = "run-1",
    *,
    version: str = VERSION,
    started_at: datetime = FIRST_NIGHT,
    hardware: str = CPU,
    under: RunPreset | None = None,
    suite: str = "cpu",
) -> Run:
    """A run of a suite."""
    return a_run(
        id,
        environments=[environment(version)],
        started_at=started_at,
        machine=machine(hardware),
        preset=under or preset(),
        suite=suite,
        planned=30,
    )


def save(url: str, made: Run, measured: Sequence[Outcome]) -> str:
    """Store a run with its outcomes and what they come to; the URL again."""
    with open_with_tables(url) as database:
        store_run(database, made, measured)
    return url


def reading(measured: Sequence[Outcome], id: str = "run-1", night: int = 0) -> TechniqueRun:
    """What a run of so many nights later says of these outcomes."""
    made = run(id, started_at=FIRST_NIGHT + timedelta(days=night))
    return read_techniques(
        made, VERSION, measured, measurements_for([o for o in measured if o.status == "ok"])
    )


def gain(ratio: float | None, low: float | None = None, high: float | None = None) -> Gain:
    """A speed-up over three pairs."""
    reason = None if ratio is not None else GainRefusal(NoGain.NO_PAIR)
    return Gain(
        "speed-up",
        f"{RESNET}/compile=default",
        "e",
        f"{RESNET}/eager",
        "latency_floor",
        ratio,
        low,
        high,
        3,
        0,
        reason,
    )
