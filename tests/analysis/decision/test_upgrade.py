"""From verdicts to go, no-go or unclear: correctness first, the policy's rules."""

import math
from collections.abc import Sequence
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from analysis.comparison.case_results import BROKEN, CaseResult, CaseSide, side
from analysis.comparison.pairs import Pair
from analysis.comparison.policy import Policy
from analysis.comparison.thresholds import Threshold, threshold_of
from analysis.comparison.verdict import judge
from analysis.decision.upgrade import Upgrade, decide
from reports.text.reason_text import exclusion, sentence
from reports.text.verdict_text import side_reason
from support.builders.upgrade_cases import FLOOR, alike, kinds, result, verdict

#: The kinds of reasons that speak for a go where all rules over the suite are kept.
RULES = ["worst", "share", "overall"]


def test_nothing_worse_is_a_go() -> None:
    upgrade = decide(alike())
    assert (upgrade.decision, upgrade.to_decide, upgrade.exclusions) == ("go", (), ())
    assert (upgrade.overall.cases, upgrade.overall.pairs) == (10, 60)
    assert sentence(upgrade.reasons[-1]) == "10 of 10 cases are the same"


@pytest.mark.parametrize("status", BROKEN)
def test_a_case_that_broke_outweighs_any_gain(status: str) -> None:
    gains = [result(f"fast{number}", -40.0) for number in range(20)]
    upgrade = decide([*gains, result("mlp", new=CaseSide(status, "why"), verdicts={})])
    assert upgrade.decision == "no-go"
    assert sentence(upgrade.reasons[0]) == f"mlp broke: {status} (why)"
    assert [one.case for one in upgrade.broken] == ["mlp"]
    assert [(one.case, exclusion(one)) for one in upgrade.exclusions] == [
        ("mlp", f"new ended {status} (why)")
    ]


def test_what_may_break_may() -> None:
    broken = result("mlp/infer/-/eager", new=CaseSide("unsupported"), verdicts={})
    upgrade = decide([*alike(), broken], Policy(may_break=("mlp",)))
    assert upgrade.decision == "go"
    assert upgrade.broken == (broken,)


@pytest.mark.parametrize(
    ("old", "new", "decision"),
    [("ok", "crashed", "no-go"), ("lost", "crashed", "unclear"), ("ok", "lost", "unclear")],
)
def test_must_not_regress_forbids_failures_whatever_other_glob_matches(
    old: str, new: str, decision: str
) -> None:
    policy = Policy(must_not_regress=("resnet50",), may_break=("*compile=*",))
    guarded = result("resnet50/infer/-/compile=default", old=CaseSide(old), new=CaseSide(new), verdicts={})
    upgrade = decide([*alike(20), guarded], policy)
    assert upgrade.decision == decision
    assert not any(
        said in sentence(reason) for reason in upgrade.reasons for said in (", and may", "allowed")
    )
    other = result("mlp/infer/-/compile=default", new=CaseSide("crashed"), verdicts={})
    assert decide([*alike(20), other], policy).decision == "go"


@pytest.mark.parametrize("status", BROKEN)
def test_what_works_again_speaks_for_it(status: str) -> None:
    upgrade = decide([*alike(), result("mlp", old=CaseSide(status), verdicts={})])
    assert (upgrade.decision, kinds(upgrade, "go")) == ("go", [*RULES, "repaired", "gained"])
    assert [one.case for one in upgrade.repaired] == ["mlp"]


@pytest.mark.parametrize("status", ["contended", "throttled", "lost", "skipped"])
@pytest.mark.parametrize("which", ["old", "new"])
def test_what_was_not_measured_did_not_break(status: str, which: str) -> None:
    upgrade = decide([result("mlp", 0.0, 1.0, **{which: CaseSide(status)}, verdicts={}), result("conv")])
    assert (upgrade.broken, upgrade.repaired, upgrade.decision) == ((), (), "unclear")
    assert kinds(upgrade, "unclear") == ["unmeasured"]
    assert [(one.case, one.pairs, one.minutes) for one in upgrade.to_decide] == [("mlp", 12, 1.2)]
    assert [exclusion(one) for one in upgrade.exclusions] == [f"{which} ended {status}"]


