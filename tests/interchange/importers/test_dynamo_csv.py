"""The tables of PyTorch's own benchmarks: each kind, wrong rows of it, and the facts in a file's name."""

from datetime import UTC, datetime
from pathlib import Path

import pytest

from interchange.errors import BadFile
from interchange.importers import dynamo_csv
from interchange.importers.dynamo_table import status_of
from interchange.runs import ImportBatch

PERFORMANCE = "inductor_cudagraphs_torchbench_amp_training_cuda_performance_20260903.csv"
CASE = "batch=4,device=cuda,precision=amp,suite=torchbench/compile=inductor_cudagraphs"


def read(folder: Path, text: str, name: str = PERFORMANCE) -> ImportBatch:
    path = folder / name
    path.write_text(text)
    assert dynamo_csv.knows(path)
    return dynamo_csv.read_runs(path)


def numbers(imported: ImportBatch) -> dict[tuple[str, str], float]:
    return {(each.case, each.metric): each.point for run in imported.runs for each in run.measurements}


def endings(imported: ImportBatch) -> dict[str, tuple[str, str]]:
    return {each.case: (each.status, each.reason) for run in imported.runs for each in run.outcomes}


def said(imported: ImportBatch) -> list[tuple[int, str, str]]:
    return [(each.place.line, each.place.field, each.sentence) for each in imported.set_aside]


def test_performance_has_a_metric_for_each_column(tmp_path: Path) -> None:
    imported = read(
        tmp_path,
        "dev,name,batch_size,speedup,abs_latency,compilation_latency,eager_peak_mem,graph_breaks,novelty\n"
        "cuda,net,4,1.5,2.25,30.5,0.75,0,7\n",
    )

    case = f"net/train/{CASE}"
    assert numbers(imported) == {
        (case, "dynamo.speedup"): 1.5,
        (case, "dynamo.abs_latency"): 2.25,
        (case, "dynamo.compilation_latency"): 30.5,
        (case, "dynamo.eager_peak_mem"): 0.75,
        (case, "dynamo.graph_breaks"): 0.0,
        (case, "dynamo.novelty"): 7.0,
    }
    assert {each.name: (each.unit, each.better) for each in imported.metrics} == {
        "dynamo.speedup": ("x", "higher"),
        "dynamo.abs_latency": ("ms", "lower"),
        "dynamo.compilation_latency": ("s", "lower"),
        "dynamo.eager_peak_mem": ("GB", "lower"),
        "dynamo.graph_breaks": ("count", "lower"),
        "dynamo.novelty": ("as given", "neither"),
    }
    [one] = imported.runs
    assert (one.run.suite, one.run.started_at) == ("dynamo.torchbench", datetime(2026, 9, 3, tzinfo=UTC))
    assert one.run.preset.name == one.run.harness == dynamo_csv.NAME


def test_resident_memory_of_a_cpu_is_no_hundredfold_peak(tmp_path: Path) -> None:
    """PyTorch multiplies the percentage of memory with all bytes: 200 stands for 2 GB."""
    imported = read(
        tmp_path,
        "dev,name,batch_size,speedup,abs_latency,compression_ratio,eager_peak_mem,dynamo_peak_mem\n"
        "cpu,net,4,1.5,2.25,0.8,200.0,250.0\n"
        "cuda,net,4,1.5,2.25,0.8,200.0,250.0\n",
    )

    memory = {
        (case.partition("device=")[2].partition(",")[0], metric): value
        for (case, metric), value in numbers(imported).items()
        if "speedup" not in metric and "latency" not in metric
    }
    assert memory == {
        ("cpu", "dynamo.compression_ratio"): 0.8,
        ("cpu", "dynamo.eager_rss"): 2.0,
        ("cpu", "dynamo.dynamo_rss"): 2.5,
        ("cuda", "dynamo.compression_ratio"): 0.8,
        ("cuda", "dynamo.eager_peak_mem"): 200.0,
        ("cuda", "dynamo.dynamo_peak_mem"): 250.0,
    }
    assert {each.unit for each in imported.metrics if "rss" in each.name} == {"GB"}


