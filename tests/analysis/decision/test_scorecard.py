"""Pass rate, latency, compile time and peak memory of an upgrade, and what is said for and against it."""

import math
from typing import Any

import pytest

from analysis.comparison.case_results import CaseResult, CaseSide, side
from analysis.comparison.pairs import Pair
from analysis.comparison.plan import Plan
from analysis.comparison.policy import Limits, Policy
from analysis.comparison.thresholds import threshold_of
from analysis.comparison.verdict import judge
from analysis.decision.comparison import Comparison
from analysis.decision.reasons import Doubtful, MeanChange, Reason
from analysis.decision.upgrade import Upgrade, decide
from reports.rows import without_ratio
from reports.text.reason_text import sentence
from support.builders.upgrade_cases import FLOOR, alike, kinds, result, verdict

MEMORY, WARM, COLD = "cuda_peak_allocated", "compile_warm", "compile_cold"


def needs(case: str, percent: float, *, pairs: int = 6, metric: str = MEMORY) -> CaseResult:
    """A case as fast as before that needs so much more memory."""
    grown = judge(metric, [Pair(1000.0, 1000.0 * (1 + percent / 100))] * pairs, threshold_of(metric))
    return result(case, verdicts={FLOOR: verdict(0.0), metric: grown})


def compiles(case: str, percent: float, metric: str = WARM, n: int = 6, noise: float = 5.0) -> CaseResult:
    """A case as fast as before that compiles for so much longer."""
    return result(case, verdicts={FLOOR: verdict(0.0), metric: verdict(percent, metric, noise, n)})


def about(upgrade: Upgrade, metric: str) -> list[Reason]:
    """The reasons that are about a metric."""
    return [one for one in upgrade.reasons if one.metric == metric]


def test_memory_that_is_proved_to_have_grown_is_a_warning_with_its_number() -> None:
    upgrade = decide([*(needs(f"same{number}", 0.0) for number in range(19)), needs("bert", 8.0)])
    (reason,) = about(upgrade, MEMORY)
    assert (upgrade.decision, reason.kind, reason.warning, reason.cases) == ("go", "memory", True, ("bert",))
    assert "1 of 20 cases is worse" in sentence(reason) and "bert +8.0 %" in sentence(reason)
    assert upgrade.warnings == (reason,) and upgrade.reasons[0] == reason
    card = upgrade.scorecard
    assert (card.peak_memory.state, card.latency.state, card.pass_rate.state) == ("warning", "ok", "ok")
    (memory,) = card.peak_memory.metrics
    assert memory.worse == ("bert",)
    assert memory.verdicts["bert"].change == pytest.approx(math.log(1.08))


def test_a_tenth_more_memory_is_a_no_go_unless_the_policy_only_warns() -> None:
    cases = [*(needs(f"same{number}", 0.0) for number in range(19)), needs("bert", 12.0)]
    upgrade = decide(cases)
    assert (upgrade.decision, upgrade.scorecard.peak_memory.state) == ("no-go", "no-go")
    assert sentence(upgrade.reasons[0]).startswith("bert: Peak allocated worse, +12.0 %")
    assert sentence(upgrade.reasons[0]).endswith("at most +10.0 % is allowed")
    warned = decide(cases, Policy(peak_memory=Limits(case=0.05, worst=0.1, mean=0.02)))
    assert (warned.decision, warned.scorecard.peak_memory.state) == ("go", "warning")


@pytest.mark.parametrize(("old", "new"), [(8.0, 9.0), (5.0, 6.0), (2.0, 3.0), (6.0, 7.0)])
def test_memory_that_grew_by_no_more_than_what_matters_blocks_nothing(old: float, new: float) -> None:
    """One buffer of 1 MiB: a tenth and more of a small case, and too little to matter."""
    grown = judge(MEMORY, [Pair(old, new)] * 4, threshold_of(MEMORY))
    upgrade = decide([*alike(9), result("small", verdicts={FLOOR: verdict(0.0), MEMORY: grown})])
    assert (grown.word, upgrade.decision, about(upgrade, MEMORY)) == ("same", "go", [])


