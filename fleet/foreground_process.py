"""A program in the foreground, for a terminal or systemd: asked to end it ends, and leaves nothing behind."""

import os
import select
import signal
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from pathlib import Path

from common.processes import SupervisedProcess
from scheduled_jobs.scheduler.child_process import PATIENCE_SECONDS

#: What the program leaves behind may take so long to keep what it has: its supervisors know how.
_LEFT_SECONDS = PATIENCE_SECONDS + 15.0
#: The program itself may take so long when it is asked to end.
_END_SECONDS = 20.0
#: How often the log is read until the program has started, and how often this process wakes otherwise.
_LOOK_SECONDS, _REST_SECONDS = 0.2, 30.0
_SIGNALS = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)
_TAIL_BYTES = 20_000


class Foreground:
    """One program from its start until none of its descendants is left; its output goes to a log.

    `own` are beginnings of the names of processes that are not waited for once the program has ended.

    Use it in the main thread of a process of its own: it becomes its signals' handler. A second signal kills
    everything at once.
    """

    def __init__(
        self, command: Sequence[str], variables: Mapping[str, str], log: Path, own: tuple[str, ...] = ()
    ) -> None:
        self._command, self._variables, self._log, self._own = command, variables, log, own
        self._signals = 0

    def run(self, started: Callable[[], None], sign: str, hopeless: str) -> int:
        """Run it to its end and return its exit code, 0 where that was asked for.

        `started` is called once the log has `sign`; where it has `hopeless` first, the program is ended.
        Raises OSError.
        """
        wake, write = os.pipe()
        os.set_blocking(write, False)
        for number in _SIGNALS:
            # A signal that this process was started to ignore (nohup) stays ignored.
            if signal.getsignal(number) is not signal.SIG_IGN:
                signal.signal(number, self._count)
        signal.set_wakeup_fd(write, warn_on_full_buffer=False)
        self._log.parent.mkdir(parents=True, exist_ok=True)
        self._log.unlink(missing_ok=True)
        program = SupervisedProcess(
            self._command,
            self._log,
            out=self._log,
            patience_seconds=_END_SECONDS,
            linger_seconds=_LEFT_SECONDS,
            own=self._own,
            variables=self._variables,
        )
        is_started = False
        while not program.has_ended():
            output = "" if is_started else self.output()
            if not is_started and sign in output:
                is_started = True
                started()
            if self._signals > 1:
                program.kill()
            elif self._signals or (not is_started and hopeless in output):
                program.terminate()
            ready, _, _ = select.select(
                [wake, program], [], [], _REST_SECONDS if is_started else _LOOK_SECONDS
            )
            if wake in ready:
                os.read(wake, 4096)
        report = program.end()
        if "failed" in report:
            raise OSError(report["failed"])
        if self._signals:
            return 0
        return -report["signal"] if report["signal"] else report["exit_code"] or 1

    def output(self) -> str:
        """The end of its log."""
        with suppress(OSError), self._log.open("rb") as file:
            file.seek(max(0, file.seek(0, os.SEEK_END) - _TAIL_BYTES))
            return file.read().decode(errors="replace")
        return ""

    def _count(self, *_: object) -> None:
        self._signals += 1
