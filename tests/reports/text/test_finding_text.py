"""Findings in words: what is confirmed does not read as nothing."""

import math

import pytest

from reports.text import finding_text


@pytest.mark.parametrize(
    ("low", "said"), [(1.003, "+1.2 % [+0.30 %, +2.0 %]"), (1.00003, "+1.2 % [+0.003 %, +2.0 %]")]
)
def test_an_interval_that_leaves_nothing_outside_does_not_begin_with_it(low: float, said: str) -> None:
    assert finding_text.interval(math.log(1.012), math.log(low), math.log(1.02)) == said