def test_pairs_of_other_sizes_that_all_grew_by_too_little_to_matter_leave_nothing_open() -> None:
    """Of their median, the larger one of the two changes would be more than what matters."""
    grown = judge(MEMORY, [Pair(6.0, 7.0), Pair(9.0, 10.0)] * 2, threshold_of(MEMORY))
    cases = [*alike(9), result("small", verdicts={FLOOR: verdict(0.0), MEMORY: grown})]
    policy = Policy(worst={FLOOR: 0.10, MEMORY: 0.12})
    assert (grown.word, decide(cases, policy).decision) == ("same", "go")


@pytest.mark.parametrize("old", [20.0, 40.0, 80.0, 140.0, 200.0])
def test_memory_at_a_limit_is_allowed_however_its_logarithm_is_rounded(old: float) -> None:
    """Ten buffers that became eleven: 10 % more, and no more than 10 % is allowed."""
    grown = judge(MEMORY, [Pair(old, old * 11 / 10)] * 4, threshold_of(MEMORY))
    upgrade = decide([*alike(9), result("small", verdicts={FLOOR: verdict(0.0), MEMORY: grown})])
    assert (grown.word, upgrade.decision) == ("slower", "go")
    (reason,) = about(upgrade, MEMORY)
    assert reason.warning and "; 1 of them by 5 % or more" in sentence(reason)


@pytest.mark.parametrize("old", [40.0, 60.0, 100.0, 140.0, 700.0])
def test_a_slow_down_of_exactly_the_material_limit_counts(old: float) -> None:
    grown = judge(MEMORY, [Pair(old, old * 21 / 20)] * 4, threshold_of(MEMORY))
    upgrade = decide([result("a", verdicts={MEMORY: grown})], Policy(metric=MEMORY, worst={}, overall=0.5))
    assert kinds(upgrade, "no-go") == ["share"]


def test_a_warm_compile_that_takes_longer_stands_in_the_reasons_with_its_number() -> None:
    cases = [*(compiles(f"same{number}", 0.0) for number in range(8)), compiles("gpt", 22.0)]
    (reason,) = about(decide(cases), WARM)
    assert (reason.speaks, reason.kind, reason.warning) == ("go", "compile", False)
    assert "1 of 9 cases is slower" in sentence(reason) and "gpt +22.2 % [+20.0 %, +24.3 %]" in sentence(
        reason
    )
    cases.append(compiles("bert", 30.0))
    reason = about(decide(cases), WARM)[0]
    assert reason.warning and reason.cases == ("bert", "gpt") and "bert +30.2 %" in sentence(reason)
    assert decide(cases).decision == "go"
    blocks = Policy(compile_time=Limits(0.25, 0.26, 0.5, blocks=("worst",)))
    assert (decide(cases, blocks).decision, kinds(decide(cases, blocks), "no-go")) == ("no-go", ["compile"])


def test_too_many_cases_that_compile_longer_block_where_the_policy_says_so() -> None:
    cases = [*alike(5), *(compiles(f"c{number}", 30.0 if number < 3 else 0.0) for number in range(10))]
    assert about(decide(cases), WARM)[0].warning
    blocks = Policy(compile_time=Limits(0.25, 0.50, 0.5, blocks=("case",)))
    upgrade = decide(cases, blocks)
    assert (upgrade.decision, upgrade.scorecard.compile_time.state) == ("no-go", "no-go")
    assert "30 % by weight" in sentence(upgrade.reasons[0])
    light = Policy(compile_time=blocks.compile_time, weights={"c0": 0.1, "c1": 0.1, "c2": 0.1})
    assert decide(cases, light).decision == "go"


