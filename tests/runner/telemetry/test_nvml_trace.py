"""A trace that was recorded plays like the device it was recorded from."""

import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path

import pytest

from support.fakes import nvml_trace
from support.fakes.nvml import Shim

pytestmark = pytest.mark.slow

#: Busy for the first second, then idle and held down by power for half of the time.
STEP = (
    "1000 0 gpm_2 20",
    "1000 0 gpu_busy 30",
    "1000 0 throttle_74 0.5",
    "1000 0 power_mw 90000",
)


def record(file: Path, variables: Mapping[str, str], seconds: float) -> "subprocess.CompletedProcess[str]":
    """The command, on scripted devices."""
    command = [sys.executable, nvml_trace.__file__, str(file), "--seconds", str(seconds), "--hz", "10"]
    return subprocess.run(command, env=variables, capture_output=True, text=True, timeout=120)


def steps(file: Path, key: str) -> list[tuple[int, float]]:
    """(milliseconds, value) of one key of device 0."""
    parts = (line.split(maxsplit=3) for line in file.read_text().splitlines())
    return [(int(p[0]), float(p[3])) for p in parts if p[1:3] == ["0", key]]


def test_a_recorded_step_is_where_it_was_and_plays_again(shim: Shim, tmp_path: Path) -> None:
    first, second = tmp_path / "first.txt", tmp_path / "second.txt"
    done = record(first, shim.variables("h200", *STEP), 2)
    assert done.returncode == 0, done
    (_, before), *_, (at, after) = steps(first, "gpm_2")
    assert (before, after) == (80, 20) and at >= 900
    assert steps(first, "throttle_74")[-1][1] == pytest.approx(0.5, abs=0.01)
    assert steps(first, "gpu_busy")[-1][1] == 30
    assert record(second, shim.playing(first), 3).returncode == 0
    assert [value for _, value in steps(second, "gpu_busy")] == [100, 30]
    assert steps(second, "gpm_2")[-1][1] == 20


def test_a_trace_names_no_device_and_no_process(shim: Shim, tmp_path: Path) -> None:
    file = tmp_path / "trace.txt"
    record(file, shim.variables("h200"), 1)
    text = file.read_text()
    assert "11111111" not in text and "4242" not in text
    assert "0 0 processes 1:8589934592\n" in text


def test_nothing_to_record_and_nothing_overwritten(shim: Shim, tmp_path: Path) -> None:
    file = tmp_path / "trace.txt"
    done = record(file, shim.variables("", "0 - fail nvmlInitWithFlags 9"), 1)
    assert done.returncode == 2 and not file.exists()
    assert done.stderr.endswith("there is nothing to record: the NVIDIA driver is installed but not loaded\n")
    file.write_text("precious")
    assert record(file, shim.variables("h200"), 1).returncode == 2
    assert file.read_text() == "precious"
