"""The rules over a suite in a whole verdict: its limits, what is waived, and what the blockers alone do."""

import math

import pytest

from analysis.comparison.case_results import CaseResult, CaseSide
from analysis.comparison.pairs import Pair
from analysis.comparison.policy import Policy, Waiver
from analysis.comparison.thresholds import Threshold, threshold_of
from analysis.comparison.verdict import judge
from analysis.decision.process_modes import find_modes
from analysis.decision.suite_pairs import case_pairs
from analysis.decision.upgrade import Upgrade, decide
from reports.text.reason_text import sentence
from support.builders.upgrade_cases import FLOOR, alike, kinds, result, verdict

RATE, MEMORY = "throughput", "rss_peak_steady"


def states(upgrade: Upgrade) -> dict[str, str]:
    assert upgrade.suite
    return {rule.rule: rule.state for rule in upgrade.suite.rules}


def gone(case: str) -> CaseResult:
    return result(case, new=CaseSide("crashed", "SIGSEGV"), verdicts={})


def test_a_suite_of_one_case_is_judged_by_that_case() -> None:
    upgrade = decide([result("only")])
    assert (upgrade.decision, kinds(upgrade, "go")) == ("go", ["worst", "share", "overall", "gained"])
    assert [sentence(one) for one in upgrade.grounds[:2]] == [
        "no case of 1 is slower by 10 % or more",
        "no case can be slower by 5 % or more",
    ]
    slow = decide([result("only", 15.0)])
    assert (slow.decision, states(slow)) == (
        "no-go",
        {"worst": "broken", "share": "broken", "mean": "broken"},
    )
    # Without it nothing is left to decide on.
    assert (slow.blockers, slow.without_blockers) == ((), None)


def test_of_a_suite_in_which_all_broke_nothing_is_known_but_that() -> None:
    upgrade = decide([gone("a"), gone("b")])
    assert (upgrade.decision, kinds(upgrade, "no-go")) == ("no-go", ["broke", "broke"])
    assert (upgrade.suite, upgrade.overall.change, upgrade.verdicts) == (None, None, {})
    assert (upgrade.blockers, upgrade.without_blockers) == ((), None)


def test_a_case_counts_by_its_weight() -> None:
    cases = [*alike(9), result("heavy", 7.0)]
    assert decide(cases).decision == "go"
    # Half of the weight is slower by 7 %, and the mean by 3.4 %.
    upgrade = decide(cases, Policy(weights={"heavy": 9.0}))
    assert (upgrade.decision, kinds(upgrade, "no-go")) == ("no-go", ["share", "overall"])
    assert sentence(upgrade.reasons[0]).endswith("heavy (policy: at most 10 % of the cases, by weight)")
    assert upgrade.overall.change == pytest.approx((math.log(1.07) + 0.00025 * 2) / 2, abs=1e-3)


@pytest.mark.parametrize(
    ("percent", "noise", "decision"), [(0.3, 6.0, "go"), (0.3, 40.0, "unclear"), (3.0, 1.0, "no-go")]
)
def test_what_must_not_regress_refutes_what_is_material_and_is_not_called_slower(
    percent: float, noise: float, decision: str
) -> None:
    # Errors of 0.4 %, of 2.5 % and of 0.06 %; the first says nothing of 1 %, and enough of 5 %.
    guarded = result("bert", percent, noise)
    assert guarded.verdicts[FLOOR].word == ("slower" if decision == "no-go" else "unclear")
    upgrade = decide([*alike(20), guarded], Policy(must_not_regress=("bert",)))
    assert upgrade.decision == decision
    assert kinds(upgrade, decision)[:1] == (["guarded"] if decision != "go" else ["worst"])
    # Of a case that may regress by 10 % the last two say enough.
    assert decide([*alike(20), result("bert", percent, min(noise, 20.0))]).decision == "go"


