"""Progress that people can watch, lines for logs, JSON for machines."""

from collections.abc import Generator, Mapping
from contextlib import contextmanager
from dataclasses import asdict
from datetime import timedelta

from rich.console import Console
from rich.markup import escape
from rich.progress import (
    BarColumn,
    MofNCompleteColumn,
    Progress,
    SpinnerColumn,
    TextColumn,
    TimeElapsedColumn,
)

from analysis.comparison.rounds import core_share
from analysis.comparison.screening import EVIDENCE
from analysis.metrics import METRICS
from analysis.speedups import gains
from common.text import plural, printable
from records.outcomes import Outcome, OutcomeStatus, PlannedReplicate
from reports.text.verdict_text import had_of_core
from reports.wording import quantity
from runner.suites.references import baselines
from workflows.app_context import Watcher
from workflows.measure import RunResult
from workflows.run_header import Header

from .console import print_event, print_line

_STYLES = {OutcomeStatus.OK: "green", OutcomeStatus.SKIPPED: "yellow"}
#: What is not well differs in shape, not in colour alone.
_SIGNS = {OutcomeStatus.OK: "✓", OutcomeStatus.SKIPPED: "–", OutcomeStatus.UNSUPPORTED: "–"}

#: What a phase is called while it runs.
PHASES = {
    "import": "importing torch",
    "build": "building",
    "first_call": "first call",
    "warm_up": "warming up",
    "measure": "measuring",
    "observe": "observing",
    "trace": "tracing",
    "finish": "finishing",
    "check": "checking the answer",
}


@contextmanager
def choose_watcher(console: Console) -> Generator[Watcher]:
    """A live display on a terminal; plain lines elsewhere."""
    if console.is_terminal:
        with _progress(console) as progress:
            yield LiveWatcher(progress)
    else:
        yield PlainWatcher(console)


class PlainWatcher:
    """One line per event that matters: for logs and pipes."""

    def __init__(self, console: Console) -> None:
        self._console = console
        self._names: Mapping[str, str] = {}
        self._done = 0
        self._total: int | None = None
        self._left = 0.0

    def report_start(self, header: Header, todo: tuple[PlannedReplicate, ...], seconds: float) -> None:
        """Say what is going to be measured, and what cannot be."""
        self._total = planned_total(header, todo)
        self._names = environment_names(header)
        self._line(introduction(header, todo, seconds))
        for note in header.notes:
            self._line(f"not here: {note}")

    def report_phase(self, planned: PlannedReplicate, phase: str, seconds_left: float) -> None:
        """Compiling takes long enough to be worth a line; the rest is reported with its outcome."""
        self._left = seconds_left
        if phase == "first_call" and "compile=" in planned.case:
            self._line(f"       compiling {planned.case}, replicate {planned.replicate}")

    def report_outcome(self, outcome: Outcome) -> None:
        """One line per outcome."""
        self._done += 1
        remaining = "done" if self._done == self._total else f"about {duration(self._left)} left"
        self._line(f"{self._count()} {self._line_of(outcome)}  [{remaining}]")

    def report_unneeded(self, case: str, replicates: int, reason: str) -> None:
        """One line for all of them."""
        self._done += replicates
        self._line(f"{self._count()} {case}: {replicates} replicates {reason}")

    def note(self, sentence: str) -> None:
        """A line of its own."""
        self._line(f"note: {sentence}")

    def report_end(self, result: RunResult) -> None:
        """The report says the rest."""

    def _count(self) -> str:
        return f"{self._done:3d}" if self._total is None else f"{self._done:3d}/{self._total}"

    def _line_of(self, outcome: Outcome) -> str:
        return outcome_line(outcome, self._names.get(outcome.environment, ""))

    def _line(self, text: str) -> None:
        print_line(self._console, text)


class LiveWatcher:
    """A bar with case, phase and time left; outcomes scroll above it."""

    def __init__(self, progress: Progress) -> None:
        self._progress = progress
        self._names: Mapping[str, str] = {}
        self._task = progress.add_task("starting", total=None, case="", left="")

    def report_start(self, header: Header, todo: tuple[PlannedReplicate, ...], seconds: float) -> None:
        """Set the bar up and say what cannot be measured."""
        self._names = environment_names(header)
        self._progress.update(self._task, total=planned_total(header, todo), left=duration(seconds))
        self._print(escape(introduction(header, todo, seconds)))
        for note in header.notes:
            self._print(f"[dim]not here: {escape(note)}[/dim]")

    def report_phase(self, planned: PlannedReplicate, phase: str, seconds_left: float) -> None:
        """Show case and phase."""
        case = f"{planned.case} #{planned.replicate}"
        what = (
            "compiling" if phase == "first_call" and "compile=" in planned.case else PHASES.get(phase, phase)
        )
        remaining = duration(seconds_left)
        self._progress.update(self._task, description=what, case=escape(case), left=remaining)

    def report_outcome(self, outcome: Outcome) -> None:
        """One line per outcome, above the bar."""
        style = _STYLES.get(outcome.status, "red")
        line = outcome_line(outcome, self._names.get(outcome.environment, ""))
        self._print(f"[{style}]{_SIGNS.get(outcome.status, '✗')}[/{style}] {escape(line)}")
        self._progress.advance(self._task)

    def report_unneeded(self, case: str, replicates: int, reason: str) -> None:
        """One line for all of them, above the bar."""
        self._print(f"[dim]{escape(case)}: {replicates} replicates {escape(reason)}[/dim]")
        self._progress.advance(self._task, replicates)

    def note(self, sentence: str) -> None:
        """A line above the bar."""
        self._print(f"[yellow]note:[/yellow] {escape(sentence)}")

    def report_end(self, result: RunResult) -> None:
        """Take the bar away."""
        self._progress.update(self._task, description="done", case="", left="0:00:00")

    def _print(self, text: str) -> None:
        self._progress.console.print(text, soft_wrap=True)


