"""The cases of a run: what fails it, what leaves it unclear, and what only stands in its report."""

import pytest

from analysis.decision.run_cases import FAILED, run_cases, run_decision
from records.outcomes import Outcome, OutcomeStatus
from support.builders.notifications import a_finding
from support.builders.run_records import MLP, RESNET
from support.builders.run_reports import BEFORE, CALM, a_mixed_run, badly, replicates


def decided(outcomes: list[Outcome], *, complete: bool = True) -> str:
    return run_decision(run_cases(outcomes), complete=complete)


@pytest.mark.parametrize(
    ("status", "decision"),
    [
        *((status, "failed") for status in FAILED),
        ("contended", "unclear"),
        ("throttled", "unclear"),
        ("lost", "unclear"),
        ("skipped", "unclear"),
        ("unsupported", "passed"),
        ("ok", "passed"),
    ],
)
def test_every_status_has_a_decision(status: str, decision: str) -> None:
    well = replicates(CALM, 2.0, 2.0)
    assert decided([*well, badly(MLP, status)]) == decision


def test_every_status_is_known() -> None:
    for status in OutcomeStatus:
        (case,) = run_cases([badly(MLP, status)])
        assert (case.status, case.count, case.replicates) == (status, 1, 1)


def test_one_failed_replicate_fails_its_case_and_a_disturbed_one_does_not() -> None:
    (case,) = run_cases([*replicates(MLP, 2.0, 2.2), badly(MLP, "wrong", "off by 4 %", 2)])
    assert (case.status, case.reason) == ("wrong", "off by 4 %")
    assert (case.count, case.well, case.replicates) == (1, 2, 3)
    assert decided([*replicates(MLP, 2.0), badly(MLP, "contended", replicate=1)]) == "passed"


def test_a_case_that_is_not_supported_is_known_though_other_replicates_were_not_measured() -> None:
    for other in ("skipped", "contended"):
        (case,) = run_cases([badly(MLP, "unsupported", "no AMX"), badly(MLP, other, replicate=1)])
        assert (case.status, case.reason, case.measured) == ("unsupported", "no AMX", True)


def test_a_run_that_is_not_over_is_unclear_unless_a_case_failed() -> None:
    assert decided(replicates(MLP, 2.0), complete=False) == "unclear"
    assert decided([badly(MLP, "crashed")], complete=False) == "failed"
    assert decided([]) == decided([badly(MLP, "unsupported")]) == "unclear"


def test_a_change_outside_noise_decides_nothing_and_a_confirmed_regression_fails() -> None:
    slower = replicates(MLP, 2.4, 2.4)
    cases = run_cases(slower, {(MLP, "latency"): BEFORE})
    assert cases[0].outside and run_decision(cases, complete=True) == "passed"
    cases = run_cases(slower, {(MLP, "latency"): BEFORE}, {MLP: a_finding(case=MLP)})
    assert run_decision(cases, complete=True) == "failed"
    # That of another case is not its own.
    assert not run_cases(slower, {}, {RESNET: a_finding()})[0].failed


def test_the_change_is_that_of_the_steadier_latency_and_needs_four_runs_for_its_noise() -> None:
    outcomes = replicates(MLP, 2.0, metrics={"latency": 5.0, "latency_floor": 2.2})
    earlier = {(MLP, "latency"): [1.0] * 9, (MLP, "latency_floor"): [2.0, 2.0, 2.0]}
    (case,) = run_cases(outcomes, earlier)
    assert case.change is not None and case.change.level == pytest.approx(2.0)
    assert (case.change.nights, case.change.band, case.outside) == (3, None, False)


def test_what_matters_most_comes_first() -> None:
    names = [one.case.partition("/")[0] for one in a_mixed_run().cases]
    assert names == ["resnet50", "resnet50", "noisy", "left", "mlp_overhead", "calm", "late", "bert_base"]
    first, second, *_ = a_mixed_run().cases
    assert (first.status, second.regression is not None) == ("crashed", True)
