"""Builds environments: virtual environment, pip, verification, and only then the mark."""

import os
import re
import shutil
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import Future, ThreadPoolExecutor, wait
from contextlib import suppress
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import Any

from common.text import has_credentials

from ..environment import MeasuredEnvironment
from ..errors import BrokenEnvironment, BuildFailed, IndexFailed
from . import build_errors, build_process, package_index
from .build_process import BuildCancelled, CommandResult
from .interpreter import look_at
from .package_index import Pip
from .recipe import NIGHTLY, Recipe
from .store import FREEZE, RECIPE, Store, StoredEnvironment
from .versions import date_of, is_it, parse

#: No useful download of a few gigabytes takes longer.
_DEADLINE_SECONDS = 4 * 3600.0
_DRIVER = Path("/proc/driver/nvidia/version")

#: Downloads share one line and unpacking shares one disk: more builds at once would each be slower.
_PARALLEL_BUILDS = 4

#: Describes the environment with this name and interpreter; raises BrokenEnvironment.
Describe = Callable[[str, Path], MeasuredEnvironment]
#: Called with a short phrase at each step.
Progress = Callable[[str], None]


@dataclass(frozen=True, slots=True)
class BuildContext:
    """What all builds of a command share: the store, the verification, and the request to cancel."""

    store: Store
    describe: Describe
    cancelled: threading.Event


def check_offered(recipe: Recipe) -> None:
    """Raise BuildFailed if the package index is known not to offer the torch of a recipe."""
    if why := package_index.lacks(recipe, look_at(recipe.base_python)):
        raise BuildFailed(_sentence(recipe, why, None))


def build(context: BuildContext, recipe: Recipe, progress: Progress) -> StoredEnvironment:
    """The environment of a recipe, built unless it exists; a nightly without a day is the newest one.

    A killed build leaves a folder without a mark, which is never used and which the next build removes.
    Raises BuildFailed with one sentence that names the log, and BuildCancelled; then nothing is left behind.
    """
    store = context.store
    if not recipe.dated:
        try:
            recipe = package_index.resolve_nightly(recipe, look_at(recipe.base_python))
        except IndexFailed as error:
            raise BuildFailed(_sentence(recipe, str(error), None)) from error
    waiting = "another process builds it: waiting"
    with store.lock_for_build(recipe, lambda: progress(waiting), context.cancelled.is_set) as is_locked:
        if not is_locked:
            raise BuildCancelled
        if built := store.find(recipe):
            return built
        if store.path_of(recipe).exists():
            _clear(store, recipe)
        try:
            return _Build(context, recipe, progress).run()
        except BaseException:
            with suppress(OSError):
                store.discard(store.path_of(recipe))
            raise


def build_all(
    context: BuildContext, recipes: Mapping[str, Recipe], progress: Callable[[str, str], None]
) -> dict[str, StoredEnvironment | BuildFailed]:
    """Build the environments that do not exist yet; returns each by name, or why it could not be built.

    `progress` is called with a name and a phrase, from several threads. An exception such as
    KeyboardInterrupt ends all builds, leaves nothing half built, and is raised again.
    """
    with ThreadPoolExecutor(_PARALLEL_BUILDS, thread_name_prefix="build") as pool:
        futures: dict[str, Future[StoredEnvironment]] = {}
        for name, recipe in recipes.items():
            futures[name] = pool.submit(build, context, recipe, partial(progress, name))
        try:
            wait(futures.values())
        except BaseException:
            context.cancelled.set()
            for future in futures.values():
                future.cancel()
            raise
    return {name: _result(future) for name, future in futures.items()}


def _result(future: Future[StoredEnvironment]) -> StoredEnvironment | BuildFailed:
    try:
        return future.result()
    except BuildFailed as error:
        return error
    except IndexFailed as error:
        return BuildFailed(str(error))
    except OSError as error:
        return BuildFailed(f"an environment cannot be built: {error.strerror or error}")
    except BuildCancelled:
        return BuildFailed("the build was interrupted")


