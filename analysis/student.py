"""Student's t, from scipy, which is imported at the first call: commands that judge nothing do not wait."""

from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray


def quantile(degrees: ArrayLike, share: ArrayLike) -> NDArray[np.float64]:
    """Below what Student's t of `degrees` has the probability `share` (0..1); shapes are broadcast."""
    return _special().stdtrit(degrees, share)


def below(degrees: float, value: float) -> float:
    """The probability (0..1) that Student's t of `degrees` has below `value`."""
    return float(_special().stdtr(degrees, value))


def noncentral(degrees: ArrayLike, share: ArrayLike, value: ArrayLike) -> NDArray[np.float64]:
    """The noncentrality with which the noncentral t of `degrees` has `share` (0..1) below `value`."""
    return _special().nctdtrinc(degrees, share, value)


def _special() -> Any:
    from scipy import special  # pyright: ignore[reportMissingTypeStubs]

    return special