def test_what_must_not_regress_has_the_limit_of_a_single_case_where_that_is_the_narrower() -> None:
    # 0.9 % with an error of 0.25 %: 16 errors from 5 %, and 2 from 1.5 %.
    guarded = result("bert", 0.9, noise=4.0)
    policy = Policy(must_not_regress=("bert",), worst={FLOOR: 0.015})
    assert decide([*alike(20), guarded], Policy(must_not_regress=("bert",))).decision == "go"
    upgrade = decide([*alike(20), guarded], policy)
    assert (upgrade.decision, kinds(upgrade, "unclear")) == ("unclear", ["guarded"])


@pytest.mark.parametrize("n", [0, 1, 3])
def test_what_must_not_regress_and_has_too_few_pairs_for_the_suite_is_unclear(n: int) -> None:
    guarded = result("bert", verdicts={FLOOR: verdict(0.0, n=n)})
    upgrade = decide([*alike(20), guarded], Policy(must_not_regress=("bert",)))
    assert (upgrade.decision, kinds(upgrade, "unclear")) == ("unclear", ["guarded"])
    assert upgrade.suite and len(upgrade.suite.cases) == 20


def test_without_a_limit_in_the_deciding_metric_no_single_case_is_too_slow() -> None:
    cases = [*alike(19), result("slow", 60.0)]
    assert kinds(decide(cases, Policy(overall=0.1)), "no-go") == ["worst"]
    for worst in ({}, {MEMORY: 0.1}):
        upgrade = decide(cases, Policy(overall=0.1, worst=worst))
        assert (upgrade.decision, kinds(upgrade, "go")) == ("go", ["share", "overall", "gained"])


@pytest.mark.parametrize(
    ("percent", "noise", "decision"), [(-5.0, 1.0, "go"), (-2.0, 5.0, "unclear"), (-1.0, 1.0, "no-go")]
)
def test_a_policy_may_demand_a_gain(percent: float, noise: float, decision: str) -> None:
    cases = [result(f"case{number}", percent, noise) for number in range(6)]
    upgrade = decide(cases, Policy(overall=-0.02))
    assert upgrade.decision == decision
    (overall,) = [reason for reason in upgrade.reasons if reason.kind == "overall"]
    assert overall.speaks == decision
    assert ("at most -2.0 % is allowed" in sentence(overall)) == (decision != "go")


def test_waived_cases_are_left_out_and_listed() -> None:
    cases = [*alike(9), result("slow/infer/-/eager", 30.0), gone("broken/train/-/eager")]
    waivers = [
        Waiver("slow", "its kernel is being replaced", "an author", "2026-11-25"),
        Waiver("broken/*", "not in use"),
        Waiver("of-no-case", "a slip"),
    ]
    assert decide(cases).decision == "no-go"
    assert decide(cases, waivers=waivers[:1]).decision == "no-go"
    upgrade = decide(cases, waivers=waivers)
    assert (upgrade.decision, upgrade.waived) == ("go", tuple(waivers[:2]))
    assert (upgrade.overall, upgrade.broken) == (decide(alike(9)).overall, ())
    named = {case for reason in upgrade.reasons for case in reason.cases}
    assert not named & {"slow/infer/-/eager", "broken/train/-/eager"}
    assert not any("slow" in case or "broken" in case for case in upgrade.verdicts)
    # Where all are waived nothing is decided.
    assert decide(cases, waivers=[Waiver("*", "all of it")]).decision == "unclear"


def test_one_case_much_slower_of_ten_is_a_blocker_though_it_moves_the_mean_too() -> None:
    upgrade = decide([*alike(9), result("slow", 30.0)])
    # A tenth of ln 1.3 is 2.6 %, but for that case the mean is what it was.
    assert (upgrade.decision, kinds(upgrade, "no-go")) == ("no-go", ["worst", "overall"])
    assert (upgrade.blockers, upgrade.without_blockers) == (("slow",), "go")
    # Of a suite of five it is more than a tenth as well.
    few = decide([*alike(4), result("slow", 30.0)])
    assert (kinds(few, "no-go"), few.blockers) == (["worst", "share", "overall"], ("slow",))
    assert few.without_blockers == "go"


