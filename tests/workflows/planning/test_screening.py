"""The sessions of a screened upgrade: short pairs, then full ones of what they select, also resumed."""

from collections import Counter
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime

import pytest

from analysis.comparison.plan import Plan
from analysis.comparison.policy import Policy
from analysis.comparison.screening import FIRST_FULL, Screen, as_evidence
from analysis.decision.comparison import Comparison
from records.outcomes import Outcome, OutcomeStatus, PlannedReplicate
from runner.session_plan import SessionPlan, Timing
from runner.suites.plan import estimate
from workflows.errors import UsageError
from workflows.planning.plan_upgrade import UpgradeRequest, check_screen
from workflows.planning.screening import ScreenedPairs, short
from workflows.session_queue import Room, pairs_planned

A, B, C, D = (f"{name}/infer/-/eager" for name in "abcd")


def a_comparison(*changed: str) -> Comparison:
    return Comparison("old", "new", Plan(8), Policy(), screen=Screen(changed))


def planned(comparison: Comparison, *cases: str) -> list[PlannedReplicate]:
    assert comparison.screen
    changed = comparison.screen.changed
    return [
        one
        for one in pairs_planned(comparison, cases)
        if one.replicate >= FIRST_FULL or one.case not in changed
    ]


#: More than any of these takes.
ENDLESS = Room(float("inf"), lambda session: 1.0)


def measured(session: SessionPlan, ratio: float, status: str) -> list[Outcome]:
    number = session.contenders[0].replicate
    outcomes = [
        Outcome(
            one.case,
            one.environment,
            number,
            OutcomeStatus(status),
            started_at=datetime(2026, 1, 1, 0, number, tzinfo=UTC),
            wall_seconds=5.0,
            metrics={
                "latency_floor": 2.0 * (ratio if one.environment == "new" else 1.0) * (1 + number % 3 / 1e3)
            },
        )
        for one in session.contenders
    ]
    return [as_evidence(one) if number < FIRST_FULL else one for one in outcomes]


def drained(
    queue: ScreenedPairs, ratios: Mapping[str, float], statuses: Mapping[int, str] | None = None
) -> list[list[Outcome]]:
    """The outcomes of every session that it hands out, each with what is not needed after it.

    By number of the pair, how its processes end.
    """
    steps: list[list[Outcome]] = []
    while session := queue.next(ENDLESS):
        (case,) = {one.case for one in session.contenders}
        status = (statuses or {}).get(session.contenders[0].replicate, "ok")
        steps.append([*measured(session, ratios.get(case, 1.0), status)])
        for outcome in steps[-1]:
            queue.learn(outcome)
        steps[-1] += closed(queue)
    return [*steps, closed(queue)]


def closed(queue: ScreenedPairs) -> list[Outcome]:
    """What is not needed, closed as a run closes it."""
    found = [
        Outcome(one.case, one.environment, one.replicate, OutcomeStatus.SKIPPED, reason)
        for one, reason in queue.not_needed()
    ]
    for outcome in found:
        queue.learn(outcome)
    return found


def flat(steps: Sequence[Sequence[Outcome]]) -> list[Outcome]:
    return [outcome for step in steps for outcome in step]


