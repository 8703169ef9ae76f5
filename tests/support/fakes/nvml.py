"""A libnvidia-ml.so.1 built from nvml_devices/shim.c, which the real nvidia-ml-py loads."""

import os
import shutil
import subprocess
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path

import pytest

SCRIPTS = Path(__file__).with_name("nvml_devices")


@dataclass(frozen=True)
class Shim:
    """A folder with the library, and scripts for it."""

    folder: Path

    def variables(self, script: str, *more: str) -> dict[str, str]:
        """What a process needs to meet the devices of `script` (a name in nvml_devices), with lines added."""
        text = (SCRIPTS / f"{script}.txt").read_text() if script else ""
        file = self.folder / f"{script or 'none'}-{len(list(self.folder.iterdir()))}.txt"
        file.write_text(text + "".join(f"{line}\n" for line in more))
        return self.playing(file)

    def playing(self, script: Path) -> dict[str, str]:
        """What a process needs to meet the devices of a script anywhere."""
        return {"NVML_SHIM": str(script), "LD_LIBRARY_PATH": str(self.folder)}


def build(folder: Path, *flags: str) -> Shim:
    """Compile it into `folder`; skips where there is no compiler, unless everything is required."""
    compile_library(SCRIPTS / "shim.c", folder / "libnvidia-ml.so.1", flags)
    return Shim(folder)


def settable_clock(folder: Path) -> Path:
    """Compile clock.c: preloaded, it shows one process a wall clock that is set in mid-run."""
    compile_library(SCRIPTS / "clock.c", folder / "clock.so")
    return folder / "clock.so"


def compile_library(source: Path, target: Path, flags: Iterable[str] = ()) -> None:
    """Compile a stand-in; skips where there is no compiler, unless everything is required."""
    compiler = shutil.which("gcc") or shutil.which("cc")
    if compiler is None:
        if os.environ.get("PYROMETER_TEST_REQUIRE_ALL"):
            pytest.fail("no C compiler is installed")
        pytest.skip("no C compiler is installed: the driver's stand-in cannot be built")
    standard = ("-std=gnu11", "-O1", "-Wall", "-Wextra", "-Werror", "-shared", "-fPIC")
    subprocess.run([compiler, *standard, *flags, str(source), "-o", str(target), "-lm"], check=True)
