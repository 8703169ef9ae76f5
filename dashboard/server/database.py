"""The one open database of this process; without Streamlit, for readiness is asked outside of its pages."""

from functools import cache

from dashboard.server.settings import ServerSettings
from db.connection.engine import Database, check_fits, open_database
from db.runs import queries


@cache
def opened(url: str) -> Database:
    """The database at `url`, opened at the first call; an attempt that failed is made again."""
    return open_database(url)


def served_database() -> Database:
    """The database that this process serves; raises DatabaseError."""
    return opened(ServerSettings.from_environment().database_url)


def check(url: str) -> None:
    """Ask the database something short; raises DatabaseError when it cannot be used, or not any more."""
    database = opened(url)
    check_fits(database)
    queries.count_runs(database)
