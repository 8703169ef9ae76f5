"""The tables of an upgrade: their columns, the same in the reports, on the page and in its CSV files."""

import math
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import TypeVar

from markupsafe import Markup

from analysis.comparison.case_results import CaseResult
from analysis.comparison.screening import ScreenedCase
from analysis.comparison.verdict import Verdict
from analysis.decision.reasons import Reason
from analysis.decision.upgrade import Table as MetricTable
from analysis.decision.upgrade import Upgrade
from analysis.decision.what_would_decide import PairsToDecide
from analysis.dispatch_difference import CaseDifference
from analysis.geomean import Geomean
from analysis.kernel_difference import CaseKernels, Kernel, KernelChange
from analysis.kernel_difference import stored_kernels as kernels_of
from analysis.metrics import METRICS
from analysis.ratios import ratio, share
from records.outcomes import Outcome

from . import sentences, wording
from .report_context import EnvironmentChange, JudgedUpgrade, Subject, changes
from .rows import Row, impact, left_out, sign, table_rows, techniques, tone
from .scorecard import Entry
from .table import Column, DataTable
from .text import numbers
from .text.dispatch_text import case_words, warning_words
from .text.numbers import NONE
from .text.reason_text import exclusion, sentence
from .text.templates import case as whole_case
from .text.templates import chip, code, escape_text
from .text.verdict_text import ran_alone, side_reason

AnyRow = TypeVar("AnyRow")

#: The HTML of a case key.
CaseFormat = Callable[[str], Markup]

#: A technique, or nothing for all of them; its geomean; cases that are left out.
MeanRow = tuple[str, Geomean | None, int]
#: A case and its verdict, or the reason why it is left out.
VerdictRow = tuple[str, Verdict]
ReasonRow = tuple[str, str]
#: What runs differently in a case, and how it was judged.
DispatchRow = tuple[CaseDifference, Row | None]
#: A case and one of its kernels.
CaseKernel = tuple[str, KernelChange]

#: Commands shown below a reason at most.
_MOST_COMMANDS = 20
#: Changes of one case shown at most; the JSON has more.
_MOST_CHANGES = 6
#: A smaller difference of a kernel, in microseconds a step, is 0.0 in every report.
_VISIBLE_US = 0.05


def case_column(of: Callable[[AnyRow], str], case: CaseFormat = whole_case) -> Column[AnyRow]:
    """The column of case keys."""
    return Column("case", "Case", of, lambda row: case(of(row)))


def reason_text(words: str, kind: str = "") -> Markup:
    """A sentence in a cell, which is broken into lines."""
    return Markup('<span class="py-reason{}">{}</span>').format(kind and f" {kind}", escape_text(words))


def commands(lines: Iterable[str], many: int, most: int = _MOST_COMMANDS) -> Markup:
    """The first `most` of `many` commands, a line each, and how many are left out."""
    visible = [line for line, _ in zip(lines, range(most), strict=False)]
    body = Markup("<pre><code>{}</code></pre>").format(Markup("\n").join(map(escape_text, visible)))
    if many <= len(visible):
        return body
    more = f"and {many - len(visible):,} more commands: the report has them."
    return body + Markup('<p class="py-quiet">{}</p>').format(more)


def details_element(summary: str, body: Markup) -> Markup:
    """What opens with a click."""
    return Markup('<details class="py-more"><summary>{}</summary>{}</details>').format(
        escape_text(summary), body
    )


def scorecard(listed: Sequence[Entry]) -> DataTable[Entry]:
    """The four metrics: number, state and notes."""
    return DataTable(
        "Metrics",
        [
            Column("metric", "", lambda one: one.title),
            Column("value", "New against old", lambda one: one.value),
            Column("state", "By the policy", lambda one: one.state, lambda one: f"{one.sign} {one.state}"),
            Column("", "About it", format=lambda one: ". ".join(one.notes)),
        ],
        listed,
    )


def reasons(subject: Subject, upgrade: Upgrade) -> DataTable[Reason]:
    """The reasons for each decision, the heaviest first, with the commands that measure them again."""

    def why(one: Reason) -> Markup:
        text = reason_text(sentence(one), "py-long")
        if not one.cases:
            return text
        many = len(one.cases)
        summary = "measure it again" if many == 1 else f"its {many:,} cases, to measure again"
        return text + details_element(summary, commands(map(subject.reproduce, one.cases), many))

    def speaks(one: Reason) -> Markup:
        colour = "odd" if one.warning else wording.DECISION_TONES[one.speaks]
        return chip(colour, wording.sign(one), wording.speaks(one))

    columns: list[Column[Reason]] = [
        Column("speaks_for", "Speaks for", lambda one: one.speaks, speaks),
        Column("kind", value=lambda one: one.kind),
        Column("reason", "Why", sentence, why),
        Column("metric", value=lambda one: one.metric),
        Column("cases", value=lambda one: " ".join(one.cases)),
    ]
    return DataTable("Reasons", columns, upgrade.reasons)


