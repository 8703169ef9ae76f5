"""A program in the foreground, for a terminal or systemd, that leaves no process behind."""

import os
import select
import signal
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from pathlib import Path

from common.processes import SupervisedProcess
from scheduled_jobs.scheduler.child_process import PATIENCE_SECONDS

#: How long descendants that outlive the program may take to store their results.
_DESCENDANTS_SECONDS = PATIENCE_SECONDS + 15.0
#: How long the program itself may take to end after SIGTERM.
_END_SECONDS = 20.0
#: How often this process wakes: to read the log until the program has started, and afterwards.
_START_POLL_SECONDS, _POLL_SECONDS = 0.2, 30.0
_SIGNALS = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)
_TAIL_BYTES = 20_000


class Foreground:
    """A program from its start until its last descendant has ended; its output goes to a log.

    Descendants whose names begin with one of `own` are not waited for once the program has ended.

    Use it in the main thread of a process of its own, whose signals it handles: the first one ends the
    program in order, a second one kills everything.
    """

    def __init__(
        self, command: Sequence[str], variables: Mapping[str, str], log: Path, own: tuple[str, ...] = ()
    ) -> None:
        self._command, self._variables, self._log, self._own = command, variables, log, own
        self._signals = 0

    def run(self, started: Callable[[], None], sign: str, hopeless: str) -> int:
        """Run it to its end and return its exit code; 0 if a signal ended it.

        `started` is called once the log contains `sign`; where it contains `hopeless` first, the program is
        terminated. Raises OSError.
        """
        wake, write = os.pipe()
        os.set_blocking(write, False)
        for number in _SIGNALS:
            # A signal that was ignored when this process started (nohup) stays ignored.
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
            linger_seconds=_DESCENDANTS_SECONDS,
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
                [wake, program], [], [], _POLL_SECONDS if is_started else _START_POLL_SECONDS
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
