"""Levels on either side of a border: by how much each moved, and by how many nights that is known."""

import math

import pytest

from analysis.detection.nights import NightValue, crossings


def test_each_border_has_the_levels_next_to_it() -> None:
    values = [5.0] * 10 + [10.0] * 30 + [10.4, 10.3, 90.0] + [20.0]
    borders = {40: "driver: 575 to 580", 43: "kernel: 6.8 to 6.9"}
    first, second = crossings([NightValue(value, borders.get(at, "")) for at, value in enumerate(values)])
    # What was long before is another level, and one odd night is none.
    assert (first.index, first.border, first.nights) == (40, "driver: 575 to 580", 3)
    assert first.change == pytest.approx(math.log(10.4 / 10.0))
    assert (second.nights, second.change) == (1, pytest.approx(math.log(20.0 / 10.4)))


def test_without_a_border_there_is_none() -> None:
    assert crossings([NightValue(1.0), NightValue(2.0)]) == crossings([]) == []
    # Before the first night nothing is known.
    assert crossings([NightValue(1.0, "driver")]) == []
