"""The Today page without schedules: the last run, failures with their reasons, and the newest numbers."""

from collections import Counter
from collections.abc import Sequence
from datetime import datetime
from typing import Any

import pandas as pd
import streamlit as st

from analysis.speedups import gains
from common.text import some
from dashboard.components import charts, frames, links, load, markup, parts, query_params, tables, wording
from dashboard.machines import load as machine_load
from dashboard.today import headlines, problems
from dashboard.today import load as today_load
from records.kinds import EnvironmentKind, RunSource
from records.outcomes import Outcome, OutcomeStatus
from records.runs import Run, RunSummary
from records.series import Headline
from runner.suites.references import baselines

#: The number of runs whose failures are listed, and the number of runs searched for them.
SEARCHED, _AMONG = 5, 20
#: The most series, those of the newest runs, whose newest number is shown.
SERIES = 20


def show(url: str, runs: Sequence[RunSummary], now: datetime) -> None:
    """Show the last run, failures, and the newest latencies with sparklines."""
    own = load.own_runs(url, _AMONG)
    if not own:
        # Imported runs have no last night: they are listed, and compared in History.
        show_imports(url, runs)
        _failures(url, runs, own, now, has_imports=False)
        return
    has_imports = not all(run.source == RunSource.MEASURED for run in runs)
    last = own[0]
    spare = 0
    if last.counts.get(OutcomeStatus.SKIPPED):
        spare = sum(not problems.needed(outcome) for outcome in load.outcomes(url, last.id))
    parts.html(tables.last_run(last, load.count_runs(url), now, own=has_imports, spare=spare))
    if len(own) < FEW:
        first_run(url, last)
    _failures(url, runs, own, now, has_imports=has_imports)
    if len(own) != 1:
        # A single run cannot be compared: its page has the numbers.
        _headlines(url, now)


def _failures(
    url: str, runs: Sequence[RunSummary], own: Sequence[RunSummary], now: datetime, *, has_imports: bool
) -> None:
    # Pairs that a comparison leaves out do not describe the cases; its page shows them.
    comparing = today_load.compared(url, tuple(run.id for run in own))
    alone = [run for run in own if run.id not in comparing]
    runs_searched = alone if own else [run for run in runs if run.source != RunSource.IMPORTED]
    matches = [item for item in load.failures(url, runs_searched[:SEARCHED]) if problems.needed(item[1])]
    if matches:
        which = f"last {SEARCHED} {'own ' if has_imports else ''}runs"
        parts.heading(f"Failures in the {which}", lambda: frames.failures(matches), "not-ok.csv")
        parts.html(tables.failures(matches, now))


def _headlines(url: str, now: datetime) -> None:
    own = next(filter(None, (_own_headlines(url, metric) for metric in headlines.METRICS)), None)
    if own is None:
        return
    newest = sorted(own, key=_newest_first)[:SERIES]
    every = tables.headline_table(own, now, {}, "everywhere")
    parts.heading(f"Latest {wording.metric(own[0].key.metric).title.lower()}", every, "latest-latency.csv")
    parts.caption(
        "Against the previous run: a hint, not a verdict.",
        "The previous run has the same hardware and preset. Lower is better; n replicates, with their range.",
    )
    course = today_load.newest_points(url, tuple(each.key for each in newest), headlines.COURSE)
    pictures = {
        key: markup.sparkline([point.point for point in points], wording.metric(key.metric).unit, "runs")
        for key, points in course.items()
    }
    parts.html(tables.headlines(newest, now, pictures))
    if (more := len(own) - len(newest)) > 0:
        parts.html(markup.link(links.HISTORY, f"and {more:,} more series: History →"))


def _own_headlines(url: str, metric: str) -> list[Headline]:
    return [one for one in load.headlines(url, metric) if one.latest.source == RunSource.MEASURED]


def _newest_first(one: Headline) -> tuple[object, ...]:
    """The headlines of the newest run by name; those of the machine itself come last."""
    key, own = one.key, one.latest.environment_kind == EnvironmentKind.CANARY
    return -one.latest.started_at.timestamp(), own, key.case, key.hardware, key.preset


#: The most hardware of imports that is named, most series first.
_NAMED = 12
#: A machine with this number of runs is no longer new.
FEW = 3
#: The advice for a disturbed run.
_WHEN_QUIET = "contended: other programs used part of the cores; measure again when no other program runs"
#: The meaning of a star.
_DISTURBED = r"\*: other programs took part of a core; it may be anything."


