"""The interpreters that are measured, each with one build of PyTorch."""

from dataclasses import dataclass, field
from datetime import datetime
from typing import Any

from .json_values import Facts
from .kinds import EnvironmentKind


@dataclass(frozen=True, slots=True)
class Environment:
    """One interpreter with one PyTorch build; `torch_version` is empty where it has none or it is unknown."""

    fingerprint: str
    name: str
    torch_version: str
    python_version: str
    facts: Facts = field(default_factory=dict[str, Any])
    kind: EnvironmentKind = EnvironmentKind.MEASURED


@dataclass(frozen=True, slots=True)
class EnvironmentUsed:
    """An environment and the newest run that used it; `runs` counts those among the runs looked at."""

    fingerprint: str
    name: str
    torch_version: str
    python_version: str
    runs: int
    run: str
    started_at: datetime
    machine: str


@dataclass(frozen=True, slots=True)
class NamedEnvironment:
    """One environment of a run, without its facts."""

    fingerprint: str
    name: str
    torch_version: str
