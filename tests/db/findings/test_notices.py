"""A notice is stored and delivered once."""

from dataclasses import replace

from db.connection.engine import Database
from db.findings import notices
from records.findings import Delivery, DeliveryState, Notice
from support.builders.run_records import a_night

DIGEST = Notice(
    "digest", "2026-09-01", a_night(0), "A quiet night", "All **well**.\n", {"regressions": 0}, {}
)


def test_a_notice_is_stored_once(database: Database) -> None:
    assert notices.save_notice(database, DIGEST)
    assert not notices.save_notice(database, Notice("digest", "2026-09-01", a_night(1), "Another", ""))
    assert notices.notice(database, "digest", "2026-09-01") == DIGEST
    assert notices.notice(database, "digest", "2026-09-02") is None
    assert notices.notice(database, "silent", "2026-09-01") is None


def test_of_two_that_try_a_delivery_again_one_may(database: Database) -> None:
    notices.save_notice(database, DIGEST)
    place = (database, "digest", "2026-09-01", "json://hooks.example.org")
    failed = Delivery(DeliveryState.FAILED, a_night(0), 1, "it was away")
    assert notices.replace_delivery(*place, None, failed)
    assert not notices.replace_delivery(*place, None, failed)
    for changed in (
        replace(failed, state=DeliveryState.TRYING),
        replace(failed, at=a_night(1)),
        replace(failed, tries=2),
        replace(failed, why="another reason"),
    ):
        assert not notices.replace_delivery(*place, changed, Delivery(DeliveryState.DELIVERED, a_night(1)))
    trying = Delivery(DeliveryState.TRYING, a_night(1), 2)
    assert notices.replace_delivery(*place, failed, trying)
    assert not notices.replace_delivery(*place, failed, trying)


def test_the_newest_notices_come_first(database: Database) -> None:
    for night in (1, 0, 2):
        notices.save_notice(database, Notice("digest", f"night {night}", a_night(night), "", ""))
    assert [each.key for each in notices.notices(database, 2)] == ["night 2", "night 1"]


def test_notices_of_some_kinds_are_not_hidden_by_others(database: Database) -> None:
    for night, kind in enumerate(("digest", "silence", "return", "silence")):
        notices.save_notice(database, Notice(kind, f"night {night}", a_night(night), "", ""))
    found = notices.notices(database, 2, kinds=["digest", "return"])
    assert [each.key for each in found] == ["night 2", "night 0"]
    assert notices.notices(database, kinds=[]) == []
