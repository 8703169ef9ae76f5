"""The report of a run of one environment: its decision and its cases, in all formats."""

import json
import shlex
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

from markupsafe import Markup

from analysis.decision.run_cases import LATENCIES, RunCase, RunDecision, run_decision
from analysis.metrics import METRICS
from analysis.ratios import ratio
from analysis.recent_level import LEAST, NIGHTS
from common.text import plural, printable
from records.environments import Environment
from records.findings import Finding
from records.kinds import EnvironmentKind, RunState
from records.outcomes import OutcomeStatus
from records.runs import Run

from . import junit, sentences, tables, wording
from .body import plain_values
from .markdown import case_code, details
from .page import whole_page
from .rows import Tone
from .table import Column, DataTable
from .text import numbers
from .text.markdown import code, code_block
from .text.markdown import text as _text
from .text.numbers import NONE
from .text.templates import case as whole_case
from .text.templates import chip, escape_text, render
from .upgrade_report import environment_of

SCHEMA = "pyrometer.run/1"

#: Metrics of the table of cases, which has those that were measured, with their headings; also used on
#: terminals.
COLUMNS = (
    ("latency_floor", "min-based ms"),
    ("latency", "median ms"),
    ("throughput", "items/s"),
    ("compile_cold", "compile cold s"),
    ("compile_warm", "warm s"),
    ("rss_peak", "peak RSS MiB"),
    ("model_tflops", "TFLOP/s"),
)

DECISIONS: dict[RunDecision, str] = {"passed": "Passed", "failed": "Failed", "unclear": "Unclear"}
_TONES: dict[RunDecision, Tone] = {"passed": "good", "failed": "bad", "unclear": "odd"}
_SIGNS: dict[RunDecision, str] = {"passed": "✓", "failed": "✗", "unclear": "?"}

_ABOUT = (
    "Numbers are medians over the `ok` replicates, n of all; each replicate is a fresh process. Spread: the "
    "standard deviation of the logarithms of {latency}."
)
_ABOUT_CHANGE = (
    f"Change: {{latency}} against the median of at most {NIGHTS} earlier runs of the same environment name, "
    "or of the same track of a schedule, on this machine, with this preset and harness. Noise: the range "
    f"that noise between runs does not exceed in 99 of 100 runs; it requires {LEAST} earlier runs. A change "
    "outside noise is not confirmed: pyrometer upgrade measures two environments in turns."
)


@dataclass(frozen=True, slots=True)
class JudgedRun:
    """A run with its cases, worst first; `notes` name missing parts of the report, `resume` is a command."""

    run: Run
    cases: Sequence[RunCase]
    notes: tuple[str, ...] = ()
    resume: str = ""

    @property
    def decision(self) -> RunDecision:
        """The decision on the whole run."""
        return run_decision(self.cases, complete=self.run.state == RunState.COMPLETE)

    @property
    def environments(self) -> list[Environment]:
        """The measured environments, without that of the canary."""
        return [one for one in self.run.environments if one.kind != EnvironmentKind.CANARY]


def title(judged: JudgedRun) -> str:
    """The suite and the environment: `suite cpu in default`."""
    return f"suite {judged.run.suite} in {', '.join(one.name for one in judged.environments)}"


def headline(judged: JudgedRun) -> str:
    """The decision with its reason: `Failed: mlp/infer/-/eager ended crashed: SIGSEGV`."""
    return f"{DECISIONS[judged.decision]}: {because(judged)}"


def because(judged: JudgedRun) -> str:
    """The reason for the decision, or for its absence."""
    failed = [one for one in judged.cases if one.failed]
    if failed:
        more = len(failed) - 1
        return printable(why(failed[0])) + (f"; and {plural(more, 'more case')}" if more else "")
    if judged.run.state != RunState.COMPLETE:
        return f"the run is {judged.run.state}"
    open_cases = [one for one in judged.cases if not one.measured]
    if open_cases:
        return f"{numbers.of_cases(len(open_cases), len(judged.cases), 'were')} not measured"
    well = sum(one.status == OutcomeStatus.OK for one in judged.cases)
    if not well:
        return "no case was measured"
    text = f"{numbers.of_cases(well, len(judged.cases))} ok, and no regression is confirmed"
    outside = sum(one.outside for one in judged.cases)
    return f"{text}; {outside} outside noise" if outside else text


