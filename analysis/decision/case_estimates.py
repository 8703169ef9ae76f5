"""Estimates of the change of each case of a suite, with a spread that is moderated by the other cases."""

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np

from .. import distributions
from ..comparison.plan import Plan
from ..robust_mean import locate
from .process_modes import Modes, find_modes

#: The fewest cases with which the spread of a case is moderated.
FEWEST_TO_MODERATE = 5
#: The most degrees of freedom of the suite's spread.
_PRIOR_CAP = 12.0
#: The variance of a case is never reduced below this share of it, and not moderated at all if it is this
#: multiple of the suite's.
_LEAST_KEPT, _ODD = 0.6, 4.0
_NO_ERROR = 1e-5


@dataclass(frozen=True, slots=True)
class CasePairs:
    """The pairs of one case in the order in which they were measured.

    `worse` are log ratios, `new_first` tells which side started first (None if unknown), `floors` are the log
    values of the two processes of each pair, (old, new), in which modes are searched; empty to skip that.
    `weight` is above 0. `limit` is the limit of the case for rule `worst`, as a share; None for that of the
    suite.
    """

    case: str
    worse: tuple[float, ...]
    new_first: tuple[bool | None, ...]
    floors: tuple[tuple[float, float], ...] = ()
    weight: float = 1.0
    limit: float | None = None


@dataclass(frozen=True, slots=True)
class CaseEstimate:
    """The estimate for one case from `n` pairs at the last reached look.

    `worse` +- `error` has Student's t with `degrees`; `shared_error` and `shared_degrees` are moderated by
    the spread of the other cases. `order` is the removed slowdown of the side that starts first. `refutes` is
    the p-value of "worse by `limit` or more", `refutes_material` that of "worse by `case` or more", `proves`
    and `proves_material` those of their opposites: each is valid at every look.
    """

    case: str
    weight: float
    n: int
    worse: float
    error: float
    degrees: float
    limit: float | None = None
    order: float = 0.0
    modes: Modes | None = None
    shared_error: float = math.inf
    shared_degrees: float = 1.0
    refutes: float = 1.0
    refutes_material: float = 1.0
    proves: float = 1.0
    proves_material: float = 1.0


def estimate(pairs: CasePairs, plan: Plan) -> CaseEstimate | None:
    """The estimate for a single case at the last look that its pairs reach (see `locate`); None before the
    first.

    If its processes are in two modes, only pairs with both processes in the same mode count. Raises
    ValueError for a log ratio that is not finite.
    """
    if not all(math.isfinite(each) for each in pairs.worse):
        raise ValueError(f"{pairs.case}: log ratios are finite numbers")
    n = plan.look(len(pairs.worse))
    if not n:
        return None
    modes = find_modes(pairs.floors[:n]) if pairs.floors else None
    places = [at for at in range(n) if modes is None or not modes.split or modes.within[at]]
    found = locate([pairs.worse[at] for at in places], [pairs.new_first[at] for at in places])
    error = max(found.error, _NO_ERROR)
    return CaseEstimate(
        pairs.case, pairs.weight, n, found.point, error, found.degrees, pairs.limit, found.order, modes
    )


def moderate_estimates(estimates: Sequence[CaseEstimate]) -> list[CaseEstimate]:
    """The estimates with moderated spreads (Smyth, Statistical Applications in Genetics 3, 2004).

    The logarithm of a variance with d degrees of freedom has the mean digamma(d/2) - ln(d/2) above that of
    the truth, and the variance trigamma(d/2): the excess in the suite is the variance of the true values.
    Both are estimated by medians, so that outliers have no influence. A case far from the rest keeps its own
    variance.
    """
    n = np.array([each.n for each in estimates], dtype=float)
    own = np.array([each.error for each in estimates]) ** 2 * n
    degrees = np.array([each.degrees for each in estimates])
    variance, shared = own, degrees
    if len(estimates) >= FEWEST_TO_MODERATE:
        apart = np.log(own) - distributions.digamma(degrees / 2) + np.log(degrees / 2)
        middle = float(np.median(apart))
        beyond = (1.4826 * float(np.median(np.abs(apart - middle)))) ** 2
        beyond -= float(np.mean(distributions.trigamma(degrees / 2)))
        prior = _PRIOR_CAP if beyond <= 0 else min(_PRIOR_CAP, 2 * _inverse_trigamma(beyond))
        usual = math.exp(middle + float(distributions.digamma(prior / 2)) - math.log(prior / 2))
        mixed = np.maximum((prior * usual + degrees * own) / (prior + degrees), _LEAST_KEPT * own)
        odd = own > _ODD * usual
        variance, shared = np.where(odd, own, mixed), np.where(odd, degrees, degrees + prior)
    errors = np.sqrt(variance / n)
    return [
        replace(each, shared_error=float(error), shared_degrees=float(own_degrees))
        for each, error, own_degrees in zip(estimates, errors, shared, strict=True)
    ]


def _inverse_trigamma(value: float) -> float:
    """The inverse of trigamma, by bisection of the logarithm between 0.05 and 50."""
    low, high = math.log(0.05), math.log(50)
    for _ in range(40):
        middle = (low + high) / 2
        low, high = (middle, high) if distributions.trigamma(math.exp(middle)) > value else (low, middle)
    return math.exp(low)
