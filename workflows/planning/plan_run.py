"""Plan a run, or load the plan of an interrupted one."""

import json
import os
from collections.abc import Iterable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import asdict, dataclass, replace
from datetime import UTC, datetime
from importlib.metadata import version
from itertools import groupby
from pathlib import Path
from typing import Any

from analysis.decision.comparison import Comparison
from common.bounded_files import size_of
from common.text import plural
from configuration.settings import Settings
from configuration.suggestions import unknown
from records.fingerprints import own_fingerprint
from records.kinds import RunKind
from records.outcomes import Outcome, PlannedReplicate
from runner import environment as environments
from runner import journal, machine
from runner.environment import MeasuredEnvironment
from runner.errors import JournalError
from runner.execution import canary_runner
from runner.execution.harness import Harness, is_whole, protocol_of
from runner.machine import MachineFacts, card_states, card_warnings
from runner.nodes import Node, NodeMachines, inspect
from runner.preset import MachinePreset
from runner.session_plan import Timing
from runner.suites.suite import Suite
from runner.telemetry.capability import Probe, host_capabilities
from runner.telemetry.gpu import probe
from runner.telemetry.sample_log import bare
from runner.worker.case_key import CaseKey
from runner.worker.messages import PROTOCOL

from ..app_context import AppContext
from ..errors import CannotResume, NothingToMeasure, NothingToResume, UsageError
from ..ingest import FORGOTTEN, read_run
from ..measure import new_run_id
from ..run_header import LOCKED_CLOCK, Header, environment_body, machine_body, preset_body, telemetry_body
from .resolve_environment import ReadyEnvironment

#: The note if telemetry cannot tell which devices of NVML are measured.
_UNKNOWN_GPUS = (
    "the measured PyTorch reports no UUIDs of its devices (old ones have none, and some give a MIG device "
    "that of the whole GPU): GPUs are not monitored for other processes, power, clocks and utilisation"
)
#: The note if the settings accept every block regardless of other programs' CPU use.
_INTERFERENCE_IGNORED = "blocks are not repeated because of other programs' load: contention_limit is 1"
#: Conditions of a machine that affect its numbers; a run has one value of each.
_CONDITIONS = (
    *("kernel", "microcode", "flags", "smt", "governor", "turbo_off", "transparent_hugepages", "aslr"),
    "driver",
)


@dataclass(frozen=True, slots=True)
class Chosen:
    """The valid choices of the user that do not require running the environment."""

    preset: MachinePreset
    suite: Suite
    harness: Harness


@dataclass(frozen=True, slots=True)
class PreparedRun:
    """A run that can start: its description, and the parts that stay the same when it is resumed."""

    header: Header
    preset: MachinePreset
    harness: Harness
    known: tuple[Outcome, ...] = ()
    nodes: tuple[Node, ...] = ()


@dataclass(frozen=True, slots=True)
class ProbedMachine:
    """The facts that the environments of a run and NVML report, for the header."""

    environments: tuple[MeasuredEnvironment, ...]
    telemetry: Mapping[str, Any]


@dataclass(frozen=True, slots=True)
class RunPlan:
    """The cases and the timing; `device` is `auto`, `cpu` or `cuda`.

    `fingerprints`: whether they are taken as well, see `Header`. `lock_clocks` is the locked SM clock of its
    GPUs in MHz.
    """

    planned: Sequence[PlannedReplicate]
    timing: Timing
    budget_seconds: float
    device: str
    comparison: Comparison | None = None
    kind: RunKind = RunKind.RUN
    fingerprints: bool = True
    lock_clocks: int | None = None


def ask(chosen: Chosen, ready: Sequence[ReadyEnvironment]) -> ProbedMachine:
    """Have every environment describe itself; raises BrokenEnvironment, NothingToMeasure for broken cases.

    Cases of a file that only one environment can load are not compared: usually the other lacks a package.
    """
    # With a faulty driver, the query takes as long as importing torch, or longer.
    with ThreadPoolExecutor(1) as executor:
        probing = executor.submit(probe.examine)
        described = _describe_environments(chosen, ready)
    for one in described:
        where = f" in {one.name}" if one is not described[0] else ""
        for module, reason in one.broken_cases.items():
            raise NothingToMeasure(f"{module}.py cannot be loaded{where}: {reason}")
    found = probing.result()
    examined = tuple(replace(one, facts=without_uuids_of_whole_gpus(one.facts, found)) for one in described)
    return ProbedMachine(examined, telemetry_body(found, host_capabilities()))