def test_a_failing_model_has_no_measurements(tmp_path: Path) -> None:
    imported = read(
        tmp_path,
        "dev,name,batch_size,speedup,abs_latency,graph_breaks\n"
        "cuda,good,4,1.5,2.25,0\n"
        "cuda,noughts,4,0.0,0.0,0\n"
        "cuda,short,4\n"
        "cuda,torn,4,1.5,2\n"
        "cuda,unloaded,0,0.0000,0.0000,0\n"
        "cuda,worded,4,OOM\n"
        "cuda,counted,4,0.0,0.0,3\n",
    )

    assert [case for case, _ in numbers(imported)] == [f"good/train/{CASE}"] * 3
    ends = endings(imported)
    assert ends[f"noughts/train/{CASE}"] == ("crashed", "its row has neither a speed-up nor a latency")
    assert not [case for case in ends if case.startswith(("short", "torn"))]
    assert ends[f"unloaded/train/{CASE.removeprefix('batch=4,')}"][0] == "crashed"
    assert ends[f"worded/train/{CASE}"] == ("oom", "OOM")
    assert said(imported) == [
        (4, "", "is cut short: 3 cells under a header of 6"),
        (5, "", "is cut short: 5 cells under a header of 6"),
        (8, "graph_breaks", "3 is of a model that ended as crashed"),
    ]


def test_a_nought_among_numbers_is_no_measurement(tmp_path: Path) -> None:
    imported = read(
        tmp_path, "dev,name,batch_size,speedup,abs_latency,compression_ratio\ncuda,net,4,1.5,2.25,0.0\n"
    )

    assert {metric for _, metric in numbers(imported)} == {"dynamo.speedup", "dynamo.abs_latency"}
    assert said(imported) == [(2, "compression_ratio", "0.0 is no measurement")]


@pytest.mark.parametrize(
    ("row", "line", "field", "sentence"),
    [
        ("cuda,,4,1.5,2", 3, "name", "is missing"),
        ("cuda,good,4,2.5,2", 3, "", f"good/train/{CASE} is in the table twice; the first row is used"),
        ("cuda,bad,4,1.5,x", 3, "abs_latency", 'expected a number, found "x"'),
        ("cuda,bad,4,1.5,nan", 3, "abs_latency", "expected a finite number, found NaN"),
        ("cuda,bad,4,1.5,2,3", 3, "", "has 6 cells under a header of 5: set aside"),
    ],
)
def test_a_bad_row_is_set_aside_with_its_place(
    tmp_path: Path, row: str, line: int, field: str, sentence: str
) -> None:
    imported = read(tmp_path, f"dev,name,batch_size,speedup,abs_latency\ncuda,good,4,1.5,2.25\n{row}\n")

    assert numbers(imported)[f"good/train/{CASE}", "dynamo.speedup"] == 1.5
    assert said(imported) == [(line, field, sentence)]


def test_accuracy_is_how_a_case_ended(tmp_path: Path) -> None:
    imported = read(
        tmp_path,
        "dev,name,batch_size,accuracy,graph_breaks\n"
        "cuda,good,4,pass,2\n"
        "cuda,unchecked,4,pass_due_to_skip,0\n"
        "cuda,wrong,4,fail_accuracy,3\n"
        "cuda,odd,4,eager_two_runs_differ,0\n"
        "cuda,big,4,eager_1st_run_OOM,0\n"
        "cuda,slow,4,timeout,0\n"
        "cuda,broken,4,fail_to_run,0\n"
        "cuda,garbled,4,0.0000,0\n",
        "inductor_torchbench_amp_training_cuda_accuracy.csv",
    )

    assert {case.split("/")[0]: end for case, end in endings(imported).items()} == {
        "good": ("ok", ""),
        "unchecked": ("skipped", "pass_due_to_skip"),
        "wrong": ("wrong", "fail_accuracy"),
        "odd": ("unsupported", "eager_two_runs_differ"),
        "big": ("oom", "eager_1st_run_OOM"),
        "slow": ("timeout", "timeout"),
        "broken": ("crashed", "fail_to_run"),
    }
    assert list(numbers(imported).values()) == [2.0]
    assert said(imported) == [
        (4, "graph_breaks", "3 is of a model that ended as wrong"),
        (9, "accuracy", 'expected a known result of the check, found "0.0000"'),
    ]


