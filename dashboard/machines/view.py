"""What the fleet page shows: all machines, or one opened."""

from collections.abc import Sequence
from dataclasses import dataclass

from dashboard.components.query_params import Query, last, sentence
from dashboard.components.views import View


@dataclass(frozen=True, slots=True)
class Fleet(View):
    """The fleet page. `machine` is a name, empty for all of them."""

    machine: str

    def query(self) -> dict[str, list[str]]:
        """The whole selection as a URL's query."""
        return {"machine": [self.machine]} if self.machine else {}


def chosen(query: Query, machines: Sequence[str]) -> tuple[Fleet, list[str]]:
    """The selection in `query`, and complaints."""
    wanted = last(query, "machine") or ""
    if not wanted or wanted in machines:
        return Fleet(wanted), []
    return Fleet(""), [sentence("machine", wanted, machines)]
