"""The list of runs: which ones, a page at a time, all of it in the address."""

from dataclasses import dataclass
from datetime import datetime
from functools import partial

import streamlit as st

from dashboard.components import filters, frames, links, load, markup, parts, tables, wording
from dashboard.components.query_params import ALL, Query, View, meant, offered, pick, spelled
from records.kinds import RunCategory, RunState
from records.runs import RunsOnly

#: Runs on one page of the list.
PAGE = 50


@dataclass(frozen=True, slots=True)
class RunList(View):
    """Which runs are listed, as addresses have it: see `picking.spelled`.

    `picking.ALL` leaves nothing out. Another choice begins at the first page.
    """

    suite: str
    machine: str
    state: str
    kind: str = ALL

    def query(self) -> dict[str, list[str]]:
        """The whole selection as a URL's query."""
        names = ("kind", "suite", "machine", "state")
        return {name: [getattr(self, name)] for name in names}

    @property
    def only(self) -> RunsOnly:
        """The filters of the database query."""
        return RunsOnly(meant(self.suite), meant(self.machine), meant(self.state), meant(self.kind))

    def address(self, page: int) -> str:
        """A page of the list, from 1."""
        return links.runs(page, **{name: value for name, (value,) in self.query().items()})


def selection(query: Query, suites: list[str], machines: list[str]) -> tuple[RunList, list[str]]:
    """The selection in `query`, and complaints."""
    complaints: list[str] = []
    offers = {"suite": suites, "machine": machines, "state": tuple(RunState), "kind": tuple(RunCategory)}
    chosen = [
        pick(query, name, (ALL, *map(spelled, offer)), ALL, complaints) for name, offer in offers.items()
    ]
    return RunList(*chosen), complaints


def section(url: str, query: Query, now: datetime) -> None:
    """The list and its filters; of an empty database, what to type."""
    parts.title("Runs")
    if load.count_runs(url) == 0:
        parts.nothing_measured()
        return
    suites, machines = load.suites_and_machines(url)
    chosen, complaints = selection(query, suites, machines)
    counts = load.runs_by_category(url)
    total = load.count_runs(url, chosen.only)
    page = filters.page(query, total, PAGE, complaints)
    parts.complain(complaints)
    kinds = {ALL: f"All {sum(counts.values()):,}"}
    kinds |= {
        kind: f"{kind.capitalize()} {many:,}" for kind, many in counts.items() if many or kind == chosen.kind
    }
    parts.segments("Kind", "kind", kinds, chosen, tabs=True)
    with st.container(horizontal=True, vertical_alignment="bottom"):
        parts.select("Suite", "suite", offered("All suites", suites), chosen)
        parts.select("Machine", "machine", offered("All machines", machines), chosen)
        parts.select("State", "state", offered("All states", tuple(RunState)), chosen)
    if total == 0:
        st.text("No run of that kind.")
        st.html(markup.link(links.RUNS, "All runs →"))
        return
    runs = load.recent_runs(url, limit=PAGE, offset=PAGE * (page - 1), only=chosen.only)
    whole = partial(load.every_run, url, chosen.only)
    parts.heading(wording.plural(total, "run"), lambda: frames.runs(whole()), "runs.csv")
    parts.html(tables.runs(runs, now, load.sources(url, runs), compared=len(runs) > 1))
    if pager := markup.pager(chosen.address, page, -(-total // PAGE)):
        st.html(pager)
