"""The facts in the name of one of PyTorch's own tables: two different names never share a series."""

from pathlib import Path

import pytest

from interchange.errors import BadFile
from interchange.importers import dynamo_csv
from interchange.runs import ImportBatch


def read(folder: Path, text: str, name: str) -> ImportBatch:
    path = folder / name
    path.write_text(text)
    return dynamo_csv.read_runs(path)


ROW = "dev,name,batch_size,speedup\ncuda,net,4,1.5\n"


@pytest.mark.parametrize(
    ("one", "other"),
    [
        ("cuda_h100_performance", "cuda_a10g_performance"),
        ("cpu_x86_performance", "cpu_aarch64_performance"),
        ("cpu_threads1_performance", "cpu_threads32_performance"),
        ("cuda_performance", "cuda_performance_dynamic"),
        ("cuda_maxautotune_amp_h100", "cuda_h100"),
    ],
)
def test_what_the_name_tells_apart_is_never_one_series(tmp_path: Path, one: str, other: str) -> None:
    before = "inductor_torchbench_float32_inference_"
    series = [
        (run.run.machine.hardware.label, each.case)
        for end in (one, other)
        for run in read(tmp_path, ROW, f"{before}{end}.csv").runs
        for each in run.measurements
    ]

    assert len(set(series)) == 2


def test_what_follows_the_device_is_the_hardware(tmp_path: Path) -> None:
    name = "inductor_timm_models_amp_bf16_training_cuda_h100_sxm_performance_tuned_20260903.csv"
    [one] = read(tmp_path, ROW, name).runs

    assert one.run.machine.hardware.label == "h100_sxm"
    about = "batch=4,device=cuda,file=tuned,precision=amp_bf16,suite=timm_models/compile=inductor"
    assert one.outcomes[0].case == f"net/train/{about}"


@pytest.mark.parametrize("name", ["perf.csv", "perf_20260903.csv", "perf_00b30c5a.csv"])
def test_a_name_that_tells_nothing_counts_whole_with_its_folder(tmp_path: Path, name: str) -> None:
    cases: list[str] = []
    for folder in ("amp-2026-09-03", "amp", "fp32"):
        (tmp_path / folder).mkdir()
        [one] = read(tmp_path / folder, ROW, name).runs
        cases.append(one.outcomes[0].case)

    assert cases == [
        f"net/call/batch=4,device=cuda,file=perf,folder={each}/compile=dynamo"
        for each in ("amp", "amp", "fp32")
    ]


@pytest.mark.parametrize("sizes", ["2048-1024", "2048-0512", "2099-10-24", "2019-1024"])
def test_sizes_that_look_like_a_date_are_part_of_the_case(tmp_path: Path, sizes: str) -> None:
    [one] = read(tmp_path, ROW, f"llama_{sizes}_float32_20260903.csv").runs

    about = f"batch=4,device=cuda,file=llama_{sizes},precision=float32"
    assert one.outcomes[0].case == f"net/call/{about}/compile=dynamo"
    assert f"{one.run.started_at:%Y-%m-%d}" == "2026-09-03"


def test_targets_of_a_machine_keep_the_hardware_of_the_name(tmp_path: Path) -> None:
    text = "name,data_type,perf_speedup_target_box\nnet,amp,1.5\n"
    [one] = read(tmp_path, text, "expected_ci_speedup_inductor_torchbench_cpu_aarch64.csv").runs

    assert one.run.machine.hardware.label == "box aarch64"


def test_a_column_that_is_there_twice_is_refused(tmp_path: Path) -> None:
    with pytest.raises(BadFile, match='line 1: has two columns "speedup"'):
        read(tmp_path, "dev,name,batch_size,speedup,speedup\ncuda,net,4,1.5,2.5\n", "perf.csv")
