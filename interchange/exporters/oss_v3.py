"""Measurements as records of the OSS benchmark database, version 3, as its uploader takes them.

Fields of the schema hold what they can; an `extra_info` holds the rest as text. Fields that say which change
was under test (`repo`, `head_sha`, `workflow_id`, ...) are left to the uploader, which fills in what a record
does not say.
"""

import json
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping
from math import isfinite, nan
from typing import Any, BinaryIO

from common.text import named_values
from records.environments import Environment
from records.outcomes import Measurement, Outcome, OutcomeStatus
from records.runs import Run

from ..runs import Catalogue, ExportedRun

OssRecord = dict[str, Any]

_MODES = {"infer": "inference", "train": "training"}
#: Parts of a case key that say in which type of numbers it computes.
_DTYPES = ("precision", "dtype")


def write_oss_v3(runs: Iterable[ExportedRun], catalogue: Catalogue, sink: BinaryIO) -> None:
    """All records as one JSON list, a record on each line."""
    before = b"[\n"
    for exported in runs:
        for record in records_of(exported, catalogue):
            sink.write(before + json.dumps(record, separators=(",", ":"), allow_nan=False).encode())
            before = b",\n"
    sink.write(b"[]\n" if before == b"[\n" else b"\n]\n")


def records_of(exported: ExportedRun, catalogue: Catalogue) -> Iterator[OssRecord]:
    """A record per measurement, and one per case and environment of which not every outcome is ok.

    `benchmark_values` are one value per fresh process, in float64; the database itself keeps float32. Of
    what did not end well they are empty, and the statuses stand where the format has texts: in
    `metric.extra_info.benchmark_values`, as a JSON list.
    """
    environments = exported.environments
    outcomes: dict[tuple[str, str], list[Outcome]] = defaultdict(list)
    for outcome in sorted(exported.outcomes, key=lambda each: each.replicate):
        outcomes[outcome.case, outcome.environment].append(outcome)
    for each in exported.measurements:
        metric = _metric(each, outcomes[each.case, each.environment], catalogue)
        yield _record(exported.run, environments[each.environment], each.case, metric)
    for (case, environment), own in outcomes.items():
        if any(outcome.status != OutcomeStatus.OK for outcome in own):
            yield _record(exported.run, environments[environment], case, _statuses(own))


def _metric(measurement: Measurement, outcomes: Iterable[Outcome], catalogue: Catalogue) -> OssRecord:
    name = measurement.metric
    metric = catalogue.metric(name)
    good = [
        each for each in outcomes if each.status == OutcomeStatus.OK and isfinite(each.metrics.get(name, nan))
    ]
    values = [float(each.metrics[name]) for each in good]
    # A measurement may have come without its processes.
    whole = len(values) == measurement.n
    about = {
        "unit": metric.unit if metric else None,
        "better": metric.better if metric else None,
        "title": metric.title if metric else None,
        "status": OutcomeStatus.OK,
        "value_kind": "one per fresh process" if whole else "median of fresh processes",
        # Another metric may come from other processes, such as one that compiled with a warm cache.
        "replicates": [each.replicate for each in good] if whole else None,
        "point": measurement.point,
        "low": measurement.low,
        "high": measurement.high,
        "smallest": measurement.smallest,
        "largest": measurement.largest,
        "spread_log": measurement.spread,
        "n": measurement.n,
    }
    return {
        "name": name,
        "benchmark_values": values if whole else [measurement.point],
        "extra_info": _texts(about),
    }


def _statuses(outcomes: Iterable[Outcome]) -> OssRecord:
    own = list(outcomes)
    about = {
        "benchmark_values": [outcome.status for outcome in own],
        "reasons": [outcome.reason for outcome in own],
        "replicates": [outcome.replicate for outcome in own],
        "value_kind": "status of each fresh process",
    }
    return {"name": "status", "benchmark_values": [], "extra_info": _texts(about)}


def _record(run: Run, environment: Environment, case: str, metric: OssRecord) -> OssRecord:
    name, phase, parameters, technique = _parts(case)
    seconds = int(run.started_at.timestamp())
    record: OssRecord = {
        **({"timestamp": seconds} if seconds >= 0 else {}),
        "schema_version": "v3",
        "name": run.suite,
        "runners": [_runner(run, environment)],
        "benchmark": {
            "name": run.suite,
            "mode": _MODES.get(phase, phase),
            "dtype": _dtype(parameters, technique),
            "extra_info": _texts(_about_run(run)),
        },
        "model": {
            "name": name,
            "type": "",
            "backend": technique,
            "origins": [],
            "extra_info": _texts({**named_values(parameters), "case": case}),
        },
        "metric": metric,
    }
    if environment.torch_version:
        record["dependencies"] = {"torch": _torch(environment)}
    return record


