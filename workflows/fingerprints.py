"""Take dispatch fingerprints of cases, each once under the same conditions, and compare environments."""

import queue
import shutil
import time
import uuid
from collections.abc import Generator, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor, as_completed
from contextlib import contextmanager, suppress
from dataclasses import dataclass, replace
from pathlib import Path

from analysis.dispatch_difference import CaseDifference, compare_cases
from common.interrupts import Interrupts
from common.text import plural
from db.errors import DatabaseError
from records.dispatch import CaseFingerprint, FingerprintConditions, journal_body
from records.environments import Environment
from records.fingerprints import own_fingerprint
from records.json_values import Facts
from records.machines import Hardware, Machine
from records.outcomes import Outcome, OutcomeStatus
from records.runs import RunPreset
from reports.text.dispatch_text import case_words, summary_words
from runner import journal as journal_file
from runner import machine
from runner.dispatch.capture import FingerprintSettings, take_fingerprint
from runner.environment import MeasuredEnvironment
from runner.errors import RunnerError
from runner.execution.compile_cache import caches_of
from runner.execution.fork_server import ForkServers
from runner.execution.harness import Harness
from runner.execution.launch import allowed_cpus
from runner.execution.process import sweep
from runner.journal import Journal
from runner.preset import MachinePreset
from runner.worker.case_key import CaseKey

from .app_context import AppContext
from .errors import RunInterrupted
from .ingest import store_pending
from .planning.plan_run import PreparedRun, gpus_in_use
from .run_header import Header, preset_body

#: The most fingerprints that are taken at once: each holds a model in memory.
_AT_ONCE = 4
#: The time limits in seconds for both environments of an upgrade together, and for the environment of a run
#: afterwards.
_MOST_SECONDS = 900.0
#: A folder without changes for this time belongs to no running process.
_ABANDONED_SECONDS = 6 * 3600.0
#: The most changes of one case that a run stores, and the most cases and lines of a case that are printed
#: before measuring.
_MOST_CHANGES, _MOST_CASES, _MOST_LINES = 40, 10, 4


@dataclass(frozen=True, slots=True)
class Fingerprints:
    """The fingerprints of one environment by case, in the order of the suite."""

    environment: Environment
    cases: Mapping[str, CaseFingerprint]


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
    seconds: float = float("inf"),
    journal: Journal | None = None,
    caches: Path | None = None,
) -> Fingerprints:
    """The fingerprints of these cases, from the database or taken now and stored; the caller holds the
    machine lock.

    For a case that fails, hangs or dies the failure is stored, and it is tried again next time. After
    `seconds` no further one is started, and missing ones are not stored. New ones are also written to the
    `journal` of their run, with which they reach other databases. With `caches` compiled code is kept there.
    """
    give_up = time.monotonic() + seconds
    # Here, because SQLAlchemy takes a third of a second to import.
    from db.runs.fingerprints import fingerprints_under, save_fingerprints

    conditions = conditions_of(environment, preset, harness, device)
    with app.open_database() as database:
        stored = {} if again else fingerprints_under(database, conditions, cases)
        by_case = {case: one for case, one in stored.items() if one.is_final}
        missing = [case for case in cases if case not in by_case]
        with _folder(app) as folder:
            token = f"fingerprint-{uuid.uuid4().hex[:12]}"
            settings = FingerprintSettings(
                python=environment.python,
                harness=harness,
                preset=preset,
                device=conditions.device,
                deadline_seconds=deadline,
                folder=folder,
                token=token,
                forks=ForkServers(folder, f"{token}:fork", profiler=True),
                caches=caches,
            )
            for number, taken in enumerate(_collect_fingerprints(missing, settings, interrupts, give_up), 1):
                by_case[taken.case] = taken
                if journal is not None:
                    journal.fingerprint(journal_body(conditions, taken))
                save_fingerprints(database, conditions, [taken])
                name = f"{environment.name}: fingerprint {number} of {len(missing)}"
                app.reporter.progress(f"{name}, {taken.case}: {taken.reason or taken.status}")
    return Fingerprints(conditions.environment, {case: by_case[case] for case in cases if case in by_case})


