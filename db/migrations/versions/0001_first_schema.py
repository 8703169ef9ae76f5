"""The first schema."""

import sqlalchemy as sa
from alembic import op

revision = "0001"
down_revision = None

STATES = "'running', 'complete', 'interrupted'"
STATUSES = (
    "'ok', 'skipped', 'unsupported', 'oom', 'timeout', 'crashed', 'wrong', 'not_compiled', 'contended', "
    "'throttled', 'lost'"
)


def upgrade() -> None:
    """Make all tables."""
    _identities()
    _series()
    _runs()
    _outcomes()
    _measurements()


def _identities() -> None:
    for table, columns in {
        "hardware": [_text("label"), _text("facts")],
        "machine": [_text("name"), _to("hardware", "machine"), _text("facts")],
        "environment": [_text("name"), _text("torch_version"), _text("python_version"), _text("facts")],
        "profile": [_text("name"), _text("settings")],
    }.items():
        op.create_table(
            table,
            _integer("id"),
            _text("fingerprint"),
            *columns,
            sa.PrimaryKeyConstraint("id", name=op.f(f"pk_{table}")),
            sa.UniqueConstraint("fingerprint", name=op.f(f"uq_{table}_fingerprint")),
        )


def _series() -> None:
    op.create_table(
        "benchmark_case",
        _integer("id"),
        _text("key"),
        _text("name"),
        _text("phase"),
        _text("parameters"),
        _text("technique"),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_benchmark_case")),
        sa.UniqueConstraint("key", name=op.f("uq_benchmark_case_key")),
    )
    op.create_table(
        "series",
        _integer("id"),
        _to("benchmark_case", "series", "case_id"),
        _text("metric"),
        _to("hardware", "series"),
        _to("profile", "series"),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_series")),
        sa.UniqueConstraint(
            "case_id",
            "metric",
            "hardware_id",
            "profile_id",
            name=op.f("uq_series_case_id_metric_hardware_id_profile_id"),
        ),
    )
    op.create_index(op.f("ix_series_metric"), "series", ["metric"])


def _runs() -> None:
    op.create_table(
        "run",
        _integer("number"),
        _text("id"),
        _text("suite"),
        _time("started_at"),
        sa.Column("ended_at", sa.DateTime(timezone=True), nullable=True),
        _text("state"),
        _to("machine", "run"),
        _to("profile", "run"),
        _text("harness"),
        _integer("planned"),
        _text("command"),
        _text("notes"),
        _text("facts"),
        _text("counts"),
        sa.PrimaryKeyConstraint("number", name=op.f("pk_run")),
        sa.UniqueConstraint("id", name=op.f("uq_run_id")),
        sa.CheckConstraint(f"state IN ({STATES})", name=op.f("ck_run_state")),
    )
    op.create_index(op.f("ix_run_started_at"), "run", ["started_at"])
    op.create_table(
        "run_environment",
        _to("run", "run_environment", "run_number"),
        _to("environment", "run_environment"),
        _integer("position"),
        sa.PrimaryKeyConstraint("run_number", "environment_id", name=op.f("pk_run_environment")),
    )
    op.create_index(op.f("ix_run_environment_environment_id"), "run_environment", ["environment_id"])


def _outcomes() -> None:
    key = ("run_number", "case_id", "environment_id", "replicate")
    op.create_table(
        "outcome",
        _to("run", "outcome", "run_number"),
        _to("benchmark_case", "outcome", "case_id"),
        _to("environment", "outcome"),
        _integer("replicate"),
        _text("status"),
        _text("reason"),
        _text("phase"),
        _time("started_at"),
        _number("wall_seconds"),
        _text("metrics"),
        _text("facts"),
        _text("log_tail"),
        sa.PrimaryKeyConstraint(*key, name=op.f("pk_outcome")),
        sa.CheckConstraint(f"status IN ({STATUSES})", name=op.f("ck_outcome_status")),
    )
    op.create_table(
        "samples",
        *(_integer(column) for column in key),
        _integer("codec"),
        sa.Column("blob", sa.LargeBinary(), nullable=False),
        sa.PrimaryKeyConstraint(*key, name=op.f("pk_samples")),
        sa.ForeignKeyConstraint(key, [f"outcome.{column}" for column in key], name="fk_samples_outcome"),
    )


def _measurements() -> None:
    op.create_table(
        "measurement",
        _to("series", "measurement"),
        _time("started_at"),
        _to("run", "measurement", "run_number"),
        _to("environment", "measurement"),
        _number("point"),
        _number("low", nullable=True),
        _number("high", nullable=True),
        _number("smallest"),
        _number("largest"),
        _number("spread", nullable=True),
        _integer("n"),
        sa.PrimaryKeyConstraint(
            "series_id", "started_at", "run_number", "environment_id", name=op.f("pk_measurement")
        ),
        sqlite_with_rowid=False,
    )
    op.create_index(op.f("ix_measurement_run_number"), "measurement", ["run_number"])


def _integer(name: str) -> "sa.Column[int]":
    return sa.Column(name, sa.Integer(), nullable=False)


def _text(name: str) -> "sa.Column[str]":
    return sa.Column(name, sa.Text(), nullable=False)


def _number(name: str, *, nullable: bool = False) -> "sa.Column[float]":
    return sa.Column(name, sa.Double(), nullable=nullable)


def _time(name: str) -> "sa.Column[object]":
    return sa.Column(name, sa.DateTime(timezone=True), nullable=False)


def _to(target: str, table: str, column: str = "") -> "sa.Column[int]":
    """A column of `table` that refers to a row of `target`."""
    column = column or f"{target}_id"
    key = sa.ForeignKey(
        f"{target}.{'number' if target == 'run' else 'id'}", name=op.f(f"fk_{table}_{column}_{target}")
    )
    return sa.Column(column, sa.Integer(), key, nullable=False)
