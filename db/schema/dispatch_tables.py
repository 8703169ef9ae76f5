"""The tables of dispatch fingerprints: contents once, and which case had which of them where."""

from datetime import datetime

from sqlalchemy import CheckConstraint, ForeignKey, Index
from sqlalchemy.orm import Mapped, mapped_column

from records.outcomes import OutcomeStatus

from .types import Base, Facts, one_of


class FingerprintRow(Base):
    """One content of a fingerprint; `hash` is `DispatchFingerprint.content_hash`."""

    __tablename__ = "dispatch_fingerprint"

    id: Mapped[int] = mapped_column(primary_key=True)
    hash: Mapped[str] = mapped_column(unique=True)
    content: Mapped[Facts]


class CaseFingerprintRow(Base):
    """The result of taking one fingerprint; without a content it failed, for `reason`.

    The machine does not say which hardware: its GPUs may be exchanged, or left out.
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