def test_the_mean_of_memory_has_a_limit() -> None:
    upgrade = decide([needs(f"c{number}", 3.0) for number in range(10)])
    assert (upgrade.decision, [one.warning for one in about(upgrade, MEMORY)]) == ("go", [True, False])
    assert "over 10 cases: +3.0 %" in sentence(about(upgrade, MEMORY)[0])
    blocks = Policy(peak_memory=Limits(0.05, 0.1, 0.02, blocks=("mean",)))
    assert decide([needs(f"c{number}", 3.0) for number in range(10)], blocks).decision == "no-go"


@pytest.mark.parametrize("percent", [0.0, 10.0, 31.0, 80.0, 400.0])
@pytest.mark.parametrize(("metric", "n"), [(COLD, 1), (WARM, 3), ("first_call", 1), (MEMORY, 1)])
def test_what_is_not_proved_never_makes_an_upgrade_unclear(metric: str, n: int, percent: float) -> None:
    case = compiles("gpt", percent, metric, n)
    upgrade = decide([*alike(), case], Policy(compile_time=Limits(0.25, 0.5, 0.1, blocks=("worst", "mean"))))
    assert upgrade.decision == "go" and not upgrade.to_decide
    warned = [one for one in upgrade.warnings if one.cases == ("gpt",)]
    assert bool(warned) == (percent >= (5 if metric == MEMORY else 25))


def test_a_wide_interval_is_no_wall_either() -> None:
    wild = compiles("gpt", 4.0, noise=120.0)
    upgrade = decide([*alike(), wild])
    assert upgrade.decision == "go"
    (warm,) = upgrade.scorecard.compile_time.metrics
    assert (warm.open, warm.worse, upgrade.scorecard.compile_time.state) == (1, (), "undecided")


def test_memory_of_which_the_pairs_are_not_of_one_mind_is_not_called() -> None:
    torn = judge(
        "rss_peak_steady", [Pair(1000, 1120)] * 5 + [Pair(1000, 990)], threshold_of("rss_peak_steady")
    )
    upgrade = decide([*alike(), result("train", verdicts={FLOOR: verdict(0.0), "rss_peak_steady": torn})])
    assert upgrade.decision == "go" and upgrade.scorecard.peak_memory.metrics[0].worse == ()
    (doubt, *_) = about(upgrade, "rss_peak_steady")
    assert doubt.warning and "1 of 1 case is undecided" in sentence(doubt)


def test_few_cold_pairs_give_a_hint_and_no_proof() -> None:
    cases = [compiles(f"c{number}", percent, COLD, n=1) for number, percent in enumerate((4.0, 22.0, 24.0))]
    (cold,) = decide([*alike(), *cases]).scorecard.compile_time.metrics
    assert (cold.hinted, cold.hinted_pairs, cold.mean.change) == (3, (1, 1), None)
    assert cold.hint == pytest.approx(math.log(1.22), abs=0.01)


def test_a_single_pair_of_memory_has_no_part_in_the_mean() -> None:
    """One case of seventeen was measured once and needs 40 % more: of the others none has changed."""
    cases = [*(needs(f"same{number}", 0.0) for number in range(16)), needs("once", 40.0, pairs=1)]
    upgrade = decide(cases)
    (memory,) = upgrade.scorecard.peak_memory.metrics
    assert (memory.mean.cases, memory.mean.low, memory.mean.high) == (16, 0.0, 0.0)
    assert (memory.hinted, memory.hint) == (1, pytest.approx(math.log(1.4)))
    (table,) = [each for each in upgrade.tables if each.metric == MEMORY]
    assert (table.geomean.cases, table.geomean.change, without_ratio(table)) == (16, 0.0, ["once"])
    # Nor does it take a proof from the others.
    grown = decide([*(needs(f"more{number}", 3.0) for number in range(10)), needs("once", 0.0, pairs=1)])
    (detail,) = [one.detail for one in about(grown, MEMORY) if isinstance(one.detail, MeanChange)]
    assert (detail.mean.cases, detail.exceeded, detail.proved) == (10, True, True)


