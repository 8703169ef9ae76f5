"""The OSS benchmark database's records: the shapes they come in, what is kept, what is set aside."""

import json
import re
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest

from interchange.errors import BadFile
from interchange.importers import oss_v3
from interchange.runs import ImportBatch


def a_record(metric: Any = "speed(ms)", values: Any = (2.5,), **more: Any) -> dict[str, Any]:
    """A record as a job of a CI writes it; `more` replaces its members."""
    return {
        "timestamp": 1788400923,
        "repo": "example/net",
        "head_branch": "main",
        "head_sha": "b" * 40,
        "workflow_id": 7,
        "job_id": 9,
        "runners": [
            {"name": "cuda", "type": "NVIDIA Test", "gpu_count": 2, "extra_info": {"hostname": "h1"}}
        ],
        "benchmark": {
            "name": "Suite",
            "mode": "inference",
            "dtype": "bf16",
            "extra_info": {"device": "cuda"},
        },
        "model": {"name": "net", "type": "OSS model", "backend": "inductor"},
        "metric": {"name": metric, "benchmark_values": list(values), "target_value": 0},
    } | more


def read(folder: Path, content: Any, name: str = "records.json") -> ImportBatch:
    path = folder / name
    path.write_text(content if isinstance(content, str) else json.dumps(content))
    return oss_v3.read_runs(path)


def numbers(imported: ImportBatch) -> list[tuple[str, str, float]]:
    return [(each.case, each.metric, each.point) for run in imported.runs for each in run.measurements]


def said(imported: ImportBatch) -> list[str]:
    return [str(problem) for problem in imported.set_aside]


CASE = "net/infer/benchmark=Suite,device=cuda,dtype=bf16/backend=inductor"
TWO = [a_record(), a_record("tokens", [9])]


@pytest.mark.parametrize(
    "content",
    [
        json.dumps(TWO),
        json.dumps(TWO, indent=1),
        "\n".join(map(json.dumps, TWO)),
        f"\n{json.dumps(TWO[0])}\n\n{json.dumps(TWO[1])}\n",
        f"{json.dumps([TWO[0]])}\n{json.dumps(TWO[1])}",
        f"{json.dumps([TWO[0]])}\n{json.dumps([TWO[1]])}",
    ],
)
def test_the_shapes_of_the_uploader_hold_the_same(tmp_path: Path, content: str) -> None:
    imported = read(tmp_path, content)

    assert oss_v3.knows(tmp_path / "records.json")
    assert numbers(imported) == [(CASE, "oss.speed_ms", 2.5), (CASE, "oss.tokens", 9.0)]
    assert [(each.unit, each.better) for each in imported.metrics] == [
        ("ms", "lower"),
        ("as given", "neither"),
    ]
    assert imported.set_aside == ()


def test_a_single_object_is_one_record_and_so_is_one_over_many_lines(tmp_path: Path) -> None:
    assert numbers(read(tmp_path, json.dumps(a_record()))) == [(CASE, "oss.speed_ms", 2.5)]
    assert numbers(read(tmp_path, json.dumps(a_record(), indent=2))) == [(CASE, "oss.speed_ms", 2.5)]


def test_a_run_says_what_the_record_says(tmp_path: Path) -> None:
    dependencies = {"torch": {"repo": "pytorch/pytorch", "version": "2.14.0", "sha": "c" * 40}}
    [one] = read(tmp_path, [a_record(dependencies=dependencies)]).runs

    run, [environment] = one.run, one.run.environments
    assert run.suite == "oss.suite"
    assert run.started_at == datetime(2026, 9, 3, 2, 2, 3, tzinfo=UTC)
    assert (run.machine.name, run.machine.hardware.label) == ("h1", "2 GPUs, cuda, NVIDIA Test")
    assert run.preset.name == run.harness == oss_v3.NAME
    assert (environment.name, environment.torch_version) == ("example/net@bbbbbbbbbbbb", "2.14.0")
    assert environment.facts == {
        "repo": "example/net",
        "head_sha": "b" * 40,
        "dependencies": {"torch": {"repo": "pytorch/pytorch", "version": "2.14.0", "sha": "c" * 40}},
    }
    assert {"workflow_id": 7, "job_id": 9, "head_branch": "main"}.items() <= run.facts.items()
    assert run.facts["notes"][0] == "the time is that of the upload, not of the measuring"


