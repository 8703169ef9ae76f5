"""What a policy may say, and what of it meets no case."""

import math
from typing import Any

import pytest

from analysis.comparison.policy import Policy
from analysis.comparison.thresholds import Threshold

FLOOR = "latency_floor"


@pytest.mark.parametrize(
    "changes",
    [
        {"metric": "speed"},
        {"worst": {"speed": 0.1}},
        {"slower_share": 1.1},
        {"weights": {"*": 0.0}},
        {"overall": math.nan},
        {"metric": "gpu_busy"},
        {"worst": {"power": 0.1}},
        {"thresholds": {"sm_clock": Threshold(0.1)}},
        {"false_discovery_rate": 0.0},
        {"false_discovery_rate": 0.5},
        {"weights": {"*": 2e6}},
        {"worst": {FLOOR: math.inf}},
        {"overall": 1e300},
    ],
)
def test_a_policy_that_cannot_be_meant_is_refused(changes: dict[str, Any]) -> None:
    with pytest.raises(ValueError, match=r"metric|share|above 0|geomean"):
        Policy(**changes)


def test_a_glob_that_matches_no_case_is_reported() -> None:
    policy = Policy(
        must_not_regress=("resnet5O", "mlp"), may_break=("mlp/train/*",), weights={"m*": 2.0, "x": 3.0}
    )
    cases = ["mlp/infer/-/eager", "resnet50/infer/-/eager"]
    assert policy.unmatched_globs(cases) == [
        ("must_not_regress", "resnet5O"),
        ("may_break", "mlp/train/*"),
        ("weights", "x"),
    ]
