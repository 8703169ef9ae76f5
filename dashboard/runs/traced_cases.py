"""Where the time of a case goes: the operators of its trace, and what another trace differs by."""

from collections.abc import Sequence
from dataclasses import dataclass
from operator import attrgetter
from typing import Any

import streamlit as st

from dashboard.components import filters, links, load, markup, parts, wording
from dashboard.components.query_params import Query, View, last
from dashboard.header import page_context
from dashboard.runs import operators
from dashboard.server.settings import ServerSettings
from records.outcomes import OperatorTable


@dataclass(frozen=True, slots=True)
class ProfileView(View):
    """A trace, by its run and its case, as `filters.table_name` spells both."""

    table: str

    def query(self) -> dict[str, list[str]]:
        """The selection as a URL's query."""
        run, _, case = self.table.partition("/")
        return {"run": [run], "case": [case]}

    def after(self, name: str, value: Any) -> "ProfileView":
        """Another trace: what was subtracted from this one is given up."""
        return ProfileView(str(value))

    @property
    def address(self) -> str:
        """The view's own address."""
        return links.profile(self.query())


def chosen(query: Query, tables: Sequence[OperatorTable]) -> tuple[OperatorTable, list[str]]:
    """The trace that the address names, else the newest of the remembered workload, and complaints."""
    wanted = {name: value for name in ("run", "case") if (value := last(query, name))}
    if not wanted:
        return page_context.preferred(tables, attrgetter("workload"))[0], []
    found = [table for table in tables if all(getattr(table, name) == wanted[name] for name in wanted)]
    if found:
        return found[0], []
    names = " ".join(wanted.values())
    return tables[0], [f'There is no trace "{names}" among the newest {len(tables)}; shown is the newest.']


def show() -> None:
    """The trace that the address names, else the newest."""
    settings = ServerSettings.from_environment()
    url, query = settings.database_url, parts.query()
    parts.title("Profile")
    tables = load.operator_tables(url)
    if not tables:
        _nothing_traced(url)
        return
    table, complaints = chosen(query, tables)
    parts.complain(complaints)
    if "case" in query:
        page_context.keep("/explore", query, workload=table.workload)
    view = ProfileView(filters.table_name(table))
    parts.select("Trace", "table", {filters.table_name(each): _label(each) for each in tables}, view)
    found = load.run(url, table.run)
    own = (each for each in load.outcomes(url, table.run) if each.case == table.case)
    opened = next((each for each in own if each.facts.get("operators")), None)
    if found is None or opened is None:
        parts.complain([f"Run {table.run} has just gone from the database."])
        return
    parts.html(f"<p>{markup.link(links.run(table.run), 'The run, with everything around it →')}</p>")
    operators.section(settings, found[0], opened, query)
    parts.pinned(view.address)


def _nothing_traced(url: str) -> None:
    """The page before any trace: what to type."""
    if not load.count_runs(url):
        parts.nothing_measured()
        return
    with parts.empty_state("Nothing traced yet"):
        st.write("This traces some steps of a case and lists the operators that they spend their time in:")
        st.html(markup.code("pyrometer profile resnet50"))


def _label(table: OperatorTable) -> str:
    case = wording.case(table.case).text
    return f"{case} · torch {table.torch_version} · {table.hardware} · {wording.timestamp(table.started_at)}"
