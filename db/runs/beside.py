"""Rows that stand beside one outcome, by the names that the outcome goes by outside."""

from typing import Any

from sqlalchemy import Select

from ..schema import core_tables as tables


def beside(
    query: Select[*tuple[Any, ...]],
    table: type[tables.Samples] | type[tables.Telemetry],
    run: str,
    case: str,
    environment: str,
    replicate: int,
) -> Select[*tuple[Any, ...]]:
    """The query's rows of `table` that belong to one outcome; `environment` is a fingerprint."""
    return (
        query.join(tables.Run, tables.Run.number == table.run_number)
        .join(tables.BenchmarkCase, tables.BenchmarkCase.id == table.case_id)
        .join(tables.Environment, tables.Environment.id == table.environment_id)
        .where(
            tables.Run.id == run,
            tables.BenchmarkCase.key == case,
            tables.Environment.fingerprint == environment,
            table.replicate == replicate,
        )
    )
