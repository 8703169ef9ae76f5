"""Converts logarithms of new / old to the ratios and shares of files."""

import math
import sys
from collections.abc import Mapping
from typing import Any

#: The stored names of logarithms, and the names of their ratios in files.
_RATIOS: Mapping[str, str] = {
    "change": "ratio",
    "low": "ratio_low",
    "high": "ratio_high",
    "further": "ratio_further",
    "confirmed_before": "ratio_confirmed_before",
}
#: Logarithms that are thresholds: shares in a file, under the same name.
_SHARES = ("smallest", "threshold")
_LARGEST = math.log(sys.float_info.max)


def ratio(change: float | None) -> float | None:
    """New / old from its logarithm, exp(change); the largest float on overflow."""
    return None if change is None else math.exp(min(change, _LARGEST))


def share(size: float | None) -> float | None:
    """A change as a share, 0.01 for 1 %, from its logarithm: exp(size) - 1."""
    return None if size is None else math.expm1(min(size, _LARGEST))


def as_ratios(evidence: Any) -> Any:
    """The form of a finding in a file, including nested rows.

    `change` is `ratio` there, new / old, and `low`, `high`, `further` and `confirmed_before` have that word
    before their names; `smallest` and `threshold` are shares. Other values are unchanged.
    """
    if isinstance(evidence, Mapping):
        return dict(_evidence_item(str(name), value) for name, value in evidence.items())
    if isinstance(evidence, list | tuple):
        return [as_ratios(each) for each in evidence]
    return evidence


def _evidence_item(name: str, value: Any) -> tuple[str, Any]:
    if value is None or isinstance(value, int | float):
        if name in _RATIOS:
            return _RATIOS[name], ratio(value)
        if name in _SHARES:
            return name, share(value)
    return name, as_ratios(value)
