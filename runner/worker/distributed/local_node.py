"""The members of a gang on this machine: started, pinned, and buried by the process that started them."""

import contextlib
import os
import signal
import subprocess
import sys
import time
from collections.abc import Collection
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol

from .clock import SAME, Offset
from .cpu_partition import Share, bind, cores_of, own_cpus, share_out

_GLOO = "GLOO_SOCKET_IFNAME"
#: How long a dead member's parent may take to learn how it died.
GRACE_SECONDS = 1.0


class MemberFailed(Exception):
    """A member could not go on; the text says which and why, `status` what kind of outcome that is."""

    def __init__(self, status: str, reason: str, traceback: str = "") -> None:
        super().__init__(reason)
        self.status = status
        self.traceback = traceback


@dataclass(frozen=True, slots=True)
class Order:
    """Who is to be started on one machine: `count` members called `word`, numbered from `first`.

    Each has `each` cores (None: its part of all there are) and computes with `threads` (None: one a core).
    They call `leader`, a name in the kernel's memory or HOST:PORT. `where` is the machine's name, empty for
    the leader's own; it is number `node` of `nodes`, which find each other at `host` and, under torchrun,
    `port`. The network is reached by `interface`.
    """

    word: str
    first: int
    count: int
    each: int | None
    threads: int | None
    leader: str
    torchrun: bool
    where: str = ""
    node: int = 0
    nodes: int = 1
    host: str = "127.0.0.1"
    port: int = 0
    interface: str = "lo"

    @property
    def numbers(self) -> range:
        """Of the members."""
        return range(self.first, self.first + self.count)

    def called(self, number: int) -> str:
        """A member for people: `rank 1`, `rank 3 on gpu-b`."""
        return f"{self.word} {number}{self.at}"

    @property
    def at(self) -> str:
        """Where this is, for the end of a name."""
        return f" on {self.where}" if self.where else ""


class Node(Protocol):
    """The members on one machine, as their leader holds them."""

    order: Order
    shares: tuple[Share, ...]
    pinned_by: str
    #: How far that machine's clock is from ours, when last looked at.
    clock: Offset

    def look_at_clock(self) -> None:
        """Learn how far it is from ours now; raises MemberFailed where nobody answers."""
        ...

    def ended(self, number: int) -> bool:
        """Whether a member has ended, as far as is known without waiting."""
        ...

    def gave_up(self) -> bool:
        """Whether whoever starts the members, and alone knows how they end, has ended itself."""
        ...

    def death(self, number: int) -> MemberFailed:
        """How a member ended that speaks no more; waits a moment to learn it."""
        ...

    def missing(self, come: Collection[int]) -> MemberFailed | None:
        """Why those who have not `come` yet never will; None while they may."""
        ...

    def wait(self, give_up: float) -> None:
        """Wait until all have left, at most until `give_up` on our monotonic clock."""
        ...

    def kill(self) -> None:
        """Leave no process behind."""
        ...


