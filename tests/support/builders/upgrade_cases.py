"""Cases of an upgrade, made up of pairs and judged by the real rules."""

import math
from typing import Any

from analysis.comparison.case_results import CaseResult, CaseSide
from analysis.comparison.pairs import Pair, SideFlaw
from analysis.comparison.thresholds import threshold_of
from analysis.comparison.verdict import Verdict, judge
from analysis.decision.upgrade import Upgrade

FLOOR = "latency_floor"
OK = CaseSide("ok")
WOBBLE = (0.001, -0.002, 0.0, 0.002, -0.001, 0.0015)


def verdict(
    percent: float, metric: str = FLOOR, noise: float = 1.0, n: int = 6, old: float = 100.0, torn: int = 0
) -> Verdict:
    """A verdict on `n` pairs that differ by so many percent, and by `noise` times a few tenths of a percent.

    `torn` further pairs do not count.
    """
    wobble = (WOBBLE * (n // len(WOBBLE) + 1))[:n]
    pairs = [Pair(old, old * (1 + percent / 100) * math.exp(noise * own)) for own in wobble]
    pairs += [Pair(old, old, (SideFlaw("new", "shared its core", core=0.55),))] * torn
    return judge(metric, pairs, threshold_of(metric))


def result(case: str, percent: float = 0.0, noise: float = 1.0, **changes: Any) -> CaseResult:
    """A case that works in both environments."""
    given: dict[str, Any] = {
        "technique": "eager",
        "old": OK,
        "new": OK,
        "verdicts": {FLOOR: verdict(percent, noise=noise)},
        "pair_seconds": 6.0,
    }
    return CaseResult(case, **{**given, **changes})


def alike(many: int = 10) -> list[CaseResult]:
    """Cases in which nothing differs."""
    return [result(f"alike{number}/infer/-/eager") for number in range(many)]


def kinds(upgrade: Upgrade, speaks: str) -> list[str]:
    """The kinds of the reasons that speak for a decision, in their order."""
    return [reason.kind for reason in upgrade.reasons if reason.speaks == speaks]