def with_differences(app: AppContext, prepared: PreparedRun, interrupts: Interrupts) -> PreparedRun:
    """A run of pairs with the differing operators and kernels of its environments, which are also reported.

    The caller holds the machine lock. Only missing fingerprints are taken, in at most a tenth of the run's
    budget, or a third before a screen, which uses them; a failure is reported and does not stop the run.
    Raises RunInterrupted.
    """
    header = prepared.header
    comparison = header.pair_comparison
    cases = list(dict.fromkeys(planned.case for planned in header.replicates))
    if comparison is None or not header.fingerprints or not {*cases} - _compared_cases(header):
        return prepared
    bodies = {body["fingerprint"]: body for body in header.environments}
    sides = [bodies[comparison.old], bodies[comparison.new]]
    # Between two environments with equal fingerprints no stored fact differs.
    alike = own_fingerprint(comparison.old) == own_fingerprint(comparison.new)
    unknown = alike and sides[0]["python"] != sides[1]["python"]
    seconds = min(_MOST_SECONDS, header.budget_seconds / (10 if comparison.screen is None else 3)) / 2
    deadline = min(header.timing_policy.deadline_seconds, seconds)
    folder = app.runs / header.run
    caches = caches_of(folder)
    try:
        with interrupts.defer_signals():
            old, new = (
                take_all(
                    app,
                    _environment(body),
                    prepared.preset,
                    prepared.harness,
                    header.device,
                    cases,
                    deadline,
                    interrupts,
                    again=unknown,
                    seconds=seconds,
                    caches=caches / body["fingerprint"] if comparison.screen is not None else None,
                )
                for body in sides
            )
    except (DatabaseError, OSError) as error:
        app.reporter.report_error(f"differing operators and kernels are not known: {error}")
        return prepared
    except (RunInterrupted, KeyboardInterrupt):
        _remove_unless_begun(folder)
        raise
    found = compare_cases(old.cases, new.cases, cases)
    _report(app, found)
    dispatch = tuple(one.to_body(_MOST_CHANGES) for one in found)
    return replace(prepared, header=replace(header, dispatch=dispatch))


def take_afterwards(
    app: AppContext, prepared: PreparedRun, outcomes: Sequence[Outcome], interrupts: Interrupts
) -> None:
    """Take the missing fingerprints of the cases that ended `ok` in a run; the caller holds the machine lock.

    The run has ended: failures and an interruption are reported and do not change it.
    """
    header = prepared.header
    cases = list(dict.fromkeys(one.case for one in outcomes if one.status == OutcomeStatus.OK))
    folder = app.runs / header.run
    try:
        with interrupts.defer_signals(), Journal(folder) as journal:
            for body in header.environments:
                take_all(
                    app,
                    _environment(body),
                    prepared.preset,
                    prepared.harness,
                    header.device,
                    cases,
                    min(header.timing_policy.deadline_seconds, _MOST_SECONDS),
                    interrupts,
                    seconds=_MOST_SECONDS,
                    journal=journal,
                )
    except (DatabaseError, RunnerError, RunInterrupted, KeyboardInterrupt, OSError) as error:
        app.reporter.note(f"some fingerprints were not taken: {error or 'interrupted'}")
    # The fingerprints were appended to its journal.
    store_pending(app, [header.run])


def _environment(body: Facts) -> MeasuredEnvironment:
    """An environment of a header with the fields that fingerprints need."""
    return MeasuredEnvironment(body["name"], body["python"], body["facts"], (), {})


def _compared_cases(header: Header) -> set[str]:
    """The cases whose fingerprints were compared."""
    found = map(CaseDifference.from_body, header.dispatch)
    return {one.case for one in found if one.difference is not None}


def _report(app: AppContext, found: Sequence[CaseDifference]) -> None:
    app.reporter.note(f"what runs differently: {summary_words(found)}")
    for one in [one for one in found if one.changed][:_MOST_CASES]:
        for line in (one.case, *(f"  {words}" for words in case_words(one, _MOST_LINES))):
            app.reporter.progress(line)


