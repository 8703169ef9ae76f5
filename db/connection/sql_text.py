"""Texts compared sign for sign, alike in both databases: SQLite's LIKE takes `A` for `a`."""

from sqlalchemy import ColumnElement, func
from sqlalchemy.orm import InstrumentedAttribute


def begins_with(column: InstrumentedAttribute[str], beginning: str) -> ColumnElement[bool]:
    """That a text begins with another one; its `%` and `_` stand for themselves."""
    return func.substr(column, 1, len(beginning), type_=column.type) == beginning