def test_a_pass_without_any_number_is_an_outcome_all_the_same(tmp_path: Path) -> None:
    imported = read(tmp_path, "dev,name,batch_size,accuracy\ncpu,net,4,pass\n", "float32_accuracy.csv")

    assert endings(imported) == {
        "net/call/batch=4,device=cpu,precision=float32/compile=dynamo": ("ok", "pass")
    }


def test_expectations_are_never_one_series_with_what_was_measured(tmp_path: Path) -> None:
    text = "dev,name,batch_size,speedup,abs_latency\ncuda,net,4,1.5,2.25\n"

    measured = read(tmp_path, text, "inductor_torchbench_performance.csv")
    expected = read(tmp_path, text, "expected_ci_perf_inductor_torchbench.csv")

    assert {metric for _, metric in numbers(measured)} == {"dynamo.speedup", "dynamo.abs_latency"}
    assert {metric for _, metric in numbers(expected)} == {
        "dynamo.target.speedup",
        "dynamo.target.abs_latency",
    }
    assert {case for case, _ in numbers(measured)} == {case for case, _ in numbers(expected)}
    assert expected.runs[0].run.suite == "dynamo.torchbench.targets"
    assert expected.metrics[0].title.startswith("Target: ")


def test_expected_accuracy_has_no_device(tmp_path: Path) -> None:
    imported = read(
        tmp_path, "name,accuracy,graph_breaks\nnet,pass,5\n", "inductor_huggingface_inference.csv"
    )

    assert numbers(imported) == {
        ("net/infer/suite=huggingface/compile=inductor", "dynamo.target.graph_breaks"): 5.0
    }


def test_targets_for_cpus_name_their_machines_and_may_be_disabled(tmp_path: Path) -> None:
    imported = read(
        tmp_path,
        "#name,data_type,shape,wrapper,perf_speedup_target_box_a,perf_speedup_target_box_b\n"
        "net,float32,static,default,1.25,1.5\n"
        "#off,amp,dynamic,cpp,1.75,2\n"
        "half,amp,dynamic,cpp,1.75\n"
        "# a remark\n",
        "expected_ci_speedup_inductor_torchbench_cpu.csv",
    )

    case = "device=cpu,precision=float32,shapes=static,suite=torchbench,wrapper=default/compile=inductor"
    assert {
        (run.run.machine.hardware.label, each.case.split("/")[0]): each.point
        for run in imported.runs
        for each in run.measurements
    } == {("box_a", "net"): 1.25, ("box_a", "half"): 1.75, ("box_b", "net"): 1.5}
    assert f"net/call/{case}" in endings(imported)
    off = next(end for case, end in endings(imported).items() if case.startswith("off/"))
    assert off == ("skipped", "its row is disabled by `#`")
    assert said(imported) == [
        (5, "", "is a remark"),
        (4, "perf_speedup_target_box_b", "is missing"),
        (5, "", "is a remark"),
    ]


def test_instruction_counts_have_no_header_and_blank_lines(tmp_path: Path) -> None:
    imported = read(
        tmp_path,
        "loop,compile_time_instruction_count,3000000000,0.015\n\n\n\n"
        "other,compile_time_instruction_count,5000000000,0.02\n\n"
        "torn,compile_time_instruction_count\n",
        "expected_results.csv",
    )

    count = "dynamo.target.compile_time_instruction_count"
    assert sorted(numbers(imported).values()) == [0.015, 0.02, 3e9, 5e9]
    assert {(each.name, each.unit, each.better) for each in imported.metrics} == {
        (count, "instructions", "lower"),
        (f"{count}.margin", "share", "neither"),
    }
    assert said(imported) == [(7, "expected", "is missing")]