def to_decide(subject: Subject, upgrade: Upgrade, case: CaseFormat = whole_case) -> DataTable[PairsToDecide]:
    """What would decide an unclear upgrade: new pairs of each case, minutes and the command."""
    columns: list[Column[PairsToDecide]] = [
        case_column(lambda one: one.case, case),
        Column("pairs", "What it takes", lambda one: one.pairs, wording.pairs_to_decide),
        Column("minutes", value=lambda one: one.minutes),
        Column("because", value=lambda one: one.why),
        Column("command", "Command", subject.to_decide, lambda one: code(subject.to_decide(one))),
    ]
    return DataTable("What would decide it", columns, subject.cases_to_decide(upgrade), tall=True)


def correctness(subject: Subject, upgrade: Upgrade, case: CaseFormat = whole_case) -> DataTable[CaseResult]:
    """What broke and what was repaired, with how it ended on either side."""

    def what(one: CaseResult) -> str:
        return "broken" if one.broke else "repaired"

    def ending_cell(status: str, reason: str) -> Markup:
        return Markup('<span class="py-reason"><strong>{}</strong> {}</span>').format(
            escape_text(status), escape_text(reason)
        )

    columns: list[Column[CaseResult]] = [
        Column(
            "what",
            "",
            what,
            lambda one: chip("bad", "✗", "broken") if one.broke else chip("good", "✓", "repaired"),
        ),
        Column(
            "old_status",
            subject.old.name,
            lambda one: one.old.status,
            lambda one: ending_cell(one.old.status, side_reason(one.old)),
        ),
        Column("old_reason", value=lambda one: side_reason(one.old)),
        Column(
            "new_status",
            subject.new.name,
            lambda one: one.new.status,
            lambda one: ending_cell(one.new.status, side_reason(one.new)),
        ),
        Column("new_reason", value=lambda one: side_reason(one.new)),
    ]
    columns = [case_column(lambda one: one.case, case), *columns]
    return DataTable(
        "Cases that broke or were repaired", columns, (*upgrade.broken, *upgrade.repaired), tall=True
    )


def cases(
    subject: Subject,
    upgrade: Upgrade,
    rows: Sequence[Row],
    case: CaseFormat = whole_case,
    trend: Callable[[Row], str] | None = None,
) -> DataTable[Row]:
    """Cases with both numbers, the change, its interval, n, the verdict and what could have been seen.

    In CSV files ratios are new / old, `smallest_visible` and `threshold` shares, `impact` is weight x
    log(new / old), above 0 where it is worse. `trend` is the address of a case's history.
    """
    policy, metric = subject.policy, subject.policy.metric

    def case_cell(row: Row) -> Markup:
        weight = policy.weight(row.case)
        counts = [f"counts {weight:g} times"] if weight != 1 else []
        counts += ["must not regress"] if policy.guards(row.case) else []
        small = Markup("<small>{}</small>").format(", ".join(counts)) if counts else Markup()
        return case(row.case) + small

    def visible(row: Row) -> str:
        return wording.within(row.verdict.smallest) if row.verdict else NONE

    columns: list[Column[Row]] = [
        Column("case", "Case", lambda row: row.case, case_cell),
        Column("technique", value=lambda row: row.result.technique),
        Column("status", value=lambda row: row.status),
        *_judged_columns(metric, lambda row: row.verdict, sentences.interval_heading(subject, upgrade)),
        Column("summary", "Verdict", lambda row: row.summary, lambda row: _verdict(row.status, row.summary)),
        Column("", "Visible from", lambda row: row.verdict and row.verdict.smallest, visible, number=True),
        Column("weight", value=lambda row: policy.weight(row.case)),
        Column("impact", value=lambda row: impact(row, policy)),
        Column("ran_alone", value=lambda row: ran_alone(row.result)),
        Column("old_status", value=lambda row: row.result.old.status),
        Column("old_reason", value=lambda row: side_reason(row.result.old)),
        Column("new_status", value=lambda row: row.result.new.status),
        Column("new_reason", value=lambda row: side_reason(row.result.new)),
        Column("reproduce", value=lambda row: subject.reproduce(row.case)),
    ]
    if trend is not None:
        columns.append(Column("", "", format=lambda row: "Trend\u00a0→", link=trend))
    return DataTable("Every case", columns, rows, tall=True)


