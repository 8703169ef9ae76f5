"""The report as one self-contained page: it opens without a network, without a script, and prints."""

from collections.abc import Sequence
from importlib import resources

from analysis.comparison.case_results import CaseResult
from analysis.comparison.policy import Policy
from analysis.comparison.reasons import Decision
from analysis.comparison.upgrade import Table, Upgrade
from analysis.comparison.verdict import Verdict
from analysis.metrics import METRICS

from . import elements, sentences, wording
from .elements import Cell, ReportColumn
from .forest import forest
from .heatmap import heatmap
from .report_context import Subject, changes
from .rows import (
    Row,
    Tone,
    grid,
    left_out,
    rows,
    sign,
    table_rows,
    techniques,
    tone,
    without_ratio,
)
from .scorecard import entries
from .text import numbers
from .text.reason_text import exclusion, sentence

#: More techniques than this do not fit beside each other.
_WIDEST_GRID = 8
#: A table of more rows than this is folded when the page opens.
_LONG = 12

_DECISION_TONES: dict[Decision, Tone] = {"go": "good", "no-go": "bad", "unclear": "odd"}


def upgrade_html(subject: Subject, results: Sequence[CaseResult], upgrade: Upgrade) -> str:
    """The whole page: decision, reasons, forest plot, grid, tables, and how it was measured.

    Everything that comes from a case, an environment or a command is escaped.
    """
    each = rows(subject, results, upgrade)
    style, script = (_packaged(name) for name in ("page.css", "page.js"))
    title = f"{wording.DECISIONS[upgrade.decision]}: {sentences.title(subject)}"
    body = "".join(
        [
            _header(subject, each, upgrade),
            _so_far(subject),
            _reasons(subject, upgrade),
            _settle(subject, upgrade),
            _correctness(subject, upgrade),
            _plot(subject, each, upgrade),
            _grid(each),
            _cases(subject, each, upgrade),
            _means(subject, results, upgrade),
            _own_tables(upgrade, subject.policy),
            _exclusions(each, upgrade),
            _differences(subject),
            _how(subject),
            _again(subject, each),
        ]
    )
    return (
        '<!doctype html>\n<html lang="en"><head><meta charset="utf-8">'
        '<meta name="viewport" content="width=device-width, initial-scale=1">'
        '<meta name="color-scheme" content="light dark">'
        f"<title>{elements.text(title)}</title>\n<style>\n{style}</style></head>\n"
        f"<body><main>{body}</main>\n<script>\n{script}</script></body></html>\n"
    )


def _packaged(name: str) -> str:
    return resources.files(__package__ or "reports").joinpath(name).read_text(encoding="utf-8")


def _header(subject: Subject, each: Sequence[Row], upgrade: Upgrade) -> str:
    decision = upgrade.decision
    shown = "".join(
        f'<div class="card"><dt>{elements.text(one.title)} '
        f"{elements.chip(one.tone, one.sign, one.state)}</dt><dd><strong>{elements.text(one.value)}</strong>"
        f"{''.join(f'<span>{elements.text(note)}</span>' for note in one.notes)}</dd></div>"
        for one in entries(upgrade.scorecard, subject.policy)
    )
    return (
        '<header><p class="brand"><svg width="18" height="18" viewBox="0 0 26 26" aria-hidden="true">'
        '<rect width="26" height="26" rx="6" fill="#b4450f"/><path d="M4.5 18.5 9 15l4 1.8 4.6-7 4-2.2" '
        'fill="none" stroke="#fff" stroke-width="2.4" stroke-linecap="round" stroke-linejoin="round"/></svg>'
        f"Pyrometer · upgrade</p><h1>{elements.text(subject.old.name)} <span>to</span> "
        f"{elements.text(subject.new.name)}</h1>{elements.paragraph(sentences.place(subject))}"
        f'</header><div class="banner {_DECISION_TONES[decision]}"><p class="decision">'
        f'<span class="sign" aria-hidden="true">{wording.DECISION_SIGNS[decision]}</span>'
        f"{wording.DECISIONS[decision]}</p><p>{elements.text(wording.because(upgrade))}</p></div>"
        f'<dl class="cards">{shown}</dl>{elements.paragraph(sentences.counted(each, upgrade))}'
    )


def _so_far(subject: Subject) -> str:
    so_far, parts = sentences.so_far(subject), list[str]()
    if subject.resume:
        parts.append(elements.paragraph(sentences.GOES_ON))
        parts.append(elements.commands([subject.resume]))
    shown = elements.section("so-far", "Not the last word", elements.paragraph(so_far), *parts)
    return shown if so_far else ""