def why(one: RunCase) -> str:
    """The reason why a case fails the run: `mlp/infer/-/eager ended wrong: off by 4 %`."""
    if one.regression is None or one.status != OutcomeStatus.OK:
        return f"{one.case} ended {case_ending(one)}"
    return f"{one.case}: {_regression(one.regression)}"


def _regression(found: Finding) -> str:
    title = METRICS[found.key.metric].title if found.key.metric in METRICS else found.key.metric
    return f"{title} {numbers.percent(found.change)}, confirmed in this environment (regression {found.id})"


def case_ending(one: RunCase) -> str:
    """The status of a case, with the reason."""
    return f"{one.status}: {one.reason}" if one.reason else str(one.status)


def case_counts(judged: JudgedRun) -> str:
    """`36 cases: 33 ok, 3 crashed. Against earlier runs: 32 within noise, 1 outside noise.`"""
    if not judged.cases:
        return "0 cases."
    text = f"{plural(len(judged.cases), 'case')}: {wording.count_words(one.status for one in judged.cases)}."
    changes = [change_words(one) for one in judged.cases if one.latency is not None]
    if not any(map(_compared, judged.cases)):
        return text
    return f"{text} Against earlier runs: {wording.count_words(changes)}."


def change_words(one: RunCase) -> str:
    """The comparison of a case with earlier runs."""
    if one.change is None or one.change.band is None:
        return "with too few runs"
    return "outside noise" if one.change.outside else "within noise"


def _compared(one: RunCase) -> bool:
    return one.change is not None


def case_table(judged: JudgedRun, case: tables.CaseFormat = whole_case) -> DataTable[RunCase]:
    """A row for each case; in CSV files and JSON changes are ratios new / old, and so is `noise`."""
    measured = {metric for one in judged.cases for metric in one.summaries}
    columns: list[Column[RunCase]] = [
        tables.case_column(lambda one: one.case, case),
        Column("status", "Status", lambda one: str(one.status), _status),
        Column("reason", value=lambda one: one.reason),
        Column("ok", value=lambda one: one.well),
        Column("replicates", "n", lambda one: one.replicates, _replicates, number=True),
        *(_metric_column(metric, heading) for metric, heading in COLUMNS if metric in measured),
        Column("spread", "Spread", _spread, lambda one: _share(_spread(one)), number=True),
        *_change_columns(visible=any(map(_compared, judged.cases))),
        Column("regression", value=lambda one: one.regression.id if one.regression else None),
    ]
    return DataTable("Cases", columns, judged.cases, tall=True)


def _metric_column(metric: str, heading: str) -> Column[RunCase]:
    def point(one: RunCase) -> float | None:
        return one.summaries[metric].point if metric in one.summaries else None

    return Column(metric, heading, point, lambda one: wording.number(metric, point(one)), number=True)


def _change_columns(*, visible: bool) -> list[Column[RunCase]]:
    """The columns of the change of latency, its noise, and the earlier runs; only in files if no case has a
    change.
    """

    def level(one: RunCase) -> Markup:
        if one.change is None:
            return Markup(NONE)
        value = numbers.figure(one.change.level)
        return Markup("{}<small>{}</small>").format(value, plural(one.change.nights, "run"))

    def label(text: str) -> str | None:
        return text if visible else None

    return [
        Column(
            "ratio",
            label("Change"),
            lambda one: ratio(one.change.change) if one.change else None,
            lambda one: numbers.percent(one.change.change) if one.change else NONE,
            number=True,
        ),
        Column(
            "noise",
            label("Noise"),
            lambda one: ratio(one.change.band) if one.change and one.change.band is not None else None,
            lambda one: wording.within(one.change.band if one.change else None),
            number=True,
        ),
        Column(
            "level",
            label("Before, ms"),
            lambda one: one.change.level if one.change else None,
            level,
            number=True,
        ),
        Column("earlier_runs", value=lambda one: one.change.nights if one.change else 0),
    ]


