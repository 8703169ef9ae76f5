"""The operator table of a traced outcome, its trace, and what another table differs by."""

from collections.abc import Mapping
from pathlib import Path

import pandas as pd
import streamlit as st

from analysis.operators import KERNEL, OPERATOR, difference, operators
from common.text import printable
from dashboard.components import filters, frames, load, parts, wording
from dashboard.server.settings import ServerSettings
from records.outcomes import OperatorTable, Outcome
from records.runs import Run

#: Nothing else of a run's folder is handed out.
_ENDING = ".json.gz"


def trace_file(data_dir: Path, run: str, name: object) -> Path | None:
    """The trace called `name` in the folder of `run`; None when it is not there, or would lie outside of it.

    Both come from the database, and so perhaps from a journal of another source.
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


def section(settings: ServerSettings, run: Run, opened: Outcome, query: filters.Query) -> None:
    """Everything about the table of one outcome; nothing for an outcome that was measured."""
    if not opened.facts.get("operators"):
        return
    table = operators(opened.facts["operators"])
    parts.heading("Operators", lambda: frames.operators(table), f"operators-{_slug(run.id, opened.case)}.csv")
    parts.caption(wording.about_operators(opened.facts["traced"], traced_on_device=_on_device(opened)))
    _draw(frames.operators(table, device=_on_device(opened)))
    _trace(settings, run, opened)
    _against(settings.database_url, run, opened, query)


def _against(url: str, run: Run, opened: Outcome, query: filters.Query) -> None:
    own, like = load.like_tables(url, run.id, opened.case)
    if own is None or not like:
        parts.caption("No other table of this workload, hardware and preset can be subtracted yet.")
        return
    chosen, complaints = filters.against(query, own, like)
    parts.complain(complaints)
    _choose({filters.table_name(table): _label(table) for table in like}, chosen)
    if chosen is None:
        return
    changes = difference(operators(chosen.rows), operators(own.rows))
    name = f"difference-{_slug(run.id, opened.case)}-{_slug(chosen.run, chosen.case)}.csv"
    parts.heading("Difference", lambda: frames.operator_changes(changes), name)
    sums = {kind: sum(c.delta_us for c in changes if c.kind == kind) for kind in (OPERATOR, KERNEL)}
    on_device = sums[KERNEL] if _on_device(opened) else None
    parts.caption(wording.about_difference(parts.plain(_label(chosen)), sums[OPERATOR], on_device))
    _draw(frames.operator_changes(changes, device=_on_device(opened)))


def _draw(frame: pd.DataFrame) -> None:
    config = {
        **{name: _MICROSECONDS for name in frame.columns if name.endswith("µs")},
        **{name: _CALLS for name in frame.columns if name.startswith("calls")},
        "share": st.column_config.NumberColumn(format="percent"),
        "net KiB": _MICROSECONDS,
    }
    st.dataframe(frame, hide_index=True, column_config=config)


def _trace(settings: ServerSettings, run: Run, opened: Outcome) -> None:
    name, note = opened.facts.get("trace"), opened.facts.get("trace_note")
    if not name:
        parts.caption(f"No trace: {parts.plain(str(note))}" if note else "No trace was kept.")
        return
    file = trace_file(Path(settings.data_dir), run.id, name)
    if file is None:
        where = parts.plain(str(name))
        parts.caption(
            f"The trace is not on this machine. Where it was made, it lies in the run's folder: {where}"
        )
        return
    with st.container(horizontal=True, vertical_alignment="center"):
        st.download_button(
            f"Trace, {wording.quantity(file.stat().st_size / 1024, 'KiB')}",
            file.read_bytes,
            file_name=file.name,
            mime="application/gzip",
            key=f"trace-{run.id}-{opened.case}",
            on_click="ignore",
        )
        parts.caption(
            "Opens in chrome://tracing or at ui.perfetto.dev; both read the file in your browser, "
            "and need no upload."
        )


def _choose(options: Mapping[str, str], chosen: OperatorTable | None) -> None:
    """The choice of the table to subtract; the URL is the only place it lives."""
    key = "choose-against"
    st.session_state[key] = None if chosen is None else filters.table_name(chosen)
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
    traced = wording.timestamp(table.started_at)
    return f"{technique} · torch {table.torch_version} · {table.environment} · {traced}"


def _on_device(opened: Outcome) -> bool:
    return str(opened.facts.get("device", "cpu")) != "cpu"


def _slug(run: str, case: str) -> str:
    return f"{run}-{case.replace('/', '__')}"