class OwnNode:
    """Members that are children of this process; raises NoRoom, or OSError where none can be started."""

    def __init__(self, order: Order) -> None:
        self.order = order
        self.shares = share_out(own_cpus(), order.count, order.word, order.each)
        self.pinned_by = "affinity"
        self.clock = SAME
        self.processes: list[subprocess.Popen[bytes]] = []
        self._oom_kills = _oom_kills()
        try:
            self._start()
        except BaseException:
            self.kill()
            raise

    def look_at_clock(self) -> None:
        """It is the same clock."""

    def ended(self, number: int) -> bool:
        """Whether a member has ended; under torchrun only torchrun knows."""
        return not self.order.torchrun and self._process(number).poll() is not None

    def gave_up(self) -> bool:
        """Whether torchrun has ended."""
        return self.order.torchrun and self.processes[0].poll() is not None

    def death(self, number: int) -> MemberFailed:
        """How a member ended, as its parent learns it."""
        who = self.order.called(number)
        if self.order.torchrun:
            # Only its parent learns how a process ended; torchrun prints it.
            return MemberFailed("crashed", f"{who} died under torchrun, whose report is in the log")
        try:
            code = self._process(number).wait(GRACE_SECONDS)
        except subprocess.TimeoutExpired:
            return MemberFailed("crashed", f"{who} closed its line to the leader")
        if code >= 0:
            return MemberFailed("crashed", f"{who} exited with code {code}, before it was done")
        if -code == signal.SIGKILL and _oom_kills() > self._oom_kills:
            return MemberFailed("oom", f"{who} was killed by the kernel: out of memory")
        name = signal.Signals(-code).name if -code in set(signal.Signals) else f"signal {-code}"
        return MemberFailed("crashed", f"{who} was killed by {name}")

    def missing(self, come: Collection[int]) -> MemberFailed | None:
        """Why those who have not `come` yet never will."""
        if self.gave_up():
            code = self.processes[0].returncode
            sentence = f"torchrun{self.order.at} ended with code {code} before every rank had come"
            return MemberFailed("crashed", sentence)
        gone = [number for number in self.order.numbers if number not in come and self.ended(number)]
        return self.death(gone[0]) if gone else None

    def wait(self, give_up: float) -> None:
        """Wait until all have left."""
        for process in self.processes:
            with contextlib.suppress(subprocess.TimeoutExpired):
                process.wait(max(0.0, give_up - time.monotonic()))

    def kill(self) -> None:
        """Kill who is left."""
        for process in self.processes:
            with contextlib.suppress(ProcessLookupError):
                process.kill()
            process.wait()

    def _process(self, number: int) -> subprocess.Popen[bytes]:
        return self.processes[number - self.order.first]

    def _start(self) -> None:
        order = self.order
        member = (sys.executable, "-I", sys.argv[0], "member", "--leader", order.leader)
        if order.where:
            # A word that begins none of torchrun's own options, which may be shortened.
            member = (*member, "--neighbour", str(order.node))
        if order.torchrun:
            agent = (sys.executable, "-I", "-m", "torch.distributed.run", *_meeting(order))
            many = ("--nproc-per-node", str(order.count), "--max-restarts", "0", "--no-python")
            self.processes = [self._popen((*agent, *many, *member))]
            return
        prefixes = [bind(share) for share in self.shares]
        if all(prefixes):
            self.pinned_by = "numactl"
        for number, prefix in zip(order.numbers, prefixes, strict=True):
            self.processes.append(self._popen((*prefix, *member, "--rank", str(number))))

    def _popen(self, command: tuple[str, ...]) -> subprocess.Popen[bytes]:
        # One thread a core, unless the case says otherwise; shares are equal, so one number fits all.
        threads = str(self.order.threads or len(cores_of(self.shares[0])))
        variables = {"OMP_NUM_THREADS": threads, "MKL_NUM_THREADS": threads}
        # By interface: the name that a machine has on a network need not resolve.
        base = {_GLOO: self.order.interface}
        if self.order.nodes > 1:
            # NCCL takes it for the beginning of a name, but for the sign.
            base["NCCL_SOCKET_IFNAME"] = f"={self.order.interface}"
        return subprocess.Popen(command, stdin=subprocess.DEVNULL, env={**base, **os.environ, **variables})


def used(interface: str) -> str:
    """The interface that gloo takes where a case is told this one: a variable of ours comes first."""
    return os.environ.get(_GLOO, interface)


def _meeting(order: Order) -> tuple[str, ...]:
    """Where torchrun's agents meet, as its options say it: by addresses, for names need not resolve."""
    if order.nodes == 1:
        return "--standalone", "--local-addr", order.host
    nodes = ("--nnodes", str(order.nodes), "--node-rank", str(order.node))
    return *nodes, "--master-addr", order.host, "--master-port", str(order.port)


def _oom_kills() -> int:
    """How many processes the kernel has killed for lack of memory since it booted."""
    try:
        text = Path("/proc/vmstat").read_text()
    except OSError:
        return 0
    return next((int(line.split()[1]) for line in text.splitlines() if line.startswith("oom_kill ")), 0)
