"""The report of a bisection, during its steps and at its end: on the terminal, as events, in a file."""

import json
from dataclasses import asdict
from pathlib import Path
from typing import Any

from rich.console import Console
from rich.text import Text

from analysis.bisection import BisectionEnd, Question, count_remaining
from common.atomic_file import write_whole
from common.text import printable
from reports import wording
from workflows.bisection.state import Bisection, Step
from workflows.measure import RunResult
from workflows.run_header import Header

from .console import print_event, print_line, table, watching_console
from .reporter import end_output, say
from .upgrade_report import UpgradeConclusion

SCHEMA = "pyrometer.bisection/1"

_SIDES = {"good": "good", "bad": "bad", "unclear": "unclear", "skip": "skipped"}
_STYLES = {"good": "green", "bad": "red", "unclear": "yellow", "skip": "yellow"}


def headline(bisection: Bisection, end: BisectionEnd) -> str:
    """The result as a sentence."""
    good, bad = bisection.candidates[end.good], bisection.candidates[end.bad]
    direct = bisection.last(end.good, end.bad)
    assert direct is not None
    if end.kind == "alike":
        same = direct.message.startswith("same")
        return (
            f"the two ends do not differ: {direct.message}"
            if same
            else f"nothing to bisect: {direct.message}"
        )
    if end.kind == "pair":
        return f"{bad} is the first bad one, {good} the last good one: {direct.message}"
    if end.kind == "gradual":
        return f"{good} is good and {bad} is not, but no difference of the two is proved: {direct.message}"
    between = wording.plural(len(end.between), "candidate")
    return (
        f"the change came after {good} and not after {bad}: {direct.message}; "
        f"{between} between cannot be judged"
    )


def bisection_json(bisection: Bisection, end: BisectionEnd) -> dict[str, Any]:
    """The whole bisection as plain JSON values; `found` is None if the two ends do not differ."""
    names = bisection.candidates
    direct = bisection.last(end.good, end.bad)
    assert direct is not None
    found = {"good": names[end.good], "bad": names[end.bad], **_comparison(bisection, direct)}
    return {
        "schema": SCHEMA,
        "id": bisection.id,
        "end": end.kind,
        "headline": headline(bisection, end),
        "case": bisection.case,
        "metric": bisection.rule.policy.metric,
        "candidates": list(names),
        "found": None if end.kind == "alike" else found,
        "between": [names[at] for at in end.between],
        "comparisons": [_comparison(bisection, step) for step in bisection.steps],
        "plan": asdict(bisection.rule.plan),
        "policy": asdict(bisection.rule.policy),
        "preset": bisection.preset,
        "started_at": bisection.started_at,
        "command": bisection.command,
    }


def _comparison(bisection: Bisection, step: Step) -> dict[str, Any]:
    return {
        "old": bisection.candidates[step.old],
        "new": bisection.candidates[step.new],
        "mark": step.mark,
        "message": step.message,
        "run": step.run or None,
        "evidence": step.evidence,
        "changes": list(step.changes),
        "reproduce": step.command or None,
    }


