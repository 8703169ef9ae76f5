"""The report as Markdown for a pull request."""

import re
from collections.abc import Iterable, Sequence

from analysis.comparison.case_results import CaseResult
from analysis.comparison.policy import Policy
from analysis.comparison.upgrade import Table, Upgrade
from analysis.metrics import METRICS
from common.text import printable
from reports.text.markdown import code as _code
from reports.text.markdown import text as _text

from . import sentences, wording
from .report_context import Subject, changes
from .rows import Row, left_out, rows, table_rows, techniques, without_ratio
from .scorecard import entries
from .text import numbers
from .text.reason_text import exclusion, sentence

#: Tables of more rows than this are folded.
_LONG = 12


def upgrade_markdown(subject: Subject, results: Sequence[CaseResult], upgrade: Upgrade) -> str:
    """The report: decision, reasons, what would settle it, then the evidence; correctness first.

    It is GitHub's Markdown. Whatever text comes from a case is escaped, also mentions and issue numbers.
    """
    each = rows(subject, results, upgrade)
    sections = [
        _head(subject, each, upgrade),
        _scorecard(subject, upgrade),
        _reasons(upgrade),
        _settle(subject, upgrade),
        _correctness(subject, upgrade),
        _cases(subject, each, upgrade),
        _means(subject, results, upgrade),
        *(_own_table(table, subject.policy) for table in upgrade.tables),
        _exclusions(each, upgrade),
        _differences(subject),
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
            f"## {sign} {wording.DECISIONS[upgrade.decision]}: {_text(sentences.title(subject))}",
            f"**{wording.DECISIONS[upgrade.decision]}:** {_text(wording.because(upgrade))}",
            *([f"**{so_far}**{resume}"] if so_far else ()),
            f"{_text(sentences.place(subject))}. {_text(sentences.counted(each, upgrade))}",
        ]
    )


def _scorecard(subject: Subject, upgrade: Upgrade) -> str:
    listed = [
        (f"**{one.title}**", _text(one.value), f"{one.sign} {one.state}", _text(". ".join(one.notes)))
        for one in entries(upgrade.scorecard, subject.policy)
    ]
    return _table(("", "new against old", "by the policy", "about it"), listed)


def _reasons(upgrade: Upgrade) -> str:
    lines = [
        f"{number}. **{wording.speaks(reason)}**: {_text(sentence(reason))}"
        for number, reason in enumerate(upgrade.reasons, 1)
    ]
    return "\n".join(["### Reasons, in order of weight", "", *lines])


def _settle(subject: Subject, upgrade: Upgrade) -> str:
    if not upgrade.settle:
        return ""
    listed = [(_code(one.case), wording.settling(one), _code(subject.settle(one))) for one in upgrade.settle]
    table = _table(("case", "what it takes", "command"), listed)
    about = f"{wording.settling_in_all(upgrade.settle)}. {sentences.SETTLE}"
    return f"### What would settle it\n\n{about}\n\n{table}"


def _correctness(subject: Subject, upgrade: Upgrade) -> str:
    listed = [
        (
            f"{'✗ broken' if result.broke else '✓ repaired'}",
            _code(result.case),
            _text(f"{result.old.status} {result.old.reason}".strip()),
            _text(f"{result.new.status} {result.new.reason}".strip()),
        )
        for result in (*upgrade.broken, *upgrade.repaired)
    ]
    body = _table(("", "case", "old", "new"), listed) if listed else "No case broke, and none was repaired."
    return f"### Correctness\n\n{body}"


def _cases(subject: Subject, each: Sequence[Row], upgrade: Upgrade) -> str:
    metric = subject.policy.metric
    columns = (
        "case",
        "old",
        "new",
        "change",
        sentences.interval_heading(subject, upgrade),
        "n",
        "verdict",
        "visible from",
    )
    listed = [
        (
            _code(row.case),
            wording.quantity(metric, row.verdict.old) if row.verdict else numbers.NONE,
            wording.quantity(metric, row.verdict.new) if row.verdict else numbers.NONE,
            wording.change(row.verdict) if row.verdict else numbers.NONE,
            wording.interval(row.verdict.low, row.verdict.high) if row.verdict else numbers.NONE,
            str(row.verdict.n) if row.verdict else "0",
            f"{row.sign} {_text(row.summary)}",
            wording.within(row.verdict.smallest) if row.verdict else numbers.NONE,
        )
        for row in each
    ]
    about = f"{sentences.about_cases(metric)} {sentences.about_same(subject)}".strip()
    table = _table(columns, listed, numbers=(1, 2, 3, 4, 5, 7))
    return f"### {METRICS[metric].title}, case by case\n\n{about}\n\n{table}"