class JsonWatcher:
    """One JSON object per line on stdout; `event` says which."""

    def __init__(self, console: Console) -> None:
        self._console = console

    def report_wait(self, sentence: str) -> None:
        """Nothing is measured yet, and why."""
        self._emit("waiting", text=sentence)

    def report_start(self, header: Header, todo: tuple[PlannedReplicate, ...], seconds: float) -> None:
        """The run's description and the estimate in seconds."""
        body = {k: v for k, v in header.to_body().items() if k not in ("environments", "planned")}
        names = [{k: e[k] for k in ("name", "python", "fingerprint")} for e in header.environments]
        planned = [asdict(one) for one in todo]
        self._emit(
            "began", run=header.run, estimate_seconds=seconds, planned=planned, environments=names, about=body
        )

    def report_phase(self, planned: PlannedReplicate, phase: str, seconds_left: float) -> None:
        """A contender entered a phase."""
        self._emit("phase", **asdict(planned), phase=phase, seconds_left=seconds_left)

    def report_outcome(self, outcome: Outcome) -> None:
        """An outcome, without its samples, recordings and log."""
        left_out = ("blocks", "telemetry", "log_tail")
        body = {k: v for k, v in outcome.to_body().items() if k not in left_out}
        self._emit("outcome", **body)

    def report_unneeded(self, case: str, replicates: int, reason: str) -> None:
        """Replicates that are not needed."""
        self._emit("spared", case=case, replicates=replicates, reason=reason)

    def note(self, sentence: str) -> None:
        """A sentence for people."""
        self._emit("note", text=sentence)

    def report_end(self, result: RunResult) -> None:
        """How the run ended, and what each technique brought."""
        found = [asdict(gain) for each in gains(result.outcomes, baselines).values() for gain in each]
        how = {"state": result.state, "stored": result.stored, "seconds": result.seconds}
        self._emit("ended", run=result.run, **how, gains=found)

    def report_verdict(self, body: Mapping[str, object]) -> None:
        """The verdict on an upgrade, in the words of reports/upgrade.schema.json."""
        self._emit("verdict", **body)

    def _emit(self, event: str, **body: object) -> None:
        print_event(self._console, event, body)


def introduction(header: Header, todo: tuple[PlannedReplicate, ...], seconds: float) -> str:
    """One sentence on what is going to be measured."""
    torch = ", ".join(str(e["facts"]["torch"]) for e in header.environments)
    cases = plural(len({planned.case for planned in todo}), "case")
    # Pairs of a comparison end when the decision stands.
    many = ("" if header.comparison is None else "at most ") + plural(len(todo), "replicate")
    return (
        f"run {header.run}: suite {header.suite}, {cases}, {many}, torch {torch}, "
        f"{header.machine['hardware_label']}, preset {header.preset['name']}, about {duration(seconds)}"
    )


def planned_total(header: Header, todo: tuple[PlannedReplicate, ...]) -> int | None:
    """How many replicates the run measures; None for a comparison, which ends when its decision stands."""
    return len(todo) if header.comparison is None else None


def environment_names(header: Header) -> Mapping[str, str]:
    """What outcomes call their environment, by fingerprint; nothing where there is only one."""
    named = {str(each["fingerprint"]): str(each["name"]) for each in header.environments}
    return named if len(named) > 1 else {}


def duration(seconds: float) -> str:
    """Hours, minutes and seconds."""
    return str(timedelta(seconds=round(seconds)))


def _progress(console: Console) -> Progress:
    return Progress(
        SpinnerColumn(),
        TextColumn("{task.description}"),
        TextColumn("[bold]{task.fields[case]}"),
        BarColumn(bar_width=24),
        MofNCompleteColumn(),
        TimeElapsedColumn(),
        TextColumn("[dim]left {task.fields[left]}"),
        console=console,
        # Four times a second on the housekeeping core.
        refresh_per_second=4,
        transient=True,
    )


def _times_of(metrics: Mapping[str, float]) -> list[str]:
    """The median latency and the compile times, as far as they are known."""
    named = {
        "latency": "median",
        **{name: METRICS[name].title.lower() for name in ("compile_cold", "compile_warm")},
    }
    return [f"{words} {quantity(name, metrics[name])}" for name, words in named.items() if name in metrics]


def outcome_line(outcome: Outcome, environment: str = "") -> str:
    """One outcome in a line: case, replicate, `environment` if given, median latency or what went wrong."""
    name = f"{outcome.case} #{outcome.replicate}" + (f" in {environment}" if environment else "")
    if "operators" in outcome.facts and outcome.status == OutcomeStatus.OK:
        totals = outcome.facts["traced"]
        return f"{name}: {len(outcome.facts['operators'])} operators traced over {totals['steps']:g} steps"
    if outcome.status == OutcomeStatus.OK:
        if (short := outcome.facts.get(EVIDENCE)) is not None:
            return f"{name}: short pair of the screen, {', '.join(_times_of(short)) or 'no latency'}"
        parts = _times_of(outcome.metrics) or ["no latency"]
        if disturbance := had_of_core(core_share(outcome)):
            parts.append(f"disturbed: {disturbance}")
        return f"{name}: {', '.join(parts)}"
    return f"{name}: {outcome.status}: {printable(outcome.reason)}"
