"""The operators of a traced case, on the page of its run and as a separate view."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from operator import attrgetter
from pathlib import Path
from typing import Any, ClassVar

import pandas as pd
import streamlit as st

from analysis.operators import KERNEL, OPERATOR, difference, operators
from common.text import printable
from dashboard.components import frames, links, load, parts, wording
from dashboard.components.query_params import Query, View, last
from dashboard.header import page_context
from dashboard.server.settings import ServerSettings
from records.outcomes import OperatorTable, Outcome, rows_left_out
from records.runs import Run

#: The only files of a run's folder that can be downloaded.
_ENDING = ".json.gz"


def trace_file(data_dir: Path, run: str, name: object) -> Path | None:
    """The trace called `name` in the folder of `run`; None if it does not exist, or would be outside the
    folder.

    Both names come from the database, and so perhaps from an imported file.
    """
    if not isinstance(name, str) or not name.endswith(_ENDING):
        return None
    try:
        runs = (data_dir / "runs").resolve()
        folder = (runs / run).resolve()
        file = (folder / name).resolve()
        inside = folder.parent == runs and file.is_relative_to(folder)
        return file if inside and file.is_file() else None
    except (OSError, ValueError):
        return None


_MICROSECONDS = st.column_config.NumberColumn(format="%,.1f")
_CALLS = st.column_config.NumberColumn(format="%.4g")


def section(settings: ServerSettings, run: Run, outcome: Outcome, query: Query) -> None:
    """Show the operator table of one outcome; nothing for an outcome that was not traced."""
    if not outcome.facts.get("operators"):
        return
    table = operators(outcome.facts["operators"])
    parts.heading(
        "Operators", lambda: frames.operators(table), f"operators-{_slug(run.id, outcome.case)}.csv"
    )
    left_out, on_device = rows_left_out(outcome.facts), _on_device(outcome)
    parts.caption(*wording.about_operators(outcome.facts["traced"], left_out, traced_on_device=on_device))
    _draw(frames.operators(table, device=on_device))
    _trace(settings, run, outcome)
    _against(settings.database_url, run, outcome, query)


def _against(url: str, run: Run, outcome: Outcome, query: Query) -> None:
    own, like = load.like_tables(url, run.id, outcome.case)
    if own is None or not like:
        parts.caption(
            "No other table of this workload can be subtracted yet.",
            "It must be of the same hardware and preset.",
        )
        return
    chosen, complaints = subtracted_table(query, own, like)
    parts.complain(complaints)
    _choose({table_name(table): _label(table) for table in like}, chosen)
    if chosen is None:
        return
    changes = difference(operators(chosen.rows), operators(own.rows))
    name = f"difference-{_slug(run.id, outcome.case)}-{_slug(chosen.run, chosen.case)}.csv"
    parts.heading("Difference", lambda: frames.operator_changes(changes), name)
    sums = {kind: sum(c.delta_us for c in changes if c.kind == kind) for kind in (OPERATOR, KERNEL)}
    on_device = sums[KERNEL] if _on_device(outcome) else None
    left_out = chosen.left_out, own.left_out
    parts.caption(*wording.about_difference(parts.plain(_label(chosen)), sums[OPERATOR], on_device, left_out))
    _draw(frames.operator_changes(changes, device=_on_device(outcome)))


def subtracted_table(
    query: Query, own: OperatorTable, like: Sequence[OperatorTable]
) -> tuple[OperatorTable | None, list[str]]:
    """The table that the URL subtracts from `own`, by run and case, if it is comparable."""
    name = last(query, "against")
    if not name:
        return None, []
    matches = [table for table in like if table_name(table) == name]
    if matches:
        return matches[0], []
    return None, [f"{name} is not an operator table that can be subtracted from that of {table_name(own)}."]


def table_name(table: OperatorTable) -> str:
    """The name of an operator table in an address."""
    return f"{table.run}/{table.case}"


def _draw(frame: pd.DataFrame) -> None:
    config = {
        **{name: _MICROSECONDS for name in frame.columns if name.endswith("µs")},
        **{name: _CALLS for name in frame.columns if name.startswith("calls")},
        "share": st.column_config.NumberColumn(format="percent"),
        "net KiB": _MICROSECONDS,
    }
    st.dataframe(frame, hide_index=True, column_config=config)


def _trace(settings: ServerSettings, run: Run, outcome: Outcome) -> None:
    name, note = outcome.facts.get("trace"), outcome.facts.get("trace_note")
    if not name:
        parts.caption(f"No trace: {parts.plain(str(note))}" if note else "No trace was kept.")
        return
    file = trace_file(Path(settings.data_dir), run.id, name)
    if file is None:
        where = parts.plain(str(name))
        parts.caption(
            "The trace is not on this machine.", f"Where it was made, it lies in the run's folder: {where}"
        )
        return
    with st.container(horizontal=True, vertical_alignment="center"):
        st.download_button(
            f"Trace, {wording.quantity(file.stat().st_size / 1024, 'KiB')}",
            file.read_bytes,
            file_name=file.name,
            mime="application/gzip",
            key=f"trace-{run.id}-{outcome.case}",
            on_click="ignore",
        )
        parts.caption(
            "Opens in chrome://tracing or at ui.perfetto.dev.",
            "Both read the file in your browser, and need no upload.",
        )


def _choose(options: Mapping[str, str], table: OperatorTable | None) -> None:
    """The choice of the table to subtract, which is stored in the URL."""
    key = "choose-against"
    st.session_state[key] = None if table is None else table_name(table)
    st.selectbox(
        "Subtract another table of this workload",
        list(options),
        index=None,
        format_func=lambda name: printable(options[name]),
        placeholder="None chosen",
        key=key,
        on_change=_write,
        args=(key,),
    )


def _write(key: str) -> None:
    value = st.session_state[key]
    if value is None:
        st.query_params.pop("against", None)
    else:
        st.query_params["against"] = value


def _label(table: OperatorTable) -> str:
    technique = table.case.rpartition("/")[2]
    trace_time = wording.timestamp(table.started_at)
    return f"{technique} · torch {table.torch_version} · {table.environment} · {trace_time}"


def _on_device(outcome: Outcome) -> bool:
    return str(outcome.facts.get("device", "cpu")) != "cpu"


def _slug(run: str, case: str) -> str:
    return f"{run}-{case.replace('/', '__')}"


@dataclass(frozen=True, slots=True)
class ProfileView(View):
    """A trace by run and case, as in `table_name`."""

    home: ClassVar = links.PROFILE

    table: str

    def query(self) -> dict[str, list[str]]:
        """The selection as a URL's query."""
        run, _, case = self.table.partition("/")
        return {"run": [run], "case": [case]}

    def after(self, name: str, value: Any) -> "ProfileView":
        """Select another trace, without the subtracted table."""
        return ProfileView(str(value))


