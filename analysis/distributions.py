"""Probability functions of scipy, imported at the first call so that other commands do not wait."""

from typing import Any, cast

import numpy as np
from numpy.typing import ArrayLike, NDArray


def quantile(degrees: ArrayLike, share: ArrayLike) -> NDArray[np.float64]:
    """The quantile of Student's t with `degrees` at probability `share` (0..1); shapes are broadcast."""
    return _special().stdtrit(degrees, share)


def below(degrees: float, value: float) -> float:
    """The probability (0..1) of Student's t with `degrees` below `value`."""
    return float(_special().stdtr(degrees, value))


def below_each(degrees: ArrayLike, values: ArrayLike) -> NDArray[np.float64]:
    """As `below`, of arrays that are broadcast."""
    return _special().stdtr(degrees, values)


def chi_squared_above(degrees: float, value: float) -> float:
    """The probability (0..1) of chi squared with `degrees` above `value`."""
    return float(_special().chdtrc(degrees, value))


def digamma(values: ArrayLike) -> NDArray[np.float64]:
    """The derivative of the logarithm of the gamma function."""
    return _special().digamma(values)


def trigamma(values: ArrayLike) -> NDArray[np.float64]:
    """The derivative of `digamma`."""
    return _special().polygamma(1, values)


def fisher_exact(table: ArrayLike) -> float:
    """The two-sided p-value of Fisher's exact test of a table of 2 x 2 counts."""
    from scipy import stats  # pyright: ignore[reportMissingTypeStubs]

    return float(cast(Any, stats.fisher_exact(table)).pvalue)


def noncentral(degrees: ArrayLike, share: ArrayLike, value: ArrayLike) -> NDArray[np.float64]:
    """The noncentrality with which the noncentral t of `degrees` has `share` (0..1) below `value`."""
    return _special().nctdtrinc(degrees, share, value)


def _special() -> Any:
    from scipy import special  # pyright: ignore[reportMissingTypeStubs]

    return special
