"""Runs one worker and leaves nothing behind: a script of its own, started by path, standard library only.

torchrun, Inductor's compile workers and DDP ranks put grandchildren into sessions of their own, where no
process group reaches them. So the supervisor is a child subreaper: whatever loses its parent becomes its
child, and it ends only when it has no child left. It also

* copies what the worker prints into a log of bounded size,
* kills everything at the deadline, when asked to, and when the controller dies (its end of the lifeline
  pipe closes),
* samples the resident memory of the tree until asked to be quiet,
* reports how the worker ended as one line of JSON.

On the lifeline: `k` kill, `q` be quiet (from now on blocks are timed).
"""

import argparse
import contextlib
import ctypes
import json
import os
import select
import signal
import subprocess
import sys
import time
from collections import deque
from collections.abc import Iterator, Mapping
from types import FrameType
from typing import Any

_PR_SET_PDEATHSIG = 1
_PR_SET_CHILD_SUBREAPER = 36
_LOG_HEAD = 1 << 20
_LOG_TAIL = 1 << 18
_SAMPLE_SECONDS = 0.25
#: A process in uninterruptible sleep may not die at once; after this long it is reported as left over.
_PATIENCE_SECONDS = 15.0
#: Number of threads in /proc/PID/stat, counted from the state (proc(5) counts from 1 and calls it 20).
_STAT_THREADS = 17
_LIBC = ctypes.CDLL(None, use_errno=True)


class Log:
    """A file that keeps the first MiB and the last 256 KiB of a stream, and says what it left out."""

    def __init__(self, path: str) -> None:
        self._file = open(path, "wb", buffering=0)  # noqa: SIM115  (lives as long as the process)
        self._written = 0
        self._tail: deque[bytes] = deque()
        self._tail_size = 0
        self._dropped = 0

    def write(self, data: bytes) -> None:
        """Keep `data`, or forget the oldest of the tail."""
        room = _LOG_HEAD - self._written
        head, rest = data[:room], data[room:]
        if head:
            self._put(head)
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
            self._put(f"\n... {self._dropped} bytes left out ...\n".encode())
        for part in self._tail:
            self._put(part)
        self._file.close()

    def _put(self, data: bytes) -> None:
        # A full disk costs the log, not the measurement.
        with contextlib.suppress(OSError):
            self._file.write(data)


class Supervisor:
    """One worker from start to the death of its last descendant."""

    def __init__(self, options: argparse.Namespace) -> None:
        self._options = options
        self._log = Log(options.log)
        self._quiet = False
        self._killed_by = ""
        self._status: int | None = None
        self._peak_child_kib = 0
        self._peak_tree_kib = 0
        self._strays: set[str] = set()
        self._stubborn: list[str] = []

    def run(self) -> dict[str, Any]:
        """Start the worker, watch it, clean up; answers the report."""
        started = time.monotonic()
        oom_before = oom_kills()
        process, output = self._start()
        deadline = started + self._options.deadline
        self._watch(process.pid, output, deadline)
        self._clean(process.pid)
        self._drain(output)
        self._log.close()
        status = self._status
        return {
            "pid": process.pid,
            "exit_code": os.WEXITSTATUS(status) if status is not None and os.WIFEXITED(status) else None,
            "signal": os.WTERMSIG(status) if status is not None and os.WIFSIGNALED(status) else None,
            "killed_by": self._killed_by,
            "oom_killed": oom_kills() > oom_before,
            "peak_tree_mib": self._peak_tree_kib / 1024,
            "peak_child_mib": self._peak_child_kib / 1024,
            "strays": sorted(self._strays)[:20],
            "left_over": self._stubborn,
            "seconds": time.monotonic() - started,
        }

    def _start(self) -> tuple[subprocess.Popen[bytes], int]:
        read, write = os.pipe()
        parent = os.getpid()

        def before_exec() -> None:
            die_with(parent, signal.SIGKILL)
            if self._options.cpus:
                os.sched_setaffinity(0, self._options.cpus)

        # preexec_fn is safe here: this process has one thread.
        process = subprocess.Popen(
            self._options.command,
            stdin=subprocess.DEVNULL,
            stdout=write,
            stderr=write,
            pass_fds=self._options.keep,
            start_new_session=True,
            preexec_fn=before_exec,
        )
        for descriptor in (write, *self._options.keep):
            os.close(descriptor)
        os.set_blocking(read, False)
        return process, read

    def _watch(self, worker: int, output: int, deadline: float) -> None:
        wake_read, wake_write = os.pipe()
        os.set_blocking(wake_write, False)
        signal.set_wakeup_fd(wake_write, warn_on_full_buffer=False)
        signal.signal(signal.SIGCHLD, self._woken)
        signal.signal(signal.SIGTERM, self._asked)
        poller = select.poll()
        for descriptor in (output, wake_read, self._options.lifeline):
            poller.register(descriptor, select.POLLIN)
        next_sample = 0.0
        while self._status is None and not self._killed_by:
            now = time.monotonic()
            if now >= deadline:
                self._kill_because("deadline")
                break
            if not self._quiet and now >= next_sample:
                self._peak_tree_kib = max(self._peak_tree_kib, tree_rss_kib())
                next_sample = now + _SAMPLE_SECONDS
            until = deadline if self._quiet else min(deadline, next_sample)
            for descriptor, _ in poller.poll(max(1.0, (until - now) * 1000)):
                if descriptor == output:
                    if not self._pump(output):
                        poller.unregister(output)
                elif descriptor == self._options.lifeline:
                    self._obey()
                else:
                    os.read(wake_read, 4096)
            self._reap(worker)

    def _woken(self, number: int, frame: FrameType | None) -> None:
        """SIGCHLD needs a handler, or the wakeup descriptor would not hear of it."""

    def _asked(self, number: int, frame: FrameType | None) -> None:
        self._kill_because("asked")

    def _obey(self) -> None:
        orders = os.read(self._options.lifeline, 4096)
        if not orders:
            self._kill_because("controller gone")
        for order in orders.decode(errors="replace"):
            if order == "k":
                self._kill_because("asked")
            elif order == "q":
                self._quiet = True

    def _kill_because(self, reason: str) -> None:
        self._killed_by = self._killed_by or reason

    def _reap(self, worker: int) -> bool:
        """Collect the dead; answers whether any child is left."""
        while True:
            try:
                pid, status, usage = os.wait4(-1, os.WNOHANG)
            except ChildProcessError:
                return False
            if pid == 0:
                return True
            if pid == worker:
                self._status = status
            self._peak_child_kib = max(self._peak_child_kib, usage.ru_maxrss)

    def _clean(self, worker: int) -> None:
        give_up = time.monotonic() + _PATIENCE_SECONDS
        while self._reap(worker):
            alive = list(descendants(os.getpid()))
            if time.monotonic() > give_up:
                self._stubborn = [name for _, name in alive]
                return
            for pid, name in alive:
                if pid != worker:
                    self._strays.add(name)
                with contextlib.suppress(ProcessLookupError):
                    os.kill(pid, signal.SIGKILL)
            time.sleep(0.005)

    def _pump(self, output: int) -> bool:
        try:
            data = os.read(output, 1 << 16)
        except BlockingIOError:
            return True
        self._log.write(data)
        return bool(data)

    def _drain(self, output: int) -> None:
        while True:
            try:
                data = os.read(output, 1 << 16)
            except BlockingIOError:
                return
            if not data:
                return
            self._log.write(data)


