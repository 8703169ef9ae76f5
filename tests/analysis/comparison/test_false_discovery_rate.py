"""False discoveries over a suite: the procedure against another implementation, and what it takes back."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from analysis.comparison.false_discovery_rate import adjust_p_values, control
from analysis.comparison.pairs import Pair
from analysis.comparison.thresholds import Threshold
from analysis.comparison.verdict import ChanceInSuite, Verdict, judge
from analysis.robust_mean import locate

probabilities = st.lists(st.floats(min_value=0, max_value=1), min_size=1, max_size=40)


@given(probabilities)
def test_it_is_benjamini_and_hochbergs(ps: list[float]) -> None:
    # Here: it takes a second, and every process of the tests imports this file.
    from scipy import stats  # pyright: ignore[reportMissingTypeStubs]

    expected = stats.false_discovery_control(ps, method="bh")
    assert adjust_p_values(ps) == pytest.approx(expected.tolist(), rel=1e-9, abs=1e-300)


@given(probabilities)
def test_it_only_ever_takes_back(ps: list[float]) -> None:
    assert all(after >= before for before, after in zip(ps, adjust_p_values(ps), strict=True))
    assert adjust_p_values([]) == []


@pytest.mark.parametrize("bad", [-0.1, 1.1, float("nan")])
def test_what_is_no_probability_is_refused(bad: float) -> None:
    with pytest.raises(ValueError, match="between 0 and 1"):
        adjust_p_values([0.5, bad])


def called(p: float, word: str = "slower") -> Verdict:
    found = locate([0.03, 0.031, 0.029, 0.035, 0.025, 0.03])
    return Verdict("latency_floor", word, threshold=0.01, n=6, p=p, location=found)  # type: ignore[arg-type]


def test_what_chance_may_have_made_becomes_unclear() -> None:
    verdicts = {f"case {number}": called(0.9, "unclear") for number in range(38)}
    verdicts |= {"sure": called(1e-6), "lucky": called(0.009), "alike": called(0.9, "same")}
    verdicts["none"] = Verdict("latency_floor", "no data")
    kept = control(verdicts)
    assert list(kept) == list(verdicts)
    assert kept["sure"] == verdicts["sure"]
    assert (kept["lucky"].word, kept["lucky"].reason) == ("unclear", ChanceInSuite(0.009, 41))
    assert kept["lucky"].needed is not None
    assert {case: kept[case] for case in ("alike", "none", "case 0")} == {
        case: verdicts[case] for case in ("alike", "none", "case 0")
    }


def test_alone_a_case_stands_by_itself() -> None:
    assert control({"only": called(0.009)})["only"].word == "slower"


def test_exact_verdicts_have_no_part_in_it() -> None:
    exact = judge("graph_breaks", [Pair(0, 1), Pair(0, 1)], Threshold(0.0, exact=True))
    assert control({number: exact for number in range(100)})[0].word == "slower"


def test_the_rate_of_false_discoveries_is_kept() -> None:
    """Thirty null cases beside ten true ones, in 400 suites: at most 5 % of calls are false, on average."""
    rng, rates, found = np.random.default_rng(1), [], 0
    for _ in range(400):
        ps = [*rng.random(30), *rng.beta(0.05, 20, 10)]
        kept = [rate <= 0.05 for rate in adjust_p_values(ps)]
        rates.append(sum(kept[:30]) / max(1, sum(kept)))
        found += sum(kept[30:])
    assert np.mean(rates) <= 0.05 and found > 0.8 * 4000
