"""The view of the Today page: how many days back a finding is new."""

from dataclasses import dataclass
from datetime import datetime, timedelta

from dashboard.components.query_params import Query, View, pick

#: Days on offer and what they are called; the first is what the page opens with.
DAYS = {"1": "a day", "3": "3 days", "7": "a week"}


@dataclass(frozen=True, slots=True)
class TodayView(View):
    """The Today page. `days`: what was found or decided within so many is new."""

    days: str

    def query(self) -> dict[str, list[str]]:
        """The whole selection as a URL's query."""
        return {"days": [self.days]}

    def since(self, now: datetime) -> datetime:
        """From when on something is new."""
        return now - timedelta(days=int(self.days))


def chosen(query: Query) -> tuple[TodayView, list[str]]:
    """The selection in `query`, and complaints."""
    complaints: list[str] = []
    return TodayView(pick(query, "days", tuple(DAYS), next(iter(DAYS)), complaints)), complaints
