"""Several calls of the store as one: kept together, or not at all."""

from collections.abc import Generator
from contextlib import contextmanager
from dataclasses import dataclass

from sqlalchemy import Connection

from .engine import Database


@dataclass(frozen=True, slots=True)
class _Together(Database):
    """A database in the midst of one transaction."""

    connection: Connection

    @contextmanager
    def reading(self) -> Generator[Connection]:
        yield self.connection

    @contextmanager
    def writing(self) -> Generator[Connection]:
        yield self.connection


@contextmanager
def together(database: Database) -> Generator[Database]:
    """The same database, with all that is written through it kept together; an exception undoes all of it.

    Whoever writes to the same run waits meanwhile, and on SQLite everybody who writes.
    """
    with database.writing() as connection:
        yield _Together(database.name, database.engine, connection)
