"""Readable test data: one machine, its environments, runs, outcomes and the measurements made of them."""

import math
from collections import defaultdict
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime, timedelta
from statistics import median, stdev
from typing import Any

from records.dispatch import CaseFingerprint, DispatchFingerprint, FingerprintConditions
from records.environments import Environment
from records.kinds import EnvironmentKind, RunState
from records.machines import Hardware, Machine
from records.old_runs import source_of_old_run
from records.outcomes import Measurement, Outcome, OutcomeStatus
from records.runs import Run, RunPreset
from records.telemetry import Recording

#: When the first night was; `a_night(3)` is three days later.
FIRST_NIGHT = datetime(2026, 9, 1, 2, 0, tzinfo=UTC)

MLP = "mlp_overhead/infer/batch=8/eager"
RESNET = "resnet50/infer/batch=8,image=224/eager"
RESNET_COMPILED = "resnet50/infer/batch=8,image=224/compile=default"
BERT = "bert_base/train/batch=4,length=128/precision=amp-bf16"


def a_night(number: int) -> datetime:
    """The start of the nightly run `number` days after the first."""
    return FIRST_NIGHT + timedelta(days=number)


def a_machine(name: str = "bench-1", hardware: str = "Xeon 6430, 2 cores") -> Machine:
    """A machine; those with the same `hardware` are comparable."""
    return Machine(
        fingerprint=f"machine-{name}",
        name=name,
        hardware=Hardware(f"hardware-{hardware}", hardware, {"cpu": hardware, "cores": 2}),
        facts={"kernel": "6.8.0", "governor": "performance"},
    )


def an_environment(torch_version: str = "2.13.0+cpu", name: str | None = None) -> Environment:
    """An environment, named after its PyTorch by default."""
    name = name or f"torch-{torch_version}"
    return Environment(
        fingerprint=f"environment-{name}-{torch_version}",
        name=name,
        torch_version=torch_version,
        python_version="3.12.3",
        facts={"git": "0" * 40, "cuda": None},
        kind=EnvironmentKind.MEASURED if torch_version else EnvironmentKind.CANARY,
    )


def a_preset(name: str = "quiet") -> RunPreset:
    """A measurement preset."""
    return RunPreset(f"profile-{name}", name, {"OMP_WAIT_POLICY": "passive", "threads": 1})


def a_run(
    id: str = "run-1",
    *,
    environments: Sequence[Environment] = (),
    started_at: datetime = FIRST_NIGHT,
    state: str = RunState.COMPLETE,
    machine: Machine | None = None,
    preset: RunPreset | None = None,
    suite: str = "smoke",
    planned: int = 3,
    notes: tuple[str, ...] = (),
) -> Run:
    """A run of `suite`; ended after ten minutes unless it is still running. Its `id` names its source."""
    source, source_format = source_of_old_run(id)
    return Run(
        id=id,
        suite=suite,
        started_at=started_at,
        ended_at=None if state == "running" else started_at + timedelta(minutes=10),
        state=state,
        machine=machine or a_machine(),
        environments=tuple(environments) or (an_environment(),),
        preset=preset or a_preset(),
        harness="harness-1f3a",
        planned=planned,
        command=f"pyrometer run --suite {suite}",
        notes=notes,
        facts={"load_average": 0.2},
        source=source,
        source_format=source_format,
    )


def an_outcome(
    case: str = MLP,
    *,
    environment: Environment | None = None,
    replicate: int = 0,
    status: str = OutcomeStatus.OK,
    reason: str = "",
    phase: str = "",
    latency: float = 2.0,
    metrics: Mapping[str, float] | None = None,
    facts: Mapping[str, Any] | None = None,
    log_tail: str = "",
    started_at: datetime = FIRST_NIGHT + timedelta(minutes=1),
    blocks: tuple[tuple[int, ...], ...] | None = None,
    telemetry: Sequence[Recording] = (),
) -> Outcome:
    """How one replicate ended; an `ok` one has metrics (latency in ms, memory in MiB) and samples."""
    ok = status == OutcomeStatus.OK
    if metrics is None:
        metrics = {"latency": latency, "throughput": 8000 / latency, "rss_peak": 512.0} if ok else {}
    if blocks is None:
        nanoseconds = round(latency * 1e6)
        blocks = ((nanoseconds, nanoseconds + 1500, nanoseconds - 700), (nanoseconds + 90,)) if ok else ()
    return Outcome(
        case=case,
        environment=(environment or an_environment()).fingerprint,
        replicate=replicate,
        status=status,
        reason=reason or ("" if ok else f"it ended as {status}"),
        phase=phase,
        started_at=started_at,
        wall_seconds=12.5,
        metrics=metrics,
        facts=facts if facts is not None else {"parameters": 25_557_032, "threads": 1},
        log_tail=log_tail,
        blocks=blocks,
        telemetry=tuple(telemetry),
    )


def a_recording(
    device: str = "host",
    *,
    utilisation_source: str = "none",
    values: Mapping[str, Sequence[float | None]] | None = None,
    lengths_ms: Sequence[int] = (200, 200, 200),
    started_ns: int = 7_000_000_000_000,
    notes: tuple[str, ...] = (),
) -> Recording:
    """Rows that adjoin, of `lengths_ms` each; by default a host's, half busy."""
    edges = [started_ns]
    for length in lengths_ms:
        edges.append(edges[-1] + length * 1_000_000)
    columns = values if values is not None else {"cpu_busy": (50.0,) * len(lengths_ms)}
    return Recording(
        device=device,
        name="NVIDIA H200" if utilisation_source != "none" else "Xeon 6430, 2 cores",
        utilisation_source=utilisation_source,
        started_ns=tuple(edges[:-1]),
        ended_ns=tuple(edges[1:]),
        values={column: tuple(each) for column, each in columns.items()},
        notes=notes,
    )


def measurements_for(outcomes: Sequence[Outcome]) -> list[Measurement]:
    """What the replicates of each case say together; the interval is merely their range."""
    values: dict[tuple[str, str, str], list[float]] = defaultdict(list)
    for outcome in outcomes:
        for metric, value in outcome.metrics.items():
            values[outcome.case, outcome.environment, metric].append(value)
    return [
        _measurement(case, environment, metric, each) for (case, environment, metric), each in values.items()
    ]


def _measurement(case: str, environment: str, metric: str, values: list[float]) -> Measurement:
    several = len(values) > 1
    return Measurement(
        case=case,
        environment=environment,
        metric=metric,
        point=median(values),
        low=min(values) if several else None,
        high=max(values) if several else None,
        smallest=min(values),
        largest=max(values),
        spread=stdev(map(math.log, values)) if several else None,
        n=len(values),
    )


def fingerprint_conditions(environment: Environment | None = None) -> FingerprintConditions:
    """What fingerprints on the machine of `a_run` depend on."""
    return FingerprintConditions(
        environment or an_environment(), a_machine(), a_preset(), "harness-1f3a", "cpu"
    )


def a_case_fingerprint(case: str = MLP, taken: int = 0, **parts: Mapping[str, int]) -> CaseFingerprint:
    """A fingerprint with these parts, an operator unless told otherwise, taken on a night."""
    found = DispatchFingerprint(parts or {"operators": {"aten::mm(fp32, fp32)": 2}})
    return CaseFingerprint(case, a_night(taken), OutcomeStatus.OK, fingerprint=found)
