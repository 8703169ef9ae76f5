"""Notices, one for each kind and key, and their deliveries; of several senders only one delivers to a
target.
"""

from collections import defaultdict
from collections.abc import Collection
from typing import Any

from sqlalchemy import Select, select, tuple_, update

from records.findings import Delivery, Notice

from ..connection.engine import Database
from ..connection.statements import insert_for
from ..schema import finding_tables

_NOTICE, _DELIVERY = finding_tables.NoticeRow, finding_tables.NoticeDeliveryRow


def save_notice(database: Database, notice: Notice) -> bool:
    """Store a notice without its deliveries; returns False, without a change, if its kind and key exist
    already.
    """
    values = {
        "kind": notice.kind,
        "key": notice.key,
        "made_at": notice.made_at,
        "title": notice.title,
        "body": notice.body,
        "facts": dict(notice.facts),
    }
    statement = insert_for(database.engine.dialect.name, _NOTICE).on_conflict_do_nothing()
    with database.writing() as connection:
        return connection.execute(statement.returning(_NOTICE.kind), values).first() is not None


def notice(database: Database, kind: str, key: str) -> Notice | None:
    """One notice; None if there is none."""
    found = _notices(database, select(_NOTICE).where(_NOTICE.kind == kind, _NOTICE.key == key))
    return found[0] if found else None


def notices(database: Database, newest: int = 50, *, kinds: Collection[str] | None = None) -> list[Notice]:
    """The newest notices, newest first: all, or those of some kinds."""
    query = select(_NOTICE).order_by(_NOTICE.made_at.desc(), _NOTICE.kind, _NOTICE.key).limit(newest)
    return _notices(database, query if kinds is None else query.where(_NOTICE.kind.in_(kinds)))


def replace_delivery(
    database: Database, kind: str, key: str, target: str, before: Delivery | None, after: Delivery
) -> bool:
    """Store a delivery of a notice; returns False, without a change, if the stored one differs from
    `before`.
    """
    values = {"state": after.state, "at": after.at, "tries": after.tries, "why": after.why}
    place = {"notice_kind": kind, "notice_key": key, "target": target}
    with database.writing() as connection:
        if before is None:
            there = select(_NOTICE.kind).where(_NOTICE.kind == kind, _NOTICE.key == key)
            first = insert_for(connection.dialect.name, _DELIVERY).on_conflict_do_nothing()
            if connection.execute(there).first() is None:
                return False
            return connection.execute(first.returning(_DELIVERY.target), place | values).first() is not None
        unchanged = (
            *(getattr(_DELIVERY, name) == value for name, value in place.items()),
            _DELIVERY.state == before.state,
            _DELIVERY.at == before.at,
            _DELIVERY.tries == before.tries,
            _DELIVERY.why == before.why,
        )
        return connection.execute(update(_DELIVERY).where(*unchanged).values(values)).rowcount == 1


def _notices(database: Database, query: Select[*tuple[Any, ...]]) -> list[Notice]:
    """The notices of a query, each with its deliveries."""
    with database.reading() as connection:
        found = [dict(row) for row in connection.execute(query).mappings()]
        keys = [(one["kind"], one["key"]) for one in found]
        of_these = tuple_(_DELIVERY.notice_kind, _DELIVERY.notice_key).in_(keys)
        rows = connection.execute(select(_DELIVERY).where(of_these).order_by(_DELIVERY.target)).all()
    deliveries: dict[tuple[str, str], dict[str, Delivery]] = defaultdict(dict)
    for row in rows:
        deliveries[row.notice_kind, row.notice_key][row.target] = Delivery(
            row.state, row.at, row.tries, row.why
        )
    return [Notice(**one, deliveries=deliveries[one["kind"], one["key"]]) for one in found]
