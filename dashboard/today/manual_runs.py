"""The Today page where people measure by hand: what ran last, what failed and why, and the newest numbers."""

from collections.abc import Sequence
from datetime import datetime

from dashboard.components import frames, links, load, markup, parts, tables, wording
from dashboard.today import first_run, headlines, problems
from dashboard.today import load as today_load
from records.kinds import EnvironmentKind, RunSource
from records.outcomes import OutcomeStatus
from records.runs import RunSummary
from records.series import Headline

#: Runs in which what failed is looked for, and those among which such runs are looked for.
SEARCHED, _AMONG = 5, 20
#: Series whose newest number is shown, those of the newest runs.
SERIES = 20


def show(url: str, runs: Sequence[RunSummary], now: datetime) -> None:
    """The last run, what did not end ok, and the newest latencies with their course."""
    own = load.own_runs(url, _AMONG)
    if not own:
        # What came from elsewhere has no last night: it is listed, and compared in History.
        first_run.imports(url, runs)
        _failures(url, runs, own, now, mixed=False)
        return
    mixed = not all(run.source == RunSource.MEASURED for run in runs)
    last = own[0]
    spare = 0
    if last.counts.get(OutcomeStatus.SKIPPED):
        spare = sum(not problems.needed(outcome) for outcome in load.outcomes(url, last.id))
    parts.html(tables.last_run(last, load.count_runs(url), now, own=mixed, spare=spare))
    if len(own) < first_run.FEW:
        first_run.section(url, last)
    _failures(url, runs, own, now, mixed=mixed)
    if len(own) != 1:
        # A single run has nothing to be compared with: its page has its numbers.
        _headlines(url, now)


def _failures(
    url: str, runs: Sequence[RunSummary], own: Sequence[RunSummary], now: datetime, *, mixed: bool
) -> None:
    # Pairs that a comparison leaves out say nothing of the cases: its own page shows them.
    comparing = today_load.compared(url, tuple(run.id for run in own))
    alone = [run for run in own if run.id not in comparing]
    searched = alone if own else [run for run in runs if run.source != RunSource.IMPORTED]
    found = [item for item in load.failures(url, searched[:SEARCHED]) if problems.needed(item[1])]
    if found:
        which = f"last {SEARCHED} {'own ' if mixed else ''}runs"
        parts.heading(f"Failures in the {which}", lambda: frames.failures(found), "not-ok.csv")
        parts.html(tables.failures(found, now))


def _headlines(url: str, now: datetime) -> None:
    known = load.headlines(url, "latency")
    if not known:
        return
    own = [headline for headline in known if headline.latest.source == RunSource.MEASURED]
    shown = sorted(own or known, key=_newest_first)[:SERIES]
    parts.heading("Latest latency", lambda: frames.headlines(own or known), "latest-latency.csv")
    parts.caption(
        "Changes are against the run before on the same hardware and preset: a hint, not a verdict. Lower "
        "is better; n replicates, with their range."
    )
    course = today_load.newest_points(url, tuple(each.key for each in shown), headlines.COURSE)
    pictures = {
        key: markup.sparkline([point.point for point in points], wording.metric(key.metric).unit, "runs")
        for key, points in course.items()
    }
    parts.html(tables.headlines(shown, now, pictures))
    if (more := len(own or known) - len(shown)) > 0:
        parts.html(markup.link(links.HISTORY, f"and {more:,} more series: History →"))


def _newest_first(one: Headline) -> tuple[object, ...]:
    """The newest run's, by name; what is the machine's own comes last."""
    key, own = one.key, one.latest.environment_kind == EnvironmentKind.CANARY
    return -one.latest.started_at.timestamp(), own, key.case, key.hardware, key.preset
