"""What communication costs a data parallel step: the part that is not hidden, and the links' bandwidth."""

from statistics import median
from typing import TYPE_CHECKING, Any

from ..case_key import CaseKey

if TYPE_CHECKING:
    from .leader import RankGroup

MIB = 2**20
#: Sizes of the table of bus bandwidths, in MiB.
_TABLE = (1, 4, 16, 64)
#: How often a collective moves each byte over a link, but for the share (n-1)/n.
_PASSES = {"all_reduce": 2, "all_gather": 1, "reduce_scatter": 1}


def measure(group: "RankGroup", key: CaseKey) -> tuple[dict[str, float], dict[str, Any]]:
    """Metrics by the catalogue's names, and facts.

    They are of blocks of steps with and without communication, taken A B B A, and of collectives.
    Exposed communication is the step less the same under `no_sync()`; skew compares the ranks' steps under
    it. Neither is clamped: noise can make them negative. Under torch.compile, ZeRO-1 and FSDP2 only
    bandwidths are measured: `no_sync()` would be other code, compiled anew, or not without communication.
    All-reduces as large as all gradients are left out under FSDP2, whose ranks may lack the memory.
    """
    metrics: dict[str, float] = {}
    facts: dict[str, Any] = {}
    # The sharded optimizer of ZeRO-1 sends the weights round, also under no_sync().
    if key.axis("compile") == "none" and key.axis("parallel") == "ddp":
        metrics |= _measure_exposure(group)
    if group.ranks == 1:
        return metrics, facts
    if key.axis("parallel") != "fsdp2":
        own = group.gradient_bytes()
        facts["gradient_mib"] = own / MIB
        if found := _bandwidths(group, "all_reduce", [own]):
            metrics["bus_bandwidth"] = found[0]
        if table := _table(group, "all_reduce"):
            facts["bus_bandwidth_gb_per_second"] = table
    for kind in ("all_gather", "reduce_scatter"):
        if table := _table(group, kind):
            metrics[f"{kind}_bandwidth"] = table[str(_TABLE[-1])]
            facts[f"{kind}_gb_per_second"] = table
    return metrics, facts


def bus_bandwidth(size: int, seconds: float, ranks: int, kind: str = "all_reduce") -> float:
    """GB/s (10^9) on each link for a collective of `size` bytes: S/t x (n-1)/n, of an all-reduce twice that.

    Source: nccl-tests, doc/PERFORMANCE.md, "Bus bandwidth": AllReduce, AllGather, ReduceScatter, whose size
    is that of all ranks' parts together.
    """
    return size / seconds * _PASSES[kind] * (ranks - 1) / ranks / 1e9


def _bandwidths(group: "RankGroup", kind: str, sizes: list[int]) -> list[float]:
    """The bus bandwidth for each size in bytes; empty where there is no collective of this kind."""
    taken = group.collective(kind, sizes)
    return [
        bus_bandwidth(size, seconds, group.ranks, kind)
        for size, seconds in zip(sizes, taken, strict=bool(taken))
    ]


def _table(group: "RankGroup", kind: str) -> dict[str, float]:
    """The bus bandwidth by size in MiB."""
    found = _bandwidths(group, kind, [mib * MIB for mib in _TABLE])
    return dict(zip(map(str, _TABLE), found, strict=bool(found)))


def _measure_exposure(group: "RankGroup") -> dict[str, float]:
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
