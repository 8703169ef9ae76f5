"""The Today page with schedules: what needs attention, and the results of the last night."""

from collections.abc import Sequence
from datetime import datetime
from functools import partial
from html import escape

import streamlit as st

from analysis.recent_level import NIGHTS
from configuration.schedules import MEASURE
from dashboard.components import links, markup, parts, wording
from dashboard.regressions import cause_cards, causes, findings
from dashboard.today import cards, headlines, load, problems, verdict
from dashboard.today.headlines import TrackHeadlines
from dashboard.today.load import DAYS, TodayData, TodayView
from dashboard.today.track_status import TrackStatus
from records.findings import Finding

#: The most tracks whose results are read, worst first, the most cards of them, and the most findings in the
#: list.
LOOKED, CARDS, FINDINGS = 24, 12, 40
#: The most causes in the list of those still open, the most of them with a card, and the most next runs.
STILL_OPEN, OPEN_CARDS, NEXT = 8, 3, 4


def show(url: str, selection: TodayView, now: datetime) -> None:
    """Show what needs attention, the changes with their causes, the quality of the night, and open
    regressions.
    """
    morning = load.morning(url)
    track_statuses = load.results(url, morning.parts[:LOOKED])
    every = (*track_statuses, *morning.parts[LOOKED:])
    result = verdict.new_findings(*load.recent_findings(url, int(selection.days)), selection.since(now), now)
    failures = _case_problems(url, track_statuses)
    summary = verdict.verdict(every, morning.silent, result, problems.newly_failed(failures))
    parts.title(f"Today: {summary.needs}")
    parts.html(verdict.banner(summary, result))
    tracks = headlines.headline_tracks(track_statuses)
    items = [each for one in tracks if (each := _track_headlines(url, one, len(tracks)))]
    wide, narrow = st.columns([0.68, 0.32], gap="medium")
    older = _older(url, result, now)
    with wide:
        _findings(url, result, selection, now)
        if older and not result.items:
            parts.caption("Still open from earlier nights:")
            # Without new findings the open ones are shown with chart and buttons.
            cause_cards.cards(url, causes.causes(older)[:OPEN_CARDS], now)
        _problems(failures)
        _changes(items, len(headlines.moving_tracks(track_statuses)), now)
    with narrow:
        _trust(url, track_statuses)
        _tracks(track_statuses, every, now)
        _still_open(older)
        _next_runs(morning, now)


def first_night(url: str, now: datetime) -> None:
    """Show the time of the first night, if a scheduler is running and nothing was due yet."""
    measuring = [one for one in load.morning(url).plan if one.alive and one.job == MEASURE]
    coming = min((moment for one in measuring for moment in one.next if moment > now), default=None)
    if coming is not None:
        sentence = f"The first night is due {wording.timestamp(coming)}"
        parts.html(f"<p>{escape(sentence)}: {markup.link(links.MACHINES, 'Machines →')}</p>")


def _tracks(track_statuses: Sequence[TrackStatus], every: Sequence[TrackStatus], now: datetime) -> None:
    tracks = [one for one in every if one.scheduled]
    visible = (tracks or every)[:CARDS]
    parts.heading("Last night", lambda: cards.frame(every), "last-night.csv")
    parts.html(cards.cards(visible, now))
    rest = (
        [f"{wording.plural(len(tracks) - len(visible), 'track')} more"] if len(tracks) > len(visible) else []
    )
    if tracks and len(every) > len(tracks):
        rest.append(f"{wording.plural(len(every) - len(tracks), 'track')} no longer scheduled")
    if rest:
        more = f"and {' and '.join(rest)}: Machines →"
        parts.link(links.MACHINES, more)
    if len(tracks) > len(track_statuses):
        parts.caption(f"Coverage was checked for {len(track_statuses)} of {len(tracks):,} tracks.")


def _findings(url: str, new_findings: verdict.NewFindings, selection: TodayView, now: datetime) -> None:
    visible = new_findings.items[:FINDINGS]
    parts.heading("New findings", lambda: findings.frame(new_findings.items), "new-findings.csv")
    parts.segments("Decided within", "days", DAYS, selection)
    if not visible:
        many = wording.plural(new_findings.known, "finding")
        parts.caption(
            f"Nothing new except {many} that are triaged or muted."
            if new_findings.known
            else f"Nothing was confirmed within {DAYS[selection.days]}, and no candidate is waiting."
        )
        return
    cause_cards.cards(url, causes.causes(visible), now)
    if (more := len(new_findings.items) - len(visible)) > 0:
        parts.link(links.findings(), f"and {more:,} more: Regressions →")


def _older(url: str, findings: verdict.NewFindings, now: datetime) -> list[Finding]:
    """The open regressions that are not new."""
    new = {one.id for one in findings.items}
    return [one for one in load.still_open(url) if one.id not in new and not one.silenced(now)]


