"""What our own exporter wrote as records of the OSS benchmark database comes back."""

import io
import json
from collections.abc import Iterable
from dataclasses import replace
from functools import cache
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from interchange.exporters.oss_v3 import write_oss_v3
from interchange.foreign_runs import machine_called
from interchange.importers import oss_v3
from interchange.runs import Catalogue, ExportedRun, ImportBatch
from records.outcomes import Measurement, MetricDefinition, Outcome
from records.runs import Run
from support.builders import run_records


def read(folder: Path, content: Any) -> ImportBatch:
    path = folder / "ours.json"
    path.write_text(content if isinstance(content, str) else json.dumps(content))
    return oss_v3.read_runs(path)


def metrics(imported: ImportBatch) -> list[str]:
    return [each.metric for run in imported.runs for each in run.measurements]


SPEED = MetricDefinition("dynamo.speedup", "Speed-up", "x", "higher")


def exported(run: Run, outcomes: Iterable[Outcome], measurements: Iterable[Measurement]) -> str:
    sink = io.BytesIO()
    one = ExportedRun(run, list(outcomes), list(measurements), lambda _: (), lambda _: ())
    write_oss_v3([one], Catalogue({SPEED.name: SPEED}, lambda _: ""), sink)
    return sink.getvalue().decode()


def an_ending(case: str, replicate: int, status: str = "ok", **metrics: float) -> Outcome:
    environment = run_records.an_environment().fingerprint
    reason = "" if status == "ok" else f"it {status}"
    started = run_records.FIRST_NIGHT
    return Outcome(case, environment, replicate, status, reason, "", started, 1.0, metrics)


def measured(case: str, metric: str, point: float, n: int) -> Measurement:
    environment = run_records.an_environment().fingerprint
    return Measurement(case, environment, metric, point, point / 2, point * 2, point / 3, point * 3, 0.25, n)


OUTCOMES = (
    an_ending(run_records.RESNET, 0, latency=2.1),
    an_ending(run_records.RESNET, 1, "crashed"),
    an_ending(run_records.RESNET, 2, latency=2.3),
    an_ending(run_records.BERT, 0, "oom"),
    an_ending(run_records.BERT, 1, "timeout"),
)
MEASUREMENTS = (
    measured(run_records.RESNET, "latency", 2.2, 2),
    measured(run_records.RESNET, "dynamo.speedup", 0.1, 5),
)


def test_what_we_exported_comes_back(tmp_path: Path) -> None:
    imported = read(tmp_path, exported(run_records.a_run(), OUTCOMES, MEASUREMENTS))

    [one] = imported.runs
    [environment] = one.run.environments
    assert oss_v3.knows(tmp_path / "ours.json")
    assert imported.set_aside == ()
    assert imported.metrics == (SPEED,)
    assert [replace(each, environment="") for each in one.measurements] == [
        replace(each, environment="") for each in MEASUREMENTS
    ]
    ends = {(each.case, each.replicate): (each.status, each.reason, each.metrics) for each in one.outcomes}
    assert ends == {
        (run_records.RESNET, 0): ("ok", "", {"latency": 2.1, "dynamo.speedup": 0.1}),
        (run_records.RESNET, 1): ("crashed", "it crashed", {}),
        (run_records.RESNET, 2): ("ok", "", {"latency": 2.3}),
        (run_records.BERT, 0): ("oom", "it oom", {}),
        (run_records.BERT, 1): ("timeout", "it timeout", {}),
    }
    assert one.run.started_at == run_records.FIRST_NIGHT
    assert one.run.machine.name == run_records.a_machine().name
    assert one.run.machine.hardware.label == run_records.a_machine().hardware.label
    assert environment.torch_version == run_records.an_environment().torch_version
    assert environment.name == run_records.an_environment().name
    assert one.run.preset.name == "oss-v3 quiet"
    assert one.run.planned == len(one.outcomes)


COMPILED = tuple(
    an_ending(run_records.RESNET_COMPILED, number, latency=10.0 + number, **compiled)
    for number, compiled in enumerate(
        [{"compile_cold": 30.0}, {"compile_warm": 3.0}, {"compile_warm": 4.0}, {"compile_cold": 31.0}]
    )
)


