"""Clocks that are held for a run: set free however it ends, and refused in a sentence."""

import os
import signal
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import psutil
import pytest

from runner.errors import ClocksNotLocked
from runner.telemetry.gpu.clock_lock import locked_clocks
from support.fakes.nvml import Shim
from support.processes import alive, processes_below
from support.waiting import until

pytestmark = pytest.mark.slow

ONE = "GPU-11111111-2222-3333-4444-555555555555"
HOLDS = "runner.telemetry.gpu.clock_lock"
#: A run that holds the clock until it is killed.
PROGRAM = f"""
import time
from runner.telemetry.gpu.clock_lock import locked_clocks
with locked_clocks(1500, [{ONE!r}], print):
    time.sleep(600)
"""


@pytest.fixture
def driver(
    shim: Shim, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> Callable[..., Callable[[], list[str]]]:
    """Loads a script of the stand-in; answers what reads the locks and resets that it was asked for."""

    def load(script: str, *more: str) -> Callable[[], list[str]]:
        log = tmp_path / "clocks"
        log.touch()
        for name, value in {**shim.variables(script, *more), "NVML_SHIM_CLOCKS": str(log)}.items():
            monkeypatch.setenv(name, value)
        return lambda: log.read_text().splitlines()

    return load


Driver = Callable[..., Callable[[], list[str]]]


def test_the_clocks_of_the_measured_gpus_are_held_and_set_free(driver: Driver) -> None:
    calls = driver("h200")
    # As PyTorch gives it, without NVML's prefix.
    with locked_clocks(1500, [ONE.removeprefix("GPU-")], pytest.fail):
        assert calls() == ["0 1500-1500"]
    assert calls() == ["0 1500-1500", "0 free"]


@pytest.mark.parametrize("error", [RuntimeError, KeyboardInterrupt])
def test_an_error_and_an_interrupt_set_them_free(driver: Driver, error: type[BaseException]) -> None:
    calls = driver("h200")
    with pytest.raises(error), locked_clocks(1500, [ONE], pytest.fail):
        raise error
    assert calls() == ["0 1500-1500", "0 free"]


@pytest.mark.parametrize("victim", ["run", "supervisor", "both"])
def test_who_is_killed_leaves_no_clock_behind(driver: Driver, victim: str) -> None:
    calls = driver("h200")
    run = subprocess.Popen([sys.executable, "-c", PROGRAM])
    try:
        until(lambda: calls() == ["0 1500-1500"], "locked")
        (supervisor,) = psutil.Process(run.pid).children()
        (holder,) = supervisor.children()
        assert HOLDS in holder.cmdline()
        for process in {"run": [run], "supervisor": [supervisor], "both": [run, supervisor]}[victim]:
            os.kill(process.pid, signal.SIGKILL)
        until(lambda: calls() == ["0 1500-1500", "0 free"], "free")
        until(lambda: not alive(holder.pid), "ended")
    finally:
        run.kill()
        run.wait()


def test_they_are_set_free_where_the_process_that_holds_them_was_killed(driver: Driver) -> None:
    calls = driver("h200")
    with locked_clocks(1500, [ONE], pytest.fail):
        (holder,) = processes_below(lambda line: line[2:4] == ["-m", HOLDS])
        holder.kill()
        until(lambda: not alive(holder.pid), "killed")
        assert calls() == ["0 1500-1500"]
    assert calls() == ["0 1500-1500", "0 free"]


def test_one_who_may_not_reads_why_and_nothing_is_held(driver: Driver) -> None:
    calls = driver("h200", "0 - fail nvmlDeviceSetGpuLockedClocks 4")
    wanted = "NVIDIA H200 cannot be locked at 1500 MHz: this user has no permission; it takes root"
    with pytest.raises(ClocksNotLocked, match=wanted), locked_clocks(1500, [ONE], pytest.fail):
        pytest.fail("measured all the same")
    # What an administrator has locked stays as it is.
    assert calls() == []


def test_an_unknown_gpu_is_refused(driver: Driver) -> None:
    calls = driver("h200")
    wanted = "NVML does not list the GPUs that are measured"
    with pytest.raises(ClocksNotLocked, match=wanted), locked_clocks(1500, [ONE, "GPU-0"], pytest.fail):
        pytest.fail("measured all the same")
    assert calls() == []


def test_clocks_that_stay_held_are_a_note_with_what_to_type(driver: Driver) -> None:
    calls = driver("h200", "0 - fail nvmlDeviceResetGpuLockedClocks 4")
    notes: list[str] = []
    with locked_clocks(1500, [ONE], notes.append):
        pass
    assert notes == [
        "the clocks of NVIDIA H200 could not be set free: this user has no permission; "
        "this sets them free: nvidia-smi --reset-gpu-clocks"
    ]
    assert calls() == ["0 1500-1500"]
