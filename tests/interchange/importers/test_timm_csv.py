"""timm's tables: columns in any order, and facts that only the file's name has."""

import os
from datetime import UTC, datetime
from pathlib import Path

import pytest

from interchange.errors import BadFile
from interchange.importers import timm_csv
from interchange.runs import ImportBatch

NAME = "benchmark-infer-amp-nchw-pt240-cu124-rtx4090-dynamo.csv"
HEADER = "model,infer_img_size,infer_samples_per_sec,infer_step_time,infer_batch_size,param_count"


def read(folder: Path, *lines: str, name: str = NAME) -> ImportBatch:
    path = folder / name
    path.write_text("\n".join(lines) + "\n")
    return timm_csv.read_runs(path)


def test_a_table_becomes_one_run(tmp_path: Path) -> None:
    [one] = read(tmp_path, HEADER, "tiny,160,4000.5,64.0,256,0.37", "wide,224,100.0,2560,256,9.9").runs

    assert one.run.machine.hardware.label == "rtx4090"
    assert one.run.environments[0].torch_version == "2.4.0"
    assert one.run.environments[0].facts == {"cuda": "12.4"}
    first, second = one.outcomes
    assert first.case == (
        "tiny/infer/batch=256,device=cuda,image=160,layout=nchw,precision=amp/compile=default"
    )
    assert first.metrics == {"timm.infer_samples_per_sec": 4000.5, "timm.infer_step_time": 64.0}
    assert second.metrics == {"timm.infer_samples_per_sec": 100.0, "timm.infer_step_time": 2560.0}


def test_columns_may_stand_in_any_order(tmp_path: Path) -> None:
    one = read(tmp_path, HEADER, "tiny,160,4000.5,64.0,256,0.37").runs[0]
    other = read(
        tmp_path,
        "infer_batch_size,infer_step_time,model,infer_samples_per_sec,infer_img_size",
        "256.0,64.0,tiny,4000.5,160",
    ).runs[0]

    assert one.outcomes[0].case == other.outcomes[0].case
    assert one.outcomes[0].metrics == other.outcomes[0].metrics


def test_another_batch_is_another_series(tmp_path: Path) -> None:
    [one] = read(tmp_path, HEADER, "tiny,160,4000,64,256,0.37", "tiny,160,3000,43,128,0.37").runs

    assert len({outcome.case for outcome in one.outcomes}) == 2


def test_a_row_may_hold_both_phases(tmp_path: Path) -> None:
    header = "model,infer_samples_per_sec,infer_batch_size,train_samples_per_sec,train_batch_size"
    [one] = read(tmp_path, header, "tiny,4000,256,900,64").runs

    assert {outcome.case.split("/")[1]: dict(outcome.metrics) for outcome in one.outcomes} == {
        "infer": {"timm.infer_samples_per_sec": 4000.0},
        "train": {"timm.train_samples_per_sec": 900.0},
    }


def test_throughput_is_better_when_higher_and_a_step_when_lower(tmp_path: Path) -> None:
    metrics = read(tmp_path, HEADER, "tiny,160,4000.5,64.0,256,0.37").metrics

    assert {each.name: (each.unit, each.better) for each in metrics} == {
        "timm.infer_samples_per_sec": ("samples/s", "higher"),
        "timm.infer_step_time": ("ms", "lower"),
    }


@pytest.mark.parametrize(
    ("name", "torch_version", "hardware", "case"),
    [
        (
            "benchmark-train-amp-nhwc-pt112-cu113-rtx3090.csv",
            "1.12",
            "rtx3090",
            "tiny/infer/device=cuda,layout=nhwc,precision=amp/eager",
        ),
        (
            "benchmark-infer-amp_bf16-nchw-pt2101-cu130-pro6000maxq.csv",
            "2.10.1",
            "pro6000maxq",
            "tiny/infer/device=cuda,layout=nchw,precision=amp_bf16/eager",
        ),
        (
            "benchmark-infer-fp32-nchw-pt221-cpu-i9_10940x-dynamo.csv",
            "2.2.1",
            "i9_10940x",
            "tiny/infer/device=cpu,layout=nchw,precision=fp32/compile=default",
        ),
        (
            "model_benchmark_amp_nchw_rtx3090.csv",
            "",
            "rtx3090",
            "tiny/infer/layout=nchw,precision=amp/eager",
        ),
        ("my-own-night.csv", "", "unknown", "tiny/infer/-/eager"),
    ],
)
def test_the_name_tells_what_the_table_does_not(
    tmp_path: Path, name: str, torch_version: str, hardware: str, case: str
) -> None:
    [one] = read(tmp_path, "model,infer_samples_per_sec", "tiny,4000", name=name).runs

    assert one.run.environments[0].torch_version == torch_version
    assert one.run.machine.hardware.label == hardware
    assert one.outcomes[0].case == case


