"""Take the dispatch fingerprints of cases, each once under the same conditions, and compare environments."""

import queue
import shutil
import uuid
from collections.abc import Generator, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path

from common.interrupts import Interrupts
from records.dispatch import CaseFingerprint, FingerprintConditions
from records.environments import Environment
from records.machines import Hardware, Machine
from records.runs import RunPreset
from runner import machine
from runner.dispatch.capture import FingerprintSettings, take_fingerprint
from runner.environment import MeasuredEnvironment
from runner.execution import harness as harnesses
from runner.execution.harness import Harness
from runner.execution.launch.launch import allowed_cpus
from runner.execution.process import sweep
from runner.preset import MachinePreset
from runner.worker.case_key import CaseKey

from .app_context import AppContext
from .errors import Interrupted, NothingToMeasure
from .planning.plan_run import Chosen, ask, check_alike, gpus_in_use
from .planning.resolve_environment import make_ready, store_of
from .planning.select_cases import choose_cases, choose_preset, choose_suite, spelled
from .run_header import preset_body
from .run_locally import alone
from .session_queue import without_again

#: So many are taken at once at most: each holds a model in memory.
_AT_ONCE = 4


@dataclass(frozen=True, slots=True)
class FingerprintRequest:
    """Which cases of which environments; None: the default of the settings. `deadline` is in seconds.

    With `again` also those are taken that are stored.
    """

    environments: tuple[str, ...]
    cases: tuple[str, ...] = ()
    suite: str | None = None
    case_files: tuple[Path, ...] = ()
    preset: str | None = None
    device: str | None = None
    deadline: float | None = None
    again: bool = False


@dataclass(frozen=True, slots=True)
class Fingerprints:
    """The fingerprints of one environment by case, in the order of the suite."""

    environment: Environment
    cases: Mapping[str, CaseFingerprint]


def fingerprints_of(
    app: AppContext, request: FingerprintRequest, interrupts: Interrupts
) -> tuple[Fingerprints, ...]:
    """The fingerprints of every environment of the request, taken where none is stored.

    Environments are built if need be. Raises UsageError, RunnerError, JobError or Interrupted.
    """
    preset = choose_preset(app.settings, request.preset)
    suite = choose_suite(app.settings, request.suite, list(request.cases), bool(request.case_files))
    harness = harnesses.build(app.places.data_dir / "harness", request.case_files)
    with alone(app.reporter):
        ready = make_ready(app, list(request.environments))
        described = ask(Chosen(preset, suite, harness), ready).environments
        device = request.device or suite.device
        check_alike(described, device)
        cases = choose_cases(
            suite, [spelled(pattern) for pattern in request.cases], described[0], app.settings
        )
        if not cases:
            raise NothingToMeasure("no case is selected")
        deadline = request.deadline or suite.timing.deadline_seconds
        with store_of(app).using([one.python for one in described]), interrupts.deferred():
            return tuple(
                take_all(app, one, preset, harness, device, cases, deadline, interrupts, again=request.again)
                for one in described
            )


def take_all(
    app: AppContext,
    environment: MeasuredEnvironment,
    preset: MachinePreset,
    harness: Harness,
    device: str,
    cases: Sequence[str],
    deadline: float,
    interrupts: Interrupts,
    *,
    again: bool = False,
) -> Fingerprints:
    """The fingerprints of these cases, from the database or taken now and stored; hold the machine.

    A case that fails, hangs or dies has one that says so, and is tried again next time.
    """
    # Here, because SQLAlchemy takes a third of a second to import.
    from db.runs.fingerprints import fingerprints_under, save_fingerprints

    conditions = conditions_of(environment, preset, harness, device)
    with app.open_database() as database:
        stored = {} if again else fingerprints_under(database, conditions, cases)
        known = {case: one for case, one in stored.items() if one.settled}
        missing = [case for case in cases if case not in known]
        with _folder(app) as folder:
            settings = FingerprintSettings(
                python=environment.python,
                harness=harness,
                preset=preset,
                device=conditions.device,
                deadline_seconds=deadline,
                folder=folder,
                token=f"fingerprint-{uuid.uuid4().hex[:12]}",
            )
            for number, taken in enumerate(_taken(missing, settings, interrupts), 1):
                known[taken.case] = taken
                save_fingerprints(database, conditions, [taken])
                name = f"{environment.name}: fingerprint {number} of {len(missing)}"
                app.reporter.progress(f"{name}, {taken.case}: {taken.reason or taken.status}")
    return Fingerprints(conditions.environment, {case: known[case] for case in cases})


def conditions_of(
    environment: MeasuredEnvironment, preset: MachinePreset, harness: Harness, device: str
) -> FingerprintConditions:
    """What the fingerprints of an environment on this machine depend on; `device` is as a run's."""
    gpus = gpus_in_use(environment, device)
    local, facts, stored = machine.describe(gpus), environment.facts, preset_body(preset)
    user = f"+{harness.user_version}" if harness.user_version else ""
    return FingerprintConditions(
        Environment(
            without_again(environment.fingerprint),
            environment.name,
            facts.get("torch", ""),
            facts["python"],
            facts,
        ),
        Machine(
            local.fingerprint,
            local.name,
            Hardware(local.hardware_fingerprint, local.hardware_label, local.hardware),
            local.conditions,
        ),
        RunPreset(stored["fingerprint"], stored["name"], stored["settings"]),
        harness.version + user,
        "cuda:0" if gpus else "cpu",
    )


@contextmanager
def _folder(app: AppContext) -> Generator[Path]:
    """A folder for the files of the workers, removed at the end."""
    folder = app.places.data_dir / "fingerprints" / uuid.uuid4().hex[:12]
    folder.mkdir(parents=True)
    try:
        yield folder
    finally:
        shutil.rmtree(folder, ignore_errors=True)


def _taken(
    cases: Sequence[str], settings: FingerprintSettings, interrupts: Interrupts
) -> Iterator[CaseFingerprint]:
    """Fingerprints as they are done, several at once on CPUs of their own; nothing is timed."""
    slots: queue.SimpleQueue[tuple[int, ...]] = queue.SimpleQueue()
    groups = _cpu_groups(settings)
    for cpus in groups:
        slots.put(cpus)

    def take(case: str) -> CaseFingerprint | None:
        if interrupts.requested():
            return None
        cpus = slots.get()
        # A case that chooses its CPUs itself has to see all of the preset's.
        chooses = CaseKey.parse(case).axis("cpus") != "profile"
        preset = settings.preset if chooses else replace(settings.preset, cpus=cpus)
        try:
            return take_fingerprint(case, replace(settings, preset=preset))
        finally:
            slots.put(cpus)

    try:
        with ThreadPoolExecutor(len(groups)) as pool:
            for case, taken in zip(cases, pool.map(take, cases), strict=True):
                if taken is None:
                    raise Interrupted(f"stopped before {case}; the fingerprints taken so far are stored")
                yield taken
    finally:
        sweep(settings.token)


def _cpu_groups(settings: FingerprintSettings) -> list[tuple[int, ...]]:
    """Groups of CPUs, the preset's own first, each as large: the number of threads decides about kernels."""
    own = settings.preset.cpus
    if not own or settings.device != "cpu":
        return [own]
    others = [cpu for cpu in allowed_cpus(settings.preset) if cpu not in own]
    size = len(own)
    groups = [own, *(tuple(others[at : at + size]) for at in range(0, len(others), size))]
    return [group for group in groups if len(group) == size][:_AT_ONCE]
