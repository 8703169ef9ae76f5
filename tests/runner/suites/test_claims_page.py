"""docs/claims.md: every row of the articles has a case that is measured, or says why it has none."""

import tomllib
from typing import Any

from runner.suites import plan
from runner.suites.references import all_claims
from runner.suites.suite import workloads
from support.scripts import BENCHMARKS, script

PAGE = script("claims/page")
ROWS: list[dict[str, Any]] = tomllib.loads((BENCHMARKS / "claims/articles.toml").read_text())["row"]
#: What was found partly or not at all when the articles were first compared with the program, by article.
FOUND = {
    "0": "2 3 5 7 9 10 11b 12 14 15 20 23",
    "1": "3 5 6 11 16 18 20",
    "2": "2 3 4 6 9 12 15 17 19 20 21 22 24 25 26 27 29",
    "3": "3 4 5 6 7 8 9 10 11 12 14 15 16 18 19 20",
    "4": "4 6 7 9 11 12 16 18 19 20",
}


def test_no_row_of_the_articles_is_lost() -> None:
    expected = [f"{article}.{row}" for article, rows in FOUND.items() for row in rows.split()]
    assert [row["id"] for row in ROWS] == expected
    assert len(expected) == 62


def test_every_case_can_be_measured_and_every_row_without_one_says_why() -> None:
    cases = {case for row in ROWS for case in row.get("cases", ())}
    assert plan.invalid(cases, workloads()) == {}
    assert {row["state"] for row in ROWS} <= set(PAGE.STATES)
    assert [row["id"] for row in ROWS if row["state"] == "none" and not row["note"]] == []
    deployment = {"4.16"}
    without = {row["id"] for row in ROWS if row["state"] in ("works", "gpu") and not row.get("cases")}
    assert without == deployment


def test_a_claim_of_a_row_is_about_one_of_its_cases() -> None:
    known = {claim.statement: claim for claim in all_claims()}
    for row in ROWS:
        for statement in row.get("claims", ()):
            assert any(known[statement].concerns(case) for case in row["cases"]), (row["id"], statement)


def test_the_page_is_what_the_rows_and_figures_say() -> None:
    assert (BENCHMARKS.parent / "docs/claims.md").read_text() == PAGE.page(), (
        "write it again: python benchmarks/claims/page.py"
    )
