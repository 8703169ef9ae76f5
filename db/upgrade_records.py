"""What others see of upgrades that were measured: one record per run."""

from dataclasses import dataclass
from datetime import datetime

from .records import Facts


@dataclass(frozen=True, slots=True)
class NamedEnvironment:
    """One environment of a run, without its facts."""

    fingerprint: str
    name: str
    torch_version: str


@dataclass(frozen=True, slots=True)
class UpgradeRun:
    """A run of `pyrometer upgrade` as in a list. `hardware` is a fingerprint, `facts` are the run's own.

    `environments` stand in the order in which they were given; the canary's is not among them.
    """

    id: str
    suite: str
    started_at: datetime
    state: str
    machine: str
    hardware: str
    hardware_label: str
    profile: str
    environments: tuple[NamedEnvironment, ...]
    facts: Facts
