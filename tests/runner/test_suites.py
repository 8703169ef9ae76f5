"""Suites: a table becomes cases in a stable order, each technique behind its baseline, or one complaint."""

import tomllib
from typing import Any

import pytest

from configuration.schema import SuiteSettings
from runner.errors import BadSuite
from runner.suites import plan
from runner.suites.suite import FOLDER, NAMES, Suite, built_in, compose
from runner.worker.case_key import CaseKey

MLP = "mlp/infer/batch=1"
CNN = "cnn/train/-"


def composed(text: str, known: dict[str, Suite] | None = None, name: str = "mine") -> Suite:
    """The suite that a table in TOML makes."""
    return compose(name, tomllib.loads(text), known or {})


def complaint(text: str) -> BadSuite:
    """What is wrong with a table."""
    with pytest.raises(BadSuite) as caught:
        composed(text, {"smoke": Suite("smoke", ())})
    assert "\n" not in str(caught.value)
    return caught.value


def test_a_matrix_is_every_workload_under_every_combination_the_last_axis_fastest() -> None:
    suite = composed(
        f"""
        [[matrix]]
        workloads = ["{MLP}", "{CNN}"]
        compile = ["none", "default"]
        threads = [1, 2]
        """
    )
    techniques = ["threads=1", "threads=2", "compile=default,threads=1", "compile=default,threads=2"]
    assert list(suite.cases) == [f"{w}/{t}" for w in (MLP, CNN) for t in ("eager", *techniques)]
    assert suite.baselines == {f"{MLP}/eager", f"{CNN}/eager"}


def test_include_adds_techniques_and_keys_and_exclude_takes_away() -> None:
    suite = composed(
        f"""
        [[matrix]]
        workloads = ["{MLP}"]
        compile = ["none", "default", "max-autotune"]
        include = ["precision=bf16,compile=default", "{CNN}/eager", "eager"]
        exclude = ["*/compile=max-autotune"]
        """
    )
    assert suite.cases == (
        f"{MLP}/eager",
        f"{MLP}/compile=default",
        f"{MLP}/compile=default,precision=bf16",
        f"{CNN}/eager",
    )
    assert suite.baselines == frozenset()
    assert suite.places[f"{MLP}/compile=default,precision=bf16"] == ("matrix", 0, "include", 0)


def test_a_baseline_comes_before_its_techniques_wherever_it_is_listed() -> None:
    suite = composed(f'cases = ["{MLP}/compile=default", "{CNN}/layout=channels-last", "{MLP}/eager"]')
    assert suite.cases == (
        f"{MLP}/eager",
        f"{MLP}/compile=default",
        f"{CNN}/eager",
        f"{CNN}/layout=channels-last",
    )
    assert suite.baselines == {f"{CNN}/eager"}


def test_a_key_gets_its_only_spelling_and_a_glob_is_left_for_later() -> None:
    suite = composed('cases = ["a/infer/y=1,x=2/precision=bf16,compile=default", "res*"]')
    assert suite.cases == ("a/infer/x=2,y=1/eager", "a/infer/x=2,y=1/compile=default,precision=bf16", "res*")


def test_a_table_changes_only_what_it_names_of_a_suite_that_exists() -> None:
    base = composed(
        f'summary = "as it was"\nreplicates = 4\ncases = ["{MLP}/compile=default", "{CNN}/eager"]'
    )
    changed = composed("measure_seconds = 9\nbudget_seconds = 60", {"mine": base})
    assert (changed.cases, changed.replicates, changed.summary) == (base.cases, 4, "as it was")
    assert (changed.timing.measure_seconds, changed.timing.max_seconds) == (9.0, 36.0)
    assert composed("max_seconds = 5\nmeasure_seconds = 9", {"mine": base}).timing.max_seconds == 5.0
    looked_at = composed("observe_seconds = 3", {"mine": base})
    assert looked_at.timing.observe_seconds == 3.0
    assert composed("observe_seconds = 0", {"mine": looked_at}).timing.observe_seconds == 0.0
    fewer = composed('exclude = ["cnn/*"]', {"mine": base})
    assert fewer.cases == (f"{MLP}/eager", f"{MLP}/compile=default")
    assert composed(f'cases = ["{CNN}/eager"]', {"mine": base}).cases == (f"{CNN}/eager",)


