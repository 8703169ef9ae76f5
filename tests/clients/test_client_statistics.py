"""The statistics of pyrometer_client are those of `analysis`, number for number."""

import math
import random
from collections.abc import Callable, Sequence
from typing import Any

import pytest

from analysis import distributions
from analysis.comparison.pairs import Pair
from analysis.comparison.plan import Plan
from analysis.comparison.thresholds import threshold_of
from analysis.comparison.verdict import judge
from support.site import ROOT

METRIC = "latency_floor"


@pytest.fixture
def client(monkeypatch: pytest.MonkeyPatch) -> Any:
    """The client's statistics as they are imported where it is installed."""
    monkeypatch.syspath_prepend(str(ROOT / "clients" / "pyrometer_client"))
    from pyrometer_client import statistics

    return statistics


@pytest.mark.parametrize("degrees", [1, 2, 3, 4, 7, 19, 30, 199])
def test_the_quantiles_are_those_of_scipy(client: Any, degrees: int) -> None:
    for share in (0.75, 0.975, 0.995, 0.9998):
        assert client.quantile(degrees, share) == pytest.approx(
            float(distributions.quantile(degrees, share)), rel=1e-9
        )


@pytest.mark.parametrize("largest", [4, 5, 6, 12, 20, 32, 33, 48, 100])
def test_the_looks_and_their_shares_are_those_of_a_plan(client: Any, largest: int) -> None:
    plan = Plan(largest)
    assert client.looks(largest) == pytest.approx({look: plan.share(look) for look in plan.looks})


def _wild(rng: random.Random) -> float:
    """One pair in eight is off by 11 to 24 %."""
    return rng.gauss(0.004, 0.004) + (rng.choice((-1, 1)) * rng.uniform(0.11, 0.24)) * (rng.random() < 1 / 8)


#: What pairs are drawn from: log ratios of some noise around some change.
NOISE: dict[str, Callable[[random.Random], float]] = {
    "none": lambda rng: rng.gauss(0.0, 0.002),
    "noisy": lambda rng: rng.gauss(0.0, 0.05),
    "slower": lambda rng: rng.gauss(0.06, 0.01),
    "faster": lambda rng: rng.gauss(-0.3, 0.02),
    "small": lambda rng: rng.gauss(0.008, 0.0005),
    "wild": _wild,
    "two modes": lambda rng: rng.choice((-0.04, 0.04)) + rng.gauss(0.0, 0.001),
    "equal": lambda _: 0.02,
    "few values": lambda rng: rng.choice((0.0, 0.0, 0.0, 0.01)),
}


def _in_turn(n: int, _: random.Random) -> list[bool]:
    return [number % 2 == 1 for number in range(n)]


def _uneven(n: int, rng: random.Random) -> list[bool]:
    """The new side starts first in a quarter of the pairs at least, and in less than half."""
    first = [number < -(-n // 4) for number in range(n)]
    rng.shuffle(first)
    return first


@pytest.mark.parametrize("noise", NOISE)
@pytest.mark.parametrize("order_effect", [0.0, 0.01, 0.2])
@pytest.mark.parametrize("orders", [_in_turn, _uneven])
def test_the_same_pairs_have_the_same_verdict(
    client: Any, noise: str, order_effect: float, orders: Callable[[int, random.Random], list[bool]]
) -> None:
    for seed, largest, confidence in ((1, 4, 0.99), (2, 12, 0.99), (3, 20, 0.95), (4, 48, 0.99)):
        rng = random.Random(f"{seed}/{noise}/{order_effect}")
        plan = Plan(largest, alpha=1 - confidence)
        for look in plan.looks:
            first = orders(look, rng)
            logs = [NOISE[noise](rng) + (order_effect if new else -order_effect) for new in first]
            found = client.judge(logs, first, client.looks(largest)[look], confidence)
            expected = judge(METRIC, _pairs(logs, first), threshold_of(METRIC), plan)
            assert found.word == expected.word, (look, logs)
            numbers = (expected.change, expected.low, expected.high)
            # Nothing but rounding where the pairs cancel out.
            assert found[1:] == pytest.approx(numbers, rel=1e-6, abs=1e-12), (look, logs)


def test_each_word_and_each_rule_is_among_those_pairs(client: Any) -> None:
    rng = random.Random(7)
    words = {
        client.judge([draw(rng) for _ in range(12)], _in_turn(12, rng), 1.0, 0.99).word
        for draw in NOISE.values()
    }
    assert words == {"same", "slower", "faster", "unclear"}
    # One wild pair of seven widens the interval, of eight it is set aside.
    calm = [0.05, 0.051, 0.049, 0.05, 0.052, 0.048, 0.05]
    seven = client.judge([*calm[1:], 0.4], _in_turn(7, rng), 1.0, 0.99)
    eight = client.judge([*calm, 0.4], _in_turn(8, rng), 1.0, 0.99)
    assert seven.high - seven.low > 10 * (eight.high - eight.low)
    assert math.isclose(eight.change, 0.05, abs_tol=2e-3)


def _pairs(logs: Sequence[float], new_first: Sequence[bool]) -> list[Pair]:
    return [
        Pair(1.0, math.exp(log), new_first=first, change=log)
        for log, first in zip(logs, new_first, strict=True)
    ]
