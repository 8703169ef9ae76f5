"""The member processes of a gang as their leader holds them: started, pinned, spoken to, and buried."""

import contextlib
import os
import select
import signal
import subprocess
import sys
import time
from collections.abc import Collection, Mapping
from pathlib import Path
from typing import Any

from .gang_line import Line, Listener
from .gang_shares import Share, bind, cores_of

#: The axes that take several processes, or make sense for several only.
GANG_AXES = ("instances", "parallel", "ranks", "scaling", "launcher", "hook", "bucket", "ddp")
#: When one member fails, how long to wait for what the others say: a dead rank is often first noticed by
#: the one that waits for it.
_GRACE_SECONDS = 1.0
#: How long members may take to leave when asked to.
_LEAVE_SECONDS = 10.0
_LOOK_SECONDS = 0.2


class MemberFailed(Exception):
    """A member could not go on; the text says which and why, `status` what kind of outcome that is."""

    def __init__(self, status: str, reason: str, traceback: str = "") -> None:
        super().__init__(reason)
        self.status = status
        self.traceback = traceback


class Crew:
    """Live members, one for each share of CPUs, called `word` (rank, instance) and numbered from 0.

    With `torchrun` they are started by torch.distributed.run and not by this process.
    """

    def __init__(self, shares: tuple[Share, ...], word: str, threads: int | None, torchrun: bool) -> None:
        self.shares = shares
        self.word = word
        self.pinned_by = "affinity"
        self.pids: list[int] = [0] * len(shares)
        self._threads = threads
        self._torchrun = torchrun
        self._processes: list[subprocess.Popen[bytes]] = []
        self._oom_kills = _oom_kills()
        self._lines: list[Line] = []
        listener = Listener()
        try:
            self._start(listener.name)
            self._lines = self._let_in(listener)
        except BaseException:
            self._kill()
            raise
        finally:
            listener.close()

    def order(self, do: str, **details: Any) -> None:
        """Tell every member to do something; raises MemberFailed for one that is gone."""
        for number in range(len(self._lines)):
            self.order_one(number, do, **details)

    def order_one(self, number: int, do: str, **details: Any) -> None:
        """Tell one member."""
        try:
            self._lines[number].say({"do": do, **details})
        except OSError:
            raise self._trouble(number, None) from None

    def gather(self) -> list[Any]:
        """One answer from every member, by number; raises MemberFailed as soon as one fails or dies."""
        return [answer for _, answer in sorted(self._hear(set(range(len(self._lines)))).items())]

    def ask(self, do: str, **details: Any) -> list[Any]:
        """`order` and `gather`."""
        self.order(do, **details)
        return self.gather()

    def ask_one(self, number: int, do: str, **details: Any) -> Any:
        """The answer of one member, the others being left alone."""
        self.order_one(number, do, **details)
        return self._hear({number})[number]

    def close(self) -> None:
        """Have all members leave; whoever does not is killed."""
        for line in self._lines:
            with contextlib.suppress(OSError):
                line.say({"do": "leave"})
        give_up = time.monotonic() + _LEAVE_SECONDS
        for process in self._processes:
            with contextlib.suppress(subprocess.TimeoutExpired):
                process.wait(max(0.0, give_up - time.monotonic()))
        self._kill()

    # -- starting -------------------------------------------------------------------------

    def _start(self, name: str) -> None:
        member = (sys.executable, "-I", sys.argv[0], "member", "--leader", name)
        if self._torchrun:
            agent = (sys.executable, "-I", "-m", "torch.distributed.run", "--standalone")
            # By its address: the machine's own name need not resolve.
            local = ("--local-addr", "127.0.0.1", "--nproc-per-node", str(len(self.shares)), "--no-python")
            self._processes = [self._popen((*agent, *local, *member))]
            return
        prefixes = [bind(share) for share in self.shares]
        if all(prefixes):
            self.pinned_by = "numactl"
        for number, prefix in enumerate(prefixes):
            self._processes.append(self._popen((*prefix, *member, "--rank", str(number))))

    def _popen(self, command: tuple[str, ...]) -> subprocess.Popen[bytes]:
        # One thread a core, unless the case says otherwise; shares are equal, so one number fits all.
        threads = str(self._threads or len(cores_of(self.shares[0])))
        variables = {"OMP_NUM_THREADS": threads, "MKL_NUM_THREADS": threads}
        # All members are on this machine: the name it has on a network need not resolve.
        base = {"GLOO_SOCKET_IFNAME": "lo"}
        return subprocess.Popen(command, stdin=subprocess.DEVNULL, env={**base, **os.environ, **variables})

    def _let_in(self, listener: Listener) -> list[Line]:
        lines: dict[int, Line] = {}
        while len(lines) < len(self.shares):
            line = listener.accept(_LOOK_SECONDS)
            if line is None:
                self._look_for_dead(lines)
                continue
            hello = line.hear()
            if hello is None or hello["rank"] in lines:
                line.close()
                continue
            number = hello["rank"]
            lines[number] = line
            self.pids[number] = hello["pid"]
            line.say({"cpus": list(self.shares[number])})
        return [lines[number] for number in range(len(self.shares))]

    def _look_for_dead(self, lines: Mapping[int, Line]) -> None:
        for number, process in enumerate(self._processes):
            if process.poll() is None or (not self._torchrun and number in lines):
                continue
            if self._torchrun:
                code = process.returncode
                raise MemberFailed("crashed", f"torchrun ended with code {code} before every rank had come")
            raise self._death(number)

    # -- listening ------------------------------------------------------------------------

    def _hear(self, numbers: set[int]) -> dict[int, Any]:
        answers: dict[int, Any] = {}
        poller = select.poll()
        by_descriptor = {self._lines[number].fileno(): number for number in numbers}
        for descriptor in by_descriptor:
            poller.register(descriptor, select.POLLIN)
        while len(answers) < len(numbers):
            ready = poller.poll(_LOOK_SECONDS * 1000)
            if not ready:
                self._look_for_silenced(numbers - answers.keys())
            for descriptor, _ in ready:
                number = by_descriptor[descriptor]
                heard = self._lines[number].hear()
                if heard is None or "failed" in heard:
                    raise self._trouble(number, heard)
                answers[number] = heard["done"]
                poller.unregister(descriptor)
        return answers

    def _look_for_silenced(self, numbers: Collection[int]) -> None:
        """Raise MemberFailed for a member that is dead while a process it forked keeps its line open."""
        for number in self._silenced(numbers):
            raise self._death(number)
        if self._torchrun and self._processes[0].poll() is not None and not self._speaking(numbers):
            raise MemberFailed(
                "crashed", "torchrun ended before every rank was done; its report is in the log"
            )

    def _silenced(self, numbers: Collection[int]) -> list[int]:
        """Members of our own that have ended, with nothing left to hear from them."""
        if self._torchrun:
            return []
        # In this order: what a member says, it says before it ends.
        ended = [number for number in numbers if self._processes[number].poll() is not None]
        return [number for number in ended if not self._speaking([number])]

    def _speaking(self, numbers: Collection[int]) -> bool:
        return any(self._lines[number].waiting() for number in numbers)

    def _trouble(self, number: int, heard: Mapping[str, Any] | None) -> MemberFailed:
        """The cause, once one member has failed: a dead member before what others make of its death."""
        troubles = {number: heard}
        others = {self._lines[n].fileno(): n for n in range(len(self._lines)) if n != number}
        give_up = time.monotonic() + _GRACE_SECONDS
        while heard is not None and others and (left := give_up - time.monotonic()) > 0:
            ready, _, _ = select.select(list(others), [], [], left)
            for descriptor in ready:
                other = others.pop(descriptor)
                said = self._lines[other].hear()
                if said is None or "failed" in said:
                    troubles[other] = said
        troubles |= dict.fromkeys(self._silenced(others.values()))
        if dead := [n for n, said in troubles.items() if said is None]:
            return self._death(dead[0])
        failed: dict[str, str] = dict((heard or {})["failed"])
        reason = failed["reason"]
        if failed["status"] != "unsupported":
            reason = f"{self.word} {number}: {reason}"
        return MemberFailed(failed["status"], reason, failed["traceback"])

    def _death(self, number: int) -> MemberFailed:
        who = f"{self.word} {number}"
        if self._torchrun:
            # Only its parent learns how a process ended; torchrun prints it.
            return MemberFailed("crashed", f"{who} died under torchrun, whose report is in the log")
        try:
            code = self._processes[number].wait(_GRACE_SECONDS)
        except subprocess.TimeoutExpired:
            return MemberFailed("crashed", f"{who} closed its line to the leader")
        if code >= 0:
            return MemberFailed("crashed", f"{who} exited with code {code}, before it was done")
        if -code == signal.SIGKILL and _oom_kills() > self._oom_kills:
            return MemberFailed("oom", f"{who} was killed by the kernel: out of memory")
        name = signal.Signals(-code).name if -code in set(signal.Signals) else f"signal {-code}"
        return MemberFailed("crashed", f"{who} was killed by {name}")

    def _kill(self) -> None:
        for process in self._processes:
            with contextlib.suppress(ProcessLookupError):
                process.kill()
            process.wait()
        for line in self._lines:
            line.close()


def _oom_kills() -> int:
    """How many processes the kernel has killed for lack of memory since it booted."""
    try:
        text = Path("/proc/vmstat").read_text()
    except OSError:
        return 0
    return next((int(line.split()[1]) for line in text.splitlines() if line.startswith("oom_kill ")), 0)