def bars(outcomes: Sequence[Outcome]) -> list[dict[str, Any]]:
    """The speed-ups of a run over eager fp32, the largest first, as `charts.speed_ups` draws them.

    A label is shortened if it still names one case only; a star marks a ratio that is not reliable, because
    other programs used part of a core in some pair.
    """
    matches = [
        (gain, gain.ratio)
        for own in gains(outcomes, baselines).values()
        for gain in own
        if gain.kind == "speed-up" and gain.ratio is not None
    ]
    short = Counter(_short(gain.case) for gain, _ in matches)
    rows = [
        {
            "label": _short(gain.case) if short[_short(gain.case)] == 1 else wording.case(gain.case).text,
            "case": wording.case(gain.case).text,
            "ratio": ratio,
            "low": gain.low,
            "high": gain.high,
            "text": f"{wording.times(ratio)}{'*' if gain.disturbed else ''}",
        }
        for gain, ratio in matches
    ]
    return sorted(rows, key=lambda row: -row["ratio"])


def _short(case: str) -> str:
    words = wording.case(case)
    return f"{words.name} {words.phase} · {words.technique}"


def limits(run: Run, outcomes: Sequence[Outcome]) -> list[str]:
    """The limitations of a run: the number of needed processes that are not ok, and its notes.

    Those of the canary are not planned and do not count.
    """
    canaries = {each.fingerprint for each in run.environments if each.kind == EnvironmentKind.CANARY}
    needed_outcomes = [one for one in outcomes if problems.needed(one) and one.environment not in canaries]
    bad = [one.status for one in needed_outcomes if one.status != OutcomeStatus.OK]
    sentences: list[str] = []
    for status in dict.fromkeys(bad):
        sentences.append(
            f"{bad.count(status)} of {wording.plural(len(needed_outcomes), 'process', 'processes')} {status}"
        )
        if status == OutcomeStatus.CONTENDED:
            sentences.append(_WHEN_QUIET)
    return [*sentences, *run.notes]


def first_run(url: str, last: RunSummary) -> None:
    """Show the newest run of a new machine."""
    stored_run = load.run(url, last.id)
    if stored_run is None:
        return
    outcomes = load.outcomes(url, last.id)
    if bar_rows := bars(outcomes):
        rows = pd.DataFrame(bar_rows)
        parts.heading("What this machine says", lambda: rows, f"speed-ups-{last.id}.csv")
        parts.caption("Speed-up over eager fp32 in one run, with 95 % interval.")
        if any("*" in one["text"] for one in bar_rows):
            parts.caption(_DISTURBED)
        best = bar_rows[0]
        alt_text = f"{wording.plural(len(bar_rows), 'speed-up')}, the largest {best['text']}: {best['label']}"
        dark = st.context.theme.type == "dark"
        parts.subject(last.hardware, f"PyTorch {', '.join(last.torch_versions)}", f"suite {last.suite}")
        parts.chart(charts.speed_ups(len(bar_rows), dark=dark), alt_text, rows=rows)
    if limit_notes := limits(stored_run[0], outcomes):
        parts.heading("What limited it")
        parts.html(markup.notes(limit_notes))
    next_steps(last)


def next_steps(last: RunSummary) -> None:
    """Show three next commands after a first run."""
    version = query_params.public(last.torch_versions[0]) if last.torch_versions else "2.13.0"
    parts.heading("Next steps")
    for words, command in (
        (
            "Compare this PyTorch with the newest nightly:",
            f"pyrometer upgrade {version} nightly --suite smoke",
        ),
        ("Run the schedules of pyrometer.toml every night, and find regressions:", "pyrometer serve"),
        ("Import results of other tools:", "pyrometer import PATH"),
    ):
        parts.caption(words)
        parts.code(command)


def show_imports(url: str, runs: Sequence[RunSummary]) -> None:
    """Show the imported and submitted runs, and links to their comparisons."""
    count_text = machine_load.foreign_runs(url)
    if not count_text:
        return
    parts.heading("What came in")
    keys = load.series_keys(url)
    cases = {key.case for key in keys}
    workloads = wording.plural(len({case.rpartition("/")[0] for case in cases}), "workload")
    hardware = Counter(key.hardware_label for key in keys)
    versions = dict.fromkeys(version for run in runs for version in run.torch_versions)
    lines = [f"{wording.plural(many, 'run')} {words}" for words, many in count_text.most_common()]
    lines += [
        f"{wording.plural(len(cases), 'case')} of {workloads}, {len(keys):,} series",
        f"Hardware: {some(list(dict(hardware.most_common())), _NAMED)}",
    ]
    if versions:
        lines.append(f"PyTorch of the newest runs: {', '.join(versions)}")
    parts.html(markup.bullets(lines))
    ways = (
        (links.UPGRADE, "Compare PyTorch →"),
        (links.HARDWARE, "Compare hardware →"),
        (links.RUN_PAIR, "Compare two runs →"),
        (links.TECHNIQUES, "Techniques →"),
        (links.HISTORY, "History →"),
        (links.RUNS, "All runs →"),
    )
    parts.html(f"<p>{' · '.join(markup.link(*way) for way in ways)}</p>")
