"""Which cases a screen sends on to full pairs, and what may then be decided."""

import math
from datetime import UTC, datetime

import pytest

from analysis.comparison.case_results import CaseResult, CaseSide
from analysis.comparison.plan import Plan
from analysis.comparison.policy import Policy
from analysis.comparison.screening import (
    FIRST_FULL,
    Screen,
    ScreenedCase,
    Selection,
    as_evidence,
    screen_case,
)
from analysis.decision.comparison import Comparison
from analysis.decision.upgrade import Upgrade, decide, leave_open
from analysis.dispatch_difference import CaseDifference, compare_cases
from records.dispatch import CaseFingerprint
from records.outcomes import Outcome
from reports import wording
from reports.text.reason_text import sentence
from support.builders.run_records import a_case_fingerprint
from support.builders.upgrade_cases import OK, kinds, result

A, B, C, D = (f"{name}/infer/-/eager" for name in "abcd")


def outcomes(case: str, *ratios: float, first: int = 0, status: str = "ok") -> list[Outcome]:
    """Pairs of a case from number `first` on, new / old as given; the new side has that status."""
    found = [
        Outcome(
            case,
            side,
            first + number,
            status if side == "new" else "ok",
            started_at=datetime(2026, 1, 1, 0, number, tzinfo=UTC),
            wall_seconds=5.0,
            metrics={"latency_floor": 2.0 * (ratio if side == "new" else 1.0)},
        )
        for number, ratio in enumerate(ratios)
        for side in ("old", "new")
    ]
    return found if first else [as_evidence(one) for one in found]


def screened(*ratios: float, screen: Screen | None = None, status: str = "ok") -> ScreenedCase:
    sides = outcomes(A, *ratios, status=status)
    return screen_case(A, screen or Screen(), sides[::2], sides[1::2])


@pytest.mark.parametrize(
    ("found", "selection"),
    [
        (screened(1.09, 0.92), None),
        (screened(1.01, 1.11), Selection.CHANGE),
        (screened(0.90, 1.00), Selection.CHANGE),
        (screened(1.30), Selection.CHANGE),
        (screened(1.01), Selection.NO_PAIRS),
        (screened(), Selection.NO_PAIRS),
        (screened(1.0, 1.0, status="contended"), Selection.NO_PAIRS),
        (screened(1.0, 1.0, status="wrong"), Selection.FAILURE),
        (screened(1.0, 1.0, screen=Screen(changed=(A,))), Selection.DISPATCH),
        (screened(1.0, 1.0, screen=Screen(unknown=(A,))), None),
    ],
)
def test_a_case_goes_on_where_a_screen_saw_something_or_saw_nothing_at_all(
    found: ScreenedCase, selection: Selection | None
) -> None:
    assert found.selection == selection


def a_difference(case: str, old: CaseFingerprint, new: CaseFingerprint) -> CaseDifference:
    (found,) = compare_cases({case: old}, {case: new})
    return found


def test_guards_and_generated_code_alone_send_no_case_on() -> None:
    old = a_case_fingerprint(A, compiler={"guards": 8}, code={"graph 1": 1}, fused={"cpp_relu": 1})
    code = a_case_fingerprint(A, compiler={"guards": 9}, code={"graph 2": 1}, fused={"cpp_relu": 1})
    kernel = a_case_fingerprint(A, compiler={"guards": 8}, code={"graph 1": 1}, fused={"cpp_relu": 2})
    assert Screen.of([A, B], [a_difference(A, old, code)]) == Screen((), (B,))
    assert Screen.of([A], [a_difference(A, old, old)]) == Screen()
    assert Screen.of([A], [a_difference(A, old, kernel)]) == Screen((A,))


def compared(policy: Policy | None = None) -> Comparison:
    return Comparison("old", "new", Plan(8), policy or Policy(), screen=Screen(changed=(B,)))


def test_full_pairs_alone_judge_a_case_that_short_pairs_sent_on() -> None:
    short, full = outcomes(A, 1.5, 1.0), outcomes(A, *[1.0] * 6, first=FIRST_FULL)
    (judged,) = compared().results([*short, *full])
    assert judged.screen and judged.screen.selection == Selection.CHANGE
    verdict = judged.verdicts["latency_floor"]
    assert (verdict.n, verdict.change) == (6, 0.0)


def test_a_case_that_passed_has_no_verdict_and_one_that_waits_for_its_full_pairs_is_not_measured() -> None:
    passed, waits = compared().results([*outcomes(A, 1.0, 1.01), *outcomes(C, 1.5)])
    assert passed.only_screened and passed.works and not passed.verdicts
    assert not waits.only_screened and waits.old.status == waits.new.status == "skipped"


def test_a_comparison_with_a_screen_is_stored_and_read_and_one_without_has_none() -> None:
    comparison = compared()
    assert Comparison.from_body(comparison.to_body()) == comparison
    body = comparison.to_body()
    del body["screen"]
    assert Comparison.from_body(body).screen is None


def passed(case: str) -> CaseResult:
    return CaseResult(case, "eager", OK, OK, {}, screen=ScreenedCase((0.01, -0.02), None, True))


def went_on(case: str, percent: float, **changes: object) -> CaseResult:
    screen = ScreenedCase((math.log(1.2),), Selection.CHANGE, True)
    return result(case, percent, screen=screen, **changes)


