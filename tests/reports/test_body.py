"""The JSON: by its schema, finite, and the same numbers that were judged."""

import json
import math
from collections.abc import Iterator
from dataclasses import replace
from importlib import resources
from typing import Any

import pytest
from jsonschema import Draft202012Validator, ValidationError

from analysis.comparison.pairs import Pair
from analysis.comparison.policy import Policy
from analysis.comparison.thresholds import Threshold
from analysis.comparison.verdict import judge
from analysis.dispatch_difference import CaseDifference, compare_cases
from reports.body import upgrade_json
from reports.report_context import JudgedUpgrade
from reports.text.dispatch_text import case_words
from support.builders.run_records import a_case_fingerprint
from support.builders.upgrade_reports import (
    FLOOR,
    UPGRADES,
    a_mixed_upgrade,
    a_result,
    a_verdict,
    dispatched,
    on_a_gpu,
    reported,
    upgrade_of,
)

SCHEMA: dict[str, Any] = json.loads(
    resources.files("reports").joinpath("upgrade.schema.json").read_text(encoding="utf-8")
)


def closed(schema: Any) -> Any:
    """The schema without room for what it does not name."""
    if isinstance(schema, list):
        return [closed(one) for one in schema]
    if not isinstance(schema, dict):
        return schema
    inner = {name: closed(one) for name, one in schema.items()}
    return {**inner, "additionalProperties": False} if "required" in schema else inner


def numbers(value: Any) -> Iterator[float]:
    if isinstance(value, dict):
        value = list(value.values())
    if isinstance(value, list):
        for one in value:
            yield from numbers(one)
    elif isinstance(value, float):
        yield value


#: One that goes on, with settings that JSON does not have.
RUNNING = reported([a_result("a")], ended_at=None, settings={"odd": math.nan, "half": "\ud800", "set": {1}})


@pytest.mark.parametrize("upgrade", [*map(upgrade_of, UPGRADES), RUNNING], ids=[*UPGRADES, "running"])
def test_it_is_what_the_schema_says_and_no_more(upgrade: JudgedUpgrade) -> None:
    body = upgrade_json(upgrade)
    Draft202012Validator.check_schema(SCHEMA)
    Draft202012Validator(closed(SCHEMA)).validate(body)
    again = json.loads(json.dumps(body, allow_nan=False).encode("utf-8"))
    assert again == body


def test_the_schema_can_tell() -> None:
    body = upgrade_json(upgrade_of("mixed"))
    for wrong in ({"decision": "maybe"}, {"schema": "pyrometer.upgrade/2"}, {"reasons": []}, {"more": 1}):
        with pytest.raises(ValidationError):
            Draft202012Validator(closed(SCHEMA)).validate({**body, **wrong})


def test_nothing_is_infinite() -> None:
    # From nothing to something is infinitely worse, and no number says so.
    grown = judge("graph_breaks", [Pair(0, 3)] * 2, Threshold(0.0, exact=True))
    wild = judge("rss_peak_steady", [Pair(1e-300, 1e300)] * 2, Threshold(0.0, exact=True))
    cases = [a_result("a", more={"graph_breaks": grown, "rss_peak_steady": wild})]
    body = upgrade_json(reported(cases, Policy(worst={"graph_breaks": 0.1})))
    assert all(map(math.isfinite, numbers(body)))
    (breaks,) = [table for table in body["tables"] if table["metric"] == "graph_breaks"]
    assert (
        breaks["cases"][0]["verdict"] | {"ratio": None, "old": 0, "new": 3} == breaks["cases"][0]["verdict"]
    )
    assert breaks["without_ratio"] == ["a"]


