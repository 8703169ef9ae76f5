"""Columns for the kind of a run and of an environment, and a row for each delivery of a notice.

Before, that was derived from a run's command, facts and id, from an empty version of PyTorch, and from a text
for each target. This is the last place that reads those.
"""

import json
import re
from collections.abc import Iterator
from datetime import UTC, datetime
from typing import Any

import sqlalchemy as sa
from alembic import op

revision = "0008"
down_revision = "0007"

_FOREIGN_RUN = re.compile(r"(?:\d{8}-\d{6}|undated)-(.+)-[0-9a-f]{8,16}")

RUNS = sa.text("SELECT number, id, command, facts FROM run")
FILL_RUN = sa.text(
    "UPDATE run SET kind = :kind, source = :source, source_format = :format WHERE number = :number"
)
FILL_ENVIRONMENTS = """
UPDATE environment SET kind = CASE
    WHEN id IN (
        SELECT link.environment_id FROM run_environment AS link JOIN run ON run.number = link.run_number
        WHERE run.source <> 'measured'
    ) THEN 'foreign'
    WHEN torch_version <> '' THEN 'measured'
    WHEN name = 'canary' OR id IN (SELECT environment_id FROM run_environment) THEN 'canary'
    ELSE 'foreign'
END
"""
NOTICES = sa.text("SELECT kind, key, sent FROM notice WHERE sent <> '{}'")


def upgrade() -> None:
    """Add the columns and the table, and fill them from what was there."""
    with op.batch_alter_table("run") as run:
        for name in ("kind", "source", "source_format"):
            run.add_column(sa.Column(name, sa.Text(), nullable=True))
    with op.batch_alter_table("environment") as environment:
        environment.add_column(sa.Column("kind", sa.Text(), nullable=True))
    connection = op.get_bind()
    if runs := [_classified(*row) for row in connection.execute(RUNS)]:
        connection.execute(FILL_RUN, runs)
    op.execute(FILL_ENVIRONMENTS)
    with op.batch_alter_table("run") as run:
        for name in ("kind", "source", "source_format"):
            run.alter_column(name, existing_type=sa.Text(), nullable=False)
        run.create_check_constraint(
            op.f("ck_run_kind"), "kind IN ('run', 'upgrade', 'confirmation', 'bisection', 'trace')"
        )
        run.create_check_constraint(op.f("ck_run_source"), "source IN ('measured', 'imported', 'submitted')")
        run.create_index(op.f("ix_run_kind_started_at"), ["kind", "started_at"])
    with op.batch_alter_table("environment") as environment:
        environment.alter_column("kind", existing_type=sa.Text(), nullable=False)
        environment.create_check_constraint(
            op.f("ck_environment_kind"), "kind IN ('measured', 'canary', 'foreign')"
        )
    _deliveries()


def _classified(number: int, run: str, command: str, facts: str) -> dict[str, Any]:
    foreign = _FOREIGN_RUN.fullmatch(run)
    source = "measured" if foreign is None else "submitted" if foreign[1] == "submitted" else "imported"
    return {
        "number": number,
        "kind": _kind(command, facts),
        "source": source,
        "format": foreign[1] if foreign is not None and source == "imported" else "",
    }


def _kind(command: str, facts: str) -> str:
    if command.startswith("pyrometer upgrade"):
        return "confirmation" if '"confirms":true' in facts else "upgrade"
    timing = json.loads(facts).get("timing")
    if isinstance(timing, dict) and timing.get("trace_steps"):
        return "trace"
    return "bisection" if command.startswith("pyrometer bisect") else "run"


def _deliveries() -> None:
    delivery = op.create_table(
        "delivery",
        *(sa.Column(name, sa.Text(), nullable=False) for name in ("notice_kind", "notice_key", "target")),
        sa.Column("state", sa.Text(), nullable=False),
        sa.Column("at", sa.DateTime(timezone=True), nullable=False),
        sa.Column("tries", sa.Integer(), nullable=False),
        sa.Column("why", sa.Text(), nullable=False),
        sa.PrimaryKeyConstraint("notice_kind", "notice_key", "target", name=op.f("pk_delivery")),
        sa.ForeignKeyConstraint(
            ["notice_kind", "notice_key"], ["notice.kind", "notice.key"], name=op.f("fk_delivery_notice")
        ),
        sa.CheckConstraint("state IN ('trying', 'failed', 'delivered')", name=op.f("ck_delivery_state")),
    )
    rows = [
        {"notice_kind": kind, "notice_key": key, "target": target, **_delivery(text)}
        for kind, key, sent in op.get_bind().execute(NOTICES)
        for target, text in _sent(sent)
    ]
    op.bulk_insert(delivery, rows)
    with op.batch_alter_table("notice") as notice:
        notice.drop_column("sent")


def _sent(text: str) -> Iterator[tuple[str, str]]:
    yield from json.loads(text).items()


def _delivery(text: str) -> dict[str, Any]:
    state, _, rest = text.partition(" ")
    if state not in ("trying", "failed"):
        return {"state": "delivered", "at": _moment(text), "tries": 0, "why": ""}
    tries, at, *why = rest.split(" ", 2)
    return {"state": state, "at": _moment(at), "tries": int(tries), "why": "".join(why)}


def _moment(text: str) -> datetime:
    return datetime.fromisoformat(text).astimezone(UTC)