def suite(*others: CaseResult) -> Upgrade:
    return decide([*(passed(f"quiet{number}/infer/-/eager") for number in range(20)), *others])


def test_a_suite_that_was_only_screened_is_no_go_and_no_no_go() -> None:
    upgrade = suite()
    assert (upgrade.decision, kinds(upgrade, "unclear"), upgrade.only_screened) == (
        "unclear",
        ["screened"],
        True,
    )
    assert wording.headline(upgrade) == (
        "Screened: 20 of 20 cases are only screened: nothing beyond 10 % was seen, which proves nothing; a "
        "slow-down by 15 % passes in at most 2 % of cases, and a smaller one oftener"
    )
    assert (upgrade.suite, upgrade.overall.change) == (None, None)


def test_a_screen_that_has_not_ended_is_not_called_screened() -> None:
    upgrade = leave_open(suite(), 20)
    assert (upgrade.decision, kinds(upgrade, "unclear")) == ("unclear", ["unfinished", "screened"])
    assert wording.decision_word(upgrade) == "Unclear"


def test_cases_that_went_on_and_are_cleared_make_a_screened_suite_no_go_either() -> None:
    upgrade = suite(went_on(A, 0.1), went_on(B, -20.0))
    assert (upgrade.decision, upgrade.only_screened) == ("unclear", True)
    assert upgrade.verdicts[B].word == "faster"


@pytest.mark.parametrize("percent", [15.0, 40.0])
def test_a_blocker_proved_by_full_pairs_is_a_no_go(percent: float) -> None:
    upgrade = suite(went_on(A, percent), went_on(B, 0.0))
    assert (upgrade.decision, kinds(upgrade, "no-go")) == ("no-go", ["worst"])
    assert (upgrade.blockers, upgrade.without_blockers) == ((A,), "unclear")


def test_a_case_that_broke_is_a_no_go() -> None:
    upgrade = suite(went_on(A, 0.0, new=CaseSide("crashed", "SIGSEGV"), verdicts={}))
    assert (upgrade.decision, kinds(upgrade, "no-go")) == ("no-go", ["broke"])


def test_the_few_that_went_on_are_neither_a_share_nor_a_mean_of_the_suite() -> None:
    # All three are slower by 7 %: of the suite, less than a tenth.
    others = [went_on(case, 7.0) for case in (A, B, C)]
    upgrade = suite(*others)
    assert (upgrade.decision, {reason.kind for reason in upgrade.reasons} & {"share", "overall"}) == (
        "unclear",
        set(),
    )
    assert [upgrade.verdicts[case].word for case in (A, B, C)] == ["slower"] * 3
    # Without a screen the same three are a no-go.
    alone = decide([result(case, 7.0) for case in (A, B, C)])
    assert (alone.decision, kinds(alone, "no-go")) == ("no-go", ["share", "overall"])


def test_where_every_case_went_on_the_whole_suite_is_judged() -> None:
    upgrade = decide([went_on(f"case{number}/infer/-/eager", 0.0) for number in range(10)])
    assert upgrade.decision == "go"
    assert upgrade.suite is not None


def test_a_case_that_went_on_and_is_not_decided_keeps_its_own_reason() -> None:
    upgrade = suite(went_on(A, 9.0, noise=60.0))
    assert upgrade.decision == "unclear" and not upgrade.only_screened
    assert kinds(upgrade, "unclear") == ["worst", "screened"]
    assert wording.decision_text(upgrade) == "Unclear"


def test_a_case_without_a_number_is_one_of_the_whole_suite_and_not_of_those_that_went_on() -> None:
    screen = ScreenedCase((), Selection.NO_PAIRS, True)
    upgrade = suite(went_on(A, 0.1), result(B, screen=screen, new=CaseSide("lost"), verdicts={}))
    # 1 of 22 is within the policy's tenth, and 1 of the two that went on would not be.
    assert (upgrade.decision, kinds(upgrade, "unclear"), upgrade.only_screened) == (
        "unclear",
        ["screened"],
        True,
    )
    said = [sentence(reason) for reason in upgrade.reasons if reason.kind == "unmeasured"]
    assert said == ["1 of 22 cases has no interval, 5 % by weight: at most 10 % may have none"]


def test_what_short_pairs_saw_is_the_reason_where_no_full_pair_followed() -> None:
    short = [*outcomes(A, 1.75), *outcomes(B, 1.2), *outcomes(C, 0.5)]
    judged = compared().results([*short, *outcomes(D, 1.0, 1.02)])
    upgrade = compared().verdict(judged)
    assert (upgrade.decision, upgrade.only_screened) == ("unclear", False)
    first = upgrade.reasons[0]
    assert (first.kind, first.cases) == ("suspected", (A, B))
    assert sentence(first) == (
        "2 of 4 cases were slower by 10 % or more in short pairs, and full pairs are too few for an "
        f"interval: {A} +75.0 %, {B} +20.0 %"
    )


def test_full_pairs_outweigh_what_short_pairs_saw() -> None:
    full = outcomes(A, *[1.0] * 6, first=FIRST_FULL)
    upgrade = compared().verdict(compared().results([*outcomes(A, 1.75), *full]))
    assert "suspected" not in {reason.kind for reason in upgrade.reasons}
