"""Series by the names that they go by outside."""

from collections.abc import Collection

from sqlalchemy import Connection, select

from records.series import SeriesKey

from ..connection.statements import AnyRow, AnySelect, rows_among
from ..schema import core_tables as tables


def series_names() -> AnySelect:
    """The series, each with its id and the columns of its key."""
    table, case, hardware, profile = tables.Series, tables.BenchmarkCase, tables.Hardware, tables.Profile
    return (
        select(
            table.id,
            case.key.label("case"),
            table.metric,
            hardware.fingerprint.label("hardware"),
            hardware.label.label("hardware_label"),
            profile.fingerprint.label("profile"),
            profile.name.label("profile_name"),
        )
        .join(case, case.id == table.case_id)
        .join(hardware, hardware.id == table.hardware_id)
        .join(profile, profile.id == table.profile_id)
    )


def series_key(row: AnyRow) -> SeriesKey:
    """The key in a row that begins with the columns of `series_names`."""
    return SeriesKey(*row[1:7])


def series_ids_of(connection: Connection, keys: Collection[SeriesKey]) -> dict[int, SeriesKey]:
    """The series that these keys name, by id; those that are not there are left out."""
    wanted = {identity(key) for key in keys}
    query = series_names().where(tables.Series.metric.in_({key.metric for key in keys}))
    rows = rows_among(connection, query, tables.BenchmarkCase.key, (key.case for key in keys))
    return {row.id: key for row in rows if identity(key := series_key(row)) in wanted}


def identity(key: SeriesKey) -> tuple[str, str, str, str]:
    """A key without its labels, which may have been written differently."""
    return key.case, key.metric, key.hardware, key.profile


def by_name(key: SeriesKey) -> tuple[str, ...]:
    """What keys are sorted by for people."""
    return key.case, key.metric, key.hardware_label, key.profile_name, key.hardware, key.profile