def test_suites_can_be_included_and_a_case_is_there_once() -> None:
    known = {
        "one": composed(f'cases = ["{MLP}/compile=default"]', name="one"),
        "two": composed(f'cases = ["{CNN}/eager"]', name="two"),
    }
    suite = composed(f'cases = ["{CNN}/eager"]\ninclude = ["one", "two"]', known)
    assert suite.cases == (f"{CNN}/eager", f"{MLP}/eager", f"{MLP}/compile=default")


def test_a_matrix_too_large_to_measure_is_counted_and_not_built() -> None:
    many = ", ".join(map(str, range(1, 101)))
    five = "\n".join(f"{axis} = [{many}]" for axis in ("ranks", "instances", "threads", "bucket", "compile"))
    problem = complaint(f'replicates = 1\n[[matrix]]\nworkloads = ["{MLP}", "{CNN}"]\n{five}')
    assert problem.path == ("matrix", 0)
    assert str(problem) == "this matrix makes 20,000,000,000 cases: one run measures 100,000 at most"


def test_more_replicates_than_a_run_can_have_are_refused_where_they_stand() -> None:
    problem = complaint(f'replicates = 50_001\ncases = ["{MLP}/eager", "{CNN}/eager"]')
    assert problem.path == ("replicates",)
    assert str(problem) == "2 cases x 50,001 replicates are too many: one run measures 100,000 at most"
    assert composed(f'replicates = 50_000\ncases = ["{MLP}/eager", "{CNN}/eager"]').replicates == 50_000


MATRIX = f'[[matrix]]\nworkloads = ["{MLP}"]\n'


@pytest.mark.parametrize(
    ("text", "path", "kind", "word"),
    [
        (MATRIX + 'compil = ["none"]', ("matrix", 0, "compil"), "key", "compil"),
        (MATRIX + 'compile = ["none", "fast"]', ("matrix", 0, "compile", 1), "value of compile", "fast"),
        (MATRIX + 'include = ["layot=contiguous"]', ("matrix", 0, "include", 0), "axis", "layot"),
        (MATRIX + 'include = ["layout=last"]', ("matrix", 0, "include", 0), "value of layout", "last"),
        (MATRIX + 'exclude = ["nothing*"]', ("matrix", 0, "exclude", 0), "case to exclude", "nothing*"),
        ('[[matrix]]\nworkloads = ["a/infr/-"]', ("matrix", 0, "workloads", 0), "phase", "infr"),
        ('cases = ["a/infer/-/eager", "a/infer/-/compile=fast"]', ("cases", 1), "value of compile", "fast"),
        ('include = ["smok"]', ("include", 0), "suite", "smok"),
        ('include = ["mine"]', ("include", 0), "suite", "mine"),
        (f'cases = ["{MLP}/eager"]\nexclude = ["cnn/*"]', ("exclude", 0), "case to exclude", "cnn/*"),
    ],
)
def test_a_word_that_does_not_exist_is_named_with_its_place(
    text: str, path: tuple[str | int, ...], kind: str, word: str
) -> None:
    error = complaint(text)
    assert (error.path, error.kind, error.word) == (path, kind, word)
    assert error.word not in error.valid


@pytest.mark.parametrize(
    ("text", "path", "sentence"),
    [
        (
            MATRIX + "ranks = [0]",
            ("matrix", 0, "ranks", 0),
            "ranks=0 cannot be: expected a whole number above 0",
        ),
        (MATRIX + 'include = ["fast"]', ("matrix", 0, "include", 0), "'fast' is no technique"),
        (MATRIX + 'include = ["ranks=1,ranks=2"]', ("matrix", 0, "include", 0), "axis ranks is given twice"),
        ('[[matrix]]\nworkloads = ["a/infer"]', ("matrix", 0, "workloads", 0), "'a/infer' is no workload"),
        ('[[matrix]]\nworkloads = ["a/infer/b"]', ("matrix", 0, "workloads", 0), "'b' is not name=value"),
    ],
)
def test_what_cannot_be_meant_is_refused_with_its_place(
    text: str, path: tuple[str | int, ...], sentence: str
) -> None:
    error = complaint(text)
    assert error.path == path and sentence in str(error) and not error.kind