def test_a_single_pair_is_not_the_figure_that_stands_for_what_is_in_doubt() -> None:
    few = [compiles("once", 1800.0, "first_call", n=1), compiles("twice", 900.0, "first_call", n=2)]
    known = compiles("known", 30.0, "first_call", noise=120.0)

    def doubt(*cases: CaseResult) -> tuple[int, int, str]:
        (detail,) = [
            one.detail
            for one in about(decide([*alike(), *cases]), "first_call")
            if isinstance(one.detail, Doubtful)
        ]
        return detail.cases, detail.few, detail.largest[0]

    assert doubt(*few, known) == (3, 2, "known")
    assert doubt(*few) == (2, 2, "once")
    assert doubt(known) == (1, 0, "known")


def test_a_limit_in_worst_is_that_of_the_single_case() -> None:
    policy = Policy(worst={FLOOR: 0.1, MEMORY: 0.30})
    cases = [*(needs(f"same{number}", 0.0) for number in range(19)), needs("bert", 20.0)]
    assert decide(cases, policy).decision == "go"
    assert decide([*cases, needs("gpt", 40.0)], policy).decision == "no-go"


def test_a_metric_that_decides_has_a_share_and_a_mean_of_its_own() -> None:
    cases = [needs(f"c{number}", 8.0) for number in range(10)]
    upgrade = decide(cases, Policy(metric=MEMORY, slower_share=1.0, overall=0.5))
    assert upgrade.decision == "go" and "memory" not in {one.kind for one in upgrade.reasons}


def test_who_decides_by_memory_does_not_lift_the_limit_of_a_single_case() -> None:
    cases = [*(needs(f"same{number}", 0.0) for number in range(59)), needs("bert", 50.0)]
    for policy in (Policy(), Policy(metric=MEMORY)):
        upgrade = decide(cases, policy)
        assert (upgrade.decision, upgrade.scorecard.peak_memory.state) == ("no-go", "no-go")
        assert upgrade.reasons[0].cases == ("bert",)


def test_memory_of_a_case_that_must_not_regress_counts_where_it_is_proved() -> None:
    cases = [*(needs(f"same{number}", 0.0) for number in range(19)), needs("bert", 3.0)]
    policy = Policy(must_not_regress=("bert",))
    assert decide(cases).decision == "go"
    assert (decide(cases, policy).decision, decide(cases, policy).reasons[0].kind) == ("no-go", "guarded")


def test_the_pass_rate() -> None:
    cases = [
        *alike(5),
        result("gone", new=CaseSide("crashed"), verdicts={}),
        result("back", old=CaseSide("oom"), verdicts={}),
        result("lost", new=CaseSide("lost"), verdicts={}),
    ]
    rate = decide(cases).scorecard.pass_rate
    assert (rate.state, rate.cases, rate.old, rate.new) == ("no-go", 8, 7, 6)
    assert (rate.broken, rate.repaired, rate.unknown) == (1, 1, 1)
    card = decide([]).scorecard
    assert {one.state for one in (card.pass_rate, card.latency, card.compile_time, card.peak_memory)} == {
        "not measured"
    }


def test_a_pass_rate_of_cases_that_were_not_measured_is_not_ok() -> None:
    skipped = side([])
    none = [result(f"{number}", old=skipped, new=skipped, verdicts={}) for number in range(4)]
    assert decide(none).scorecard.pass_rate.state == "not measured"
    half = decide([*alike(4), *(result(f"{number}", new=skipped, verdicts={}) for number in range(4))])
    assert (half.decision, half.scorecard.pass_rate.state) == ("unclear", "unclear")
    # The policy allows a tenth of them to be unknown, and what works and has no number has passed.
    assert decide([*alike(12), none[0]]).scorecard.pass_rate.state == "ok"
    few = decide([result("a", verdicts={FLOOR: verdict(0.0, n=1)})])
    assert (few.decision, few.scorecard.pass_rate.state) == ("unclear", "ok")


def test_the_state_of_the_latency_is_that_of_its_reasons() -> None:
    assert decide([*alike(30), result("mlp", 15.0)]).scorecard.latency.state == "no-go"
    assert decide([*alike(30), result("mlp", 10.2)]).scorecard.latency.state == "unclear"
    assert decide(alike()).scorecard.latency.state == "ok"


