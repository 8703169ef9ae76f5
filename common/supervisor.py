"""Runs one command and leaves no process behind: a program of its own, standard library only.

torchrun, Inductor's compile workers and Ray put descendants into sessions of their own, where no process
group reaches. The supervisor is a child subreaper: orphans below it become its children; it ends only when it
has no child left. It also

* copies the output of the command to a log of bounded size, or appends it to files,
* ends the command at the deadline, on request, and when its controller dies (the lifeline pipe closes): at
  once, or by SIGTERM and, after `--patience` seconds, SIGKILL,
* kills the descendants that outlive the command by `--linger` seconds,
* samples the resident memory of the tree until told not to,
* reports how the command ended as one line of JSON.

Orders on the lifeline: `t` end the command, `k` kill everything, `q` stop sampling (blocks are timed now).
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
from collections import deque
from typing import Any

from .processes import descendants, die_with, oom_kills, reap_this_tree, tree_rss_kib

_LOG_HEAD = 1 << 20
_LOG_TAIL = 1 << 18
_SAMPLE_SECONDS = 0.25
#: A process in uninterruptible sleep may not die at once; after this long it is reported as left over.
_KILL_SECONDS = 15.0
_KILL_AGAIN_SECONDS, _LINGER_LOOK_SECONDS = 0.005, 0.2
#: Signals that a terminal sends to all its processes: the controller answers them.
_IGNORED = (signal.SIGINT, signal.SIGHUP)


class BoundedLog:
    """A file with the first MiB and the last 256 KiB of a stream, and the number of bytes left out between
    them.
    """

    def __init__(self, path: str) -> None:
        self._file = open(path, "wb", buffering=0)  # noqa: SIM115  (lives as long as the process)
        self._written = 0
        self._tail: deque[bytes] = deque()
        self._tail_size = 0
        self._dropped = 0

    def write(self, data: bytes) -> None:
        """Store `data`; drop the oldest bytes of the tail if it is full."""
        room = _LOG_HEAD - self._written
        head, rest = data[:room], data[room:]
        if head:
            self._write_bytes(head)
            self._written += len(head)
        if rest:
            self._tail.append(rest)
            self._tail_size += len(rest)
            while self._tail_size - len(self._tail[0]) >= _LOG_TAIL:
                gone = self._tail.popleft()
                self._tail_size -= len(gone)
                self._dropped += len(gone)

    def close(self) -> None:
        """Write the tail."""
        if self._dropped:
            self._write_bytes(f"\n... {self._dropped} bytes left out ...\n".encode())
        for part in self._tail:
            self._write_bytes(part)
        self._file.close()

    def _write_bytes(self, data: bytes) -> None:
        # A full disk costs the log, not the measurement.
        with contextlib.suppress(OSError):
            self._file.write(data)


class Supervisor:
    """One command from start to the death of its last descendant."""

    def __init__(self, options: argparse.Namespace) -> None:
        self._options = options
        self._log = None if options.out else BoundedLog(options.log)
        self._sampling: bool = options.sample
        self._output = -1
        self._command = 0
        self._killed_by = ""
        self._kill_all = False
        self._kill_at: float | None = None
        self._status: int | None = None
        self._peak_child_kib = 0
        self._peak_tree_kib = 0
        self._strays: set[str] = set()
        self._left_over: list[str] = []
        self._poller = select.poll()
        self._wake, write = os.pipe()
        os.set_blocking(write, False)
        signal.set_wakeup_fd(write, warn_on_full_buffer=False)
        # Without a handler the wakeup descriptor receives nothing.
        signal.signal(signal.SIGCHLD, self._on_child)
        signal.signal(signal.SIGTERM, self._on_sigterm)

    def run(self) -> dict[str, Any]:
        """Start the command, watch it, clean up; returns the report."""
        started = time.monotonic()
        oom_before = oom_kills()
        self._command = self._start()
        for descriptor in (self._wake, self._options.lifeline):
            self._poller.register(descriptor, select.POLLIN)
        if self._output >= 0:
            self._poller.register(self._output, select.POLLIN)
        self._watch(started + self._options.deadline)
        self._clean()
        with contextlib.suppress(BlockingIOError):
            while self._output >= 0 and self._copy_output():
                pass
        if self._log is not None:
            self._log.close()
        status = self._status
        return {
            "pid": self._command,
            "exit_code": os.WEXITSTATUS(status) if status is not None and os.WIFEXITED(status) else None,
            "signal": os.WTERMSIG(status) if status is not None and os.WIFSIGNALED(status) else None,
            "killed_by": self._killed_by,
            "oom_killed": oom_kills() > oom_before,
            "peak_tree_mib": self._peak_tree_kib / 1024,
            "peak_child_mib": self._peak_child_kib / 1024,
            "strays": sorted(self._strays)[:20],
            "left_over": self._left_over,
            "seconds": time.monotonic() - started,
        }

    def _start(self) -> int:
        parent = os.getpid()

        def before_exec() -> None:
            # A killed supervisor cannot end the command; the kernel does.
            die_with(parent, signal.SIGTERM if self._options.patience else signal.SIGKILL)
            for number in _IGNORED:
                signal.signal(number, signal.SIG_DFL)
            # The parent of this process may have blocked some, as Ray does.
            signal.pthread_sigmask(signal.SIG_SETMASK, ())
            if self._options.cpus:
                os.sched_setaffinity(0, self._options.cpus)

        if self._log is None:
            out = os.open(self._options.out, os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o666)
            error = os.open(self._options.log, os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o666)
        else:
            self._output, out = os.pipe()
            error = os.dup(out)
            os.set_blocking(self._output, False)
        # preexec_fn is safe here: this process has one thread.
        self._process = subprocess.Popen(
            self._options.command,
            stdin=subprocess.DEVNULL,
            stdout=out,
            stderr=error,
            pass_fds=self._options.keep,
            start_new_session=True,
            preexec_fn=before_exec,
        )
        for descriptor in (out, error, *self._options.keep):
            os.close(descriptor)
        # Its status is collected by `_reap`: forgotten here, subprocess would collect it.
        return self._process.pid

    def _watch(self, deadline: float) -> None:
        next_sample = 0.0
        while self._reap() and self._status is None and not self._killed_by:
            now = time.monotonic()
            if now >= deadline:
                self._kill_because("deadline")
            elif self._kill_at is not None and now >= self._kill_at:
                self._kill_because("asked")
            if self._killed_by:
                return
            if self._sampling and now >= next_sample:
                self._peak_tree_kib = max(self._peak_tree_kib, tree_rss_kib())
                next_sample = now + _SAMPLE_SECONDS
            until = min(deadline, self._kill_at or deadline, next_sample if self._sampling else deadline)
            self._poll(until - now)

    def _poll(self, seconds: float) -> None:
        """Wait for output, an order or a signal, at most for so long."""
        forever = seconds == float("inf")
        for descriptor, _ in self._poller.poll(None if forever else max(1.0, seconds * 1000)):
            if descriptor == self._wake:
                os.read(self._wake, 4096)
            elif descriptor == self._output:
                with contextlib.suppress(BlockingIOError):
                    if not self._copy_output():
                        self._poller.unregister(self._output)
            else:
                self._obey()

    def _on_child(self, *_: object) -> None:
        """A child has ended: `_watch` collects it."""

    def _on_sigterm(self, *_: object) -> None:
        self._end_command("asked")

    def _obey(self) -> None:
        orders = os.read(self._options.lifeline, 4096)
        if not orders:
            self._poller.unregister(self._options.lifeline)
            self._end_command("controller gone")
        for order in orders.decode(errors="replace"):
            if order == "k":
                self._kill_all = True
                self._kill_because("asked")
            elif order == "t":
                self._end_command("asked")
            elif order == "q":
                self._sampling = False

    def _end_command(self, reason: str) -> None:
        """Have the command end, once: by SIGTERM where there is patience, else by SIGKILL."""
        if not self._options.patience:
            self._kill_because(reason)
        elif self._kill_at is None:
            self._kill_at = time.monotonic() + self._options.patience
            if self._status is None and self._command:
                with contextlib.suppress(ProcessLookupError):
                    os.kill(self._command, signal.SIGTERM)

    def _kill_because(self, reason: str) -> None:
        if self._status is None:
            self._killed_by = self._killed_by or reason

    def _reap(self) -> bool:
        """Collect the dead; returns whether any child is left."""
        while True:
            try:
                pid, status, usage = os.wait4(-1, os.WNOHANG)
            except ChildProcessError:
                return False
            if pid == 0:
                return True
            if pid == self._command:
                self._status = status
            self._peak_child_kib = max(self._peak_child_kib, usage.ru_maxrss)

    def _clean(self) -> None:
        """Kill the rest of the tree: at once, or after the time that descendants may outlive the command."""
        linger_until, give_up = time.monotonic() + self._options.linger, float("inf")
        while self._reap():
            now, alive = time.monotonic(), list(descendants(os.getpid()))
            if now > give_up:
                self._left_over = [name for _, name in alive]
                return
            if kill_all := self._kill_all or now >= linger_until:
                give_up = min(give_up, now + _KILL_SECONDS)
            for pid, name in alive:
                if pid != self._command:
                    self._strays.add(name)
                if kill_all or pid == self._command or name.startswith(self._options.own):
                    with contextlib.suppress(ProcessLookupError):
                        os.kill(pid, signal.SIGKILL)
            if kill_all:
                time.sleep(_KILL_AGAIN_SECONDS)
            else:
                self._poll(_LINGER_LOOK_SECONDS)

    def _copy_output(self) -> bool:
        """Copy output to the log; returns whether more may come, raises BlockingIOError if not now."""
        data = os.read(self._output, 1 << 16)
        if self._log is not None:
            self._log.write(data)
        return bool(data)


def _numbers(text: str) -> list[int]:
    return [int(part) for part in text.split(",") if part]


def main() -> None:
    """Parse, become the reaper of this tree, run, report."""
    parser = argparse.ArgumentParser(prog="supervisor", description=__doc__)
    add = parser.add_argument
    add("--lifeline", type=int, required=True, help="pipe whose other end the controller holds")
    add("--report", type=int, required=True, help="pipe for the one line of JSON")
    add("--keep", type=_numbers, default=[], help="descriptors to hand to the command")
    add("--log", required=True, help="file for the output, or for stderr alone where there is --out")
    add("--out", help="file that stdout is appended to; then stderr is appended to --log")
    add("--deadline", type=float, default=float("inf"), help="seconds")
    add("--patience", type=float, default=0.0, help="seconds between SIGTERM and SIGKILL; 0: no SIGTERM")
    add("--linger", type=float, default=0.0, help="seconds that descendants may outlive the command")
    add(
        "--own",
        action="append",
        default=[],
        help="name prefix of descendants that may not outlive the command",
    )
    add("--sample", action="store_true", help="sample the memory of the tree until told not to")
    add("--cpus", type=_numbers, default=[], help="the command's CPUs")
    add("--own-cpus", type=_numbers, default=[], help="the supervisor's CPUs")
    add("command", nargs="+")
    options = parser.parse_args()
    options.own = tuple(options.own)
    reap_this_tree()
    for number in _IGNORED:
        signal.signal(number, signal.SIG_IGN)
    try:
        if options.own_cpus:
            os.sched_setaffinity(0, options.own_cpus)
        report = Supervisor(options).run()
    except OSError as error:
        report = {"failed": f"cannot start {options.command[0]}: {error.strerror or error}"}
    except subprocess.SubprocessError:
        cpus = ",".join(map(str, sorted(options.cpus)))
        report = {"failed": f"cannot start {options.command[0]} on CPUs {cpus}: the kernel refuses them"}
    with contextlib.suppress(BrokenPipeError):
        os.write(options.report, json.dumps(report).encode() + b"\n")


if __name__ == "__main__":
    sys.exit(main())