@pytest.mark.parametrize("failed", [(), (an_ending(run_records.RESNET_COMPILED, 4, "crashed"),)])
@pytest.mark.parametrize("backwards", [False, True])
def test_each_process_gets_its_own_values_back(
    tmp_path: Path, failed: tuple[Outcome, ...], backwards: bool
) -> None:
    outcomes = (*COMPILED, *failed)
    records = json.loads(exported(run_records.a_run(), outcomes, run_records.measurements_for(COMPILED)))

    imported = read(tmp_path, records[::-1] if backwards else records)

    [one] = imported.runs
    assert imported.set_aside == ()
    came_back = {each.replicate: (each.status, each.metrics) for each in one.outcomes}
    assert came_back == {each.replicate: (each.status, each.metrics) for each in outcomes}
    assert one.run.planned == len(one.outcomes) == len(outcomes)


def test_an_export_of_old_does_not_say_whose_its_values_are(tmp_path: Path) -> None:
    records = json.loads(exported(run_records.a_run(), COMPILED, run_records.measurements_for(COMPILED)))
    for record in records:
        del record["metric"]["extra_info"]["replicates"]

    [one] = read(tmp_path, records).runs

    assert [(each.replicate, each.metrics) for each in one.outcomes] == [
        (0, {"latency": 10.0, "compile_cold": 30.0, "compile_warm": 3.0}),
        (1, {"latency": 11.0, "compile_cold": 31.0, "compile_warm": 4.0}),
        (2, {"latency": 12.0}),
        (3, {"latency": 13.0}),
    ]


def test_what_the_database_rounded_comes_back_in_full(tmp_path: Path) -> None:
    records = json.loads(exported(run_records.a_run(), OUTCOMES, MEASUREMENTS))
    for record in records:
        metric = record["metric"]
        metric["benchmark_values"] = [round(value, 6) for value in metric["benchmark_values"]]
        # What the uploader adds is no part of the identity of a run of ours.
        record |= {"repo": "example/net", "head_sha": "e" * 40, "job_id": 5}

    [one] = read(tmp_path, records).runs

    assert [each.point for each in one.measurements] == [each.point for each in MEASUREMENTS]
    assert one.run.id == read(tmp_path, exported(run_records.a_run(), OUTCOMES, MEASUREMENTS)).runs[0].run.id


def test_two_presets_are_two_series(tmp_path: Path) -> None:
    quiet, loud = (
        read(tmp_path, exported(run, OUTCOMES, MEASUREMENTS)).runs[0].run
        for run in (
            run_records.a_run(),
            replace(run_records.a_run("run-2"), preset=run_records.a_preset("loud")),
        )
    )

    assert quiet.preset.fingerprint != loud.preset.fingerprint
    assert quiet.id != loud.id


def test_unlike_hardware_of_one_label_is_two_series(tmp_path: Path) -> None:
    def came_back(fingerprint: str) -> Run:
        machine = run_records.a_machine(hardware="1 x NVIDIA H200")
        run = run_records.a_run(
            machine=replace(machine, hardware=replace(machine.hardware, fingerprint=fingerprint))
        )
        return read(tmp_path, exported(run, OUTCOMES, MEASUREMENTS)).runs[0].run

    xeon, epyc = came_back("xeon"), came_back("epyc")

    assert xeon == came_back("xeon")
    assert xeon.machine.hardware.label == epyc.machine.hardware.label == "1 x NVIDIA H200"
    assert xeon.machine.hardware.fingerprint != epyc.machine.hardware.fingerprint
    assert xeon.machine.fingerprint != epyc.machine.fingerprint
    assert xeon.id != epyc.id


def test_others_who_name_a_fingerprint_are_known_by_the_label(tmp_path: Path) -> None:
    records = json.loads(exported(run_records.a_run(), OUTCOMES, MEASUREMENTS))
    for record in records:
        record["benchmark"]["extra_info"]["source"] = "other"

    [one] = read(tmp_path, records).runs

    assert one.run.machine.hardware == machine_called("any", one.run.machine.hardware.label).hardware


