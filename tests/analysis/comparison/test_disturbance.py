"""A process that had its core to itself says nothing; one that had not says how much it had."""

from typing import Any

import pytest

from analysis.comparison.disturbance import core_share, disturbed


@pytest.mark.parametrize(
    ("facts", "said"),
    [
        ({"device": "cpu", "cpu_share": 0.35}, 0.35),
        ({"device": "cpu", "cpu_share": 0.9}, None),
        ({"device": "cuda:0", "cpu_share": 0.35}, None),
        ({"device": "cpu"}, None),
        ({"device": "cpu", "cpu_share": 0.35, "waits_for_data": True}, None),
        ({}, None),
    ],
)
def test_who_had_less_of_its_core_says_so(facts: dict[str, Any], said: float | None) -> None:
    assert core_share(facts) == said
    assert disturbed(facts) == (said is not None)
