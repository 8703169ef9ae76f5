"""The lock lies where any user may put a link or a pipe of its name."""

import os
import stat
import threading
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


def test_a_lock_file_that_is_removed_excludes_others_all_the_same(place: Path) -> None:
    """As what cleans a temporary folder removes it: the run that waits must measure beside no third one."""
    waits, has_it, over = threading.Event(), threading.Event(), threading.Event()

    def run() -> None:
        with machine_lock.exclusive(waits.set, wait_seconds=30.0):
            has_it.set()
            over.wait(30.0)

    waiting = threading.Thread(target=run)
    with machine_lock.exclusive(lambda: None, wait_seconds=0.0):
        waiting.start()
        assert waits.wait(30.0)
        place.unlink()
    try:
        assert has_it.wait(30.0)
        with pytest.raises(MachineBusy):
            lock()
    finally:
        over.set()
        waiting.join()


def test_each_run_renews_the_age_of_the_lock_file(place: Path) -> None:
    lock()
    os.utime(place, (0, 0))
    lock()
    assert place.stat().st_mtime > 0
