"""Processes that store pending journals and die at a chosen step: `ingest_process.py URL DATA_DIR`.

For each line `N M ...` on stdin as many processes start at once, each forked off this one and killed by
itself (`kill -9`) at its N-th step, 0 for never. A step is a statement, begun or ended, a commit, or the mark
beside a journal. Answered are their exit codes, then the steps of each process that was not killed.
"""

import os
import signal
import sys
import traceback
from pathlib import Path
from typing import Any

from sqlalchemy import Engine, event

from db.connection.engine import open_database
from runner.errors import JournalError
from workflows import ingest


class Steps:
    """Counts steps and kills this process before a chosen one."""

    def __init__(self, last: int) -> None:
        self.taken, self._last = 0, last
        for name in ("before_cursor_execute", "after_cursor_execute", "commit"):
            event.listen(Engine, name, self)
        mark = ingest.mark_stored

        def marked(*arguments: Any) -> None:
            self()
            mark(*arguments)
            self()

        ingest.mark_stored = marked

    def __call__(self, *_: Any) -> None:
        self.taken += 1
        if self.taken == self._last:
            os.kill(os.getpid(), signal.SIGKILL)


def store_all(url: str, data_dir: Path, last: int) -> int:
    """Store what is pending; answers how many steps that was."""
    steps = Steps(last)
    with open_database(url, timeout=30) as database:
        for done in ingest.ingest_pending(data_dir, database):
            if isinstance(done, JournalError):
                raise done
    return steps.taken


def begin(url: str, data_dir: Path, last: int, answer: int) -> int:
    """A process that stores and writes its number of steps to the pipe `answer`; its id."""
    if process := os.fork():
        return process
    code = 1
    try:
        os.write(answer, f"{store_all(url, data_dir, last)}\n".encode())
        code = 0
    except BaseException:
        traceback.print_exc()
    os._exit(code)


def main(url: str, data_dir: Path) -> None:
    """Serve the lines of stdin."""
    for line in sys.stdin:
        reader, writer = os.pipe()
        processes = [begin(url, data_dir, int(last), writer) for last in line.split()]
        os.close(writer)
        codes = [os.waitstatus_to_exitcode(os.waitpid(process, 0)[1]) for process in processes]
        with os.fdopen(reader) as answers:
            print(*codes, *answers.read().split(), flush=True)


if __name__ == "__main__":
    main(sys.argv[1], Path(sys.argv[2]))
