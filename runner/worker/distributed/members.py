"""The member processes of a gang as their leader holds them, wherever they are: let in, spoken to, buried."""

import contextlib
import select
import time
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from ..prepared_case import Unsupported
from .cpu_partition import Share
from .local_channel import Line, Listener
from .local_node import GRACE_SECONDS, MemberFailed, Node, Order, OwnNode
from .remote_agent import LEAVE_SECONDS
from .remote_node import LentNode, Neighbour
from .tcp_channel import Door, interface_to, listen

#: The axes that take several processes, or make sense for several only.
GANG_AXES = ("instances", "parallel", "ranks", "nodes", "scaling", "launcher", "hook", "bucket", "ddp")
_LOOK_SECONDS = 0.2
#: How far ahead of now a common start lies: time for the order to reach everyone.
_AHEAD_NS = 10_000_000


@dataclass(frozen=True, slots=True)
class Muster:
    """Who makes up a crew: `count` members called `word` (rank, instance), as many on each machine.

    `each` and `threads` are as in `Order`; with `torchrun` torch.distributed.run starts them. `case` is for
    the neighbours, each of which starts what it takes for that.
    """

    word: str
    count: int
    each: int | None
    threads: int | None
    torchrun: bool
    case: str = ""
    neighbours: tuple[Neighbour, ...] = ()