def _status(one: RunCase) -> Markup:
    if one.status == OutcomeStatus.OK:
        if one.regression is not None:
            return chip("bad", "▲", "confirmed worse")
        if one.outside:
            return chip("odd", "○", "ok, outside noise")
        return chip("good", "✓", "ok")
    if one.failed:
        return chip("bad", "✗", str(one.status))
    return chip("quiet" if one.measured else "odd", NONE, str(one.status))


def _replicates(one: RunCase) -> str:
    return f"{one.well}/{one.replicates}"


def _spread(one: RunCase) -> float | None:
    return one.latency.spread if one.latency else None


def _share(value: float | None) -> str:
    return NONE if value is None else f"{100 * value:.1f} %"


def failure_table(judged: JudgedRun, case: tables.CaseFormat = whole_case) -> DataTable[RunCase]:
    """Cases that are not `ok`, with the reason of the first replicate, and confirmed regressions."""

    def reason(one: RunCase) -> Markup:
        words = _regression(one.regression) if one.regression else ""
        return tables.reason_text("; ".join(filter(None, (one.reason, words))) or NONE)

    columns: list[Column[RunCase]] = [
        tables.case_column(lambda one: one.case, case),
        Column("", "Status", format=_status),
        Column("", "Replicates", format=lambda one: f"{one.count} of {one.replicates}", number=True),
        Column("", "Why", format=reason),
    ]
    rows = [one for one in judged.cases if one.failed or one.status != OutcomeStatus.OK]
    return DataTable("What is not ok", columns, rows, tall=True)


def about(judged: JudgedRun) -> str:
    """The explanation of the numbers in the table."""
    used = {metric for one in judged.cases for metric in one.summaries}
    metric = next((name for name in LATENCIES if name in used), LATENCIES[-1])
    latency = METRICS[metric].title.lower()
    text = _ABOUT.format(latency=latency)
    if any(map(_compared, judged.cases)):
        text += " " + _ABOUT_CHANGE.format(latency=latency)
    return text


def place(judged: JudgedRun) -> str:
    """The hardware, the preset and the time."""
    run = judged.run
    return f"{run.machine.hardware.label}, preset {run.preset.name}, {wording.moment(run.started_at)}"


def facts(judged: JudgedRun) -> list[tuple[str, str]]:
    """The context of the numbers as names and values; empty ones are left out."""
    run = judged.run
    listed = [
        *(("environment", sentences.environment(environment_of(one))) for one in judged.environments),
        ("machine", run.machine.name),
        ("hardware", run.machine.hardware.label),
        ("device", str(run.facts.get("device", ""))),
        ("preset", run.preset.name),
        *((f"preset, {name}", value) for name, value in sentences.flat(run.preset.settings)),
        ("run", f"{run.id}, {run.state}"),
        ("took", wording.duration(run.started_at, run.ended_at) if run.ended_at else ""),
        ("harness", run.harness),
        ("Pyrometer", str(run.facts.get("pyrometer", ""))),
        ("command", run.command),
    ]
    return [(name, value) for name, value in listed if value]


def again(judged: JudgedRun) -> str:
    """The command that measures a case again, with the first case of the report."""
    case = judged.cases[0].case if judged.cases else "CASE"
    return shlex.join(["pyrometer", "reproduce", f"{judged.run.id}:{case}", "--run"])


