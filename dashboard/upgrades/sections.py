"""The page of an upgrade as sections: title, HTML, CSV file and chart of each, in the order of the page."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from itertools import groupby
from typing import Any, TypeVar

import pandas as pd
from markupsafe import Markup

from analysis.comparison.policy import Policy
from analysis.comparison.thresholds import threshold_of
from analysis.decision.upgrade import Table as MetricTable
from analysis.geomean import Geomean
from analysis.metrics import METRICS
from dashboard.components import links, markup
from dashboard.components import wording as dashboard_wording
from dashboard.upgrades import tables as page_tables
from dashboard.upgrades.charts import IntervalStyle
from dashboard.upgrades.rules import RuleChanges
from dashboard.upgrades.tables import MOST_LISTED, MOST_OTHERS, MOST_ROWS
from dashboard.upgrades.view import UpgradeView
from records.runs import Run
from reports import sentences, tables, wording
from reports.forest import ForestAxis, axis_of, directions
from reports.rows import Row, by_impact, rows, without_ratio
from reports.table import DataTable
from reports.text.dispatch_text import summary_words
from reports.text.numbers import percent
from reports.text.templates import escape_text
from reports.upgrade_report import JudgedUpgrade


def drawn_cases(judged: JudgedUpgrade, rows: Sequence[Row], axis: ForestAxis) -> pd.DataFrame:
    """What `charts.intervals` draws of cases that have a ratio, and their geomean last."""
    found = [
        _chart_row(
            axis,
            dashboard_wording.case(row.case).text,
            row.word,
            (row.verdict.change, row.verdict.low, row.verdict.high),
            n=row.verdict.n,
            status=row.status,
            tone=row.tone,
            summary=row.summary,
        )
        for row in rows
        if row.verdict and row.verdict.change is not None
    ]
    overall = judged.upgrade.overall
    if overall.change is not None:
        label = f"geomean over {wording.plural(overall.cases, 'case')}"
        found.append(_drawn_mean(axis, label, overall))
    return _number_rows(found)


def drawn_means(judged: JudgedUpgrade, names: Sequence[str], axis: ForestAxis) -> pd.DataFrame:
    """What `charts.intervals` draws of the geomeans of these techniques, that over all last."""
    upgrade = judged.upgrade
    means = [*((name, upgrade.techniques[name]) for name in names), ("all", upgrade.overall)]
    named = [(f"{name}, {wording.plural(mean.cases, 'case')}", mean) for name, mean in means]
    return _number_rows([_drawn_mean(axis, label, mean) for label, mean in named if mean.change is not None])


def _drawn_mean(axis: ForestAxis, label: str, mean: Geomean) -> dict[str, object]:
    ends = (mean.change, mean.low, mean.high)
    return _chart_row(axis, label, "geomean", ends, n=mean.pairs, status="mean", tone="quiet", summary=label)


def _chart_row(
    axis: ForestAxis,
    label: str,
    word: str,
    ends: tuple[float | None, float | None, float | None],
    *,
    n: int,
    status: str,
    tone: str,
    summary: str,
) -> dict[str, object]:
    """One line of the chart: what lies beyond its axis is drawn at the edge, with its true value as text."""
    change, low, high = ends
    inside = [None if end is None else max(-axis.limit, min(axis.limit, end)) for end in ends]
    interval = wording.interval(low, high)
    return {
        "label": label,
        "word": word,
        "status": status,
        "tone": tone,
        "change": inside[0],
        "low": inside[1],
        "high": inside[2],
        "beyond": any(end is not None and abs(end) > axis.limit for end in ends),
        "text": f"{percent(change)} [{interval}], n {n}",
        "summary": summary,
        "interval": interval,
        "changed": percent(change),
        "n": n,
    }


def _number_rows(rows: Sequence[dict[str, object]]) -> pd.DataFrame:
    return pd.DataFrame([{"row": place, **row} for place, row in enumerate(rows)])


AnyRow = TypeVar("AnyRow")

#: Lines of a chart at most, besides that of the whole.
_DRAWN = 15
#: What sections are folded together under.
_WHY, _METRICS, _HOW = "Why: every reason", "By technique, and other metrics", "How it was measured"
#: Cases in groups, in the order of the page, and which of them are folded.
_GROUPS = ("broken", "slower", "unclear", "faster", "repaired")
_FOLDED = ("same",)


@dataclass(frozen=True, slots=True)
class IntervalData:
    """A chart of `charts.intervals`: its data, how it looks, and what it shows in words.

    `cut` is a sentence, after a blank, on what it leaves out; empty where it shows all.
    """

    rows: pd.DataFrame
    look: IntervalStyle
    alt: str
    cut: str


#: What a section shows below its chart: a table, or HTML.
Content = DataTable[Any] | str


@dataclass(frozen=True, slots=True)
class ReportSection:
    """A part of the page: its title, `about` as plain text, a chart, tables and HTML.

    The CSV file `file` holds the rows of `csv`, or of the section's tables. `folded` are tables that open
    with a click, by what they hold. Sections of one `group` are folded together under that name.
    """

    title: str
    content: tuple[Content, ...]
    about: str = ""
    file: str = ""
    chart: IntervalData | None = None
    csv: DataTable[Any] | None = None
    folded: tuple[tuple[str, DataTable[Any]], ...] = ()
    group: str = ""

    @property
    def tables(self) -> list[DataTable[Any]]:
        """What the CSV file holds."""
        return [self.csv] if self.csv else [each for each in self.content if isinstance(each, DataTable)]


@dataclass(frozen=True, slots=True)
class Report:
    """An upgrade judged, and everything that its page shows of it; `rows` are its cases, the worst first."""

    judged: JudgedUpgrade
    verdict: str
    rows: tuple[Row, ...]
    sections: tuple[ReportSection, ...]


def report(run: Run, judged: JudgedUpgrade, rules: RuleChanges | None = None) -> Report:
    """The page of `judged`, which is what `run` came to by some policy: its own with changed `rules`."""
    worst_first = rows(judged)
    ordered = by_impact(worst_first, judged.subject.policy)
    others = (_means(judged), *_about_run(judged))
    measured = (_exclusions(judged, ordered), _differences(judged), _how(judged), _again(judged, ordered))
    found = (
        _correctness(judged),
        _cases(run, judged, ordered, UpgradeView(run.id, rules or RuleChanges())),
        _to_decide(judged),
        _dispatch(judged, worst_first),
        _kernels(judged, worst_first),
        _screen(judged, worst_first),
        replace(_reasons(judged), group=_WHY),
        *(replace(section, group=_METRICS) for section in others),
        *(replace(section, group=_HOW) for section in measured),
    )
    kept = tuple(section for section in found if section is not None)
    return Report(judged, page_tables.verdict(judged, worst_first), tuple(worst_first), kept)


def _file(judged: JudgedUpgrade, what: str) -> str:
    return f"upgrade-{judged.subject.run}-{what}.csv"


def _reasons(judged: JudgedUpgrade) -> ReportSection:
    table = tables.reasons(judged.subject, judged.upgrade)
    return ReportSection("Reasons, in order of weight", (table,), file=_file(judged, "reasons"))


def _to_decide(judged: JudgedUpgrade) -> ReportSection | None:
    table = _at_most(tables.to_decide(judged.subject, judged.upgrade, _case), MOST_LISTED)
    if not table.rows:
        return None
    takes = markup.paragraph(f"One command for {wording.pairs_to_decide_in_all(table.rows)}.")
    command = markup.code(judged.subject.decide_all(table.rows))
    folded = (f"One by one: {wording.plural(len(table.rows), 'case')}", table)
    file = _file(judged, "to-decide")
    content = (takes, command)
    return ReportSection(
        "What would decide it", content, sentences.TO_DECIDE, file, csv=table, folded=(folded,)
    )


def _correctness(judged: JudgedUpgrade) -> ReportSection | None:
    table = _at_most(tables.correctness(judged.subject, judged.upgrade, _case))
    if not table.rows:
        return None
    return ReportSection("Correctness", (table,), file=_file(judged, "correctness"))


def _cases(run: Run, judged: JudgedUpgrade, ordered: Sequence[Row], shown: UpgradeView) -> ReportSection:
    metric = judged.subject.policy.metric
    place = (run.machine.hardware.fingerprint, run.preset.fingerprint)

    def trend(row: Row) -> str:
        return links.trends(metric, *place, row.case, axis="version")

    def case_link(case: str) -> Markup:
        return Markup(markup.opened_case(case, shown.case_address(case)))

    def table(title: str, rows: Sequence[Row]) -> DataTable[Row]:
        cases = tables.cases(judged.subject, judged.upgrade, rows, case_link, trend)
        return _at_most(replace(cases, label=f"Cases: {title}"))

    groups = by_status(ordered)
    content = [
        part
        for title, rows in groups.items()
        if not _is_folded(rows)
        for part in (f'<h3 class="py-sub">{title}</h3>', table(title, rows))
    ]
    drawn = _drawn_cases(judged, ordered)
    about = f"{sentences.about_cases(metric)} {sentences.about_same(judged.subject)}".strip()
    return ReportSection(
        f"What moved: {METRICS[metric].title}",
        tuple(content),
        f"{_order_of_cases(ordered)} {about}{drawn.cut if drawn else ''}",
        _file(judged, "cases"),
        drawn,
        tables.cases(judged.subject, judged.upgrade, ordered),
        tuple((title, table(title, rows)) for title, rows in groups.items() if _is_folded(rows)),
    )


def by_status(ordered: Sequence[Row]) -> dict[str, list[Row]]:
    """Cases in groups of one status, as `2 slower`: what broke, slower, unclear, faster, then all others."""
    found: dict[str, list[Row]] = {}
    for row in ordered:
        found.setdefault(row.status, []).append(row)
    places = [*_GROUPS, *(status for status in found if status not in _GROUPS)]
    groups = (found[status] for status in places if status in found)
    return {f"{len(rows):,} {rows[0].word}": rows for rows in groups}


def _is_folded(rows: Sequence[Row]) -> bool:
    return rows[0].status in _FOLDED


def _case(key: str) -> Markup:
    return Markup(markup.case(key))


def _at_most(table: DataTable[AnyRow], most: int = MOST_ROWS) -> DataTable[AnyRow]:
    return replace(table, most=most)


def _order_of_cases(ordered: Sequence[Row]) -> str:
    """Which cases come first, and why."""
    statuses = [row.status for row in ordered]
    moved = statuses.count("slower") + statuses.count("faster")
    first = "after what broke" if "broken" in statuses else "first"
    if moved:
        return (
            f"{wording.plural(moved, 'case')} moved: those come {first}, the largest impact (weight x "
            "change) before smaller ones."
        )
    if "unclear" in statuses:
        return f"No case moved; the largest changes within the noise come {first}."
    return "No case moved." if "same" in statuses else "Of no case is it known whether it moved."


def _drawn_cases(judged: JudgedUpgrade, ordered: Sequence[Row]) -> IntervalData | None:
    # What is the same is folded below, and would take all the room; what is waived has no part in the mean.
    shown = [row for row in ordered if row.status not in (*_FOLDED, "waived")]
    every = [row for row in shown if row.verdict and row.verdict.change is not None]
    known = every[:_DRAWN]
    if not known:
        return None
    verdicts = [row.verdict for row in known if row.verdict]
    axis = axis_of(verdicts, judged.upgrade.overall)
    drawn = drawn_cases(judged, known, axis)
    first = known[0]
    metric = METRICS[judged.subject.policy.metric].title
    many = wording.plural(len(every), "case")
    many = many if len(known) == len(every) else f"{len(known)} of {many}"
    alt = (
        f"Change of the {metric.lower()}, new against old, of {many} with intervals, in the table's order: "
        f"{dashboard_wording.case(first.case).text} {first.word}, {wording.change(verdicts[0])}"
    )
    return IntervalData(
        drawn, _look(judged, axis, len(drawn)), alt, _limit_note(len(known), len(every), "that come first")
    )


def _limit_note(drawn: int, every: int, which: str) -> str:
    return f" Drawn are the {drawn} {which} of {every:,}; the CSV file has all." if drawn < every else ""


def _look(judged: JudgedUpgrade, axis: ForestAxis, lines: int) -> IntervalStyle:
    policy = judged.subject.policy
    threshold = threshold_of(policy.metric, policy.thresholds).log
    return IntervalStyle(lines, axis, threshold, METRICS[policy.metric].title, *directions(policy.metric))


def _dispatch(judged: JudgedUpgrade, worst_first: Sequence[Row]) -> ReportSection | None:
    if not judged.subject.dispatch:
        return None
    table = _at_most(tables.dispatch(judged.subject, worst_first, _case))
    return ReportSection(
        "What runs differently",
        (table,) if table.rows else (),
        f"{summary_words(judged.subject.dispatch)} {sentences.DISPATCH}",
        _file(judged, "dispatch") if table.rows else "",
    )


def _kernels(judged: JudgedUpgrade, worst_first: Sequence[Row]) -> ReportSection | None:
    table = tables.kernels(judged.subject, worst_first, _case)
    if not table.rows:
        return None
    return ReportSection("GPU kernels", (_at_most(table),), sentences.KERNELS, _file(judged, "kernels"))


def _screen(judged: JudgedUpgrade, worst_first: Sequence[Row]) -> ReportSection | None:
    about = sentences.screen(worst_first)
    if not about:
        return None
    table = _at_most(tables.screening(worst_first, _case))
    return ReportSection(
        "How it was screened",
        (table,) if table.rows else (),
        about,
        _file(judged, "screen") if table.rows else "",
    )


def _means(judged: JudgedUpgrade) -> ReportSection:
    drawn = _drawn_means(judged)
    about = f"{sentences.about_means(judged.subject)} What is left out is listed below."
    return ReportSection(
        "Over all, and by technique",
        (tables.means(judged),),
        f"{about}{drawn.cut if drawn else ''}",
        _file(judged, "techniques"),
        drawn,
    )


def _drawn_means(judged: JudgedUpgrade) -> IntervalData | None:
    upgrade = judged.upgrade
    if len(upgrade.techniques) < 2:
        return None
    axis = _axis_of_means([*upgrade.techniques.values(), upgrade.overall])
    furthest = sorted(upgrade.techniques, key=lambda name: -abs(upgrade.techniques[name].change or 0.0))
    drawn = drawn_means(judged, sorted(furthest[:_DRAWN]), axis)
    many = wording.plural(len(furthest), "technique")
    many = many if len(furthest) <= _DRAWN else f"the {_DRAWN} of {many} that moved most"
    alt = f"Geomeans with intervals of {many}; over all {percent(upgrade.overall.change)}"
    cut = _limit_note(min(_DRAWN, len(furthest)), len(furthest), "that moved most")
    return IntervalData(drawn, _look(judged, axis, len(drawn)), alt, cut)


def _axis_of_means(means: Sequence[Geomean]) -> ForestAxis:
    """As far as the points reach, and their intervals, but for those of a single noisy technique."""
    points = [abs(mean.change) for mean in means if mean.change is not None]
    reaches = sorted(max(abs(mean.low or 0.0), abs(mean.high or 0.0)) for mean in means)
    return ForestAxis(
        max(0.01, 1.08 * max(points, default=0.0), 1.08 * min(reaches[-1], 6 * reaches[len(reaches) // 2]))
    )


def _about_run(judged: JudgedUpgrade) -> list[ReportSection]:
    """Compile time, memory, first call and graph breaks, a section each."""
    found: list[ReportSection] = []
    for title, grouped in groupby(judged.upgrade.tables, key=_title):
        content = [each for table in grouped for each in _metric_table(table, judged.subject.policy)]
        name = title.replace(" ", "-")
        found.append(ReportSection(title.capitalize(), tuple(content), file=_file(judged, name)))
    return found


def _metric_table(table: MetricTable, policy: Policy) -> tuple[str, DataTable[Any]]:
    """The heading of a table of one metric, with how to read it, and the table."""
    about = sentences.about_table(table, policy)
    if missing := without_ratio(table):
        named = ", ".join(missing[:MOST_OTHERS]) + (" …" if len(missing) > MOST_OTHERS else "")
        about += f" Without a ratio: {named}."
    head = Markup('<h3 class="py-sub">{}: {}</h3><p class="py-quiet">{}</p>').format(
        METRICS[table.metric].title, escape_text(sentences.table_summary(table)), escape_text(about)
    )
    rest = "more cases: the CSV file has them."
    return head, replace(tables.metric_table(table, _case), most=MOST_OTHERS, rest=rest)


def _title(table: MetricTable) -> str:
    return table.title


def _exclusions(judged: JudgedUpgrade, ordered: Sequence[Row]) -> ReportSection:
    content: list[Content] = []
    for table in (tables.exclusions(judged.upgrade, _case), tables.pairs_left_out(ordered, _case)):
        if table.rows:
            content.append(f'<h3 class="py-sub">{table.label}: {len(table.rows):,}</h3>')
            content.append(_at_most(table, MOST_LISTED))
    if apart := sentences.not_listed(ordered):
        content.append(f"<p>{escape_text(apart)}</p>")
    if not content:
        content.append("<p>Every case is in the geomean, and every pair counts.</p>")
    return ReportSection("Exclusions", tuple(content), file=_file(judged, "exclusions"))


def _differences(judged: JudgedUpgrade) -> ReportSection:
    table = tables.differences(judged.subject)
    nothing = f"<p>{escape_text(sentences.no_difference(judged.subject))}</p>"
    return ReportSection(
        "What else differs between the environments",
        (table if table.rows else nothing,),
        file=_file(judged, "environments"),
        csv=table,
    )


def _how(judged: JudgedUpgrade) -> ReportSection:
    content = (page_tables.how(judged.subject),)
    return ReportSection("How it was measured", content, sentences.how(judged.subject))


def _again(judged: JudgedUpgrade, ordered: Sequence[Row]) -> ReportSection:
    return ReportSection("Measure a case again", (page_tables.again(judged, ordered),))