def _about_run(run: Run) -> Mapping[str, Any]:
    timing = run.facts.get("timing")
    return {
        "source": "Pyrometer",
        "pyrometer": run.facts.get("pyrometer"),
        "imported_from": run.facts.get("imported_from"),
        "run": run.id,
        "run_state": run.state,
        "started_at": run.started_at.isoformat(),
        "ended_at": run.ended_at.isoformat() if run.ended_at else None,
        "harness": run.harness,
        "command": run.command,
        "preset": run.preset.name,
        "preset_fingerprint": run.preset.fingerprint,
        "preset_settings": run.preset.settings,
        "timing": timing,
        "device": run.facts.get("device"),
    }


def _runner(run: Run, environment: Environment) -> OssRecord:
    hardware = run.machine.hardware
    conditions = run.facts.get("conditions")
    conditions = conditions if isinstance(conditions, Mapping) else {}
    gpus = _list(hardware.facts.get("gpus"))
    memory = conditions.get("memory_mib")
    # What identifies the hardware is rounded up; a machine among several knows its own GPUs alone.
    exact, rounded = (_list(each.get("gpu_memory_mib")) for each in (conditions, hardware.facts))
    counts = {
        "cpu_count": hardware.facts.get("cpus"),
        "avail_mem_in_gb": memory // 1024 if type(memory) is int else None,
        "gpu_count": len(gpus),
        "avail_gpu_mem_in_gb": sum(_whole(exact if len(exact) == len(gpus) else rounded)) // 1024,
    }
    about = {
        "hostname": run.machine.name,
        "machine_fingerprint": run.machine.fingerprint,
        "hardware_fingerprint": hardware.fingerprint,
        "conditions": conditions or None,
    }
    return {
        "name": _device(run, environment),
        "type": hardware.label,
        "cpu_info": str(hardware.facts.get("cpu") or ""),
        "gpu_info": ", ".join(map(str, gpus)),
        **{name: value for name, value in counts.items() if type(value) is int and value >= 0},
        "extra_info": _texts(about),
    }


def _device(run: Run, environment: Environment) -> str:
    """The device of the numbers, as the schema calls it: cuda, rocm, cpu.

    A script that submitted its numbers says which GPUs its PyTorch saw; where it saw none, it was the CPU.
    """
    device = str(run.facts.get("device") or "").partition(":")[0]
    hardware = run.machine.hardware.facts
    if not device and not hardware.get("imported"):
        device = "cuda" if _list(hardware.get("gpus")) else "cpu"
    return "rocm" if device == "cuda" and environment.facts.get("hip") else device or "unknown"


def _torch(environment: Environment) -> OssRecord:
    facts = environment.facts
    about = {
        "environment": environment.name,
        "environment_fingerprint": environment.fingerprint,
        "python_version": environment.python_version,
        "cuda": facts.get("cuda"),
        "cudnn": facts.get("cudnn"),
        "hip": facts.get("hip"),
        "packages": facts.get("packages"),
    }
    return {
        "repo": "pytorch/pytorch",
        "branch": "",
        "sha": str(facts.get("torch_git") or ""),
        "version": environment.torch_version,
        "extra_info": _texts(about),
    }


def _parts(case: str) -> tuple[str, str, str, str]:
    parts = case.split("/")
    return (parts[0], parts[1], parts[2], parts[3]) if len(parts) == 4 else (case, "", "", "")


def _dtype(parameters: str, technique: str) -> str:
    stated = {**named_values(parameters), **named_values(technique)}
    return next((stated[name] for name in _DTYPES if name in stated), "")


def _texts(about: Mapping[str, Any]) -> dict[str, str]:
    """A Map(String, String): what is no text as JSON, what is not known left out."""
    return {
        name: value if isinstance(value, str) else json.dumps(value, separators=(",", ":"))
        for name, value in about.items()
        if value is not None
    }


def _list(value: Any) -> list[Any]:
    return list(value) if isinstance(value, list) else []


def _whole(values: Iterable[Any]) -> Iterator[int]:
    return (value for value in values if type(value) is int)