def test_what_never_worked_changes_nothing() -> None:
    upgrade = decide([*alike(), result("mlp", old=CaseSide("oom"), new=CaseSide("crashed"), verdicts={})])
    assert upgrade.decision == "go"
    assert [exclusion(one) for one in upgrade.exclusions] == ["old ended oom, new ended crashed"]


def test_a_few_cases_without_a_number_are_put_up_with() -> None:
    assert decide([*alike(), result("mlp", new=CaseSide("lost"), verdicts={})]).decision == "go"
    few = Policy(unmeasured_share=0.05)
    assert decide([*alike(), result("mlp", new=CaseSide("lost"), verdicts={})], few).decision == "unclear"


def test_a_case_that_must_not_regress() -> None:
    cases = [*alike(20), result("resnet50/infer/-/eager", 3.0)]
    assert decide(cases).decision == "go"
    upgrade = decide(cases, Policy(must_not_regress=("resnet50",)))
    assert (upgrade.decision, upgrade.reasons[0].kind) == ("no-go", "guarded")
    assert "resnet50/infer/-/eager: Latency (min-based) slower, +3.0 %" in sentence(upgrade.reasons[0])


def test_a_case_that_must_not_regress_and_could_have() -> None:
    noisy = result("resnet50/infer/-/eager", 0.3, noise=40.0)
    upgrade = decide([*alike(20), noisy], Policy(must_not_regress=("resnet50*",)))
    assert (upgrade.decision, kinds(upgrade, "unclear")) == ("unclear", ["guarded"])
    (pairs_to_decide,) = upgrade.to_decide
    assert pairs_to_decide.pairs is not None and pairs_to_decide.pairs > 12
    assert pairs_to_decide.minutes == pytest.approx(pairs_to_decide.pairs * 6.0 / 60)


@pytest.mark.parametrize(
    "changes", [{"new": CaseSide("lost"), "verdicts": {}}, {"verdicts": {}}, {"verdicts": {FLOOR: judge(
        FLOOR, [], Threshold(0.01))}}]
)  # fmt: skip
def test_a_case_that_must_not_regress_and_has_no_number(changes: dict[str, Any]) -> None:
    guarded = result("resnet50", **changes)
    upgrade = decide([*alike(20), guarded], Policy(must_not_regress=("resnet50",)))
    assert (upgrade.decision, kinds(upgrade, "unclear")) == ("unclear", ["guarded"])
    assert [one.case for one in upgrade.to_decide] == ["resnet50"]


def test_what_is_no_time_is_worse_or_better_and_never_slower_or_faster() -> None:
    def needs(case: str, percent: float) -> CaseResult:
        return result(case, verdicts={"rss_peak_steady": verdict(percent, "rss_peak_steady", noise=0.1)})

    cases = [needs("a", 30.0), *(needs(f"b{number}", -30.0) for number in range(9))]
    sentences = [sentence(reason) for reason in decide(cases, Policy(metric="rss_peak_steady")).reasons]
    assert "at most 1 of 10 cases can be worse by 5 % or more" in sentences
    assert "9 of 10 cases are better" in sentences
    assert not [text for text in sentences if "slower" in text or "faster" in text]


def test_too_many_slower_cases() -> None:
    cases = [*alike(8), result("a", 7.0), result("b", 7.0)]
    upgrade = decide(cases, Policy(overall=0.1))
    assert (upgrade.decision, kinds(upgrade, "no-go")) == ("no-go", ["share"])
    assert (
        sentence(upgrade.reasons[0])
        == "at least 2 of 10 cases are slower by 5 % or more: a, b (policy: at most 10 % of the cases)"
    )
    assert decide(cases, Policy(overall=0.1, slower_share=0.2)).decision == "go"
    # In the user's own mix those two hardly count.
    light = decide(cases, Policy(overall=0.1, weights={"alike*": 4.0}))
    assert light.decision == "go"
    assert "cases of at most 10 % of the weight can be slower by 5 % or more" in map(sentence, light.reasons)


