"""The Today page where people measure by hand: what ran last, what failed and why, and the first numbers."""

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

#: Runs in which what failed is looked for, and those among which such runs are looked for.
SEARCHED, _AMONG = 5, 20
#: Series whose newest number is shown, those of the newest runs.
SERIES = 20


def show(url: str, runs: Sequence[RunSummary], now: datetime) -> None:
    """The last run, what did not end ok, and the newest latencies with their course."""
    own = load.own_runs(url, _AMONG)
    if not own:
        # What came from elsewhere has no last night: it is listed, and compared in History.
        show_imports(url, runs)
        _failures(url, runs, own, now, mixed=False)
        return
    mixed = not all(run.source == RunSource.MEASURED for run in runs)
    last = own[0]
    spare = 0
    if last.counts.get(OutcomeStatus.SKIPPED):
        spare = sum(not problems.needed(outcome) for outcome in load.outcomes(url, last.id))
    parts.html(tables.last_run(last, load.count_runs(url), now, own=mixed, spare=spare))
    if len(own) < FEW:
        first_run(url, last)
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
    own = next(filter(None, (_own_headlines(url, metric) for metric in headlines.METRICS)), None)
    if own is None:
        return
    newest = sorted(own, key=_newest_first)[:SERIES]
    every = tables.headline_table(own, now, {}, "everywhere")
    parts.heading(f"Latest {wording.metric(own[0].key.metric).title.lower()}", every, "latest-latency.csv")
    parts.caption(
        "Against the previous run: a hint, not a verdict.",
        "The previous run is on the same hardware and preset. Lower is better; n replicates, with their "
        "range.",
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
    """The newest run's, by name; what is the machine's own comes last."""
    key, own = one.key, one.latest.environment_kind == EnvironmentKind.CANARY
    return -one.latest.started_at.timestamp(), own, key.case, key.hardware, key.preset


#: Hardware of imports that is named, that with the most series.
_NAMED = 12
#: With so many runs of its own a machine is not new any more.
FEW = 3
#: What to do where others disturbed a run.
_WHEN_QUIET = "contended: other programs took part of the cores; measure again when nothing else runs"
#: What a star says.
_DISTURBED = r"\*: other programs took part of a core; it may be anything."


def bars(outcomes: Sequence[Outcome]) -> list[dict[str, Any]]:
    """The speed-ups of a run over eager fp32, the largest first, as `charts.speed_ups` draws them.

    A label is short where that names one case only; a star marks a ratio that may be anything, for others
    took part of a core in some pair.
    """
    found = [
        (gain, gain.ratio)
        for own in gains(outcomes, baselines).values()
        for gain in own
        if gain.kind == "speed-up" and gain.ratio is not None
    ]
    short = Counter(_short(gain.case) for gain, _ in found)
    rows = [
        {
            "label": _short(gain.case) if short[_short(gain.case)] == 1 else wording.case(gain.case).text,
            "case": wording.case(gain.case).text,
            "ratio": ratio,
            "low": gain.low,
            "high": gain.high,
            "text": f"{wording.times(ratio)}{'*' if gain.disturbed else ''}",
        }
        for gain, ratio in found
    ]
    return sorted(rows, key=lambda row: -row["ratio"])


def _short(case: str) -> str:
    words = wording.case(case)
    return f"{words.name} {words.phase} · {words.technique}"


def limits(run: Run, outcomes: Sequence[Outcome]) -> list[str]:
    """What limited a run: how many processes that it needed did not end ok, and its own notes.

    The canary's are not among those that a run plans, and are not counted.
    """
    canaries = {each.fingerprint for each in run.environments if each.kind == EnvironmentKind.CANARY}
    needed = [one for one in outcomes if problems.needed(one) and one.environment not in canaries]
    bad = [one.status for one in needed if one.status != OutcomeStatus.OK]
    sentences: list[str] = []
    for status in dict.fromkeys(bad):
        sentences.append(
            f"{bad.count(status)} of {wording.plural(len(needed), 'process', 'processes')} {status}"
        )
        if status == OutcomeStatus.CONTENDED:
            sentences.append(_WHEN_QUIET)
    return [*sentences, *run.notes]


def first_run(url: str, last: RunSummary) -> None:
    """The newest run of a machine that is new here."""
    found = load.run(url, last.id)
    if found is None:
        return
    outcomes = load.outcomes(url, last.id)
    if drawn := bars(outcomes):
        rows = pd.DataFrame(drawn)
        parts.heading("What this machine says", lambda: rows, f"speed-ups-{last.id}.csv")
        parts.caption("Speed-up over eager fp32 in one run, with 95 % interval.")
        if any("*" in one["text"] for one in drawn):
            parts.caption(_DISTURBED)
        best = drawn[0]
        alt_text = f"{wording.plural(len(drawn), 'speed-up')}, the largest {best['text']}: {best['label']}"
        dark = st.context.theme.type == "dark"
        parts.subject(last.hardware, f"PyTorch {', '.join(last.torch_versions)}", f"suite {last.suite}")
        parts.chart(charts.speed_ups(len(drawn), dark=dark), alt_text, rows=rows)
    if limited := limits(found[0], outcomes):
        parts.heading("What limited it")
        parts.html(markup.notes(limited))
    next_steps(last)


def next_steps(last: RunSummary) -> None:
    """Three commands that go on from a first run."""
    version = query_params.public(last.torch_versions[0]) if last.torch_versions else "2.13.0"
    parts.heading("Next steps")
    for words, command in (
        (
            "Compare this PyTorch with the newest nightly:",
            f"pyrometer upgrade {version} nightly --suite smoke",
        ),
        ("Measure every night what pyrometer.toml schedules, and find regressions:", "pyrometer serve"),
        ("Bring in results of other tools:", "pyrometer import PATH"),
    ):
        parts.caption(words)
        parts.code(command)


def show_imports(url: str, runs: Sequence[RunSummary]) -> None:
    """What came in from other tools and scripts, and what of it can be compared."""
    counted = machine_load.foreign_runs(url)
    if not counted:
        return
    parts.heading("What came in")
    keys = load.series_keys(url)
    cases = {key.case for key in keys}
    workloads = wording.plural(len({case.rpartition("/")[0] for case in cases}), "workload")
    hardware = Counter(key.hardware_label for key in keys)
    versions = dict.fromkeys(version for run in runs for version in run.torch_versions)
    lines = [f"{wording.plural(many, 'run')} {words}" for words, many in counted.most_common()]
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
