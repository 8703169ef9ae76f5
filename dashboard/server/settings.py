"""Settings that the dashboard's process gets from the command."""

import json
import os
from collections.abc import Mapping
from dataclasses import dataclass, field

#: Holds the prices of hardware, as `Prices.text` writes them.
PRICES = "PYROMETER_DASHBOARD_PRICES"
#: Holds of how many cases /metrics has results, where those are asked for.
METRICS_CASES = "PYROMETER_DASHBOARD_METRICS_CASES"
#: Set where the history is made up, which every page then says.
MADE_UP = "PYROMETER_DASHBOARD_MADE_UP"


@dataclass(frozen=True, slots=True)
class Prices:
    """What an hour of all of a hardware costs, by its label; all in one `currency`, a word."""

    currency: str = "USD"
    per_hour: Mapping[str, float] = field(default_factory=dict[str, float])

    @property
    def text(self) -> str:
        """Both as one text, for the environment."""
        return json.dumps({"currency": self.currency, "per_hour": dict(self.per_hour)})


@dataclass(frozen=True, slots=True)
class ServerSettings:
    """`database_url`: what `open_database` accepts. `data_dir` holds the runs' folders.

    `made_up`: nothing in them was measured. /metrics has results of `metrics_cases` cases at most.
    """

    database_url: str
    data_dir: str
    prices: Prices = Prices()
    made_up: bool = False
    metrics_cases: int = 0

    @staticmethod
    def from_environment() -> "ServerSettings":
        """The settings in the environment variables, with their defaults."""
        return ServerSettings(
            os.environ.get("PYROMETER_DATABASE_URL") or "sqlite:///pyrometer.db",
            os.environ.get("PYROMETER_DATA_DIR") or ".pyrometer",
            Prices(**json.loads(os.environ.get(PRICES) or "{}")),
            bool(os.environ.get(MADE_UP)),
            int(os.environ.get(METRICS_CASES) or 0),
        )
