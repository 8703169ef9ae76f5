"""Records of the OSS benchmark database: every field of the type that its schema has, nothing lost."""

import io
import json
from dataclasses import replace
from datetime import UTC, datetime
from typing import Any

import pytest

from interchange.exporters.oss_v3 import records_of, write_oss_v3
from interchange.runs import Catalogue, ExportedRun
from records.outcomes import MetricDefinition, Outcome
from records.runs import Run
from support.builders.run_records import (
    BERT,
    MLP,
    a_machine,
    a_run,
    an_environment,
    an_outcome,
    measurements_for,
)

#: The schema: what a field holds. A list of one type is an Array, `{...: type}` a Map from text.
TEXTS: dict[Any, Any] = {...: str}
SCHEMA: dict[str, Any] = {
    "timestamp": int,
    "schema_version": str,
    "name": str,
    "repo": str,
    "head_branch": str,
    "head_sha": str,
    "workflow_id": int,
    "run_attempt": int,
    "job_id": int,
    "servicelab_experiment_id": int,
    "servicelab_trial_id": int,
    "runners": [
        {
            "name": str,
            "type": str,
            "cpu_info": str,
            "cpu_count": int,
            "mem_info": str,
            "avail_mem_in_gb": int,
            "gpu_info": str,
            "gpu_count": int,
            "gpu_mem_info": str,
            "avail_gpu_mem_in_gb": int,
            "extra_info": TEXTS,
        }
    ],
    "benchmark": {"name": str, "mode": str, "dtype": str, "extra_info": TEXTS},
    "model": {"name": str, "type": str, "backend": str, "origins": [str], "extra_info": TEXTS},
    "inputs": {...: {"dtype": str, "extra_info": TEXTS}},
    "dependencies": {...: {"repo": str, "branch": str, "sha": str, "version": str, "extra_info": TEXTS}},
    "metric": {"name": str, "benchmark_values": [float], "target_value": float, "extra_info": TEXTS},
}
CATALOGUE = Catalogue({"dynamo.speedup": MetricDefinition("dynamo.speedup", "Speed-up", "x", "higher")}, str)


def wrong(value: Any, schema: Any, field: str = "record") -> list[str]:
    """Where a value is not of the schema's type; unknown fields count."""
    if isinstance(schema, list):
        if not isinstance(value, list):
            return [f"{field} is no array"]
        return [each for one in value for each in wrong(one, schema[0], f"{field}[]")]
    if isinstance(schema, dict):
        if not isinstance(value, dict):
            return [f"{field} is no object"]
        found: list[str] = []
        for name, one in value.items():
            inner = schema.get(name, schema.get(...))
            own = wrong(one, inner, f"{field}.{name}") if inner else [f"{field}.{name} is unknown"]
            found += own if isinstance(name, str) else [f"{field}.{name!r} is no text"]
        return found
    negative = type(value) is int and value < 0
    return [] if type(value) is schema and not negative else [f"{field} is {value!r}"]


def records(run: Run, *outcomes: Outcome) -> list[dict[str, Any]]:
    """What is written of such a run."""
    exported = ExportedRun(run, outcomes, measurements_for(outcomes), lambda _: (), lambda _: ())
    sink = io.BytesIO()
    write_oss_v3([exported], CATALOGUE, sink)
    return json.loads(sink.getvalue())


TORCH = replace(an_environment(), facts={"torch_git": "a" * 40, "cuda": "12.8", "packages": ["numpy==2.4"]})
MACHINE = a_machine()
GPUS = replace(
    MACHINE,
    hardware=replace(
        MACHINE.hardware,
        facts={"cpu": "Xeon", "cpus": 32, "gpus": ["H200", "H200"], "gpu_memory_mib": [143771, 143771]},
    ),
)
RUN = replace(
    a_run(environments=[TORCH], machine=GPUS),
    facts={"device": "cuda", "conditions": {"memory_mib": 24105, "driver": "580.1"}},
)
OUTCOMES = (
    an_outcome(MLP, metrics={"latency": 2.25, "dynamo.speedup": 1.5}),
    an_outcome(MLP, replicate=2, metrics={"latency": 0.1 + 0.2}),
    an_outcome(MLP, replicate=1, status="oom", reason="out of memory"),
    an_outcome(BERT, status="timeout", reason="600 s are over"),
)


def test_every_record_is_of_the_schema() -> None:
    assert [each for record in records(RUN, *OUTCOMES) for each in wrong(record, SCHEMA)] == []


def test_the_check_is_strict() -> None:
    record = records(RUN, *OUTCOMES)[0]
    assert wrong({**record, "unit": "ms"}, SCHEMA) == ["record.unit is unknown"]
    assert wrong({**record, "timestamp": 1.5}, SCHEMA) == ["record.timestamp is 1.5"]
    assert wrong({"metric": {"benchmark_values": [1]}}, SCHEMA) == ["record.metric.benchmark_values[] is 1"]
    assert wrong({"model": {"extra_info": {"n": 1}}}, SCHEMA) == ["record.model.extra_info.n is 1"]