def test_only_a_metric_has_to_be_there(tmp_path: Path) -> None:
    imported = read(tmp_path, {"metric": {"name": "m", "benchmark_values": [1]}}, "bare-20260903.json")

    [one] = imported.runs
    assert numbers(imported) == [("-/call/-/eager", "oss.m", 1.0)]
    assert one.run.started_at == datetime(2026, 9, 3, tzinfo=UTC)
    assert one.run.machine.hardware.label == one.run.environments[0].name == "unknown"


def test_tuples_may_be_lists_as_the_database_writes_them(tmp_path: Path) -> None:
    imported = read(
        tmp_path,
        [
            {
                "benchmark": ["Suite", "", "", {"is_dynamic": False}],
                "model": ["net", "kind", "inductor"],
                "metric": ["compile_time_instruction_count", [24640407850]],
            }
        ],
    )

    assert oss_v3.knows(tmp_path / "records.json")
    case = "net/call/benchmark=Suite,is_dynamic=false/backend=inductor"
    assert numbers(imported) == [(case, "oss.compile_time_instruction_count", 24640407850.0)]
    assert imported.metrics[0].unit == "instructions"


@pytest.mark.parametrize(
    "different",
    [
        {"head_sha": "d" * 40},
        {"job_id": 10},
        {"name": "another job"},
        {"timestamp": 1788400924},
        {"benchmark": {"name": "Other"}},
        {"runners": [{"name": "cuda", "type": "NVIDIA Test", "extra_info": {"hostname": "h2"}}]},
        {"dependencies": {"torch": {"version": "2.13.0"}}},
    ],
)
def test_what_came_from_elsewhere_is_another_run(tmp_path: Path, different: dict[str, Any]) -> None:
    assert len(read(tmp_path, [a_record(), a_record("tokens")]).runs) == 1
    assert len(read(tmp_path, [a_record(), a_record("tokens", **different)]).runs) == 2


@pytest.mark.parametrize(
    "different",
    [
        {"benchmark": {"name": "Suite", "mode": "training"}},
        {"benchmark": {"name": "Suite", "dtype": "fp16"}},
        {"benchmark": {"name": "Suite", "extra_info": {"config": {"batch": 8}}}},
        {"model": {"name": "net", "backend": "eager"}},
        {"model": {"name": "net", "extra_info": {"layers": 3}}},
        {"inputs": {"x": {"dtype": "int8"}}},
    ],
)
def test_unlike_things_have_unlike_cases(tmp_path: Path, different: dict[str, Any]) -> None:
    imported = read(tmp_path, [a_record(), a_record(**different)])

    assert len({case for case, _, _ in numbers(imported)}) == 2


def test_many_values_are_one_point_as_processes_are_unknown(tmp_path: Path) -> None:
    [one] = read(tmp_path, [a_record(values=[4.0, 1.0, 2.0])]).runs

    [measurement] = one.measurements
    assert (measurement.point, measurement.n, measurement.low) == (2.0, 1, None)


@pytest.mark.parametrize(
    ("one", "other"),
    [
        ("s", "µs"),
        ("us", "\N{GREEK SMALL LETTER MU}s"),
        ("MB", "Mb"),
        ("GB/s", "Gb/s"),
        ("Gbps", "GBps"),
        ("mW", "MW"),
        ("秒", "分"),
    ],
)
def test_units_that_differ_in_a_letter_are_two_metrics(tmp_path: Path, one: str, other: str) -> None:
    def in_a_name(unit: str) -> dict[str, Any]:
        return a_record(f"speed({unit})", model={"name": unit})

    def in_an_entry(unit: str) -> dict[str, Any]:
        metric = {"name": "speed", "benchmark_values": [2.5], "extra_info": {"unit": unit}}
        return a_record(model={"name": unit}) | {"metric": metric}

    for record in (in_a_name, in_an_entry):
        imported = read(tmp_path, [record(one), record(other)])
        assert said(imported) == []
        assert [each.unit for each in imported.metrics] == [one, other]
        assert all(re.fullmatch(r"oss\.[a-z0-9._]+", each.name) for each in imported.metrics)


