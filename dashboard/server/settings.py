"""Settings that the command passes to the process of the dashboard."""

import json
import os
from collections.abc import Mapping
from dataclasses import dataclass, field

#: The variable with the prices of hardware, in the form of `Prices.text`.
PRICES = "PYROMETER_DASHBOARD_PRICES"
#: The variable with the number of cases with results in /metrics.
METRICS_CASES = "PYROMETER_DASHBOARD_METRICS_CASES"
#: The variable that marks a made-up history, which every page then mentions.
MADE_UP = "PYROMETER_DASHBOARD_MADE_UP"


@dataclass(frozen=True, slots=True)
class Prices:
    """Prices per hour of whole hardware, by label, in one `currency`, a word."""

    currency: str = "USD"
    per_hour: Mapping[str, float] = field(default_factory=dict[str, float])

    @property
    def text(self) -> str:
        """Prices and currency as one text, for an environment variable."""
        return json.dumps({"currency": self.currency, "per_hour": dict(self.per_hour)})


@dataclass(frozen=True, slots=True)
class ServerSettings:
    """`database_url` is an argument of `open_database`.

    `data_dir` holds the folders of runs. `made_up`: the data was not measured. /metrics has results of at
    most `metrics_cases` cases.
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
