"""Student's t distribution by the standard library alone."""

import math


def quantile(degrees: int, share: float) -> float:
    """Below what Student's t of `degrees` (1 or more) has the probability `share` (0.5 to below 1)."""
    low, high = 0.0, 1.0
    while _below(degrees, high) < share:
        high *= 2
    for _ in range(100):
        middle = (low + high) / 2
        low, high = (middle, high) if _below(degrees, middle) < share else (low, middle)
    return (low + high) / 2


def _below(degrees: int, value: float) -> float:
    """The distribution function at `value`, 0 or more; Abramowitz and Stegun, 26.7.3 and 26.7.4.

    A finite sum of powers of cos(theta), where tan(theta) = value / sqrt(degrees).
    """
    theta = math.atan(value / math.sqrt(degrees))
    cosine = math.cos(theta)
    term, total = (cosine, 0.0) if degrees % 2 else (1.0, 0.0)
    for number in range(1 if degrees % 2 else 0, degrees - 1, 2):
        total += term
        term *= cosine**2 * (number + 1) / (number + 2)
    inside = math.sin(theta) * total
    if degrees % 2:
        inside = 2 / math.pi * (theta + inside)
    return 0.5 + inside / 2
