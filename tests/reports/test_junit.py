"""JUnit XML: red where the decision is, every case once, and well-formed whatever a case is called."""

from collections.abc import Callable
from xml.etree import ElementTree

import pytest

from analysis.comparison.case_results import CaseSide
from analysis.comparison.policy import Policy
from reports.junit import document, upgrade_suite
from reports.report_context import JudgedUpgrade
from support.builders.upgrade_reports import (
    NASTY,
    a_large_upgrade,
    a_mixed_upgrade,
    a_result,
    reported,
    screened,
)


def written(report: JudgedUpgrade) -> ElementTree.Element:
    """The one suite of the file."""
    (suite,) = ElementTree.fromstring(document([upgrade_suite(report)], "an upgrade"))
    return suite


def named(suite: ElementTree.Element, kind: str) -> set[str]:
    return {test.attrib["name"] for test in suite.iter("testcase") if test.find(kind) is not None}


@pytest.mark.parametrize("made", [a_mixed_upgrade, a_large_upgrade, screened])
def test_every_case_is_there_once_and_the_decision_first(made: Callable[[], JudgedUpgrade]) -> None:
    report = made()
    suite = written(report)
    names = [test.attrib["name"] for test in suite.iter("testcase")]
    assert names[0] == "decision"
    assert sorted(names[1:]) == sorted(" ".join(one.case.split()) for one in report[1])
    assert suite.attrib["tests"] == str(len(names))
    assert suite.attrib["failures"] == str(len(named(suite, "failure")))


def test_a_go_has_no_failure_though_cases_are_unclear_one_by_one() -> None:
    report = reported([a_result(f"case{n}/infer/-/eager", 0.2, noise=6.0) for n in range(10)])
    assert report[2].decision == "go"
    assert any(verdict.word == "unclear" for verdict in report[2].verdicts.values())
    suite = written(report)
    assert (named(suite, "failure"), named(suite, "skipped")) == (set(), set())


def test_a_no_go_fails_where_a_case_blocks_it() -> None:
    calm = [a_result(f"case{n}/infer/-/eager", 0.0) for n in range(8)]
    slower = a_result("slower/infer/-/eager", 30.0)
    broken = a_result("broken/infer/-/eager", new=CaseSide("crashed", "SIGSEGV"), verdicts={})
    suite = written(reported([*calm, slower, broken]))
    assert named(suite, "failure") == {"decision", slower.case, broken.case}
    said = [failure.attrib["message"] for failure in suite.iter("failure")]
    assert "No-go" in said[0] and any("SIGSEGV" in text for text in said)


def test_a_case_that_may_break_and_did_is_no_test_that_passed() -> None:
    calm = [a_result(f"case{n}/infer/-/eager") for n in range(8)]
    broken = a_result("broken/infer/-/eager", new=CaseSide("crashed", "SIGSEGV"), verdicts={})
    report = reported([*calm, broken], Policy(may_break=("broken",)))
    assert report[2].decision == "go"
    suite = written(report)
    assert (named(suite, "failure"), named(suite, "skipped")) == (set(), {broken.case})


def test_an_unclear_upgrade_skips_its_decision() -> None:
    suite = written(reported([a_result(f"case{n}/infer/-/eager", -2.0, noise=40.0) for n in range(6)]))
    assert named(suite, "skipped") == {"decision"} and named(suite, "failure") == set()
    assert named(written(reported([])), "skipped") == {"decision"}


def test_no_name_breaks_the_file() -> None:
    hostile = f"a\x00\x1b[31m\ud800{NASTY}]]>/infer/-/eager"
    suite = written(reported([a_result(hostile, 30.0)]))
    assert len(list(suite.iter("testcase"))) == 2