def test_ratios_and_shares_are_those_that_were_judged() -> None:
    verdict = a_verdict(3.0)
    body = upgrade_json(reported([a_result("a", verdicts={FLOOR: verdict})]))
    verdict_json = body["cases"][0]["verdict"]
    assert verdict.change is not None and verdict.high is not None
    assert verdict_json["ratio"] == pytest.approx(math.exp(verdict.change))
    assert verdict_json["ratio_high"] == pytest.approx(math.exp(verdict.high))
    assert verdict_json["threshold"] == pytest.approx(0.01)
    assert body["overall"]["ratio"] == pytest.approx(verdict_json["ratio"])
    assert body["cases"][0]["status"] == verdict_json["word"] == "slower"


def test_every_case_is_in_it_once_and_every_exclusion_has_its_reason() -> None:
    subject, results, _ = upgrade_of("mixed")
    body = upgrade_json(upgrade_of("mixed"))
    assert sorted(one["case"] for one in body["cases"]) == sorted(result.case for result in results)
    assert body["overall"]["cases"] + len(body["exclusions"]) == len(results)
    assert all(one["reason"] for one in body["exclusions"])
    assert body["cases"][0]["reproduce"] == subject.reproduce(body["cases"][0]["case"])


@pytest.mark.parametrize("state", ["interrupted", "running"])
def test_an_upgrade_that_has_not_ended_takes_no_new_pairs_before_its_own(state: str) -> None:
    subject, results, upgrade = upgrade_of("unclear")
    stopped = upgrade_json(JudgedUpgrade(replace(subject, state=state), results, upgrade))
    assert upgrade_json(upgrade_of("unclear"))["to_decide"] and not stopped["to_decide"]


def test_calls_withdrawn_over_the_suite_are_not_reported_as_calls() -> None:
    weak = judge(
        FLOOR,
        [Pair(100, 100 * math.exp(0.02 + own)) for own in (0.01, -0.011, 0.004, -0.004, 0.008, -0.007)],
        Threshold(0.01),
    )
    subject, results, upgrade = reported([a_result("weak", verdicts={FLOOR: weak})])
    taken = replace(upgrade.verdicts["weak"], word="unclear", reason="p = 0.04 is too little among 60 cases")
    body = upgrade_json(JudgedUpgrade(subject, results, replace(upgrade, verdicts={"weak": taken})))
    assert body["cases"][0]["status"] == body["cases"][0]["verdict"]["word"] == "unclear"


def test_what_runs_differently_is_in_it_and_comes_back() -> None:
    subject, results, upgrade = dispatched()
    body = json.loads(json.dumps(upgrade_json(JudgedUpgrade(subject, results, upgrade))))
    assert tuple(map(CaseDifference.from_body, body["dispatch"])) == subject.dispatch
    assert body["dispatch"][0]["warnings"] == ["reference_kernel"]
    assert upgrade_json(a_mixed_upgrade())["dispatch"] == []


def test_a_stored_difference_says_how_much_it_leaves_out() -> None:
    old, new = (a_case_fingerprint(mkl=counts) for counts in ({"A": 1, "B": 1}, {"A": 2, "B": 3, "C": 1}))
    (whole,) = compare_cases({old.case: old}, {new.case: new})
    stored = CaseDifference.from_body(whole.to_body(most=1))
    assert stored.difference is not None
    assert (len(stored.difference.changes), stored.difference.left_out) == (1, 2)
    assert case_words(stored, 5)[-1] == "and 2 more"
    assert CaseDifference.from_body(stored.to_body()) == stored


def test_kernels_that_differ_are_in_it_for_cases_that_moved() -> None:
    subject, results, upgrade = on_a_gpu()
    (found,) = upgrade_json(JudgedUpgrade(subject, results, upgrade))["kernels"]
    assert found["case"] == results[0].case
    assert [(one["name"], one["change"]) for one in found["changes"]] == [
        ("gemm<float, 8>", "slower"),
        ("split_k_reduce", "new"),
        ("copy", "gone"),
    ]
    assert found["changes"][0]["after_us"] == 131.5 and found["changes"][0]["calls_after"] == 2
    assert upgrade_json(a_mixed_upgrade())["kernels"] == []
