"""Commands under a supervisor that leave no process behind, and the descendants of a process.

Standard library only, not psutil: `common.supervisor` imports this module and starts without site-packages.
"""

import ctypes
import json
import os
import select
import signal
import subprocess
import sys
import threading
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any

_PR_SET_PDEATHSIG = 1
_PR_SET_CHILD_SUBREAPER = 36
#: Number of threads in /proc/PID/stat, counted from the state (proc(5) counts from 1 and calls it 20).
_STAT_THREADS = 17
_LIBC = ctypes.CDLL(None, use_errno=True)
#: Starts `common.supervisor` independently of the current folder, the variables and site-packages.
_SUPERVISOR = (
    *(sys.executable, "-I", "-S", "-c"),
    f"import sys; sys.path.append({str(Path(__file__).parents[1])!r}); "
    "from common.supervisor import main; main()",
)


class SupervisedProcess:
    """A command, from its start to the end of its last descendant; it is ended when this process dies.

    The supervisor and the command are in sessions of their own. `log` takes the output, of bounded size; with
    `out` stdout is appended to that and stderr to `log`. `patience_seconds` is the time between SIGTERM and
    SIGKILL (0: SIGKILL at once), `linger_seconds` the time that descendants may outlive the command, except
    those whose names begin with one of `own`. `keep` are descriptors that the command inherits, `variables`
    its whole environment and `folder` its folder; None is ours. Raises OSError when the supervisor cannot be
    started.
    """

    def __init__(
        self,
        command: Sequence[str],
        log: Path,
        *,
        out: Path | None = None,
        deadline_seconds: float = float("inf"),
        patience_seconds: float = 0.0,
        linger_seconds: float = 0.0,
        own: Sequence[str] = (),
        sample_memory: bool = False,
        cpus: Sequence[int] = (),
        own_cpus: Sequence[int] = (),
        keep: Sequence[int] = (),
        variables: Mapping[str, str] | None = None,
        folder: Path | None = None,
    ) -> None:
        self._lock = threading.Lock()
        self._reader, report = os.pipe()
        lifeline, self._lifeline = os.pipe()
        options = [
            *("--lifeline", str(lifeline), "--report", str(report), "--log", str(log)),
            *("--deadline", str(deadline_seconds), "--patience", str(patience_seconds)),
            *("--linger", str(linger_seconds), *(part for name in own for part in ("--own", name))),
            *(
                "--cpus",
                join_numbers(cpus),
                "--own-cpus",
                join_numbers(own_cpus),
                "--keep",
                join_numbers(keep),
            ),
            *(("--out", str(out)) if out is not None else ()),
            *(("--sample",) if sample_memory else ()),
        ]
        try:
            self._supervisor = subprocess.Popen(
                [*_SUPERVISOR, *options, "--", *command],
                stdin=subprocess.DEVNULL,
                stdout=subprocess.DEVNULL,
                stderr=subprocess.DEVNULL,
                env=None if variables is None else dict(variables),
                cwd=folder,
                pass_fds=(lifeline, report, *keep),
                start_new_session=True,
            )
        except BaseException:
            os.close(self._lifeline)
            os.close(self._reader)
            raise
        finally:
            os.close(lifeline)
            os.close(report)

    @property
    def pid(self) -> int:
        """The supervisor's process id: the whole tree is below it."""
        return self._supervisor.pid

    def fileno(self) -> int:
        """A descriptor that is readable once the tree has ended."""
        return self._reader

    def has_ended(self, seconds: float | None = 0.0) -> bool:
        """Whether the tree has ended; waits for that at most so long, None without limit."""
        # poll, not select: select cannot wait for the high descriptors of a process with a thousand children.
        poller = select.poll()
        poller.register(self._reader, select.POLLIN)
        return bool(poller.poll(None if seconds is None else seconds * 1000))

    def terminate(self) -> None:
        """End the command; like `kill`, it can be called from any thread and more than once."""
        self._order(b"t")

    def kill(self) -> None:
        """Kill the whole tree now."""
        self._order(b"k")

    def stop_sampling(self) -> None:
        """Stop sampling the memory of the tree."""
        self._order(b"q")

    def end(self, patience_seconds: float | None = None) -> dict[str, Any]:
        """End the tree if it still runs, and return the supervisor's report.

        A supervisor that does not end within `patience_seconds` is killed; None waits without limit.
        """
        with self._lock:
            os.close(self._lifeline)
            self._lifeline = -1
        try:
            text = b""
            while self.has_ended(patience_seconds) and not text.endswith(b"\n"):
                if not (data := os.read(self._reader, 1 << 16)):
                    break
                text += data
        finally:
            os.close(self._reader)
            try:
                self._supervisor.wait(patience_seconds)
            except subprocess.TimeoutExpired:
                self._supervisor.kill()
                self._supervisor.wait()
        return dict(json.loads(text)) if text else {"failed": "the supervisor was killed"}

    def _order(self, order: bytes) -> None:
        with self._lock, suppress(OSError):
            if self._lifeline >= 0:
                os.write(self._lifeline, order)


def join_numbers(numbers: Sequence[int]) -> str:
    """Numbers as command lines have them: `0,1,4`."""
    return ",".join(map(str, numbers))


def die_with(parent: int, number: signal.Signals) -> None:
    """Have the kernel send signal `number` to this process when its parent ends; exit if the parent has ended
    already.
    """
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
    """Resident memory of all descendants together, in KiB; a shared page counts once."""
    return sum(proportional_kib(pid) or 0 for pid, _ in descendants(os.getpid()))


def proportional_kib(pid: int) -> int | None:
    """Resident memory in KiB, a page of several processes divided among them; None where not reported."""
    try:
        with open(f"/proc/{pid}/smaps_rollup", encoding="ascii") as file:
            return next((int(line.split()[1]) for line in file if line.startswith("Pss:")), None)
    except (OSError, ValueError):
        return None


def oom_kills() -> int:
    """The number of processes that the kernel has killed for lack of memory since it booted."""
    try:
        with open("/proc/vmstat", encoding="ascii") as file:
            return next((int(line.split()[1]) for line in file if line.startswith("oom_kill ")), 0)
    except OSError:
        return 0