def test_cases_that_are_slower_by_less_than_what_is_material_are_allowed() -> None:
    cases = [*alike(8), result("a", 4.0), result("b", 4.0)]
    assert [one.word for one in decide(cases).verdicts.values()][8:] == ["slower"] * 2
    assert decide(cases).decision == "go"
    upgrade = decide(cases, Policy(case=0.03))
    assert (upgrade.decision, kinds(upgrade, "no-go")) == ("no-go", ["share"])
    assert "slower by 3 % or more: a, b" in sentence(upgrade.reasons[0])


@pytest.mark.parametrize(
    ("alikes", "slower", "limit", "decision", "text", "missing"),
    [
        (35, 4, 0.10, "no-go", "at least 4 of 39 cases are", "4 of 39 cases have no interval, 10.3 %"),
        (249, 1, 0.005, "go", "at most 1 of 250 cases can be", "1 of 250 cases has no interval, 0.4 %"),
        (39, 1, 0.025, "go", "at most 1 of 40 cases can be", "1 of 40 cases has no interval, 2.5 %"),
        (40, 1, 0.0225, "no-go", "at least 1 of 41 cases is", "1 of 41 cases has no interval, 2.4 %"),
        (0, 1, 1.0, "go", "at most 1 of 1 case can be", "1 of 1 case has no interval, 100 %"),
    ],
)
def test_a_share_close_to_its_limit_reads_as_it_was_judged(
    alikes: int, slower: int, limit: float, decision: str, text: str, missing: str
) -> None:
    named = [f"slow{number}" for number in range(slower)]
    cases = [*alike(alikes), *(result(name, 7.0) for name in named)]
    upgrade = decide(cases, Policy(slower_share=limit, overall=1.0))
    (share,) = [reason for reason in upgrade.reasons if reason.kind == "share"]
    policy = f": {', '.join(named)} (policy: at most {100 * limit:.6g} % of the cases)"
    text = f"{text} slower by 5 % or more" + (policy if decision == "no-go" else "")
    assert (share.speaks, sentence(share)) == (decision, text)
    lost = [result(name, new=CaseSide("lost"), verdicts={}) for name in named]
    (unmeasured,) = [
        reason
        for reason in decide([*alike(alikes), *lost], Policy(unmeasured_share=limit)).reasons
        if reason.kind == "unmeasured"
    ]
    assert sentence(unmeasured) == f"{missing} by weight: at most {100 * limit:.6g} % may have none"


def test_many_that_could_be_slower_are_unclear() -> None:
    doubtful = [result(f"noisy{number}", 2.0, noise=16.0) for number in range(3)]
    upgrade = decide([*alike(7), *doubtful], Policy(overall=0.05))
    assert (upgrade.decision, kinds(upgrade, "unclear")) == ("unclear", ["share"])
    # That two are is not refuted by the two of which least is known, the third having the same pairs.
    assert sentence(upgrade.reasons[0]) == (
        "more than 1 of 10 cases may be slower by 5 % or more; the least certain: noisy0, "
        "noisy1 (policy: at most 10 % of the cases)"
    )
    assert {one.case for one in upgrade.to_decide} == {"noisy0", "noisy1"}


def test_an_exact_metric_that_is_0_everywhere_is_measured() -> None:
    def breaking(new: int, cases: int = 4) -> list[CaseResult]:
        judged = judge("graph_breaks", [Pair(0, new)] * 2, threshold_of("graph_breaks"))
        return [result(f"case{new}-{at}", verdicts={"graph_breaks": judged}) for at in range(cases)]

    policy = Policy(metric="graph_breaks", worst={})
    upgrade = decide(breaking(0), policy)
    assert (upgrade.decision, kinds(upgrade, "go")) == ("go", ["share", "overall", "gained"])
    assert upgrade.overall.change is None
    assert decide([*breaking(0), *breaking(1)], policy).decision == "no-go"
    assert decide(breaking(0), Policy(metric="graph_breaks", worst={}, overall=-0.1)).decision == "unclear"


