"""What is compared survives being written down, and other outcomes of a run are none of its business."""

import json
from dataclasses import replace
from typing import Any

import pytest

from analysis.comparison.plan import Plan
from analysis.comparison.policy import Policy
from analysis.comparison.thresholds import Threshold
from analysis.decision.comparison import COMPARED, Comparison, stored_comparison
from reports.text.reason_text import decision_body, sentence
from support.builders.run_records import an_environment, an_outcome

OLD, NEW, CANARY = an_environment("2.13.0"), an_environment("2.15.0"), an_environment("canary")
COMPARISON = Comparison(
    OLD.fingerprint,
    NEW.fingerprint,
    Plan(8, alpha_same=0.1),
    Policy(
        thresholds={"latency_floor": Threshold(0.02), "rss_peak": Threshold(0.05, 8.0, exact=True)},
        must_not_regress=("bert*", "gpt*"),
        weights={"b/*": 2.0, "a/*": 3.0, "*": 0.5},
    ),
    ("2.13.0", "nightly 2026-11-20"),
    ("--suite", "cpu"),
    also=("compile_warm",),
)


def test_it_comes_back_from_json_with_its_weights_in_their_order() -> None:
    body = json.loads(json.dumps(COMPARISON.to_body()))
    again = Comparison.from_body(body)
    assert again == COMPARISON
    # Of globs the first that matches counts.
    assert list(again.policy.weights) == ["b/*", "a/*", "*"]
    assert stored_comparison({COMPARED: body}) == COMPARISON and stored_comparison({"device": "cpu"}) is None


def test_one_from_before_runs_had_a_kind_is_understood() -> None:
    assert Comparison.from_body({**COMPARISON.to_body(), "confirms": True}) == COMPARISON


def test_one_from_before_other_metrics_had_a_say_is_for_one_metric_alone() -> None:
    body = COMPARISON.to_body()
    del body["also"]
    assert Comparison.from_body(body) == replace(COMPARISON, also=())


def test_a_comparison_stored_by_0_1_0_has_the_usual_limit_and_looks() -> None:
    body = Comparison("a", "b", Plan(), Policy()).to_body()
    del body["policy"]["case"]
    body["plan"] = {"smallest": 6, "largest": 12, "step": 2, "alpha": 0.01, "alpha_same": 0.05}
    assert Comparison.from_body(body) == Comparison("a", "b", Plan(12), Policy(case=0.05))


@pytest.mark.parametrize(
    "change",
    [
        {"policy": None},
        {"policy": {"metric": "speed", "thresholds": {}, "must_not_regress": [], "may_break": []}},
        {"plan": {"largest": 10**9}},
        {"plan": {"largest": "12"}},
        {"plan": {"largest": 12, "pairs": 6}},
        {"asked": ["2.13.0"]},
        {"options": 3},
    ],
)
def test_what_is_no_comparison_is_refused_in_a_sentence(change: dict[str, Any]) -> None:
    body = {**COMPARISON.to_body(), **change}
    with pytest.raises(ValueError, match=r"^a comparison that this Pyrometer cannot read: "):
        Comparison.from_body(body)
    with pytest.raises(ValueError, match="cannot read"):
        stored_comparison({COMPARED: [body]})


def test_cases_come_by_name_and_those_of_other_environments_not_at_all() -> None:
    outcomes = [
        an_outcome(case, environment=environment, replicate=number)
        for number in (1, 0)
        for case, environment in (
            ("b/infer/-/eager", NEW),
            ("a/infer/-/eager", OLD),
            ("b/infer/-/eager", OLD),
        )
    ]
    results = COMPARISON.results([an_outcome("canary/infer/-/eager", environment=CANARY), *outcomes])
    assert [result.case for result in results] == ["a/infer/-/eager", "b/infer/-/eager"]
    assert COMPARISON.results(reversed(outcomes)) == results
    old, new = COMPARISON.sides([each for each in outcomes if each.case.startswith("b/")])
    assert [each.replicate for each in old] == [each.replicate for each in new] == [0, 1]


def test_a_decision_in_a_few_words_is_that_of_the_verdict() -> None:
    upgrade = COMPARISON.verdict([])
    first = sentence(upgrade.reasons[0])
    body = {"decision": "unclear", "because": first, "broken": []}
    assert decision_body(upgrade) == {**body, "reasons": [first, *map(sentence, upgrade.reasons[1:5])]}
