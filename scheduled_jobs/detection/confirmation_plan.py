"""Plan a confirming session: the present replacements of both environments, and the command."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from analysis.comparison.plan import Plan
from analysis.comparison.policy import Policy
from analysis.comparison.thresholds import threshold_of
from analysis.decision.comparison import Comparison
from analysis.metrics import METRICS
from configuration.data_dirs import environments_folder
from configuration.environments import EnvironmentSettings
from db.connection.engine import Database
from db.runs import environments_in_use, queries
from records.environments import Environment
from records.findings import Finding
from records.fingerprints import own_fingerprint
from records.runs import Run
from runner.environments.recipe import NIGHTLY
from runner.environments.spec import which_torch
from runner.environments.store import Store
from runner.environments.versions import date_of, parse
from scheduled_jobs.jobs.context import JobContext
from scheduled_jobs.jobs.measure import case_files
from workflows.run_header import LOCKED_CLOCK, Header

from .findings import compared_runs
from .sessions import needs_cold


@dataclass(frozen=True, slots=True)
class EnvironmentChoice:
    """One side of a session: its `text` on the command line, and the fingerprint that it should have.

    `rebuilt`: the environment was removed and is built again from its version, so other packages may differ.
    """

    text: str
    environment: Environment
    rebuilt: bool = False


class EnvironmentGone(Exception):
    """An environment that cannot be rebuilt any more; the text is a sentence that says why."""


def find_environment(
    environment: Environment,
    newest: str,
    declared: Mapping[str, EnvironmentSettings],
    store: Store,
) -> EnvironmentChoice:
    """A replacement for an environment on this machine; raises Gone if there is none.

    `newest` is the fingerprint that the newest run had under the environment's name: an existing interpreter
    is that environment, not an older one. Built environments are found by their fingerprint under any name.
    """
    for built in store.all():
        if built.facts.get("fingerprint") == environment.fingerprint and built.python.exists():
            return EnvironmentChoice(str(built.folder), environment)
    python = interpreter_of(environment, declared)
    if environment.fingerprint == newest and python is not None:
        return EnvironmentChoice(str(python), environment)
    written = declared.get(environment.name)
    spec = version_spec(environment.torch_version)
    if spec is not None and written is not None and written.torch and which_torch(written.torch) == spec:
        # By its name it is built with the same packages and index.
        return EnvironmentChoice(environment.name, environment, rebuilt=True)
    if spec is None or (written is not None and written.wheel):
        raise EnvironmentGone(
            f"environment {environment.name} (torch {environment.torch_version}) was removed, and its "
            f"version is not one that a package index offers"
        )
    return EnvironmentChoice(_from_its_index(spec, environment, declared), environment, rebuilt=True)


def remote_environment(environment: Environment, newest: str) -> EnvironmentChoice:
    """A replacement for an environment on a machine whose files this one cannot read; raises Gone.

    It is its name if the newest run of that machine used it under that name. The name of a nightly means
    another one every day, so it is requested by day; other environments are requested by version.
    """
    spec = version_spec(environment.torch_version)
    if environment.fingerprint == newest and not (spec or "").startswith(NIGHTLY):
        return EnvironmentChoice(environment.name, environment)
    if spec is None:
        raise EnvironmentGone(
            f"environment {environment.name} (torch {environment.torch_version}) has changed, and its "
            f"version is not one that a package index offers"
        )
    return EnvironmentChoice(spec, environment, rebuilt=True)


def _from_its_index(spec: str, environment: Environment, declared: Mapping[str, EnvironmentSettings]) -> str:
    """The nightly of a day by its declared name, which has the index and the packages."""
    kind, _, day = spec.partition(" ")
    for name in (environment.name, environment.name.removesuffix(f"-{day}")) if kind == NIGHTLY else ():
        written = declared.get(name)
        if written is not None and written.torch and which_torch(written.torch) == NIGHTLY:
            return f"{name} {day}"
    return spec


def interpreter_of(environment: Environment, declared: Mapping[str, EnvironmentSettings]) -> Path | None:
    """The interpreter of an environment that Pyrometer did not build, if it still exists."""
    written = declared.get(environment.name)
    if written is not None:
        return written.python if written.python is not None and written.python.exists() else None
    executable = environment.facts.get("executable")
    path = Path(str(executable)) if executable else None
    return path if path is not None and path.is_absolute() and path.exists() else None


def version_spec(torch_version: str) -> str | None:
    """The spec of a version: `2.13.0`, or `nightly 2026-11-20`; None for a local build.

    The local part (`+cpu`, `+cu130`) depends on the index.
    """
    version = parse(torch_version)
    if version is None:
        return None
    if day := date_of(version):
        return f"{NIGHTLY} {day}"
    # 2.14.0a0+git1234 was compiled from a checkout: no index has it.
    return None if version.is_devrelease or (version.pre and version.pre[0] != "rc") else version.public


def conditions_mismatch(hardware: str, preset: str, header: Header) -> str:
    """The reason why a session does not apply to nights on `hardware` under `preset` (fingerprints); empty if
    it does.

    An empty fingerprint matches any.
    """
    if hardware and header.machine["hardware_fingerprint"] != hardware:
        label = header.machine["hardware_label"]
        return f"the hardware of {header.machine['name']} has changed since these nights: it is {label} now"
    if preset and header.preset["fingerprint"] != preset:
        return f"preset {header.preset['name']} has changed since these nights"
    return ""


def environment_mismatch(
    old: EnvironmentChoice, new: EnvironmentChoice, header: Header, comparison: Comparison
) -> str:
    """The reason why the compared environments are not the requested ones; empty if they are.

    A rebuilt environment may have another fingerprint, but no other build of PyTorch.
    """
    if own_fingerprint(comparison.new) == own_fingerprint(comparison.old):
        return "the replacements of the old and the new environment are the same"
    bodies = {str(each["fingerprint"]): each["facts"] for each in header.environments}
    for side, fingerprint in ((old, comparison.old), (new, comparison.new)):
        environment, facts = side.environment, bodies[fingerprint]
        build = (facts.get("torch"), facts.get("torch_git"))
        alike = side.rebuilt and build == (environment.torch_version, environment.facts.get("torch_git"))
        if fingerprint != environment.fingerprint and not alike:
            sentence = f"environment {environment.name} (torch {environment.torch_version}) was removed"
            return f"{sentence}: {side.text} has changed"
    return ""


#: The largest number of cold pairs, including spare ones.
_COLD = ("--cold-pairs", str(2 * Plan().largest))
#: The name of the suite of a run of single cases.
_CHOSEN = "chosen"


@dataclass(frozen=True, slots=True)
class ConfirmationPlan:
    """A session that can be measured: its findings, its two sides, and the options of its command.

    `options` are those of every command about these cases: the preset, the files of own cases, and the device
    if it is the CPU. `suite` has the timing, `cold` is the number of cold pairs, `also` are metrics that have
    to be judged besides the deciding one, `clocks` is the locked clock of the GPUs in MHz, if the nights
    locked them. `hardware` and `preset` are the fingerprints of the nights; the hardware of a run over
    several nodes is empty, because a session has one node.
    """

    findings: tuple[Finding, ...]
    cases: tuple[str, ...]
    old: EnvironmentChoice
    new: EnvironmentChoice
    options: tuple[str, ...]
    suite: tuple[str, ...]
    cold: tuple[str, ...] = ()
    also: tuple[str, ...] = ()
    clocks: tuple[str, ...] = ()
    hardware: str = ""
    preset: str = ""

    @property
    def command(self) -> list[str]:
        """The arguments of `pyrometer`."""
        cases = [part for case in self.cases for part in ("--case", case)]
        options = (*self.options, *self.cold, *self.also, *self.clocks)
        return ["upgrade", self.old.text, self.new.text, *self.suite, *cases, *options]

    @property
    def versions(self) -> tuple[str, str]:
        """The PyTorch versions of both sides."""
        return self.old.environment.torch_version, self.new.environment.torch_version


def plan_confirmation(
    database: Database, context: JobContext, found: Sequence[Finding], cases: Sequence[str]
) -> ConfirmationPlan:
    """The session that judges findings of one pair of environments; raises Gone if a side is missing."""
    first, sides = found[0], compared_runs(found[0])
    before = queries.run_record(database, sides.old_run)
    after = queries.run_record(database, sides.new_run)
    if before is None or after is None:
        missing = sides.old_run if before is None else sides.new_run
        raise EnvironmentGone(
            f"run {missing}, whose environment is to be compared, is no longer in the database"
        )
    store = Store(environments_folder(context.settings, context.data_dir))
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
        clocks=_clocks(after),
        hardware="" if after.facts.get("nodes") else after.machine.hardware.fingerprint,
        preset=after.preset.fingerprint,
    )


def _also(found: Sequence[Finding]) -> tuple[str, ...]:
    """The metrics that must be judged besides the latency: those that vary, because two pairs decide the
    others.

    A metric without a better direction, which schedules could once watch, is ignored so that it does not
    block the others.
    """
    varying = dict.fromkeys(one.key.metric for one in found if not threshold_of(one.key.metric).exact)
    judged = [metric for metric in varying if METRICS[metric].better != "neither"]
    return tuple(part for metric in judged if metric != Policy().metric for part in ("--also", metric))


def _own_cases(context: JobContext, schedule: str) -> list[str]:
    """The files of own cases of a schedule, if it is still configured."""
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
    """The option with the kind of device that the run used; none for an old run."""
    kind = str(run.facts.get("device", "")).partition(":")[0]
    return ("--device", kind) if kind in ("cpu", "cuda") else ()


def _clocks(run: Run) -> tuple[str, ...]:
    """The option that locks the clocks of the GPUs as in the run; none if they were not locked."""
    cards: Mapping[str, Mapping[str, Any]] = (run.facts.get("conditions") or {}).get("gpus") or {}
    held = next((mhz for card in cards.values() if (mhz := card.get(LOCKED_CLOCK))), None)
    return () if held is None else ("--lock-clocks", str(held))