@pytest.mark.parametrize("suite", built_in().values(), ids=lambda suite: suite.name)
def test_a_built_in_suite_is_spelled_well_within_its_budget_and_explained(suite: Suite) -> None:
    assert [str(CaseKey.parse(case)) for case in suite.cases] == list(suite.cases)
    assert len(set(suite.cases)) == len(suite.cases)
    assert suite.summary and all(block.why for block in suite.blocks)
    planned = plan.replicates(suite.cases, suite.replicates)
    on_cuda = suite.device == "cuda"
    seconds = sum(plan.estimate(one, suite.timing, on_cuda=on_cuda) for one in planned)
    assert seconds <= suite.budget_seconds
    for number, case in enumerate(suite.cases):
        assert str(CaseKey.parse(case).eager) in suite.cases[: number + 1]


@pytest.mark.parametrize("name", NAMES)
def test_a_built_in_file_is_one_that_a_user_could_write(name: str) -> None:
    SuiteSettings.model_validate(tomllib.loads((FOLDER / f"{name}.toml").read_text()))


def test_every_file_of_a_suite_is_read() -> None:
    assert {file.stem for file in FOLDER.glob("*.toml")} == {*NAMES, "claims"}


def test_the_suites_keep_to_their_size() -> None:
    sizes = {name: len(suite.cases) for name, suite in built_in().items()}
    assert sizes["cpu"] <= 30 and sizes["gpu"] <= 60 and built_in()["cpu"].budget_seconds <= 1800


def test_smoke_keeps_the_cases_that_have_a_history() -> None:
    assert {
        "mlp_overhead/infer/batch=64/eager",
        "mlp_overhead/infer/batch=64/compile=default",
        "resnet50/infer/batch=1,image=64/eager",
        "bert_base/infer/batch=1,layers=2,tokens=128/eager",
        "gpt2_small/infer/batch=1,layers=2,tokens=128/precision=amp-bf16",
        "custom_cnn/train/batch=4/eager",
        "lstm_lm/infer/batch=4,tokens=8/eager",
        "custom_gru_cell/infer/batch=16,hidden=256,steps=8/eager",
        "transformer_xl/infer/batch=1,layers=2,tokens=150/eager",
    } <= set(built_in()["smoke"].cases)


def values_of(suite: str) -> dict[str, set[str]]:
    """The values of every axis that a built-in suite measures."""
    found: dict[str, set[str]] = {}
    for case in built_in()[suite].cases:
        for axis, value in CaseKey.parse(case).technique:
            found.setdefault(axis, set()).add(value)
    return found


@pytest.mark.parametrize(
    ("suite", "wanted"),
    [
        (
            "cpu",
            {
                "compile": {"default", "max-autotune", "aot_eager"},
                "export": {"jit-trace", "jit-script", "aot-inductor", "onnxruntime"},
                "precision": {"amp-bf16", "bf16", "int8-dynamic", "int8-static"},
                "layout": {"channels-last"},
                "checkpoint": {"on"},
                "allocator": {"as-it-comes", "hugetlb", "tcmalloc", "jemalloc"},
                "cpus": {"1", "all"},
                "instances": {"2"},
                "parallel": {"ddp", "fsdp2"},
                "ranks": {"2"},
                "hook": {"fp16"},
            },
        ),
        (
            "gpu",
            {
                "compile": {"default", "reduce-overhead", "max-autotune", "max-autotune-no-cudagraphs"},
                "precision": {"tf32", "amp-fp16", "amp-bf16", "bf16", "int8-torchao"},
                "graph": {"capture", "callables"},
                "layout": {"channels-last"},
                "checkpoint": {"on"},
                "memory": {"half"},
                "dynamic": {"off", "on", "mark"},
            },
        ),
        (
            "scaling",
            {
                "parallel": {"ddp", "fsdp2", "zero1", "tp", "pp"},
                "ranks": {"2", "4", "8"},
                "scaling": {"strong"},
                "hook": {"fp16", "bf16", "powersgd"},
                "ddp": {"bucket-view", "static-graph"},
                "launcher": {"torchrun"},
            },
        ),
        ("ops", {"optimizer": {"foreach", "loop"}}),
    ],
)
def test_a_suite_covers_the_techniques_it_is_for(suite: str, wanted: dict[str, Any]) -> None:
    found = values_of(suite)
    assert {axis: values - found.get(axis, set()) for axis, values in wanted.items()} == {
        axis: set() for axis in wanted
    }


def test_what_an_included_suite_takes_away_stays_away() -> None:
    inner = composed('cases = ["resnet50/*"]\nexclude = ["resnet50/train/*"]', name="inner")
    outer = composed('include = ["inner"]\nexclude = ["mlp/*"]', {"inner": inner})
    assert outer.excluded == ("mlp/*", "resnet50/train/*")