def _still_open(older: Sequence[Finding]) -> None:
    """Show the open regressions that are not new, by cause."""
    items = causes.causes(older)
    parts.heading("Still open", lambda: findings.frame(older), "still-open.csv")
    if not items:
        parts.caption("No older regression is open.")
        return
    parts.caption(causes.cause_counts(items))
    parts.table(findings.open_causes(items[:STILL_OPEN], len(items) - STILL_OPEN))


def _next_runs(morning: TodayData, now: datetime) -> None:
    """Show the next scheduled runs, earliest first."""
    coming = sorted(
        (moment, one.schedule)
        for one in morning.plan
        if one.alive and not one.built_in
        for moment in one.next[:1]
        if moment > now
    )
    parts.heading("Next runs")
    if coming:
        items = (f"{schedule}: {wording.timestamp(moment)}" for moment, schedule in coming[:NEXT])
        parts.html(markup.bullets(items))
    else:
        parts.caption("No scheduler is running, so the next runs are not known.")
    parts.link(links.SCHEDULE, "Schedule →")


def _trust(url: str, track_statuses: Sequence[TrackStatus]) -> None:
    """Show the quality of the last night's numbers."""
    outside: list[str] = []
    within: list[str] = []
    for one in headlines.headline_tracks(track_statuses):
        newest = one.night_task.run_id if one.night_task and not one.unmeasured else None
        if newest is not None:
            series_points = load.points_of_runs(url, headlines.recent_runs(one, newest))
            shifts, still = verdict.canary_sentences(series_points, newest)
            outside += shifts
            within += still
    answer = verdict.trust(track_statuses, outside)
    checked_machines, every = (
        verdict.measured_machines(headlines.headline_tracks(track_statuses)),
        verdict.measured_machines(track_statuses),
    )
    if unseen := len(every - checked_machines):
        within.append(
            f"the canary was checked on {len(checked_machines)} of {len(checked_machines) + unseen} machines"
        )
    parts.html(markup.card_title("Can I trust last night?", markup.label(answer.word, answer.tone)))
    parts.html(markup.bullets(dict.fromkeys((*answer.sentences, *within))))


def _case_problems(url: str, track_statuses: Sequence[TrackStatus]) -> list[problems.CaseProblem]:
    endings = {run: each for one in track_statuses for run, each in load.endings(url, one).items()}
    return problems.problems(track_statuses, endings)


def _problems(case_problems: Sequence[problems.CaseProblem]) -> None:
    if case_problems:
        parts.heading("Failures last night", lambda: problems.frame(case_problems), "not-ok.csv")
        parts.html(problems.table(case_problems))


def _changes(items: Sequence[TrackHeadlines], tracks: int, now: datetime) -> None:
    if not items:
        return
    parts.heading("Biggest changes", lambda: headlines.frame(items), "biggest-changes.csv")
    parts.caption(f"Against the median of {NIGHTS} nights; · within noise; colour: confirmed.")
    if tracks > headlines.TRACKS:
        parts.caption(f"The {headlines.TRACKS} of {tracks} tracks with most nights; History has all.")
    for one in items:
        task = one.part.newest
        where = " · ".join(filter(None, (task.schedule, task.track, task.label)))
        address = headlines.history(one.headlines)
        paragraph = f"<p>{escape(headlines.summary(one.headlines))} · {markup.link(address, 'History →')}</p>"
        parts.html(f'<h3 class="py-place">{escape(where)}</h3>{paragraph}')
        lost_cases = one.part.coverage.lost if one.part.coverage else ()
        cells, omission_count = headlines.matrix(f"All cases: {where}", one.headlines, lost_cases)
        more = (
            f'<p class="py-quiet">and {omission_count:,} more workloads in the CSV file</p>'
            if omission_count
            else ""
        )
        body = cells.html() + more
        if one.rows or lost_cases:
            parts.html(body)
        else:
            with parts.expander(wording.plural(len(one.headlines), "case")):
                parts.html(body)
        if one.rows:
            with st.expander(f"{wording.plural(len(one.rows), 'case')} confirmed or outside noise"):
                parts.table(headlines.table(one, now, where))


def _track_headlines(url: str, one: TrackStatus, tracks: int) -> TrackHeadlines | None:
    """The cases of a track; None if its newest night measured nothing."""
    newest = one.night_task.run_id if one.night_task else None
    if newest is None:
        return None
    series_points = load.points_of_runs(url, headlines.recent_runs(one, newest))
    series_findings = load.findings_of(url, tuple(series_points))
    nights = headlines.headlines_since_changes(
        one, newest, series_points, series_findings, partial(load.lines, url)
    )
    if not nights:
        return None
    rows = headlines.rows(nights, tracks)
    keys = tuple(each.key for each in rows)
    course = load.lines(url, keys, headlines.runs_of(one)) if rows else {}
    return TrackHeadlines(one, nights, rows, headlines.pictures(rows, course))