def chosen(query: Query, tables: Sequence[OperatorTable]) -> tuple[OperatorTable, list[str]]:
    """The trace that the address names, else the newest of the remembered workload, and complaints."""
    names_in_query = {name: value for name in ("run", "case") if (value := last(query, name))}
    if not names_in_query:
        return page_context.narrow_items(tables, attrgetter("workload"))[0], []
    matches = [
        table
        for table in tables
        if all(getattr(table, name) == names_in_query[name] for name in names_in_query)
    ]
    if matches:
        return matches[0], []
    names = " ".join(names_in_query.values())
    complaint = f'There is no trace "{names}" among the newest {len(tables)}; the page shows the newest.'
    return tables[0], [complaint]


def show() -> None:
    """Show the trace that the address names, else the newest."""
    settings = ServerSettings.from_environment()
    url, query = settings.database_url, parts.query()
    parts.title("Profile")
    tables = load.operator_tables(url)
    if not tables:
        words = "with a trace. This records the operators of some steps of a case:"
        parts.no_match(load.count_runs(url), "Nothing traced yet", words, "pyrometer profile resnet50")
        return
    table, complaints = chosen(query, tables)
    parts.complain(complaints)
    if "case" in query:
        page_context.keep("/explore", query, workload=table.workload)
    view = ProfileView(table_name(table))
    parts.select("Trace", "table", {table_name(each): _trace_label(each) for each in tables}, view)
    stored_run = load.run(url, table.run)
    own = (each for each in load.outcomes(url, table.run) if each.case == table.case)
    outcome = next((each for each in own if each.facts.get("operators")), None)
    if stored_run is None or outcome is None:
        parts.complain([f"Run {table.run} has just been deleted from the database."])
        return
    parts.link(links.run(table.run), "The run with all its facts →")
    section(settings, stored_run[0], outcome, query)
    parts.permanent_link(view.address)


def _trace_label(table: OperatorTable) -> str:
    case = wording.case(table.case).text
    return f"{case} · torch {table.torch_version} · {table.hardware} · {wording.timestamp(table.started_at)}"
