"""The members on a neighbour, as their leader holds them: by a line to the lender, and one to the mate there.

The lender (`pyrometer lend`) starts the mate under a supervisor and tells how it ended; the mate starts the
members (see gang_mate.py). When either line is gone, so is the neighbour.
"""

import contextlib
import sys
import time
from collections.abc import Collection
from dataclasses import asdict, dataclass
from typing import Any

from ..prepared_case import Unsupported
from .clock import SAME, offset
from .cpu_partition import Share
from .local_channel import Line
from .local_node import GRACE_SECONDS, MemberFailed, Order
from .remote_agent import LEAVE_SECONDS
from .tcp_channel import WireError, call, host_and_port

#: The first look at the other clock may take a while; later ones only follow its drift.
_FIRST_PINGS, _PINGS = 20, 5
#: A clock that the network's time moves by 50 us a second, which is much, is 50 us off after so long.
_FRESH_NS = 1_000_000_000
#: How long an idle mate may take to answer, and the lender to tell what it heard last.
_ANSWER_SECONDS = 3.0


@dataclass(frozen=True, slots=True)
class Neighbour:
    """A machine that is lent to this run: where, called what, by which loan and key, and what hardware."""

    address: str
    name: str
    loan: str
    key: str
    hardware: str
    hardware_label: str

    @property
    def facts(self) -> dict[str, str]:
        """What may be known of it."""
        return {name: value for name, value in asdict(self).items() if name not in ("loan", "key")}


