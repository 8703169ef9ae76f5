"""What became of a notice on its way to each target: of two senders only one takes it there."""

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime

from sqlalchemy import select, update

from records.findings import Notice

from ..connection.engine import Database
from ..schema.finding_tables import Notice as Table

_TRYING, _FAILED = "trying", "failed"


@dataclass(frozen=True, slots=True)
class Delivery:
    """A notice on its way to one target. `state`: had, trying, failed; `at` is since when, aware.

    `tries` counts those that began, and is 0 once the target had it. `why` is one sentence without secrets.
    """

    state: str
    at: datetime
    tries: int = 0
    why: str = ""


def deliveries(notice: Notice) -> Mapping[str, Delivery]:
    """What is known of a notice, by target; a target that is not there was never tried."""
    return {target: _read(text) for target, text in notice.sent.items()}


def replace_delivery(
    database: Database, kind: str, key: str, target: str, before: Delivery | None, after: Delivery
) -> bool:
    """Say what became of a notice at a target; False, and nothing changed, where it is not as in `before`."""
    this = (Table.kind == kind) & (Table.key == key)
    with database.writing() as connection:
        sent = connection.execute(select(Table.sent).where(this).with_for_update()).scalar()
        if sent is None or sent.get(target) != (before and _text(before)):
            return False
        connection.execute(update(Table).where(this).values(sent={**sent, target: _text(after)}))
    return True


def _text(delivery: Delivery) -> str:
    at = delivery.at.isoformat()
    return at if delivery.state == "had" else f"{delivery.state} {delivery.tries} {at} {delivery.why}".strip()


def _read(text: str) -> Delivery:
    state, _, rest = text.partition(" ")
    if state not in (_TRYING, _FAILED):
        return Delivery("had", datetime.fromisoformat(text))
    tries, at, *why = rest.split(" ", 2)
    return Delivery(state, datetime.fromisoformat(at), int(tries), *why)
