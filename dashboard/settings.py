"""What the dashboard is told from outside."""

import os
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Settings:
    """`database_url`: what `db.engine.open_database` accepts. `data_dir` holds the runs' folders."""

    database_url: str
    data_dir: str

    @staticmethod
    def from_environment() -> "Settings":
        """The settings in the environment variables, with their defaults."""
        return Settings(
            os.environ.get("PYROMETER_DATABASE_URL") or "sqlite:///pyrometer.db",
            os.environ.get("PYROMETER_DATA_DIR") or ".pyrometer",
        )
