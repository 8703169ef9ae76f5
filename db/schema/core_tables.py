"""The tables of machines, runs, outcomes and measurements, with their constraints."""

from datetime import datetime

from sqlalchemy import (
    CheckConstraint,
    ForeignKey,
    ForeignKeyConstraint,
    Index,
    LargeBinary,
    UniqueConstraint,
)
from sqlalchemy.orm import Mapped, mapped_column

from records.kinds import EnvironmentKind, RunKind, RunSource, RunState
from records.outcomes import OutcomeStatus

# Imported so that the metadata of the base contains all tables, for code that creates, checks or grants them.
from . import finding_tables as finding_tables
from . import queue_tables as queue_tables
from .types import Base, Facts, one_of
from .types import Json as Json
from .types import PlainText as PlainText
from .types import UtcTime as UtcTime

#: The direction of a metric that is better; a test compares the words with those of the catalogue.
DIRECTIONS = ("lower", "higher", "neither")


class HardwareRow(Base):
    """The hardware of machines; machines of equal hardware are comparable."""

    __tablename__ = "hardware"

    id: Mapped[int] = mapped_column(primary_key=True)
    fingerprint: Mapped[str] = mapped_column(unique=True)
    label: Mapped[str]
    facts: Mapped[Facts]


class MachineRow(Base):
    """One host."""

    __tablename__ = "machine"

    id: Mapped[int] = mapped_column(primary_key=True)
    fingerprint: Mapped[str] = mapped_column(unique=True)
    name: Mapped[str]
    facts: Mapped[Facts]


class EnvironmentRow(Base):
    """One interpreter with one PyTorch build, or that of the canary without PyTorch."""

    __tablename__ = "environment"

    id: Mapped[int] = mapped_column(primary_key=True)
    fingerprint: Mapped[str] = mapped_column(unique=True)
    name: Mapped[str]
    torch_version: Mapped[str]
    python_version: Mapped[str]
    facts: Mapped[Facts]
    kind: Mapped[EnvironmentKind]

    __table_args__ = (
        CheckConstraint(one_of("kind", EnvironmentKind), name="kind"),
        Index(None, "torch_version"),
    )


class PresetRow(Base):
    """A measurement preset."""

    __tablename__ = "preset"

    id: Mapped[int] = mapped_column(primary_key=True)
    fingerprint: Mapped[str] = mapped_column(unique=True)
    name: Mapped[str]
    settings: Mapped[Facts]


class BenchmarkCaseRow(Base):
    """One workload under one technique; the other columns are the parts of its key."""

    __tablename__ = "benchmark_case"

    id: Mapped[int] = mapped_column(primary_key=True)
    key: Mapped[str] = mapped_column(unique=True)
    name: Mapped[str]
    phase: Mapped[str]
    parameters: Mapped[Facts]
    technique: Mapped[Facts]


class SeriesRow(Base):
    """The identity of a series: the columns in which two comparable measurements agree."""

    __tablename__ = "series"

    id: Mapped[int] = mapped_column(primary_key=True)
    case_id: Mapped[int] = mapped_column(ForeignKey("benchmark_case.id"))
    metric: Mapped[str]
    hardware_id: Mapped[int] = mapped_column(ForeignKey("hardware.id"))
    preset_id: Mapped[int] = mapped_column(ForeignKey("preset.id"))

    __table_args__ = (
        UniqueConstraint("case_id", "metric", "hardware_id", "preset_id"),
        Index(None, "metric"),
    )


class MetricRow(Base):
    """The definition of an imported metric; Pyrometer's own metrics are in the catalogue and have no row."""

    __tablename__ = "metric"

    name: Mapped[str] = mapped_column(primary_key=True)
    title: Mapped[str]
    unit: Mapped[str]
    better: Mapped[str]

    __table_args__ = (CheckConstraint(one_of("better", DIRECTIONS), name="better"),)


class RunRow(Base):
    """One execution of a suite.

    `counts` maps status to number of outcomes, so that lists need not count. The hardware belongs to the run,
    not to the machine: a host may be measured with and without its GPUs. `source_format` names the format of
    an imported run, and is empty for any other.
    """

    __tablename__ = "run"

    number: Mapped[int] = mapped_column(primary_key=True)
    id: Mapped[str] = mapped_column(unique=True)
    suite: Mapped[str]
    started_at: Mapped[datetime]
    ended_at: Mapped[datetime | None]
    state: Mapped[RunState]
    machine_id: Mapped[int] = mapped_column(ForeignKey("machine.id"))
    preset_id: Mapped[int] = mapped_column(ForeignKey("preset.id"))
    harness: Mapped[str]
    planned: Mapped[int]
    command: Mapped[str]
    notes: Mapped[list[str]]
    facts: Mapped[Facts]
    counts: Mapped[dict[str, int]]
    hardware_id: Mapped[int] = mapped_column(ForeignKey("hardware.id"))
    kind: Mapped[RunKind]
    source: Mapped[RunSource]
    source_format: Mapped[str]

    __table_args__ = (
        CheckConstraint(one_of("state", RunState), name="state"),
        CheckConstraint(one_of("kind", RunKind), name="kind"),
        CheckConstraint(one_of("source", RunSource), name="source"),
        Index(None, "kind", "started_at"),
        Index(None, "started_at"),
        Index(None, "suite", "started_at"),
        Index(None, "machine_id", "started_at"),
    )