def means(judged: JudgedUpgrade) -> DataTable[MeanRow]:
    """The geomean over all and by technique; in CSV files ratios are new / old."""
    overall = judged.upgrade.overall
    rows: list[MeanRow] = [("", overall, len(judged.results) - overall.cases)]
    rows += [(row.technique, row.mean, row.left_out) for row in techniques(judged)]

    def name(row: MeanRow) -> Markup:
        return code(row[0]) if row[0] else Markup("<strong>all</strong>")

    def interval(row: MeanRow) -> str:
        return wording.interval(row[1].low, row[1].high) if row[1] else NONE

    def percent(row: MeanRow) -> Markup:
        return _strong(numbers.percent(row[1].change) if row[1] else NONE)

    def typical(row: MeanRow) -> str:
        found = row[1].typical if row[1] else None
        return f"{numbers.percent(found[0])} [{wording.interval(found[1], found[2])}]" if found else NONE

    def typical_ratio(row: MeanRow) -> float | None:
        return ratio(row[1].typical[0]) if row[1] and row[1].typical else None

    def mean_count(what: Callable[[Geomean], int]) -> Callable[[MeanRow], int]:
        return lambda row: what(row[1]) if row[1] else 0

    columns: list[Column[MeanRow]] = [
        Column("technique", "Technique", lambda row: row[0] or "all", name),
        Column("ratio", "Geomean", lambda row: row[1] and ratio(row[1].change), percent, number=True),
        Column("ratio_low", value=lambda row: row[1] and ratio(row[1].low)),
        Column("ratio_high", value=lambda row: row[1] and ratio(row[1].high)),
        Column("", _capital(wording.confidence(overall)), format=interval, number=True),
        Column("confidence", value=lambda row: row[1] and row[1].confidence),
        Column("random_effects", "Random-effects mean", typical_ratio, typical, number=True),
        Column("cases", "Cases", mean_count(lambda mean: mean.cases), number=True),
        Column("pairs", "Pairs", mean_count(lambda mean: mean.pairs), number=True),
        Column("left_out", "Left out", lambda row: row[2], number=True),
    ]
    return DataTable("Geomeans", columns, rows, tall=True)


def metric_table(table: MetricTable, case: CaseFormat = whole_case) -> DataTable[VerdictRow]:
    """The verdicts on one metric that does not decide, what moved first."""
    columns: list[Column[VerdictRow]] = [
        case_column(lambda row: row[0], case),
        *_judged_columns(table.metric, lambda row: row[1], "interval"),
        Column("", "Verdict", format=lambda row: _verdict(row[1].word, wording.verdict(row[1]))),
    ]
    return DataTable(METRICS[table.metric].title, columns, table_rows(table), tall=True)


def exclusions(upgrade: Upgrade, case: CaseFormat = whole_case) -> DataTable[ReasonRow]:
    """Cases that are in no geomean, with the reasons."""
    rows = [(one.case, exclusion(one)) for one in upgrade.exclusions]
    return _because("Cases in no geomean", rows, case)


def pairs_left_out(rows: Sequence[Row], case: CaseFormat = whole_case) -> DataTable[ReasonRow]:
    """Pairs that do not count, with the reasons."""
    return _because("Pairs that do not count", left_out(rows), case)


def _because(title: str, rows: Sequence[ReasonRow], case: CaseFormat) -> DataTable[ReasonRow]:
    what = "case" if title.startswith("Cases") else "pairs"
    columns: list[Column[ReasonRow]] = [
        Column("what", value=lambda row: what),
        case_column(lambda row: row[0], case),
        Column("reason", "Why", lambda row: row[1], lambda row: reason_text(row[1], "py-long")),
    ]
    return DataTable(title, columns, rows, tall=True)


def differences(subject: Subject) -> DataTable[EnvironmentChange]:
    """What the new environment has other than the old."""
    columns: list[Column[EnvironmentChange]] = [
        Column("what", "What", lambda one: one.what),
        Column("old", subject.old.name, lambda one: one.old),
        Column("new", subject.new.name, lambda one: one.new),
    ]
    found = changes(subject.old, subject.new)
    return DataTable("What differs between the environments", columns, found, tall=True, folded=False)


