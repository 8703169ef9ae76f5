"""The page of an upgrade as sections: title, HTML, CSV file and chart of each, in the order of the page."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from itertools import groupby

import pandas as pd

from analysis.comparison.thresholds import threshold_of
from analysis.comparison.upgrade import Table
from analysis.geomean import Geomean
from analysis.metrics import METRICS
from dashboard.components import wording as dashboard_wording
from dashboard.upgrades import frames, tables
from dashboard.upgrades.charts import IntervalStyle
from dashboard.upgrades.ordering import by_impact
from records.runs import Run
from reports import sentences, wording
from reports.forest import ForestAxis, axis_of
from reports.rows import Row, grid, rows
from reports.text.numbers import percent
from reports.upgrade_report import JudgedUpgrade

#: Lines of a chart at most, beside that of the whole, and techniques or workloads of the grid.
_DRAWN, _WIDEST_GRID = 15, 60


@dataclass(frozen=True, slots=True)
class IntervalData:
    """A chart of `charts.intervals`: its data, how it looks, and what it shows in words.

    `cut` is a sentence, after a blank, on what it leaves out; empty where it shows all.
    """

    rows: pd.DataFrame
    look: IntervalStyle
    alt: str
    cut: str


@dataclass(frozen=True, slots=True)
class ReportSection:
    """A part of the page. `html` is escaped, `about` is plain text; `frame` makes the CSV file `file`.

    `after` is HTML that stands below it. What has no title goes on with the section before.
    """

    title: str
    html: str
    about: str = ""
    frame: Callable[[], pd.DataFrame] | None = None
    file: str = ""
    chart: IntervalData | None = None


@dataclass(frozen=True, slots=True)
class Report:
    """An upgrade judged, and everything that its page shows of it."""

    judged: JudgedUpgrade
    verdict: str
    sections: tuple[ReportSection, ...]


def report(run: Run, judged: JudgedUpgrade) -> Report:
    """The page of `judged`, which is what `run` came to by some policy."""
    worst_first = rows(judged.subject, judged.results, judged.upgrade)
    ordered = by_impact(worst_first, judged.subject.policy)
    found = (
        _reasons(judged),
        _settle(judged),
        _correctness(judged),
        _cases(run, judged, ordered),
        _heat(judged, worst_first),
        _means(judged),
        *_beside(judged),
        _exclusions(judged, ordered),
        _differences(judged),
        _how(judged),
        _again(judged, ordered),
    )
    kept = tuple(section for section in found if section is not None)
    return Report(judged, tables.verdict(judged, worst_first), kept)


def _file(judged: JudgedUpgrade, what: str) -> str:
    return f"upgrade-{judged.subject.run}-{what}.csv"


def _reasons(judged: JudgedUpgrade) -> ReportSection:
    return ReportSection(
        "Reasons, in order of weight",
        tables.reasons(judged),
        frame=partial(frames.reasons, judged),
        file=_file(judged, "reasons"),
    )


def _settle(judged: JudgedUpgrade) -> ReportSection | None:
    if not judged.upgrade.settle:
        return None
    return ReportSection(
        "What would settle it",
        tables.settle(judged),
        f"{wording.settling_in_all(judged.upgrade.settle)}. {sentences.SETTLE}",
        partial(frames.settle, judged),
        _file(judged, "settle"),
    )


def _correctness(judged: JudgedUpgrade) -> ReportSection:
    upgrade = judged.upgrade
    if not (upgrade.broken or upgrade.repaired):
        return ReportSection("Correctness", "<p>No case broke, and none was repaired.</p>")
    return ReportSection(
        "Correctness",
        tables.correctness(upgrade),
        frame=partial(frames.correctness, judged),
        file=_file(judged, "correctness"),
    )


def _cases(run: Run, judged: JudgedUpgrade, ordered: Sequence[Row]) -> ReportSection:
    metric = judged.subject.policy.metric
    drawn = _drawn_cases(judged, ordered)
    about = f"{sentences.about_cases(metric)} {sentences.about_same(judged.subject)}".strip()
    return ReportSection(
        f"What moved: {METRICS[metric].title}",
        tables.cases(run, judged, ordered),
        f"{_order_of_cases(ordered)} {about}{drawn.cut if drawn else ''}",
        partial(frames.cases, judged, ordered),
        _file(judged, "cases"),
        drawn,
    )


def _order_of_cases(ordered: Sequence[Row]) -> str:
    """Which cases come first, and why."""
    standings = [row.standing for row in ordered]
    moved = standings.count("slower") + standings.count("faster")
    first = "after what broke" if "broken" in standings else "first"
    if moved:
        return (
            f"{wording.plural(moved, 'case')} moved: those come {first}, the largest impact (weight x "
            "change) before smaller ones."
        )
    if "unclear" in standings:
        return f"No case moved; the largest changes that nobody could tell from noise come {first}."
    return "No case moved." if "same" in standings else "Of no case is it known whether it moved."


def _drawn_cases(judged: JudgedUpgrade, ordered: Sequence[Row]) -> IntervalData | None:
    every = [row for row in ordered if row.verdict and row.verdict.change is not None]
    known = every[:_DRAWN]
    if not known:
        return None
    verdicts = [row.verdict for row in known if row.verdict]
    axis = axis_of(verdicts, judged.upgrade.overall)
    drawn = frames.drawn_cases(judged, known, axis)
    first = known[0]
    metric = METRICS[judged.subject.policy.metric].title
    many = wording.plural(len(every), "case")
    many = many if len(known) == len(every) else f"{len(known)} of {many}"
    alt = (
        f"Change of the {metric.lower()}, new against old, of {many} with intervals, in the table's order: "
        f"{dashboard_wording.case(first.case).text} {first.word}, {wording.change(verdicts[0])}"
    )
    return IntervalData(
        drawn, _look(judged, axis, len(drawn)), alt, _cut(len(known), len(every), "that come first")
    )


def _cut(drawn: int, every: int, which: str) -> str:
    return f" Drawn are the {drawn} {which} of {every:,}; the CSV file has all." if drawn < every else ""


def _look(judged: JudgedUpgrade, axis: ForestAxis, lines: int) -> IntervalStyle:
    policy = judged.subject.policy
    known = METRICS[policy.metric]
    worse, better = ("slower", "faster") if known.unit in ("ms", "s") else ("worse", "better")
    left, right = (better, worse) if known.better == "lower" else (worse, better)
    threshold = threshold_of(policy.metric, policy.thresholds).log
    return IntervalStyle(lines, axis, threshold, known.title, left, right)


def _heat(judged: JudgedUpgrade, worst_first: Sequence[Row]) -> ReportSection | None:
    found = grid(worst_first, _WIDEST_GRID)
    if found is None:
        return None
    return ReportSection(
        "By workload and technique",
        tables.heat(found),
        frame=partial(frames.cases, judged, sorted(worst_first, key=_by_workload)),
        file=_file(judged, "grid"),
    )


def _by_workload(row: Row) -> tuple[str, str]:
    return row.workload, row.result.technique


def _means(judged: JudgedUpgrade) -> ReportSection:
    drawn = _drawn_means(judged)
    about = f"{sentences.about_means(judged.subject)} What is left out is listed below."
    return ReportSection(
        "Over all, and by technique",
        tables.means(judged),
        f"{about}{drawn.cut if drawn else ''}",
        partial(frames.means, judged),
        _file(judged, "techniques"),
        drawn,
    )


def _drawn_means(judged: JudgedUpgrade) -> IntervalData | None:
    upgrade = judged.upgrade
    if len(upgrade.techniques) < 2:
        return None
    axis = _axis_of_means([*upgrade.techniques.values(), upgrade.overall])
    furthest = sorted(upgrade.techniques, key=lambda name: -abs(upgrade.techniques[name].change or 0.0))
    drawn = frames.drawn_means(judged, sorted(furthest[:_DRAWN]), axis)
    many = wording.plural(len(furthest), "technique")
    many = many if len(furthest) <= _DRAWN else f"the {_DRAWN} of {many} that moved most"
    alt = f"Geomeans with intervals of {many}; over all {percent(upgrade.overall.change)}"
    cut = _cut(min(_DRAWN, len(furthest)), len(furthest), "that moved most")
    return IntervalData(drawn, _look(judged, axis, len(drawn)), alt, cut)


def _axis_of_means(means: Sequence[Geomean]) -> ForestAxis:
    """As far as the points reach, and their intervals, but for those of a single noisy technique."""
    points = [abs(mean.change) for mean in means if mean.change is not None]
    reaches = sorted(max(abs(mean.low or 0.0), abs(mean.high or 0.0)) for mean in means)
    return ForestAxis(
        max(0.01, 1.08 * max(points, default=0.0), 1.08 * min(reaches[-1], 6 * reaches[len(reaches) // 2]))
    )


def _beside(judged: JudgedUpgrade) -> list[ReportSection]:
    """Compile time, memory, first call and graph breaks, a section each."""
    found: list[ReportSection] = []
    for title, grouped in groupby(judged.upgrade.tables, key=_title):
        listed = list(grouped)
        name = title.replace(" ", "-")
        frame = partial(frames.tables, listed)
        found.append(
            ReportSection(
                title.capitalize(),
                tables.beside(listed, judged.subject.policy),
                frame=frame,
                file=_file(judged, name),
            )
        )
    return found


def _title(table: Table) -> str:
    return table.title


def _exclusions(judged: JudgedUpgrade, ordered: Sequence[Row]) -> ReportSection:
    return ReportSection(
        "Exclusions",
        tables.exclusions(judged, ordered),
        frame=partial(frames.exclusions, judged, ordered),
        file=_file(judged, "exclusions"),
    )


def _differences(judged: JudgedUpgrade) -> ReportSection:
    return ReportSection(
        "What else differs between the environments",
        tables.differences(judged.subject),
        frame=partial(frames.differences, judged),
        file=_file(judged, "environments"),
    )


def _how(judged: JudgedUpgrade) -> ReportSection:
    return ReportSection("How it was measured", tables.how(judged.subject), sentences.how(judged.subject))


def _again(judged: JudgedUpgrade, ordered: Sequence[Row]) -> ReportSection:
    return ReportSection("Measure a case again", tables.again(judged, ordered))