@pytest.mark.parametrize("module", ["Benchamrking Module Name", "Benchmarking Module Name"])
def test_operator_tables_are_recognised_by_any_spelling_of_the_header(tmp_path: Path, module: str) -> None:
    imported = read(
        tmp_path,
        f"Benchmarking Framework,{module},Case Name,tag,run_backward,Execution Time,Peak Memory (KB)\n"
        'PyTorch,add,"add_size(2,2)_cpu",short,False,2.5,12\n'
        "PyTorch,add,add_M1_cpu,short,True,4.5,0\n"
        "PyTorch,add,add_M2_cpu,short,True,0,0\n",
        "operator_benchmark_eager_float32_cpu.csv",
    )

    about = "framework=PyTorch,module=add,precision=float32,tag=short/eager"
    forward = f"add_size(2%2C2)_cpu/call/device=cpu,direction=forward,{about}"
    backward = f"add_M1_cpu/call/device=cpu,direction=backward,{about}"
    assert numbers(imported)[forward, "dynamo.operator_time"] == 2.5
    assert numbers(imported)[forward, "dynamo.operator.peak_memory_kb"] == 12
    assert numbers(imported)[backward, "dynamo.operator_time"] == 4.5
    assert {each.name: each.unit for each in imported.metrics}["dynamo.operator_time"] == "µs"
    assert said(imported) == [(4, "Execution Time", "0 is no measurement")]


def test_graph_breaks_are_counted_and_their_reasons_kept(tmp_path: Path) -> None:
    imported = read(
        tmp_path,
        "model,reason,user_stack\n"
        'net,"a call\nto print",[somewhere]\n'
        'net,"a call\nto print",[elsewhere]\n'
        "other,data-dependent,[x]\n",
        "inductor_torchbench_inference_graph_breaks.csv",
    )

    suite = "suite=torchbench/compile=inductor"
    assert numbers(imported) == {
        (f"net/infer/{suite}", "dynamo.graph_break_rows"): 2.0,
        (f"other/infer/{suite}", "dynamo.graph_break_rows"): 1.0,
    }
    assert imported.runs[0].run.facts["reasons"] == [
        ["net", "a call\nto print", 2],
        ["other", "data-dependent", 1],
    ]


def test_compilation_metrics_have_a_metric_for_each_phase(tmp_path: Path) -> None:
    imported = read(
        tmp_path,
        "dev,name,batch_size,_compile.compile_inner,backend_compile\ncpu,net,4,1.5,0\n",
        "inductor_torchbench_inference_compilation_metrics.csv",
    )

    assert {metric: value for (_, metric), value in numbers(imported).items()} == {
        "dynamo.compile.compile.compile_inner": 1.5,
        "dynamo.compile.backend_compile": 0.0,
    }


@pytest.mark.parametrize(
    ("text", "where"),
    [
        ("", "t.csv: is empty"),
        ("a,b\n1,2\n", "t.csv, line 1: `a,b` begins no known table of PyTorch's benchmarks"),
        (
            "\n\nmodel,infer_samples_per_sec\n",
            "t.csv, line 3: `model,infer_samples_per_sec` begins no known table",
        ),
        ('name,accuracy\n"net,pass\n', "t.csv, line 2: is no CSV: unexpected end of data"),
        ("name,accuracy\n", "t.csv: holds no result"),
        ("name,accuracy\nnet\n", "t.csv, line 2: is cut short: 1 cells under a header of 2"),
        ("net,count,1,x\n", "t.csv, line 1: `net,count,1,x` begins no"),
    ],
)
def test_a_file_of_another_kind_is_refused_with_its_place(tmp_path: Path, text: str, where: str) -> None:
    path = tmp_path / "t.csv"
    path.write_text(text)

    with pytest.raises(BadFile) as refused:
        dynamo_csv.read_runs(path)

    assert str(refused.value).startswith(where)


def test_a_header_that_comes_again_is_no_row(tmp_path: Path) -> None:
    header = "dev,name,batch_size,speedup\n"
    imported = read(tmp_path, f"{header}cuda,a,1,1.5\n{header}cuda,b,1,2.5\n")

    assert sorted(numbers(imported).values()) == [1.5, 2.5]
    assert imported.set_aside == ()


@pytest.mark.parametrize(
    ("word", "status"),
    [("eager_2nd_run_OOM", "oom"), ("room", None), ("model_fail_to_load", "crashed"), ("1.0", None)],
)
def test_words_are_read_as_words(word: str, status: str | None) -> None:
    assert status_of(word) == status


#: Two different names never share a series.
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
def test_files_with_different_names_are_never_one_series(tmp_path: Path, one: str, other: str) -> None:
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
def test_a_name_without_facts_counts_whole_with_its_folder(tmp_path: Path, name: str) -> None:
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