@pytest.mark.parametrize(
    ("unit", "name"),
    [
        *(("ms", "ms"), ("MB", "mb"), ("GiB/s", "gib_s"), ("tokens/s", "tokens_s"), ("%", "unit")),
        *(("Gbps", "gbps"), ("mW", "mw"), ("MHz", "mhz"), ("TFLOP/s", "tflop_s"), ("°C", "c")),
    ],
)
def test_all_other_units_have_the_name_they_always_had(tmp_path: Path, unit: str, name: str) -> None:
    metric = {"name": "Speed", "benchmark_values": [2.5], "extra_info": {"unit": unit}}

    assert [each.name for each in read(tmp_path, a_record() | {"metric": metric}).metrics] == [
        f"oss.speed.{name}"
    ]


def test_of_two_directions_of_a_metric_the_first_counts(tmp_path: Path) -> None:
    def said_to_be(better: str, case: str) -> dict[str, Any]:
        about = {"unit": "points", "better": better}
        metric = {"name": "score", "benchmark_values": [2.5], "extra_info": about}
        return a_record(model={"name": case}) | {"metric": metric}

    imported = read(tmp_path, [said_to_be("higher", "net"), said_to_be("lower", "other")])

    assert [case.partition("/")[0] for case, _, _ in numbers(imported)] == ["net"]
    where = "records.json, [1].metric.benchmark_values"
    assert said(imported) == [f"{where}: of oss.score.points higher is better, not lower"]


def test_a_target_is_a_metric_of_its_own(tmp_path: Path) -> None:
    metric = {"name": "speed(ms)", "benchmark_values": [2.5], "target_value": 2.0}

    assert numbers(read(tmp_path, [a_record() | {"metric": metric}])) == [
        (CASE, "oss.speed_ms", 2.5),
        (CASE, "oss.speed_ms.target", 2.0),
    ]


@pytest.mark.parametrize("words", [["fail_accuracy"], '["fail_accuracy"]', "fail_accuracy"])
def test_a_text_is_an_outcome_of_its_own_and_not_hidden_by_numbers(tmp_path: Path, words: Any) -> None:
    accuracy = {"name": "accuracy", "benchmark_values": [], "extra_info": {"benchmark_values": words}}
    [one] = read(tmp_path, [a_record("speedup"), a_record() | {"metric": accuracy}]).runs

    ends = {each.case: (each.status, each.reason) for each in one.outcomes}
    checked = "net/infer/benchmark=Suite,device=cuda,dtype=bf16,result=accuracy/backend=inductor"
    assert ends == {CASE: ("ok", ""), checked: ("wrong", "fail_accuracy")}


def test_dynamo_tables_have_their_units_in_v3_too_and_zeros_are_missing(tmp_path: Path) -> None:
    suite = {"benchmark": {"name": "TorchInductor", "mode": "training"}}
    imported = read(tmp_path, [a_record("speedup", [1.5], **suite), a_record("abs_latency", [0], **suite)])

    assert [(each.name, each.unit, each.better) for each in imported.metrics] == [
        ("oss.speedup", "x", "higher")
    ]
    assert said(imported) == ["records.json, [1].metric.benchmark_values: 0 is no measurement"]


def test_resident_memory_of_a_cpu_is_no_hundredfold_peak(tmp_path: Path) -> None:
    """PyTorch multiplies the percentage of memory with all bytes: 200 stands for 2 GB."""
    about = {"name": "TorchInductor", "mode": "training"}
    cpu, cuda = (about | {"extra_info": {"device": device}} for device in ("cpu", "cuda"))
    values = {"values": [200.0], "metric": "eager_peak_mem"}
    records = [a_record(benchmark=cpu, **values), a_record(benchmark=cuda, **values)]
    records[0]["metric"]["target_value"] = 150.0
    imported = read(tmp_path, records)

    assert [(metric, value) for _, metric, value in numbers(imported)] == [
        ("oss.eager_rss", 2.0),
        ("oss.eager_rss.target", 1.5),
        ("oss.eager_peak_mem", 200.0),
    ]
    assert {each.unit for each in imported.metrics} == {"GB"}