@pytest.mark.parametrize(
    ("metric", "pairs", "decision", "ends"),
    [
        ("rss_peak_steady", [Pair(1000, 1200)] * 2, "no-go", (20.0, 20.0)),
        ("rss_peak_steady", [Pair(1000, 1200)], "unclear", (20.0, 20.0)),
        ("rss_peak_steady", [Pair(1000, 1000), Pair(1000, 1200)], "unclear", (0.0, 20.0)),
        ("rss_peak_steady", [Pair(1000, 1010)] * 2, "go", (1.0, 1.0)),
        # Of half a MiB a fifth is too little to matter.
        ("cuda_peak_allocated", [Pair(0.5, 0.6)] * 2, "go", (0.0, 0.0)),
        ("cuda_peak_allocated", [Pair(500, 600)] * 2, "no-go", (20.0, 20.0)),
    ],
)
def test_the_geomean_of_an_exact_metric_proves_no_more_than_its_verdicts(
    metric: str, pairs: list[Pair], decision: str, ends: tuple[float, float]
) -> None:
    judged = judge(metric, pairs, threshold_of(metric))
    cases = [result(f"case{at}", verdicts={metric: judged}) for at in range(3)]
    upgrade = decide(cases, Policy(metric=metric, worst={}, slower_share=1.0, overall=0.015))
    found = upgrade.overall
    assert upgrade.decision == decision
    assert found.low is not None and found.high is not None
    assert tuple(100 * math.expm1(end) for end in (found.low, found.high)) == pytest.approx(ends)
    assert (found.confidence, upgrade.techniques["eager"]) == (None, found)
    found = [(one.case, one.pairs) for one in upgrade.to_decide]
    assert found == ([(one.case, 12) for one in cases] if decision == "unclear" else [])


def test_the_geomean_has_a_limit() -> None:
    slower = [result(f"case{number}", 0.9, noise=0.2) for number in range(5)]
    assert decide(slower).decision == "go"
    upgrade = decide(slower, Policy(overall=0.005))
    assert (upgrade.decision, kinds(upgrade, "no-go")) == ("no-go", ["overall"])
    # A policy may demand a gain.
    assert decide(alike(), Policy(overall=-0.02)).decision == "no-go"
    assert decide([result(f"c{n}", -5.0) for n in range(5)], Policy(overall=-0.02)).decision == "go"


def test_a_case_that_is_worse_and_imprecise_counts_whole_against_the_limit() -> None:
    # Only the mean has a limit, and the three cases that may break it are the noisiest.
    policy, limit = Policy(slower_share=1.0, worst={}, overall=0.01), math.log(1.01)
    upgrade = decide([*alike(7), *(result(f"worse{number}", 3.6, noise=8.0) for number in range(3))], policy)
    low, high = upgrade.overall.low, upgrade.overall.high
    assert low is not None and high is not None and low < limit < high
    assert (upgrade.decision, kinds(upgrade, upgrade.decision)) == ("unclear", ["overall"])
    known = decide([*alike(7), *(result(f"worse{number}", 3.6) for number in range(3))], policy)
    assert (known.decision, kinds(known, "no-go")) == ("no-go", ["overall"])


def test_a_replicate_that_broke_now_and_then_is_unclear() -> None:
    def broke(old: int, new: int) -> Upgrade:
        counts = ((("crashed", many),) if many else () for many in (old, new))
        ends = [CaseSide("ok", replicates=6, broken=count) for count in counts]
        return decide([*alike(), result("mlp", old=ends[0], new=ends[1], failed=(old, new))])

    assert (broke(0, 1).decision, kinds(broke(0, 1), "unclear")) == ("unclear", ["shaky"])
    assert (broke(1, 1).decision, broke(5, 1).decision) == ("go", "go")
    upgrade = broke(1, 5)
    assert (upgrade.decision, sentence(upgrade.reasons[0])) == (
        "unclear",
        "mlp: 5 of 6 replicates ended crashed in the new environment, 1 in the old",
    )