def dispatch(subject: Subject, each: Sequence[Row], case: CaseFormat = whole_case) -> DataTable[DispatchRow]:
    """What runs differently, case by case: those that moved first, each with its verdict."""
    rows = {row.case: row for row in each}
    moved = ("broken", "slower", "faster", "repaired")
    found = [(one, rows.get(one.case)) for one in subject.dispatch if one.changed or one.difference is None]
    found.sort(key=lambda pair: not (pair[1] and pair[1].status in moved))
    columns: list[Column[DispatchRow]] = [
        case_column(lambda row: row[0].case, case),
        Column("verdict", "Verdict", lambda row: row[1].status if row[1] else ""),
        Column("warnings", "Warnings", lambda row: warning_words(row[0])),
        Column(
            "changes",
            "What runs differently",
            lambda row: "; ".join(case_words(row[0], _MOST_CHANGES)),
            lambda row: reason_text("; ".join(case_words(row[0], _MOST_CHANGES)), "py-long"),
        ),
    ]
    return DataTable("What runs differently", columns, found, tall=True)


def moved_kernels(subject: Subject, each: Iterable[Row]) -> list[tuple[Row, tuple[KernelChange, ...]]]:
    """The cases that became slower or faster and have kernels on both sides, with those that differ."""
    moved = {row.case: row for row in each if row.status in ("slower", "faster")}
    return [(moved[case], changes) for case, changes in _differing(subject.kernels, moved)]


def kernels(subject: Subject, each: Iterable[Row], case: CaseFormat = whole_case) -> DataTable[CaseKernel]:
    """The kernels that differ most in each case that became slower or faster."""
    return kernels_of_cases(subject.kernels, [row.case for row, _ in moved_kernels(subject, each)], case)


def kernels_of_cases(
    kernels: Iterable[CaseKernels], cases: Iterable[str], case: CaseFormat = whole_case
) -> DataTable[CaseKernel]:
    """The kernels that differ most in each of these cases, in their order."""
    found = [
        (one, change) for one, changes in _differing(kernels, cases) for change in changes[:_MOST_CHANGES]
    ]
    columns: list[Column[CaseKernel]] = [
        case_column(lambda row: row[0], case),
        *_kernel_columns(lambda row: row[1]),
    ]
    return DataTable("GPU kernels", columns, found, tall=True)


def _differing(
    kernels: Iterable[CaseKernels], cases: Iterable[str]
) -> Iterator[tuple[str, tuple[KernelChange, ...]]]:
    """Of each of these cases that has kernels on both sides, those that differ, where any do."""
    changes = {one.case: one.changes for one in kernels}
    for case in cases:
        if found := tuple(one for one in changes.get(case, ()) if abs(one.difference_us) >= _VISIBLE_US):
            yield case, found


def kernels_of_case(kernels: Iterable[CaseKernels], case: str) -> DataTable[CaseKernel]:
    """Every kernel of one case on both sides."""
    found = [(case, change) for one in kernels if one.case == case for change in one.changes]
    return DataTable("GPU kernels", _kernel_columns(lambda row: row[1]), found, tall=True)


def stored_kernels(outcomes: Iterable[Outcome]) -> DataTable[Kernel]:
    """The kernels of one case in one environment, by the median over its processes."""
    found = kernels_of(outcomes)
    total = math.fsum(one.us for one in found) or 1.0
    columns: list[Column[Kernel]] = [
        Column("kernel", "Kernel", lambda one: one.name, lambda one: reason_text(one.name, "py-long")),
        Column("calls", "Calls a step", lambda one: one.calls, lambda one: f"{one.calls:g}", number=True),
        Column("us", "µs a step", lambda one: one.us, lambda one: f"{one.us:,.1f}", number=True),
        Column(
            "share",
            "Share",
            lambda one: one.us / total,
            lambda one: f"{100 * one.us / total:.1f} %",
            number=True,
            help="Of the time of these kernels together",
        ),
    ]
    return DataTable("GPU kernels", columns, found, tall=True)


def kernel_words(change: KernelChange) -> str:
    """A kernel that differs, as a line: what became of it, by how much, and its name."""
    times = f"{change.before_us:,.1f} → {change.after_us:,.1f} µs a step ({change.difference_us:+,.1f})"
    return f"[{change.word}] {times}: {change.name}"


