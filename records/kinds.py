"""The purpose of a run, the source of its numbers, and the kind of an environment."""

from enum import StrEnum


class RunKind(StrEnum):
    """The purpose of a run.

    UPGRADE, CONFIRMATION and BISECTION measure two environments in turns: to decide on an upgrade, to confirm
    findings, and as a step of a bisection. A TRACE has operator tables and no measurements.
    """

    RUN = "run"
    UPGRADE = "upgrade"
    CONFIRMATION = "confirmation"
    BISECTION = "bisection"
    TRACE = "trace"


class RunState(StrEnum):
    """The state of a run. INTERRUPTED: it ended before every planned replicate had an outcome."""

    RUNNING = "running"
    COMPLETE = "complete"
    INTERRUPTED = "interrupted"


class RunSource(StrEnum):
    """The source of a run: measured by Pyrometer, imported from the file of another tool, or submitted by a
    script.
    """

    MEASURED = "measured"
    IMPORTED = "imported"
    SUBMITTED = "submitted"


class RunCategory(StrEnum):
    """The categories of a list of runs; each run is in one.

    NIGHTLY: measured by the task of a schedule. MANUAL: started by a person, for no other purpose. The others
    are a `RunKind` or a `RunSource` of the same name.
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
    """The kind of an environment.

    MEASURED: one with a PyTorch that Pyrometer measured. CANARY: the interpreter of the canary, without
    PyTorch. FOREIGN: the environment that a run of another tool describes; its PyTorch may be unknown.
    """

    MEASURED = "measured"
    CANARY = "canary"
    FOREIGN = "foreign"
