"""optimum-benchmark's folders of 2023 with their YAML, the tables made of them, and trees of such folders."""

import math
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from interchange.errors import BadFile
from interchange.importers import optimum
from interchange.importers.optimum_yaml import yaml_settings
from interchange.runs import ImportBatch

HYDRA = """\
backend:
  name: pytorch
  version: 2.1.0+cu118
  _target_: optimum_benchmark.backends.pytorch.backend.PyTorchBackend
  torch_dtype: float16
  torch_compile: false
  quantization_config: {}
  device_map: null
benchmark:
  name: inference
  input_shapes:
    batch_size: 8
    sequence_length: 128
  generate_kwargs:
    max_new_tokens: 64
experiment_name: tiny-batch_size(8)
model: octo/tiny
device: cuda:0
task: text-generation
environment:
  python_version: 3.10.12
  cpu: ' Test CPU 9000'
  cpu_count: 16
  gpus:
  - Test GPU 80GB
  - Test GPU 80GB
"""
RESULTS = "forward.latency(s),forward.throughput(samples/s),forward.peak_memory(MB)\n0.0437,22.9,6792\n"
WORDS = "backend=pytorch,batch=8,device=cuda,dtype=float16"


def of_2023(folder: Path, settings: str = HYDRA, results: str | None = RESULTS) -> Path:
    folder.mkdir(exist_ok=True, parents=True)
    (folder / "hydra_config.yaml").write_text(settings)
    if results is not None:
        (folder / "inference_results.csv").write_text(results)
    return folder


def only_case(imported: ImportBatch) -> str:
    [one] = imported.runs
    [outcome] = one.outcomes
    return outcome.case


def test_a_folder_of_2023_becomes_a_run(tmp_path: Path) -> None:
    [one] = optimum.read_runs(of_2023(tmp_path)).runs

    [outcome] = one.outcomes
    assert outcome.case.startswith(f"octo%2Ftiny/infer/{WORDS},new_tokens=64,sequence_length=128,settings=")
    # A mean is no median, and so has a name of its own.
    assert outcome.metrics == {
        "optimum.forward.latency_mean": 0.0437,
        "optimum.forward.samples_per_s": 22.9,
        "optimum.forward.peak_memory": 6792.0,
    }
    assert one.run.machine.hardware.label == "2 x Test GPU 80GB"
    assert one.run.environments[0].torch_version == "2.1.0+cu118"
    assert one.run.facts["experiment"] == "tiny-batch_size(8)"


def test_training_of_2023_has_an_index_and_a_misspelt_unit(tmp_path: Path) -> None:
    folder = of_2023(tmp_path, results=None)
    (folder / "training_results.csv").write_text(
        ",training.runtime(s),training.throughput(samples/s),overall_training.throughput(samles/s)\n"
        "0,33.5,2.38,1.17\n"
    )

    [outcome] = optimum.read_runs(folder).runs[0].outcomes
    assert outcome.metrics == {
        "optimum.training.runtime": 33.5,
        "optimum.training.samples_per_s": 2.38,
        "optimum.overall_training.samples_per_s": 1.17,
    }


def test_settings_without_results_are_a_lost_case(tmp_path: Path) -> None:
    [one] = optimum.read_runs(of_2023(tmp_path, results=None)).runs

    assert [(each.status, each.metrics) for each in one.outcomes] == [("lost", {})]
    assert "no inference_results.csv or training_results.csv" in one.outcomes[0].reason


def test_a_table_of_runs_agrees_with_their_folders(tmp_path: Path) -> None:
    table = tmp_path / "full_report.csv"
    table.write_text(
        ",experiment_name,backend.name,backend.version,backend.torch_dtype,backend.torch_compile,model,device,"
        "benchmark.name,benchmark.input_shapes.batch_size,benchmark.input_shapes.sequence_length,task,"
        "benchmark.generate_kwargs.max_new_tokens,environment.gpus,forward.latency(s),Forward.Speedup(%)\n"
        "0,tiny,pytorch,2.1.0+cu118,float16,False,octo/tiny,cuda:0,inference,8.0,128,text-generation,64,"
        "\"['Test GPU 80GB', 'Test GPU 80GB']\",0.0437,12.5\n"
    )

    imported = optimum.read_runs(table)
    folder = optimum.read_runs(of_2023(tmp_path / "folder"))
    assert only_case(imported) == only_case(folder)
    assert imported.runs[0].run.machine.hardware == folder.runs[0].run.machine.hardware
    assert dict(imported.runs[0].outcomes[0].metrics) == {"optimum.forward.latency_mean": 0.0437}
    [aside] = imported.set_aside
    assert str(aside).startswith("full_report.csv, line 2, Forward.Speedup(%): is in %")


def test_a_tree_is_one_import_of_many_runs(tmp_path: Path) -> None:
    of_2023(tmp_path / "a" / "0")
    of_2023(tmp_path / "a" / "1", HYDRA.replace("batch_size: 8", "batch_size: 16"))
    of_2023(tmp_path / "a" / "copy")
    of_2023(tmp_path / "bad", HYDRA.replace("  name: pytorch", "  name: &anchor pytorch"))
    (tmp_path / "new").mkdir()
    (tmp_path / "new" / "benchmark_config.json").write_text("{}")
    (tmp_path / "short_report.csv").write_text("experiment_name,Batch Size\ntiny,8\n")

    assert optimum.knows(tmp_path)
    imported = optimum.read_runs(tmp_path)
    assert len(imported.runs) == 2
    aside = sorted(str(each) for each in imported.set_aside)
    assert [each.partition(":")[0] for each in aside] == [
        "bad/hydra_config.yaml, line 2, backend.name",
        "new/benchmark_config.json",
        "short_report.csv",
    ]
    assert [str(each) for each in imported.repeats] == [
        f"a/copy/inference_results.csv, line 2: repeats run {imported.runs[0].run.id}"
    ]