class TerminalBisection:
    """Reports a bisection to people."""

    def __init__(self, console: Console) -> None:
        self._console = console

    def report_start(self, bisection: Bisection) -> None:
        """Print the case and the number of candidates; for a resumed bisection also the steps so far."""
        names = bisection.candidates
        print_line(
            self._console,
            f"bisection {bisection.id}: {bisection.case}, good in {names[0]}, bad in {names[-1]}, "
            f"{wording.plural(len(names) - 2, 'candidate')} between",
        )
        for step in bisection.steps:
            print_line(self._console, f"known: {_says(bisection, step)}")

    def report_question(self, bisection: Bisection, question: Question) -> None:
        """Print the two environments that are compared next, and the approximate number of steps left."""
        old, new = bisection.candidates[question.old], bisection.candidates[question.new]
        between, steps = count_remaining(len(bisection.candidates), bisection.answers)
        again = ", again with more pairs" if question.again else ""
        if not bisection.steps:
            ahead = f"first the two ends, then about {wording.plural(steps, 'step')}"
        elif between:
            ahead = f"{wording.plural(between, 'candidate')} left, about {wording.plural(steps, 'step')}"
        else:
            ahead = "the pair itself" if question.old else "the two ends"
        print_line(self._console, f"{ahead}: {new} against {old}{again}")

    def report_run(self, header: Header, result: RunResult) -> None:
        """Only the step is reported, not the verdict of its comparison."""
        end_output(watching_console(), header, result)

    def report_answer(self, bisection: Bisection, step: Step) -> None:
        """Print the result of a comparison."""
        print_line(self._console, _says(bisection, step), _STYLES[step.mark])

    def report_end(self, bisection: Bisection, end: BisectionEnd) -> None:
        """Print the result, with every comparison."""
        names = bisection.candidates
        listed = table("candidate", "", "against", "says", "run")
        for step in sorted(bisection.steps, key=lambda step: step.new):
            row = (names[step.new], _SIDES[step.mark], names[step.old], step.message, step.run or "-")
            listed.add_row(*(Text(printable(cell)) for cell in row))
        self._console.print()
        self._console.print(listed)
        self._console.print()
        print_line(self._console, headline(bisection, end), "bold")
        for at in end.between:
            step = bisection.last(0, at)
            print_line(self._console, f"    {names[at]}: {step.message if step else ''}")
        if any(not step.run and step.new in end.between for step in bisection.steps):
            print_line(
                self._console, f"try the skipped candidates again: pyrometer bisect --resume {bisection.id}"
            )
        direct = bisection.last(end.good, end.bad)
        assert direct is not None
        if end.kind != "alike":
            self._changes(direct)
        print_line(self._console, f"measure it again with: {direct.command}")
        print_line(self._console, f"details of that comparison: pyrometer report {direct.run}")

    def _changes(self, direct: Step) -> None:
        if not direct.changes:
            print_line(self._console, "the recorded facts of the two environments are equal")
            return
        print_line(self._console, "differences between the two:")
        for change in direct.changes:
            print_line(
                self._console, f"    {change['what']}: {change['old'] or 'none'} -> {change['new'] or 'none'}"
            )


class JsonBisection:
    """Reports a bisection as one JSON object per line, in addition to those of its upgrades."""

    def __init__(self, console: Console) -> None:
        self._console = console

    def report_start(self, bisection: Bisection) -> None:
        """Print the case and the candidates."""
        about = {"id": bisection.id, "candidates": list(bisection.candidates), "case": bisection.case}
        print_event(self._console, "bisection", {**about, "steps": len(bisection.steps)})

    def report_question(self, bisection: Bisection, question: Question) -> None:
        """Print the two environments that are compared next, and the approximate number of steps left."""
        names = [bisection.candidates[question.old], bisection.candidates[question.new]]
        between, steps = count_remaining(len(bisection.candidates), bisection.answers)
        print_event(
            self._console, "comparing", {**asdict(question), "names": names, "open": between, "steps": steps}
        )

    def report_run(self, header: Header, result: RunResult) -> None:
        """Print the verdict of one comparison, as that of any upgrade."""
        UpgradeConclusion(as_json=True)(header, result)

    def report_answer(self, bisection: Bisection, step: Step) -> None:
        """Print the result of a comparison."""
        print_event(self._console, "compared", _comparison(bisection, step))

    def report_end(self, bisection: Bisection, end: BisectionEnd) -> None:
        """Print the result, with every comparison."""
        print_event(self._console, "bisected", bisection_json(bisection, end))


def _says(bisection: Bisection, step: Step) -> str:
    old, new = bisection.candidates[step.old], bisection.candidates[step.new]
    return f"{new} against {old}: {_SIDES[step.mark]}: {step.message}"


def write_bisection(bisection: Bisection, end: BisectionEnd, file: Path) -> None:
    """Write the report of a bisection."""
    write_whole(file, json.dumps(bisection_json(bisection, end), indent=2) + "\n")
    say(f"report: {file}")