def pairs(steps: Sequence[Sequence[Outcome]]) -> Counter[tuple[str, str]]:
    """How many short and full pairs each case got."""
    found = [one for one in flat(steps) if one.status != OutcomeStatus.SKIPPED]
    kinds = [(one.case, "short" if one.replicate < FIRST_FULL else "full") for one in found]
    return Counter({kind: many // 2 for kind, many in Counter(kinds).items()})


def test_two_short_pairs_of_each_and_full_pairs_of_what_runs_differently_or_differs() -> None:
    comparison = a_comparison(C)
    every = planned(comparison, A, B, C)
    queue = ScreenedPairs(every, comparison)
    found = drained(queue, {B: 1.3})
    many = pairs(found)
    assert (many[A, "short"], many[A, "full"]) == (2, 0)
    # The first short pair of the second case is enough to send it on.
    assert many[B, "short"] == 1 and many[B, "full"] >= 4
    assert many[C, "short"] == 0 and many[C, "full"] >= 4
    shorts = [step[0].replicate < FIRST_FULL for step in found if step]
    assert shorts == sorted(shorts, reverse=True)
    # Every planned replicate is either measured or closed, once.
    assert Counter(one.planned_replicate for one in flat(found)) == Counter(every)
    judged = {one.case: one for one in comparison.results(flat(found))}
    assert (judged[A].only_screened, judged[B].only_screened) == (True, False)
    assert comparison.verdict([*judged.values()]).decision == "no-go"


def test_a_budget_that_ends_early_judges_what_fails_or_looks_slowest() -> None:
    comparison = a_comparison(C)
    queue = ScreenedPairs(planned(comparison, A, B, C, D), comparison)
    ratios: dict[str, float] = {A: 1.2, B: 1.8, D: 0.5}
    full: list[str] = []
    for_four = Room(4, lambda session: session.contenders[0].replicate >= FIRST_FULL)
    while len(full) < 4 and (session := queue.next(for_four)):
        (case,) = {one.case for one in session.contenders}
        if session.contenders[0].replicate >= FIRST_FULL:
            full.append(case)
        for outcome in measured(session, ratios.get(case, 1.0), "ok"):
            queue.learn(outcome)
    assert full == [B] * 4


def test_a_short_pair_that_others_disturbed_is_taken_again() -> None:
    comparison = a_comparison()
    found = drained(ScreenedPairs(planned(comparison, A), comparison), {}, {0: "contended"})
    assert pairs(found) == {(A, "short"): 3}


def test_a_case_whose_short_pairs_are_all_lost_goes_on() -> None:
    comparison = a_comparison()
    lost = dict.fromkeys(range(FIRST_FULL), "lost")
    found = drained(ScreenedPairs(planned(comparison, A), comparison), {}, lost)
    assert pairs(found)[A, "full"] >= 4


@pytest.mark.parametrize("known", [1, 3, 5, 9])
def test_a_resumed_screen_goes_on_where_it_stopped(known: int) -> None:
    comparison = a_comparison(C)
    every, ratios = planned(comparison, A, B, C), {B: 1.3}
    whole = drained(ScreenedPairs(every, comparison), ratios)
    before = flat(whole[:known])
    resumed = ScreenedPairs(every, comparison)
    for outcome in before:
        resumed.learn(outcome)
    after = flat(drained(resumed, ratios))
    assert Counter(one.planned_replicate for one in (*before, *after)) == Counter(every)
    ended = {one.planned_replicate: one.status for one in flat(whole)}
    assert {one.planned_replicate: one.status for one in (*before, *after)} == ended


def test_short_pairs_are_short() -> None:
    comparison = a_comparison()
    queue = ScreenedPairs(planned(comparison, A, B), comparison)
    left = list(queue.sessions_left())
    assert sorted(one.contenders[0].replicate for one in left) == [0, 0, 1, 1]
    assert all(sum(estimate(each, short(Timing())) for each in one.contenders) < 6 for one in left)


@pytest.mark.parametrize(
    ("request_", "policy", "sentence"),
    [
        (UpgradeRequest(screen=True, fingerprints=False), Policy(), "leave out --no-fingerprint"),
        (UpgradeRequest(screen=True, confirms=True), Policy(), "leave out --screen"),
        (UpgradeRequest(screen=True), Policy(metric="rss_peak"), "judges by rss_peak"),
    ],
)
def test_a_screen_that_makes_no_sense_is_refused(
    request_: UpgradeRequest, policy: Policy, sentence: str
) -> None:
    with pytest.raises(UsageError, match=sentence):
        check_screen(request_, policy)
    check_screen(UpgradeRequest(fingerprints=False, confirms=True), policy)
