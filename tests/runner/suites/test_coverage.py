"""docs/coverage.md: every reported regression has cases that are measured, or says why it has none."""

import importlib.util
import sys
import tomllib
from pathlib import Path
from types import ModuleType

from runner.suites import plan
from runner.suites.suite import built_in, workloads
from runner.worker.case import FAMILIES

ROOT = Path(__file__).resolve().parents[3]
MUSEUM = ROOT / "benchmarks" / "museum"
REPORTS = tomllib.loads((MUSEUM / "reports.toml").read_text())["report"]
EXHIBITS = tomllib.loads((MUSEUM / "exhibits.toml").read_text())["exhibit"]


def load(name: str) -> ModuleType:
    """A script of the museum, as a module."""
    spec = importlib.util.spec_from_file_location(name, MUSEUM / f"{name}.py")
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules[name] = module
    spec.loader.exec_module(module)
    return module


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


def test_the_page_of_coverage_is_what_the_museum_holds() -> None:
    load("run")
    assert (ROOT / "docs" / "coverage.md").read_text() == load("coverage").page(), (
        "write it again: python benchmarks/museum/coverage.py"
    )