@pytest.mark.parametrize(
    "limits",
    [
        {"case": 0.0, "worst": 0.1, "mean": 0.1},
        {"case": 0.2, "worst": 0.1, "mean": 0.1},
        {"case": 0.1, "worst": math.inf, "mean": 0.1},
        {"case": 0.1, "worst": 0.2, "mean": 0.1, "blocks": ("all",)},
    ],
)
def test_limits_that_cannot_be_meant_are_refused(limits: dict[str, Any]) -> None:
    with pytest.raises(ValueError, match=r"limit|block"):
        Limits(**limits)


def test_what_only_worst_limits_stands_among_its_kind_where_it_speaks_against() -> None:
    reserved = "cuda_peak_reserved"
    policy = Policy(worst={"latency_floor": 0.1, reserved: 0.1, "cold_start": 0.2})
    memory = {one.metric: one for one in (needs("a", 0.0).verdicts[MEMORY],)}
    grown = {**memory, reserved: needs("a", 30.0, metric=reserved).verdicts[reserved]}
    upgrade = decide([*alike(5), result("a", verdicts={FLOOR: verdict(0.0), **grown})], policy)
    card = upgrade.scorecard
    assert (upgrade.decision, card.peak_memory.state, card.latency.state) == ("no-go", "no-go", "ok")
    assert [one.metric for one in card.peak_memory.metrics] == [reserved, MEMORY]
    # A policy that decides by the median still limits the min-based latency of a case.
    slow = {FLOOR: verdict(15.0), "latency": verdict(0.0, "latency")}
    same = {FLOOR: verdict(0.0), "latency": verdict(0.0, "latency")}
    cases = [result(f"{number}", verdicts=same) for number in range(11)]
    upgrade = decide([*cases, result("slow", verdicts=slow)], Policy(metric="latency"))
    assert (upgrade.decision, upgrade.scorecard.latency.state) == ("no-go", "no-go")
    assert upgrade.scorecard.latency.metrics[0].worse == ("slow",)


def test_a_mean_is_held_against_its_limit_with_whole_weights() -> None:
    quiet = [compiles(f"quiet{number}", 0.0, noise=3.0, n=12) for number in range(8)]
    cases = [*quiet, *(compiles(f"wild{number}", 60.0, noise=30.0, n=12) for number in range(4))]
    blocks = Policy(compile_time=Limits(0.25, 2.0, 0.10, blocks=("mean",)))
    upgrade = decide(cases, blocks)
    (score,) = upgrade.scorecard.compile_time.metrics
    # The four imprecise cases count as much as any other: a third of ln 1.6, and what wobbles.
    assert score.mean.change == pytest.approx(math.log(1.6) / 3, abs=0.005)
    assert (upgrade.decision, upgrade.scorecard.compile_time.state) == ("no-go", "no-go")
    assert "over 12 cases: +17.4 % [+16.6 %, +18.3 %]: at most +10.0 %" in sentence(upgrade.reasons[0])


def test_limits_are_stored_with_the_comparison_and_a_stored_one_without_them_has_the_usual() -> None:
    policy = Policy(compile_time=Limits(0.2, 0.4, 0.1, blocks=("case", "mean")))
    body = Comparison("a", "b", Plan(), policy).to_body()
    assert Comparison.from_body(body).policy == policy
    for name in ("compile_time", "peak_memory"):
        del body["policy"][name]
    assert Comparison.from_body(body).policy == Policy()


def test_the_largest_change_comes_first_however_precisely_it_is_known() -> None:
    cases = [compiles("loose", 24.0, noise=20.0), compiles("tight", 22.0, noise=1.0)]
    upgrade = decide([*alike(), *cases])
    assert upgrade.scorecard.compile_time.metrics[0].worse == ("loose", "tight")
    assert "largest: loose +2" in sentence(about(upgrade, WARM)[-1])