def _means(subject: Subject, results: Sequence[CaseResult], upgrade: Upgrade) -> str:
    overall = upgrade.overall
    listed = [
        (
            "**all**",
            wording.mean(overall),
            str(overall.cases),
            str(overall.pairs),
            str(len(upgrade.exclusions)),
        )
    ]
    for row in techniques(results, upgrade):
        mean = row.mean
        listed.append(
            (
                _code(row.technique),
                wording.mean(mean) if mean else numbers.NONE,
                str(mean.cases if mean else 0),
                str(mean.pairs if mean else 0),
                str(len(row.excluded)),
            )
        )
    columns = ("technique", f"geomean [{wording.confidence(overall)}]", "cases", "pairs", "left out")
    about = f"{sentences.about_means(subject)} What is left out is listed under Exclusions."
    return f"### Over all, and by technique\n\n{about}\n\n" + _table(columns, listed, numbers=(1, 2, 3, 4))


def _own_table(table: Table, policy: Policy) -> str:
    metric = table.metric
    listed = [
        (
            _code(case),
            wording.quantity(metric, verdict.old),
            wording.quantity(metric, verdict.new),
            wording.change(verdict),
            wording.interval(verdict.low, verdict.high),
            str(verdict.n),
            _text(wording.verdict(verdict)),
        )
        for case, verdict in table_rows(table)
    ]
    columns = ("case", "old", "new", "change", "interval", "n", "verdict")
    missing = without_ratio(table)
    about = sentences.about_table(table, policy)
    if missing:
        about += f" Without a ratio: {', '.join(map(_code, missing))}."
    return _details(
        f"{sentences.table_title(table)}: {sentences.table_summary(table)}",
        about + "\n\n" + _table(columns, listed, numbers=(1, 2, 3, 4, 5)),
    )


def _exclusions(each: Sequence[Row], upgrade: Upgrade) -> str:
    out = left_out(each)
    parts = ["### Exclusions"]
    if upgrade.exclusions:
        listed = [(_code(one.case), _text(exclusion(one))) for one in upgrade.exclusions]
        text = f"{wording.plural(len(listed), 'case')} in no geomean"
        parts += [_folded(text, _table(("case", "why"), listed), len(listed))]
    else:
        parts += ["Every case is in the geomean."]
    if out:
        listed = [(_code(case), _text(why)) for case, why in out]
        cases = len({case for case, _ in out})
        text = f"Pairs of {wording.plural(cases, 'case')} that do not count"
        parts += [_folded(text, _table(("case", "why"), listed), len(listed))]
    return "\n\n".join(parts)


def _differences(subject: Subject) -> str:
    found = changes(subject.old, subject.new)
    if not found:
        return f"### What differs between the environments\n\n{_text(sentences.no_difference(subject))}"
    listed = [
        (_text(one.what), _text(one.old) or numbers.NONE, _text(one.new) or numbers.NONE) for one in found
    ]
    table = _table(("", _text(subject.old.name), _text(subject.new.name)), listed)
    return "### What differs between the environments\n\n" + _folded(
        wording.plural(len(listed), "difference"), table, len(listed)
    )


def _how(subject: Subject) -> str:
    listed = [(_text(name), _text(value)) for name, value in sentences.facts(subject)]
    rules = "\n".join(f"- {_text(rule)}" for rule in sentences.rules(subject))
    notes = "\n".join(f"- {_text(note)}" for note in subject.notes)
    parts = [sentences.how(subject), _table(("", ""), listed), "The rules it was judged by:", rules]
    return _details("How it was measured", "\n\n".join([*parts, *(["Notes:", notes] if notes else [])]))


def _again(subject: Subject, each: Sequence[Row]) -> str:
    commands = "\n".join(printable(subject.reproduce(row.case)) for row in each)
    # A fence longer than any in the text, or a case's name could end it.
    longest = max((len(found) for found in re.findall("`+", commands)), default=0)
    fence = "`" * max(3, longest + 1)
    return _details("Measure a case again", f"{fence}sh\n{commands}\n{fence}")


def _table(columns: Sequence[str], listed: Iterable[Sequence[str]], numbers: Sequence[int] = ()) -> str:
    rule = ["--:" if place in numbers else "---" for place in range(len(columns))]
    return "\n".join(f"| {' | '.join(cells)} |" for cells in (columns, rule, *listed))


def _folded(summary: str, body: str, length: int) -> str:
    return _details(summary, body) if length > _LONG else f"{summary}:\n\n{body}"


def _details(summary: str, body: str) -> str:
    return f"<details>\n<summary>{_text(summary)}</summary>\n\n{body}\n\n</details>"
