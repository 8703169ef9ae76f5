"""Two machines' CLOCK_MONOTONIC: how far they are apart, and how well that is known."""

from collections.abc import Iterable
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Offset:
    """Their clock less ours, in nanoseconds; the truth lies within `error_ns` of it."""

    ns: int
    error_ns: int

    def theirs(self, ours_ns: int) -> int:
        """A moment of our clock in theirs."""
        return ours_ns + self.ns

    def ours(self, theirs_ns: int) -> int:
        """A moment of their clock in ours."""
        return theirs_ns - self.ns


#: Of two processes on one machine.
SAME = Offset(0, 0)


def offset(pings: Iterable[tuple[int, int, int]]) -> Offset:
    """The offset from pings: when we asked, what their clock said, when we heard it.

    They looked at their clock somewhere between the other two. In the middle, as far as anybody can tell; the
    shortest round trip leaves the least doubt, half of it on either side.
    """
    asked, theirs, heard = min(pings, key=lambda ping: ping[2] - ping[0])
    return Offset(theirs - (asked + heard) // 2, (heard - asked + 1) // 2)
