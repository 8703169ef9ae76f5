"""The open database of this process; it does not use Streamlit, because readiness is checked outside its
pages.
"""

from collections.abc import Callable
from datetime import UTC, datetime
from functools import cache, wraps
from typing import Concatenate, ParamSpec, TypeVar

from dashboard.server.settings import ServerSettings
from db.connection.engine import Database, check_fits, open_database
from db.queue.queries import shared_time
from db.runs import queries

P = ParamSpec("P")
R = TypeVar("R")


@cache
def database_at(url: str) -> Database:
    """The database at `url`, opened at the first call; a failed attempt is repeated at the next call."""
    return open_database(url)


def by_url(query: Callable[Concatenate[Database, P], R]) -> Callable[Concatenate[str, P], R]:
    """The query as a function of the database's URL instead of the database: caches use the URL as a key."""

    @wraps(query)
    def answer(url: str, *asked: P.args, **options: P.kwargs) -> R:
        return query(database_at(url), *asked, **options)

    return answer


def present_time(url: str) -> datetime:
    """The present time by the clock that the machines of the database share, which dates heartbeats.

    Raises DatabaseError.
    """
    return shared_time(database_at(url), datetime.now(UTC))


def served_database() -> Database:
    """The database that this process serves; raises DatabaseError."""
    return database_at(ServerSettings.from_environment().database_url)


def check(url: str) -> None:
    """Run a short query; raises DatabaseError if the database cannot be used, or no longer."""
    database = database_at(url)
    check_fits(database)
    queries.count_runs(database)
