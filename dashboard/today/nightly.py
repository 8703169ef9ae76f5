"""Today where schedules measure: is everything fine, and what happened last night?"""

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

#: Tracks whose results are looked at, the worst first, and cards of them; findings in the list.
LOOKED, CARDS, FINDINGS = 24, 12, 40
#: Causes in the list of those that are still open, those of them with a card, and runs that come next.
STILL_OPEN, OPEN_CARDS, NEXT = 8, 3, 4


def show(url: str, chosen: TodayView, now: datetime) -> None:
    """What needs a person, what changed and why, whether the night can be trusted, and what is open."""
    morning = load.morning(url)
    looked = load.results(url, morning.parts[:LOOKED])
    every = (*looked, *morning.parts[LOOKED:])
    found = verdict.new_findings(*load.recent_findings(url, int(chosen.days)), chosen.since(now), now)
    failed = _case_problems(url, looked)
    summary = verdict.verdict(every, morning.silent, found, problems.newly_failed(failed))
    parts.title(f"Today: {summary.needs}")
    parts.html(verdict.banner(summary, found))
    tracks = headlines.headline_tracks(looked)
    items = [each for one in tracks if (each := _track_headlines(url, one, len(tracks)))]
    wide, narrow = st.columns([0.68, 0.32], gap="medium")
    older = _older(url, found, now)
    with wide:
        _findings(url, found, chosen, now)
        if older and not found.items:
            parts.caption("Still open from earlier nights:")
            # A morning without anything new is one for what is still open: its chart and its buttons.
            cause_cards.cards(url, causes.causes(older)[:OPEN_CARDS], now)
        _problems(failed)
        _changes(items, len(headlines.moving_tracks(looked)), now)
    with narrow:
        _trust(url, looked)
        _tracks(looked, every, now)
        _still_open(older)
        _next_runs(morning, now)


def first_night(url: str, now: datetime) -> None:
    """When the first night comes, where a scheduler is there and nothing was due yet."""
    measuring = [one for one in load.morning(url).plan if one.alive and one.job == MEASURE]
    coming = min((moment for one in measuring for moment in one.next if moment > now), default=None)
    if coming is not None:
        sentence = f"The first night is due {wording.timestamp(coming)}"
        parts.html(f"<p>{escape(sentence)}: {markup.link(links.MACHINES, 'Machines →')}</p>")


def _tracks(looked: Sequence[TrackStatus], every: Sequence[TrackStatus], now: datetime) -> None:
    tracks = [one for one in every if one.scheduled]
    shown = (tracks or every)[:CARDS]
    parts.heading("Last night", lambda: cards.frame(every), "last-night.csv")
    parts.html(cards.cards(shown, now))
    rest = [f"{wording.plural(len(tracks) - len(shown), 'track')} more"] if len(tracks) > len(shown) else []
    if tracks and len(every) > len(tracks):
        rest.append(f"{wording.plural(len(every) - len(tracks), 'track')} that no schedule has any more")
    if rest:
        more = f"and {' and '.join(rest)}: Machines →"
        parts.link(links.MACHINES, more)
    if len(tracks) > len(looked):
        parts.caption(f"Coverage is checked for {len(looked)} of {len(tracks):,} tracks.")


def _findings(url: str, found: verdict.NewFindings, chosen: TodayView, now: datetime) -> None:
    shown = found.items[:FINDINGS]
    parts.heading("New findings", lambda: findings.frame(found.items), "new-findings.csv")
    parts.segments("Decided within", "days", DAYS, chosen)
    if not shown:
        many = wording.plural(found.known, "finding")
        parts.caption(
            f"Nothing new but {many} that are triaged or muted."
            if found.known
            else f"Nothing was confirmed within {DAYS[chosen.days]}, and no candidate waits."
        )
        return
    cause_cards.cards(url, causes.causes(shown), now)
    if (more := len(found.items) - len(shown)) > 0:
        parts.link(links.findings(), f"and {more:,} more: Regressions →")


