"""The store of built environments: folders, marks, locks and the disk quota."""

import json
import os
import re
import shutil
import time
from collections.abc import Callable, Collection, Generator, Iterable, Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import psutil

from common.atomic_file import write_whole
from common.file_lock import lock

from ..errors import EnvironmentInUse
from .interpreter import minor_version
from .recipe import Recipe

#: Written last. A folder without it is half built and is not used.
MARK = "built.json"
#: Written first. A folder without it is not ours to remove.
RECIPE = "recipe.json"
FREEZE = "freeze.txt"
_USED = "used"
_FOLDER = re.compile(r"[A-Za-z0-9.+-]+-[0-9a-f]{8}")
_WAIT_SECONDS = 0.2
_MIB_PER_GIB = 1024


@dataclass(frozen=True, slots=True)
class StoredEnvironment:
    """One environment that was built and verified.

    `facts` are what it said about itself when it was new; `size_mib` is what it takes on the disk; `seconds`
    is how long the build took; `used_at` and `built_at` are seconds since 1970.
    """

    folder: Path
    label: str
    recipe: Mapping[str, Any]
    facts: Mapping[str, Any]
    size_mib: int
    seconds: float
    built_at: float
    used_at: float

    @property
    def name(self) -> str:
        """The folder's name."""
        return self.folder.name

    @property
    def python(self) -> Path:
        """Its interpreter."""
        return self.folder / "bin" / "python"

    @property
    def replaced(self) -> bool:
        """Whether the Python that `base_python` names has become another version in its place.

        The environment's interpreter is a link to it: it looks for its packages where none are.
        """
        if not self.recipe.get("base_python"):
            return False
        then = ".".join(str(self.facts.get("python", "")).split(".")[:2])
        # One that does not answer may come back, as with a disk that is not mounted.
        return bool(then and (now := minor_version(self.python)) and now != then)


class Store:
    """A folder of built environments. What else lies there, `default` for one, it leaves alone."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder

    def path_of(self, recipe: Recipe) -> Path:
        """Where an environment of this recipe is, or would be."""
        return self.folder / recipe.folder

    def log_of(self, recipe: Recipe, part: str = "build") -> Path:
        """The log of its last build; a failed one leaves nothing else."""
        return self.folder / "logs" / f"{recipe.folder}-{part}.log"

    def find(self, recipe: Recipe) -> StoredEnvironment | None:
        """What was built of this recipe; None where nothing is, or only half, or its Python is `replaced`."""
        built = self._read_mark(self.path_of(recipe))
        return None if built and built.replaced else built

    def all(self) -> list[StoredEnvironment]:
        """All that are built, the most recently used first."""
        found = [built for folder in self._ours() if (built := self._read_mark(folder))]
        return sorted(found, key=lambda built: -built.used_at)

    def find_by_name(self, text: str) -> list[StoredEnvironment]:
        """Those that `text` means: a folder's name, or else a label such as `2.13.0`."""
        found = self.all()
        return [b for b in found if b.name == text] or [b for b in found if b.label == text]

    def write_recipe(self, recipe: Recipe) -> Path:
        """Begin the folder of a recipe; answers its path. The lock must be held."""
        path = self.path_of(recipe)
        path.mkdir(parents=True)
        (path / RECIPE).write_text(json.dumps(recipe.to_body(), indent=2), encoding="utf-8")
        return path

    def mark(self, recipe: Recipe, facts: Mapping[str, Any], seconds: float) -> StoredEnvironment:
        """Declare a folder built: from now on it is used."""
        path = self.path_of(recipe)
        now = time.time()
        built = StoredEnvironment(
            path, recipe.label, recipe.to_body(), facts, size_mib(path), seconds, now, now
        )
        body = {k: v for k, v in asdict(built).items() if k not in ("folder", "used_at")}
        (path / _USED).touch()
        write_whole(path / MARK, json.dumps(body, indent=2))
        # As it is read from now on.
        return self._read_mark(path) or built

    def discard(self, path: Path) -> None:
        """Delete a folder. Its mark goes first: what is half deleted is as good as half built."""
        (path / MARK).unlink(missing_ok=True)
        shutil.rmtree(path, ignore_errors=True)
        if path.exists():
            # A process wrote into it meanwhile.
            shutil.rmtree(path)

    def remove(self, built: StoredEnvironment) -> None:
        """Delete an environment; raises EnvironmentInUse while something measures or builds it."""
        descriptor = self._open(built.name)
        try:
            if not lock(descriptor) or _in_use(built.folder):
                raise EnvironmentInUse(
                    f"environment {built.name} is in use: it is measured, or a process runs in it"
                )
            self.discard(built.folder)
        finally:
            os.close(descriptor)

    def sweep(self) -> list[str]:
        """Delete what killed builds left behind; answers the folders' names."""
        names: list[str] = []
        for folder in self._ours():
            if (folder / MARK).exists():
                continue
            descriptor = self._open(folder.name)
            try:
                if lock(descriptor) and not (folder / MARK).exists():
                    self.discard(folder)
                    names.append(folder.name)
            finally:
                os.close(descriptor)
        return names

    def make_room(self, quota_gib: float, keep: Collection[str]) -> list[str]:
        """Delete the least recently used environments until the rest fits; returns a sentence for each.

        `keep` are names of folders that a configuration names. They stay, as do those in use.
        """
        removed: list[str] = []
        built = self.all()
        total = sum(each.size_mib for each in built)
        limit = quota_gib * _MIB_PER_GIB
        for each in reversed(built):
            if total <= limit:
                return removed
            if each.name in keep:
                continue
            try:
                self.remove(each)
            except EnvironmentInUse:
                continue
            total -= each.size_mib
            removed.append(
                f"environment {each.name} ({each.size_mib / _MIB_PER_GIB:.1f} GiB, least recently used) is "
                f"removed: together they may take {quota_gib:g} GiB (environments_gib)"
            )
        if total > limit:
            removed.append(
                f"environments take {total / _MIB_PER_GIB:.1f} GiB of the {quota_gib:g} they may take "
                "(environments_gib); all are named in pyrometer.toml or in use"
            )
        return removed

    @contextmanager
    def lock_for_build(
        self, recipe: Recipe, on_wait: Callable[[], None], ended: Callable[[], bool]
    ) -> Generator[bool]:
        """Hold an environment exclusively for the block; waits while it is built or used elsewhere.

        Yields False if `ended` returned True while waiting. The kernel releases the lock of a dead process.
        """
        descriptor = self._open(recipe.folder)
        try:
            yield lock(
                descriptor, wait_seconds=None, poll_seconds=_WAIT_SECONDS, on_wait=on_wait, cancelled=ended
            )
        finally:
            os.close(descriptor)

    @contextmanager
    def lock_interpreters(self, pythons: Iterable[str | Path]) -> Generator[None]:
        """Keep those of these interpreters that were built here from being removed during the block."""
        descriptors: list[int] = []
        try:
            for name in dict.fromkeys(name for python in pythons if (name := self._name_of(python))):
                descriptors.append(self._open(name))
                # The exclusive lock is held for a removal or a build, after which the environment exists
                # again.
                lock(descriptors[-1], shared=True, wait_seconds=None)
                with suppress(OSError):
                    (self.folder / name / _USED).touch()
            yield
        finally:
            for descriptor in descriptors:
                os.close(descriptor)

    def _name_of(self, python: str | Path) -> str:
        folder = Path(python).parent.parent
        return folder.name if folder.parent == self.folder and (folder / MARK).exists() else ""

    def _ours(self) -> Iterator[Path]:
        with suppress(FileNotFoundError):
            for folder in sorted(self.folder.iterdir()):
                if _FOLDER.fullmatch(folder.name) and (folder / RECIPE).exists():
                    yield folder

    def _read_mark(self, folder: Path) -> StoredEnvironment | None:
        try:
            body = json.loads((folder / MARK).read_text(encoding="utf-8"))
            used = max(float(body["built_at"]), _modification_time(folder / _USED))
            return StoredEnvironment(folder=folder, used_at=used, **body)
        except (OSError, ValueError, TypeError, KeyError):
            return None

    def _open(self, name: str) -> int:
        # Never deleted: a lock on a deleted file excludes no process.
        locks = self.folder / "locks"
        locks.mkdir(parents=True, exist_ok=True)
        return os.open(locks / f"{name}.lock", os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o644)


