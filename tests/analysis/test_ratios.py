"""Logarithms of new / old as files contain them."""

import math
import sys

import pytest

from analysis.ratios import as_ratios, ratio, share


def test_a_ratio_is_new_through_old_and_a_share_what_is_more() -> None:
    assert ratio(math.log(1.221)) == pytest.approx(1.221) and ratio(None) is None
    assert share(math.log(1.01)) == pytest.approx(0.01) and share(None) is None
    assert ratio(1e9) == pytest.approx(sys.float_info.max) and math.isfinite(share(1e9) or math.inf)


def test_every_logarithm_of_a_finding_says_what_it_is_down_to_the_last_row() -> None:
    half = math.log(0.5)
    rows = [{"case": "a", "change": half, "low": None, "high": 0.0}]
    kept = {"id": 7, "change": half, "evidence": {"rows": rows, "goes_on": {"change": half, "further": half}}}
    kept["evidence"] |= {"confirmed_before": half}
    converted = as_ratios(kept | {"detected": {"smallest": math.log(1.5), "noise": 0.02, "threshold": None}})
    assert converted == {
        "id": 7,
        "ratio": pytest.approx(0.5),
        "evidence": {
            "rows": [{"case": "a", "ratio": pytest.approx(0.5), "ratio_low": None, "ratio_high": 1.0}],
            "goes_on": {"ratio": pytest.approx(0.5), "ratio_further": pytest.approx(0.5)},
            "ratio_confirmed_before": pytest.approx(0.5),
        },
        "detected": {"smallest": pytest.approx(0.5), "noise": 0.02, "threshold": None},
    }
    assert as_ratios({"low": "-x", "change": "kind"}) == {"low": "-x", "change": "kind"}