@pytest.mark.parametrize("guarded", [False, True])
def test_what_may_break_may_break_now_and_then(guarded: bool) -> None:
    """One crash of six replicates is no more than six of six, which are a go."""
    policy = Policy(may_break=("mlp",), must_not_regress=("mlp",) if guarded else ())
    end = CaseSide("ok", replicates=6, broken=(("crashed", 1),))
    upgrade = decide([*alike(), result("mlp", new=end, failed=(0, 1))], policy)
    assert upgrade.decision == ("unclear" if guarded else "go")
    all_of_them = result("mlp", new=CaseSide("crashed", count=6, replicates=6), verdicts={}, failed=(0, 6))
    assert decide([*alike(), all_of_them], policy).decision == ("no-go" if guarded else "go")
    said = [sentence(reason) for reason in upgrade.reasons if reason.kind == "shaky"]
    text = "mlp: 1 of 6 replicates ended crashed in the new environment, none in the old"
    assert said == [text if guarded else f"{text}, which is allowed"]


@pytest.mark.parametrize("status", BROKEN)
@pytest.mark.parametrize("before", ["contended", "throttled", "lost", "skipped"])
def test_what_broke_and_was_not_seen_to_work_is_unclear(status: str, before: str) -> None:
    cases = [*alike(20), result("mlp", old=CaseSide(before), new=CaseSide(status, "why"), verdicts={})]
    upgrade = decide(cases)
    assert (upgrade.decision, kinds(upgrade, "unclear"), upgrade.broken) == ("unclear", ["broke"], ())
    assert (
        sentence(upgrade.reasons[0])
        == f"mlp may have broken: {status} (why) in the new environment, and the old one ended {before}"
    )
    assert [(one.case, one.pairs) for one in upgrade.to_decide] == [("mlp", 12)]
    assert decide(cases, Policy(may_break=("mlp",))).decision == "go"


def test_reasons_come_in_order_of_weight() -> None:
    cases = [
        *alike(3),
        result("a", 3.0),
        result("b", 30.0),
        result("c", 20.0),
        result("d", new=CaseSide("wrong"), verdicts={}),
        result("e", new=CaseSide("lost"), verdicts={}),
        result("f", -20.0),
    ]
    upgrade = decide(cases)
    assert [(reason.speaks, reason.kind) for reason in upgrade.reasons] == [
        ("no-go", "broke"),
        ("no-go", "worst"),
        ("no-go", "worst"),
        ("no-go", "share"),
        ("no-go", "overall"),
        ("unclear", "unmeasured"),
        ("go", "gained"),
        ("go", "gained"),
    ]
    assert [reason.cases for reason in upgrade.reasons if reason.kind == "worst"] == [("b",), ("c",)]


def test_no_case_is_no_verdict() -> None:
    assert decide([]).decision == "unclear"
    with pytest.raises(ValueError, match="once"):
        decide([result("a"), result("a")])


def test_each_technique_has_its_own_geomean() -> None:
    cases = [*alike(3), result("compiled", -10.0, technique="compile=default")]
    upgrade = decide([*cases, result("gone", new=CaseSide("crashed"), verdicts={}, technique="x")])
    assert {name: mean.cases for name, mean in upgrade.techniques.items()} == {
        "compile=default": 1,
        "eager": 3,
    }
    assert upgrade.techniques["compile=default"].change == pytest.approx(math.log(0.9), abs=1e-3)


def test_tables_of_their_own() -> None:
    breaks = judge("graph_breaks", [Pair(0, 1)] * 2, threshold_of("graph_breaks"))
    memory = judge("rss_peak_steady", [Pair(100, 150)] * 2, threshold_of("rss_peak_steady"))
    verdicts = {
        FLOOR: verdict(0.0),
        "graph_breaks": breaks,
        "rss_peak_steady": memory,
        "first_call": verdict(30.0, "first_call"),
    }
    tables = {table.metric: table for table in decide([result("mlp", verdicts=verdicts)]).tables}
    assert list(tables) == ["rss_peak_steady", "first_call", "graph_breaks"]
    assert tables["first_call"].geomean.low is not None
    assert tables["rss_peak_steady"].geomean.change == pytest.approx(math.log(1.5))
    assert tables["rss_peak_steady"].geomean.low is None
    assert (tables["graph_breaks"].geomean.cases, tables["graph_breaks"].verdicts["mlp"].word) == (
        0,
        "slower",
    )