def test_a_case_that_needs_too_much_memory_is_a_blocker() -> None:
    grown = judge(MEMORY, [Pair(1000.0, 1200.0)] * 2, threshold_of(MEMORY))
    cases = [*alike(9), result("heavy", verdicts={FLOOR: verdict(0.0), MEMORY: grown})]
    upgrade = decide(cases)
    assert (upgrade.blockers, upgrade.without_blockers) == (("heavy",), "go")


@pytest.mark.parametrize(
    ("others", "without"),
    [
        (alike(30), "go"),
        ([*alike(30), result("lost", new=CaseSide("lost"), verdicts={})] * 1, "go"),
        ([*alike(30), *(result(f"l{n}", new=CaseSide("lost"), verdicts={}) for n in range(9))], "unclear"),
    ],
)
def test_several_blockers(others: list[CaseResult], without: str) -> None:
    policy = Policy(must_not_regress=("guarded",))
    cases = [result("slow", 15.0), gone("gone"), result("guarded", 3.0), *others]
    upgrade = decide(cases, policy)
    assert (upgrade.decision, upgrade.without_blockers) == ("no-go", without)
    assert upgrade.blockers == ("slow", "gone", "guarded")
    assert decide(others, policy).decision == without


def test_what_all_cases_have_in_common_has_no_blockers() -> None:
    upgrade = decide([*(result(f"case{number}", 3.0) for number in range(10)), gone("gone")])
    assert (upgrade.decision, kinds(upgrade, "no-go")) == ("no-go", ["broke", "overall"])
    assert (upgrade.blockers, upgrade.without_blockers) == ((), None)


def needs(case: str, *new: float) -> CaseResult:
    """A case that needed 1,000 MiB, and now needs so many in each of its pairs."""
    judged = judge(MEMORY, [Pair(1000.0, each) for each in new], threshold_of(MEMORY))
    return result(case, verdicts={MEMORY: judged})


@pytest.mark.parametrize(
    ("new", "case", "decision"),
    [
        ((1049.0, 1049.0), 0.05, "go"),
        ((1050.0, 1050.0), 0.05, "no-go"),
        ((1049.0, 1049.0), 0.04, "no-go"),
        # Two pairs that agree are called, and in one of them it is less than what is material: so it may be.
        ((1049.0, 1060.0), 0.05, "unclear"),
        ((1000.0, 1060.0), 0.05, "unclear"),
        ((1060.0,), 0.05, "unclear"),
        ((940.0, 940.0), 0.05, "go"),
    ],
)
def test_an_exact_metric_has_the_material_limit_in_its_share(
    new: tuple[float, ...], case: float, decision: str
) -> None:
    cases = [*(needs(f"same{number}", 1000.0, 1000.0) for number in range(8)), needs("a", *new)]
    policy = Policy(metric=MEMORY, worst={}, overall=0.5, case=case)
    upgrade = decide([*cases, needs("b", *new)], policy)
    assert (upgrade.decision, upgrade.suite) == (decision, None)
    (share,) = [reason for reason in upgrade.reasons if reason.kind == "share"]
    assert share.speaks == decision
    if decision == "no-go":
        limit = f"{100 * case:.0f} %"
        assert sentence(share).startswith(f"at least 2 of 10 cases are worse by {limit} or more: a, b")
    # One of ten is what the policy allows.
    assert decide([*cases, needs("b", 1000.0, 1000.0)], policy).decision == "go"


