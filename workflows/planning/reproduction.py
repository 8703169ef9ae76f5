"""How a run was measured: the command, the preset, the harness, and each environment as a lock."""

import shlex
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path
from typing import Any

from analysis.decision.comparison import Comparison, stored_comparison
from configuration.settings import Settings
from configuration.suggestions import unknown
from records.environments import Environment, packages_in
from records.fingerprints import AGAIN, own_fingerprint
from records.kinds import EnvironmentKind, RunKind, RunSource
from records.runs import Run
from runner.environments.recipe import NIGHTLY
from runner.environments.store import FREEZE, Store, StoredEnvironment
from runner.environments.versions import date_of, parse
from runner.execution import harness

from ..app_context import AppContext
from ..errors import UsageError
from ..load_run import LoadedRun, judge_loaded, load_run
from .resolve_environment import declared_environments, store_of
from .select_cases import CHOSEN

#: Options of the original command that affect the measurement and are not stored elsewhere.
_REPEATED = ("--cases", "--census", "--python", "--replicates", "--deadline", "--device", "--lock-clocks")
#: The options that name the environment of a plain run.
_ENVIRONMENT = ("--environment", "-e", "--python")


@dataclass(frozen=True, slots=True)
class EnvironmentLock:
    """An environment of a run: `packages` are requirements, as `pip freeze` writes them.

    `python` is the interpreter of the same environment on this machine, None if it was removed. Only a
    package that pip installed from a file or an address has a hash.
    """

    name: str
    fingerprint: str
    torch: str
    python_version: str
    packages: tuple[str, ...]
    python: Path | None


