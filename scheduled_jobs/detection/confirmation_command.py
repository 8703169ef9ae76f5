"""What a session needs to be measured: both sides as they can be had today, and the command."""

from collections.abc import Sequence
from dataclasses import dataclass

from analysis.comparison.plan import Plan
from analysis.comparison.policy import Policy
from analysis.comparison.thresholds import threshold_of
from analysis.metrics import METRICS
from db.connection.engine import Database
from db.runs import environments_in_use, queries
from records.environments import Environment
from records.findings import Finding
from records.runs import Run
from runner.environments.store import Store
from scheduled_jobs.jobs.context import JobContext
from scheduled_jobs.jobs.measure import case_files

from .findings import compared_runs
from .rebuild_environment import EnvironmentChoice, EnvironmentGone, find_environment, remote_environment
from .sessions import needs_cold

#: As many cold pairs as there may be at most, spare ones included.
_COLD = ("--cold-pairs", str(2 * Plan().largest))
#: What a run's suite is called where its cases were chosen one by one.
_CHOSEN = "chosen"


@dataclass(frozen=True, slots=True)
class ConfirmationPlan:
    """A session that can be measured: what it judges, its two sides, and what its command takes.

    `options` are those that every command about these cases takes: the preset, the files of own cases, and
    the device where it is the CPU. `suite` says how long is measured, `cold` how many pairs compile cold,
    `also` which metrics have to be judged besides the one that decides an upgrade.
    """

    findings: tuple[Finding, ...]
    cases: tuple[str, ...]
    old: EnvironmentChoice
    new: EnvironmentChoice
    options: tuple[str, ...]
    suite: tuple[str, ...]
    cold: tuple[str, ...] = ()
    also: tuple[str, ...] = ()

    @property
    def command(self) -> list[str]:
        """The arguments of `pyrometer`."""
        cases = [part for case in self.cases for part in ("--case", case)]
        given = (*self.options, *self.cold, *self.also)
        return ["upgrade", self.old.text, self.new.text, *self.suite, *cases, *given]

    @property
    def versions(self) -> tuple[str, str]:
        """PyTorch's on either side."""
        return self.old.environment.torch_version, self.new.environment.torch_version


def plan_confirmation(
    database: Database, context: JobContext, found: Sequence[Finding], cases: Sequence[str]
) -> ConfirmationPlan:
    """The session that judges findings of one pair of environments; raises Gone where a side is missing."""
    first, sides = found[0], compared_runs(found[0])
    before = queries.run_record(database, sides.old_run)
    after = queries.run_record(database, sides.new_run)
    if before is None or after is None:
        gone = sides.old_run if before is None else sides.new_run
        raise EnvironmentGone(
            f"run {gone}, whose environment is to be compared, is no longer in the database"
        )
    store = Store(context.data_dir / "environments")
    old, new = (
        _side(database, context, store, first.machine, _environment(run, fingerprint))
        for run, fingerprint in ((before, sides.old), (after, sides.new))
    )
    return ConfirmationPlan(
        findings=tuple(found),
        cases=tuple(cases),
        old=old,
        new=new,
        options=("--preset", first.key.preset_name, *_device(after), *_own_cases(context, first.schedule)),
        suite=() if after.suite == _CHOSEN else ("--suite", after.suite),
        cold=_COLD if any(map(needs_cold, found)) else (),
        also=_also(found),
    )


def _also(found: Sequence[Finding]) -> tuple[str, ...]:
    """What must be judged however soon the latency is: of metrics that vary, as two pairs decide the others.

    One that is neither better nor worse, which schedules could watch once, must not keep others from theirs.
    """
    varying = dict.fromkeys(one.key.metric for one in found if not threshold_of(one.key.metric).exact)
    judged = [metric for metric in varying if METRICS[metric].better != "neither"]
    return tuple(part for metric in judged if metric != Policy().metric for part in ("--also", metric))


def _own_cases(context: JobContext, schedule: str) -> list[str]:
    """The files of own cases that a schedule measures as well, if it is still written down."""
    written = context.settings.schedules.get(schedule)
    return case_files((written and written.case_files) or (), context)


def _side(
    database: Database, context: JobContext, store: Store, machine: str, environment: Environment
) -> EnvironmentChoice:
    newest = environments_in_use.newest_named(database, machine, environment.name) or ""
    if context.away:
        return remote_environment(environment, newest)
    return find_environment(environment, newest, context.settings.environments, store)


def _environment(run: Run, fingerprint: str) -> Environment:
    found = next((one for one in run.environments if one.fingerprint == fingerprint), None)
    if found is None:
        raise EnvironmentGone(f"run {run.id} does not hold the environment that the finding names")
    return found


def _device(run: Run) -> tuple[str, ...]:
    return ("--device", "cpu") if run.facts.get("device") == "cpu" else ()