def _page(judged: JudgedRun) -> str:
    content = render(
        "run.html",
        judged=judged,
        decision=DECISIONS[judged.decision],
        tone=_TONES[judged.decision],
        sign=_SIGNS[judged.decision],
        because=because(judged),
        counted=case_counts(judged),
        about=about(judged),
        failures=failure_table(judged),
        cases=case_table(judged),
        facts=facts(judged),
        notes=(*judged.notes, *judged.run.notes),
        again=again(judged),
    )
    name = f"{DECISIONS[judged.decision]}: {title(judged)}"
    return whole_page(name, escape_text(title(judged)), place(judged), content, kind="run")


def _markdown(judged: JudgedRun) -> str:
    """GitHub's Markdown: the decision, the failures, then every case."""
    resume = f" Resume it with {code(judged.resume)}" if judged.resume else ""
    failures = failure_table(judged, case_code)
    notes = "\n".join(f"- {_text(note)}" for note in (*judged.notes, *judged.run.notes))
    listed = tables.facts(facts(judged)).markdown()
    sections = [
        f"## {_SIGNS[judged.decision]} {DECISIONS[judged.decision]}: {_text(title(judged))}",
        f"**{DECISIONS[judged.decision]}:** {_text(because(judged))}.{resume}",
        f"{_text(place(judged))}. {_text(case_counts(judged))}",
        f"### Cases that are not ok\n\n{failures.markdown()}" if failures.rows else "",
        f"### Case by case\n\n{about(judged)}\n\n{case_table(judged, case_code).markdown()}",
        details("How it was measured", f"{listed}\n\nNotes:\n\n{notes}" if notes else listed),
        details("Measure a case again", code_block(again(judged), "sh")),
    ]
    return "\n\n".join(section for section in sections if section) + "\n"


def _json(judged: JudgedRun) -> str:
    run = judged.run
    body = {
        "schema": SCHEMA,
        "decision": judged.decision,
        "headline": headline(judged),
        "cases": case_table(judged).records(),
        "environments": [
            {"name": one.name, "torch": one.torch_version, "fingerprint": one.fingerprint}
            for one in judged.environments
        ],
        "run": {
            "id": run.id,
            "state": run.state,
            "suite": run.suite,
            "started_at": run.started_at.isoformat(),
            "ended_at": run.ended_at.isoformat() if run.ended_at else None,
            "machine": run.machine.name,
            "hardware": run.machine.hardware.label,
            "device": str(run.facts.get("device", "")),
            "preset": run.preset.name,
            "harness": run.harness,
            "command": run.command,
            "notes": [*judged.notes, *run.notes],
        },
        "resume": judged.resume,
    }
    return json.dumps(plain_values(body), indent=2) + "\n"


def _junit(judged: JudgedRun) -> str:
    """The decision, then every case: cases that fail the run fail, cases that were not measured are
    skipped.
    """
    run = judged.run
    suite = junit.new_suite(title(judged), run.machine.name, run.started_at)
    decision = headline(judged)
    junit.add_test(
        suite,
        ("run", "decision"),
        failure=decision if judged.decision == "failed" else "",
        skipped=decision if judged.decision == "unclear" else "",
    )
    for one in judged.cases:
        well = one.status == OutcomeStatus.OK
        junit.add_test(
            suite,
            (one.case.rpartition("/")[0], one.case),
            failure=why(one) if one.failed else "",
            skipped="" if one.failed or well else case_ending(one),
            text=_summary(one) if well else "",
        )
    return junit.document([junit.count_tests(suite)], decision)


def _summary(one: RunCase) -> str:
    """The numbers of a case as a line."""
    listed = [
        f"{METRICS[metric].title} {wording.quantity(metric, one.summaries[metric].point)}"
        for metric, _ in COLUMNS
        if metric in one.summaries
    ]
    if one.change is not None:
        listed.append(f"{numbers.percent(one.change.change)} against earlier runs, {change_words(one)}")
    return ", ".join(listed)


#: The writers of the report of a run, by the suffix of the file.
RUN_FORMATS: Mapping[str, Callable[[JudgedRun], str]] = {
    ".html": _page,
    ".md": _markdown,
    ".json": _json,
    ".xml": _junit,
}
