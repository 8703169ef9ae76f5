"""Pass rate, latency, compile time and memory beside the verdict, in every form of the report."""

import io
import json
from collections.abc import Callable

import pytest
from rich.console import Console

from analysis.comparison.pairs import Pair
from analysis.comparison.policy import Limits, Policy
from analysis.comparison.thresholds import threshold_of
from analysis.comparison.verdict import judge
from analysis.decision.scorecard import MetricScore
from cli.output.upgrade_report import print_upgrade
from reports.body import upgrade_json
from reports.markdown import upgrade_markdown
from reports.page import upgrade_html
from reports.report_context import JudgedUpgrade
from reports.scorecard import entries
from reports.sentences import rules
from support.builders.upgrade_reports import FLOOR, a_result, a_verdict, an_exact_verdict, reported


def grown() -> JudgedUpgrade:
    """Twelve cases as fast as before; one needs 8 % more memory, one compiles for 22 % longer, warm."""
    memory = {"cuda_peak_allocated": an_exact_verdict("cuda_peak_allocated", 1000.0, 1080.0)}
    same = {
        "cuda_peak_allocated": an_exact_verdict("cuda_peak_allocated", 1000.0, 1000.0),
        "compile_warm": a_verdict(0.0, "compile_warm", noise=5.0, old=4.0),
        "compile_cold": a_verdict(30.0, "compile_cold", n=1, old=40.0),
    }
    longer = {"compile_warm": a_verdict(22.0, "compile_warm", noise=5.0, old=4.0)}
    cases = [a_result(f"same{number}/infer/-/compile=default", more=same) for number in range(10)]
    cases.append(a_result("bert_large/train/-/precision=amp-bf16", more=memory))
    cases.append(a_result("gpt2/infer/-/compile=max-autotune", more=longer))
    return reported(cases)


def printed(report: JudgedUpgrade) -> str:
    """What the terminal shows."""
    console = Console(file=io.StringIO(), width=400)
    print_upgrade(console, report)
    assert isinstance(console.file, io.StringIO)
    return console.file.getvalue()


def as_json(report: JudgedUpgrade) -> str:
    return json.dumps(upgrade_json(report))


@pytest.mark.parametrize(
    "form",
    [
        printed,
        as_json,
        lambda it: upgrade_markdown(it),
        lambda it: upgrade_html(it),
    ],
)
def test_every_form_names_memory_and_compile_time_with_their_numbers(
    form: Callable[[JudgedUpgrade], str],
) -> None:
    # The page may break a key behind its separators and keeps a number and its sign on one line.
    text = form(grown()).replace("<wbr>", "").replace("&nbsp;", " ").replace("&#95;", "_").replace("\\", "")
    for part in (
        "bert_large/train/-/precision=amp-bf16 +8.0 %",
        "gpt2/infer/-/compile=max-autotune +22.2 %",
        "Pass rate",
        "12 of 12",
        "Peak memory",
        "Compile time",
    ):
        assert part in text, part


def test_the_strip_and_the_warning_come_before_the_reasons() -> None:
    text = printed(grown())
    assert "Go, with 2 warnings: no case of" in text
    assert "warnings: Peak allocated: 1 of 11 cases is worse" in text
    assert text.index("Peak memory ") < text.index("1. warning") < text.index("4. go")


def test_few_cold_pairs_are_reported_as_few() -> None:
    subject, _, upgrade = grown()
    _, _, compile_time, _ = entries(upgrade.scorecard, subject.policy)
    (cold,) = [note for note in compile_time.notes if note.startswith("Compile, cold")]
    assert cold.endswith("+30.1 % in the median of 10 cases with 1 pair each, not proved")
    assert compile_time.state == "warning"


def test_a_single_pair_of_memory_is_no_proved_number() -> None:
    once = judge("rss_peak_steady", [Pair(500.0, 700.0)], threshold_of("rss_peak_steady"))
    subject, _, upgrade = reported([a_result("gpt2/infer/-/eager", more={"rss_peak_steady": once})])
    _, _, _, memory = entries(upgrade.scorecard, subject.policy)
    assert (memory.state, memory.value) == ("warning", "+40.0 %, not proved")


