"""The report of an upgrade on a terminal: the decision first, then the reasons, then the cases."""

from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import TypeVar

from rich.console import Console
from rich.table import Table
from rich.text import Text

from analysis.decision.upgrade import Upgrade
from common.atomic_file import write_whole
from common.text import printable
from reports import sentences, tables, wording
from reports.body import upgrade_json
from reports.markdown import step_title
from reports.report_context import JudgedUpgrade, Subject
from reports.rows import Row, Tone, left_out, rows, statuses, techniques
from reports.scorecard import entries
from reports.text import numbers
from reports.text.dispatch_text import case_words, summary_words
from reports.text.reason_text import exclusion, sentence
from reports.upgrade_report import FORMATS
from workflows.errors import UsageError
from workflows.load_run import judge_run
from workflows.measure import RunResult
from workflows.run_header import Header

from .console import CaseName, PlainTable, print_line, watching_console
from .progress import JsonWatcher
from .reporter import end_output, say

Judged = TypeVar("Judged")

_STYLES: dict[Tone, str] = {"bad": "red", "odd": "yellow", "good": "green", "quiet": ""}
DECISION_STYLES = {"go": "bold green", "no-go": "bold red", "unclear": "bold yellow"}

#: What became of a step that a bisection can follow.
_CHANGED = ("broken", "repaired", "slower", "faster")
#: Below this many columns old and new, n and the smallest visible change are left to the files.
_WIDE = 120
#: Changes of one case in what runs differently.
_MOST_CHANGES = 4
#: More cases than this are counted, and not listed one by one.
_MOST_CASES = 12
#: What a case key may claim of a narrow terminal before it is folded, and what it must leave to the others.
_CASE_WIDTH, _OTHERS_WIDTH = 44, 52


def print_upgrade(console: Console, judged: JudgedUpgrade, *, local: bool = True) -> None:
    """Everything a decision needs, in the order of its weight; the files of `--report` have the rest.

    One that was interrupted goes on where its journal is: here if it is `local`.
    """
    subject, upgrade, each = judged.subject, judged.upgrade, rows(judged)
    print_line(console, f"{sentences.title(subject)} on {sentences.place(subject)}")
    sign = wording.DECISION_SIGNS[upgrade.decision]
    console.print(Text(f"{sign} {printable(wording.headline(upgrade))}", DECISION_STYLES[upgrade.decision]))
    for line in (sentences.risk(upgrade), *sentences.waiver_lines(each, upgrade), sentences.so_far(subject)):
        if line:
            print_line(console, line)
    if subject.step:
        print_line(console, f"{step_title(subject, subject.step, each[0] if each else None)}.")
    console.print()
    console.print(_scorecard(subject, upgrade))
    console.print()
    console.print(_reasons(upgrade))
    _to_decide(console, subject, upgrade)
    console.print()
    console.print(_cases(subject, each, console.width))
    print_line(console, f"{wording.plural(len(each), 'case')}: {', '.join(statuses(each))}")
    if sentence := sentences.about_same(subject):
        print_line(console, sentence)
    _dispatch(console, subject, each)
    _kernels(console, subject, each)
    _screen(console, each)
    _means(console, judged)
    for table in upgrade.tables:
        print_line(console, f"{sentences.table_title(table)}: {sentences.table_summary(table)}")
    _exclusions(console, each, upgrade)
    print_line(console, f"measure a case again with: {_again(subject, each, upgrade)}")
    if subject.step and each and each[0].status in _CHANGED:
        print_line(console, f"find where it changed with: {subject.bisect()}")
        if sentence := sentences.candidates(subject):
            print_line(console, sentence)
    if subject.resume:
        print_line(console, f"{'resume with:' if local else sentences.GOES_ON} {subject.resume}")


def _scorecard(subject: Subject, upgrade: Upgrade) -> Table:
    """Pass rate, latency, compile time and memory: a line each, and what there is to say of it."""
    table = PlainTable.grid(padding=(0, 2))
    for fold in (False, False, False, True):
        table.add_column(no_wrap=not fold, overflow="fold" if fold else "ellipsis")
    for one in entries(upgrade.scorecard, subject.policy):
        state = Text(f"{one.sign} {one.state}", _STYLES[one.tone])
        notes = Text("\n".join(map(printable, one.notes)))
        table.add_row(one.title, state, one.value, notes)
    return table


