"""The interpreter that makes a virtual environment: is it a Python, how old, where is its pip?"""

import json
import os
import subprocess
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from packaging.version import Version

from ..environment import check_interpreter
from ..errors import BrokenEnvironment, BuildFailed
from ..execution.process import inherited_variables

_QUERY_SECONDS = 60.0
#: The first pip that installs into another interpreter's environment (`--python`).
_PIP_FOR_OTHERS = Version("22.3")
#: pip itself where it is installed, else the wheel of it that `ensurepip` carries: pip runs from a zip.
_QUESTION = """
import glob, importlib.util as u, json, os, platform
ensurepip = u.find_spec("ensurepip")
inside = os.path.join(os.path.dirname(ensurepip.origin), "_bundled", "pip-*.whl") if ensurepip else ""
bundled = sorted(glob.glob(inside)) if inside else []
pip, version = [], "0"
if u.find_spec("pip"):
    import pip as installed
    pip, version = ["-m", "pip"], installed.__version__
elif bundled:
    pip, version = [os.path.join(bundled[-1], "pip")], os.path.basename(bundled[-1]).split("-")[1]
print(json.dumps({"python": platform.python_version(), "pip": pip, "version": version,
                  "venv": bool(u.find_spec("venv")), "ensurepip": bool(bundled)}))
"""
#: `torch/version.py` holds assignments alone: it is run without the package around it.
_WHICH_TORCH = """
import importlib.metadata, json, os, platform, runpy
torch = importlib.metadata.distribution("torch")
file = str(torch.locate_file("torch/version.py"))
facts = runpy.run_path(file) if os.path.exists(file) else {}
print(json.dumps({"torch": facts.get("__version__") or torch.version, "cuda": facts.get("cuda"),
                  "torch_git": facts.get("git_version"), "python": platform.python_version()}))
"""


@dataclass(frozen=True, slots=True)
class BasePython:
    """A Python that may make virtual environments: how, is for `venv` and `pip_of` to say.

    `pip` is the command that runs its pip, empty for none.
    """

    path: str
    version: str
    pip: tuple[str, ...]
    installs_elsewhere: bool
    ensurepip: bool

    def venv(self, folder: Path) -> tuple[str, ...]:
        """The command that makes a virtual environment; without a pip of its own where ours can fill it."""
        without = ("--without-pip",) if self.installs_elsewhere else ()
        return (self.path, "-I", "-m", "venv", *without, str(folder))

    def pip_of(self, folder: Path) -> tuple[str, ...]:
        """The command that is pip for the virtual environment in a folder."""
        python = str(folder / "bin" / "python")
        return (*self.pip, "--python", python) if self.installs_elsewhere else (python, "-I", "-m", "pip")


def _answer(command: Sequence[str | Path], folder: Path | None = None) -> subprocess.CompletedProcess[bytes]:
    """What an interpreter answers; raises OSError and TimeoutExpired."""
    return subprocess.run(
        command,
        stdin=subprocess.DEVNULL,
        capture_output=True,
        env=inherited_variables(),
        cwd=folder,
        timeout=_QUERY_SECONDS,
    )


def minor_version(python: Path) -> str:
    """`3.11` of an interpreter; empty where it does not answer."""
    question = "import sys; print('%d.%d' % sys.version_info[:2])"
    try:
        done = _answer([python, "-I", "-S", "-c", question])
    except (OSError, subprocess.TimeoutExpired):
        return ""
    return done.stdout.decode(errors="replace").strip() if done.returncode == 0 else ""


def installed_torch(name: str, python: Path) -> dict[str, Any]:
    """What the package in an environment says: `torch`, `cuda`, `torch_git`, and the version of `python`.

    PyTorch is not imported: whether it can be is for `environment.describe` to find out. Raises
    BrokenEnvironment where there is no interpreter, or no such package.
    """
    check_interpreter(name, python)
    try:
        # In the folder where -c would look for modules first.
        done = _answer([python, "-c", _WHICH_TORCH], python.parent)
    except (OSError, subprocess.TimeoutExpired) as error:
        raise BrokenEnvironment(f"environment {name} ({python}) does not answer: {error}") from error
    if done.returncode:
        last = (done.stderr.decode(errors="replace").strip().splitlines() or ["it ended without a word"])[-1]
        raise BrokenEnvironment(f"environment {name} ({python}) has no PyTorch: {last}")
    return dict(json.loads(done.stdout))


def look_at(path: str) -> BasePython:
    """The interpreter at `path`, the program's own for an empty one; raises BuildFailed if it is no use."""
    python = path or sys.executable
    what = f"{python} cannot make an environment"
    if not Path(python).exists():
        raise BuildFailed(f"{what}: there is no such file")
    try:
        done = _answer([python, "-I", "-c", _QUESTION])
        facts = json.loads(done.stdout)
        pip, version = tuple(map(str, facts["pip"])), Version(str(facts["version"]))
        found = BasePython(
            python,
            str(facts["python"]),
            (python, "-I", *pip) if pip else (),
            version >= _PIP_FOR_OTHERS,
            bool(facts["ensurepip"]),
        )
    except OSError as error:
        raise BuildFailed(f"{what}: {os.strerror(error.errno or 0)}") from error
    except subprocess.TimeoutExpired as error:
        raise BuildFailed(f"{what}: it does not answer within {_QUERY_SECONDS:g} s") from error
    except (ValueError, KeyError, TypeError) as error:
        raise BuildFailed(f"{what}: it is no Python 3.4 or newer") from error
    if not facts["venv"] or not (found.installs_elsewhere or found.ensurepip):
        raise BuildFailed(
            f"{what}: it lacks `venv` or pip, on Debian the packages python3-venv and python3-pip"
        )
    return found