def test_values_that_went_through_32_bits_are_noted(tmp_path: Path) -> None:
    through = read(tmp_path, [a_record(values=[0.1 + 1.4901161138336505e-09])]).runs[0].run
    whole = read(tmp_path, [a_record(values=[3086359081])]).runs[0].run

    assert any("32-bit" in note for note in through.facts["notes"])
    assert not any("32-bit" in note for note in whole.facts["notes"])


@pytest.mark.parametrize(
    ("bad", "where"),
    [
        ({}, "[1].metric: is missing"),
        ({"repo": "example/net"}, "[1].metric: is missing"),
        (3, "[1]: expected an object, found 3"),
        (a_record() | {"metric": "v2"}, '[1].metric: expected an object, found "v2"'),
        (
            a_record() | {"metric": "v2", "actual": 1.0, "target": 0.0},
            "[1]: is of version 2 of the format, which is not read",
        ),
        (a_record(metric=""), '[1].metric.name: expected a text, found ""'),
        (a_record(values=[]), "[1].metric.benchmark_values: holds no value"),
        (a_record(values=[1, None]), "[1].metric.benchmark_values[1]: expected a number, found null"),
        (a_record(values=[1, "pass"]), '[1].metric.benchmark_values[1]: expected a number, found "pass"'),
        (a_record(values=["purple"]), "[1].metric.benchmark_values[0]: expected a known status"),
        (a_record(timestamp="now"), '[1].timestamp: expected a number, found "now"'),
        (a_record(timestamp=1e15), "[1].timestamp: expected a time since 1970"),
        (a_record(timestamp=-5), "[1].timestamp: expected a time since 1970, found -5"),
        (a_record(runners="h1"), '[1].runners: expected a list, found "h1"'),
        (a_record(dependencies=[]), "[1].dependencies: expected an object, found a list"),
        (a_record(benchmark={"extra_info": "x"}), "[1].benchmark.extra_info: expected an object"),
        (a_record(model=["a", "b", "c", [], {}, 6]), "[1].model: expected at most 5 elements, found a list"),
        (a_record(), f"[1].metric.benchmark_values: oss.speed_ms of {CASE} is in the file twice"),
    ],
)
def test_a_bad_record_is_set_aside_with_its_place(tmp_path: Path, bad: Any, where: str) -> None:
    imported = read(tmp_path, [a_record(), bad])

    assert numbers(imported) == [(CASE, "oss.speed_ms", 2.5)]
    [sentence] = said(imported)
    assert sentence.startswith(f"records.json, {where}")


def test_a_torn_line_is_set_aside_and_the_others_stay(tmp_path: Path) -> None:
    imported = read(tmp_path, f"{json.dumps(a_record())}\n{json.dumps(a_record('tokens'))[:40]}")

    assert numbers(imported) == [(CASE, "oss.speed_ms", 2.5)]
    assert said(imported)[0].startswith("records.json, line 2, column ")


@pytest.mark.parametrize(
    ("content", "where"),
    [
        ("", "records.json, line 1, column 1: is no JSON"),
        ("[]", "records.json: holds no result"),
        ("3", "records.json: expected an object, found 3"),
        ('[{"metric": {', "records.json, line 1, column 14: is no JSON"),
        ('[{}, {"repo": "a"}]', "records.json, [0].metric: is missing"),
        ('{"metric": "speed"}\n{"metric": "speed"}', "records.json, line 1, metric: expected an object"),
        ("[" * 100_000, "records.json: is nested too deep"),
    ],
)
def test_a_file_without_any_record_is_refused_with_its_place(
    tmp_path: Path, content: str, where: str
) -> None:
    with pytest.raises(BadFile) as refused:
        read(tmp_path, content)

    assert str(refused.value).startswith(where)


def test_a_file_of_version_2_says_so(tmp_path: Path) -> None:
    old = {"name": "llama2", "metric": "load_time(ms)", "actual": 286.9, "target": 0.0, "device": "phone"}
    with pytest.raises(BadFile, match=r"\[0\]: is of version 2 of the format, which is not read"):
        read(tmp_path, [old])
