"""The report as Markdown for a pull request."""

from collections.abc import Sequence
from typing import Any

from markupsafe import Markup

from analysis.comparison.case_results import CaseResult
from analysis.comparison.policy import Policy
from analysis.decision.upgrade import Table, Upgrade
from analysis.metrics import METRICS

from . import sentences, tables, wording
from .report_context import Subject
from .rows import Row, rows, without_ratio
from .scorecard import entries
from .table import DataTable
from .text.dispatch_text import summary_words
from .text.markdown import code as _code
from .text.markdown import fenced
from .text.markdown import text as _text
from .text.reason_text import sentence
from .text.templates import escaped

#: Tables of more rows than this are folded.
_LONG = 12


def upgrade_markdown(subject: Subject, results: Sequence[CaseResult], upgrade: Upgrade) -> str:
    """The report: decision, reasons, what would decide it, then the evidence; correctness first.

    It is GitHub's Markdown. Whatever text comes from a case is escaped, also mentions and issue numbers.
    """
    each = rows(subject, results, upgrade)
    sections = [
        _head(subject, each, upgrade),
        tables.scorecard(entries(upgrade.scorecard, subject.policy)).markdown(),
        _reasons(upgrade),
        _to_decide(subject, upgrade),
        _correctness(subject, upgrade),
        _cases(subject, each, upgrade),
        _dispatch(subject, each),
        _kernels(subject, each),
        _screen(each),
        _means(subject, results, upgrade),
        *(_metric_table(table, subject.policy) for table in upgrade.tables),
        _exclusions(each, upgrade),
        f"### What differs between the environments\n\n{differences(subject)}",
        _how(subject),
        _again(subject, each),
    ]
    return "\n\n".join(section for section in sections if section) + "\n"


def _head(subject: Subject, each: Sequence[Row], upgrade: Upgrade) -> str:
    sign = wording.DECISION_SIGNS[upgrade.decision]
    resume = f" {sentences.GOES_ON} {_code(subject.resume)}" if subject.resume else ""
    so_far = sentences.so_far(subject)
    return "\n\n".join(
        [
            f"## {sign} {wording.decision_word(upgrade)}: {_text(sentences.title(subject))}",
            f"**{wording.decided(upgrade)}:** {_text(wording.because(upgrade))}",
            *([_text(risk)] if (risk := sentences.risk(upgrade)) else ()),
            *(_text(line) for line in sentences.waived(upgrade)),
            *([f"**{so_far}**{resume}"] if so_far else ()),
            f"{_text(sentences.place(subject))}. {_text(sentences.counted(each, upgrade))}",
        ]
    )


def _reasons(upgrade: Upgrade) -> str:
    lines = [
        f"{number}. **{wording.speaks(reason)}**: {_text(sentence(reason))}"
        for number, reason in enumerate(upgrade.reasons, 1)
    ]
    return "\n".join(["### Reasons, in order of weight", "", *lines])


def _to_decide(subject: Subject, upgrade: Upgrade) -> str:
    table = tables.to_decide(subject, upgrade, case_code)
    if not table.rows:
        return ""
    about = f"{wording.pairs_to_decide_in_all(table.rows)}. {sentences.TO_DECIDE}"
    parts = ["### What would decide it", about, table.markdown()]
    if len(table.rows) > _LONG:
        every = fenced(subject.decide_all(table.rows), "sh")
        parts[-1:] = [every, details(f"One by one: {len(table.rows)} cases", table.markdown())]
    return "\n\n".join(parts)


def _correctness(subject: Subject, upgrade: Upgrade) -> str:
    table = tables.correctness(subject, upgrade, case_code)
    body = table.markdown() if table.rows else "No case broke, and none was repaired."
    return f"### Correctness\n\n{body}"


def _cases(subject: Subject, each: Sequence[Row], upgrade: Upgrade) -> str:
    metric = subject.policy.metric
    about = f"{sentences.about_cases(metric)} {sentences.about_same(subject)}".strip()
    table = tables.cases(subject, upgrade, each, case_code).markdown()
    return f"### {METRICS[metric].title}, case by case\n\n{about}\n\n{table}"


