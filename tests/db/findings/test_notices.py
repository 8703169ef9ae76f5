"""A notice is stored and delivered once."""

from db.connection.engine import Database
from db.findings import notices
from records.findings import Notice
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
