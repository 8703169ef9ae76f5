"""The sections of the page of an upgrade in order, each with title, HTML, CSV file and chart."""

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


def drawn_cases(judgement: JudgedUpgrade, rows: Sequence[Row], axis: ForestAxis) -> pd.DataFrame:
    """The data of `charts.intervals` for cases with a ratio, and their geomean last."""
    matches = [
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
    overall = judgement.upgrade.overall
    if overall.change is not None:
        label = f"geomean over {wording.plural(overall.cases, 'case')}"
        matches.append(_drawn_mean(axis, label, overall))
    return _number_rows(matches)


def drawn_means(judgement: JudgedUpgrade, names: Sequence[str], axis: ForestAxis) -> pd.DataFrame:
    """The data of `charts.intervals` for the geomeans of these techniques, that over all cases last."""
    upgrade = judgement.upgrade
    means = [*((name, upgrade.techniques[name]) for name in names), ("all", upgrade.overall)]
    labels = [(f"{name}, {wording.plural(mean.cases, 'case')}", mean) for name, mean in means]
    return _number_rows([_drawn_mean(axis, label, mean) for label, mean in labels if mean.change is not None])


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
    """One line of the chart: values beyond its axis are drawn at the edge, with the true value as text."""
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

#: The most lines of a chart, besides that of the geomean.
_DRAWN = 15
#: The title under which sections are folded together.
_WHY, _METRICS, _HOW = "Why: every reason", "By technique, and other metrics", "How it was measured"
#: Groups of cases in the order of the page, and whether they are folded.
_GROUPS = ("broken", "slower", "unclear", "faster", "repaired")
_FOLDED = ("same",)


@dataclass(frozen=True, slots=True)
class IntervalData:
    """A chart of `charts.intervals`: its data, its shape, and its description.

    `cut` is a sentence, after a blank, about lines that are left out; empty if there are none.
    """

    rows: pd.DataFrame
    look: IntervalStyle
    alt: str
    cut: str


#: The content of a section below its chart: a table, or HTML.
Content = DataTable[Any] | str


@dataclass(frozen=True, slots=True)
class ReportSection:
    """A part of the page: its title, `about` as plain text, a chart, tables and HTML.

    The CSV file `file` holds the rows of `csv`, or of the section's tables. `folded` are folded tables by
    title. Sections of one `group` are folded together under that name.
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
        """The rows of the CSV file."""
        return [self.csv] if self.csv else [each for each in self.content if isinstance(each, DataTable)]


@dataclass(frozen=True, slots=True)
class Report:
    """A judged upgrade with the content of its page; `rows` are its cases, worst first."""

    judged: JudgedUpgrade
    verdict: str
    rows: tuple[Row, ...]
    sections: tuple[ReportSection, ...]


def report(run: Run, judgement: JudgedUpgrade, rules: RuleChanges | None = None) -> Report:
    """The page of `judgement`, the result of `run` under its policy with changed `rules`."""
    worst_first = rows(judgement)
    in_order = by_impact(worst_first, judgement.subject.policy)
    others = (_means(judgement), *_about_run(judgement))
    about_run = (
        _exclusions(judgement, in_order),
        _differences(judgement),
        _how(judgement),
        _again(judgement, in_order),
    )
    result = (
        _correctness(judgement),
        _cases(run, judgement, in_order, UpgradeView(run.id, rules or RuleChanges())),
        _to_decide(judgement),
        _dispatch(judgement, worst_first),
        _kernels(judgement, worst_first),
        _screen(judgement, worst_first),
        replace(_reasons(judgement), group=_WHY),
        *(replace(section, group=_METRICS) for section in others),
        *(replace(section, group=_HOW) for section in about_run),
    )
    sections = tuple(section for section in result if section is not None)
    return Report(judgement, page_tables.verdict(judgement, worst_first), tuple(worst_first), sections)


def _file(judgement: JudgedUpgrade, what: str) -> str:
    return f"upgrade-{judgement.subject.run}-{what}.csv"


def _reasons(judgement: JudgedUpgrade) -> ReportSection:
    table = tables.reasons(judgement.subject, judgement.upgrade)
    return ReportSection("Reasons, in order of weight", (table,), file=_file(judgement, "reasons"))


def _to_decide(judgement: JudgedUpgrade) -> ReportSection | None:
    table = _at_most(tables.to_decide(judgement.subject, judgement.upgrade, _case), MOST_LISTED)
    if not table.rows:
        return None
    takes = markup.paragraph(f"One command for {wording.pairs_to_decide_in_all(table.rows)}.")
    command = markup.code(judgement.subject.decide_all(table.rows))
    fold = (f"One by one: {wording.plural(len(table.rows), 'case')}", table)
    file = _file(judgement, "to-decide")
    content = (takes, command)
    return ReportSection(
        "What would decide it", content, sentences.TO_DECIDE, file, csv=table, folded=(fold,)
    )


def _correctness(judgement: JudgedUpgrade) -> ReportSection | None:
    table = _at_most(tables.correctness(judgement.subject, judgement.upgrade, _case))
    if not table.rows:
        return None
    return ReportSection("Correctness", (table,), file=_file(judgement, "correctness"))


def _cases(
    run: Run, judgement: JudgedUpgrade, ordered: Sequence[Row], selection: UpgradeView
) -> ReportSection:
    metric = judgement.subject.policy.metric
    place = (run.machine.hardware.fingerprint, run.preset.fingerprint)

    def trend(row: Row) -> str:
        return links.trends(metric, *place, row.case, axis="version")

    def case_link(case: str) -> Markup:
        return Markup(markup.opened_case(case, selection.case_address(case)))

    def table(title: str, rows: Sequence[Row]) -> DataTable[Row]:
        cases = tables.cases(judgement.subject, judgement.upgrade, rows, case_link, trend)
        return _at_most(replace(cases, label=f"Cases: {title}"))

    groups = by_status(ordered)
    content = [
        part
        for title, rows in groups.items()
        if not _is_folded(rows)
        for part in (f'<h3 class="py-sub">{title}</h3>', table(title, rows))
    ]
    chart_data = _drawn_cases(judgement, ordered)
    about = f"{sentences.about_cases(metric)} {sentences.about_same(judgement.subject)}".strip()
    return ReportSection(
        f"What moved: {METRICS[metric].title}",
        tuple(content),
        f"{_order_of_cases(ordered)} {about}{chart_data.cut if chart_data else ''}",
        _file(judgement, "cases"),
        chart_data,
        tables.cases(judgement.subject, judgement.upgrade, ordered),
        tuple((title, table(title, rows)) for title, rows in groups.items() if _is_folded(rows)),
    )


def by_status(ordered: Sequence[Row]) -> dict[str, list[Row]]:
    """Cases in groups of one status, as `2 slower`: broken, slower, unclear, faster, then all others."""
    by_status_word: dict[str, list[Row]] = {}
    for row in ordered:
        by_status_word.setdefault(row.status, []).append(row)
    places = [*_GROUPS, *(status for status in by_status_word if status not in _GROUPS)]
    groups = (by_status_word[status] for status in places if status in by_status_word)
    return {f"{len(rows):,} {rows[0].word}": rows for rows in groups}


def _is_folded(rows: Sequence[Row]) -> bool:
    return rows[0].status in _FOLDED


def _case(key: str) -> Markup:
    return Markup(markup.case(key))


def _at_most(table: DataTable[AnyRow], most: int = MOST_ROWS) -> DataTable[AnyRow]:
    return replace(table, most=most)


def _order_of_cases(rows: Sequence[Row]) -> str:
    """The explanation of the order of cases."""
    statuses = [row.status for row in rows]
    count = statuses.count("slower") + statuses.count("faster")
    first = "after what broke" if "broken" in statuses else "first"
    if count:
        return (
            f"{wording.plural(count, 'case')} changed: those come {first}, in the order of impact (weight x "
            f"change)."
        )
    if "unclear" in statuses:
        return f"No case changed; the largest changes within the noise come {first}."
    return "No case moved." if "same" in statuses else "No case has a verdict."


def _drawn_cases(judgement: JudgedUpgrade, rows: Sequence[Row]) -> IntervalData | None:
    # What is the same is folded below, and would take all the room; what is waived has no part in the mean.
    shown = [row for row in rows if row.status not in (*_FOLDED, "waived")]
    every = [row for row in shown if row.verdict and row.verdict.change is not None]
    rows_with_ratio = every[:_DRAWN]
    if not rows_with_ratio:
        return None
    verdicts = [row.verdict for row in rows_with_ratio if row.verdict]
    axis = axis_of(verdicts, judgement.upgrade.overall)
    chart_data = drawn_cases(judgement, rows_with_ratio, axis)
    first = rows_with_ratio[0]
    metric = METRICS[judgement.subject.policy.metric].title
    many = wording.plural(len(every), "case")
    many = many if len(rows_with_ratio) == len(every) else f"{len(rows_with_ratio)} of {many}"
    alt = (
        f"Change of the {metric.lower()}, new against old, of {many} with intervals, in the table's order: "
        f"{dashboard_wording.case(first.case).text} {first.word}, {wording.change(verdicts[0])}"
    )
    return IntervalData(
        chart_data,
        _look(judgement, axis, len(chart_data)),
        alt,
        _limit_note(len(rows_with_ratio), len(every), "that come first"),
    )


def _limit_note(count: int, every: int, which: str) -> str:
    return f" Only the {count} {which} of {every:,} are drawn; the CSV file has all." if count < every else ""


def _look(judgement: JudgedUpgrade, axis: ForestAxis, lines: int) -> IntervalStyle:
    policy = judgement.subject.policy
    threshold = threshold_of(policy.metric, policy.thresholds).log
    return IntervalStyle(lines, axis, threshold, METRICS[policy.metric].title, *directions(policy.metric))


def _dispatch(judgement: JudgedUpgrade, worst_first: Sequence[Row]) -> ReportSection | None:
    if not judgement.subject.dispatch:
        return None
    table = _at_most(tables.dispatch(judgement.subject, worst_first, _case))
    return ReportSection(
        "What runs differently",
        (table,) if table.rows else (),
        f"{summary_words(judgement.subject.dispatch)} {sentences.DISPATCH}",
        _file(judgement, "dispatch") if table.rows else "",
    )


def _kernels(judgement: JudgedUpgrade, worst_first: Sequence[Row]) -> ReportSection | None:
    table = tables.kernels(judgement.subject, worst_first, _case)
    if not table.rows:
        return None
    return ReportSection("GPU kernels", (_at_most(table),), sentences.KERNELS, _file(judgement, "kernels"))


def _screen(judgement: JudgedUpgrade, worst_first: Sequence[Row]) -> ReportSection | None:
    about = sentences.screen(worst_first)
    if not about:
        return None
    table = _at_most(tables.screening(worst_first, _case))
    return ReportSection(
        "How it was screened",
        (table,) if table.rows else (),
        about,
        _file(judgement, "screen") if table.rows else "",
    )


def _means(judgement: JudgedUpgrade) -> ReportSection:
    chart_data = _drawn_means(judgement)
    about = f"{sentences.about_means(judgement.subject)} What is left out is listed below."
    return ReportSection(
        "Over all, and by technique",
        (tables.means(judgement),),
        f"{about}{chart_data.cut if chart_data else ''}",
        _file(judgement, "techniques"),
        chart_data,
    )


def _drawn_means(judgement: JudgedUpgrade) -> IntervalData | None:
    upgrade = judgement.upgrade
    if len(upgrade.techniques) < 2:
        return None
    axis = _axis_of_means([*upgrade.techniques.values(), upgrade.overall])
    furthest = sorted(upgrade.techniques, key=lambda name: -abs(upgrade.techniques[name].change or 0.0))
    chart_data = drawn_means(judgement, sorted(furthest[:_DRAWN]), axis)
    many = wording.plural(len(furthest), "technique")
    many = many if len(furthest) <= _DRAWN else f"the {_DRAWN} of {many} with the largest changes"
    alt = f"Geomeans with intervals of {many}; over all {percent(upgrade.overall.change)}"
    cut = _limit_note(min(_DRAWN, len(furthest)), len(furthest), "that moved most")
    return IntervalData(chart_data, _look(judgement, axis, len(chart_data)), alt, cut)


def _axis_of_means(means: Sequence[Geomean]) -> ForestAxis:
    """The range of the points and their intervals, except that of a single noisy technique."""
    points = [abs(mean.change) for mean in means if mean.change is not None]
    reaches = sorted(max(abs(mean.low or 0.0), abs(mean.high or 0.0)) for mean in means)
    return ForestAxis(
        max(0.01, 1.08 * max(points, default=0.0), 1.08 * min(reaches[-1], 6 * reaches[len(reaches) // 2]))
    )


def _about_run(judgement: JudgedUpgrade) -> list[ReportSection]:
    """Compile time, memory, first call and graph breaks, a section each."""
    results: list[ReportSection] = []
    for title, tables_of_title in groupby(judgement.upgrade.tables, key=_title):
        content = [
            each for table in tables_of_title for each in _metric_table(table, judgement.subject.policy)
        ]
        name = title.replace(" ", "-")
        results.append(ReportSection(title.capitalize(), tuple(content), file=_file(judgement, name)))
    return results


def _metric_table(table: MetricTable, policy: Policy) -> tuple[str, DataTable[Any]]:
    """The heading of a table of one metric, its explanation, and the table."""
    about = sentences.about_table(table, policy)
    if missing := without_ratio(table):
        names = ", ".join(missing[:MOST_OTHERS]) + (" …" if len(missing) > MOST_OTHERS else "")
        about += f" Without a ratio: {names}."
    head = Markup('<h3 class="py-sub">{}: {}</h3><p class="py-quiet">{}</p>').format(
        METRICS[table.metric].title, escape_text(sentences.table_summary(table)), escape_text(about)
    )
    rest = "more cases: the CSV file has them."
    return head, replace(tables.metric_table(table, _case), most=MOST_OTHERS, rest=rest)


def _title(table: MetricTable) -> str:
    return table.title


def _exclusions(judgement: JudgedUpgrade, rows: Sequence[Row]) -> ReportSection:
    content: list[Content] = []
    for table in (tables.exclusions(judgement.upgrade, _case), tables.pairs_left_out(rows, _case)):
        if table.rows:
            content.append(f'<h3 class="py-sub">{table.label}: {len(table.rows):,}</h3>')
            content.append(_at_most(table, MOST_LISTED))
    if apart := sentences.not_listed(rows):
        content.append(f"<p>{escape_text(apart)}</p>")
    if not content:
        content.append("<p>Every case is in the geomean, and every pair counts.</p>")
    return ReportSection("Exclusions", tuple(content), file=_file(judgement, "exclusions"))


def _differences(judgement: JudgedUpgrade) -> ReportSection:
    table = tables.differences(judgement.subject)
    nothing = f"<p>{escape_text(sentences.no_difference(judgement.subject))}</p>"
    return ReportSection(
        "What else differs between the environments",
        (table if table.rows else nothing,),
        file=_file(judgement, "environments"),
        csv=table,
    )


def _how(judgement: JudgedUpgrade) -> ReportSection:
    content = (page_tables.how(judgement.subject),)
    return ReportSection("How it was measured", content, sentences.how(judgement.subject))


def _again(judgement: JudgedUpgrade, rows: Sequence[Row]) -> ReportSection:
    return ReportSection("Measure a case again", (page_tables.again(judgement, rows),))
