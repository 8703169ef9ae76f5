"""What would decide an unclear upgrade: which cases, how many pairs, of which kind."""

import pytest

from analysis.comparison.pairs import Pair, PairFlaw
from analysis.comparison.policy import Policy
from analysis.comparison.thresholds import threshold_of
from analysis.comparison.verdict import judge
from analysis.decision.upgrade import decide
from support.builders.upgrade_cases import FLOOR, alike, kinds, result, verdict


@pytest.mark.parametrize(
    ("metric", "other", "cold"),
    [
        ("compile_cold", "compile_warm", True),
        ("first_call", "compile_warm", True),
        ("first_call", "latency", False),
        ("compile_warm", "compile_cold", False),
    ],
)
def test_what_only_an_empty_cache_tells_is_decided_by_pairs_that_find_one(
    metric: str, other: str, cold: bool
) -> None:
    verdicts = {FLOOR: verdict(0.0), metric: verdict(300.0, metric, n=1), other: verdict(0.0, other)}
    upgrade = decide([*alike(), result("mlp", verdicts=verdicts)], Policy(worst={metric: 0.1}))
    (pairs_to_decide,) = upgrade.to_decide
    assert (pairs_to_decide.case, pairs_to_decide.pairs, pairs_to_decide.cold) == ("mlp", 12, cold)
    # What a pair took that found it filled says nothing of that.
    assert pairs_to_decide.minutes == (None if cold else 1.2)


def test_what_cannot_be_compared_is_decided_by_no_number_of_pairs() -> None:
    unlike = judge(FLOOR, [Pair(1.0, 1.0, (PairFlaw.OTHER_ITEMS,))] * 6, threshold_of(FLOOR))
    upgrade = decide([*alike(), result("mlp", verdicts={FLOOR: unlike})], Policy(unmeasured_share=0.0))
    assert [(one.case, one.pairs, one.minutes) for one in upgrade.to_decide] == [("mlp", None, None)]


def test_an_unclear_geomean_is_decided_by_its_noisiest_cases() -> None:
    cases = [result(f"case{number}", 0.3, noise=0.5) for number in range(3)]
    noisy = result("noisy", 0.6, noise=12.0)
    upgrade = decide([*cases, noisy], Policy(slower_share=1.0))
    assert kinds(upgrade, "unclear") == ["overall"]
    assert [one.case for one in upgrade.to_decide] == ["noisy"]
