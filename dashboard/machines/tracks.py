"""How fresh each track is: its newest night that is done, what is late, which nights are missing."""

from collections.abc import Sequence
from datetime import datetime
from html import escape

from dashboard.components import links, markup, wording
from dashboard.machines.load import ENVIRONMENTS, ROWS
from dashboard.today import cards
from dashboard.today.track_status import TrackStatus
from records.environments import EnvironmentUsed
from reports.table import Column, DataTable
from reports.text.staleness_text import silence


def table(items: Sequence[TrackStatus], now: datetime) -> DataTable[TrackStatus]:
    """The tracks."""
    columns: list[Column[TrackStatus]] = [
        Column("schedule", value=lambda one: one.newest.schedule),
        Column(
            "track",
            "Track",
            lambda one: one.newest.track,
            html=lambda one: (
                f"{escape(one.newest.track or one.newest.part)}<small>{escape(_where(one))}</small>"
            ),
        ),
        Column("label", value=lambda one: one.newest.label),
        Column(
            "state", "Status", lambda one: one.state, html=lambda one: markup.chip(one.state) + _late(one)
        ),
        Column("due_at", value=lambda one: one.newest.due_at),
        Column("late", value=lambda one: silence(one.late) if one.late else ""),
        Column(
            "last_done_due_at",
            "Last done",
            lambda one: one.last_done.due_at if one.last_done else None,
            html=lambda one: _done(one, now),
        ),
        Column("last_done_run", value=lambda one: one.last_done.run_id if one.last_done else ""),
        Column("nights", "Newest nights, the last one right", lambda one: len(one.nights), html=cards.strip),
        Column(
            "missing",
            "Missing",
            lambda one: one.missing,
            lambda one: f"{one.missing} of {len(one.nights)}",
            number=True,
        ),
    ]
    return DataTable("Freshness", columns, items, ROWS, "more tracks; the CSV has all")


def environments(items: Sequence[EnvironmentUsed], now: datetime) -> DataTable[EnvironmentUsed]:
    """The environments that are in use."""

    def last_used(one: EnvironmentUsed) -> str:
        run = markup.link(links.run(one.run), wording.ago(one.started_at, now))
        return f"{run}<small>{escape(wording.timestamp(one.started_at))}</small>"

    columns: list[Column[EnvironmentUsed]] = [
        Column("fingerprint", value=lambda one: one.fingerprint),
        Column(
            "name",
            "Environment",
            lambda one: one.name,
            html=lambda one: markup.two_lines(one.name, one.fingerprint[: links.FINGERPRINT]),
        ),
        Column("torch_version", "PyTorch", lambda one: one.torch_version),
        Column("python_version", "Python", lambda one: one.python_version),
        Column("run", value=lambda one: one.run),
        Column("started_at", "Last used", lambda one: one.started_at, html=last_used),
        Column("machine", "Machine", lambda one: one.machine),
        Column("runs", "Runs", lambda one: one.runs, lambda one: f"{one.runs:,}", number=True),
    ]
    return DataTable("Environments", columns, items, ENVIRONMENTS, "more environments; the CSV has all")


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
