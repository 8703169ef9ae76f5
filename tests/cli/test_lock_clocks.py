"""`--lock-clocks`: the clocks are held while a run measures, and stored with it."""

import os
import signal
from pathlib import Path
from typing import Any

import pytest

from runner import journal
from support.fakes.nvml import Shim
from support.fakes.scripted_workers import CASE, World, one_world

UUID = "11111111-2222-3333-4444-555555555555"
HELD, FREE = "0 1500-1500", "0 free"


@pytest.fixture
def clocks(shim: Shim, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """What the driver of an H200 was asked for, line by line."""
    log = tmp_path / "clocks"
    log.touch()
    for name, value in {**shim.variables("h200"), "NVML_SHIM_CLOCKS": str(log)}.items():
        monkeypatch.setenv(name, value)
    return log


@pytest.fixture
def world(tmp_path: Path, clocks: Path, monkeypatch: pytest.MonkeyPatch) -> World:
    """Two environments that see the H200."""
    made = one_world(tmp_path, monkeypatch)
    made.there_are({"v0": 1.0, "v1": 1.0})
    gpu: dict[str, Any] = {"name": "NVIDIA H200", "uuid": UUID, "memory_mib": 143771}
    made.gpus = {"v0": [gpu], "v1": [gpu]}
    return made


def upgraded(world: World, *options: str) -> Any:
    sides = ["./v0", "./v1", "--case", CASE, "--pairs", "6", "--no-fingerprint"]
    return world.call("upgrade", *sides, "--json", *options)


def header(world: World, run: str) -> Any:
    """The first line of a run's journal."""
    return journal.read_contents(world.place.folder / ".pyrometer/runs" / run / journal.FILE).header


def test_clocks_are_held_while_an_upgrade_measures_and_stored_with_the_card(
    world: World, clocks: Path
) -> None:
    seen: list[list[str]] = []
    world.before_pair = lambda number: seen.append(clocks.read_text().splitlines())
    done = upgraded(world, "--lock-clocks", "1500")
    assert seen and all(each == [HELD] for each in seen)
    assert clocks.read_text().splitlines() == [HELD, FREE]
    card = header(world, done.run)["machine"]["conditions"]["gpus"]["0"]
    assert card["locked_clock_mhz"] == 1500 and card["max_sm_clock_mhz"] == 1980


def test_without_the_option_no_clock_is_held(world: World, clocks: Path) -> None:
    done = upgraded(world)
    assert clocks.read_text() == ""
    assert "locked_clock_mhz" not in header(world, done.run)["machine"]["conditions"]["gpus"]["0"]


def test_a_driver_that_refuses_ends_the_run_before_it_measures(
    world: World, shim: Shim, monkeypatch: pytest.MonkeyPatch
) -> None:
    refusing = shim.variables("h200", "0 - fail nvmlDeviceSetGpuLockedClocks 4")
    for name, value in refusing.items():
        monkeypatch.setenv(name, value)
    done = upgraded(world, "--lock-clocks", "1500")
    assert done.code == 2 and "cannot be locked at 1500 MHz: this user has no permission" in done.err
    assert world.pairs == []


def test_there_is_no_clock_to_hold_on_a_cpu(world: World, clocks: Path) -> None:
    done = upgraded(world, "--lock-clocks", "1500", "--device", "cpu")
    assert (
        "--lock-clocks locks the clocks of this machine's GPUs, but this run measures on the CPU" in done.err
    )
    assert (done.code, world.pairs, clocks.read_text()) == (2, [], "")


def test_it_does_not_go_with_other_machines(world: World) -> None:
    done = upgraded(world, "--lock-clocks", "1500", "--on", "h200")
    assert done.code == 2 and "--lock-clocks cannot be combined with --on" in done.err


def test_a_run_holds_them_too_and_resumed_it_holds_them_again(world: World, clocks: Path) -> None:
    def interrupt(number: int) -> None:
        if len(world.pairs) == 1:
            os.kill(os.getpid(), signal.SIGINT)

    world.before_pair = interrupt
    one = ["--environment", "./v0", "--case", CASE, "--replicates", "3"]
    done = world.call("run", *one, "--lock-clocks", "1500", "--json")
    assert (done.code, clocks.read_text().splitlines()) == (130, [HELD, FREE])
    assert world.call("run", "--resume", "latest").code == 0
    assert clocks.read_text().splitlines() == [HELD, FREE, HELD, FREE]
