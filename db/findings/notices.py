"""What was told to people: one notice of each kind and key."""

from sqlalchemy import select

from records.findings import Notice

from ..connection.engine import Database
from ..runs.upserts import insert_for
from ..schema import finding_tables

_NOTICE = finding_tables.Notice


def save_notice(database: Database, notice: Notice) -> bool:
    """Store a notice; false, and nothing stored, where there is one of its kind and key."""
    values = {
        "kind": notice.kind,
        "key": notice.key,
        "made_at": notice.made_at,
        "title": notice.title,
        "body": notice.body,
        "facts": dict(notice.facts),
        "sent": dict(notice.sent),
    }
    statement = insert_for(database.engine.dialect.name, _NOTICE).on_conflict_do_nothing()
    with database.writing() as connection:
        return connection.execute(statement.returning(_NOTICE.kind), values).first() is not None


def notice(database: Database, kind: str, key: str) -> Notice | None:
    """One notice; None if there is none."""
    with database.reading() as connection:
        query = select(_NOTICE).where(_NOTICE.kind == kind, _NOTICE.key == key)
        found = connection.execute(query).mappings().first()
    return None if found is None else Notice(**dict(found))


def notices(database: Database, newest: int = 50) -> list[Notice]:
    """The newest notices, newest first."""
    query = select(_NOTICE).order_by(_NOTICE.made_at.desc(), _NOTICE.kind, _NOTICE.key).limit(newest)
    with database.reading() as connection:
        return [Notice(**dict(found)) for found in connection.execute(query).mappings()]