def test_a_measurement_is_a_record_with_a_value_per_process() -> None:
    (record,) = [each for each in records(RUN, *OUTCOMES) if each["metric"]["name"] == "latency"]
    assert record["metric"]["benchmark_values"] == [2.25, 0.1 + 0.2]
    about = record["metric"]["extra_info"]
    assert (about["unit"], about["better"], about["n"]) == ("ms", "lower", "2")
    assert about["value_kind"] == "one per fresh process"
    assert json.loads(about["replicates"]) == [0, 2]
    assert float(about["low"]) == 0.1 + 0.2
    assert record["timestamp"] == int(datetime(2026, 9, 1, 2, tzinfo=UTC).timestamp())
    assert record["model"] == {
        "name": "mlp_overhead",
        "type": "",
        "backend": "eager",
        "origins": [],
        "extra_info": {"batch": "8", "case": MLP},
    }
    assert record["benchmark"]["mode"] == "inference"
    assert record["dependencies"]["torch"]["sha"] == "a" * 40
    assert json.loads(record["dependencies"]["torch"]["extra_info"]["packages"]) == ["numpy==2.4"]
    (runner,) = record["runners"]
    assert (runner["name"], runner["gpu_count"], runner["avail_gpu_mem_in_gb"]) == ("cuda", 2, 280)
    assert json.loads(runner["extra_info"]["conditions"])["driver"] == "580.1"


@pytest.mark.parametrize(("own", "gib"), [([143771, 143771], 280), ([143771], 288)])
def test_the_memory_of_gpus_is_the_exact_one_where_it_is_that_of_all(own: list[int], gib: int) -> None:
    # A machine's hardware has it rounded up; its conditions have its own GPUs and not its neighbours'.
    facts = {**GPUS.hardware.facts, "gpu_memory_mib": [147456, 147456]}
    rounded = replace(GPUS, hardware=replace(GPUS.hardware, facts=facts))
    run = replace(RUN, machine=rounded, facts={**RUN.facts, "conditions": {"gpu_memory_mib": own}})
    (runner,) = records(run, *OUTCOMES)[0]["runners"]
    assert runner["avail_gpu_mem_in_gb"] == gib


def test_a_metric_from_outside_has_its_own_unit() -> None:
    (record,) = [each for each in records(RUN, *OUTCOMES) if each["metric"]["name"] == "dynamo.speedup"]
    assert record["metric"]["extra_info"]["unit"] == "x"


def test_failures_are_exported_as_words() -> None:
    metrics = {
        each["model"]["name"]: each["metric"]
        for each in records(RUN, *OUTCOMES)
        if each["metric"]["name"] == "status"
    }
    assert metrics.keys() == {"mlp_overhead", "bert_base"}
    assert metrics["mlp_overhead"]["benchmark_values"] == []
    assert json.loads(metrics["mlp_overhead"]["extra_info"]["benchmark_values"]) == ["ok", "oom", "ok"]
    assert json.loads(metrics["mlp_overhead"]["extra_info"]["reasons"]) == ["", "out of memory", ""]
    assert json.loads(metrics["bert_base"]["extra_info"]["benchmark_values"]) == ["timeout"]


def test_the_dtype_is_exported_where_the_case_names_it() -> None:
    (record,) = records(RUN, an_outcome(BERT, metrics={"latency": 1.0}))
    assert (record["benchmark"]["dtype"], record["benchmark"]["mode"]) == ("amp-bf16", "training")


def test_a_measurement_without_its_processes_keeps_its_point() -> None:
    measured = measurements_for(OUTCOMES)
    exported = ExportedRun(RUN, (), measured, lambda _: (), lambda _: ())
    first = next(records_of(exported, CATALOGUE))
    assert first["metric"]["benchmark_values"] == [measured[0].point]
    assert first["metric"]["extra_info"]["value_kind"] == "median of fresh processes"
    assert "replicates" not in first["metric"]["extra_info"]


def test_whatever_the_facts_hold_the_schema_is_kept() -> None:
    odd = replace(
        a_run(started_at=datetime(1969, 1, 1, tzinfo=UTC)),
        facts={"device": 7, "conditions": [], "timing": {"deep": [None]}},
        machine=replace(MACHINE, hardware=replace(MACHINE.hardware, facts={"gpus": "one", "cpus": "many"})),
    )
    found = records(odd, an_outcome("no key", metrics={"latency": 1.0}))
    assert [each for record in found for each in wrong(record, SCHEMA)] == []
    assert found[0]["model"]["name"] == "no key"


def test_without_runs_it_is_an_empty_list() -> None:
    sink = io.BytesIO()
    write_oss_v3([], CATALOGUE, sink)
    assert json.loads(sink.getvalue()) == []


def test_a_run_that_does_not_say_its_device_ran_on_what_its_machine_has() -> None:
    def device(**facts: Any) -> str:
        machine = a_machine()
        run = replace(
            a_run(), facts={}, machine=replace(machine, hardware=replace(machine.hardware, facts=facts))
        )
        outcome = an_outcome()
        one = ExportedRun(run, [outcome], measurements_for([outcome]), lambda _: (), lambda _: ())
        return next(iter(records_of(one, CATALOGUE)))["runners"][0]["name"]

    assert device(cpus=8) == "cpu"
    assert device(gpus=["NVIDIA H200"]) == "cuda"
    assert device(imported=True) == "unknown"
