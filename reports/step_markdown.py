"""The report on a step as an issue for PyTorch: what differs, the script, the environments, the commands."""

from collections.abc import Sequence

from analysis.comparison.case_results import CaseResult
from analysis.comparison.verdict import Verdict
from analysis.decision.upgrade import Upgrade
from analysis.metrics import METRICS
from records.runs import StepScript

from . import sentences, wording
from .markdown import details, differences
from .report_context import Subject
from .rows import Row, rows
from .text import numbers
from .text.case_text import side_reason
from .text.dispatch_text import case_words
from .text.markdown import code, fenced, table, text

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


def step_markdown(subject: Subject, step: StepScript, results: Sequence[CaseResult], upgrade: Upgrade) -> str:
    """The report on an upgrade that measured `step`, in GitHub's Markdown.

    What the script raised or is called is escaped; its commands name the script without its folder.
    """
    subject = subject.with_script_alone()
    each = rows(subject, results, upgrade)
    row = each[0] if each else None
    sections = [
        _head(subject, step, row, upgrade),
        _numbers(subject, row, upgrade) if row else "",
        *_raised(subject, step),
        _script(step),
        _runs_differently(subject),
        _environments(subject),
        _again(subject, step, row),
        _how(subject),
    ]
    return "\n\n".join(section for section in sections if section) + "\n"


def step_title(subject: Subject, step: StepScript, row: Row | None) -> str:
    """What became of the step, without a full stop; `row` is None where nothing was measured."""
    old, new = subject.old.name, subject.new.name
    if row is not None and row.status in _MOVED:
        return f"{step.name} is {row.word} in {new} than in {old}"
    title = _TITLES.get(row.status if row else "", "{step} has no number in {old} and {new}")
    return title.format(step=step.name, old=old, new=new)


def _head(subject: Subject, step: StepScript, row: Row | None, upgrade: Upgrade) -> str:
    lines = [f"## {text(step_title(subject, step, row))}"]
    if row is not None:
        lines.append(_result(subject, row, upgrade))
    if so_far := sentences.so_far(subject):
        lines.append(f"**{text(so_far)}**")
    return "\n\n".join(lines)


def _result(subject: Subject, row: Row, upgrade: Upgrade) -> str:
    """The change with its interval; of a step that did not work in both, how it ended in each."""
    judged = row.verdict
    if not row.result.works:
        sides = ((subject.old, row.result.old), (subject.new, row.result.new))
        ends = [(side.name, ": ".join(filter(None, (end.status, side_reason(end))))) for side, end in sides]
        return "\n".join(f"- {text(name)} ended {text(end)}" for name, end in ends)
    if judged is None or judged.low is None:
        return f"{text(row.summary[:1].upper() + row.summary[1:])}."
    interval = wording.interval(judged.low, judged.high)
    what = sentences.interval_heading(subject, upgrade)
    said = f"; {text(row.summary)}" if row.summary != row.word else ""
    return (
        f"{METRICS[judged.metric].title}: **{wording.change(judged)}** [{interval}], {what} over "
        f"{wording.plural(judged.n, 'pair')} of fresh processes that took turns{said}."
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
    return [METRICS[one.metric].title, *map(text, (old, new, *change))]


def _raised(subject: Subject, step: StepScript) -> list[str]:
    sides = zip((subject.old, subject.new), subject.tracebacks, strict=True)
    return [
        f"### What it raised in {text(side.name)}\n\n{fenced(_own_frames(traceback, step.file))}"
        for side, traceback in sides
        if traceback
    ]


def _own_frames(traceback: str, file: str) -> str:
    """A traceback from the first line in the script on; the frames before are those of the worker."""
    _, found, after = traceback.partition(f'  File "{file}", line ')
    return f"Traceback (most recent call last):\n{found}{after}" if found else traceback


def _script(step: StepScript) -> str:
    body = fenced(step.text.removeprefix("\ufeff"), "python")
    lines = len(step.text.splitlines())
    head = f"### The script, {code(step.file)}\n\nMeasured are calls of {code(step.function + '()')}."
    return f"{head}\n\n{details(wording.plural(lines, 'line'), body) if lines > _LONG_SCRIPT else body}"


def _runs_differently(subject: Subject) -> str:
    if not subject.dispatch:
        return ""
    words = [line for one in subject.dispatch for line in case_words(one, _MOST_CHANGES)]
    lines = [f"- {text(line)}" for line in words] or [
        "Nothing: one step calls the same operators and kernels."
    ]
    return "\n".join(["### What runs differently", "", *lines])


def _environments(subject: Subject) -> str:
    sides = [f"- {text(sentences.environment(side))}" for side in (subject.old, subject.new)]
    machine = f"- {text(', '.join(filter(None, (subject.hardware, subject.device))))}"
    return "\n".join(["### Environments", "", *sides, machine, "", differences(subject)])


def _again(subject: Subject, step: StepScript, row: Row | None) -> str:
    commands = [subject.reproduce(row.case) if row else "", subject.bisect()]
    listed = fenced("\n".join(filter(None, commands)), "sh")
    about = " ".join(
        filter(None, [f"Save the script as {code(step.file)}.", text(sentences.candidates(subject))])
    )
    return f"### Measure it again, and find where it changed\n\n{about}\n\n{listed}"


def _how(subject: Subject) -> str:
    facts = [[text(name), text(value)] for name, value in sentences.facts(subject) if name not in _LEFT_OUT]
    notes = "\n".join(f"- {text(note)}" for note in subject.notes)
    body = [sentences.how(subject), table(["", ""], facts), notes]
    return details("How it was measured", "\n\n".join(filter(None, body)))
