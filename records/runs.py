"""Runs, that is executions of a suite on one machine, and the rows of their lists."""

import hashlib
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field, replace
from datetime import datetime
from typing import Any

from .environments import Environment, NamedEnvironment
from .json_values import LONGEST_SENTENCE, LONGEST_TEXT, WHERE_WHOLE, Facts, bounded_facts, bounded_text
from .kinds import RunKind, RunSource, RunState
from .machines import Machine


@dataclass(frozen=True, slots=True)
class RunPreset:
    """A measurement preset: the settings under which the worker ran."""

    fingerprint: str
    name: str
    settings: Facts = field(default_factory=dict[str, Any])


#: The fact of a run that holds its step script (see `StepScript.to_body`).
STEP = "step"


@dataclass(frozen=True, slots=True)
class StepScript:
    """A team's own script, a function of which is measured as the only case of a comparison.

    `file` is the name of the file without its folder, `function` the one that does a step, `text` the whole
    script.
    """

    file: str
    function: str
    text: str

    @property
    def name(self) -> str:
        """Its form for `--step`, relative to the folder of the file: `repro.py:lookup`."""
        return f"{self.file}:{self.function}"

    @property
    def digest(self) -> str:
        """The first 12 hexadecimal digits of the SHA-256 of the script."""
        return hashlib.sha256(self.text.encode()).hexdigest()[:12]

    def to_body(self) -> dict[str, str]:
        """As plain JSON values."""
        return asdict(self)

    @staticmethod
    def from_body(body: Mapping[str, Any]) -> "StepScript":
        """The inverse of `to_body`; raises KeyError for anything else."""
        return StepScript(str(body["file"]), str(body["function"]), str(body["text"]))


def step_in(facts: Facts) -> StepScript | None:
    """The step script of a run, by its facts; None for a run without one."""
    body = facts.get(STEP)
    return StepScript.from_body(body) if body else None


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

    def shorten_texts(self, where: str = WHERE_WHOLE) -> "Run":
        """The run with its texts shortened for pages; a shortened text says `where` the whole text is.

        The text of a step script stays whole: it is needed to measure again.
        """
        facts = bounded_facts(self.facts, where)
        return replace(
            self,
            suite=bounded_text(self.suite, LONGEST_SENTENCE, where),
            command=bounded_text(self.command, LONGEST_TEXT, where),
            notes=tuple(bounded_text(note, LONGEST_SENTENCE, where) for note in self.notes),
            facts=facts | {name: self.facts[name] for name in (STEP,) if name in facts},
        )


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
    """The number of runs from one source other than Pyrometer, in one format."""

    source: RunSource
    source_format: str
    runs: int


@dataclass(frozen=True, slots=True)
class RunsOnly:
    """The filter of a list of runs: suite, machine name, state, `RunCategory`.

    `text`: each of its words must occur in the id, suite, machine, hardware or a PyTorch version, ignoring
    case. An empty field does not filter.
    """

    suite: str = ""
    machine: str = ""
    state: str = ""
    category: str = ""
    text: str = ""


#: Kinds of change that are not in PyTorch: the first night after one starts a new segment of a series.
NOT_PYTORCHS = ("machine", "hardware", "harness", "preset")


@dataclass(frozen=True, slots=True)
class RunChange:
    """One difference between two runs; `before` and `after` are for display, empty for an absent value.

    `kind`: machine (driver, kernel, governor), hardware, harness, preset, environment (versions of packages
    and of the libraries in them). `name` is the property that differs.
    """

    kind: str
    name: str
    before: str
    after: str


@dataclass(frozen=True, slots=True)
class UpgradeRun:
    """The row of a run of two environments in turns; `hardware` is a fingerprint, `facts` are those of the
    run.

    `environments` are in the order of the command line, without that of the canary.
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
