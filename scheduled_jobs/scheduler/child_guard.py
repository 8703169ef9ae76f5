"""Stands between the service and a child: a process of its own, so that the child ends with either of them.

It starts the command, hands on the wish to end (SIGTERM, so that a run can keep what it measured), kills what
does not end in time, and leaves no process behind. The wish comes as `t` over the lifeline, as SIGTERM, or as
the lifeline's end: then the service is dead. How the command ended goes over the report as one line of JSON.
"""

import argparse
import contextlib
import json
import os
import select
import signal
import subprocess
import sys
import time
from typing import Any

from runner.execution.supervisor import descendants, die_with, reap_this_tree

#: How long killed processes may take to be gone.
_KILL_SECONDS = 15.0
#: What a terminal sends to everybody is the service's to answer.
_DEAF_TO = (signal.SIGINT, signal.SIGHUP)


class Guard:
    """One command from its start to the death of its last descendant."""

    def __init__(self, options: argparse.Namespace) -> None:
        self._options = options
        self._status: int | None = None
        self._asked = False
        self._kill_at: float | None = None

    def run(self) -> dict[str, Any]:
        """Start the command, wait for its end, clean up; answers the report."""
        wake, write = os.pipe()
        os.set_blocking(write, False)
        signal.set_wakeup_fd(write, warn_on_full_buffer=False)
        # Without a handler the wakeup descriptor would not hear of the signal.
        signal.signal(signal.SIGCHLD, self._woken)
        signal.signal(signal.SIGTERM, self._ask)
        child = self._start()
        self._watch(child.pid, wake)
        self._clean(child.pid)
        # Its status was collected here; subprocess must not look for it again.
        child.returncode = 0
        if (status := self._status) is None:
            return {"failed": "it cannot be killed"}
        return {
            "exit_code": os.WEXITSTATUS(status) if os.WIFEXITED(status) else None,
            "signal": os.WTERMSIG(status) if os.WIFSIGNALED(status) else None,
        }

    def _start(self) -> subprocess.Popen[bytes]:
        parent = os.getpid()

        def before_exec() -> None:
            # Killed itself, the guard can ask nobody any more; so the kernel does.
            die_with(parent, signal.SIGTERM)
            for number in _DEAF_TO:
                signal.signal(number, signal.SIG_DFL)
            # Whoever started us may have blocked some, as Ray does; what is measured has them all.
            signal.pthread_sigmask(signal.SIG_SETMASK, ())

        with open(self._options.out, "ab") as out, open(self._options.log, "ab") as log:
            # preexec_fn is safe here: this process has one thread.
            return subprocess.Popen(
                self._options.command,
                stdin=subprocess.DEVNULL,
                stdout=out,
                stderr=log,
                start_new_session=True,
                preexec_fn=before_exec,
            )

    def _watch(self, child: int, wake: int) -> None:
        poller = select.poll()
        for descriptor in (wake, self._options.lifeline):
            poller.register(descriptor, select.POLLIN)
        told = False
        while self._reap(child) and self._status is None:
            if self._asked and not told:
                told = True
                self._kill_at = time.monotonic() + self._options.patience
                with contextlib.suppress(ProcessLookupError):
                    os.kill(child, signal.SIGTERM)
            left = None if self._kill_at is None else self._kill_at - time.monotonic()
            if left is not None and left <= 0:
                return
            for descriptor, _ in poller.poll(None if left is None else left * 1000 + 1):
                if descriptor == wake:
                    os.read(wake, 4096)
                elif not self._obey():
                    poller.unregister(descriptor)

    def _obey(self) -> bool:
        """Read orders; false when there will be none any more."""
        orders = os.read(self._options.lifeline, 4096)
        self._asked = self._asked or not orders or b"t" in orders
        return bool(orders)

    def _ask(self, *_: object) -> None:
        self._asked = True

    def _woken(self, *_: object) -> None:
        """A child has ended: what waits looks for itself."""

    def _reap(self, child: int) -> bool:
        """Collect the dead; answers whether any child is left."""
        while True:
            try:
                pid, status = os.waitpid(-1, os.WNOHANG)
            except ChildProcessError:
                return False
            if pid == 0:
                return True
            if pid == child:
                self._status = status

    def _clean(self, child: int) -> None:
        give_up = time.monotonic() + _KILL_SECONDS
        while self._reap(child) and time.monotonic() < give_up:
            for pid, _ in descendants(os.getpid()):
                with contextlib.suppress(ProcessLookupError):
                    os.kill(pid, signal.SIGKILL)
            time.sleep(0.005)


def main() -> None:
    """Parse, become the reaper of this tree, run, report."""
    parser = argparse.ArgumentParser(prog="guard", description=__doc__)
    parser.add_argument("--lifeline", type=int, required=True, help="pipe whose other end the service holds")
    parser.add_argument("--report", type=int, required=True, help="pipe for the one line of JSON")
    parser.add_argument("--out", required=True, help="file that stdout is appended to")
    parser.add_argument("--log", required=True, help="file that stderr is appended to")
    parser.add_argument("--patience", type=float, required=True, help="seconds between SIGTERM and SIGKILL")
    parser.add_argument("command", nargs="+")
    options = parser.parse_args()
    reap_this_tree()
    for number in _DEAF_TO:
        signal.signal(number, signal.SIG_IGN)
    try:
        report = Guard(options).run()
    except (OSError, subprocess.SubprocessError) as error:
        report = {"failed": f"cannot start {options.command[0]}: {error}"}
    with contextlib.suppress(BrokenPipeError):
        os.write(options.report, json.dumps(report).encode() + b"\n")


if __name__ == "__main__":
    sys.exit(main())
