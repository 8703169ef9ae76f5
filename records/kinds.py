"""What a run was made for, where its numbers come from, and what an environment holds."""

from enum import StrEnum


class RunKind(StrEnum):
    """What a run was made for.

    UPGRADE, CONFIRMATION and BISECTION measure two environments in turns: for a decision, for findings of
    detection, and as a step of a bisection. A TRACE has operator tables and no measurements.
    """

    RUN = "run"
    UPGRADE = "upgrade"
    CONFIRMATION = "confirmation"
    BISECTION = "bisection"
    TRACE = "trace"


class RunState(StrEnum):
    """How far a run is. INTERRUPTED: it ended before every planned replicate had an outcome."""

    RUNNING = "running"
    COMPLETE = "complete"
    INTERRUPTED = "interrupted"


class RunSource(StrEnum):
    """Who measured a run: Pyrometer, another tool whose file was imported, or a script that submitted it."""

    MEASURED = "measured"
    IMPORTED = "imported"
    SUBMITTED = "submitted"


class RunCategory(StrEnum):
    """What a list of runs is divided by: each run is in one category.

    NIGHTLY: a schedule's task measured it. MANUAL: a person did, for no other purpose. The others are a
    `RunKind` or a `RunSource` of that name.
    """

    NIGHTLY = "nightly"
    MANUAL = "manual"
    UPGRADE = "upgrade"
    CONFIRMATION = "confirmation"
    BISECTION = "bisection"
    TRACE = "trace"
    IMPORTED = "imported"
    SUBMITTED = "submitted"


class EnvironmentKind(StrEnum):
    """What an environment holds.

    MEASURED: a PyTorch that Pyrometer measured. CANARY: the interpreter of the canary, without PyTorch.
    FOREIGN: what a run of another tool says of its own; its PyTorch may be unknown.
    """

    MEASURED = "measured"
    CANARY = "canary"
    FOREIGN = "foreign"