def _reasons(subject: Subject, upgrade: Upgrade) -> str:
    items = ""
    for reason in upgrade.reasons:
        chip = elements.chip(
            "odd" if reason.warning else _DECISION_TONES[reason.speaks],
            wording.sign(reason),
            wording.speaks(reason),
        )
        again = ""
        if reason.cases:
            many = len(reason.cases)
            summary = "measure it again" if many == 1 else f"its {many} cases, to measure again"
            again = elements.details(summary, elements.commands(map(subject.reproduce, reason.cases)))
        items += f"<li>{chip}<div>{elements.text(sentence(reason))}{again}</div></li>"
    return elements.section("reasons", "Reasons, in order of weight", f'<ol class="reasons">{items}</ol>')


def _settle(subject: Subject, upgrade: Upgrade) -> str:
    if not upgrade.settle:
        return ""
    listed = [
        (
            elements.case(one.case),
            elements.text(wording.settling(one)),
            elements.code(subject.settle(one)),
        )
        for one in upgrade.settle
    ]
    columns = (ReportColumn("case"), ReportColumn("what it takes"), ReportColumn("command"))
    return elements.section(
        "settle",
        "What would settle it",
        elements.paragraph(f"{wording.settling_in_all(upgrade.settle)}. {sentences.SETTLE}"),
        elements.table("What would settle it", columns, listed),
    )


def _correctness(subject: Subject, upgrade: Upgrade) -> str:
    listed = [
        (
            elements.case(result.case),
            elements.chip("bad", "✗", "broken") if result.broke else elements.chip("good", "✓", "repaired"),
            _ended(result.old.status, result.old.reason),
            _ended(result.new.status, result.new.reason),
        )
        for result in (*upgrade.broken, *upgrade.repaired)
    ]
    columns = (
        ReportColumn("case"),
        ReportColumn(""),
        ReportColumn(subject.old.name),
        ReportColumn(subject.new.name),
    )
    body = (
        elements.table("Cases that broke or were repaired", columns, listed)
        if listed
        else elements.paragraph("No case broke, and none was repaired.")
    )
    return elements.section("correctness", "Correctness", body)


def _ended(status: str, reason: str) -> str:
    return f'<div class="reason"><b>{elements.text(status)}</b> {elements.text(reason)}</div>'


def _plot(subject: Subject, each: Sequence[Row], upgrade: Upgrade) -> str:
    about, metric = sentences.about_plot(subject, upgrade), subject.policy.metric
    return elements.section(
        "plot", "Every case", elements.paragraph(about), forest(metric, each, upgrade.overall)
    )


def _grid(each: Sequence[Row]) -> str:
    found = grid(each, _WIDEST_GRID)
    return elements.section("grid", "By workload and technique", heatmap(found)) if found else ""


def _cases(subject: Subject, each: Sequence[Row], upgrade: Upgrade) -> str:
    metric = subject.policy.metric
    columns = (
        *_heads(metric),
        ReportColumn(sentences.interval_heading(subject, upgrade), number=True),
        ReportColumn("n", number=True),
        ReportColumn("verdict"),
        ReportColumn("visible from", number=True),
    )
    listed = [(elements.case(row.case), *_of_case(row)) for row in each]
    return elements.section(
        "cases",
        f"{METRICS[metric].title}, case by case",
        elements.paragraph(sentences.about_cases(metric)),
        elements.table("All cases", columns, listed, sortable=True),
    )


def _of_case(row: Row) -> tuple[str | Cell, ...]:
    judged = row.verdict
    reason = _reason_cell(row.standing, row.summary)
    if judged is None:
        return (*[numbers.NONE] * 4, "0", reason, numbers.NONE)
    return (
        *_values(judged),
        wording.interval(judged.low, judged.high),
        str(judged.n),
        reason,
        Cell(wording.within(judged.smallest), judged.smallest),
    )


def _heads(metric: str) -> tuple[ReportColumn, ...]:
    numbers = (*wording.headings(metric), "change")
    return (ReportColumn("case"), *(ReportColumn(title, number=True) for title in numbers))


def _reason_cell(standing: str, summary: str) -> str:
    marked = f'<span aria-hidden="true">{sign(standing)}</span> {elements.text(summary)}'
    return f'<div class="reason {tone(standing)}">{marked}</div>'


def _values(judged: Verdict) -> tuple[Cell, Cell, Cell]:
    metric = judged.metric
    return (
        Cell(wording.number(metric, judged.old), judged.old),
        Cell(wording.number(metric, judged.new), judged.new),
        Cell(wording.change(judged), judged.change),
    )


