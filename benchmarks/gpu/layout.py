"""A virtual environment for the program on a machine that has PyTorch, some wheels, and no network."""

import os
import site
import subprocess
import sys
import tomllib
import venv
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]


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
