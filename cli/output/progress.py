"""Progress of a run: a live display, lines for logs, JSON events for programs."""

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
#: The signs of statuses differ in shape, not only in colour.
_SIGNS = {OutcomeStatus.OK: "✓", OutcomeStatus.SKIPPED: "–", OutcomeStatus.UNSUPPORTED: "–"}

#: The displayed name of a running phase.
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
    """A live display on a terminal; plain lines otherwise."""
    if console.is_terminal:
        with _progress(console) as progress:
            yield LiveWatcher(progress)
    else:
        yield PlainWatcher(console)


class PlainWatcher:
    """One line per event, for logs and pipes."""

    def __init__(self, console: Console) -> None:
        self._console = console
        self._names: Mapping[str, str] = {}
        self._done = 0
        self._total: int | None = None
        self._left = 0.0

    def report_start(self, header: Header, todo: tuple[PlannedReplicate, ...], seconds: float) -> None:
        """Print what will be measured, and what cannot be measured."""
        self._total = planned_total(header, todo)
        self._names = environment_names(header)
        self._line(introduction(header, todo, seconds))
        for note in header.notes:
            self._line(f"not here: {note}")

    def report_phase(self, planned: PlannedReplicate, phase: str, seconds_left: float) -> None:
        """Print a line for compiling, which takes long; other phases are reported with their outcome."""
        self._left = seconds_left
        if phase == "first_call" and "compile=" in planned.case:
            self._line(f"       compiling {planned.case}, replicate {planned.replicate}")

    def report_outcome(self, outcome: Outcome) -> None:
        """One line per outcome."""
        self._done += 1
        remaining = "done" if self._done == self._total else f"about {duration(self._left)} left"
        self._line(f"{self._count()} {self._line_of(outcome)}  [{remaining}]")

    def report_unneeded(self, case: str, replicates: int, reason: str) -> None:
        """Print one line for all of them."""
        self._done += replicates
        self._line(f"{self._count()} {case}: {replicates} replicates {reason}")

    def note(self, sentence: str) -> None:
        """Print a separate line."""
        self._line(f"note: {sentence}")

    def report_end(self, result: RunResult) -> None:
        """Nothing: the report follows."""

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
        """Create the bar and print what cannot be measured."""
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
        """Print one line per outcome, above the bar."""
        style = _STYLES.get(outcome.status, "red")
        line = outcome_line(outcome, self._names.get(outcome.environment, ""))
        self._print(f"[{style}]{_SIGNS.get(outcome.status, '✗')}[/{style}] {escape(line)}")
        self._progress.advance(self._task)

    def report_unneeded(self, case: str, replicates: int, reason: str) -> None:
        """Print one line for all of them, above the bar."""
        self._print(f"[dim]{escape(case)}: {replicates} replicates {escape(reason)}[/dim]")
        self._progress.advance(self._task, replicates)

    def note(self, sentence: str) -> None:
        """Print a line above the bar."""
        self._print(f"[yellow]note:[/yellow] {escape(sentence)}")

    def report_end(self, result: RunResult) -> None:
        """Remove the bar."""
        self._progress.update(self._task, description="done", case="", left="0:00:00")

    def _print(self, text: str) -> None:
        self._progress.console.print(text, soft_wrap=True)


class JsonWatcher:
    """One JSON object per line on stdout; `event` is its kind."""

    def __init__(self, console: Console) -> None:
        self._console = console

    def report_wait(self, sentence: str) -> None:
        """Event: the run waits, with the reason."""
        self._emit("waiting", text=sentence)

    def report_start(self, header: Header, todo: tuple[PlannedReplicate, ...], seconds: float) -> None:
        """Event: the description of the run and the estimate in seconds."""
        body = {k: v for k, v in header.to_body().items() if k not in ("environments", "planned")}
        names = [{k: e[k] for k in ("name", "python", "fingerprint")} for e in header.environments]
        planned = [asdict(one) for one in todo]
        self._emit(
            "began", run=header.run, estimate_seconds=seconds, planned=planned, environments=names, about=body
        )

    def report_phase(self, planned: PlannedReplicate, phase: str, seconds_left: float) -> None:
        """Event: a contender entered a phase."""
        self._emit("phase", **asdict(planned), phase=phase, seconds_left=seconds_left)

    def report_outcome(self, outcome: Outcome) -> None:
        """Event: an outcome, without its samples, recordings and log."""
        left_out = ("blocks", "telemetry", "log_tail")
        body = {k: v for k, v in outcome.to_body().items() if k not in left_out}
        self._emit("outcome", **body)

    def report_unneeded(self, case: str, replicates: int, reason: str) -> None:
        """Event: replicates that are not needed."""
        self._emit("spared", case=case, replicates=replicates, reason=reason)

    def note(self, sentence: str) -> None:
        """Event: a sentence for users."""
        self._emit("note", text=sentence)

    def report_end(self, result: RunResult) -> None:
        """Event: the end of the run, with the gains of techniques."""
        found = [asdict(gain) for each in gains(result.outcomes, baselines).values() for gain in each]
        how = {"state": result.state, "stored": result.stored, "seconds": result.seconds}
        self._emit("ended", run=result.run, **how, gains=found)

    def report_verdict(self, body: Mapping[str, object]) -> None:
        """Event: the verdict on an upgrade, by reports/upgrade.schema.json."""
        self._emit("verdict", **body)

    def _emit(self, event: str, **body: object) -> None:
        print_event(self._console, event, body)


def introduction(header: Header, todo: tuple[PlannedReplicate, ...], seconds: float) -> str:
    """A sentence about the plan of the run."""
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
    """The displayed names of environments by fingerprint; empty if there is only one."""
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
    """The median latency and the compile times, if they are known."""
    named = {
        "latency": "median",
        **{name: METRICS[name].title.lower() for name in ("compile_cold", "compile_warm")},
    }
    return [f"{words} {quantity(name, metrics[name])}" for name, words in named.items() if name in metrics]


def outcome_line(outcome: Outcome, environment: str = "") -> str:
    """One outcome as a line: case, replicate, `environment` if given, and the median latency or the error."""
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