def _dispatch(subject: Subject, each: Sequence[Row]) -> str:
    if not subject.dispatch:
        return ""
    table = tables.dispatch(subject, each, case_code)
    head = f"### What runs differently\n\n{_text(summary_words(subject.dispatch))}"
    if not table.rows:
        return head
    return f"{head}\n\n{_folded(wording.plural(len(table.rows), 'case'), table)}"


def _kernels(subject: Subject, each: Sequence[Row]) -> str:
    table = tables.kernels(subject, each, case_code)
    return f"### GPU kernels\n\n{sentences.KERNELS}\n\n{table.markdown()}" if table.rows else ""


def _screen(each: Sequence[Row]) -> str:
    if not (text := sentences.screen(each)):
        return ""
    table = tables.screening(each, case_code)
    head = f"### How it was screened\n\n{_text(text)}"
    if not table.rows:
        return head
    return f"{head}\n\n{_folded(wording.plural(len(table.rows), 'case'), table)}"


def _means(subject: Subject, results: Sequence[CaseResult], upgrade: Upgrade) -> str:
    about = f"{sentences.about_means(subject)} What is left out is listed under Exclusions."
    table = tables.means(subject, results, upgrade).markdown()
    return f"### Over all, and by technique\n\n{about}\n\n{table}"


def _metric_table(table: Table, policy: Policy) -> str:
    about = sentences.about_table(table, policy)
    if missing := without_ratio(table):
        about += f" Without a ratio: {', '.join(map(_code, missing))}."
    return details(
        f"{sentences.table_title(table)}: {sentences.table_summary(table)}",
        f"{about}\n\n{tables.metric_table(table, case_code).markdown()}",
    )


def _exclusions(each: Sequence[Row], upgrade: Upgrade) -> str:
    parts = ["### Exclusions"]
    whole, pairs = tables.exclusions(upgrade, case_code), tables.pairs_left_out(each, case_code)
    if whole.rows:
        text = f"{wording.plural(len(whole.rows), 'case')} in no geomean"
        parts += [_folded(text, whole)]
    else:
        parts += ["Every case is in the geomean."]
    if pairs.rows:
        cases = len({case for case, _ in pairs.rows})
        text = f"Pairs of {wording.plural(cases, 'case')} that do not count"
        parts += [_folded(text, pairs)]
    return "\n\n".join(parts)


def differences(subject: Subject) -> str:
    """What the new environment has other than the old: a table, folded where it is long."""
    table = tables.differences(subject)
    if not table.rows:
        return _text(sentences.no_difference(subject))
    return _folded(wording.plural(len(table.rows), "difference"), table)


def _how(subject: Subject) -> str:
    rules = "\n".join(f"- {_text(rule)}" for rule in sentences.rules(subject))
    notes = "\n".join(f"- {_text(note)}" for note in subject.notes)
    facts = tables.facts(sentences.facts(subject)).markdown()
    parts = [sentences.how(subject), facts, "The rules it was judged by:", rules]
    return details("How it was measured", "\n\n".join([*parts, *(["Notes:", notes] if notes else [])]))


def _again(subject: Subject, each: Sequence[Row]) -> str:
    commands = "\n".join(subject.reproduce(row.case) for row in each)
    return details("Measure a case again", fenced(commands, "sh"))


def _folded(summary: str, table: DataTable[Any]) -> str:
    body = table.markdown()
    return details(summary, body) if len(table.rows) > _LONG else f"{summary}:\n\n{body}"


def details(summary: str, body: str) -> str:
    """Markdown that is folded under a summary."""
    return f"<details>\n<summary>{_text(summary)}</summary>\n\n{body}\n\n</details>"


def case_code(key: str) -> Markup:
    """A case key as code, in one piece."""
    return Markup("<code>{}</code>").format(escaped(key))