def size_mib(folder: Path) -> int:
    """What the files below a folder take on the disk, in whole MiB."""
    blocks = 0
    for root, _, files in os.walk(folder):
        for name in files:
            with suppress(OSError):
                blocks += os.lstat(os.path.join(root, name)).st_blocks
    return blocks * 512 // 2**20


def _in_use(folder: Path) -> bool:
    """Whether a process uses the environment: one started by hand counts, too.

    The environment's interpreter is a link to another one, so a process's executable does not show it. Of
    other users' processes only the command line is readable.
    """
    tests = (_started_by, _activated, _maps)
    return any(test(process, folder.resolve()) for process in psutil.process_iter() for test in tests)


def _started_by(process: psutil.Process, folder: Path) -> bool:
    """Whether the environment's interpreter started it, by whatever path."""
    with suppress(psutil.Error, OSError):
        program = next(iter(process.cmdline()), "")
        if "/" not in program:
            return False
        if not program.startswith("/"):
            program = os.path.join(process.cwd(), program)
        return os.path.realpath(os.path.dirname(program)) == str(folder / "bin")
    return False


def _activated(process: psutil.Process, folder: Path) -> bool:
    """Whether a shell started it in which the environment was activated."""
    with suppress(psutil.Error, OSError):
        activated = process.environ().get("VIRTUAL_ENV", "")
        return bool(activated) and os.path.realpath(activated) == str(folder)
    return False


def _maps(process: psutil.Process, folder: Path) -> bool:
    """Whether it maps a library of the environment, such as torch's."""
    # Not `memory_maps`: psutil reads smaps, for which the kernel walks the page tables of what is measured.
    with suppress(OSError):
        return b" " + os.fsencode(folder) + b"/" in Path(f"/proc/{process.pid}/maps").read_bytes()
    return False


def _modification_time(path: Path) -> float:
    try:
        return path.stat().st_mtime
    except OSError:
        return 0.0
