"""A client of Pyrometer for notebooks and scripts; it needs nothing but Python."""

from .comparison import StepComparison, compare
from .server import ClientError, series, submit

__all__ = ["ClientError", "StepComparison", "compare", "series", "submit"]
