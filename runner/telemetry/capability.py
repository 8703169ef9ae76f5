"""What can be measured here, as values: each capability is present, or absent with a reason."""

from collections.abc import Mapping
from dataclasses import asdict, dataclass
from typing import Any, Literal, cast

#: Where SM utilisation or GPU busy time comes from, best first. `gpm`: hardware counters, true SM
#: utilisation; `dcgm`: the same through a DCGM host engine, in recordings up to 0.1.0.
#: `samples` and `polling`: the share of time in
#: which at least one kernel ran, from the driver's buffer or asked for again and again. Numbers of two
#: rungs are never joined in one line.
UtilisationSource = Literal["gpm", "dcgm", "samples", "polling", "none"]


@dataclass(frozen=True, slots=True)
class Capability:
    """One thing to be measured. `detail` says how it is read, or why it cannot be."""

    name: str
    present: bool
    detail: str = ""


@dataclass(frozen=True, slots=True)
class GpuCapabilities:
    """One GPU (or MIG device) as NVML knows it. `uuid` is what PyTorch's devices are matched by."""

    index: int
    uuid: str
    name: str
    rung: UtilisationSource
    capabilities: tuple[Capability, ...]
    mig_of: str = ""


@dataclass(frozen=True, slots=True)
class Probe:
    """What NVML answered on this machine. `absent` says why there is nothing, and is empty otherwise."""

    driver: str = ""
    cuda: str = ""
    gpus: tuple[GpuCapabilities, ...] = ()
    absent: str = ""

    def to_body(self) -> dict[str, Any]:
        """As plain JSON values."""
        return asdict(self)

    @staticmethod
    def from_body(body: Mapping[str, Any]) -> "Probe":
        """The inverse of `to_body`; raises TypeError or KeyError for anything else."""
        gpus = [_gpu(gpu) for gpu in cast("list[Mapping[str, Any]]", body["gpus"])]
        return Probe(body["driver"], body["cuda"], tuple(gpus), body["absent"])


def _gpu(body: Mapping[str, Any]) -> GpuCapabilities:
    values: dict[str, Any] = dict(body)
    values["capabilities"] = tuple(Capability(**each) for each in body["capabilities"])
    return GpuCapabilities(**values)
