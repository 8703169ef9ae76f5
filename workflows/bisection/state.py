"""The state of a bisection: a small file, rewritten after each comparison."""

import json
from collections.abc import Generator, Mapping
from contextlib import contextmanager
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any

from analysis.bisection import Answer, Mark, Question
from analysis.decision.comparison import Comparison
from common.atomic_file import write_whole
from common.file_lock import lock_file
from configuration.suggestions import unknown
from records.runs import StepScript
from runner.execution.harness import Harness
from runner.session_plan import Timing

from ..errors import CannotResume
from ..load_run import LATEST

#: The names of fields of a bisection, fields of a step, and an option in files of 0.1.0.
_OLD_FIELDS = {"profile": "preset", "profile_fingerprint": "preset_fingerprint"}
_OLD_STEP_FIELDS = {"said": "mark", "told": "message"}
_OLD_OPTIONS = {"--profile": "--preset"}


@dataclass(frozen=True, slots=True)
class Step:
    """A comparison that was made or was impossible: two candidates by position, and the result.

    `message` is the result as a sentence. `run` is the upgrade that measured it, empty if nothing could be
    measured. Then `evidence`, the case as in a report, and `changes` between the environments are empty as
    well.
    """

    old: int
    new: int
    mark: Mark
    message: str
    run: str = ""
    command: str = ""
    evidence: Mapping[str, Any] | None = None
    changes: tuple[Mapping[str, str], ...] = ()


@dataclass(frozen=True, slots=True)
class Current:
    """The comparison that is being measured: its candidates, and its run."""

    question: Question
    run: str


@dataclass(frozen=True, slots=True)
class Bisection:
    """A bisection: its fixed parameters, and the steps so far.

    `candidates` are specs in their order, the good end first and the bad one last. `rule` is the comparison
    of each step, without its two sides. `options` are those of a command that measures the same, `packages`
    are installed into environments that are built. `fingerprints` are those of the environments used so far,
    by position.
    """

    id: str
    started_at: str
    command: str
    candidates: tuple[str, ...]
    case: str
    suite: str
    preset: str
    preset_fingerprint: str
    device: str
    timing: Timing
    rule: Comparison
    harness: Harness
    options: tuple[str, ...] = ()
    packages: tuple[str, ...] = ()
    fingerprints: Mapping[str, str] | None = None
    steps: tuple[Step, ...] = ()
    current: Current | None = None

    @property
    def answers(self) -> list[Answer]:
        """The results of the steps."""
        return [Answer(step.old, step.new, step.mark) for step in self.steps]

    def last(self, old: int, new: int) -> Step | None:
        """The last step that compared these two."""
        found = [step for step in self.steps if (step.old, step.new) == (old, new)]
        return found[-1] if found else None

    def met(self, position: int, fingerprint: str) -> "Bisection":
        """The bisection with the fingerprint of a candidate; raises CannotResume if it has changed."""
        fingerprints = dict(self.fingerprints or {})
        if fingerprints.setdefault(str(position), fingerprint) != fingerprint:
            raise CannotResume(
                f"environment {self.candidates[position]} has changed since bisection {self.id} used it; "
                f"start a new one"
            )
        return replace(self, fingerprints=fingerprints)

    def to_body(self) -> dict[str, Any]:
        """As plain JSON values."""
        return {**asdict(self), "harness": {**asdict(self.harness), "path": str(self.harness.path)}}

    @staticmethod
    def from_body(body: Mapping[str, Any]) -> "Bisection":
        """The inverse of `to_body`; raises CannotResume for anything else."""
        try:
            values = {_OLD_FIELDS.get(name, name): value for name, value in body.items()}
            harness, current = body["harness"], body["current"]
            values["harness"] = Harness(
                Path(harness["path"]),
                str(harness["version"]),
                str(harness["user_version"]),
                tuple(harness["user_cases"]),
                StepScript.from_body(harness["step"]) if harness.get("step") else None,
            )
            values["timing"] = Timing(**body["timing"])
            values["rule"] = Comparison.from_body(body["rule"])
            values["current"] = (
                Current(Question(**current["question"]), str(current["run"])) if current else None
            )
            values["packages"] = tuple(map(str, body.get("packages", ())))
            for name in ("candidates", "options"):
                values[name] = tuple(_OLD_OPTIONS.get(word, word) for word in map(str, body[name]))
            values["steps"] = tuple(_step(one) for one in body["steps"])
            return Bisection(**values)
        except (AttributeError, KeyError, TypeError, ValueError) as error:
            raise CannotResume(f"a bisection that this Pyrometer cannot read: {error}") from error


def _step(body: Mapping[str, Any]) -> Step:
    values: dict[str, Any] = {_OLD_STEP_FIELDS.get(name, name): value for name, value in body.items()}
    values["changes"] = tuple(body["changes"])
    return Step(**values)


class Shelf:
    """The folder of bisections, a file each."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder

    def save(self, bisection: Bisection) -> None:
        """Write it atomically; raises OSError."""
        self._folder.mkdir(parents=True, exist_ok=True)
        write_whole(self._path(bisection.id), json.dumps(bisection.to_body(), indent=1))

    def load(self, name: str) -> Bisection:
        """The bisection of that id, or the newest for `latest`; raises CannotResume."""
        names = sorted(path.stem for path in self._folder.glob("*.json"))
        if not names:
            raise CannotResume(f"there is no bisection in {self._folder}")
        found = names[-1] if name == LATEST else name
        if found not in names:
            raise CannotResume(unknown("bisection", name, names))
        try:
            body = json.loads(self._path(found).read_text(encoding="utf-8"))
        except ValueError as error:
            raise CannotResume(f"{self._path(found)} is damaged: {error}") from error
        return Bisection.from_body(body)

    @contextmanager
    def lock_bisection(self, name: str) -> Generator[None]:
        """Hold the lock of the bisection; raises CannotResume where another process holds it."""
        lock = self._folder / f"{name}.lock"
        with lock_file(lock) as locked:
            if not locked:
                raise CannotResume(f"bisection {name} is running in another process")
            try:
                yield
            finally:
                if not self._path(name).exists():
                    lock.unlink()

    def _path(self, name: str) -> Path:
        return self._folder / f"{name}.json"
