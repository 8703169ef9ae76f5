"""The change of each case of a suite, with what its spread shares with that of the others."""

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np

from .. import distributions
from ..comparison.plan import Plan
from ..robust_mean import locate
from .process_modes import Modes, find_modes

#: With fewer cases there is nothing to learn about one case's spread from the others.
FEWEST_TO_MODERATE = 5
#: The spread of the suite counts at most so many degrees of freedom.
_PRIOR_CAP = 12.0
#: A case's variance is never moderated to less than this part of it, and not at all where it is so many
#: times the suite's.
_LEAST_KEPT, _ODD = 0.6, 4.0
_NO_ERROR = 1e-5


@dataclass(frozen=True, slots=True)
class CasePairs:
    """The pairs of one case in the order in which they were measured.

    `worse` are log ratios, `new_first` says which side started first (None where that is not known), `floors`
    are the log values of the two processes of each pair, (old, new), by which modes are found; empty where
    none are looked for. `weight` is above 0. `limit` is the case's own limit of rule `worst`, as a share;
    None where it is that of the suite.
    """

    case: str
    worse: tuple[float, ...]
    new_first: tuple[bool | None, ...]
    floors: tuple[tuple[float, float], ...] = ()
    weight: float = 1.0
    limit: float | None = None


@dataclass(frozen=True, slots=True)
class CaseEstimate:
    """What `n` pairs, the last look that was reached, say of one case.

    `worse` +- `error` has Student's t with `degrees`; `shared_error` and `shared_degrees` have learnt from
    the spread of the other cases. `order` is by how much the side that starts first is slower, taken out.
    `refutes` is the p-value of "worse by `limit` or more", `refutes_material` that of "worse by `case` or
    more", `proves` and `proves_material` those of their opposites: each is valid at whichever look one stops.
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
    """The case by itself at the last look that its pairs reach (see `locate`); None before the first.

    Where its processes are in two modes, only pairs count whose two processes are in the same one. Raises
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
    """The estimates with the spread they share (Smyth, Statistical Applications in Genetics 3, 2004).

    The logarithm of a variance with d degrees of freedom has the mean digamma(d/2) - ln(d/2) above that of
    the truth, and the variance trigamma(d/2): what the suite shows beyond that is how far the truths lie
    apart. Both are taken from medians, so that a wild case has no say. A case that is far from the rest
    keeps its own.
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
    """Where trigamma takes this value, by bisection of the logarithm between 0.05 and 50."""
    low, high = math.log(0.05), math.log(50)
    for _ in range(40):
        middle = (low + high) / 2
        low, high = (middle, high) if distributions.trigamma(math.exp(middle)) > value else (low, middle)
    return math.exp(low)