class RunEnvironmentRow(Base):
    """The environments of a run, in the order in which they were given."""

    __tablename__ = "run_environment"

    run_number: Mapped[int] = mapped_column(ForeignKey("run.number"), primary_key=True)
    environment_id: Mapped[int] = mapped_column(ForeignKey("environment.id"), primary_key=True)
    position: Mapped[int]

    __table_args__ = (Index(None, "environment_id"),)


class OutcomeRow(Base):
    """The outcome of one planned replicate."""

    __tablename__ = "outcome"

    run_number: Mapped[int] = mapped_column(ForeignKey("run.number"), primary_key=True)
    case_id: Mapped[int] = mapped_column(ForeignKey("benchmark_case.id"), primary_key=True)
    environment_id: Mapped[int] = mapped_column(ForeignKey("environment.id"), primary_key=True)
    replicate: Mapped[int] = mapped_column(primary_key=True)
    status: Mapped[OutcomeStatus]
    reason: Mapped[str]
    phase: Mapped[str]
    started_at: Mapped[datetime]
    wall_seconds: Mapped[float]
    metrics: Mapped[Facts]
    facts: Mapped[Facts]
    log_tail: Mapped[str]

    __table_args__ = (CheckConstraint(one_of("status", OutcomeStatus), name="status"),)


def _of_an_outcome(name: str) -> ForeignKeyConstraint:
    """A row that belongs to an outcome, under the outcome's own key."""
    key = ("run_number", "case_id", "environment_id", "replicate")
    return ForeignKeyConstraint(key, [f"outcome.{column}" for column in key], name=name)


class SamplesRow(Base):
    """The raw samples of one outcome, in a separate table so that lists do not read them.

    `codec` is the format of the blob.
    """

    __tablename__ = "samples"

    run_number: Mapped[int] = mapped_column(primary_key=True)
    case_id: Mapped[int] = mapped_column(primary_key=True)
    environment_id: Mapped[int] = mapped_column(primary_key=True)
    replicate: Mapped[int] = mapped_column(primary_key=True)
    codec: Mapped[int]
    blob: Mapped[bytes] = mapped_column(LargeBinary)

    __table_args__ = (_of_an_outcome("fk_samples_outcome"),)


class TelemetryRow(Base):
    """One device's recording of one outcome; unlike all other rows it is pruned.

    The columns of lists come before the blob, so that lists do not read the blob.
    """

    __tablename__ = "telemetry"

    run_number: Mapped[int] = mapped_column(primary_key=True)
    case_id: Mapped[int] = mapped_column(primary_key=True)
    environment_id: Mapped[int] = mapped_column(primary_key=True)
    replicate: Mapped[int] = mapped_column(primary_key=True)
    device: Mapped[str] = mapped_column(primary_key=True)
    name: Mapped[str]
    utilisation_source: Mapped[str]
    rows: Mapped[int]
    seconds: Mapped[float]
    utilisation: Mapped[float | None]
    power: Mapped[float | None]
    temperature: Mapped[float | None]
    codec: Mapped[int]
    blob: Mapped[bytes] = mapped_column(LargeBinary)

    __table_args__ = (_of_an_outcome("fk_telemetry_outcome"),)


class MeasurementRow(Base):
    """One point of a series.

    `started_at` repeats the run's: journals arrive late and out of order, and with the time in the clustered
    key the newest points of a series are still its last rows.
    """

    __tablename__ = "measurement"

    series_id: Mapped[int] = mapped_column(ForeignKey("series.id"), primary_key=True)
    started_at: Mapped[datetime] = mapped_column(primary_key=True)
    run_number: Mapped[int] = mapped_column(ForeignKey("run.number"), primary_key=True)
    environment_id: Mapped[int] = mapped_column(ForeignKey("environment.id"), primary_key=True)
    point: Mapped[float]
    low: Mapped[float | None]
    high: Mapped[float | None]
    smallest: Mapped[float]
    largest: Mapped[float]
    spread: Mapped[float | None]
    n: Mapped[int]

    __table_args__ = (Index(None, "run_number"), {"sqlite_with_rowid": False})


class FingerprintRow(Base):
    """One content of a fingerprint; `hash` is `DispatchFingerprint.content_hash`."""

    __tablename__ = "dispatch_fingerprint"

    id: Mapped[int] = mapped_column(primary_key=True)
    hash: Mapped[str] = mapped_column(unique=True)
    content: Mapped[Facts]


class CaseFingerprintRow(Base):
    """The result of taking one fingerprint; without a content it failed, for `reason`.

    The hardware is stored besides the machine, because its GPUs may be exchanged or left out.
    """

    __tablename__ = "case_fingerprint"

    case_id: Mapped[int] = mapped_column(ForeignKey("benchmark_case.id"), primary_key=True)
    environment_id: Mapped[int] = mapped_column(ForeignKey("environment.id"), primary_key=True)
    machine_id: Mapped[int] = mapped_column(ForeignKey("machine.id"), primary_key=True)
    hardware_id: Mapped[int] = mapped_column(ForeignKey("hardware.id"), primary_key=True)
    preset_id: Mapped[int] = mapped_column(ForeignKey("preset.id"), primary_key=True)
    harness: Mapped[str] = mapped_column(primary_key=True)
    device: Mapped[str] = mapped_column(primary_key=True)
    fingerprint_id: Mapped[int | None] = mapped_column(ForeignKey("dispatch_fingerprint.id"))
    status: Mapped[OutcomeStatus]
    reason: Mapped[str]
    taken_at: Mapped[datetime]

    __table_args__ = (
        CheckConstraint(one_of("status", OutcomeStatus), name="status"),
        Index(None, "environment_id"),
    )