def test_what_was_measured_also_has_a_table() -> None:
    names = ("new_shape", "latency_p99", "export_time")
    verdicts = {FLOOR: verdict(0.0), **{name: verdict(30.0, name) for name in names}}
    results = [result("mlp", verdicts=verdicts)]
    assert [table.metric for table in decide(results).tables] == ["new_shape"]
    tables = decide(results, also=["latency_p99", FLOOR, "new_shape", "latency_p99"]).tables
    assert [(table.metric, table.verdicts["mlp"].word) for table in tables] == [
        ("new_shape", "slower"),
        ("latency_p99", "slower"),
    ]


@pytest.mark.parametrize(
    ("statuses", "status", "reason"),
    [
        ([("ok", "")] * 3, "ok", ""),
        ([("ok", ""), ("wrong", "off by 3 %")], "wrong", "1 of 2 replicates: off by 3 %"),
        ([("ok", ""), ("crashed", "SIGSEGV")], "ok", "1 of 2 replicates ended crashed"),
        (
            [("crashed", "SIGSEGV"), ("ok", ""), ("oom", ""), ("oom", "")],
            "ok",
            "3 of 4 replicates ended crashed (1), oom (2)",
        ),
        ([("crashed", "SIGSEGV"), ("lost", "")], "crashed", "1 of 2 replicates: SIGSEGV"),
        ([("skipped", "no time")], "skipped", "1 of 1 replicates: no time"),
        ([("ok", ""), ("skipped", "no time")], "ok", ""),
        ([], "skipped", "it was not measured"),
    ],
)
def test_how_a_case_ended(statuses: Sequence[tuple[str, str]], status: str, reason: str) -> None:
    found = side(statuses)
    assert (found.status, side_reason(found)) == (status, reason)


STATUSES = ("ok", "ok", "ok", *BROKEN, "lost", "skipped")
a_case = st.tuples(
    st.sampled_from(STATUSES), st.sampled_from(STATUSES), st.sampled_from([-8.0, -1.5, 0.0, 0.8, 3.0, 20.0]),
    st.sampled_from([0.2, 1.0, 6.0]),
)  # fmt: skip


@settings(max_examples=60, deadline=None)
@given(st.lists(a_case, min_size=1, max_size=8))
def test_no_case_is_lost_and_nothing_broken_is_a_go(drawn: list[tuple[str, str, float, float]]) -> None:
    cases = [
        result(f"case{number}", percent, noise, old=CaseSide(old), new=CaseSide(new))
        for number, (old, new, percent, noise) in enumerate(drawn)
    ]
    upgrade = decide(cases)
    assert upgrade.overall.cases + len(upgrade.exclusions) == len(cases)
    assert upgrade.decision == upgrade.reasons[0].speaks
    assert bool(upgrade.to_decide) <= (upgrade.decision == "unclear")
    if any(case.broke for case in cases):
        assert upgrade.decision == "no-go"
    backwards = decide(cases[::-1])
    assert (backwards.decision, len(backwards.reasons)) == (upgrade.decision, len(upgrade.reasons))
    assert {*backwards.blockers} == {*upgrade.blockers}
    assert backwards.without_blockers == upgrade.without_blockers
    if upgrade.suite and backwards.suite:
        assert [rule.state for rule in backwards.suite.rules] == [rule.state for rule in upgrade.suite.rules]
    if upgrade.without_blockers:
        others = [case for case in cases if case.case not in upgrade.blockers]
        assert upgrade.decision == "no-go" and decide(others).decision == upgrade.without_blockers