def _means(subject: Subject, results: Sequence[CaseResult], upgrade: Upgrade) -> str:
    overall = upgrade.overall
    every = [(elements.text("all"), overall, len(upgrade.exclusions))]
    every += [
        (elements.code(row.technique), row.mean, len(row.excluded)) for row in techniques(results, upgrade)
    ]
    columns = (
        ReportColumn("technique"),
        ReportColumn("geomean", number=True),
        ReportColumn(wording.confidence(overall), number=True),
        ReportColumn("cases", number=True),
        ReportColumn("pairs", number=True),
        ReportColumn("left out", number=True),
    )
    listed = [
        (
            name,
            numbers.percent(mean.change) if mean else numbers.NONE,
            wording.interval(mean.low, mean.high) if mean else numbers.NONE,
            str(mean.cases if mean else 0),
            str(mean.pairs if mean else 0),
            str(excluded),
        )
        for name, mean, excluded in every
    ]
    return elements.section(
        "means",
        "Over all, and by technique",
        elements.paragraph(f"{sentences.about_means(subject)} What is left out is listed below."),
        elements.table("Geomeans", columns, listed),
    )


def _own_tables(upgrade: Upgrade, policy: Policy) -> str:
    if not upgrade.tables:
        return ""
    parts = [_own_table(table, policy) for table in upgrade.tables]
    return elements.section("others", "Compile time, memory, first call, graph breaks", *parts)


def _own_table(table: Table, policy: Policy) -> str:
    columns = (
        *_heads(table.metric),
        ReportColumn("interval", number=True),
        ReportColumn("n", number=True),
        ReportColumn("verdict"),
    )
    listed = [
        (
            elements.case(case),
            *_values(judged),
            wording.interval(judged.low, judged.high),
            str(judged.n),
            _reason_cell(judged.word, wording.verdict(judged)),
        )
        for case, judged in table_rows(table)
    ]
    about = [elements.paragraph(sentences.about_table(table, policy))]
    if missing := without_ratio(table):
        about.append(elements.paragraph(f"Without a ratio: {', '.join(missing)}."))
    summary = f"{sentences.table_title(table)}: {sentences.table_summary(table)}"
    return elements.details(summary, *about, elements.table(table.title, columns, listed, sortable=True))


def _exclusions(each: Sequence[Row], upgrade: Upgrade) -> str:
    columns = (ReportColumn("case"), ReportColumn("why"))
    whole = [(elements.case(one.case), _reason(exclusion(one))) for one in upgrade.exclusions]
    pairs = [(elements.case(case), _reason(why)) for case, why in left_out(each)]
    parts = [elements.paragraph("Every case is in the geomean.")] if not whole else []
    for title, listed in (("Cases in no geomean", whole), ("Pairs that do not count", pairs)):
        if listed:
            table = elements.table(title, columns, listed)
            parts.append(elements.details(f"{title}: {len(listed)}", table, opened=len(listed) <= _LONG))
    return elements.section("exclusions", "Exclusions", *parts)


def _reason(why: str) -> str:
    return f'<div class="reason">{elements.text(why)}</div>'


def _differences(subject: Subject) -> str:
    found = changes(subject.old, subject.new)
    title = "What differs between the environments"
    if not found:
        no_difference = elements.paragraph(sentences.no_difference(subject))
        return elements.section("environments", title, no_difference)
    columns = (ReportColumn("what"), ReportColumn(subject.old.name), ReportColumn(subject.new.name))
    listed = [
        (
            elements.text(one.what),
            elements.text(one.old) or numbers.NONE,
            elements.text(one.new) or numbers.NONE,
        )
        for one in found
    ]
    table = elements.table(title, columns, listed)
    summary = wording.plural(len(found), "difference")
    return elements.section(
        "environments", title, elements.details(summary, table, opened=len(found) <= _LONG)
    )


def _how(subject: Subject) -> str:
    facts = "".join(
        f"<div><dt>{elements.text(name)}</dt><dd>{elements.text(value)}</dd></div>"
        for name, value in sentences.facts(subject)
    )
    notes = f"<h3>Notes</h3>{elements.listed(subject.notes)}" if subject.notes else ""
    return elements.section(
        "how",
        "How it was measured",
        elements.paragraph(sentences.how(subject), "wide"),
        f'<dl class="facts">{facts}</dl>{notes}<h3>The rules it was judged by</h3>',
        elements.listed(sentences.rules(subject)),
    )


def _again(subject: Subject, each: Sequence[Row]) -> str:
    commands = elements.commands(subject.reproduce(row.case) for row in each)
    summary = f"The command of every case: {len(each)}"
    return elements.section("again", "Measure a case again", elements.details(summary, commands))
