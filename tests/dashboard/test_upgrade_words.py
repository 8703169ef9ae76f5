"""What the upgrade page says of its tables: what comes first, what is left out, what counts as nothing."""

import math
from collections.abc import Sequence
from dataclasses import replace

import pytest

from analysis.comparison.case_results import CaseResult, CaseSide
from analysis.comparison.policy import Policy
from analysis.comparison.thresholds import Threshold
from dashboard.upgrades.sections import Report, report
from reports import sentences, tables, wording
from reports.rows import rows
from reports.text.reason_text import decision_body, sentence
from reports.upgrade_report import JudgedUpgrade
from support.builders.run_records import a_run
from support.builders.upgrade_reports import a_result, an_exact_verdict, dispatched, reported, screened

GONE = a_result("gone/infer/-/eager", new=CaseSide("crashed", "no"), verdicts={})
NOISE = {"noise": 0.3}


def report_of(cases: Sequence[CaseResult], policy: Policy | None = None) -> Report:
    return report(a_run(), reported(cases, policy))


def section(found: Report, title: str) -> str:
    """What stands above the table of a section, before what its metric is."""
    return next(each.about for each in found.sections if each.title.startswith(title))


@pytest.mark.parametrize(
    ("cases", "first"),
    [
        ([a_result("a/infer/-/eager", 5.0)], "1 case changed: those come first, in the order of impact"),
        (
            [a_result("a/infer/-/eager", 5.0), GONE],
            "1 case changed: those come after what broke, in the order",
        ),
        ([a_result("a/infer/-/eager", **NOISE)], "No case moved. Latency (min-based)"),
        (
            [a_result("a/infer/-/eager", 0.9)],
            "No case changed; the largest changes within the noise",
        ),
        (
            [a_result("a/infer/-/eager", 0.9), GONE],
            "No case changed; the largest changes within the noise come after what broke.",
        ),
        ([a_result("a/infer/-/eager", verdicts={})], "No case has a verdict."),
    ],
    ids=["moved", "broken", "same", "unclear", "unclear and broken", "no number"],
)
def test_which_cases_come_first_is_what_does(cases: Sequence[CaseResult], first: str) -> None:
    assert section(report_of(cases), "What moved").startswith(first)


@pytest.mark.parametrize(("many", "cut"), [(15, ""), (20, "Only the 15 that come first of 20 are drawn;")])
def test_a_chart_that_leaves_cases_out_says_so(many: int, cut: str) -> None:
    found = report_of([a_result(f"case{n:02}/infer/-/eager", 3.0 + n / 10) for n in range(many)])
    (chart,) = [each.chart for each in found.sections if each.title.startswith("What moved")]
    # One line is that of the whole.
    assert chart is not None and len(chart.rows) == 16
    assert (cut in section(found, "What moved")) and ("are drawn" in section(found, "What moved")) == bool(
        cut
    )


def test_a_chart_that_leaves_techniques_out_says_so() -> None:
    found = report_of([a_result(f"a/infer/-/technique={n:02}", 3.0) for n in range(17)])
    assert "Only the 15 that moved most of 17 are drawn; the CSV file has all." in section(found, "Over all")
    assert "are drawn" not in section(report_of([a_result("a/infer/-/eager", 3.0)]), "Over all")


def test_of_an_exact_metric_no_test_is_claimed_and_what_is_too_small_counts_as_nothing() -> None:
    memory = an_exact_verdict("rss_peak_steady", 600.0, 603.0)
    cases = [a_result("m/infer/-/eager", more={"rss_peak_steady": memory})]
    found = report_of(cases, Policy(metric="rss_peak_steady"))
    assert "is proved with an error" not in section(found, "What moved")
    assert "is proved with an error" in section(report_of(cases), "What moved")
    nothing = "A difference below the threshold counts as 0."
    assert nothing in section(found, "Over all") and nothing not in section(report_of(cases), "Over all")
    (table,) = found.judged.upgrade.tables
    assert (table.metric, table.geomean.change) == ("rss_peak_steady", 0.0)
    assert nothing in sentences.about_table(table, Policy())
    # Where a policy lets nothing be too small, nothing counts as none.
    strict = Policy(thresholds={"rss_peak_steady": Threshold(0.02, absolute=0.0, exact=True)})
    found = report_of(cases, strict)
    (table,) = found.judged.upgrade.tables
    assert table.geomean.change == pytest.approx(math.log(603 / 600))
    assert nothing not in sentences.about_table(table, strict)
    assert nothing not in section(found, "Memory") and all(
        nothing not in str(each.content) for each in found.sections
    )


def test_why_the_interval_of_a_mean_over_one_case_is_not_the_cases_own() -> None:
    one_look_note = "The interval of the geomean over all cases covers all looks of the decision"
    cases = [a_result("a/infer/-/eager", 3.0)]
    assert one_look_note in section(report_of(cases), "Over all")
    subject, results, upgrade = reported(cases)
    one_look = replace(subject, plan=replace(subject.plan, largest=4))
    assert one_look_note not in section(
        report(a_run(), JudgedUpgrade(one_look, results, upgrade)), "Over all"
    )


def test_what_a_case_may_do_is_no_ground_to_go() -> None:
    cases = [a_result(f"case{n}/infer/-/eager", -3.0) for n in range(4)]
    policy = Policy(may_break=("gone/*",), slower_share=0.5, unmeasured_share=0.5)
    upgrade = reported([*cases, GONE], policy)[2]
    assert upgrade.decision == "go" and sentence(upgrade.reasons[0]).startswith("gone/infer/-/eager broke")
    body = decision_body(upgrade)
    assert body["because"].startswith("no case of 4 is slower by 10 % or more")
    assert wording.because(upgrade).startswith(body["because"])
    # Elsewhere the heaviest reason is the ground.
    upgrade = reported([*cases, GONE])[2]
    body = decision_body(upgrade)
    assert (body["decision"], body["because"]) == ("no-go", sentence(upgrade.reasons[0]))
    assert body["broken"] == [GONE.case]


def test_what_runs_differently_stands_on_the_page_as_in_the_report() -> None:
    found = report(a_run(), dispatched())
    (own,) = [each for each in found.sections if each.title == "What runs differently"]
    assert own.about.startswith("1 of 2 cases run differently")
    (table,) = own.tables
    assert table.rows == tables.dispatch(found.judged.subject, rows(dispatched())).rows
    assert "ref:any instead of jit:avx512_core" in table.markdown()
    assert "What runs differently" not in [each.title for each in report_of([GONE]).sections]


def test_a_screened_upgrade_says_on_its_page_how_it_was_screened() -> None:
    found = report(a_run(), screened())
    (own,) = [each for each in found.sections if each.title == "How it was screened"]
    assert own.about.startswith("Screened: 5 cases, by fingerprint and 2 short pairs each. 3 went on")
    assert len(own.tables[0].rows) == 3
    assert "Screened" in found.verdict
