"""Years of nights drawn from seeds: false candidates, what is found and when, what a session straddles.

The goals are those of docs/decisions/0016-detection.md; benchmarks/detection.py prints them on more series.
"""

import math
from collections.abc import Callable
from itertools import pairwise

import numpy as np
import pytest
from numpy.typing import NDArray

from analysis.detection.change_points import judge
from analysis.detection.night_scan import CandidateChange, scan
from analysis.detection.nights import Change, Decision, NightValue, Rules

Values = NDArray[np.float64]
Noise = Callable[[np.random.Generator, int], Values]

#: Standard deviations between nights of the three classes of noise.
LOW, MID, HIGH = 0.005, 0.02, 0.04
RULES = Rules()
YEARS = 100


def noise(keep: float = 0.0) -> Noise:
    """Normal nights that keep the share `keep` of the night before."""

    def drawn(rng: np.random.Generator, nights: int) -> Values:
        values = rng.normal(size=nights)
        for night in range(1, nights):
            values[night] = keep * values[night - 1] + math.sqrt(1 - keep**2) * values[night]
        return values

    return drawn


def modes(rng: np.random.Generator, nights: int, longest: int = 10) -> Values:
    """Two levels 5 % apart that take turns every 4 to `longest` nights."""
    lengths = rng.integers(4, longest + 1, nights // 4 + 1)
    return 0.05 * np.repeat(np.arange(len(lengths)) % 2, lengths)[:nights].astype(np.float64)


def raised(values: Values, decisions: tuple[Decision, ...] = ()) -> list[CandidateChange]:
    return scan(values.tolist(), (), RULES, range(0, len(values), 7), decisions).raised


def against(one: CandidateChange) -> int:
    """The old side of the session, as findings take it."""
    change = Change(
        one.index, one.change, "worse", one.shape, one.strength, one.raised, one.since, anchored=one.anchored
    )
    return change.against


def false_a_year(draw: Callable[[np.random.Generator], Values], first: int = 0) -> float:
    """Candidates of a series-year of which nothing changes, raised from night `first` on."""
    many = 0
    for seed in range(YEARS):
        values = draw(np.random.default_rng([25, seed]))
        many += sum(one.raised >= first for one in raised(values))
    return many / YEARS


@pytest.mark.slow
@pytest.mark.parametrize(
    ("spread", "keep", "most"),
    [
        (LOW, 0.0, 0.05),
        (MID, 0.0, 0.15),
        (HIGH, 0.0, 0.15),
        (LOW, 0.6, 0.05),
        (MID, 0.6, 0.6),
        (HIGH, 0.6, 0.6),
        (LOW, 0.8, 0.2),
        (MID, 0.8, 0.6),
        (HIGH, 0.8, 0.6),
    ],
)
def test_nights_that_resemble_each_other_are_seldom_a_candidate(
    spread: float, keep: float, most: float
) -> None:
    assert false_a_year(lambda rng: spread * noise(keep)(rng, 365)) <= most


@pytest.mark.slow
@pytest.mark.parametrize(("spread", "most"), [(LOW, 0.2), (MID, 0.6), (HIGH, 0.4)])
def test_two_modes_are_no_changes_once_both_were_seen(spread: float, most: float) -> None:
    assert false_a_year(lambda rng: modes(rng, 365) + spread * noise()(rng, 365), first=40) <= most


@pytest.mark.slow
@pytest.mark.parametrize(("spread", "most"), [(LOW, 2.5), (MID, 1.5), (HIGH, 0.8)])
def test_two_long_modes_are_a_candidate_twice_and_then_known(spread: float, most: float) -> None:
    assert false_a_year(lambda rng: modes(rng, 365, longest=20) + spread * noise()(rng, 365)) <= most


def test_outliers_of_two_nights_are_no_changes() -> None:
    def draw(rng: np.random.Generator) -> Values:
        values = MID * rng.normal(size=365)
        for night in np.flatnonzero(rng.random(365) < 0.03):
            values[night : night + 2] += rng.uniform(0.05, 0.20)
        return values

    assert false_a_year(draw) <= 1.0


def finds(spread: float, size: float, keep: float = 0.0) -> tuple[float, float, float]:
    """Of steps on a night from 60 on: the share found, its delay in the middle, the share straddled."""
    delays: list[float] = []
    straddled: list[bool] = []
    for seed in range(YEARS):
        rng = np.random.default_rng([26, seed])
        at = int(rng.integers(60, 100))
        values = spread * noise(keep)(rng, at + 30)
        values[at:] += math.log1p(size)
        found = [one for one in raised(values) if one.sign > 0 and one.raised >= at]
        delays.append(found[0].raised - at if found else math.inf)
        if found:
            straddled.append(against(found[0]) < at)
    return float(np.mean(np.isfinite(delays))), float(np.median(delays)), float(np.mean(straddled))


@pytest.mark.parametrize(
    ("spread", "size", "share", "nights"),
    [
        (LOW, 0.05, 1.0, 2),
        (MID, 0.05, 0.9, 5),
        (HIGH, 0.05, 0.7, 15),
        (MID, 0.10, 1.0, 3),
        (MID, 0.03, 0.8, 15),
        (HIGH, 0.10, 0.95, 5),
    ],
)
def test_a_step_is_found_soon_and_its_session_straddles_it(
    spread: float, size: float, share: float, nights: float
) -> None:
    found, delay, straddled = finds(spread, size)
    assert found >= share and delay <= nights
    assert straddled >= (0.95 if spread <= MID else 0.9)


@pytest.mark.parametrize("keep", [0.6, 0.8])
def test_a_large_step_is_found_among_nights_that_resemble_each_other(keep: float) -> None:
    for spread, size in ((LOW, 0.05), (MID, 0.20)):
        found, delay, straddled = finds(spread, size, keep)
        assert found >= 0.95 and delay <= 3 and straddled >= 0.95


@pytest.mark.parametrize("at", [3, 4, 5, 6])
def test_a_step_among_the_first_nights_of_a_track_is_found_and_straddled(at: int) -> None:
    found = straddled = 0
    for seed in range(50):
        values = MID * np.random.default_rng([27, seed]).normal(size=35)
        values[at:] += math.log1p(0.10)
        first = next((one for one in raised(values) if one.sign > 0), None)
        found += first is not None
        straddled += first is not None and against(first) < at
    assert found >= 40 and straddled == found


@pytest.mark.parametrize(("spread", "size"), [(LOW, 0.05), (MID, 0.05), (MID, 0.10)])
def test_a_slow_drift_is_reported_with_its_whole_size(spread: float, size: float) -> None:
    largest: list[float] = []
    apart: list[float] = []
    for seed in range(40):
        drift = math.log1p(size) * np.clip((np.arange(380) - 59) / 300, 0, 1)
        values = drift + spread * np.random.default_rng([28, seed]).normal(size=380)
        found = [one for one in raised(values) if one.sign > 0 and one.raised >= 60]
        largest.append(max((one.change for one in found), default=0.0))
        apart.append(max((drift[one.raised] - drift[against(one)] for one in found), default=0.0))
    assert np.median(largest) >= 0.75 * math.log1p(size)
    assert np.mean(np.array(apart) >= RULES.log_floor) >= 0.95


def slow(nights: int = 380, seed: int = 1) -> Values:
    """A drift of 8 % over 300 nights, from night 60 on."""
    rng = np.random.default_rng([29, seed])
    return math.log1p(0.08) * np.clip((np.arange(nights) - 59) / 300, 0, 1) + 0.015 * rng.normal(size=nights)


def test_an_anchored_drift_is_measured_against_the_first_nights_and_only_on_weekly_nights() -> None:
    values = slow()
    drifts = [one for one in raised(values) if one.anchored]
    assert drifts and all(one.since == 0 and one.raised % 7 == 0 for one in drifts)
    assert all(against(one) == 0 and one.index == one.raised - 13 for one in drifts)
    # It is reported again only once it has grown by half.
    sizes = [one.change for one in drifts]
    assert all(later >= 1.5 * before for before, later in pairwise(sizes))
    assert not any(one.anchored for one in scan(values.tolist(), (), RULES).raised)
    # A border begins a new anchor.
    bordered = scan(values.tolist(), (200,), RULES, range(0, 380, 7)).raised
    assert all(one.since >= 200 for one in bordered if one.anchored and one.raised >= 200)


def test_a_step_that_is_known_is_no_drift() -> None:
    for seed in range(30):
        values = MID * np.random.default_rng([30, seed]).normal(size=300)
        values[100:] += math.log1p(0.10)
        (step,) = [one for one in raised(values) if one.sign > 0 and abs(one.index - 100) < 5]
        assert not any(one.anchored for one in raised(values))
        confirmed = (Decision(step.index, step.raised, True),)
        assert not any(one.anchored for one in raised(values, confirmed))


def test_from_a_confirmed_level_on_a_drift_is_measured_against_that() -> None:
    values = slow(480)
    values[100:] = values[:380] + math.log1p(0.10)
    values[:100] = 0.015 * np.random.default_rng(31).normal(size=100)
    step = next(one for one in raised(values) if one.sign > 0)
    drifts = [one for one in raised(values, (Decision(step.index, step.raised, True),)) if one.anchored]
    assert drifts and all(one.since == step.index for one in drifts)
    assert all(one.change < math.log1p(0.10) for one in drifts)


def refuted_twice() -> tuple[Decision, ...]:
    return Decision(50, 60, False), Decision(70, 80, False)


def test_after_two_refutations_a_series_must_move_twice_as_far_for_sixty_nights() -> None:
    for size, night, seen in ((0.03, 90, False), (0.03, 150, True), (0.10, 90, True)):
        values = LOW * np.random.default_rng(32).normal(size=night + 20)
        values[night:] += math.log1p(size)
        assert bool(raised(values)) and bool(raised(values, refuted_twice())) == seen
    nights = [
        NightValue(value) for value in np.exp(LOW * np.random.default_rng(33).normal(size=145)).tolist()
    ]
    factors = [judge(nights[:n], "lower", None, None, refuted_twice()).factor for n in (82, 110, 121, 145)]
    assert factors == [2.0, 2.0, 1.0, 1.0]
    once = judge(nights[:100], "lower", None, None, refuted_twice()[:1])
    twice = judge(nights[:100], "lower", None, None, refuted_twice())
    assert once.factor == 1.0 and once.smallest is not None and twice.smallest is not None
    assert twice.smallest > 1.4 * once.smallest


def test_what_was_refuted_is_noise_of_the_old_level() -> None:
    values = 0.01 * np.random.default_rng(34).normal(size=120)
    values[80:] += math.log1p(0.05)
    (one,) = raised(values)
    assert one.state == "stayed"
    # The level goes on as it was: what stays off it can be raised anew, against the nights before.
    again = [each for each in raised(values, (Decision(one.index, one.raised, False),)) if each is not one]
    assert all(each.since == 0 for each in again)


def test_decisions_and_weekly_nights_leave_the_past_as_it_was() -> None:
    decisions = (Decision(100, 110, True), Decision(150, 160, False), Decision(170, 175, False))
    for seed in range(3):
        values = slow(300, seed)
        values[100:] += 0.06
        values[150:175] += 0.05
        whole = raised(values, decisions)
        for nights in range(60, 300, 13):
            then = raised(values[:nights], tuple(one for one in decisions if one.night < nights))
            assert [(one.raised, one.index, one.since, one.change) for one in then] == [
                (one.raised, one.index, one.since, one.change) for one in whole if one.raised < nights
            ]