class Crew:
    """Live members, numbered from 0: first those of this machine, then those of each neighbour."""

    def __init__(self, muster: Muster) -> None:
        self.word = muster.word
        self.pids: list[int] = [0] * muster.count
        #: By which address of ours, and by which interface, the others are reached.
        self.host, self.interface = "127.0.0.1", "lo"
        self.nodes: list[Node] = []
        #: The neighbours among them.
        self.lent: list[LentNode] = []
        self._lines: list[Line] = []
        self._listener = Listener()
        self._doors: list[Listener | Door] = [self._listener]
        try:
            self._start(muster)
            self._lines = self._let_in()
        except BaseException:
            self._kill()
            raise
        finally:
            for door in self._doors:
                door.close()

    @property
    def shares(self) -> tuple[Share, ...]:
        """Each member's CPUs, by its machine's numbers."""
        return tuple(share for node in self.nodes for share in node.shares)

    @property
    def pinned_by(self) -> str:
        """What keeps members to their CPUs, on every machine."""
        return "numactl" if all(node.pinned_by == "numactl" for node in self.nodes) else "affinity"

    @property
    def own(self) -> range:
        """The numbers of the members on this machine."""
        return self.nodes[0].order.numbers

    def node_of(self, number: int) -> Node:
        """Where a member is."""
        return next(node for node in self.nodes if number in node.order.numbers)

    def soon(self) -> int:
        """A moment of our monotonic clock by which an order given now has reached everyone."""
        for node in self.nodes:
            node.look_at_clock()
        # There and back took twice the doubt about a clock.
        trip = max(node.clock.error_ns for node in self.nodes) * 2
        return time.monotonic_ns() + _AHEAD_NS + trip

    def order(self, do: str, **details: Any) -> None:
        """Tell every member to do something; raises MemberFailed for one that is gone.

        `start_ns` is a moment of our clock: each is told it in its own.
        """
        for number in range(len(self._lines)):
            self.order_one(number, do, **details)

    def order_one(self, number: int, do: str, **details: Any) -> None:
        """Tell one member."""
        if "start_ns" in details:
            details["start_ns"] = self.node_of(number).clock.theirs(details["start_ns"])
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
        give_up = time.monotonic() + LEAVE_SECONDS
        for node in self.nodes:
            node.wait(give_up)
        self._kill()

    # -- starting -------------------------------------------------------------------------

    def _start(self, muster: Muster) -> None:
        nodes = len(muster.neighbours) + 1
        count = muster.count // nodes
        plain = Order(muster.word, 0, count, muster.each, muster.threads, "", muster.torchrun, nodes=nodes)
        own = replace(plain, leader=self._listener.name)
        if muster.neighbours:
            own = replace(own, **self._reach(muster.neighbours))
            door = Door(self.host)
            self._doors.append(door)
            for number, node in enumerate(self.lent, 1):
                door.keys[str(number)] = node.key
                order = replace(own, first=number * count, leader=f"{self.host}:{door.port}", node=number)
                node.start(replace(order, where=node.name), muster.case, door.port)
        self.nodes = [OwnNode(own), *self.lent]

    def _reach(self, neighbours: Sequence[Neighbour]) -> dict[str, Any]:
        """Call the lenders; answers where all of them find this machine, for the orders."""
        for neighbour in neighbours:
            self.lent.append(LentNode(neighbour))
        ours = sorted({node.ends[0] for node in self.lent})
        if len(ours) > 1:
            raise Unsupported(f"the neighbours are reached from {' and '.join(ours)}: ranks speak from one")
        self.host, self.interface = ours[0], interface_to(self.lent[0].ends[1])
        with listen((self.host, 0)) as free:
            return {"host": self.host, "port": free.getsockname()[1], "interface": self.interface}

    def _let_in(self) -> list[Line]:
        lines: dict[int, Line] = {}
        while len(lines) < len(self.pids):
            callers, _, _ = select.select(self._doors, [], [], _LOOK_SECONDS)
            for door in callers:
                self._greet(door, lines)
            if not callers:
                for node in self.nodes:
                    if trouble := node.missing(lines):
                        raise trouble
        return [lines[number] for number in range(len(self.pids))]

    def _greet(self, door: Listener | Door, lines: dict[int, Line]) -> None:
        """Let in who calls: a mate, or a member that has not come yet."""
        if isinstance(door, Listener):
            node, line = self.nodes[0], door.accept()
        else:
            call = door.accept()
            node, line = (self.nodes[int(call.name)], call.line) if call else (self.nodes[0], None)
        hello = None if line is None else line.hear()
        if line is None or hello is None:
            return
        if "mate" in hello and isinstance(node, LentNode):
            node.meet(line)
            return
        number = hello["rank"]
        if number not in node.order.numbers or number in lines:
            line.close()
            return
        self.pids[number] = hello["pid"]
        with contextlib.suppress(OSError):
            line.say({"cpus": list(self.shares[number])})
        lines[number] = line

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
            raise self.node_of(number).death(number)
        for node in self.nodes:
            waited_for = [number for number in numbers if number in node.order.numbers]
            if waited_for and node.gave_up() and not self._speaking(waited_for):
                sentence = f"torchrun{node.order.at} ended before every rank was done"
                raise MemberFailed("crashed", f"{sentence}; its report is in the log")

    def _silenced(self, numbers: Collection[int]) -> list[int]:
        """Members that have ended, with nothing left to hear from them."""
        # In this order: what a member says, it says before it ends.
        ended = [number for number in numbers if self.node_of(number).ended(number)]
        return [number for number in ended if not self._speaking([number])]

    def _speaking(self, numbers: Collection[int]) -> bool:
        return any(self._lines[number].waiting() for number in numbers)

    def _trouble(self, number: int, heard: Mapping[str, Any] | None) -> MemberFailed:
        """The cause, once one member has failed: a dead member before what others make of its death."""
        troubles = {number: heard}
        others = {self._lines[n].fileno(): n for n in range(len(self._lines)) if n != number}
        give_up = time.monotonic() + GRACE_SECONDS
        while heard is not None and others and (left := give_up - time.monotonic()) > 0:
            ready, _, _ = select.select(list(others), [], [], left)
            for descriptor in ready:
                other = others.pop(descriptor)
                said = self._lines[other].hear()
                if said is None or "failed" in said:
                    troubles[other] = said
        troubles |= dict.fromkeys(self._silenced(others.values()))
        if dead := [n for n, said in troubles.items() if said is None]:
            return self.node_of(dead[0]).death(dead[0])
        failed: dict[str, str] = dict((heard or {})["failed"])
        reason = failed["reason"]
        if failed["status"] != "unsupported":
            reason = f"{self.node_of(number).order.called(number)}: {reason}"
        return MemberFailed(failed["status"], reason, failed["traceback"])

    def _kill(self) -> None:
        for node in self.nodes or self.lent:
            node.kill()
        for line in self._lines:
            line.close()
