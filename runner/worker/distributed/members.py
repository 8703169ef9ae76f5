"""The member processes of a case as their leader holds them: started, given orders, read, and ended.

`Members` is what both kinds share. `LocalMembers` are children of this process, each with a channel of its
own; `torchrun.TorchrunMembers` are started by torch.distributed.run, on one node or several.
"""

import contextlib
import os
import select
import signal
import subprocess
import sys
import time
from abc import ABC, abstractmethod
from collections.abc import Collection, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from .channels import Listener, SocketChannel
from .cpu_partition import Share, bind, cores_of, own_cpus, share_out

#: The axes that take several processes, or make sense for several only.
GROUP_AXES = (
    *("instances", "parallel", "ranks", "nodes", "scaling", "launcher"),
    *("sharding", "hook", "bucket", "ddp"),
)
#: How long members may take to leave when ordered to.
LEAVE_SECONDS = 10.0
LOOK_SECONDS = 0.2
#: How long a dead member's parent may take to learn how it died.
_GRACE_SECONDS = 1.0
#: How far ahead of now a common start lies: time for the order to reach every member.
_AHEAD_NS = 10_000_000
GLOO_INTERFACE = "GLOO_SOCKET_IFNAME"


class MemberFailed(Exception):
    """A member could not go on; the text says which and why, `status` what kind of outcome that is.

    With `device_lost` a GPU of this machine failed.
    """

    def __init__(self, status: str, reason: str, traceback: str = "", device_lost: bool = False) -> None:
        super().__init__(reason)
        self.status = status
        self.traceback = traceback
        self.device_lost = device_lost


@dataclass(frozen=True, slots=True)
class GroupSpec:
    """The members of one case: `count`, called `word` (rank, instance).

    Each has `each` cores (None: its part of all there are) and computes with `threads` (None: one a core).
    """

    word: str
    count: int
    each: int | None
    threads: int | None


class Members(ABC):
    """Live members, numbered from 0."""

    #: By which address of ours, and by which interface, members meet.
    host: str = "127.0.0.1"
    interface: str = "lo"
    #: Whether all members share this machine's monotonic clock.
    one_clock: bool = True

    def __init__(self, spec: GroupSpec) -> None:
        self.spec = spec
        self.pids: list[int] = [0] * spec.count
        #: Each member's CPUs, by its machine's numbers.
        self.shares: tuple[Share, ...] = ()
        #: What keeps members to their CPUs.
        self.pinned_by = "affinity"

    @property
    def own(self) -> range:
        """The numbers of the members on this machine."""
        return range(self.spec.count)

    def node_of(self, number: int) -> str:
        """The name of the node of a member that is on another machine; empty on this one."""
        return ""

    def local_number(self, number: int) -> int:
        """A member's number among those of its machine."""
        return number

    def facts(self) -> dict[str, Any]:
        """What an outcome says of the nodes."""
        return {}

    def soon(self) -> int:
        """A moment by which an order given now has reached every member; 0 where no clock is common."""
        return time.monotonic_ns() + _AHEAD_NS

    def order(self, do: str, **details: Any) -> None:
        """Order every member to do something; raises MemberFailed for one that is gone."""
        for number in range(self.spec.count):
            self.order_one(number, do, **details)

    def gather(self) -> list[Any]:
        """One answer from every member, by number; raises MemberFailed as soon as one fails or dies."""
        return [answer for _, answer in sorted(self.receive({*range(self.spec.count)}).items())]

    def request(self, do: str, **details: Any) -> list[Any]:
        """`order` and `gather`."""
        self.order(do, **details)
        return self.gather()

    def request_one(self, number: int, do: str, **details: Any) -> Any:
        """The answer of one member."""
        self.order_one(number, do, **details)
        return self.receive({number})[number]

    def name(self, number: int) -> str:
        """A member for people: `rank 1`, `rank 3 on gpu-b`."""
        node = self.node_of(number)
        return f"{self.spec.word} {number}" + (f" on {node}" if node else "")

    def member_failure(self, number: int, failed: Mapping[str, Any]) -> MemberFailed:
        """The failure that a member reported."""
        reason = failed["reason"]
        if failed["status"] != "unsupported":
            reason = f"{self.name(number)}: {reason}"
        lost = bool(failed.get("device_lost")) and number in self.own
        return MemberFailed(failed["status"], reason, failed["traceback"], lost)

    @abstractmethod
    def order_one(self, number: int, do: str, **details: Any) -> None:
        """Order one member to do something."""

    @abstractmethod
    def receive(self, numbers: Collection[int]) -> dict[int, Any]:
        """The next answer of each of these members."""

    @abstractmethod
    def close(self) -> None:
        """Have all members leave; one that does not is killed."""


