"""docs/coverage.md: every reported regression has cases that are measured, or says why it has none."""

import tomllib

import pytest

from runner.suites import plan
from runner.suites.suite import built_in, workloads
from runner.worker.case import FAMILIES
from support.scripts import BENCHMARKS, script

MUSEUM = BENCHMARKS / "museum"
REPORTS = tomllib.loads((MUSEUM / "reports.toml").read_text())["report"]
EXHIBITS = tomllib.loads((MUSEUM / "exhibits.toml").read_text())["exhibit"]


def test_every_report_has_cases_that_can_be_measured_or_a_reason() -> None:
    cases = {case for one in REPORTS for case in one.get("cases", ())}
    assert plan.invalid(cases, workloads()) == {}
    assert [one["id"] for one in REPORTS if bool(one.get("cases")) == bool(one.get("missing"))] == []
    assert {one["family"] for one in REPORTS} <= set(FAMILIES)


def test_a_case_that_shows_a_regression_on_a_cpu_is_in_the_suite_of_regressions() -> None:
    measured = set(built_in()["regressions"].cases) | set(built_in()["ops"].cases)
    on_cpu = {case for one in REPORTS if one["device"] in ("cpu", "any") for case in one.get("cases", ())}
    assert sorted(on_cpu - measured) == []


def test_every_exhibit_is_of_a_report_and_can_be_measured() -> None:
    assert {one["report"] for one in EXHIBITS} <= {one["id"] for one in REPORTS}
    assert plan.invalid({one["case"] for one in EXHIBITS}, workloads()) == {}


def test_the_page_of_coverage_is_what_the_museum_holds(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.syspath_prepend(str(MUSEUM))
    assert (BENCHMARKS.parent / "docs/coverage.md").read_text() == script("museum/coverage").page(), (
        "write it again: python benchmarks/museum/coverage.py"
    )
