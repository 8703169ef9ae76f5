"""The tables of detection: findings, their triage, and notices."""

from datetime import datetime

from sqlalchemy import CheckConstraint, ForeignKey, ForeignKeyConstraint, Index, UniqueConstraint
from sqlalchemy.orm import Mapped, mapped_column

from records.findings import DeliveryState, FindingState, FindingTriage

from .types import Base, Facts, one_of

FINDING_DIRECTIONS = ("worse", "better")
SHAPES = ("step", "drift")

#: The actions of people on a finding.
ACTIONS = ("acknowledge", "expected", "fixed", "mute", "note", "link")


class FindingRow(Base):
    """A change that detection saw in a series, as a schedule measured it.

    `at_run` is the first run after it, `before_run` the last one before. Change and interval are log ratios.
    """

    __tablename__ = "finding"

    id: Mapped[int] = mapped_column(primary_key=True)
    series_id: Mapped[int] = mapped_column(ForeignKey("series.id"))
    schedule: Mapped[str]
    track: Mapped[str]
    label: Mapped[str]
    direction: Mapped[str]
    shape: Mapped[str]
    at_run: Mapped[int] = mapped_column(ForeignKey("run.number"))
    before_run: Mapped[int] = mapped_column(ForeignKey("run.number"))
    old_environment_id: Mapped[int] = mapped_column(ForeignKey("environment.id"))
    new_environment_id: Mapped[int] = mapped_column(ForeignKey("environment.id"))
    change: Mapped[float]
    low: Mapped[float | None]
    high: Mapped[float | None]
    state: Mapped[FindingState]
    found_at: Mapped[datetime]
    decided_at: Mapped[datetime | None]
    evidence: Mapped[Facts]
    group_key: Mapped[str]
    triage: Mapped[FindingTriage]
    muted_until: Mapped[datetime | None]
    link: Mapped[str]
    returns_of: Mapped[int | None] = mapped_column(ForeignKey("finding.id"))

    __table_args__ = (
        UniqueConstraint("series_id", "schedule", "track", "label", "at_run", "direction"),
        CheckConstraint(one_of("state", FindingState), name="state"),
        CheckConstraint(one_of("direction", FINDING_DIRECTIONS), name="direction"),
        CheckConstraint(one_of("shape", SHAPES), name="shape"),
        CheckConstraint(one_of("triage", FindingTriage), name="triage"),
        Index(None, "found_at"),
    )


class TriageRow(Base):
    """An action of a person on a finding; rows are only ever added."""

    __tablename__ = "triage"

    id: Mapped[int] = mapped_column(primary_key=True)
    finding_id: Mapped[int] = mapped_column(ForeignKey("finding.id"))
    at: Mapped[datetime]
    who: Mapped[str]
    action: Mapped[str]
    text: Mapped[str]

    __table_args__ = (CheckConstraint(one_of("action", ACTIONS), name="action"), Index(None, "finding_id"))


class NoticeRow(Base):
    """A notice that was sent or will be sent."""

    __tablename__ = "notice"

    kind: Mapped[str] = mapped_column(primary_key=True)
    key: Mapped[str] = mapped_column(primary_key=True)
    made_at: Mapped[datetime]
    title: Mapped[str]
    body: Mapped[str]
    facts: Mapped[Facts]

    __table_args__ = (Index(None, "made_at"),)


class NoticeDeliveryRow(Base):
    """The delivery of a notice to one target, named without its secrets; a target that was never tried has no
    row.
    """

    __tablename__ = "delivery"

    notice_kind: Mapped[str] = mapped_column(primary_key=True)
    notice_key: Mapped[str] = mapped_column(primary_key=True)
    target: Mapped[str] = mapped_column(primary_key=True)
    state: Mapped[DeliveryState]
    at: Mapped[datetime]
    tries: Mapped[int]
    why: Mapped[str]

    __table_args__ = (
        ForeignKeyConstraint(
            ["notice_kind", "notice_key"], ["notice.kind", "notice.key"], name="fk_delivery_notice"
        ),
        CheckConstraint(one_of("state", DeliveryState), name="state"),
    )
