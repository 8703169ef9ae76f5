"""Real interpreters that stand for releases: virtual environments with the measured PyTorch, or without."""

import subprocess
from functools import cache
from pathlib import Path

from support.site import measured_python


@cache
def measured_packages() -> str:
    """The folder in which the measured interpreter has its packages."""
    where = "import sysconfig; print(sysconfig.get_path('purelib'))"
    done = subprocess.run([measured_python(), "-c", where], capture_output=True, text=True, check=True)
    return done.stdout.strip()


def make_interpreter(folder: Path, *packages: str | Path) -> Path:
    """Make a virtual environment of the measured interpreter that imports what lies in these folders.

    Answers its own folder of packages.
    """
    subprocess.run([measured_python(), "-m", "venv", "--without-pip", folder], check=True)
    (own,) = folder.glob("lib/python*/site-packages")
    (own / "shared.pth").write_text("".join(f"{path}\n" for path in packages))
    return own