def test_a_number_beyond_its_limit_does_not_read_as_the_limit() -> None:
    """All cases need 2.04 % more, where 2 % are allowed, and one 10.04 %, where 10 % are."""
    grown = [("rest", 1020.4)] * 9 + [("worst", 1100.4)]
    cases = [
        a_result(
            f"{name}{number}/infer/-/eager",
            more={"rss_peak_steady": an_exact_verdict("rss_peak_steady", 1000.0, new)},
        )
        for number, (name, new) in enumerate(grown)
    ]
    subject, _, upgrade = reported(cases[:9])
    *_, memory = entries(upgrade.scorecard, subject.policy)
    assert (memory.state, memory.value) == ("warning", "+2.04 %")
    assert memory.notes[0].startswith("Peak RSS, steady: +2.04 % [")
    subject, _, upgrade = reported(cases)
    *_, memory = entries(upgrade.scorecard, subject.policy)
    assert (memory.state, memory.largest) == ("no-go", "+10.04 % worst9/infer/-/eager")


def test_the_limit_of_a_case_is_the_one_that_it_is_held_against() -> None:
    # As 0.1.0 stored it: 15 % is beyond the usual limit and not beyond this one.
    policy = Policy(worst={"latency_floor": 0.1, "rss_peak_steady": 0.2, "cuda_peak_allocated": 0.1})
    grown = {"rss_peak_steady": an_exact_verdict("rss_peak_steady", 1000.0, 1150.0)}
    _, _, upgrade = reported([a_result(f"{number}/infer/-/eager", more=grown) for number in range(3)], policy)
    _, _, _, memory = entries(upgrade.scorecard, policy)
    assert memory.state == "warning"
    assert "the worst Peak RSS, steady 20 %" in memory.notes[-1] and "10 %" not in memory.notes[-1]


def test_the_json_has_the_four_with_ratios() -> None:
    body = upgrade_json(grown())
    assert [one["name"] for one in body["scorecard"]] == [
        "pass_rate",
        "latency",
        "compile_time",
        "peak_memory",
    ]
    rate, latency, compile_time, memory = body["scorecard"]
    assert (rate["counts"]["new"], latency["metrics"][0]["metric"]) == (12, FLOOR)
    (allocated,) = memory["metrics"]
    assert (memory["state"], allocated["worse"]) == ("warning", ["bert_large/train/-/precision=amp-bf16"])
    assert allocated["worst_ratio"] == pytest.approx(1.08)
    assert compile_time["metrics"][1]["hint_ratio"] == pytest.approx(1.30, abs=0.01)
    assert [one["metric"] for one in body["reasons"] if one["warning"]] == [
        "cuda_peak_allocated",
        "compile_cold",
    ]


def test_the_limits_stand_among_the_rules() -> None:
    policy = Policy(peak_memory=Limits(0.04, 0.08, 0.01, blocks=("case", "worst")))
    (rule,) = [rule for rule in rules(reported([], policy)[0]) if rule.startswith("Peak memory")]
    assert rule == (
        "Peak memory: at most 10 % of the cases may be worse by 4 % or more (no-go), none by more than 8 % "
        "(no-go), the geomean by at most 1 % (warning)."
    )


def test_without_any_number_the_strip_says_so() -> None:
    subject, _, upgrade = reported([a_result("mlp", verdicts={})])
    pass_rate, *others = entries(upgrade.scorecard, subject.policy)
    assert (pass_rate.value, pass_rate.state) == ("1 of 1", "ok")
    assert {(one.value, one.state, one.notes) for one in others} == {("–", "not measured", ())}


def test_a_metric_without_a_ratio_differs_from_one_not_measured() -> None:
    zero = {"cuda_peak_allocated": an_exact_verdict("cuda_peak_allocated", 0.0, 0.0)}
    subject, _, upgrade = reported([a_result("mlp", more=zero)])
    (score,) = upgrade.scorecard.peak_memory.metrics
    assert isinstance(score, MetricScore)
    *_, memory = entries(upgrade.scorecard, subject.policy)
    assert (memory.state, memory.notes[0]) == ("ok", "Peak allocated: no difference that has a ratio")