@dataclass(frozen=True, slots=True)
class Reproduction:
    """How a run was measured, or with `case` that case.

    `commands` are argument lists that begin with `pyrometer`, one for each environment that a plain run
    measured. `harness` is the digest of worker and cases, `own_harness` that of this program. `has_journal`:
    whether the run's journal is in this data folder.
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
    has_journal: bool


#: The commands that measure.
_MEASURING = ("run", "upgrade", "bisect", "profile")


def check_repeated(found: Reproduction) -> None:
    """Raise UsageError if the printed command must not be run unread.

    The command of an imported run may be anything, for example run a script or delete a run.
    """
    if len(found.commands) != 1:
        raise UsageError(
            f"run {found.run} measured several environments, or none: run one of the printed commands"
        )
    if not found.has_journal:
        raise UsageError(
            f"run {found.run} has no journal in this data folder, so that its command may come from an "
            f"imported file: print it without --run, check it, and type it"
        )
    (command,) = found.commands
    if len(command) < 2 or command[1] not in _MEASURING:
        raise UsageError(f"run {found.run} was made by `{shlex.join(command)}`, which cannot be run again")


def reproduction(app: AppContext, text: str) -> Reproduction:
    """How `RUN` or `RUN:CASE` was measured; raises UsageError, NoSuchRun, JournalError or DatabaseError."""
    name, _, case = text.partition(":")
    loaded = load_run(app.places.data_dir, name, app.open_database)
    if loaded.source != RunSource.MEASURED:
        raise UsageError(
            f"run {loaded.result.run} was {loaded.source}: Pyrometer does not know how it was measured"
        )
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
        commands=_commands(app.settings, loaded, run, case, locks),
        preset=run.preset.name,
        settings=run.preset.settings,
        harness=run.harness,
        own_harness=harness.own_version(),
        environments=locks,
        has_journal=loaded.header is not None,
    )


def reproduce_command(run: Run, case: str, environment: str, python: Path | None = None) -> str:
    """The command that measures one case of a plain `run` again under the same conditions.

    `environment` is its name, `python` an interpreter to use instead. An operator of a census is measured
    with the others.
    """
    steps = dict(run.facts.get("timing") or {}).get("trace_steps")
    repeated = _command_options(run.command)
    words = ["pyrometer", "run", "--case", case]
    if run.kind == RunKind.TRACE:
        words = ["pyrometer", "profile", case, "--steps", str(steps)]
    elif any(option == "--census" for option, _ in repeated):
        words = ["pyrometer", "run"]
    elif run.suite != CHOSEN:
        words += ["--suite", run.suite]
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
    settings: Settings, loaded: LoadedRun, run: Run, case: str, locks: Sequence[EnvironmentLock]
) -> tuple[tuple[str, ...], ...]:
    if not case:
        return (tuple(_command_words(settings, run, locks)),)
    if (judged := judge_loaded(loaded)) is not None:
        words = shlex.split(judged.subject.reproduce(case))
        sides = [_side(words, lock.python, asked) for lock, asked in zip(locks, words[2:4], strict=True)]
        return ((*words[:2], *sides, *words[4:]),)
    named = [(lock, _name_of_day(settings, lock) or lock.name) for lock in locks]
    each = (reproduce_command(run, case, name, lock.python) for lock, name in named)
    return tuple(tuple(shlex.split(command)) for command in each)


def _command_words(settings: Settings, run: Run, locks: Sequence[EnvironmentLock]) -> list[str]:
    """The command as typed, with the interpreters of environments that still exist, and the days of
    nightlies, because a name may mean another environment today.

    A text that is not a command line, for example of an imported file or a shortened one, is returned as one
    word.
    """
    try:
        words = shlex.split(run.command)
    except ValueError:
        return [run.command]
    if run.kind == RunKind.UPGRADE:
        with suppress(ValueError):
            return _with_sides(words, stored_comparison(run.facts), locks)
    if len(locks) != 1:
        return words
    (lock,) = locks
    if lock.python is not None:
        return [*_without_environment(words), "--python", str(lock.python)]
    name = _name_of_day(settings, lock)
    return words if name is None else [*_without_environment(words), "--environment", name]


def _with_sides(
    words: list[str], comparison: Comparison | None, locks: Sequence[EnvironmentLock]
) -> list[str]:
    """The command of an upgrade with lasting specs of both environments, if it names them next to each
    other.
    """
    if comparison is None:
        return words
    pythons = {lock.fingerprint: lock.python for lock in locks}
    prints = (own_fingerprint(side) for side in (comparison.old, comparison.new))
    asked = comparison.asked
    sides = [_side(words, pythons.get(one), text) for one, text in zip(prints, asked, strict=True)]

    def is_typed(at: int) -> bool:
        # `nightly` was typed and has become the nightly of a day.
        pair = zip(words[at : at + 2], asked, strict=True)
        return all(text == word or text.startswith(f"{word} ") for word, text in pair)

    # Searched from the end, because the value of an option before them may be equal.
    at = next((at for at in range(len(words) - 2, 1, -1) if is_typed(at)), None)
    return words if at is None else [*words[:at], *sides, *words[at + 2 :]]


def _side(words: Sequence[str], python: Path | None, asked: str) -> str:
    """The spec of an environment of an upgrade: its interpreter if it still exists, because its name may mean
    another one.

    With packages it is the `asked` spec, because nothing can be installed into an interpreter.
    """
    return asked if python is None or "--package" in words else str(python)


def _without_environment(words: Sequence[str]) -> Iterator[str]:
    left_out = False
    for word in words:
        if not left_out and word.partition("=")[0] not in _ENVIRONMENT:
            yield word
        left_out = not left_out and word in _ENVIRONMENT


def _name_of_day(settings: Settings, lock: EnvironmentLock) -> str | None:
    """The lasting spec of a nightly; None for anything else."""
    version = parse(lock.torch)
    day = None if version is None else date_of(version)
    if day is None:
        return None
    declared = declared_environments(settings).get(lock.name)
    if declared is not None:
        return f"{lock.name} {day}" if declared.recipe and not declared.recipe.dated else None
    return f"{NIGHTLY} {day}" if lock.name.startswith(NIGHTLY) else None


def _lock(store: Store, environment: Environment) -> EnvironmentLock:
    # An environment that is compared with itself has a second fingerprint and a second name.
    fingerprint = own_fingerprint(environment.fingerprint)
    built = _find_environment(store, fingerprint)
    packages = packages_in(environment.facts)
    if built is not None:
        with suppress(OSError):
            # The list of pip, which has file and hash of packages that are not from an index.
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


def _find_environment(store: Store, fingerprint: str) -> StoredEnvironment | None:
    """The environment of this fingerprint that was built on this machine and can still be started."""
    same = (one for one in store.all() if one.facts.get("fingerprint") == fingerprint)
    return next((one for one in same if one.python.exists() and not one.replaced), None)


def _command_options(command: str) -> list[tuple[str, str]]:
    try:
        words = shlex.split(command)
    except ValueError:
        return []
    split = [part for word in words for part in (word.split("=", 1) if word.startswith("--") else [word])]
    return [(option, value) for option, value in pairwise(split) if option in _REPEATED]
