"""A program in the foreground, for a terminal or systemd: asked to end it ends, and leaves nothing behind."""

import os
import select
import signal
import subprocess
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from pathlib import Path

from runner.execution.supervisor import descendants, die_with, reap_this_tree
from scheduled_jobs.scheduler.child_process import PATIENCE_SECONDS

#: What the program leaves behind may take so long to keep what it has: its guards know how.
_LEFT_SECONDS = PATIENCE_SECONDS + 15.0
#: The program itself may take so long when it is asked to end.
_END_SECONDS = 20.0
#: How often it looks while something is waited for, and how often otherwise.
_LOOK_SECONDS, _REST_SECONDS = 0.2, 30.0
_SIGNALS = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)
_TAIL_BYTES = 20_000


class Foreground:
    """One program from its start until none of its descendants is left; what it says goes to a log.

    `own` are beginnings of the names of processes that are not waited for once the program has ended.

    Use it in the main thread of a process of its own: it becomes the reaper of its tree, and its signals'
    handler. A second signal ends everything at once.
    """

    def __init__(
        self, command: Sequence[str], variables: Mapping[str, str], log: Path, own: tuple[str, ...] = ()
    ) -> None:
        self._command, self._variables, self._log, self._own = command, variables, log, own
        self._asked = 0

    def run(self, started: Callable[[], None], sign: str, hopeless: str) -> int:
        """Run it to its end and answer its exit code, 0 where that was asked for.

        `started` is called once the log says `sign`; where it says `hopeless` first, nobody waits for more.
        Raises OSError.
        """
        reap_this_tree()
        wake, write = os.pipe()
        os.set_blocking(write, False)
        for number in _SIGNALS:
            # Whoever had us ignore one (nohup) is obeyed.
            if signal.getsignal(number) is not signal.SIG_IGN:
                signal.signal(number, self._ask)
        # Without a handler the wakeup descriptor would not hear of it.
        signal.signal(signal.SIGCHLD, self._woken)
        signal.set_wakeup_fd(write, warn_on_full_buffer=False)
        self._log.parent.mkdir(parents=True, exist_ok=True)
        program = self._start()
        told, kill_at = False, float("inf")
        while program.poll() is None:
            if not told:
                told = sign in self.said()
                if told:
                    started()
            if (self._asked or (not told and hopeless in self.said())) and kill_at == float("inf"):
                kill_at = time.monotonic() + _END_SECONDS
                program.terminate()
            if self._asked > 1 or time.monotonic() > kill_at:
                program.kill()
            _bury_orphans(program.pid)
            # Beside what is measured it sleeps.
            _wait(wake, _LOOK_SECONDS if not told or self._asked else _REST_SECONDS)
        self._clean(wake)
        return 0 if self._asked else program.returncode or 1

    def said(self) -> str:
        """The end of its log."""
        with suppress(OSError), self._log.open("rb") as file:
            file.seek(max(0, file.seek(0, os.SEEK_END) - _TAIL_BYTES))
            return file.read().decode(errors="replace")
        return ""

    def _start(self) -> subprocess.Popen[bytes]:
        parent = os.getpid()
        with self._log.open("wb") as log:
            # preexec_fn is safe here: this process has one thread.
            return subprocess.Popen(
                self._command,
                env=dict(self._variables),
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                start_new_session=True,
                preexec_fn=lambda: die_with(parent, signal.SIGTERM),
            )

    def _ask(self, *_: object) -> None:
        self._asked += 1

    def _woken(self, *_: object) -> None:
        """A child has ended: what waits looks for itself."""

    def _clean(self, wake: int) -> None:
        """Wait for whatever is left, then kill it; the program's own have nothing to keep."""
        give_up = time.monotonic() + _LEFT_SECONDS
        while _reaped() and (left := list(descendants(os.getpid()))):
            at_once = self._asked > 1 or time.monotonic() > give_up
            for pid, name in left:
                if at_once or name.startswith(self._own):
                    with suppress(ProcessLookupError):
                        os.kill(pid, signal.SIGKILL)
            _wait(wake, _LOOK_SECONDS)


def _bury_orphans(program: int) -> None:
    """Collect the dead but for the program itself, whose end somebody waits for."""
    options = os.WEXITED | os.WNOHANG | os.WNOWAIT
    with suppress(ChildProcessError):
        while (found := os.waitid(os.P_ALL, 0, options)) is not None and found.si_pid != program:
            os.waitpid(found.si_pid, os.WNOHANG)


def _reaped() -> bool:
    """Collect the dead; answers whether any child is left."""
    while True:
        try:
            pid, _ = os.waitpid(-1, os.WNOHANG)
        except ChildProcessError:
            return False
        if pid == 0:
            return True


def _wait(wake: int, seconds: float) -> None:
    """Sleep until a signal comes, or for so long."""
    if select.select([wake], [], [], seconds)[0]:
        os.read(wake, 4096)
