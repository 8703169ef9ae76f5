"""A process that had its core to itself says nothing; one that had not says how much it had."""

from typing import Any

import pytest

from analysis.comparison.disturbance import disturbed


@pytest.mark.parametrize(
    ("facts", "said"),
    [
        ({"device": "cpu", "cpu_share": 0.35}, "had 35 % of its core"),
        ({"device": "cpu", "cpu_share": 0.9}, ""),
        ({"device": "cuda:0", "cpu_share": 0.35}, ""),
        ({"device": "cpu"}, ""),
        ({"device": "cpu", "cpu_share": 0.35, "waits_for_data": True}, ""),
        ({}, ""),
    ],
)
def test_who_had_less_of_its_core_says_so(facts: dict[str, Any], said: str) -> None:
    assert disturbed(facts) == said