def conditions_of(
    environment: MeasuredEnvironment, preset: MachinePreset, harness: Harness, device: str
) -> FingerprintConditions:
    """The conditions of the fingerprints of an environment on this machine; `device` is as in a run."""
    gpus = gpus_in_use(environment, device)
    local, facts, stored = machine.describe(gpus), environment.facts, preset_body(preset)
    user = f"+{harness.user_version}" if harness.user_version else ""
    return FingerprintConditions(
        Environment(
            own_fingerprint(environment.fingerprint),
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
        str(local.conditions.get("driver") or "") if gpus else "",
    )


@contextmanager
def _folder(app: AppContext) -> Generator[Path]:
    """A folder for the files of the workers, removed at the end; those of killed processes go now."""
    for leftover in (app.places.data_dir / "fingerprints").glob("*"):
        if _is_abandoned(leftover):
            shutil.rmtree(leftover, ignore_errors=True)
    for run in app.runs.glob("*"):
        if _is_abandoned(caches_of(run)):
            _remove_unless_begun(run)
    folder = app.places.data_dir / "fingerprints" / uuid.uuid4().hex[:12]
    folder.mkdir(parents=True)
    try:
        yield folder
    finally:
        shutil.rmtree(folder, ignore_errors=True)


def _is_abandoned(folder: Path) -> bool:
    return folder.exists() and time.time() - folder.stat().st_mtime > _ABANDONED_SECONDS


def _remove_unless_begun(run: Path) -> None:
    """Remove the compile caches of a run that ended before it had a journal, and its folder if it is empty.

    The folder of a forgotten run has no journal either, and keeps the mark that says so.
    """
    if not (run / journal_file.FILE).exists():
        shutil.rmtree(caches_of(run), ignore_errors=True)
        with suppress(OSError):
            run.rmdir()


def _collect_fingerprints(
    cases: Sequence[str], settings: FingerprintSettings, interrupts: Interrupts, give_up: float
) -> Iterator[CaseFingerprint]:
    """Yield fingerprints as they are taken, several at once on separate CPUs; nothing is timed."""
    slots: queue.SimpleQueue[tuple[int, ...]] = queue.SimpleQueue()
    groups = _cpu_groups(settings)
    for cpus in groups:
        slots.put(cpus)

    def take(case: str) -> CaseFingerprint | None:
        if interrupts.requested() or time.monotonic() > give_up:
            return None
        cpus = slots.get()
        # A case that chooses its CPUs itself has to see all CPUs of the preset.
        chooses = CaseKey.parse(case).axis("cpus") != "preset"
        preset = settings.preset if chooses else replace(settings.preset, cpus=cpus)
        try:
            return take_fingerprint(case, replace(settings, preset=preset))
        finally:
            slots.put(cpus)

    try:
        with ThreadPoolExecutor(len(groups)) as pool:
            futures = {pool.submit(take, case): case for case in cases}
            left_out: list[str] = []
            try:
                for done in as_completed(futures):
                    if (taken := done.result()) is not None:
                        yield taken
                    else:
                        left_out.append(futures[done])
            finally:
                for future in futures:
                    future.cancel()
            if left_out and interrupts.requested():
                raise RunInterrupted(
                    f"stopped before {plural(len(left_out), 'case')}; the fingerprints taken are stored"
                )
    finally:
        if settings.forks is not None:
            settings.forks.close()
        sweep(settings.token)


def _cpu_groups(settings: FingerprintSettings) -> list[tuple[int, ...]]:
    """Groups of CPUs of equal size, that of the preset first: the number of threads affects the choice of
    kernels.
    """
    own = settings.preset.cpus
    if not own or settings.device != "cpu":
        return [own]
    others = [cpu for cpu in allowed_cpus(settings.preset) if cpu not in own]
    size = len(own)
    groups = [own, *(tuple(others[at : at + size]) for at in range(0, len(others), size))]
    return [group for group in groups if len(group) == size][:_AT_ONCE]
