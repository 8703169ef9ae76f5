"""Which run `latest` is: the one that began last, whatever it is called."""

from pathlib import Path

from db.connection.engine import Database
from db.runs.store import save_run
from support.builders.journals import write_journal
from support.builders.run_records import a_night, a_run
from workflows.load_run import LATEST, load_run


def test_latest_is_the_run_that_began_last_and_not_the_last_name(sqlite: Database, tmp_path: Path) -> None:
    # What was imported without a date is named so, and stands at the beginning of time.
    save_run(sqlite, a_run("undated-timm-5f0c"))
    save_run(sqlite, a_run("20260801-020000-aaaa", started_at=a_night(1)))

    def latest() -> str:
        return load_run(tmp_path, LATEST, lambda: sqlite).result.run

    assert latest() == "20260801-020000-aaaa"
    # It begins now, and waits to be stored.
    write_journal(tmp_path, "20260701-020000-bbbb")
    assert latest() == "20260701-020000-bbbb"
    broken = tmp_path / "runs" / "20991231-020000-cccc" / "journal.jsonl"
    broken.parent.mkdir()
    broken.write_text("no journal\n")
    assert latest() == "20260701-020000-bbbb"