class LentNode:
    """Members on a neighbour; raises MemberFailed where its lender is not to be reached any more."""

    def __init__(self, neighbour: Neighbour) -> None:
        try:
            called = call(host_and_port(neighbour.address), neighbour.loan, bytes.fromhex(neighbour.key))
        except WireError as error:
            raise MemberFailed("lost", f"neighbour {neighbour.name}: {error}") from error
        self.name = neighbour.name
        #: By which whatever it starts proves itself to us.
        self.key = called.key
        #: The addresses of the line to it: ours, its own.
        self.ends = called.line.ends
        self.shares: tuple[Share, ...] = ()
        self.pinned_by = "affinity"
        self.interface = ""
        self.clock = SAME
        self.worst_error_ns = 0
        self.order = Order("rank", 0, 0, None, None, "", torchrun=False, where=neighbour.name)
        self._neighbour = neighbour
        self._lender = called.line
        self._mate: Line | None = None
        self._looked_ns = 0
        self._ends: dict[int | None, MemberFailed] = {}
        self._report: dict[str, Any] | None = None

    def start(self, order: Order, case: str, port: int) -> None:
        """Have the mate started, which will call `port` of ours; raises Unsupported for what is refused."""
        self.order = order
        try:
            self._lender.say({"start": {"case": case, "node": order.node, "port": port}})
            heard = self._lender.hear()
        except OSError:
            heard = None
        if heard is None:
            raise self._lost()
        if refused := heard.get("refused"):
            raise Unsupported(f"neighbour {order.where}: {refused}")

    @property
    def facts(self) -> dict[str, Any]:
        """Which machine it is, how it is reached, and how well its clock is known."""
        known = {"pinned_by": self.pinned_by, "interface": self.interface}
        clock = {"clock_offset_ns": self.clock.ns, "clock_error_ns": self.worst_error_ns}
        return {**self._neighbour.facts, **known, **clock}

    def meet(self, mate: Line) -> None:
        """The mate has come: give it the order, and look at its clock."""
        self._mate = mate
        with contextlib.suppress(OSError):
            mate.say({"order": asdict(self.order)})
        heard = mate.hear()
        if heard is None:
            raise self._lost()
        if failed := heard.get("failed"):
            raise MemberFailed(failed["status"], failed["reason"])
        started = heard["started"]
        self.shares = tuple(tuple(share) for share in started["shares"])
        self.pinned_by, self.interface = started["pinned_by"], started["interface"]
        self._ask_the_time(_FIRST_PINGS)

    def look_at_clock(self) -> None:
        """Ask the mate for the time, unless that was less than a second ago."""
        if time.monotonic_ns() - self._looked_ns > _FRESH_NS:
            self._ask_the_time(_PINGS)

    def ended(self, number: int) -> bool:
        """Whether a member has ended, or the whole neighbour."""
        self._catch_up(0.0)
        return number in self._ends or self._gone

    def gave_up(self) -> bool:
        """Whether torchrun has ended there."""
        self._catch_up(0.0)
        return None in self._ends

    def death(self, number: int) -> MemberFailed:
        """How a member ended, as the mate learned it; of one whose machine is gone, that."""
        give_up = time.monotonic() + GRACE_SECONDS
        while number not in self._ends and not self._gone and (left := give_up - time.monotonic()) > 0:
            self._catch_up(left)
        who = self.order.called(number)
        if number in self._ends:
            return self._ends[number]
        if self._gone or not self._answers():
            return self._lost(who)
        if self.order.torchrun:
            return MemberFailed("crashed", f"{who} died under torchrun, whose report is in the log")
        return MemberFailed("crashed", f"{who} closed its line to the leader")

    def missing(self, come: Collection[int]) -> MemberFailed | None:
        """Why those who have not `come` yet never will."""
        if self._mate is None:
            return self._lost() if self._lender.waiting() else None
        self._catch_up(0.0)
        if None in self._ends:
            sentence = f"torchrun on {self.order.where} ended before every rank had come"
            return MemberFailed("crashed", sentence)
        gone = [number for number in self.order.numbers if number not in come and self.ended(number)]
        return self.death(gone[0]) if gone else None

    def wait(self, give_up: float) -> None:
        """Have the mate leave with all of them, and wait for the supervisor's word that nobody is left."""
        if self._mate is not None:
            with contextlib.suppress(OSError):
                self._mate.say({"leave": True})
        self._await_report(give_up + LEAVE_SECONDS)

    def kill(self) -> None:
        """Have the lender end what is left there, and put into our log what it printed."""
        with contextlib.suppress(OSError):
            self._lender.say({"end": True})
        self._await_report(time.monotonic() + _ANSWER_SECONDS)
        if self._report and self._report.get("log"):
            sys.stderr.write(f"-- printed on {self.order.where}:\n{self._report['log']}\n")
        for line in (self._lender, self._mate):
            if line is not None:
                line.close()

    # -- hearing --------------------------------------------------------------------------

    @property
    def _gone(self) -> bool:
        return self._mate is None or self._mate.closed

    def _catch_up(self, seconds: float) -> None:
        """Hear what the mate has said; waits up to `seconds` for its next word."""
        while not self._gone and self._mate is not None and self._mate.waiting(seconds):
            self._take(self._mate.hear())
            seconds = 0.0

    def _take(self, heard: dict[str, Any] | None) -> None:
        if heard is not None and "ended" in heard:
            self._ends[heard["ended"]] = MemberFailed(heard["status"], heard["reason"])

    def _answers(self) -> bool:
        try:
            return bool(self._ping())
        except MemberFailed:
            return False

    def _ask_the_time(self, times: int) -> None:
        self.clock = offset([self._ping() for _ in range(times)])
        self._looked_ns = time.monotonic_ns()
        self.worst_error_ns = max(self.worst_error_ns, self.clock.error_ns)

    def _ping(self) -> tuple[int, int, int]:
        """When we asked, what its clock said, when we heard it; raises MemberFailed."""
        mate = self._mate
        asked = time.monotonic_ns()
        with contextlib.suppress(OSError):
            if mate is not None:
                mate.say({"ping": True})
        while mate is not None and mate.waiting(_ANSWER_SECONDS):
            heard = mate.hear()
            now = time.monotonic_ns()
            if heard is None:
                break
            if "pong" in heard:
                return asked, heard["pong"], now
            self._take(heard)
        raise self._lost()

    def _await_report(self, give_up: float) -> None:
        while self._report is None and not self._lender.closed:
            if not self._lender.waiting(give_up - time.monotonic()):
                return
            heard = self._lender.hear()
            self._report = None if heard is None else heard.get("ended")

    def _lost(self, who: str = "") -> MemberFailed:
        """Why there is nobody there any more."""
        subject = who or f"neighbour {self.order.where}"
        self._await_report(time.monotonic() + GRACE_SECONDS)
        if self._report is not None:
            return MemberFailed(self._report["status"], f"{subject}: {self._report['reason']}")
        lines = [line for line in (self._mate, self._lender) if line is not None]
        if broken := next((line.broken for line in lines if line.broken), ""):
            return MemberFailed("lost", f"{subject}: the connection was lost ({broken})")
        if self._lender.closed:
            return MemberFailed("lost", f"{subject}: {self.order.where} lends itself no longer")
        return MemberFailed("lost", f"{subject}: the connection was lost (no answer)")