def test_tables_made_of_folders_say_whether_anything_is_in_them_alone(tmp_path: Path) -> None:
    of_2023(tmp_path / "0")
    full = f"experiment_name,backend.name,{RESULTS.splitlines()[0]}\n"
    row = f"a,pytorch,{RESULTS.splitlines()[1]}\n"
    (tmp_path / "full_report.csv").write_text(full + row)
    (tmp_path / "short_report.csv").write_text("experiment_name,Batch Size\na,8\n")
    imported = optimum.read_runs(tmp_path)
    assert imported.set_aside == ()
    assert [str(each) for each in imported.repeats] == [
        "full_report.csv: repeats what the runs' folders hold",
        "short_report.csv: full_report.csv beside it has the same rows",
    ]

    (tmp_path / "full_report.csv").write_text(full + row + "b,pytorch,0.5,2.0,6792\n")
    (tmp_path / "short_report.csv").write_text("experiment_name,Batch Size\nc,8\n")
    assert [str(each) for each in optimum.read_runs(tmp_path).set_aside] == [
        "full_report.csv: has 1 of 2 rows without a folder here: import it separately",
        "short_report.csv: holds no settings, which identify the case: only a full_report.csv can be read",
    ]


@pytest.mark.parametrize(
    ("name", "text", "sentence"),
    [
        ("inference_results.csv", RESULTS, ": has no hydra_config.yaml beside it, which holds the settings"),
        ("hydra_config.yaml", "model: tiny\n", ": holds no backend.name"),
    ],
)
def test_a_file_that_is_none_is_refused(tmp_path: Path, name: str, text: str, sentence: str) -> None:
    (tmp_path / name).write_text(text)

    with pytest.raises(BadFile) as refused:
        optimum.read_runs(tmp_path / name)
    assert str(refused.value).startswith(name + sentence)


@settings(max_examples=60)
@given(
    written=st.text() | st.text(" -a:'\n{}&#", max_size=40).map(HYDRA.__add__), results=st.text(max_size=40)
)
def test_nothing_but_bad_file_is_raised_for_2023(
    tmp_path_factory: pytest.TempPathFactory, written: str, results: str
) -> None:
    folder = tmp_path_factory.getbasetemp() / "any-2023"
    folder.mkdir(exist_ok=True)
    (folder / "hydra_config.yaml").write_text(written, errors="replace")
    (folder / "inference_results.csv").write_text(RESULTS + results, errors="replace")
    try:
        imported = optimum.read_runs(folder)
    except BadFile:
        return
    assert all(math.isfinite(each.point) for run in imported.runs for each in run.measurements)


def test_scalars_are_read_as_they_are_written_with_their_place() -> None:
    text = (
        "a:\n  b: 'it''s'\n  empty: {}\n  none: null\n  list:\n  - one\n  - 'two words'\n"
        'c: "quoted"\n# a comment\nd:\n    deep:\n    -   x\ne: plain, with (brackets)\n'
        "f: 1.0\ng: 'null'\nh: [1, 2]\ni: >\n  folded\n  text\nj:\n- k: 0x10\nl: True # said\n"
    )
    found = yaml_settings(text, "s.yaml")

    assert {path: at.value for path, at in found.items()} == {
        "a.b": "it's",
        "a.list[0]": "one",
        "a.list[1]": "two words",
        "c": "quoted",
        "d.deep[0]": "x",
        "e": "plain, with (brackets)",
        "f": "1.0",
        "g": "null",
        "h[0]": "1",
        "h[1]": "2",
        "i": "folded text\n",
        "j[0].k": "0x10",
        "l": "True",
    }
    assert str(found["a.list[1]"].place) == "s.yaml, line 7, a.list[1]"


def test_an_empty_file_has_no_settings() -> None:
    assert yaml_settings("", "s.yaml") == yaml_settings("# nothing\n", "s.yaml") == {}


@pytest.mark.parametrize(
    ("text", "sentence"),
    [
        ("a: &x 1", "s.yaml, line 1, a: has an alias or a tag"),
        ("a: 1\nb: *x", "s.yaml, line 2, b: has an alias or a tag"),
        ("a: !!python/object/apply:os.system [x]", "s.yaml, line 1, a: has an alias or a tag"),
        ("a: 'open", "s.yaml, line 1: is not YAML: found unexpected end of stream"),
        ("a: 1\na: 2", "s.yaml, line 2, a: is there twice"),
        ("a: {}\nb: 1\na: null", "s.yaml, line 3, a: is there twice"),
        ("a: 1\n  b: 2", "s.yaml, line 2: is not YAML: mapping values are not allowed here"),
        ("a:\n    b: 1\n  c: 2", "s.yaml, line 3: is not YAML"),
        ("? [a]\n: 1", "s.yaml, line 1: has a key that is no text"),
        ("- a", "s.yaml, line 1: is no mapping"),
        ("just words", "s.yaml, line 1: is no mapping"),
        ("\ta: 1", "s.yaml, line 1: is not YAML"),
        ("a: 1\n---\nb: 1", "s.yaml, line 2: is a second document"),
        ("a: \x01", "s.yaml: is not YAML: unacceptable character"),
        ("\n".join(" " * n + "a:" for n in range(99)), "is nested too deep"),
        ("a: " + "[" * 100_000, "is nested too deep"),
    ],
)
def test_other_yaml_is_refused_with_its_line(text: str, sentence: str) -> None:
    with pytest.raises(BadFile) as refused:
        yaml_settings(text, "s.yaml")
    assert sentence in str(refused.value)
