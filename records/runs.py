"""Runs: one execution of a suite on one machine, and what lists of them show."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any

from .environments import Environment, NamedEnvironment
from .json_values import Facts
from .kinds import RunKind, RunSource, RunState
from .machines import Machine


@dataclass(frozen=True, slots=True)
class RunPreset:
    """A measurement preset: the settings under which the worker ran."""

    fingerprint: str
    name: str
    settings: Facts = field(default_factory=dict[str, Any])


@dataclass(frozen=True, slots=True)
class Run:
    """One execution of a suite on one machine. Times are UTC.

    `source_format` names the format of an imported run, and is empty for any other.
    """

    id: str
    suite: str
    started_at: datetime
    ended_at: datetime | None
    state: RunState
    machine: Machine
    environments: tuple[Environment, ...]
    preset: RunPreset
    harness: str
    planned: int
    command: str
    notes: tuple[str, ...] = ()
    facts: Facts = field(default_factory=dict[str, Any])
    kind: RunKind = RunKind.RUN
    source: RunSource = RunSource.MEASURED
    source_format: str = ""


@dataclass(frozen=True, slots=True)
class RunSummary:
    """One row of a list of runs. `counts` maps status to number of outcomes."""

    id: str
    suite: str
    started_at: datetime
    ended_at: datetime | None
    state: RunState
    machine: str
    hardware: str
    torch_versions: tuple[str, ...]
    preset: str
    planned: int
    counts: Mapping[str, int]
    kind: RunKind = RunKind.RUN
    source: RunSource = RunSource.MEASURED
    source_format: str = ""


@dataclass(frozen=True, slots=True)
class ForeignRuns:
    """How many runs came from one source that is not Pyrometer, in one format."""

    source: RunSource
    source_format: str
    runs: int


@dataclass(frozen=True, slots=True)
class RunsOnly:
    """Which runs a list holds: of a suite, of machines of a name, in a state; empty leaves nothing out."""

    suite: str = ""
    machine: str = ""
    state: str = ""


@dataclass(frozen=True, slots=True)
class RunChange:
    """One thing that differs between two runs; `before` and `after` are for people, empty for nothing.

    `kind`: machine (what is, and what runs on it: driver, kernel, governor), hardware, harness, preset,
    environment (versions of packages and of what they bring). `name` is what of it.
    """

    kind: str
    name: str
    before: str
    after: str


@dataclass(frozen=True, slots=True)
class UpgradeRun:
    """A run of two environments in turns as in a list; `hardware` is a fingerprint, `facts` are its own.

    `environments` stand in the order in which they were given; the canary's is not among them.
    """

    id: str
    suite: str
    started_at: datetime
    state: RunState
    machine: str
    hardware: str
    hardware_label: str
    preset: str
    environments: tuple[NamedEnvironment, ...]
    facts: Facts
    kind: RunKind = RunKind.UPGRADE
    source: RunSource = RunSource.MEASURED
