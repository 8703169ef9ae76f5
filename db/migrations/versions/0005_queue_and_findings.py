"""The queue of what schedules ask for, what detection found, and the notices about it."""

from typing import Any

import sqlalchemy as sa
from alembic import op

revision = "0005"
down_revision = "0004"


def upgrade() -> None:
    """Make the seven tables; nothing that was there before has rows for them."""
    _queue()
    _workers()
    _findings()


def _texts(*names: str) -> list[sa.Column[Any]]:
    return [sa.Column(name, sa.Text(), nullable=False) for name in names]


def _moment(name: str, *, nullable: bool = False) -> sa.Column[Any]:
    return sa.Column(name, sa.DateTime(timezone=True), nullable=nullable)


def _whole(name: str, refers_to: str = "", *, table: str = "", nullable: bool = False) -> sa.Column[Any]:
    if not refers_to:
        return sa.Column(name, sa.Integer(), nullable=nullable)
    other = refers_to.partition(".")[0]
    key = sa.ForeignKey(refers_to, name=op.f(f"fk_{table}_{name}_{other}"))
    return sa.Column(name, sa.Integer(), key, nullable=nullable)


def _optional(*names: str) -> list[sa.Column[Any]]:
    return [sa.Column(name, sa.Text(), nullable=True) for name in names]


def _one_of(table: str, column: str, *words: str) -> sa.CheckConstraint:
    listed = ", ".join(f"'{word}'" for word in words)
    return sa.CheckConstraint(f"{column} IN ({listed})", name=op.f(f"ck_{table}_{column}"))


def _index(table: str, *columns: str) -> None:
    op.create_index(op.f(f"ix_{table}_{'_'.join(columns)}"), table, list(columns))


def _queue() -> None:
    op.create_table(
        "fire",
        *_texts("schedule"),
        _moment("due_at"),
        *_texts("how"),
        _moment("made_at"),
        sa.PrimaryKeyConstraint("schedule", "due_at", name=op.f("pk_fire")),
        _one_of("fire", "how", "timetable", "caught up", "by hand", "follow-up", "missed", "first seen"),
    )
    op.create_table(
        "task",
        _whole("id"),
        *_texts("schedule"),
        _moment("due_at"),
        *_texts("part", "job", "spec", "label", "state"),
        _whole("attempts"),
        *_optional("token", "owner"),
        _whole("beats"),
        *_optional("run_id"),
        *(_moment(name, nullable=True) for name in ("not_before", "started_at", "ended_at")),
        *_texts("result", "error"),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_task")),
        sa.UniqueConstraint("schedule", "due_at", "part", name=op.f("uq_task_schedule_due_at_part")),
        sa.UniqueConstraint("token", name=op.f("uq_task_token")),
        sa.ForeignKeyConstraint(
            ["schedule", "due_at"],
            ["fire.schedule", "fire.due_at"],
            name=op.f("fk_task_schedule_due_at_fire"),
        ),
        _one_of("task", "state", "waiting", "running", "done", "failed", "lost", "cancelled"),
    )
    _index("task", "state", "due_at")
    _index("task", "due_at")
    _index("task", "run_id")


def _workers() -> None:
    op.create_table(
        "attempt",
        _whole("task_id", "task.id", table="attempt"),
        _whole("number"),
        *_texts("token", "owner"),
        _moment("started_at"),
        _moment("ended_at", nullable=True),
        *_texts("ended", "detail"),
        *_optional("run_id"),
        sa.PrimaryKeyConstraint("task_id", "number", name=op.f("pk_attempt")),
        sa.UniqueConstraint("token", name=op.f("uq_attempt_token")),
        _one_of("attempt", "ended", "", "done", "failed", "lost", "stale", "released", "cancelled"),
    )
    _index("attempt", "run_id")
    op.create_table(
        "scheduler",
        *_texts("owner", "machine", "labels"),
        _moment("started_at"),
        _moment("seen_at"),
        _whole("beats"),
        *_texts("version"),
        sa.PrimaryKeyConstraint("owner", name=op.f("pk_scheduler")),
    )


def _findings() -> None:
    key = ("series_id", "schedule", "track", "label", "at_run", "direction")
    states = ("candidate", "confirming", "confirmed", "refuted", "unclear", "no longer", "machine")
    op.create_table(
        "finding",
        _whole("id"),
        _whole("series_id", "series.id", table="finding"),
        *_texts("schedule", "track", "label", "direction", "shape"),
        _whole("at_run", "run.number", table="finding"),
        _whole("before_run", "run.number", table="finding"),
        _whole("old_environment_id", "environment.id", table="finding"),
        _whole("new_environment_id", "environment.id", table="finding"),
        sa.Column("change", sa.Double(), nullable=False),
        *(sa.Column(name, sa.Double(), nullable=True) for name in ("low", "high")),
        *_texts("state"),
        _moment("found_at"),
        _moment("decided_at", nullable=True),
        *_texts("evidence", "group_key", "triage"),
        _moment("muted_until", nullable=True),
        *_texts("link"),
        _whole("returns_of", "finding.id", table="finding", nullable=True),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_finding")),
        sa.UniqueConstraint(*key, name=op.f(f"uq_finding_{'_'.join(key)}")),
        _one_of("finding", "state", *states),
        _one_of("finding", "direction", "worse", "better"),
        _one_of("finding", "shape", "step", "drift"),
        _one_of("finding", "triage", "open", "acknowledged", "expected", "fixed"),
    )
    _index("finding", "found_at")
    op.create_table(
        "triage",
        _whole("id"),
        _whole("finding_id", "finding.id", table="triage"),
        _moment("at"),
        *_texts("who", "action", "text"),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_triage")),
        _one_of("triage", "action", "acknowledge", "expected", "fixed", "mute", "note", "link"),
    )
    _index("triage", "finding_id")
    op.create_table(
        "notice",
        *_texts("kind", "key"),
        _moment("made_at"),
        *_texts("title", "body", "facts", "sent"),
        sa.PrimaryKeyConstraint("kind", "key", name=op.f("pk_notice")),
    )
    _index("notice", "made_at")
