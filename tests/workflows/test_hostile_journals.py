"""A journal that was damaged on purpose is set aside: the journals after it are stored."""

import json
import zlib
from pathlib import Path

import pytest

from common.journal_lines import decode_line, encode_line
from db.connection.engine import Database
from db.runs import queries
from runner.errors import JournalError
from runner.journal import FILE
from support.builders.journals import write_journal
from workflows.database_upkeep import check
from workflows.ingest import ingest_pending

GOOD = "20260902-020000-0001"


def nested(depth: int) -> str:
    """A line with a right checksum whose body is nested so deep, made without recursion."""
    body = '{"run":"x","deep":' + "[" * depth + "]" * depth + "}"
    canonical = '["outcome",{"deep":' + "[" * depth + "]" * depth + ',"run":"x"}]'
    return f'{{"v":1,"kind":"outcome","crc":{zlib.crc32(canonical.encode())},"body":{body}}}'


def damaged(folder: Path, name: str, *lines: str) -> Path:
    path = folder / "runs" / name / FILE
    path.parent.mkdir(parents=True)
    path.write_text("\n".join(lines) + "\n")
    return path


def outcome_of_pending(folder: Path, database: Database) -> tuple[list[str], list[JournalError]]:
    """The runs that are stored, and why others are not."""
    results = list(ingest_pending(folder, database))
    errors = [each for each in results if isinstance(each, JournalError)]
    return [each.run for each in results if not isinstance(each, JournalError)], errors


@pytest.mark.parametrize("lines", [55, 1])
def test_nesting_of_any_depth_sets_one_journal_aside(tmp_path: Path, sqlite: Database, lines: int) -> None:
    deep = [nested(depth) for depth in (range(940, 995) if lines > 1 else [100_000])]
    damaged(tmp_path, "20260901-020000-0000", *deep)
    write_journal(tmp_path, GOOD)
    stored, (error,) = outcome_of_pending(tmp_path, sqlite)
    assert stored == [GOOD] and queries.run_ids(sqlite) == {GOOD}
    assert str(error).endswith("has no readable header")
    assert [problem for each in check(sqlite, tmp_path) for problem in each.problems] == []


def test_deep_facts_of_a_right_header_are_set_aside_as_lines(tmp_path: Path, sqlite: Database) -> None:
    path = write_journal(tmp_path, GOOD)
    path.write_text(path.read_text() + "\n".join(nested(depth) for depth in range(30, 1000, 7)) + "\n")
    stored, errors = outcome_of_pending(tmp_path, sqlite)
    assert (stored, errors) == ([GOOD], [])
    found = queries.run_record(sqlite, GOOD)
    assert found and any("more lines of the journal were set aside" in note for note in found.notes)
    for each in check(sqlite, tmp_path):
        assert each.problems == ()


def test_a_journal_in_the_folder_of_another_run_is_not_stored(tmp_path: Path, sqlite: Database) -> None:
    good = write_journal(tmp_path, GOOD)
    (stored,), _ = outcome_of_pending(tmp_path, sqlite)
    before = queries.measurements_of_run(sqlite, stored)
    header, *outcomes, ended = good.read_text().splitlines()
    slower = [line.replace('"latency":', '"latency":9') for line in outcomes]
    bodies = [json.loads(line) for line in slower]
    resealed = [encode_line(each["kind"], each["body"])[0].decode().strip() for each in bodies]
    damaged(tmp_path, "20260903-020000-0002", header, *resealed, ended)
    stored_again, (error,) = outcome_of_pending(tmp_path, sqlite)
    assert stored_again == [] and f"holds run {GOOD}, not the run of its folder" in str(error)
    assert queries.measurements_of_run(sqlite, GOOD) == before


def test_the_checksums_are_those_of_the_program() -> None:
    assert decode_line(nested(3).encode()).body == json.loads('{"run":"x","deep":[[[]]]}')
