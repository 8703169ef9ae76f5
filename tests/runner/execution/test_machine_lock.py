"""The lock lies where any user may put a link or a pipe of its name."""

import os
import stat
from pathlib import Path

import pytest

from runner.errors import MachineBusy
from runner.execution import machine_lock


@pytest.fixture
def place(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("PYROMETER_TEST_LOCK_FOLDER", str(tmp_path))
    return machine_lock.lock_path()


def lock() -> None:
    with machine_lock.exclusive(lambda: None, wait_seconds=0.0):
        pass


def test_a_pipe_is_not_waited_for(place: Path) -> None:
    os.mkfifo(place)
    with pytest.raises(MachineBusy, match="is no file: remove it"):
        lock()


@pytest.mark.parametrize("there", [True, False])
def test_a_link_is_not_followed(place: Path, tmp_path: Path, there: bool) -> None:
    target = tmp_path / "private"
    if there:
        target.touch(mode=0o600)
    place.symlink_to(target)
    with pytest.raises(MachineBusy, match="is a link: remove it"):
        lock()
    assert target.exists() == there
    assert not there or stat.S_IMODE(target.stat().st_mode) == 0o600


def test_every_user_may_open_it(place: Path) -> None:
    before = os.umask(0o077)
    try:
        lock()
    finally:
        os.umask(before)
    assert stat.S_IMODE(place.stat().st_mode) == 0o644
    lock()
