"""What every workflow works with: settings, places that can be written, and a reporter."""

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

from configuration.data_dirs import DataDirs
from configuration.settings import Settings

from .reporter import Reporter

if TYPE_CHECKING:
    from db.connection.engine import Database


@dataclass(frozen=True, slots=True)
class AppContext:
    """Settings, places and reporter of one call; `command` is stored with the runs that it measures."""

    settings: Settings
    places: DataDirs
    reporter: Reporter
    command: str

    @property
    def runs(self) -> Path:
        """The folder that holds one folder per run."""
        return self.places.data_dir / "runs"

    @property
    def open_database(self) -> "Callable[[], Database]":
        """Opens the database; raises DatabaseError."""
        # SQLAlchemy takes a third of a second to import: what opens no database does not wait for it.
        from db.connection.engine import open_database

        return partial(open_database, self.places.database_url)
