"""`pyrometer suites` and `cases` teach what can be measured, and find the mistake in a suite of one's own."""

import json
import re
from pathlib import Path

import pytest
from typer.testing import CliRunner

from cli.commands.suites import page
from cli.registry import app
from configuration.errors import ConfigurationError
from configuration.settings import load_settings
from runner.suites import plan
from runner.suites.suite import built_in, workloads
from support.command_line import typed
from support.site import ADD, ROOT, Site
from workflows.errors import UsageError
from workflows.planning.select_cases import all_suites, refuse_unknown, suite_named

OWN = """
[suites.own]
summary = "what we serve"
replicates = 2
cases = ["add/*"]
include = ["tiny"]
exclude = ["*/compile=default,precision=amp-bf16"]

[[suites.own.matrix]]
why = "because"
workloads = ["linear/infer/width=8"]
compile = ["default"]
precision = ["fp32", "amp-bf16"]

[suites.tiny]
cases = ["linear/train/width=8/eager"]
"""

#: The rest of `[suites.wrong]` and what its complaint says after the file's name.
MISTAKES = [
    ("replicats = 3", r'suites.wrong: unknown key "replicats": did you mean "replicates"\?'),
    (
        '[[suites.wrong.matrix]]\nworkloads = ["linear/infer/width=8"]\ncompil = ["none"]',
        r'suites.wrong.matrix.0.compil: unknown key "compil": did you mean "compile"\?',
    ),
    (
        '[[suites.wrong.matrix]]\nworkloads = ["linear/infer/width=8"]\ncompile = [\n "none",\n "defualt"\n]',
        r'suites.wrong.matrix.0.compile.1: unknown value of compile "defualt": did you mean "default"\?',
    ),
    (
        '[[suites.wrong.matrix]]\nworkloads = [\n  "add/infer/size=8",\n  "liner/infer/width=8"]',
        r'suites.wrong.matrix.0.workloads.1: case "liner/infer/width=8/eager": unknown case "liner": did',
    ),
    (
        '[[suites.wrong.matrix]]\nworkloads = ["linear/infer/widht=8"]\ncompile = ["default"]',
        r'suites.wrong.matrix.0.workloads.0: case ".*": unknown parameter of linear "widht": did you mean "',
    ),
    (
        '[[suites.wrong.matrix]]\nworkloads = ["linear/infr/width=8"]',
        r'suites.wrong.matrix.0.workloads.0: unknown phase "infr": did you mean "infer"\?',
    ),
    ('cases = ["add/train/size=8/eager"]', r'suites.wrong.cases.0: case ".*": unknown phase of add "train"'),
    (
        'cases = ["add/infer/size=big/eager"]',
        r'suites.wrong.cases.0: case ".*": add takes no size=big, but values such as 8',
    ),
    (
        'cases = ["add/infer/size=8/eager"]\nreplicates = 100_001',
        r"suites.wrong.replicates: 100,001 replicates are too many: one run measures 100,000 at most",
    ),
    ('include = ["smok"]', r'suites.wrong.include.0: unknown suite "smok": did you mean "smoke"\?'),
    (
        'include = ["around"]\n[suites.around]\ninclude = ["wrong"]',
        r'suites.around.include.0: "wrong" includes',
    ),
    (
        'replicates = 1\n[suites.wrang]\ncases = ["add/*"]',
        r"suites.wrong: it has no cases: cases, matrix, include would give it some; "
        r'did you mean "wrang"\?',
    ),
    ('include = ["ops"]\nexclude = ["*"]', r"suites.wrong.exclude.*: exclude leaves no case"),
]

#: What the cases of a site's folder are described as.
WORKLOADS = (
    {"name": "add", "phases": ["infer"], "grid": {"size": [8]}, "source": "user_cases.cases"},
    {"name": "linear", "phases": ["infer", "train"], "grid": {"width": [8]}, "source": "user_cases.cases"},
)


@pytest.mark.parametrize(("text", "said"), MISTAKES, ids=[text for text, _ in MISTAKES])
def test_a_mistake_in_a_suite_names_key_and_nearest_word(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, text: str, said: str
) -> None:
    monkeypatch.chdir(tmp_path)
    Path("pyrometer.toml").write_text(f"[suites.wrong]\n{text}\n[suites.right]\ncases = ['add/*']\n")
    with pytest.raises((ConfigurationError, UsageError)) as caught:
        settings = load_settings(environ={})
        assert suite_named(settings, "right").cases == ("add/*",)
        assert "wrong" not in all_suites(settings, tolerant=True) or "case" in said
        refuse_unknown(suite_named(settings, "wrong"), WORKLOADS, settings)
    assert re.match(f"pyrometer.toml: {said}", str(caught.value)), caught.value


@pytest.mark.torch
def test_own_suites_are_shown_as_plans_and_a_wrong_one_blocks_no_other(site: Site) -> None:
    with (site.folder / "pyrometer.toml").open("a") as file:
        file.write(OWN)
    body = json.loads(typed(site, "suites", "show", "own", "--cases", "cases.py", "--json").out)
    assert body["cases"] == [
        ADD,
        "linear/infer/width=8/eager",
        "linear/infer/width=8/compile=default",
        "linear/train/width=8/eager",
    ]
    assert body["baselines_added"] == ["linear/infer/width=8/eager"]
    assert body["sessions"] == ["add/infer/size=8", "linear/infer/width=8", "linear/train/width=8"]
    assert body["estimate_seconds"] == pytest.approx(sum(body["case_seconds"]))
    assert [(axis["axis"], axis["cases"]) for axis in body["axes"]] == [("eager", 3), ("compile", 1)]
    shown = typed(site, "suites", "show", "own", "--cases", "cases.py").out
    assert "own: what we serve" in shown
    assert "4 cases in 3 sessions, 2 replicates each: about" in shown
    assert re.search(r"linear/infer/width=8/eager .*baseline, added", shown)
    assert re.search(r"^compile +1 .*default *$", shown, re.MULTILINE)
    missing = typed(site, "suites", "show", "own").one_sentence()
    assert 'unknown case "add*"' in missing or "come with --cases FILE" in missing
    with (site.folder / "pyrometer.toml").open("a") as file:
        file.write('[[suites.wrong.matrix]]\nworkloads = ["add/infer/size=8"]\ncompile = ["defualt"]\n')
    for command in (["suites", "list"], ["suites", "show", "wrong"], ["run", "--suite", "wrong"]):
        assert 'did you mean "default"?' in typed(site, *command).one_sentence()
    assert typed(site, "suites", "show", "smoke").code == 0