class _Build:
    """One build; the lock is held and the folder does not exist."""

    def __init__(self, context: BuildContext, recipe: Recipe, progress: Progress) -> None:
        self._context, self._store = context, context.store
        self._recipe, self._progress = recipe, progress
        self._base = look_at(recipe.base_python)
        self._index = package_index.pip_for(recipe, self._base)
        self._path = self._store.path_of(recipe)
        self._log = self._store.log_of(recipe)

    def run(self) -> StoredEnvironment:
        started = time.monotonic()
        if self._index.note:
            self._progress(self._index.note)
        try:
            torch = package_index.requirement(self._recipe, self._base)
        except IndexFailed as error:
            raise BuildFailed(_sentence(self._recipe, str(error), None)) from error
        self._begin()
        self._step("making the virtual environment", self._base.venv(self._path), self._index, part="venv")
        self._install(torch)
        frozen = self._pip("listing packages", ("freeze", "--all"), self._index, part="freeze")
        self._write(FREEZE, frozen.output)
        shutil.rmtree(self._path / "tmp", ignore_errors=True)
        self._progress("verifying")
        described = self._verify_environment()
        for part in ("venv", "freeze"):
            self._store.log_of(self._recipe, part).unlink(missing_ok=True)
        return self._store.mark(self._recipe, described.facts, time.monotonic() - started)

    def _begin(self) -> None:
        try:
            self._store.write_recipe(self._recipe)
            # pip unpacks here: on the disk of the environment, and gone with it when a build is killed.
            (self._path / "tmp").mkdir()
        except OSError as error:
            raise BuildFailed(_sentence(self._recipe, str(error.strerror), None)) from error

    def _install(self, torch: str) -> None:
        """Install torch and the packages: at once, or torch first where it is from the index of nightlies."""
        packages = self._recipe.requirements
        if not package_index.from_nightlies(self._recipe):
            self._pip_install("installing", self._index, torch, *packages)
            return
        self._pip_install("installing", self._index, torch)
        if packages:
            usual = package_index.pip_for(replace(self._recipe, torch=""), self._base)
            # torch is named again, so that no package replaces it.
            self._pip_install("installing packages", usual, torch, *packages, part="packages")

    def _pip_install(self, what: str, pip: Pip, *requirements: str, part: str = "build") -> None:
        command = ("install", "--no-user", *pip.options, *self._arguments(requirements))
        self._pip(what, command, pip, part)

    def _arguments(self, requirements: Sequence[str]) -> Sequence[str]:
        """Requirements as pip's arguments; addresses with a password are in a file that only the owner reads.

        All users of a machine can read the command lines of all processes.
        """
        secret = [each for each in requirements if has_credentials(each)]
        if not secret:
            return requirements
        file = self._path / "tmp" / "requirements.txt"
        try:
            with open(file, "w", encoding="utf-8", opener=_for_the_owner) as lines:
                lines.writelines(f"{each}\n" for each in secret)
        except OSError as error:
            raise BuildFailed(_sentence(self._recipe, str(error.strerror), None)) from error
        return [*(each for each in requirements if each not in secret), "--requirement", str(file)]

    def _pip(self, what: str, command: tuple[str, ...], pip: Pip, part: str) -> CommandResult:
        return self._step(what, (*self._base.pip_of(self._path), *pip.common, *command), pip, part)

    def _step(self, what: str, command: tuple[str, ...], pip: Pip, part: str) -> CommandResult:
        self._progress(what)
        variables = {**pip.variables, "TMPDIR": str(self._path / "tmp")}
        log = self._store.log_of(self._recipe, part)
        ending = build_process.run(
            command, log, variables, _DEADLINE_SECONDS, self._report_line, self._context.cancelled
        )
        if ending.code != 0:
            versions = partial(package_index.query, pip, self._base)
            why = build_errors.of_command(what, ending, self._recipe.torch, self._base.version, versions)
            raise BuildFailed(_sentence(self._recipe, why, log))
        return ending

    def _report_line(self, line: str) -> None:
        if phrase := _progress_phrase(line):
            self._progress(phrase)

    def _verify_environment(self) -> MeasuredEnvironment:
        try:
            described = self._context.describe(self._recipe.label, self._path / "bin" / "python")
        except BrokenEnvironment as error:
            why = str(error).partition(") ")[2] or str(error)
            raise BuildFailed(_sentence(self._recipe, f"it is built, but {why}", self._log)) from error
        if why := mismatch(self._recipe, described.facts):
            raise BuildFailed(_sentence(self._recipe, why, self._log))
        if not described.gpus and _DRIVER.exists():
            self._progress("note: this PyTorch sees no GPU, though an NVIDIA driver is loaded")
        return described

    def _write(self, name: str, text: str) -> None:
        try:
            (self._path / name).write_text(text, encoding="utf-8")
        except OSError as error:
            raise BuildFailed(_sentence(self._recipe, str(error.strerror), self._log)) from error


def _for_the_owner(path: str, flags: int) -> int:
    return os.open(path, flags, 0o600)


def mismatch(recipe: Recipe, facts: Mapping[str, Any]) -> str:
    """How the installed torch differs from the recipe, as a sentence; empty if it does not."""
    torch, cuda = str(facts["torch"]), facts.get("cuda") or facts.get("hip")
    if recipe.torch.startswith(NIGHTLY):
        version = parse(torch)
        day = date_of(version) if version else None
        if str(day) != recipe.torch.split()[1]:
            return f"the installed torch is {torch}, not the {recipe.torch}"
    elif recipe.torch and not is_it(recipe.torch, torch):
        return f"the installed torch is {torch}, not {recipe.torch}"
    if recipe.device == "cuda" and not cuda:
        return f"torch {torch} is built without CUDA, and `device` is cuda"
    if recipe.device == "cuda" and not facts["devices"]:
        return f"torch {torch} is built for CUDA {cuda} but sees no GPU here, and `device` is cuda"
    return ""


def _clear(store: Store, recipe: Recipe) -> None:
    """Remove a half-built folder; raises BuildFailed for any other folder."""
    path = store.path_of(recipe)
    if path.is_dir() and ((path / RECIPE).exists() or not any(path.iterdir())):
        store.discard(path)
        return
    raise BuildFailed(f"{path} is in the way and was not made by a build; move it elsewhere")


def _sentence(recipe: Recipe, why: str, log: Path | None) -> str:
    where = f" (log: {log})" if log else ""
    return f"environment {recipe.label} cannot be built: {why}{where}"


def _progress_phrase(line: str) -> str:
    """A progress phrase from a line of pip's output; empty for most lines."""
    if found := re.match(r"\s*Downloading (?:\S*/)?(\S+?)(?:\.metadata)? \(([\d.]+ [MG]B)\)", line):
        return f"downloading {found[1]} ({found[2]})"
    if found := re.match(r"Installing collected packages: (.+)", line):
        return f"installing {found[1].count(',') + 1} packages"
    return ""