def test_a_threshold_above_the_material_limit_does_not_lift_it() -> None:
    wide = Threshold(0.20, absolute=1.0, exact=True)
    more = judge(MEMORY, [Pair(1000.0, 1080.0)] * 2, wide)
    cases = [needs(f"same{number}", 1000.0, 1000.0) for number in range(8)]
    cases += [result(case, verdicts={MEMORY: more}) for case in ("a", "b")]
    policy = Policy(metric=MEMORY, worst={}, overall=0.5, thresholds={MEMORY: wide})
    assert more.word == "same"
    assert kinds(decide(cases, policy), "no-go") == ["share"]


def test_a_mean_whose_interval_is_beyond_its_limit_without_a_proof_says_so() -> None:
    """Five cases of different spreads: what they learn from each other narrows the interval."""
    cases = [
        result(f"c{each}", verdicts={FLOOR: verdict(1.22, noise=1.2 + 0.4 * each, n=4)}) for each in range(5)
    ]
    upgrade = decide(cases)
    (overall,) = [reason for reason in upgrade.reasons if reason.kind == "overall"]
    assert upgrade.overall.low is not None and upgrade.overall.low > math.log1p(0.01)
    assert overall.speaks == "unclear"
    assert sentence(overall).endswith("at most +1.0 % is allowed, which is not proved to be exceeded")


@pytest.mark.parametrize(
    "changes",
    [
        {"a": (0.0, 1.0)},
        {"a": (30.0, 1.0)},
        {"a": (7.0, 1.0), "b": (7.0, 1.0)},
        {"a": (2.0, 16.0), "b": (2.0, 16.0)},
        {"a": (9.95, 1.0)},
        {"a": (-30.0, 1.0), "b": (-7.0, 3.0)},
    ],
)
@pytest.mark.parametrize("guarded", [(), ("a",)])
def test_a_metric_of_which_more_is_better_is_judged_in_the_mirror(
    changes: dict[str, tuple[float, float]], guarded: tuple[str, ...]
) -> None:
    def suite(metric: str) -> list[CaseResult]:
        own = {**{f"same{number}": (0.0, 1.0) for number in range(8)}, **changes}
        turned = {
            name: (100 / (1 + by / 100) - 100, -noise) if metric == RATE else (by, noise)
            for name, (by, noise) in own.items()
        }
        return [
            result(name, verdicts={metric: verdict(by, metric, noise)})
            for name, (by, noise) in turned.items()
        ]

    time = decide(suite(FLOOR), Policy(must_not_regress=guarded))
    rate = decide(suite(RATE), Policy(metric=RATE, worst={RATE: 0.10}, must_not_regress=guarded))
    assert (rate.decision, states(rate), rate.blockers) == (time.decision, states(time), time.blockers)
    assert [(one.speaks, one.kind, one.cases) for one in rate.reasons] == [
        (one.speaks, one.kind, one.cases) for one in time.reasons
    ]
    assert time.overall.change is not None and time.overall.typical and rate.overall.typical
    assert rate.overall.change == pytest.approx(-time.overall.change)
    assert rate.overall.high == pytest.approx(-(time.overall.low or 0.0))
    low, high = rate.overall.typical[1:]
    assert (-high, -low) == pytest.approx(time.overall.typical[1:])


def two_modes(case: str, apart: float) -> CaseResult:
    """Two of eight processes of either side are slower by `apart`, never both of a pair."""
    high = math.log1p(apart)
    old = [0.0, 0.04, -0.04, 0.02, high, 0.0, high + 0.02, 0.01]
    new = [0.04, -0.03, 0.05, -0.02, 0.0, high + 0.01, 0.01, high]
    pairs = [Pair(100 * math.exp(one), 100 * math.exp(other)) for one, other in zip(old, new, strict=True)]
    return result(case, verdicts={FLOOR: judge(FLOOR, pairs, threshold_of(FLOOR))})