def without_uuids_of_whole_gpus(facts: Mapping[str, Any], found: Probe) -> Mapping[str, Any]:
    """The facts of an environment without the UUID of a MIG device that is reported with that of its whole
    GPU: the counters of the whole GPU include those of its other users.
    """
    whole = {bare(gpu.uuid) for gpu in found.gpus if not gpu.mig_of}

    def is_misnamed(device: Mapping[str, Any]) -> bool:
        return " MIG " in device["name"] and bare(str(device.get("uuid") or "")) in whole

    devices = [{**one, "uuid": ""} if is_misnamed(one) else one for one in facts.get("devices", ())]
    return {**facts, "devices": devices} if devices else facts


def _describe_environments(
    chosen: Chosen, ready: Sequence[ReadyEnvironment]
) -> tuple[MeasuredEnvironment, ...]:
    """The description of each environment; one that is compared with itself is run once."""
    by_python: dict[Path, MeasuredEnvironment] = {}
    for one in ready:
        if one.python not in by_python:
            by_python[one.python] = environments.describe(one.name, one.python, chosen.harness, chosen.preset)
    return tuple(replace(by_python[one.python], name=one.name) for one in ready)


def timing_of(suite: Suite, deadline: float | None, settings: Settings) -> Timing:
    """The timing of a run of the suite, with the typed deadline and the limit of the machine."""
    return replace(
        suite.timing,
        deadline_seconds=deadline or suite.timing.deadline_seconds,
        contention_limit=settings.contention_limit,
    )


def prepare(
    app: AppContext,
    chosen: Chosen,
    probed: ProbedMachine,
    plan: RunPlan,
    run: str | None = None,
    nodes: tuple[Node, ...] = (),
) -> PreparedRun:
    """The run that measures `plan`; its environments are on one machine and see the same GPUs.

    `run` is its id if `--run-id` gives one; raises UsageError if a run of that id has a journal, if the
    environments do not see the same GPUs, and if device `cuda` sees none. `nodes` are those of a run over
    several machines, this one first: their hardware is that of all together. Raises NodeFailed for one that
    cannot measure the same.
    """
    begun = journal.path_of(app.places.data_dir, run) if run is not None else None
    if begun is not None and begun.exists() and begun.stat().st_size:
        raise _begun(begun)
    preset, harness, described = chosen.preset, chosen.harness, probed.environments
    check_alike(described, plan.device)
    gpus = gpus_in_use(described[0], plan.device)
    check_device(probed, plan.device)
    device = "cuda:0" if gpus else "cpu"
    cards = _cards(plan, gpus, _probe(probed), nodes)
    traced = plan.timing.trace_steps > 0
    machines = reach(nodes, described[0], harness, preset, [p.case for p in plan.planned], bool(gpus))
    header = Header(
        run=run or new_run_id(),
        suite=chosen.suite.name,
        started_at=datetime.now(UTC).isoformat(),
        command=app.command,
        machine=machine_of(machine.describe(gpus, cards=cards), machines),
        environments=tuple(environment_body(one) for one in described),
        preset=preset_body(preset),
        harness=harness.version,
        harness_path=str(harness.path),
        user_version=harness.user_version,
        timing=_stored_timing(plan.timing),
        device=device,
        budget_seconds=plan.budget_seconds,
        planned=tuple((p.case, p.environment, p.replicate) for p in plan.planned),
        notes=app.places.notes + preset.notes + _machine_notes(probed, gpus),
        version=version("pyrometer"),
        canary=None if traced else canary_runner.canary_of(preset, device).environment(),
        telemetry=probed.telemetry,
        comparison=plan.comparison.to_body() if plan.comparison else None,
        kind=RunKind.TRACE if traced else plan.kind,
        fingerprints=plan.fingerprints,
        step=harness.step.to_body() if harness.step else None,
    )
    if gpus and not header.gpus:
        header = replace(header, notes=(*header.notes, _UNKNOWN_GPUS))
    if plan.timing.contention_limit >= 1:
        header = replace(header, notes=(*header.notes, _INTERFERENCE_IGNORED))
    if builds := compare_builds(described):
        app.reporter.note(builds)
        header = replace(header, notes=(*header.notes, builds))
    return PreparedRun(header, preset, harness, nodes=nodes)


