"""An upgrade as rows: every case once, the broken and the worst first."""

import pytest

from analysis.comparison.case_results import CaseResult, CaseSide
from analysis.comparison.policy import Policy, Waiver
from analysis.comparison.screening import ScreenedCase
from analysis.decision.upgrade import decide
from reports.markdown import upgrade_markdown
from reports.report_context import JudgedUpgrade
from reports.rows import grid, left_out, rows, statuses, table_rows, techniques, without_ratio
from reports.sentences import case_count_line, none_broke, not_listed, waiver_lines
from reports.tables import means
from support.builders.upgrade_reports import (
    FLOOR,
    a_large_upgrade,
    a_mixed_upgrade,
    a_result,
    a_subject,
    a_verdict,
    an_exact_verdict,
    reported,
    screened,
)


def test_what_is_broken_comes_first_and_what_has_no_number_last() -> None:
    each = rows(a_mixed_upgrade())
    assert [row.status for row in each] == [
        "broken", "slower", "slower", "unclear", "unclear", "same", "same", "faster", "faster",
        "broken in both", "repaired", "no data", "not measured",
    ]  # fmt: skip
    assert statuses(each)[:4] == ["1 broken", "2 slower", "2 unclear", "2 same"]


def test_more_is_better_for_a_throughput() -> None:
    name = "throughput"
    cases = [
        a_result(f"{word}/infer/-/eager", verdicts={name: a_verdict(percent, name)})
        for word, percent in (("up", 5.0), ("down", -5.0))
    ]
    each = rows(reported(cases, Policy(metric=name)))
    assert [(row.case.split("/")[0], row.status) for row in each] == [("down", "slower"), ("up", "faster")]


def test_the_weight_of_a_case_is_part_of_its_impact() -> None:
    cases = [a_result("much/infer/-/eager", 4.0), a_result("mine/infer/-/eager", 2.0)]
    names = [row.case for row in rows(reported(cases, Policy(weights={"mine": 5.0})))]
    assert names == ["mine/infer/-/eager", "much/infer/-/eager"]


def test_a_case_ends_in_words_without_its_last_ones() -> None:
    each = {
        row.case: row
        for row in rows(reported([a_result("a", new=CaseSide("crashed", "x" * 500), verdicts={})]))
    }
    assert each["a"].summary == "broken: new ended crashed"


def test_no_case_is_lost() -> None:
    judged = a_large_upgrade()
    each = rows(judged)
    assert sorted(row.case for row in each) == sorted(result.case for result in judged.results)
    assert len(each) == 60


def waived() -> JudgedUpgrade:
    """Of eight cases one slower and one wrong, both accepted."""
    cases = [a_result(f"case{number}/infer/-/eager") for number in range(6)]
    cases += [
        a_result("slow/infer/-/eager", 30.0),
        a_result("gone/infer/-/eager", new=CaseSide("wrong", "off by 4 %"), verdicts={}),
    ]
    waivers = (Waiver("slow", "known", "ada"), Waiver("gone", "not in use"))
    return JudgedUpgrade(a_subject(), cases, decide(cases, waivers=waivers))


def test_a_waived_case_shows_what_it_does_now() -> None:
    each = {row.case.partition("/")[0]: row for row in rows(waived())}
    assert each["gone"].summary == "waived: broken: new ended wrong"
    assert each["slow"].summary == "waived: slower"
    assert each["slow"].verdict is not None and each["slow"].verdict.change is not None
    assert {each[case].status for case in ("gone", "slow")} == {"waived"}
    assert waiver_lines(rows(waived()), waived().upgrade) == [
        "Waived: slow (known, ada)",
        "Waived: gone (not in use); broke: gone/infer/-/eager",
    ]
    assert "that are waived" in none_broke(rows(waived()))


@pytest.mark.parametrize(
    ("judged", "listed"),
    [(waived(), "2 waived"), (screened(), "2 screened"), (a_mixed_upgrade(), "")],
    ids=["waived", "screened", "mixed"],
)
def test_every_case_is_in_the_geomean_or_counted_as_left_out(judged: JudgedUpgrade, listed: str) -> None:
    each, upgrade = rows(judged), judged.upgrade
    assert listed in not_listed(each) and bool(listed) == bool(not_listed(each))
    left_out = len(each) - upgrade.overall.cases
    assert f"; {left_out} cases left out." in case_count_line(each, upgrade)
    assert means(judged).rows[0][-1] == left_out
    assert sum(row.left_out for row in techniques(judged)) == left_out
    assert ("Every case is in the geomean" in upgrade_markdown(judged)) == (left_out == 0)


def test_a_technique_of_which_nothing_is_left_has_a_row() -> None:
    judged = a_mixed_upgrade()
    found = {row.technique: row for row in techniques(judged)}
    assert found["export=onnxruntime"].mean is None
    assert [case for case, _ in found["export=onnxruntime"].excluded] == [
        "lstm_lm/infer/batch=4,tokens=8/export=onnxruntime"
    ]
    counted = sum((row.mean.cases if row.mean else 0) + len(row.excluded) for row in found.values())
    assert counted == len(judged.results)


def test_a_technique_whose_cases_are_all_screened_has_no_row() -> None:
    compiled = CaseResult(
        "quiet/infer/-/compile=default",
        "compile=default",
        CaseSide("ok"),
        CaseSide("ok"),
        {},
        screen=ScreenedCase((0.01, -0.02), None, True),
    )
    judged = reported([compiled, a_result("slow/infer/-/eager", 20.0)])
    assert [row.technique for row in techniques(judged)] == ["eager"]


def test_a_table_of_one_metric_has_the_worst_first_and_says_what_has_no_ratio() -> None:
    breaks = {"none": (0, 2), "more": (2, 4), "gone": (2, 0), "same": (1, 1), "still": (0, 0)}
    cases = [
        a_result(name, more={"graph_breaks": an_exact_verdict("graph_breaks", *values)})
        for name, values in breaks.items()
    ]
    (table,) = reported(cases)[2].tables
    assert [case for case, _ in table_rows(table)] == ["none", "more", "gone", "same", "still"]
    assert sorted(without_ratio(table)) == ["gone", "none", "still"]
    assert table.geomean.cases + len(without_ratio(table)) == len(cases)


def test_pairs_that_do_not_count_are_listed() -> None:
    assert left_out(rows(a_mixed_upgrade())) == [
        ("resnet50/infer/batch=8,image=224/compile=default", "2 pairs: new had 55 % of its core")
    ]


def test_a_grid_shows_every_case_or_is_not_shown() -> None:
    each = rows(a_mixed_upgrade())
    found = grid(each, 8)
    assert found and found.techniques[0] == "eager"
    assert sum(cell is not None for _, cells in found.lines for cell in cells) == len(each)
    assert grid(each, 3) is None
    assert grid(rows(reported([a_result("a/infer/-/eager"), a_result("b/infer/-/eager")])), 8) is None


def test_a_metric_that_is_missing_is_no_data() -> None:
    (row,) = rows(reported([a_result("a", verdicts={"first_call": a_verdict(0.0, "first_call")})]))
    assert (row.status, row.summary, FLOOR in row.result.verdicts) == (
        "no data",
        "no data: it has no such number",
        False,
    )
