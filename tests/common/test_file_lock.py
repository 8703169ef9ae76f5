"""A lock excludes other holders, shared ones excepted, and can be waited for."""

import os
import threading
from pathlib import Path

from common.file_lock import lock, lock_file


def test_a_lock_excludes_and_is_released(tmp_path: Path) -> None:
    path = tmp_path / "new" / "one.lock"
    with lock_file(path) as first, lock_file(path) as second:
        assert first and not second
    with lock_file(path) as again:
        assert again and path.exists()


def test_shared_locks_exclude_exclusive_ones_only(tmp_path: Path) -> None:
    path = tmp_path / "one"
    with path.open("w") as one, path.open("r") as two, path.open("r") as three:
        assert lock(one.fileno(), shared=True)
        assert lock(two.fileno(), shared=True)
        assert not lock(three.fileno())


def test_waiting_is_announced_once_and_ends_with_the_lock_or_when_cancelled(tmp_path: Path) -> None:
    path, waiting = tmp_path / "one", threading.Event()
    holder, other = path.open("w"), path.open("r")
    calls: list[None] = []
    with other:
        assert lock(holder.fileno())

        def on_wait() -> None:
            calls.append(None)
            waiting.set()

        assert not lock(other.fileno(), wait_seconds=None, on_wait=on_wait, cancelled=waiting.is_set)
        assert not lock(other.fileno(), wait_seconds=0.1)
        assert len(calls) == 1
        release = threading.Thread(target=lambda: (waiting.wait(), holder.close()))
        waiting.clear()
        release.start()
        assert lock(other.fileno(), wait_seconds=None, on_wait=on_wait)
        release.join()
    assert len(calls) == 2 and os.path.exists(path)