def test_the_time_is_the_files_and_is_said_to_be(tmp_path: Path) -> None:
    path = tmp_path / NAME
    path.write_text(f"{HEADER}\ntiny,160,4000.5,64.0,256,0.37\n")
    os.utime(path, (1_777_636_800, 1_777_636_800))

    run = timm_csv.read_runs(path).runs[0].run
    assert run.started_at == datetime(2026, 5, 1, 12, tzinfo=UTC)
    assert "modification time" in run.facts["notes"][0]


def test_an_error_is_an_outcome(tmp_path: Path) -> None:
    header = "model,infer_samples_per_sec,infer_batch_size,error"
    [one] = read(
        tmp_path, header, "tiny,4000,256,", "wide,,256,CUDA out of memory.", "odd,,256,no such op"
    ).runs

    assert [(each.status, each.reason) for each in one.outcomes] == [
        ("ok", ""),
        ("oom", "CUDA out of memory."),
        ("crashed", "no such op"),
    ]


@pytest.mark.parametrize(
    ("row", "sentence"),
    [
        ("tiny,160,fast,64.0,256,0.37", 'infer_samples_per_sec: expected a number, found "fast"'),
        ("tiny,160,nan,64.0,256,0.37", "infer_samples_per_sec: expected a finite number, found NaN"),
        ("tiny,160,1,64.0,25.5,0.37", 'infer_batch_size: expected a whole number, found "25.5"'),
        (",160,4000.5,64.0,256,0.37", "model: is missing"),
        (
            "tiny,160,-5,64.0,256,0.37",
            "infer_samples_per_sec: -5 samples/s is not a valid rate: it is below 0",
        ),
        (
            "tiny,160,0,64.0,256,0.37",
            "infer_samples_per_sec: 0 samples/s is not a valid rate: nothing was measured",
        ),
        ("tiny,160,4000,0,256,0.37", "infer_step_time: 0 ms is not a valid time: nothing was measured"),
    ],
)
def test_one_bad_row_is_set_aside_with_its_line(tmp_path: Path, row: str, sentence: str) -> None:
    imported = read(tmp_path, HEADER, row, "wide,224,100.0,2560,256,9.9")

    assert str(imported.set_aside[0]) == f"{NAME}, line 2, {sentence}"
    assert imported.runs[0].outcomes[-1].metrics["timm.infer_samples_per_sec"] == 100.0


def test_a_row_that_is_cut_short_is_set_aside(tmp_path: Path) -> None:
    imported = read(tmp_path, HEADER, "wide,224,100.0,2560,256,9.9", "tiny,160,40")

    assert [str(each) for each in imported.set_aside] == [
        f"{NAME}, line 3: is cut short: 3 cells under a header of 6"
    ]
    assert len(imported.runs[0].outcomes) == 1


@pytest.mark.parametrize(
    ("lines", "sentence"),
    [
        (["model,top1", "tiny,80"], ", line 1: has no column model, or neither"),
        ([HEADER], ": holds no result"),
        ([HEADER, "tiny,160,1,2,3,4,5"], ", line 2: has 7 cells under a header of 6"),
    ],
)
def test_a_table_that_is_none_is_refused(tmp_path: Path, lines: list[str], sentence: str) -> None:
    with pytest.raises(BadFile) as refused:
        read(tmp_path, *lines)
    assert str(refused.value).startswith(NAME + sentence)
