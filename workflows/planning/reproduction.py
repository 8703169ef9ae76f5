"""What made the numbers of a run: the command, the preset, the harness, and each environment as a lock."""

import shlex
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path
from typing import Any

from configuration.suggestions import unknown
from records.environments import Environment
from records.fingerprints import AGAIN
from records.kinds import EnvironmentKind, RunKind, RunSource
from records.runs import Run
from runner.environments.store import FREEZE, Built, Store
from runner.execution import harness

from ..app_context import AppContext
from ..errors import UsageError
from ..load_run import LoadedRun, judge_loaded, load_run
from ..session_queue import own_fingerprint
from .resolve_environment import store_of
from .select_cases import CHOSEN

#: Options of the original call that decide what is measured and are stored nowhere else.
_REPEATED = ("--cases", "--python", "--deadline", "--device")


@dataclass(frozen=True, slots=True)
class EnvironmentLock:
    """An environment of a run: `packages` are requirements, as `pip freeze` writes them.

    `python` is the interpreter of the same environment on this machine, None where it is gone. A hash stands
    only with a package that pip installed from a file or an address.
    """

    name: str
    fingerprint: str
    torch: str
    python_version: str
    packages: tuple[str, ...]
    python: Path | None


@dataclass(frozen=True, slots=True)
class Reproduction:
    """What made a run, or with `case` the numbers of that case.

    `commands` are argument lists that begin with `pyrometer`, one for each environment that a plain run
    measured. `harness` is the digest of worker and cases, `own_harness` that of this program.
    """

    run: str
    case: str
    hardware: str
    pyrometer: str
    commands: tuple[tuple[str, ...], ...]
    preset: str
    settings: Mapping[str, Any]
    harness: str
    own_harness: str
    environments: tuple[EnvironmentLock, ...]


def reproduction(app: AppContext, text: str) -> Reproduction:
    """What made `RUN` or `RUN:CASE`; raises UsageError, NoSuchRun, JournalError or DatabaseError."""
    name, _, case = text.partition(":")
    loaded = load_run(app.places.data_dir, name, app.open_database)
    if loaded.source != RunSource.MEASURED:
        raise UsageError(f"run {loaded.result.run} was {loaded.source}: Pyrometer does not know what made it")
    run = loaded.stored or _record(loaded)
    cases = dict.fromkeys(one.case for one in loaded.result.outcomes)
    if case and case not in cases:
        raise UsageError(unknown("case", case, cases))
    measured = [one for one in run.environments if one.kind == EnvironmentKind.MEASURED]
    locks = tuple(_lock(store_of(app), one) for one in measured)
    return Reproduction(
        run=run.id,
        case=case,
        hardware=run.machine.hardware.label,
        pyrometer=str(run.facts.get("pyrometer") or ""),
        commands=_commands(loaded, run, case, locks),
        preset=run.preset.name,
        settings=run.preset.settings,
        harness=run.harness,
        own_harness=harness.build(app.places.data_dir / "harness").version,
        environments=locks,
    )


def reproduce_command(run: Run, case: str, environment: str, python: Path | None = None) -> str:
    """What to type to measure one case of a plain `run` again, under like conditions.

    `environment` is its name, `python` the interpreter to take in its place.
    """
    steps = dict(run.facts.get("timing") or {}).get("trace_steps")
    words = ["pyrometer", "run", "--case", case]
    if run.kind == RunKind.TRACE:
        words = ["pyrometer", "profile", case, "--steps", str(steps)]
    elif run.suite != CHOSEN:
        words += ["--suite", run.suite]
    repeated = _repeated(run.command)
    if python is not None:
        repeated = [("--python", str(python)), *(pair for pair in repeated if pair[0] != "--python")]
    if all(option != "--python" for option, _ in repeated):
        words += ["--environment", environment]
    words += ["--preset", run.preset.name]
    return shlex.join([*words, *(part for pair in repeated for part in pair)])


def _record(loaded: LoadedRun) -> Run:
    assert loaded.header is not None
    return loaded.header.run_record(loaded.result.state, None)


def _commands(
    loaded: LoadedRun, run: Run, case: str, locks: Sequence[EnvironmentLock]
) -> tuple[tuple[str, ...], ...]:
    if not case:
        return (tuple(shlex.split(run.command)),)
    if (judged := judge_loaded(loaded)) is not None:
        words = shlex.split(judged.subject.reproduce(case))
        # An environment that is still here is meant, and not another one of its name.
        sides = [str(lock.python or asked) for lock, asked in zip(locks, words[2:4], strict=True)]
        return ((*words[:2], *sides, *words[4:]),)
    return tuple(tuple(shlex.split(reproduce_command(run, case, lock.name, lock.python))) for lock in locks)


def _lock(store: Store, environment: Environment) -> EnvironmentLock:
    # An environment that was compared with itself has a second fingerprint and a second name.
    fingerprint = own_fingerprint(environment.fingerprint)
    built = _built(store, fingerprint)
    packages = tuple(map(str, environment.facts.get("packages") or ()))
    if built is not None:
        with suppress(OSError):
            # pip's own list: it names the file and the hash of what was no release of an index.
            packages = tuple((built.folder / FREEZE).read_text(encoding="utf-8").splitlines())
    second = fingerprint != environment.fingerprint
    return EnvironmentLock(
        name=environment.name.removesuffix(AGAIN) if second else environment.name,
        fingerprint=fingerprint,
        torch=environment.torch_version,
        python_version=environment.python_version,
        packages=packages,
        python=built.python if built else None,
    )


def _built(store: Store, fingerprint: str) -> Built | None:
    """The environment of this fingerprint that was built on this machine and can still be started."""
    same = (one for one in store.all() if one.facts.get("fingerprint") == fingerprint)
    return next((one for one in same if one.python.exists() and not one.replaced), None)


def _repeated(command: str) -> list[tuple[str, str]]:
    try:
        words = shlex.split(command)
    except ValueError:
        return []
    split = [part for word in words for part in (word.split("=", 1) if word.startswith("--") else [word])]
    return [(option, value) for option, value in pairwise(split) if option in _REPEATED]