def _reasons(upgrade: Upgrade) -> Table:
    table = PlainTable.grid(padding=(0, 1))
    table.add_column(justify="right", no_wrap=True)
    table.add_column(no_wrap=True)
    table.add_column(overflow="fold")
    for number, reason in enumerate(upgrade.reasons, 1):
        table.add_row(
            f"{number}.",
            Text(
                wording.speaks(reason), _STYLES["odd"] if reason.warning else DECISION_STYLES[reason.speaks]
            ),
            Text(printable(sentence(reason))),
        )
    return table


def _dispatch(console: Console, subject: Subject, each: Sequence[Row]) -> None:
    """What runs differently: one sentence, and the changes of the cases that moved or that have a warning."""
    if not subject.dispatch:
        return
    print_line(console, f"what runs differently: {summary_words(subject.dispatch)}")
    moved = {row.case: row.status for row in each if row.status in ("slower", "faster", "broken")}
    for one in subject.dispatch:
        if one.case in moved or (one.difference and one.difference.warnings):
            verdict = f" ({moved[one.case]})" if one.case in moved else ""
            lines = case_words(one, _MOST_CHANGES) or ["nothing runs differently"]
            for line in (f"{one.case}{verdict}", *(f"    {words}" for words in lines)):
                print_line(console, f"    {line}")


def _kernels(console: Console, subject: Subject, each: Sequence[Row]) -> None:
    """The GPU kernels that differ most in each case that became slower or faster."""
    for row, changes in tables.moved_kernels(subject, each):
        print_line(console, f"GPU kernels of {row.case} ({row.status}):")
        for change in changes[:_MOST_CHANGES]:
            print_line(console, f"    {tables.kernel_words(change)}")
        if len(changes) > _MOST_CHANGES:
            print_line(console, f"    and {len(changes) - _MOST_CHANGES} more")


def _screen(console: Console, each: Sequence[Row]) -> None:
    """How a screen went, and the cases that went on from it."""
    if text := sentences.screen(each):
        print_line(console, text)
    for case, screened in tables.screening(each).rows:
        why = wording.SELECTIONS[screened.selection] if screened.selection else ""
        print_line(console, f"    {case}: {why} ({wording.describe_screen(screened)})")


def _to_decide(console: Console, subject: Subject, upgrade: Upgrade) -> None:
    every = subject.cases_to_decide(upgrade)
    if not every:
        return
    console.print()
    print_line(console, f"what would decide it: {wording.pairs_to_decide_in_all(every)}")
    for one in every[:_MOST_CASES]:
        print_line(console, f"    {wording.pairs_to_decide(one)}: {one.case}")
    if len(every) > _MOST_CASES:
        print_line(
            console, f"    and {len(every) - _MOST_CASES} more; all of them: {subject.decide_all(every)}"
        )


def _cases(subject: Subject, each: Sequence[Row], width: int) -> Table:
    wide, metric = width >= _WIDE, subject.policy.metric
    table = PlainTable()
    longest = max((len(row.case) for row in each), default=0)
    table.add_column(
        "case", overflow="fold", min_width=min(_CASE_WIDTH, max(width - _OTHERS_WIDTH, 1), longest)
    )
    if wide:
        for title in wording.headings(metric):
            table.add_column(title, justify="right", no_wrap=True)
    table.add_column("change", justify="right", no_wrap=True)
    table.add_column("interval", no_wrap=True)
    if wide:
        table.add_column("n", justify="right")
    table.add_column("verdict", overflow="fold")
    if wide:
        table.add_column("visible from", justify="right", no_wrap=True)
    for row in each:
        judged = row.verdict
        verdict = Text(f"{row.sign} {printable(row.summary if wide else row.word)}", _STYLES[row.tone])
        cells: list[str | Text | CaseName] = [CaseName(printable(row.case))]
        if wide:
            cells += (
                [wording.number(metric, judged.old), wording.number(metric, judged.new)]
                if judged
                else ["–"] * 2
            )
        cells += [wording.change(judged), wording.interval(judged.low, judged.high)] if judged else ["–"] * 2
        if wide:
            cells.append(str(judged.n) if judged else "0")
        cells.append(verdict)
        if wide:
            cells.append(wording.within(judged.smallest) if judged else numbers.NONE)
        table.add_row(*cells)
    return table


