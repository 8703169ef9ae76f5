"""The report of a run in its four forms: the same decision and cases, and no markup but ours."""

import json
import re
from html.parser import HTMLParser
from importlib import resources
from typing import Any
from xml.etree import ElementTree

import pytest
from jsonschema import Draft202012Validator

from reports.run_report import RUN_FORMATS, JudgedRun, headline
from support.builders.run_records import BERT, MLP, RESNET_COMPILED
from support.builders.run_reports import CALM, a_mixed_run, a_passed_run, badly, judged_run, replicates
from support.builders.upgrade_reports import NASTY
from support.golden import Golden

SCHEMA: dict[str, Any] = json.loads(
    resources.files("reports").joinpath("run.schema.json").read_text(encoding="utf-8")
)
RUNS = {
    "run_passed.md": a_passed_run(),
    "run_mixed.md": a_mixed_run(),
    "run_interrupted.md": judged_run(replicates(CALM, 2.0), state="interrupted"),
    "run_empty.md": judged_run([]),
}


@pytest.mark.parametrize("which", RUNS)
def test_the_whole_report(golden: Golden, which: str) -> None:
    golden.check(which, RUN_FORMATS[".md"](RUNS[which]))


@pytest.mark.parametrize("which", RUNS)
def test_every_form_has_the_decision_and_every_case(which: str) -> None:
    judged = RUNS[which]
    keys = [one.case for one in judged.cases]
    body = json.loads(RUN_FORMATS[".json"](judged))
    Draft202012Validator(SCHEMA).validate(body)
    assert (body["schema"], body["decision"]) == ("pyrometer.run/1", judged.decision)
    assert [one["case"] for one in body["cases"]] == keys
    (suite,) = ElementTree.fromstring(RUN_FORMATS[".xml"](judged))
    assert [test.attrib["name"] for test in suite] == ["decision", *keys]
    page = Text(RUN_FORMATS[".html"](judged))
    assert headline(judged).partition(":")[0] in page.text
    assert all(key in page.text for key in keys)
    assert all(f"`{key}`" in RUN_FORMATS[".md"](judged) for key in keys)


class Text(HTMLParser):
    """The text of a page without its style and script, and the names of its elements."""

    def __init__(self, page: str) -> None:
        super().__init__()
        self.text = ""
        self.elements: list[str] = []
        self.feed(re.sub(r"<(style|script)>.*?</\1>", "", page, flags=re.DOTALL))
        self.close()

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.elements.append(tag)

    def handle_data(self, data: str) -> None:
        self.text += data


def named(judged: JudgedRun, kind: str) -> set[str]:
    """The tests of the JUnit file that failed or were skipped."""
    root = ElementTree.fromstring(RUN_FORMATS[".xml"](judged))
    (suite,) = root
    found = {test.attrib["name"] for test in suite if test.find(kind) is not None}
    assert suite.attrib["failures" if kind == "failure" else "skipped"] == str(len(found))
    return found


def test_junit_is_red_where_the_run_failed() -> None:
    resnets = {RESNET_COMPILED, "resnet50/infer/batch=8,image=224/eager"}
    assert named(RUNS["run_mixed.md"], "failure") == {"decision", *resnets}
    assert named(RUNS["run_mixed.md"], "skipped") == {
        "noisy/infer/batch=1/eager",
        "left/infer/batch=1/eager",
        BERT,
    }
    assert (named(RUNS["run_passed.md"], "failure"), named(RUNS["run_passed.md"], "skipped")) == (
        set(),
        {BERT},
    )
    assert named(RUNS["run_interrupted.md"], "skipped") == {"decision"}


def test_the_numbers_of_the_json_are_those_of_the_run() -> None:
    body = json.loads(RUN_FORMATS[".json"](RUNS["run_passed.md"]))
    cases = {one["case"]: one for one in body["cases"]}
    slower, unsupported = cases[MLP], cases[BERT]
    assert (slower["latency"], slower["level"], slower["earlier_runs"]) == (2.205, 2.0, 10)
    assert slower["ratio"] == pytest.approx(2.205 / 2.0)
    assert 1 < slower["noise"] < slower["ratio"]
    assert (slower["ok"], slower["replicates"], slower["rss_peak"]) == (2, 2, 512.0)
    assert unsupported["status"] == "unsupported"
    assert unsupported["latency"] is unsupported["ratio"] is None


def test_columns_of_what_was_not_measured_are_left_out() -> None:
    alone = RUN_FORMATS[".md"](judged_run(replicates(CALM, 2.0, 2.0)))
    assert "Change" not in alone and "compile cold" not in alone
    cold = replicates(CALM, 2.0, metrics={"latency": 2.0, "compile_cold": 14.25})
    assert "| compile cold s |" in RUN_FORMATS[".md"](judged_run(cold))


def test_no_text_of_a_case_is_markup() -> None:
    judged = a_mixed_run(reason=NASTY)
    markdown = RUN_FORMATS[".md"](judged)
    assert "<img" not in markdown and "@octocat" not in markdown and "\x1b" not in markdown
    page = Text(RUN_FORMATS[".html"](judged))
    assert "img" not in page.elements and "onerror=alert(1)" in page.text
    hostile = judged_run([badly(f"a\x00\ud800{NASTY}/infer/-/eager", "wrong", NASTY)])
    ElementTree.fromstring(RUN_FORMATS[".xml"](hostile))
    assert json.loads(RUN_FORMATS[".json"](hostile))["decision"] == "failed"