def _older(url: str, found: verdict.NewFindings, now: datetime) -> list[Finding]:
    """The open regressions from before what is new."""
    new = {one.id for one in found.items}
    return [one for one in load.still_open(url) if one.id not in new and not one.silenced(now)]


def _still_open(older: Sequence[Finding]) -> None:
    """Open regressions from before what is new, by cause."""
    items = causes.causes(older)
    parts.heading("Still open", lambda: findings.frame(older), "still-open.csv")
    if not items:
        parts.caption("No older regression is open.")
        return
    parts.caption(causes.cause_counts(items))
    parts.table(findings.open_causes(items[:STILL_OPEN], len(items) - STILL_OPEN))


def _next_runs(morning: TodayData, now: datetime) -> None:
    """The next scheduled runs, the first one first."""
    coming = sorted(
        (moment, one.schedule)
        for one in morning.plan
        if one.alive and not one.built_in
        for moment in one.next[:1]
        if moment > now
    )
    parts.heading("Next runs")
    if coming:
        listed = (f"{schedule}: {wording.timestamp(moment)}" for moment, schedule in coming[:NEXT])
        parts.html(markup.bullets(listed))
    else:
        parts.caption("No scheduler is running, so the next runs are not known.")
    parts.link(links.SCHEDULE, "Schedule →")


def _trust(url: str, looked: Sequence[TrackStatus]) -> None:
    """Whether the numbers of last night can be trusted."""
    outside: list[str] = []
    within: list[str] = []
    for one in headlines.headline_tracks(looked):
        newest = one.night_task.run_id if one.night_task and not one.unmeasured else None
        if newest is not None:
            found = load.points_of_runs(url, headlines.recent_runs(one, newest))
            moved, still = verdict.canary_sentences(found, newest)
            outside += moved
            within += still
    answer = verdict.trust(looked, outside)
    seen, every = (
        verdict.measured_machines(headlines.headline_tracks(looked)),
        verdict.measured_machines(looked),
    )
    if unseen := len(every - seen):
        within.append(f"the canary is looked at on {len(seen)} of {len(seen) + unseen} machines")
    parts.html(markup.card_title("Can I trust last night?", markup.label(answer.word, answer.tone)))
    parts.html(markup.bullets(dict.fromkeys((*answer.sentences, *within))))


def _case_problems(url: str, looked: Sequence[TrackStatus]) -> list[problems.CaseProblem]:
    endings = {run: each for one in looked for run, each in load.endings(url, one).items()}
    return problems.problems(looked, endings)


def _problems(found: Sequence[problems.CaseProblem]) -> None:
    if found:
        parts.heading("Failures last night", lambda: problems.frame(found), "not-ok.csv")
        parts.html(problems.table(found))


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
        lost = one.part.coverage.lost if one.part.coverage else ()
        cells, omitted = headlines.matrix(f"All cases: {where}", one.headlines, lost)
        more = (
            f'<p class="py-quiet">and {omitted:,} more workloads: the CSV file has them</p>'
            if omitted
            else ""
        )
        body = cells.html() + more
        if one.rows or lost:
            parts.html(body)
        else:
            with parts.expander(wording.plural(len(one.headlines), "case")):
                parts.html(body)
        if one.rows:
            with st.expander(f"{wording.plural(len(one.rows), 'case')} confirmed or outside noise"):
                parts.table(headlines.table(one, now, where))


def _track_headlines(url: str, one: TrackStatus, tracks: int) -> TrackHeadlines | None:
    """The cases of a track; None where its newest night measured nothing."""
    newest = one.night_task.run_id if one.night_task else None
    if newest is None:
        return None
    found = load.points_of_runs(url, headlines.recent_runs(one, newest))
    series_findings = load.findings_of(url, tuple(found))
    made = headlines.headlines_since_changes(one, newest, found, series_findings, partial(load.lines, url))
    if not made:
        return None
    shown = headlines.rows(made, tracks)
    keys = tuple(each.key for each in shown)
    course = load.lines(url, keys, headlines.runs_of(one)) if shown else {}
    return TrackHeadlines(one, made, shown, headlines.pictures(shown, course))
