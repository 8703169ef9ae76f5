"""The newest night of each track as a card: status, time, machine, and the nights before."""

from collections.abc import Sequence
from dataclasses import replace
from datetime import datetime
from html import escape

import pandas as pd

from common.text import some
from dashboard.components import links, markup, tables, wording
from dashboard.today.track_status import TrackStatus
from records.outcomes import OutcomeStatus
from records.tasks import TaskState
from reports.text.staleness_text import describe_disturbance as counted_outcomes
from reports.text.staleness_text import in_words, silence


def cards(items: Sequence[TrackStatus], now: datetime) -> str:
    """One card for each."""
    return markup.panels(*(_card(one, now) for one in items), kind="py-nights")


def frame(items: Sequence[TrackStatus]) -> pd.DataFrame:
    """The same for a CSV file."""
    return pd.DataFrame(
        [_row(one) for one in items],
        columns=[
            *("schedule", "track", "label", "machine", "state", "due_at", "late", "run", "hardware", "torch"),
            *("ok", "planned", "usual_cases", "usual_cases_measured", "nights", "nights_missing", "error"),
        ],
    )


def strip(one: TrackStatus) -> str:
    """The newest nights as signs, newest last."""
    nights = one.nights[::-1]
    states = [state for _, state in nights]
    count_text = ", ".join(f"{states.count(state)} {state}" for state in dict.fromkeys(states))
    signs = "".join(
        f'<span class="py-night py-{wording.status(state).tone}" '
        f'title="{escape(f"{wording.timestamp(due)}: {state}")}">{wording.status(state).sign}</span>'
        for due, state in nights
    )
    label = f"The newest {wording.plural(len(nights), 'night')}, oldest first: {count_text}"
    return f'<span class="py-strip" role="img" aria-label="{escape(label)}">{signs}</span>'


def _row(one: TrackStatus) -> dict[str, object]:
    task, summary, cover = one.newest, one.summary, one.coverage
    return {
        "schedule": task.schedule,
        "track": task.track,
        "label": task.label,
        "machine": task.machine,
        "state": one.state,
        "due_at": task.due_at,
        "late": silence(one.late) if one.late else "",
        "run": summary.id if summary else "",
        "hardware": summary.hardware if summary else "",
        "torch": " ".join(summary.torch_versions) if summary else "",
        "ok": summary.counts.get(OutcomeStatus.OK, 0) if summary else None,
        "planned": summary.planned if summary else None,
        "usual_cases": cover.usual if cover else None,
        "usual_cases_measured": cover.measured_cases if cover else None,
        "nights": len(one.nights),
        "nights_missing": one.missing,
        "error": task.error,
    }


def _card(one: TrackStatus, now: datetime) -> str:
    task, state = one.newest, wording.status(one.state)
    if state.tone == "good":
        # A finished task is not displayed as good if its results are not.
        state = replace(state, sign=wording.SIGNS[one.tone], tone=one.tone)
    where = " · ".join(part for part in (task.schedule, task.machine or "any machine") if part)
    disturbance_text = (
        f'<span class="py-odd">! {escape(counted_outcomes(one.disturbed))}</span>' if one.disturbed else ""
    )
    lines = [
        _when(one, now),
        _what(one),
        _coverage(one),
        disturbance_text,
        escape(task.error) if task.error else "",
    ]
    nights = f"{strip(one)}<small>{escape(_missing(one))}</small>" if len(one.nights) > 1 else ""
    return (
        f'<section class="py-card py-edge py-edge-{one.tone}"><p class="py-label">{escape(where)}</p>'
        f'<h3 class="py-track">{escape(task.track or task.part)}</h3>'
        f'<p class="py-state py-{state.tone}">{escape(state.text)}</p>'
        f"{''.join(f'<p>{line}</p>' for line in lines if line)}{nights}</section>"
    )


def _when(one: TrackStatus, now: datetime) -> str:
    task = one.newest
    due = f"due {wording.timestamp(one.nights[0][0])}, {wording.ago(one.nights[0][0], now)}"
    if one.spent and task.state == TaskState.DONE and not one.without_task:
        seconds, times = one.spent
        due += f", took {wording.duration(seconds)}" + (f" in {times} attempts" if times > 1 else "")
    elif task.started_at and task.state == TaskState.RUNNING:
        due += f", runs for {in_words(now - task.started_at)}"
    unserved_note = f"no scheduler can run {task.label or 'it'}"
    return escape(f"{due}; {unserved_note}" if one.unschedulable else due)


def _what(one: TrackStatus) -> str:
    """The result of the newest run: the number of ok outcomes, and the machine."""
    summary = one.summary
    if summary is None:
        return '<span class="py-quiet">no run yet</span>'
    older = "" if summary.id == one.newest.run_id and not one.without_task else "an earlier night: "
    torch = " ".join(markup.abbreviation(wording.build(each), each) for each in summary.torch_versions)
    about = " · ".join(filter(None, (torch, markup.hardware(summary.hardware))))
    return (
        f"{older}{tables.counts(summary)} {markup.link(links.run(summary.id), 'Run →')}<small>{about}</small>"
    )


def _coverage(one: TrackStatus) -> str:
    cover = one.coverage
    if cover is None or not cover.usual:
        first = "no earlier nights to compare its cases with"
        return f'<span class="py-quiet">{first}</span>' if one.night_task else ""
    older = "" if one.night_task == one.newest and not one.without_task else "an earlier night: "
    share = f"{older}{cover.measured_cases:,} of {cover.usual:,} usual cases measured"
    if not cover.lost:
        return f'<span class="py-good">✓ {escape(share)}</span>'
    names = some([wording.case(each.case).text for each in cover.lost])
    return f'<span class="py-bad">× {escape(share)}</span><small>no longer: {escape(names)}</small>'


def _missing(one: TrackStatus) -> str:
    """`none of the last 14 nights is missing`."""
    missing = one.missing or "none"
    return f"{missing} of the last {len(one.nights)} nights {'are' if one.missing > 1 else 'is'} missing"
