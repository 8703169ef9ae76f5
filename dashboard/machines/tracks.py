"""How fresh each track is: its newest night that is done, what is late, which nights are missing."""

from collections.abc import Iterable, Sequence
from dataclasses import asdict
from datetime import datetime
from html import escape

import pandas as pd
import streamlit as st

from dashboard.components import links, markup, wording
from dashboard.today import cards
from dashboard.today.track_status import TrackStatus
from records.environments import EnvironmentUsed
from reports.text.staleness_text import silence


def table(items: Sequence[TrackStatus], now: datetime) -> str:
    """The tracks."""
    columns = [
        ("Track", False),
        ("Status", False),
        ("Last done", False),
        ("Newest nights, the last one right", False),
        ("Missing", True),
    ]
    rows = (
        (
            f"{escape(one.newest.track or one.newest.part)}<small>{escape(_where(one))}</small>",
            markup.chip(one.state) + _late(one),
            _done(one, now),
            cards.strip(one),
            f"{one.missing} of {len(one.nights)}",
        )
        for one in items
    )
    return markup.table("Freshness", columns, rows, folded=True)


def frame(items: Iterable[TrackStatus]) -> pd.DataFrame:
    """The same for a CSV file."""
    rows: list[dict[str, object]] = []
    for one in items:
        done = one.last_done
        rows.append(
            {
                "schedule": one.newest.schedule,
                "track": one.newest.track,
                "label": one.newest.label,
                "state": one.state,
                "due_at": one.newest.due_at,
                "late": silence(one.late) if one.late else "",
                "last_done_due_at": done.due_at if done else None,
                "last_done_run": done.run_id if done else "",
                "nights": len(one.nights),
                "missing": one.missing,
            }
        )
    columns = ("schedule", "track", "label", "state", "due_at", "late", "last_done_due_at")
    return pd.DataFrame(rows, columns=[*columns, "last_done_run", "nights", "missing"])


#: How pages show the columns of `environments_to_sort`.
SORTED = {
    "name": st.column_config.TextColumn("Environment"),
    "fingerprint": st.column_config.TextColumn("Fingerprint"),
    "torch_version": st.column_config.TextColumn("PyTorch"),
    "python_version": st.column_config.TextColumn("Python"),
    "started_at": st.column_config.DatetimeColumn(
        "Last used (UTC)", format="YYYY-MM-DD HH:mm", timezone="UTC"
    ),
    "machine": st.column_config.TextColumn("Machine"),
    "runs": st.column_config.NumberColumn("Runs"),
    "run": st.column_config.LinkColumn("Newest run", display_text=r"run=([^&]*)"),
}


def environments_to_sort(items: Sequence[EnvironmentUsed]) -> pd.DataFrame:
    """The environments that are in use, with the columns of `SORTED`; `run` is the address of one."""
    shown = (
        asdict(one) | {"fingerprint": one.fingerprint[: links.FINGERPRINT], "run": links.run(one.run)}
        for one in items
    )
    return pd.DataFrame(shown, columns=list(SORTED))


def environments(items: Sequence[EnvironmentUsed], now: datetime) -> str:
    """The same for the page's Markdown."""
    columns = [
        ("Environment", False),
        ("PyTorch", False),
        ("Python", False),
        ("Last used", False),
        ("Machine", False),
        ("Runs", True),
    ]
    rows = (
        (
            f"{escape(one.name)}<small>{escape(one.fingerprint[: links.FINGERPRINT])}</small>",
            escape(one.torch_version),
            escape(one.python_version or wording.NONE),
            f"{markup.link(links.run(one.run), wording.ago(one.started_at, now))}"
            f"<small>{escape(wording.timestamp(one.started_at))}</small>",
            escape(one.machine),
            f"{one.runs:,}",
        )
        for one in items
    )
    return markup.table("Environments", columns, rows, folded=True)


def environments_frame(items: Iterable[EnvironmentUsed]) -> pd.DataFrame:
    """The same for a CSV file."""
    return pd.DataFrame([asdict(one) for one in items])


def _where(one: TrackStatus) -> str:
    task = one.newest
    return " · ".join(filter(None, (task.schedule, task.label or "any machine")))


def _late(one: TrackStatus) -> str:
    reason = silence(one.late) if one.late else "no scheduler can run it" if one.unschedulable else ""
    return f'<small class="py-reason">{escape(reason)}</small>' if reason else ""


def _done(one: TrackStatus, now: datetime) -> str:
    done = one.last_done
    if done is None:
        return '<span class="py-quiet">never</span>'
    when = wording.ago(done.due_at, now)
    shown = markup.link(links.run(done.run_id), when) if done.run_id else escape(when)
    return f"{shown}<small>{escape(wording.timestamp(done.due_at))}</small>"
