"""The harness: worker and cases in one folder, named by the hash of what is in it.

A folder, not a zip: of what lies in a zip Python keeps no byte code, and each worker compiled 600 KB as it
started. Of a folder each version of Python compiles it once, when an environment describes itself.
"""

import ast
import hashlib
import re
import tempfile
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path

from records.runs import StepScript

from ..errors import BadCaseFile
from ..step_file import step_case
from ..worker.case_key import CaseKey

_ROOT = Path(__file__).resolve().parents[1]
#: The file of a harness that names its protocol.
_MESSAGES = "runner/worker/messages.py"


@dataclass(frozen=True, slots=True)
class Harness:
    """A harness on disk. `version` covers our worker and cases; `user_cases` the files that joined them.

    User files are hashed apart (`user_version`), so that editing one's own case does not set the built-in
    ones apart from their history. `step` is the script that joined as a case, if one did.
    """

    path: Path
    version: str
    user_version: str
    user_cases: tuple[str, ...]
    step: StepScript | None = None


def build(folder: Path, case_files: Iterable[Path] = (), step: StepScript | None = None) -> Harness:
    """Write the harness into `folder` unless it is there whole; raises BadCaseFile for an unusable user file.

    Of a `step` script no case file is called `step.py`: its own is.
    """
    own = _our_files()
    user_files = _user_files(case_files) | _step_file(step)
    version, user_version = _digest(own), _digest(user_files) if user_files else ""
    names = tuple(sorted(Path(name).stem for name in user_files))
    start = (
        "from runner.worker.main import main\n\n"
        f"if __name__ == '__main__':\n    main({version!r}, {list(names)!r})\n"
    )
    packages = {"user_cases/__init__.py": b""} if user_files else {}
    suffix = f"-{user_version}" if user_files else ""
    target = folder / f"harness-{version}{suffix}"
    _write(target, {**own, **packages, **user_files, "__main__.py": start.encode()})
    return Harness(target, version, user_version, names, step)


def is_whole(harness: Harness) -> bool:
    """Whether the folder of a harness holds what it held when it was built."""
    own = {name: text for name, text in _sources(harness.path).items() if name.startswith("runner/")}
    return _digest(own) == harness.version


def protocol_of(harness: Path) -> int | None:
    """The protocol that the worker in a harness speaks; None where that cannot be read."""
    try:
        tree = ast.parse((harness / _MESSAGES).read_bytes())
    except (OSError, SyntaxError, ValueError):
        return None
    for each in tree.body:
        match each:
            case ast.Assign(targets=[ast.Name(id="PROTOCOL")], value=ast.Constant(value=int(protocol))):
                return protocol
            case _:
                pass
    return None


def own_version() -> str:
    """The `version` of a harness of this program, of which nothing is written."""
    return _digest(_our_files())


def _our_files() -> dict[str, bytes]:
    return {
        f"runner/{path.relative_to(_ROOT).as_posix()}": path.read_bytes()
        for part in ("__init__.py", "worker/**/*.py", "cases/**/*.py")
        for path in sorted(_ROOT.glob(part))
    }


def _user_files(case_files: Iterable[Path]) -> dict[str, bytes]:
    files: dict[str, bytes] = {}
    for path in case_files:
        if not re.fullmatch(r"(?!__)[A-Za-z_]\w*", path.stem) or path.suffix != ".py":
            raise BadCaseFile(f"{path}: a file of cases needs a name like my_cases.py")
        try:
            content = path.read_bytes()
        except OSError as error:
            raise BadCaseFile(f"{path}: {error.strerror or error}") from error
        name = f"user_cases/{path.name}"
        if name in files:
            raise BadCaseFile(f"two files of cases are named {path.name}")
        files[name] = content
    return files


def _step_file(step: StepScript | None) -> dict[str, bytes]:
    """A file of cases that registers a step script; the script itself does not run before it is measured."""
    if step is None:
        return {}
    key = CaseKey.parse(step_case(step))
    (script,) = (value for _, value in key.parameters)
    text = (
        "from runner.worker.case import case\n"
        "from runner.worker.step import load_step\n\n\n"
        "def build(script):\n"
        f"    return load_step({step.file!r}, {step.function!r}, {step.text!r})\n\n\n"
        f"build.__name__ = {key.name!r}\n"
        f"case(script=[{script!r}])(build)\n"
    )
    return {"user_cases/step.py": text.encode()}


def _digest(files: dict[str, bytes]) -> str:
    digest = hashlib.sha256()
    for name in sorted(files):
        digest.update(f"{name}\0{len(files[name])}\0".encode())
        digest.update(files[name])
    return digest.hexdigest()[:12]


def _write(target: Path, content: Mapping[str, bytes]) -> None:
    """Have these files in a folder that appears at `target` whole; one that holds them is left alone.

    Two runs that start together must never read half of it.
    """
    if _sources(target) == content:
        return
    target.parent.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(prefix=".harness-", dir=target.parent) as partial:
        whole = Path(partial, target.name)
        try:
            for name, text in content.items():
                path = whole / name
                path.parent.mkdir(parents=True, exist_ok=True)
                path.write_bytes(text)
        except OSError as error:
            raise OSError(error.errno, error.strerror, str(target)) from error
        try:
            whole.rename(target)
        except OSError:
            # Another process was faster, or what is there is damaged.
            if _sources(target) != content:
                target.rename(Path(partial, "damaged"))
                whole.rename(target)


def _sources(harness: Path) -> dict[str, bytes]:
    """The files of a harness without what Python keeps beside them; empty where they cannot be read."""
    try:
        return {
            path.relative_to(harness).as_posix(): path.read_bytes() for path in sorted(harness.rglob("*.py"))
        }
    except OSError:
        return {}