def die_with(parent: int, number: signal.Signals) -> None:
    """Have the kernel send this process `number` when its parent, of that id, ends; end where it has."""
    _LIBC.prctl(_PR_SET_PDEATHSIG, number, 0, 0, 0)
    if os.getppid() != parent:
        os._exit(1)


def reap_this_tree() -> None:
    """Have orphans below this process become its children."""
    _LIBC.prctl(_PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0)


def name_and_fields(stat: str) -> tuple[str, list[str]]:
    """Of a /proc/PID/stat: the name, and the fields from the state on, which proc(5) counts as the third."""
    # The name stands in parentheses and may itself hold spaces and parentheses.
    name, _, rest = stat.partition("(")[2].rpartition(")")
    return name, rest.split()


def processes() -> Iterator[tuple[int, int, str]]:
    """(pid, parent's pid, name) of every process that is not a zombie."""
    for entry in os.listdir("/proc"):
        if not entry.isdigit():
            continue
        try:
            with open(f"/proc/{entry}/stat", encoding="utf-8", errors="replace") as file:
                text = file.read()
        except OSError:
            continue
        name, fields = name_and_fields(text)
        state, parent = fields[:2]
        # The main thread of a process may end before the others: a zombie with threads is alive.
        if state not in "ZX" or int(fields[_STAT_THREADS]) > 1:
            yield int(entry), int(parent), name


def below(root: int, parents: Mapping[int, int]) -> Iterator[int]:
    """Every pid below `root`, of processes and their parents."""
    children: dict[int, list[int]] = {}
    for pid, parent in parents.items():
        children.setdefault(parent, []).append(pid)
    waiting = [root]
    while waiting:
        for pid in children.get(waiting.pop(), ()):
            waiting.append(pid)
            yield pid


def descendants(root: int) -> Iterator[tuple[int, str]]:
    """(pid, name) of every living process below `root`."""
    found = {pid: (parent, name) for pid, parent, name in processes()}
    for pid in below(root, {pid: parent for pid, (parent, _) in found.items()}):
        yield pid, found[pid][1]


def tree_rss_kib() -> int:
    """Resident memory of all descendants together, in KiB; a page that several share counts once."""
    return sum(_resident_kib(pid) for pid, _ in descendants(os.getpid()))


def _resident_kib(pid: int) -> int:
    # Proportional set size: shared pages are divided among those who share them.
    try:
        with open(f"/proc/{pid}/smaps_rollup", encoding="ascii") as file:
            return next((int(line.split()[1]) for line in file if line.startswith("Pss:")), 0)
    except (OSError, ValueError):
        return 0


def oom_kills() -> int:
    """How many processes the kernel has killed for lack of memory since it booted."""
    try:
        with open("/proc/vmstat", encoding="ascii") as file:
            return next((int(line.split()[1]) for line in file if line.startswith("oom_kill ")), 0)
    except OSError:
        return 0


def _cpus(text: str) -> set[int]:
    return {int(part) for part in text.split(",") if part}


def _descriptors(text: str) -> list[int]:
    return [int(part) for part in text.split(",") if part]


def main() -> None:
    """Parse, become the reaper of this tree, run, report."""
    parser = argparse.ArgumentParser(prog="supervisor", description=__doc__)
    parser.add_argument(
        "--lifeline", type=int, required=True, help="pipe whose other end the controller holds"
    )
    parser.add_argument("--report", type=int, required=True, help="pipe for the one line of JSON")
    parser.add_argument("--keep", type=_descriptors, default=[], help="descriptors to hand to the worker")
    parser.add_argument("--log", required=True)
    parser.add_argument("--deadline", type=float, required=True, help="seconds")
    parser.add_argument("--cpus", type=_cpus, default=set(), help="the worker's CPUs")
    parser.add_argument("--own-cpus", type=_cpus, default=set(), help="the supervisor's CPUs")
    parser.add_argument("command", nargs="+")
    options = parser.parse_args()
    reap_this_tree()
    signal.signal(signal.SIGINT, signal.SIG_IGN)
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