def _begun(path: Path) -> UsageError:
    """The reason why a run of that id cannot begin: the journal of another one."""
    run = path.parent.name
    try:
        journal.read_header(path)
    except JournalError as error:
        return UsageError(f"run {run} has a journal that cannot be read ({error}): take another name")
    return UsageError(f"run {run} has already begun: continue it with --resume {run}")


def _machine_notes(probed: ProbedMachine, gpus: list[Mapping[str, Any]]) -> tuple[str, ...]:
    """The missing telemetry of the machine, and possible problems of the GPUs in use."""
    return machine.limits(probed.environments[0].gpus) + card_warnings(gpus, _probe(probed))


def _cards(
    plan: RunPlan, gpus: list[Mapping[str, Any]], found: Probe, nodes: tuple[Node, ...]
) -> dict[str, Any]:
    """The states of the GPUs by number, with the locked clock; raises UsageError if clocks cannot be
    locked.
    """
    cards = card_states(gpus, found)
    if plan.lock_clocks is None:
        return cards
    if nodes or not gpus:
        where = "on several machines" if nodes else "on the CPU"
        raise UsageError(
            f"--lock-clocks locks the clocks of this machine's GPUs, but this run measures {where}"
        )
    if len(cards) != len(gpus):
        raise UsageError("--lock-clocks: NVML does not list the GPUs that PyTorch sees")
    return {number: {**card, LOCKED_CLOCK: plan.lock_clocks} for number, card in cards.items()}


def _probe(probed: ProbedMachine) -> Probe:
    return Probe.from_body(probed.telemetry["gpu"])


def _without_a_gpu(probed: ProbedMachine) -> str:
    """The reason why device `cuda` cannot be measured if PyTorch sees no GPU, with the report of the
    driver.
    """
    one, found = probed.environments[0], _probe(probed)
    driver = (
        one.facts.get("cuda_problem")
        or found.absent
        or (f"driver {found.driver}, which knows CUDA {found.cuda}, lists {plural(len(found.gpus), 'GPU')}")
    )
    return (
        f"environment {one.name} (torch {one.facts['torch']}) sees no GPU, which --device cuda requires "
        f"({driver}): choose a build with CUDA and a machine with a driver for it, or leave the option out"
    )


def compare_builds(environments: Sequence[MeasuredEnvironment]) -> str:
    """The note about builds of PyTorch for a CPU and for CUDA in one comparison; "" if all are equal."""
    for_cuda = {bool(one.facts.get("cuda")): str(one.facts["torch"]) for one in environments}
    if len(for_cuda) < 2:
        return ""
    return (
        f"{for_cuda[False]} is built for CPUs alone and {for_cuda[True]} for CUDA, whose libraries "
        "take memory in every process: a change of memory is then caused by the build, not by the version"
    )


