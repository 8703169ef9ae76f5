"""What communication costs a data parallel step: the part that is not hidden, and the links' bandwidth."""

from dataclasses import dataclass
from statistics import median
from typing import Any, Protocol

from ..case_key import CaseKey

MIB = 2**20
#: Sizes of the table of bus bandwidths, in MiB.
_TABLE = (1, 4, 16, 64)


class Ranks(Protocol):
    """Who is measured: the leader of the ranks."""

    @property
    def ranks(self) -> int:
        """World size."""
        ...

    def common_steps(self) -> list[int]:
        """Nanoseconds of steps as they are, the slowest rank's each."""
        ...

    def local_steps(self) -> list[list[int]]:
        """Nanoseconds of steps without communication, of every rank."""
        ...

    def all_reduce(self, sizes: list[int]) -> list[float]:
        """Seconds of an all-reduce of each size in bytes."""
        ...

    def gradient_bytes(self) -> int:
        """The size of all gradients."""
        ...


@dataclass(frozen=True, slots=True)
class CommunicationCost:
    """Metrics by the catalogue's names, and facts."""

    metrics: dict[str, float]
    facts: dict[str, Any]


def measure(group: Ranks, key: CaseKey) -> CommunicationCost:
    """Blocks of steps with and without communication, taken A B B A, and all-reduces of several sizes.

    Exposed communication is the step less the same under `no_sync()`; skew compares the ranks' steps under
    it. Neither is clamped: noise can make them negative. Under torch.compile and ZeRO-1 only the bandwidth is
    measured: `no_sync()` would be other code, compiled anew, or not without communication.
    """
    metrics: dict[str, float] = {}
    facts: dict[str, Any] = {}
    # The sharded optimizer of ZeRO-1 sends the weights round, also under no_sync().
    if key.axis("compile") == "none" and key.axis("parallel") == "ddp":
        metrics |= _exposed(group)
    if group.ranks > 1:
        own = group.gradient_bytes()
        sizes = [own, *(mib * MIB for mib in _TABLE)]
        bandwidths = [
            bus_bandwidth(size, seconds, group.ranks)
            for size, seconds in zip(sizes, group.all_reduce(sizes), strict=True)
        ]
        metrics["bus_bandwidth"] = bandwidths[0]
        facts["bus_bandwidth_gb_per_second"] = dict(zip(map(str, _TABLE), bandwidths[1:], strict=True))
        facts["gradient_mib"] = own / MIB
    return CommunicationCost(metrics, facts)


def bus_bandwidth(size: int, seconds: float, ranks: int) -> float:
    """GB/s (10^9) on each link for an all-reduce of `size` bytes: S/t x 2(n-1)/n.

    Source: nccl-tests, doc/PERFORMANCE.md, "Bus bandwidth", AllReduce.
    """
    return size / seconds * 2 * (ranks - 1) / ranks / 1e9


def _exposed(group: Ranks) -> dict[str, float]:
    common = group.common_steps()
    local = group.local_steps()
    for own, more in zip(local, group.local_steps(), strict=True):
        own += more
    common += group.common_steps()
    step = median(common)
    of_ranks = [median(own) for own in local]
    exposed = step - max(of_ranks)
    found = {"exposed_communication": exposed / 1e6, "exposed_share": exposed / step}
    if group.ranks > 1:
        found["rank_skew"] = (max(of_ranks) - min(of_ranks)) / max(of_ranks)
    return found
