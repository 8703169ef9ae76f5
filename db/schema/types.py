"""The base of all tables, and column types that are equal in both databases."""

import json
from collections.abc import Iterable, Mapping
from datetime import UTC, datetime
from enum import StrEnum
from typing import Any

from sqlalchemy import DateTime, Dialect, Double, MetaData, Text
from sqlalchemy.orm import DeclarativeBase
from sqlalchemy.types import TypeDecorator

from records.findings import DeliveryState, FindingState, FindingTriage
from records.kinds import EnvironmentKind, RunKind, RunSource, RunState
from records.outcomes import OutcomeStatus
from records.tasks import TaskState

from ..errors import SchemaTooNew

Facts = Mapping[str, Any]

#: A JSON document as text.
as_json = json.JSONEncoder(separators=(",", ":")).encode


def one_of(column: str, values: Iterable[str]) -> str:
    """The SQL of a check that a column holds one of some words."""
    return f"{column} IN ({', '.join(repr(str(value)) for value in values)})"


class UtcTime(TypeDecorator[datetime]):
    """An aware datetime, stored and read back as UTC (SQLite keeps no zone, Postgres the session's)."""

    impl = DateTime(timezone=True)
    cache_ok = True

    def process_bind_param(self, value: datetime | None, dialect: Dialect) -> datetime | None:
        if value is None:
            return None
        if value.tzinfo is None:
            raise ValueError(f"{value} has no time zone")
        return value.astimezone(UTC)

    def process_result_value(self, value: datetime | None, dialect: Dialect) -> datetime | None:
        if value is None:
            return None
        return value.astimezone(UTC) if value.tzinfo else value.replace(tzinfo=UTC)


class PlainText(TypeDecorator[str]):
    """Text from any source: characters that a database refuses (NUL, lone surrogates) are replaced."""

    impl = Text
    cache_ok = True

    def process_bind_param(self, value: str | None, dialect: Dialect) -> str | None:
        return value and value.replace("\0", "\N{SYMBOL FOR NULL}").encode(errors="replace").decode()


class Word(TypeDecorator[StrEnum]):
    """A member of an enumeration, stored as text; raises SchemaTooNew for an unknown text.

    Any text may be bound: the CHECK constraint of the table refuses an unknown one, and a search for it finds
    nothing.
    """

    impl = Text
    cache_ok = True

    def __init__(self, words: type[StrEnum]) -> None:
        super().__init__()
        self.words = words

    def process_bind_param(self, value: StrEnum | None, dialect: Dialect) -> str | None:
        return None if value is None else str(value)

    def process_result_value(self, value: str | None, dialect: Dialect) -> StrEnum | None:
        try:
            return None if value is None else self.words(value)
        except ValueError:
            raise SchemaTooNew(
                f"A row of the database has {value!r}; this Pyrometer knows only {', '.join(self.words)}. "
                "A newer Pyrometer wrote it: install that version here too."
            ) from None


class Json(TypeDecorator[Any]):
    """A JSON document stored as text, because the JSON type of Postgres refuses NaN, which facts may
    contain.
    """

    impl = Text
    cache_ok = True

    def process_bind_param(self, value: Any, dialect: Dialect) -> str:
        return as_json(value)

    def process_result_value(self, value: str | None, dialect: Dialect) -> Any:
        return None if value is None else json.loads(value)


class Base(DeclarativeBase):
    """Base of all tables; every constraint has a name, so that a later migration can find it."""

    metadata = MetaData(
        naming_convention={
            "ix": "ix_%(table_name)s_%(column_0_N_name)s",
            "uq": "uq_%(table_name)s_%(column_0_N_name)s",
            "ck": "ck_%(table_name)s_%(constraint_name)s",
            "fk": "fk_%(table_name)s_%(column_0_N_name)s_%(referred_table_name)s",
            "pk": "pk_%(table_name)s",
        }
    )
    type_annotation_map = {  # noqa: RUF012 -- SQLAlchemy reads it as it stands
        datetime: UtcTime,
        str: PlainText,
        float: Double,
        Facts: Json,
        list[str]: Json,
        dict[str, int]: Json,
        RunKind: Word(RunKind),
        RunSource: Word(RunSource),
        RunState: Word(RunState),
        EnvironmentKind: Word(EnvironmentKind),
        DeliveryState: Word(DeliveryState),
        OutcomeStatus: Word(OutcomeStatus),
        TaskState: Word(TaskState),
        FindingState: Word(FindingState),
        FindingTriage: Word(FindingTriage),
    }
