"""An A/A test on a GPU passes where a case was judged and none differs."""

import json
from pathlib import Path
from typing import Any

import pytest

from support.scripts import BENCHMARKS, script


@pytest.fixture
def comparison(monkeypatch: pytest.MonkeyPatch) -> Any:
    """The script, which imports others of its folder."""
    monkeypatch.syspath_prepend(BENCHMARKS / "gpu")
    return script("gpu/comparison")


def case(status: str, low: float | None = 0.99) -> dict[str, Any]:
    verdict = {"n": 4, "ratio": 1.0, "ratio_low": low, "ratio_high": None if low is None else 1.01}
    return {"case": "gemm/infer/size=4096/eager", "status": status, "verdict": verdict}


@pytest.mark.parametrize(
    ("cases", "passes"),
    [
        ([case("same"), case("unclear")], True),
        ([case("same"), case("slower")], False),
        ([case("same"), case("faster")], False),
        ([case("same"), {**case("broken"), "verdict": None}], False),
        # Too few pairs of every case decide nothing.
        ([case("unclear", low=None)], False),
        ([], False),
    ],
)
def test_it_passes_where_a_case_was_judged_and_none_differs(
    comparison: Any, tmp_path: Path, cases: list[dict[str, Any]], passes: bool
) -> None:
    report = tmp_path / "report.json"
    report.write_text(json.dumps({"headline": "Go", "cases": cases}))
    assert comparison._no_difference(report) is passes


def test_an_upgrade_without_a_report_does_not_pass(comparison: Any, tmp_path: Path) -> None:
    assert not comparison._no_difference(tmp_path / "report.json")