def _kernel_columns(of: Callable[[CaseKernel], KernelChange]) -> list[Column[CaseKernel]]:
    def number(
        name: str, label: str | None, value: Callable[[KernelChange], float], form: str
    ) -> Column[CaseKernel]:
        return Column(
            name, label, lambda row: value(of(row)), lambda row: format(value(of(row)), form), number=True
        )

    return [
        Column(
            "kernel", "Kernel", lambda row: of(row).name, lambda row: reason_text(of(row).name, "py-long")
        ),
        Column("change", "Change", lambda row: of(row).word),
        number("before_us", "Before (µs a step)", lambda one: one.before_us, ",.1f"),
        number("after_us", "After (µs a step)", lambda one: one.after_us, ",.1f"),
        number("difference_us", "Difference", lambda one: one.difference_us, "+,.1f"),
        number("calls_before", "Calls before", lambda one: one.calls_before, "g"),
        number("calls_after", "Calls after", lambda one: one.calls_after, "g"),
    ]


def screening(each: Sequence[Row], case: CaseFormat = whole_case) -> DataTable[tuple[str, ScreenedCase]]:
    """The cases that went on from a screen to full pairs, each with the reason and its short pairs.

    What fails comes first, then what looks slowest.
    """
    found = [
        (row.case, row.result.screen) for row in each if row.result.screen and row.result.screen.selection
    ]
    found.sort(key=lambda row: row[1].priority, reverse=True)
    columns: list[Column[tuple[str, ScreenedCase]]] = [
        case_column(lambda row: row[0], case),
        Column(
            "because", "Why", lambda row: wording.SELECTIONS[row[1].selection] if row[1].selection else ""
        ),
        Column("short_pairs", "Short pairs", lambda row: ", ".join(map(numbers.percent, row[1].changes))),
    ]
    return DataTable("Cases that went on to full pairs", columns, found, tall=True)


def facts(listed: Sequence[tuple[str, str]]) -> DataTable[tuple[str, str]]:
    """Everything around the numbers, as names and values."""
    columns: list[Column[tuple[str, str]]] = [
        Column("name", "", lambda row: row[0]),
        Column("value", "", lambda row: row[1]),
    ]
    return DataTable("How it was measured", columns, listed)


def _judged_columns(
    metric: str, of: Callable[[AnyRow], Verdict | None], interval_heading: str
) -> list[Column[AnyRow]]:
    """Old, new, change, interval and n of a verdict, and what CSV files have of it."""

    def value(read: Callable[[Verdict], object]) -> Callable[[AnyRow], object]:
        def of_row(row: AnyRow) -> object:
            judged = of(row)
            return None if judged is None else read(judged)

        return of_row

    def text(read: Callable[[Verdict], str], none: str = NONE) -> Callable[[AnyRow], str]:
        def of_row(row: AnyRow) -> str:
            judged = of(row)
            return none if judged is None else read(judged)

        return of_row

    old, new = map(_capital, wording.headings(metric))
    definition = METRICS[metric]
    return [
        Column("metric", value=value(lambda one: one.metric)),
        Column("unit", value=value(lambda one: definition.unit)),
        Column("better", value=value(lambda one: definition.better)),
        Column("verdict", value=value(lambda one: one.word)),
        Column(
            "old", old, value(lambda one: one.old), text(lambda one: wording.number(metric, one.old)), True
        ),
        Column(
            "new", new, value(lambda one: one.new), text(lambda one: wording.number(metric, one.new)), True
        ),
        Column(
            "", "Change", value(lambda one: one.change), text(lambda one: _strong(wording.change(one))), True
        ),
        Column("ratio", value=value(lambda one: ratio(one.change))),
        Column("ratio_low", value=value(lambda one: ratio(one.low))),
        Column("ratio_high", value=value(lambda one: ratio(one.high))),
        Column(
            "",
            _capital(interval_heading),
            format=text(lambda one: wording.interval(one.low, one.high)),
            number=True,
        ),
        Column("n", "n", value(lambda one: one.n), text(lambda one: str(one.n), "0"), True),
        Column("left_out", value=value(lambda one: len(one.left_out))),
        Column("smallest_visible", value=value(lambda one: share(one.smallest))),
        Column("threshold", value=value(lambda one: share(one.threshold))),
    ]


def _verdict(status: str, summary: str) -> Markup:
    return reason_text(f"{sign(status)} {summary}", f"py-{tone(status)}")


def _strong(words: str) -> Markup:
    return Markup("<strong>{}</strong>").format(escape_text(words))


def _capital(words: str) -> str:
    return words[:1].upper() + words[1:]