class LocalMembers(Members):
    """Members that are children of this process; raises NoRoom, or OSError where none can be started."""

    def __init__(self, spec: GroupSpec) -> None:
        super().__init__(spec)
        self.shares = share_out(own_cpus(), spec.count, spec.word, spec.each)
        self._processes: list[subprocess.Popen[bytes]] = []
        self._lines: list[SocketChannel] = []
        self._oom_kills = oom_kills()
        listener = Listener()
        try:
            self._start(listener.name)
            self._lines = self._admit(listener)
        except BaseException:
            self._kill()
            raise
        finally:
            listener.close()

    def order_one(self, number: int, do: str, **details: Any) -> None:
        """Order one member to do something."""
        try:
            self._lines[number].send({"do": do, **details})
        except OSError:
            raise self._cause(number, None) from None

    def receive(self, numbers: Collection[int]) -> dict[int, Any]:
        """The next answer of each of these members."""
        answers: dict[int, Any] = {}
        poller = select.poll()
        by_descriptor = {self._lines[number].fileno(): number for number in numbers}
        for descriptor in by_descriptor:
            poller.register(descriptor, select.POLLIN)
        while len(answers) < len(numbers):
            ready = poller.poll(LOOK_SECONDS * 1000)
            if not ready:
                # A member may be dead while a process that it forked keeps its channel open.
                for number in self._ended_silently({*numbers} - answers.keys()):
                    raise self._death(number)
            for descriptor, _ in ready:
                number = by_descriptor[descriptor]
                received = self._lines[number].receive()
                if received is None or "failed" in received:
                    raise self._cause(number, received)
                answers[number] = received["done"]
                poller.unregister(descriptor)
        return answers

    def close(self) -> None:
        """Have all members leave; one that does not is killed."""
        for line in self._lines:
            with contextlib.suppress(OSError):
                line.send({"do": "leave"})
        give_up = time.monotonic() + LEAVE_SECONDS
        for process in self._processes:
            with contextlib.suppress(subprocess.TimeoutExpired):
                process.wait(max(0.0, give_up - time.monotonic()))
        self._kill()

    def _start(self, leader: str) -> None:
        command = (sys.executable, "-I", sys.argv[0], "member", "--leader", leader)
        variables = {GLOO_INTERFACE: self.interface, **os.environ, **threads_of(self.spec, self.shares)}
        prefixes = [bind(share) for share in self.shares]
        if all(prefixes):
            self.pinned_by = "numactl"
        for number, prefix in enumerate(prefixes):
            whole = (*prefix, *command, "--rank", str(number))
            self._processes.append(subprocess.Popen(whole, stdin=subprocess.DEVNULL, env=variables))

    def _admit(self, listener: Listener) -> list[SocketChannel]:
        lines: dict[int, SocketChannel] = {}
        while len(lines) < self.spec.count:
            callers, _, _ = select.select([listener], [], [], LOOK_SECONDS)
            line = listener.accept() if callers else None
            hello = None if line is None else line.receive()
            if line is not None and hello is not None and hello["rank"] not in lines:
                number = hello["rank"]
                self.pids[number] = hello["pid"]
                with contextlib.suppress(OSError):
                    line.send({"cpus": list(self.shares[number])})
                lines[number] = line
            if not callers:
                missing = [number for number in range(self.spec.count) if number not in lines]
                for number in missing:
                    if self._ended(number):
                        raise self._death(number)
        return [lines[number] for number in range(self.spec.count)]

    def _ended(self, number: int) -> bool:
        return self._processes[number].poll() is not None

    def _ended_silently(self, numbers: Collection[int]) -> list[int]:
        """Members that have ended, without unread messages."""
        # In this order: a member sends its last message before it ends.
        ended = [number for number in numbers if self._ended(number)]
        return [number for number in ended if not self._lines[number].has_message()]

    def _cause(self, number: int, received: Mapping[str, Any] | None) -> MemberFailed:
        """The cause, once one member has failed: a dead member before what others make of its death."""
        failures = {number: received}
        others = {self._lines[n].fileno(): n for n in range(len(self._lines)) if n != number}
        give_up = time.monotonic() + _GRACE_SECONDS
        while received is not None and others and (left := give_up - time.monotonic()) > 0:
            ready, _, _ = select.select(list(others), [], [], left)
            for descriptor in ready:
                other = others.pop(descriptor)
                answer = self._lines[other].receive()
                if answer is None or "failed" in answer:
                    failures[other] = answer
        failures |= dict.fromkeys(self._ended_silently(others.values()))
        if dead := [n for n, answer in failures.items() if answer is None]:
            return self._death(dead[0])
        return self.member_failure(number, (received or {})["failed"])

    def _death(self, number: int) -> MemberFailed:
        """How a silent member ended; waits a moment for its exit."""
        try:
            code = self._processes[number].wait(_GRACE_SECONDS)
        except subprocess.TimeoutExpired:
            return MemberFailed("crashed", f"{self.name(number)} closed its channel to the leader")
        status, how = describe_exit(code, out_of_memory=oom_kills() > self._oom_kills)
        return MemberFailed(status, f"{self.name(number)} {how}")

    def _kill(self) -> None:
        for process in self._processes:
            with contextlib.suppress(ProcessLookupError):
                process.kill()
            process.wait()
        for line in self._lines:
            line.close()


def describe_exit(code: int, *, out_of_memory: bool) -> tuple[str, str]:
    """Status, and the end of a sentence, of a member that ended with `code` before it was done.

    A negative code is a signal; with `out_of_memory` the kernel killed some process for lack of memory.
    """
    if code >= 0:
        return "crashed", f"exited with code {code}, before it was done"
    if -code == signal.SIGKILL and out_of_memory:
        return "oom", "was killed by the kernel: out of memory"
    name = signal.Signals(-code).name if -code in {*signal.Signals} else f"signal {-code}"
    return "crashed", f"was killed by {name}"


def threads_of(spec: GroupSpec, shares: Collection[Share]) -> dict[str, str]:
    """The variables for a member's threads: one a core, unless the case says otherwise.

    Shares are equal, so one number fits all.
    """
    threads = str(spec.threads or len(cores_of(next(iter(shares)))))
    return {"OMP_NUM_THREADS": threads, "MKL_NUM_THREADS": threads}


def oom_kills() -> int:
    """How many processes the kernel has killed for lack of memory since it booted."""
    try:
        text = Path("/proc/vmstat").read_text()
    except OSError:
        return 0
    return next((int(line.split()[1]) for line in text.splitlines() if line.startswith("oom_kill ")), 0)
