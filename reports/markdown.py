"""The report as Markdown for a pull request, and that on a step as an issue for PyTorch."""

from collections.abc import Sequence
from typing import Any

from markupsafe import Markup

from analysis.comparison.policy import Policy
from analysis.comparison.verdict import Verdict
from analysis.decision.upgrade import Table, Upgrade
from analysis.metrics import METRICS
from records.runs import StepScript

from . import sentences, tables, wording
from .report_context import JudgedUpgrade, Subject
from .rows import Row, rows, without_ratio
from .scorecard import entries
from .table import DataTable
from .text import numbers
from .text.dispatch_text import case_words, summary_words
from .text.markdown import code as _code
from .text.markdown import code_block, table
from .text.markdown import text as _text
from .text.reason_text import sentence
from .text.templates import escape_text
from .text.verdict_text import side_reason

#: Tables of more rows than this are folded.
_LONG = 12


def upgrade_markdown(judged: JudgedUpgrade) -> str:
    """The report: decision, reasons, what would decide it, then the evidence; correctness first.

    It is GitHub's Markdown. Whatever text comes from a case is escaped, also mentions and issue numbers.
    """
    subject, upgrade = judged.subject, judged.upgrade
    each = rows(judged)
    sections = [
        _head(subject, each, upgrade),
        tables.scorecard(entries(upgrade.scorecard, subject.policy)).markdown(),
        _reasons(upgrade),
        _to_decide(subject, upgrade),
        _correctness(subject, each, upgrade),
        _cases(subject, each, upgrade),
        _dispatch(subject, each),
        _kernels(subject, each),
        _screen(each),
        _means(judged),
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
            f"**{wording.decision_text(upgrade)}:** {_text(wording.because(upgrade))}",
            *([_text(risk)] if (risk := sentences.risk(upgrade)) else ()),
            *(_text(line) for line in sentences.waiver_lines(each, upgrade)),
            *([f"**{so_far}**{resume}"] if so_far else ()),
            f"{_text(sentences.place(subject))}. {_text(sentences.case_count_line(each, upgrade))}",
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
        every = code_block(subject.decide_all(table.rows), "sh")
        parts[-1:] = [every, details(f"One by one: {len(table.rows)} cases", table.markdown())]
    return "\n\n".join(parts)


def _correctness(subject: Subject, each: Sequence[Row], upgrade: Upgrade) -> str:
    table = tables.correctness(subject, upgrade, case_code)
    body = table.markdown() if table.rows else sentences.none_broke(each)
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
    return f"{head}\n\n{_fold_table(wording.plural(len(table.rows), 'case'), table)}"


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
    return f"{head}\n\n{_fold_table(wording.plural(len(table.rows), 'case'), table)}"


def _means(judged: JudgedUpgrade) -> str:
    about = f"{sentences.about_means(judged.subject)} What is left out is listed under Exclusions."
    table = tables.means(judged).markdown()
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
        parts += [_fold_table(text, whole)]
    if (apart := sentences.not_listed(each)) or not whole.rows:
        parts += [apart or "Every case is in the geomean."]
    if pairs.rows:
        cases = len({case for case, _ in pairs.rows})
        text = f"Pairs of {wording.plural(cases, 'case')} that do not count"
        parts += [_fold_table(text, pairs)]
    return "\n\n".join(parts)


def differences(subject: Subject) -> str:
    """What the new environment has other than the old: a table, folded where it is long."""
    table = tables.differences(subject)
    if not table.rows:
        return _text(sentences.no_difference(subject))
    return _fold_table(wording.plural(len(table.rows), "difference"), table)


def _how(subject: Subject) -> str:
    rules = "\n".join(f"- {_text(rule)}" for rule in sentences.rules(subject))
    notes = "\n".join(f"- {_text(note)}" for note in subject.notes)
    facts = tables.facts(sentences.facts(subject)).markdown()
    parts = [sentences.how(subject), facts, "The rules it was judged by:", rules]
    return details("How it was measured", "\n\n".join([*parts, *(["Notes:", notes] if notes else [])]))


def _again(subject: Subject, each: Sequence[Row]) -> str:
    commands = "\n".join(subject.reproduce(row.case) for row in each)
    return details("Measure a case again", code_block(commands, "sh"))


def _fold_table(summary: str, table: DataTable[Any]) -> str:
    body = table.markdown()
    return details(summary, body) if len(table.rows) > _LONG else f"{summary}:\n\n{body}"


def details(summary: str, body: str) -> str:
    """Markdown that is folded under a summary."""
    return f"<details>\n<summary>{_text(summary)}</summary>\n\n{body}\n\n</details>"


def case_code(key: str) -> Markup:
    """A case key as code, in one piece."""
    return Markup("<code>{}</code>").format(escape_text(key))


#: A script of more lines is folded; and so many changes of what runs are listed.
_LONG_SCRIPT, _MOST_CHANGES = 60, 20
#: Facts that name a machine or its folders, that say nothing of a step, or that stand above already.
_LEFT_OUT = ("machine", "command", "suite", "old environment", "new environment", "hardware", "device")
_TITLES = {
    "broken": "{step} works in {old} and fails in {new}",
    "repaired": "{step} fails in {old} and works in {new}",
    "broken in both": "{step} fails in {old} and in {new}",
    "same": "{step} is the same in {old} and {new}",
    "unclear": "{step}: no difference between {old} and {new} is proved",
}
_MOVED = ("slower", "faster")


def step_markdown(judged: JudgedUpgrade) -> str:
    """The report on an upgrade that measured a step, in GitHub's Markdown.

    What the script raised or is called is escaped; its commands name the script without its folder.
    """
    subject, upgrade, step = judged.subject.with_script_alone(), judged.upgrade, judged.subject.step
    assert step is not None
    row = next(iter(rows(judged)), None)
    sections = [
        _step_head(subject, step, row, upgrade),
        _numbers(subject, row, upgrade) if row else "",
        *_traceback_sections(subject, step),
        _script(step),
        _runs_differently(subject),
        _environments(subject),
        _step_again(subject, step, row),
        _step_how(subject),
    ]
    return "\n\n".join(section for section in sections if section) + "\n"


def step_title(subject: Subject, step: StepScript, row: Row | None) -> str:
    """What became of the step, without a full stop; `row` is None where nothing was measured."""
    old, new = subject.old.name, subject.new.name
    if row is not None and row.status in _MOVED:
        return f"{step.name} is {row.word} in {new} than in {old}"
    title = _TITLES.get(row.status if row else "", "{step} has no number in {old} and {new}")
    return title.format(step=step.name, old=old, new=new)


def _step_head(subject: Subject, step: StepScript, row: Row | None, upgrade: Upgrade) -> str:
    lines = [f"## {_text(step_title(subject, step, row))}"]
    if row is not None:
        lines.append(_result(subject, row, upgrade))
    if so_far := sentences.so_far(subject):
        lines.append(f"**{_text(so_far)}**")
    return "\n\n".join(lines)


def _result(subject: Subject, row: Row, upgrade: Upgrade) -> str:
    """The change with its interval; of a step that did not work in both, how it ended in each."""
    judged = row.verdict
    if not row.result.works:
        sides = ((subject.old, row.result.old), (subject.new, row.result.new))
        ends = [(side.name, ": ".join(filter(None, (end.status, side_reason(end))))) for side, end in sides]
        return "\n".join(f"- {_text(name)} ended {_text(end)}" for name, end in ends)
    if judged is None or judged.low is None:
        return f"{_text(row.summary[:1].upper() + row.summary[1:])}."
    interval = wording.interval(judged.low, judged.high)
    what = sentences.interval_heading(subject, upgrade)
    summary = f"; {_text(row.summary)}" if row.summary != row.word else ""
    return (
        f"{METRICS[judged.metric].title}: **{wording.change(judged)}** [{interval}], {what} over "
        f"{wording.plural(judged.n, 'pair')} of fresh processes that took turns{summary}."
    )


def _numbers(subject: Subject, row: Row, upgrade: Upgrade) -> str:
    """Every metric that both sides have, the one that decides first."""
    found = (row.verdict, *(each.verdicts.get(row.case) for each in upgrade.tables))
    # The metric that decides may have a table of its own.
    judged = {one.metric: one for one in found if one is not None}
    lines = [_line(one) for one in judged.values() if one.old is not None and one.new is not None]
    if not lines:
        return ""
    heads = ["", subject.old.name, subject.new.name, "Change", "Interval", "Pairs", "Verdict"]
    return table(heads, lines, [False, *[True] * 5])


def _line(one: Verdict) -> list[str]:
    old, new = (wording.quantity(one.metric, value) for value in (one.old, one.new))
    interval = wording.interval(one.low, one.high)
    change = [wording.change(one), interval, str(one.n), numbers.word(one)]
    return [METRICS[one.metric].title, *map(_text, (old, new, *change))]


def _traceback_sections(subject: Subject, step: StepScript) -> list[str]:
    sides = zip((subject.old, subject.new), subject.tracebacks, strict=True)
    return [
        f"### What it raised in {_text(side.name)}\n\n{code_block(_own_frames(traceback, step.file))}"
        for side, traceback in sides
        if traceback
    ]


def _own_frames(traceback: str, file: str) -> str:
    """A traceback from the first line in the script on; the frames before are those of the worker."""
    _, found, after = traceback.partition(f'  File "{file}", line ')
    return f"Traceback (most recent call last):\n{found}{after}" if found else traceback


def _script(step: StepScript) -> str:
    body = code_block(step.text.removeprefix("\ufeff"), "python")
    lines = len(step.text.splitlines())
    head = f"### The script, {_code(step.file)}\n\nMeasured are calls of {_code(step.function + '()')}."
    return f"{head}\n\n{details(wording.plural(lines, 'line'), body) if lines > _LONG_SCRIPT else body}"


def _runs_differently(subject: Subject) -> str:
    if not subject.dispatch:
        return ""
    words = [line for one in subject.dispatch for line in case_words(one, _MOST_CHANGES)]
    lines = [f"- {_text(line)}" for line in words] or [
        "Nothing: one step calls the same operators and kernels."
    ]
    return "\n".join(["### What runs differently", "", *lines])


def _environments(subject: Subject) -> str:
    sides = [f"- {_text(sentences.environment(side))}" for side in (subject.old, subject.new)]
    machine = f"- {_text(', '.join(filter(None, (subject.hardware, subject.device))))}"
    return "\n".join(["### Environments", "", *sides, machine, "", differences(subject)])


def _step_again(subject: Subject, step: StepScript, row: Row | None) -> str:
    commands = [subject.reproduce(row.case) if row else "", subject.bisect()]
    listed = code_block("\n".join(filter(None, commands)), "sh")
    about = " ".join(
        filter(None, [f"Save the script as {_code(step.file)}.", _text(sentences.candidates(subject))])
    )
    return f"### Measure it again, and find where it changed\n\n{about}\n\n{listed}"


def _step_how(subject: Subject) -> str:
    facts = [[_text(name), _text(value)] for name, value in sentences.facts(subject) if name not in _LEFT_OUT]
    notes = "\n".join(f"- {_text(note)}" for note in subject.notes)
    body = [sentences.how(subject), table(["", ""], facts), notes]
    return details("How it was measured", "\n\n".join(filter(None, body)))
