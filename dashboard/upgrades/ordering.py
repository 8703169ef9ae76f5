"""In which order the page shows cases: what stopped working, then what moved, by how much it counts."""

import math
from collections.abc import Sequence

from analysis.comparison.policy import Policy
from reports.rows import Row

_PLACES = {"broken": 0, "slower": 1, "faster": 1, "unclear": 2, "same": 3, "repaired": 4}
_LAST = 5


def impact(row: Row, policy: Policy) -> float | None:
    """Weight x log(new / old), above 0 where it is worse; None without a number.

    Of what is called without a ratio, as a count that was 0 before, it is infinite.
    """
    verdict = row.verdict
    if verdict is None:
        return None
    if verdict.change is None:
        return {"slower": math.inf, "faster": -math.inf}.get(verdict.word)
    return verdict.change * verdict.cost * policy.weight(row.case)


def by_impact(rows: Sequence[Row], policy: Policy) -> list[Row]:
    """Broken first, then what moved, then what may have, the largest impact first; equal ones by name."""

    def _key(row: Row) -> tuple[int, float, str]:
        return _PLACES.get(row.standing, _LAST), -abs(impact(row, policy) or 0.0), row.case

    return sorted(rows, key=_key)
