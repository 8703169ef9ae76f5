"""The hosts that measure, and the hardware that makes them comparable."""

from dataclasses import dataclass, field
from typing import Any

from .json_values import Facts


@dataclass(frozen=True, slots=True)
class Hardware:
    """The properties that make machines comparable. `label` is the displayed name: "Xeon 6430, 2 cores"."""

    fingerprint: str
    label: str
    facts: Facts = field(default_factory=dict[str, Any])


@dataclass(frozen=True, slots=True)
class Machine:
    """One host."""

    fingerprint: str
    name: str
    hardware: Hardware
    facts: Facts = field(default_factory=dict[str, Any])