@pytest.mark.parametrize("guarded", [(), ("gpt2",)])
def test_two_modes_are_named_where_they_leave_a_case_open(guarded: tuple[str, ...]) -> None:
    policy = Policy(must_not_regress=guarded, overall=0.5)
    upgrade = decide([*alike(20), two_modes("gpt2", 0.5)], policy)
    kind = "guarded" if guarded else "worst"
    assert (upgrade.decision, kinds(upgrade, "unclear")) == ("unclear", [kind])
    assert sentence(upgrade.reasons[0]).startswith("gpt2: Latency (min-based) unclear, ")
    assert sentence(upgrade.reasons[0]).endswith(
        "; in two modes: 2 of 8 old and 2 of 8 new processes are slower by 50.0 %"
    )
    # What lies no further apart than its spread is one mode.
    plain = decide([*alike(20), two_modes("gpt2", 0.08)], policy)
    assert plain.decision == "unclear" and "modes" not in sentence(plain.reasons[0])


def test_a_slow_mode_that_may_have_become_oftener_is_a_warning_with_a_go() -> None:
    """Half of the old processes are slower by 30 %, and all new ones: within a mode nothing moved."""
    wobble = (0.0, 0.003, -0.002, 0.001, -0.003, 0.002, -0.001, 0.0015)
    high = math.log(1.3)

    def suite(old_slow: int, new_slow: int) -> Upgrade:
        pairs = [
            Pair(100 * math.exp(each + high * (at < old_slow)), 100 * math.exp(high * (at < new_slow) - each))
            for at, each in enumerate(wobble)
        ]
        judged = judge(FLOOR, pairs, threshold_of(FLOOR))
        return decide([*alike(20), result("gpt2", verdicts={FLOOR: judged})])

    upgrade = suite(4, 8)
    assert upgrade.decision == "go"
    (warning,) = upgrade.warnings
    assert warning.cases == ("gpt2",) and upgrade.scorecard.latency.state == "warning"
    assert sentence(warning).endswith(
        "; in two modes: 4 of 8 old and 8 of 8 new processes are slower by 30.0 %"
    )
    for old_slow, new_slow in ((4, 4), (4, 5), (6, 2)):
        assert not suite(old_slow, new_slow).warnings


def test_a_case_that_only_disturbed_pairs_know_keeps_a_suite_from_a_go() -> None:
    lost = {"old": CaseSide("contended"), "new": CaseSide("contended"), "verdicts": {}}
    assert decide([*alike(20), result("mlp", **lost)]).decision == "go"
    slower = decide([*alike(20), result("mlp", **lost, under_load=7)])
    assert slower.decision == "unclear"
    assert {"at least 30 % slower", "measured under load"} <= {*sentence(slower.reasons[0])[5:].split(", ")}
    assert decide([*alike(20), result("mlp", **lost, under_load=-7)]).decision == "go"
    # What was measured without disturbance has the say.
    assert decide([*alike(20), result("mlp", under_load=7)]).decision == "go"
    # What works in neither environment says nothing, however slow its pairs were under load.
    wrong = CaseSide("wrong")
    never = result("mlp", old=wrong, new=wrong, under_load=7)
    assert decide([*alike(20), never]).decision == "go"
    # Nor does it without a limit of its metric: its pairs would be looked for in vain.
    decide([*alike(20), never], Policy(worst={"rss_peak": 0.1}))


def test_in_two_modes_the_slow_one_of_a_rate_is_the_lower() -> None:
    old = (100.0, 100.2, 99.9, 60.0, 100.1, 99.8, 100.3, 99.7)
    new = (100.1, 60.1, 100.0, 99.9, 60.2, 100.2, 99.8, 100.0)
    pairs = [Pair(*sides) for sides in zip(old, new, strict=True)]
    modes = find_modes(case_pairs("gpt2", pairs, Policy(metric=RATE)).floors)
    assert modes and (modes.old_slow, modes.new_slow) == (1, 2)
    slow = [Pair(1 / pair.old, 1 / pair.new) for pair in pairs]
    modes = find_modes(case_pairs("gpt2", slow, Policy()).floors)
    assert modes and (modes.old_slow, modes.new_slow) == (1, 2)