def test_without_an_environment_a_suite_is_shown_and_a_note_says_what_is_missing(tmp_path: Path) -> None:
    site = Site(tmp_path, Path("/nowhere/python"), settings=OWN)
    done = typed(site, "suites", "show", "own", "--cases", "cases.py")
    assert done.code == 0 and "linear/infer/width=8/compile=default" in done.out and "add/*" in done.out
    assert "there is no interpreter at" in done.err and "globs are not expanded" in done.err


@pytest.mark.torch
def test_the_catalogue_is_what_the_environment_answers(site: Site) -> None:
    answered = json.loads(typed(site, "cases", "list", "--cases", "cases.py", "--json").out)
    assert [one for one in answered if not one["source"].startswith("user_cases")] == list(workloads())


def test_every_case_of_every_built_in_suite_can_be_built() -> None:
    cases = dict.fromkeys(case for suite in built_in().values() for case in suite.cases)
    assert plan.invalid(cases, workloads()) == {}


@pytest.mark.torch
def test_a_workload_is_shown_with_claims_and_techniques(site: Site) -> None:
    shown = typed(site, "cases", "show", "bert_large").out
    assert re.search(r"^claimed of precision=amp-fp16, precision=amp-bf16: .* 2.3 times", shown, re.MULTILINE)
    assert "/compile=default,precision=amp-bf16" in shown


@pytest.mark.parametrize("columns", [80, 100, 185])
def test_lists_are_as_wide_as_the_terminal_says(monkeypatch: pytest.MonkeyPatch, columns: int) -> None:
    monkeypatch.setenv("COLUMNS", str(columns))
    for words in (("cases", "list"), ("suites", "list"), ("cases", "show", "gpt2_small")):
        lines = invoke(*words).splitlines()
        table = [
            line
            for line in lines
            if not line.startswith(("claimed ", "with ", "phases: ", "family: ", "gpt2_small: "))
        ]
        assert max(map(len, table)) <= columns
    listed = {word for line in invoke("cases", "list").splitlines()[1:] for word in line.split()[:4]}
    assert {str(one["name"]) for one in workloads()} <= listed


def test_a_workload_is_shown_once_for_each_of_its_sizes() -> None:
    shown = invoke("cases", "show", "resnet50").splitlines()
    table = [line.split() for line in shown if line.startswith("resnet50/")]
    cases = {case for suite in built_in().values() for case in suite.cases if case.startswith("resnet50/")}
    assert len(table) < len(cases) / 2
    for suite in built_in().values():
        for case in suite.cases:
            measured, _, technique = case.rpartition("/")
            if measured.startswith("resnet50/"):
                assert [
                    row for row in table if row[0] == measured and {suite.name, f"{suite.name},"} & {*row}
                ], case
                assert technique.split(",")[0] in " ".join(shown)


def test_one_case_is_no_cases(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    Path("pyrometer.toml").write_text('[suites.one]\ncases = ["gemm/infer/size=511/eager"]\nreplicates = 1\n')
    assert "1 case in 1 session, 1 replicate each" in invoke("suites", "show", "one")


def test_techniques_can_be_listed() -> None:
    axes = {axis["name"]: axis for axis in json.loads(invoke("cases", "techniques", "--json"))}
    assert "max-autotune" in axes["compile"]["values"] and axes["ranks"]["counts"]
    assert re.search(
        r"^allocator +preset, as-it-comes, .*jemalloc", invoke("cases", "techniques"), re.MULTILINE
    )


def invoke(*arguments: str) -> str:
    """What the command writes, called in this process."""
    done = CliRunner().invoke(app, arguments)
    assert done.exit_code == 0, done.output
    return done.stdout


def test_every_built_in_case_is_on_the_page_of_suites_with_its_reason() -> None:
    written = page()
    for suite in built_in().values():
        assert f"## `{suite.name}`" in written
        for block in suite.blocks:
            assert block.why in written
        for case in suite.cases:
            workload, _, technique = case.rpartition("/")
            assert f"`{workload}`" in written and f"`{technique}`" in written


def test_the_example_on_the_page_of_suites_is_a_suite(tmp_path: Path) -> None:
    example = (ROOT / "docs" / "suite.md").read_text().split("```toml\n")[1].split("```")[0]
    (tmp_path / "pyrometer.toml").write_text(example)
    suite = suite_named(load_settings(cwd=tmp_path, environ={}), "mine")
    stem = "resnet50/infer/batch=8,image=224"
    assert [case.removeprefix(stem) for case in suite.cases if case.startswith(stem)] == [
        "/eager",
        "/compile=default",
        "/compile=default,precision=amp-bf16",
        "/layout=channels-last",
    ]
    assert "transformer_xl/infer/batch=1,layers=2,tokens=150/eager" in suite.cases
    assert not any(case.startswith("lstm_lm") for case in suite.cases)
