"""The interpreters that are measured, each with one build of PyTorch."""

from collections.abc import Sequence
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any, cast

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


def packages_in(facts: Facts) -> tuple[str, ...]:
    """The packages among the facts of an environment; empty if the file holds another type under that key."""
    found = facts.get("packages")
    return tuple(map(str, cast("Sequence[object]", found))) if isinstance(found, list | tuple) else ()


@dataclass(frozen=True, slots=True)
class EnvironmentUsed:
    """An environment and the newest run that used it; `runs` counts its runs among those examined."""

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