def reach(
    nodes: tuple[Node, ...],
    environment: MeasuredEnvironment,
    harness: Harness,
    preset: MachinePreset,
    cases: Iterable[str],
    on_gpus: bool,
) -> NodeMachines:
    """The machines of the other nodes; raises UsageError for more nodes than any of `cases` uses, because
    they would be idle.

    Raises NodeFailed for one that cannot be reached, or cannot measure the same.
    """
    if not nodes:
        return NodeMachines()
    keys = [key for key in map(CaseKey.parse, cases) if key.count("nodes") > 1]
    most = max((key.count("nodes") for key in keys), default=1)
    if len(nodes) > most:
        needs = f"more than {most}" if keys else "any (axis nodes)"
        raise UsageError(f"--nodes names {len(nodes)} nodes, and no case of this run needs {needs}")
    gpus = max((key.count("ranks") // key.count("nodes") for key in keys), default=0) if on_gpus else 0
    return inspect(nodes, environment, harness, preset, gpus)


def machine_of(local: MachineFacts, others: NodeMachines) -> dict[str, Any]:
    """This machine, or all machines of the run together, for the header of a run."""
    return machine_body(machine.combine(local, others.machines), others.facts())


def gpus_in_use(environment: MeasuredEnvironment, device: str) -> list[Mapping[str, Any]]:
    """The GPUs that belong to the hardware of a run on `device` (`auto`, `cpu` or a CUDA device).

    A run on the CPU has none: otherwise its numbers would join the series of runs on the idle GPUs.
    """
    return [] if device == "cpu" else environment.gpus


def check_device(probed: ProbedMachine, device: str) -> None:
    """Raise UsageError if `device` is `cuda` and the environments see no GPU."""
    if device == "cuda" and not probed.environments[0].gpus:
        raise UsageError(_without_a_gpu(probed))


def check_alike(described: Sequence[MeasuredEnvironment], device: str) -> None:
    """Raise UsageError if environments that are compared on `device` see different GPUs.

    A build without CUDA, or one that is too new for the driver, sees none: compared with another one, either
    both would be measured on the CPU, or this one on a device that it does not have. GPUs are compared by
    name, in order, because an old PyTorch reports nothing else.
    """
    first = described[0]
    for other in described[1:]:
        if device != "cpu" and _names(first) != _names(other):
            raise UsageError(
                f"environment {first.name} sees {_gpus(first)} and {other.name} sees {_gpus(other)}: compare "
                "builds that see the same GPUs, or both on the CPU with --device cpu "
                '(device = "cpu" in a schedule)'
            )


def _names(environment: MeasuredEnvironment) -> list[str]:
    return [str(gpu["name"]) for gpu in environment.gpus]


def _gpus(environment: MeasuredEnvironment) -> str:
    """The GPUs that an environment sees, in its order, as text."""
    many = len(environment.gpus)
    kinds = ", ".join(f"{len([*same])} x {name}" for name, same in groupby(_names(environment)))
    return f"{many} GPU{'s' * (many != 1)} ({kinds})" if many else "no GPU"


def resumable(folder: Path) -> tuple[Header, Harness, journal.Contents]:
    """The plan and outcomes of an interrupted run; raises CannotResume, NothingToResume, JournalError."""
    header, contents = read_run(folder / journal.FILE)
    if not contents.missing_replicates(header.replicates):
        raise NothingToResume(f"run {header.run} is complete: there is nothing to resume")
    local = machine.describe([])
    if _is_elsewhere(header, local):
        name = header.machine["name"]
        whose = f"another machine that is called {name}" if name == local.name else f"machine {name}"
        raise CannotResume(f"run {header.run} belongs to {whose}; resume it there")
    harness = Harness(Path(header.harness_path), header.harness, header.user_version, ())
    if not harness.path.exists():
        raise CannotResume(f"run {header.run}: its harness {harness.path} was removed; start a new run")
    if {*header.preset["cpus"]} - os.sched_getaffinity(0):
        raise CannotResume(f"run {header.run} was pinned to CPUs that are not available now; start a new run")
    _refuse_another_pyrometers(header, harness)
    if not is_whole(harness):
        raise CannotResume(
            f"run {header.run}: its harness {harness.path} is not what it was; start a new run"
        )
    return header, harness, contents


def _refuse_another_pyrometers(header: Header, harness: Harness) -> None:
    """Raise CannotResume for a run that only the version that began it can resume.

    The worker belongs to the run, and with another protocol every replicate would crash.
    """
    try:
        _ = header.timing_policy, header.pair_comparison
    except JournalError as error:
        raise CannotResume(f"{error}; start a new run") from error
    protocol = protocol_of(harness.path)
    if protocol not in (None, PROTOCOL):
        raise CannotResume(
            f"run {header.run} was begun by Pyrometer {header.version or 'of another version'}, whose "
            f"workers use protocol {protocol}, not {PROTOCOL}; start a new run"
        )


def _stored_timing(timing: Timing) -> dict[str, Any]:
    """The stored form: fields about pairs are stored for runs of pairs only."""
    body = asdict(timing)
    if not timing.pair_error:
        del body["pair_error"]
    return body


def prepare_again(app: AppContext, folder: Path, nodes: tuple[Node, ...] = ()) -> PreparedRun:
    """Resume an interrupted run; raises CannotResume if its conditions have changed.

    `nodes` are the present ones of a run over several machines.
    """
    header, harness, contents = resumable(folder)
    p = header.preset
    preset = MachinePreset(
        p["name"], p["variables"], tuple(p["cpus"]), tuple(p["housekeeping"]), p["threads"], header.notes
    )
    if header.nodes and len(nodes) != len(header.nodes) + 1:
        names = ", ".join(str(node["name"]) for node in header.nodes)
        raise UsageError(f"run {header.run} measures together with {names}: resume it with the same --nodes")
    nodes = nodes if header.nodes else ()
    others: NodeMachines | None = None
    by_python: dict[str, MeasuredEnvironment] = {}
    changed = ""
    for target in header.targets.values():
        # One that is compared with itself is described once.
        if target.python not in by_python:
            by_python[target.python] = environments.describe(
                target.name, Path(target.python), harness, preset
            )
        described = by_python[target.python]
        if described.fingerprint != own_fingerprint(target.fingerprint):
            raise CannotResume(
                f"environment {target.name} has changed since run {header.run} began; start a new run"
            )
        gpus = gpus_in_use(described, header.device)
        if others is None:
            cases = [planned.case for planned in header.replicates]
            others = reach(nodes, described, harness, preset, cases, bool(gpus))
        cards = card_states(gpus, probe.examine()) if header.cards else None
        now = machine_of(machine.describe(gpus, cards=cards), others)
        changed = _changed_conditions(header.machine["conditions"], now["conditions"])
        if now["hardware_fingerprint"] != header.machine["hardware_fingerprint"]:
            raise CannotResume(f"run {header.run} belongs to other hardware; start a new run")
        for before, after in zip(header.nodes, now.get("nodes", ()), strict=True):
            if after["fingerprint"] != before["fingerprint"]:
                raise CannotResume(
                    f"node {after['name']} is another machine than {before['name']}, which run {header.run} "
                    "had; start a new run"
                )
    if changed and header.comparison is None:
        raise CannotResume(
            f"the machine has changed since run {header.run} began ({changed}); start a new run"
        )
    if changed:
        app.reporter.note(f"the machine has changed since run {header.run} began: {changed}")
    for line in contents.set_aside:
        app.reporter.note(f"journal {line}; set aside, its case is measured again")
    return PreparedRun(header, preset, harness, contents.outcomes, nodes)


def _changed_conditions(before: Mapping[str, Any], after: Mapping[str, Any]) -> str:
    """The changed conditions that affect numbers, as text; empty for none; unknown ones are ignored."""
    both = [name for name in _CONDITIONS if name in before and name in after]
    changed = [f"{name}: {before[name]} to {after[name]}" for name in both if before[name] != after[name]]
    cards = [_free_cards(conditions) for conditions in (before, after)]
    return "; ".join([*changed, *(["state of its GPUs"] if all(cards) and cards[0] != cards[1] else [])])


def _free_cards(conditions: Mapping[str, Any]) -> str:
    """The states of the GPUs as JSON, without the clock that a run locks; empty for none."""
    cards: Mapping[str, Mapping[str, Any]] = conditions.get("gpus") or {}
    free = {
        number: {name: value for name, value in card.items() if name != LOCKED_CLOCK}
        for number, card in cards.items()
    }
    return json.dumps(free, sort_keys=True, default=str) if free else ""


def find_run(app: AppContext, run: str) -> Path:
    """The folder of a run by its id; for `latest` that of the newest one that this machine began.

    Raises CannotResume, NothingToResume.
    """
    # An empty journal belongs to a run that was killed before it began: there is nothing to resume.
    journals = journal.paths_in(app.places.data_dir)
    names = sorted(path.parent.name for path in journals if size_of(path))
    if not names:
        raise (NothingToResume if run == "latest" else CannotResume)(f"there is no run in {app.runs}")
    if run == "latest":
        return _latest(app.runs, names)
    if run not in names:
        raise CannotResume(unknown("run", run, [*names, "latest"], newest_first=True))
    if (mark := app.runs / run / FORGOTTEN).exists():
        raise CannotResume(f"run {run} was forgotten: remove {mark} first to bring it back")
    return app.runs / run


def _latest(runs: Path, names: Sequence[str]) -> Path:
    """The folder of the newest run of this machine; the head of a fleet also has those of its nodes."""
    remaining = [name for name in names if not (runs / name / FORGOTTEN).exists()]
    if not remaining:
        raise NothingToResume(f"every run in {runs} was forgotten")
    facts = machine.describe([])
    for name in reversed(remaining):
        try:
            header = Header.from_body(journal.read_header(runs / name / journal.FILE))
        except JournalError:
            # Its run is unknown: the code that reads the whole journal reports the error.
            return runs / name
        if not _is_elsewhere(header, facts):
            return runs / name
    raise NothingToResume(f"no run in {runs} belongs to this machine, {facts.name}")


def _is_elsewhere(header: Header, local: MachineFacts) -> bool:
    """Whether another machine began the run: results of both would be stored under the same id."""
    return header.machine["fingerprint"] != local.fingerprint
