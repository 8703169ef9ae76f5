"""Definitions of imported metrics; those of our own catalogue are not stored."""

from collections.abc import Sequence

from sqlalchemy import select, update

from records.outcomes import MetricDefinition

from ..connection.engine import Database
from ..connection.statements import insert_missing
from ..schema import core_tables as tables


def save_metrics(database: Database, definitions: Sequence[MetricDefinition]) -> None:
    """Store the definitions that are not stored yet; a stored name keeps its first title.

    Raises ValueError, and stores nothing, for a name that cannot be printed, and for one that is stored with
    another unit or direction: values of different meanings would share a series.
    """
    if not definitions:
        return
    for each in definitions:
        if not each.name.isprintable():
            raise ValueError(f"{each.name!r} is not a valid name of a metric")
    table = tables.MetricRow
    rows = [
        {"name": each.name, "title": each.title, "unit": each.unit, "better": each.better}
        for each in sorted(definitions, key=lambda each: each.name)
    ]
    with database.writing() as connection:
        insert_missing(connection, table, rows)
        found = connection.execute(select(table).where(table.name.in_({each.name for each in definitions})))
        stored = {row.name: MetricDefinition(row.name, row.title, row.unit, row.better) for row in found}
        for each in definitions:
            definition = stored[each.name]
            if (each.unit, each.better) != (definition.unit, definition.better):
                stored_as, new = _meaning(definition), _meaning(each)
                raise ValueError(f"metric {each.name} is stored as {stored_as} and cannot also be {new}")


def correct_metric(
    database: Database,
    name: str,
    *,
    title: str | None = None,
    unit: str | None = None,
    better: str | None = None,
) -> MetricDefinition | None:
    """Give the definition of a metric another title, unit or direction; None leaves the stored value.

    Returns the new definition; None for an unknown metric. A metric with series but without a definition gets
    one if unit and direction are given. Values are not converted: a corrected unit means that the name of the
    unit was wrong.
    """
    table = tables.MetricRow
    given = {"title": title, "unit": unit, "better": better}
    changes = {column: value for column, value in given.items() if value is not None}
    with database.writing() as connection:
        query = select(table.title, table.unit, table.better).where(table.name == name)
        stored = connection.execute(query.with_for_update()).mappings().first()
        used = connection.execute(
            select(tables.SeriesRow.id).where(tables.SeriesRow.metric == name).limit(1)
        ).first()
        if stored is None and (used is None or unit is None or better is None):
            return None
        values = {"title": name, **(stored or {}), **changes}
        if stored is None:
            insert_missing(connection, table, [{"name": name, **values}])
        elif changes:
            connection.execute(update(table).where(table.name == name).values(changes))
        return MetricDefinition(name, **values)


def metric_definitions(database: Database) -> dict[str, MetricDefinition]:
    """Every stored definition by its name."""
    with database.reading() as connection:
        found = connection.execute(select(tables.MetricRow).order_by(tables.MetricRow.name))
        return {row.name: MetricDefinition(row.name, row.title, row.unit, row.better) for row in found}


def _meaning(definition: MetricDefinition) -> str:
    unit = definition.unit or "a number without a unit"
    return (
        f"{unit}, better {definition.better}" if definition.better != "neither" else f"{unit}, no direction"
    )
