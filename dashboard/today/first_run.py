"""What a machine's first runs say: speed-ups as bars, what limited them, and the next steps."""

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass

import pandas as pd
import streamlit as st

from analysis.speedups import gains
from dashboard.components import links, load, markup, parts, wording
from dashboard.machines import load as machine_load
from dashboard.today import charts, problems
from records.outcomes import Outcome, OutcomeStatus
from records.runs import RunSummary
from runner.suites.references import baselines

#: Hardware of imports that is named, that with the most series.
_NAMED = 12
#: With so many runs of its own a machine is not new any more.
FEW = 3
#: What to do where others disturbed a run.
_WHEN_QUIET = "contended: other programs took part of the cores; measure again when nothing else runs"
#: What a star says.
_DISTURBED = r"\*: in some pair other programs took part of a core; such a ratio may be anything."


@dataclass(frozen=True, slots=True)
class SpeedUpBar:
    """One technique of a workload: how many times as fast as its baseline, with a 95 % interval if known.

    `label` is short where that names one `case` only. `disturbed`: others took part of a core in some pair.
    """

    label: str
    case: str
    ratio: float
    low: float | None
    high: float | None
    disturbed: bool = False

    @property
    def text(self) -> str:
        """The ratio, with a star where it may be anything."""
        return f"{wording.times(self.ratio)}{'*' if self.disturbed else ''}"


def bars(outcomes: Sequence[Outcome]) -> list[SpeedUpBar]:
    """The speed-ups of a run over eager fp32, the largest first."""
    found = [
        (gain, gain.ratio)
        for own in gains(outcomes, baselines).values()
        for gain in own
        if gain.kind == "speed-up" and gain.ratio is not None
    ]
    short = Counter(_short(gain.case) for gain, _ in found)
    made = [
        SpeedUpBar(
            _short(gain.case) if short[_short(gain.case)] == 1 else wording.case(gain.case).text,
            wording.case(gain.case).text,
            ratio,
            gain.low,
            gain.high,
            gain.disturbed > 0,
        )
        for gain, ratio in found
    ]
    return sorted(made, key=lambda one: -one.ratio)


def _short(case: str) -> str:
    words = wording.case(case)
    return f"{words.name} {words.phase} · {words.technique}"


def limits(outcomes: Sequence[Outcome], notes: Sequence[str]) -> list[str]:
    """What limited a run: how many processes that it needed did not end ok, and its own notes."""
    needed = [one for one in outcomes if problems.needed(one)]
    bad = [one.status for one in needed if one.status != OutcomeStatus.OK]
    said: list[str] = []
    for status in dict.fromkeys(bad):
        said.append(f"{bad.count(status)} of {wording.plural(len(needed), 'process', 'processes')} {status}")
        if status == OutcomeStatus.CONTENDED:
            said.append(_WHEN_QUIET)
    return [*said, *notes]


def section(url: str, last: RunSummary) -> None:
    """The newest run of a machine that is new here."""
    found = load.run(url, last.id)
    if found is None:
        return
    outcomes = load.outcomes(url, last.id)
    if drawn := bars(outcomes):
        rows = pd.DataFrame(
            [(one.label, one.case, one.ratio, one.low, one.high, one.text) for one in drawn],
            columns=["label", "case", "ratio", "low", "high", "text"],
        )
        parts.heading("What this machine says", lambda: rows, f"speed-ups-{last.id}.csv")
        parts.caption(
            "Speed-up over eager fp32 of the same run, with its 95 % interval."
            + (f" {_DISTURBED}" if any(one.disturbed for one in drawn) else "")
        )
        best = drawn[0]
        alt_text = f"{wording.plural(len(drawn), 'speed-up')}, the largest {best.text}: {best.label}"
        dark = st.context.theme.type == "dark"
        parts.chart(charts.speed_ups(len(drawn), dark=dark), alt_text, rows=rows)
    if limited := limits(outcomes, found[0].notes):
        parts.heading("What limited it")
        parts.html(markup.notes(limited))
    next_steps(last)


def next_steps(last: RunSummary) -> None:
    """Three commands that go on from a first run."""
    version = last.torch_versions[0].partition("+")[0] if last.torch_versions else "2.13.0"
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


def _first(names: Sequence[str]) -> str:
    """Some names, and how many more there are."""
    more = len(names) - _NAMED
    return ", ".join(names[:_NAMED]) + (f" and {more} more" if more > 0 else "")


def imports(url: str, runs: Sequence[RunSummary]) -> None:
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
        f"Hardware: {_first(list(dict(hardware.most_common())))}",
    ]
    if versions:
        lines.append(f"PyTorch of the newest runs: {', '.join(versions)}")
    parts.html(markup.bullets(lines))
    parts.html(
        f"<p>{markup.link(links.hardware({}), 'Compare hardware →')} "
        f"{markup.link(links.run_pair({}), 'Compare two runs →')} "
        f"{markup.link(links.HISTORY, 'History →')} {markup.link(links.RUNS, 'All runs →')}</p>"
    )
