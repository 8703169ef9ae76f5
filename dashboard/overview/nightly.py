"""The overview where schedules measure: is everything fine, and what happened last night?"""

from collections.abc import Sequence
from datetime import datetime
from html import escape

from analysis.recent_level import NIGHTS
from configuration.schedules import MEASURE
from dashboard.components import links, markup, parts, wording
from dashboard.overview import cards, headlines, load, problems, verdict
from dashboard.overview.headlines import TrackHeadlines
from dashboard.overview.track_status import TrackStatus
from dashboard.overview.view import DAYS, Overview
from dashboard.regressions import findings

#: Tracks whose results are looked at, the worst first, and cards of them; findings in the list.
LOOKED, CARDS, FINDINGS = 24, 12, 12


def show(url: str, chosen: Overview, now: datetime) -> None:
    """The verdict, a card for each track, what is new, what did not end ok, and the headline cases."""
    morning = load.morning(url)
    looked = load.results(url, morning.parts[:LOOKED])
    every = (*looked, *morning.parts[LOOKED:])
    found = verdict.new_findings(*load.recent_findings(url, int(chosen.days)), chosen.since(now), now)
    failed = _failed(url, looked)
    summary = verdict.verdict(every, morning.silent, found, problems.newly_failed(failed))
    parts.html(verdict.banner(summary, found))
    _tracks(looked, every, now)
    _findings(found, chosen, now)
    _problems(failed)
    _headlines(url, looked, now)


def first_night(url: str, now: datetime) -> None:
    """When the first night comes, where a scheduler is there and nothing was due yet."""
    measuring = [one for one in load.morning(url).plan if one.alive and one.job == MEASURE]
    coming = min((moment for one in measuring for moment in one.next if moment > now), default=None)
    if coming is not None:
        sentence = f"The first night is due {wording.utc(coming)}"
        parts.html(f"<p>{escape(sentence)}: {markup.link(links.machines(), 'Machines →')}</p>")


def _tracks(looked: Sequence[TrackStatus], every: Sequence[TrackStatus], now: datetime) -> None:
    tracks = [one for one in every if one.scheduled]
    shown = (tracks or every)[:CARDS]
    parts.heading("Newest night", lambda: cards.frame(every), "newest-night.csv")
    parts.html(cards.cards(shown, now))
    rest = [f"{wording.plural(len(tracks) - len(shown), 'track')} more"] if len(tracks) > len(shown) else []
    if tracks and len(every) > len(tracks):
        rest.append(f"{wording.plural(len(every) - len(tracks), 'track')} that no schedule has any more")
    if rest:
        more = f"and {' and '.join(rest)}: Fleet →"
        parts.html(f"<p>{markup.link(links.machines(), more)}</p>")
    if len(tracks) > len(looked):
        parts.caption(
            f"Whether all usual cases were measured is looked at for {len(looked)} of {len(tracks):,} tracks."
        )


def _findings(found: verdict.NewFindings, chosen: Overview, now: datetime) -> None:
    shown = found.items[:FINDINGS]
    parts.heading("New findings", lambda: findings.frame(found.items), "new-findings.csv")
    parts.segments("New is what was decided within", "days", DAYS, chosen)
    if not shown:
        many = wording.plural(found.known, "finding")
        parts.caption(
            f"Nothing new without a triage: {many} that are triaged or muted."
            if found.known
            else f"Nothing was confirmed within {DAYS[chosen.days]}, and no candidate waits."
        )
        return
    parts.html(findings.table(shown, now))
    parts.caption(
        "A candidate may be noise: it is a regression or an improvement once old and new were measured again "
        "in turns on the same machine, and the pairs show it."
    )
    if (more := len(found.items) - len(shown)) > 0:
        parts.html(f"<p>{markup.link(links.findings(), f'and {more:,} more: Regressions →')}</p>")


def _failed(url: str, looked: Sequence[TrackStatus]) -> list[problems.CaseProblem]:
    endings = {run: each for one in looked for run, each in load.endings(url, one).items()}
    return problems.problems(looked, endings)


def _problems(found: Sequence[problems.CaseProblem]) -> None:
    if found:
        parts.heading("Not ok in the newest night", lambda: problems.frame(found), "not-ok.csv")
        parts.html(problems.table(found))


def _headlines(url: str, looked: Sequence[TrackStatus], now: datetime) -> None:
    tracks = headlines.followed(looked)
    items = [each for one in tracks if (each := _followed(url, one, len(tracks)))]
    if not items:
        return
    parts.heading("Headline cases", lambda: headlines.frame(items), "headline-cases.csv")
    parts.caption(
        f"Latency of last night against the median of the {NIGHTS} nights before it, or before a confirmed "
        "change, on the same machine. Only what is confirmed has a colour. Noise alone stays within its "
        "limits in 99 of 100 nights."
    )
    for one in items:
        task = one.part.newest
        where = " · ".join(filter(None, (task.schedule, task.track, task.label)))
        paragraph = (
            f"<p>{escape(headlines.summary(one.headlines))} · {markup.link(links.HISTORY, 'History →')}</p>"
        )
        parts.html(f'<h3 class="py-place">{escape(where)}</h3>{paragraph}')
        if one.rows:
            parts.html(headlines.table(one, now, where))


def _followed(url: str, one: TrackStatus, tracks: int) -> TrackHeadlines | None:
    """The headline cases of a track; None where its newest night measured nothing."""
    newest = one.measured.run_id if one.measured else None
    if newest is None:
        return None
    runs = headlines.runs_of(one)
    found = load.points_of_runs(url, tuple(dict.fromkeys((newest, *runs[: NIGHTS + 1]))))
    known = load.findings_of(url, tuple(found))
    # A change that is older than those nights needs the nights before it.
    marked = [each.key for each in headlines.headlines(one, newest, found, known) if each.finding]
    found = found | load.lines(url, tuple(marked), runs) if marked else found
    made = headlines.headlines(one, newest, found, known)
    if not made:
        return None
    shown = headlines.rows(made, tracks)
    course = load.lines(url, tuple(each.key for each in shown), runs) if shown else {}
    return TrackHeadlines(one, made, shown, headlines.pictures(shown, course))
