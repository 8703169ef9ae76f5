"""A virtual environment for the program on a machine that has PyTorch, some wheels, and no network."""

import os
import shutil
import site
import subprocess
import sys
import tempfile
import tomllib
import venv
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
#: The variable that names the folder which `--wheels` made, to be deleted at the end.
_PROGRAM_FOLDER = "ACCEPTANCE_PROGRAM_FOLDER"


def make(folder: Path, wheels: Path) -> Path:
    """The interpreter of an environment in `folder`: this one's packages, the wheels, and this checkout.

    The wheels are installed by this interpreter's pip. Processes that start others with `-m` or `-I` find
    everything, which a changed `sys.path` would not give them. Raises CalledProcessError.
    """
    venv.create(folder, with_pip=False, symlinks=True)
    packages = folder / f"lib/python{sys.version_info.major}.{sys.version_info.minor}/site-packages"
    files = [str(path) for path in sorted(wheels.glob("*.whl"))]
    if files:
        pip = [sys.executable, "-m", "pip", "install", "--quiet", "--no-index", "--no-deps", "--target"]
        subprocess.run([*pip, str(packages), *files], check=True)
    below = [*site.getsitepackages(), site.getusersitepackages()]
    present = [path for path in below if os.path.isdir(path)]
    (packages / "acceptance.pth").write_text("\n".join([str(ROOT), *present]) + "\n")
    version = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["version"]
    info = packages / f"pyrometer-{version}.dist-info"
    info.mkdir()
    (info / "METADATA").write_text(f"Metadata-Version: 2.1\nName: pyrometer\nVersion: {version}\n")
    return folder / "bin/python"


def start_again(wheels: Path) -> None:
    """Become the same command, without `--wheels`, in an environment that has the wheels too."""
    if not wheels.is_dir():
        sys.exit(f"there is no folder {wheels}")
    folder = Path(tempfile.mkdtemp(prefix="acceptance-program-"))
    os.environ[_PROGRAM_FOLDER] = str(folder)
    python = make(folder, wheels)
    words = sys.argv[1:]
    at = next(number for number, word in enumerate(words) if word.startswith("--wheels"))
    del words[at : at + (1 if "=" in words[at] else 2)]
    os.execv(python, [str(python), sys.argv[0], *words])


def remove() -> None:
    """Delete the environment that `start_again` made, if it did."""
    if folder := os.environ.get(_PROGRAM_FOLDER):
        shutil.rmtree(folder, ignore_errors=True)