@pytest.mark.parametrize(
    ("entry", "value", "sentence"),
    [
        ("point", "3.5", "expected the median of its values, 2.2, found"),
        ("n", "3", "has 2 values of 3 processes"),
        ("n", "1.5", "expected a number of processes"),
        ("n", '"many"', "expected a number"),
        ("high", "0.1", "expected a point within its range and its interval"),
        ("smallest", "5", "expected a point within its range and its interval"),
        ("replicates", "[0, 1, 2]", "has 2 values of 3 processes"),
        ("replicates", "[2, 2]", "has 2 values of 1 processes"),
        ("replicates", "[0, true]", "expected the number of a process, found true"),
        ("replicates", "0", "expected a list, found 0"),
        ("point", "{", "is no JSON"),
    ],
)
def test_a_record_of_ours_that_contradicts_itself_is_set_aside(
    tmp_path: Path, entry: str, value: str, sentence: str
) -> None:
    records = json.loads(exported(run_records.a_run(), OUTCOMES, MEASUREMENTS))
    records[0]["metric"]["extra_info"][entry] = value

    imported = read(tmp_path, records)

    assert metrics(imported) == ["dynamo.speedup"]
    [problem] = imported.set_aside
    assert sentence in problem.sentence


@pytest.mark.parametrize(
    ("entry", "value", "sentence"),
    [
        ("benchmark_values", '["ok", "fine", "ok"]', "expected one of ok, skipped"),
        ("replicates", "[0, 1]", "has lists of different lengths"),
        ("replicates", "[0, -1, 2]", "expected the number of a process"),
        ("reasons", "3", "expected a list, found 3"),
        ("replicates", "[0, 0, 2]", "states the end of a process of"),
        ("replicates", "[0, 1, 3]", "has a value of process 2, which did not end well"),
    ],
)
def test_endings_of_ours_that_are_none_are_set_aside(
    tmp_path: Path, entry: str, value: str, sentence: str
) -> None:
    records = json.loads(exported(run_records.a_run(), OUTCOMES[:3], MEASUREMENTS))
    records[-1]["metric"]["extra_info"][entry] = value

    imported = read(tmp_path, records)

    assert len(metrics(imported)) == 2
    [problem] = imported.set_aside
    assert sentence in problem.sentence


json_values = st.recursive(
    st.none() | st.booleans() | st.floats() | st.integers() | st.text(),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(), inner, max_size=3),
    max_leaves=6,
)


@cache
def _ours() -> str:
    return exported(run_records.a_run(), OUTCOMES, MEASUREMENTS)


@pytest.mark.slow
@given(
    st.lists(
        st.dictionaries(st.sampled_from(["n", "point", "low", "high", "smallest"]), json_values), max_size=2
    )
)
def test_nothing_that_ours_may_say_does_anything_but_be_read_or_refused(
    tmp_path_factory: pytest.TempPathFactory, changes: list[dict[str, Any]]
) -> None:
    records = json.loads(_ours())
    for record, change in zip(records, changes, strict=False):
        record["metric"]["extra_info"] |= {name: json.dumps(value) for name, value in change.items()}

    for run in read(tmp_path_factory.getbasetemp(), records).runs:
        for each in run.measurements:
            assert each.smallest <= each.point <= each.largest
            assert each.low is None or each.high is None or each.low <= each.point <= each.high


def test_a_metric_without_a_unit_comes_back_with_its_direction(tmp_path: Path) -> None:
    loss = MetricDefinition("training.loss", "Final loss", "", "lower")
    outcome = replace(an_ending(run_records.RESNET, 0), metrics={loss.name: -0.5})
    sink = io.BytesIO()
    one = ExportedRun(
        run_records.a_run(),
        [outcome],
        run_records.measurements_for([outcome]),
        lambda _: (),
        lambda _: (),
    )
    write_oss_v3([one], Catalogue({loss.name: loss}, lambda _: ""), sink)
    imported = read(tmp_path, sink.getvalue().decode())

    assert imported.metrics == (loss,)
    assert imported.runs[0].measurements[0].point == -0.5


def test_a_difference_of_ours_comes_back_below_0(tmp_path: Path) -> None:
    outcome = an_ending(run_records.RESNET, 0, latency=0.0)
    text = exported(run_records.a_run(), [outcome], run_records.measurements_for([outcome]))
    assert read(tmp_path, text).runs[0].measurements[0].point == 0.0