def _means(console: Console, judged: JudgedUpgrade) -> None:
    overall = judged.upgrade.overall
    table = PlainTable()
    table.add_column("geomean", overflow="fold")
    for title in ("change", wording.confidence(overall), "random effects", "cases", "pairs", "left out"):
        table.add_column(title, justify="right", no_wrap=title != "left out")
    every = [("all", overall, len(judged.results) - overall.cases)]
    every += [(row.technique, row.mean, row.left_out) for row in techniques(judged)]
    for name, mean, excluded in every:
        table.add_row(
            Text(printable(name)),
            numbers.percent(mean.change) if mean else numbers.NONE,
            wording.interval(mean.low, mean.high) if mean else numbers.NONE,
            numbers.percent(mean.typical[0]) if mean and mean.typical else numbers.NONE,
            str(mean.cases if mean else 0),
            str(mean.pairs if mean else 0),
            str(excluded),
        )
    console.print()
    console.print(table)


def _exclusions(console: Console, each: Sequence[Row], upgrade: Upgrade) -> None:
    if upgrade.exclusions:
        console.print()
        print_line(console, "in no geomean:")
    alike: dict[str, list[str]] = {}
    for one in upgrade.exclusions:
        alike.setdefault(exclusion(one), []).append(one.case)
    for why, cases in alike.items():
        if len(cases) > _MOST_CASES:
            print_line(console, f"    {len(cases)} cases, as {cases[0]}: {why}")
        else:
            for case in cases:
                print_line(console, f"    {case}: {why}")
    if apart := sentences.not_listed(each):
        print_line(console, apart)
    pairs = left_out(each)
    if pairs:
        print_line(console, "pairs that do not count:")
    for case, why in pairs:
        print_line(console, f"    {case}: {why}")


def _again(subject: Subject, each: Sequence[Row], upgrade: Upgrade) -> str:
    """The command of the case that weighs most, of an unclear one with the pairs that would decide it."""
    decided_by = next((one for one in subject.cases_to_decide(upgrade) if one.pairs is not None), None)
    if decided_by is not None:
        return subject.to_decide(decided_by)
    named = [case for reason in upgrade.reasons for case in reason.cases] or [row.case for row in each]
    return subject.reproduce(named[0] if named else "KEY")


def check_reports(files: Sequence[Path]) -> None:
    """Refuse files that no report can be written to, before an hour is spent on measuring."""
    for file in files:
        if file.suffix not in FORMATS:
            raise UsageError(f"{file}: a report needs one of these suffixes: {', '.join(FORMATS)}")
        there = file.exists()
        try:
            with file.open("a"):
                pass
            if not there:
                file.unlink()
        except OSError as error:
            raise UsageError(f"{file}: the file cannot be written ({error.strerror})") from None


def report_upgrade(console: Console, found: JudgedUpgrade, *, as_json: bool, local: bool = True) -> None:
    """Print the verdict, or one event; `local`: whether the journal of the run is on this machine."""
    if as_json:
        JsonWatcher(console).report_verdict(upgrade_json(found))
    else:
        print_upgrade(console, found, local=local)


class UpgradeConclusion:
    """Prints the verdict at the end of a run, or one event, and writes the reports; keeps the `decision`."""

    def __init__(self, files: Sequence[Path] = (), *, as_json: bool = False) -> None:
        self.decision = ""
        self._files = files
        self._as_json = as_json

    def __call__(self, header: Header, result: RunResult) -> None:
        """Conclude a run."""
        console, judged = watching_console(), judge_run(header, result)
        self.decision = judged.upgrade.decision
        report_upgrade(console, judged, as_json=self._as_json)
        # Where one cannot be written the verdict stands all the same, and `pyrometer report` prints it again.
        write_reports(FORMATS, judged, self._files)
        end_output(console, header, result, as_json=self._as_json)


def write_reports(
    formats: Mapping[str, Callable[[Judged], str]], judged: Judged, files: Sequence[Path]
) -> bool:
    """Write each that can be written, in the format of its suffix, and report each; whether all are there."""
    failed = False
    for file in files:
        try:
            write_whole(file, formats[file.suffix](judged))
        except OSError as error:
            failed = True
            say(f"pyrometer: {file} could not be written: {error.strerror or error}")
        else:
            say(f"report: {file}")
    return not failed
