"""A journal that was damaged on purpose is set aside: the journals after it are stored."""

import json
import os
import shutil
import zlib
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path

import pytest

from common.bounded_files import size_of
from common.journal_lines import decode_line, encode_line
from db.admin.check import KEEP_STORED
from db.connection.engine import Database
from db.runs import queries
from runner.errors import JournalError
from runner.journal import FILE, Journal, size_of_facts
from support.builders.journals import a_header, a_plan, an_outcome, write_journal
from workflows.database_upkeep import check, repair
from workflows.ingest import ingest_pending, mark_stored, read_run
from workflows.load_run import LATEST, load_run
from workflows.planning.plan_run import resumable

GOOD, OTHER = "20260902-020000-0001", "20260903-020000-0002"


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


def test_a_journal_of_another_run_neither_repairs_nor_hides_a_run(tmp_path: Path, sqlite: Database) -> None:
    for run in (GOOD, OTHER):
        write_journal(tmp_path, run)
    outcome_of_pending(tmp_path, sqlite)
    before = {run: queries.measurements_of_run(sqlite, run) for run in (GOOD, OTHER)}
    stranger = write_journal(tmp_path / "elsewhere", OTHER, replicates=1)
    path = Path(shutil.copy(stranger, tmp_path / "runs" / GOOD / FILE))
    (sentence,) = repair(sqlite, tmp_path)
    assert sentence == f"{path} holds run {OTHER}, not the run of its folder; it is skipped"
    assert {run: queries.measurements_of_run(sqlite, run) for run in before} == before
    with pytest.raises(JournalError, match="not the run of its folder"):
        load_run(tmp_path, GOOD, lambda: sqlite)
    with pytest.raises(JournalError, match="not the run of its folder"):
        resumable(path.parent)
    path.rename(damaged(tmp_path, "20991231-020000-0000", ""))
    assert load_run(tmp_path, LATEST, lambda: sqlite).result.run == OTHER


@pytest.mark.parametrize("damage", ["cut short", "a line that changed", "a line that never fitted", "canary"])
def test_a_repair_deletes_nothing_that_only_the_database_still_has(
    tmp_path: Path, sqlite: Database, damage: str
) -> None:
    path = write_journal(tmp_path, GOOD)
    outcome_of_pending(tmp_path, sqlite)
    before = queries.outcomes_of_run(sqlite, GOOD), queries.measurements_of_run(sqlite, GOOD)
    whole = path.read_bytes()
    line = [each for each in whole.splitlines(keepends=True) if b'"outcome"' in each][-1]
    if damage == "cut short":
        path.write_bytes(whole[: whole.index(line)])
    elif damage == "canary":
        path.write_bytes(whole[: whole.rindex(b"\n", 0, whole.rindex(b'"canary"')) + 1])
    elif damage == "a line that changed":
        path.write_bytes(whole.replace(line, line.replace(b"replicate", b"replicats")))
    else:
        path.write_bytes(whole.replace(line, b""))
        mark_stored(path, size_of(path), 0)
    problems = [problem for each in check(sqlite, tmp_path) for problem in each.problems]
    advice = {each.mend for each in problems if "that its journal does not have" in each.sentence}
    assert advice == {KEEP_STORED}
    outcome_of_pending(tmp_path, sqlite)
    (sentence,) = repair(sqlite, tmp_path)
    assert "not changed" in sentence
    assert (queries.outcomes_of_run(sqlite, GOOD), queries.measurements_of_run(sqlite, GOOD)) == before


def test_of_a_run_neither_samples_nor_what_was_not_planned_are_held(tmp_path: Path) -> None:
    plan, now = a_plan(), datetime.now(UTC)
    stranger = an_outcome(replace(plan[0], replicate=1000), now)
    with Journal(tmp_path / "runs" / GOOD) as journal:
        journal.header(a_header(GOOD, plan).to_body())
        for outcome in (*(an_outcome(each, now) for each in plan[:-1]), stranger):
            journal.outcome(outcome)
    _, contents = read_run(journal.path)
    assert contents.missing_replicates(plan) == plan[-1:] and len(contents.outcomes) == len(plan) - 1
    assert not any(each.blocks or each.telemetry for each in contents.outcomes)


def test_a_report_leaves_out_what_was_not_planned(tmp_path: Path, sqlite: Database) -> None:
    path = write_journal(tmp_path, GOOD)
    bodies = [decode_line(line).body for line in path.read_bytes().splitlines() if b'"outcome"' in line]
    more = [encode_line("outcome", {**body, "replicate": 1000})[0] for body in bodies[:1]]
    path.write_bytes(path.read_bytes() + b"".join(more))
    outcomes = load_run(tmp_path, GOOD, lambda: sqlite).result.outcomes
    assert len(outcomes) == len(bodies) and max(one.replicate for one in outcomes) < 1000


def test_a_journal_with_too_many_outcomes_that_were_not_planned_is_left_alone(
    tmp_path: Path, sqlite: Database, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("runner.journal.MOST_BAD", 20)
    path = write_journal(tmp_path, GOOD)
    (line,) = [each for each in path.read_bytes().splitlines() if b'"replicate":1' in each][:1]
    body = decode_line(line).body
    more = (encode_line("outcome", {**body, "replicate": number})[0] for number in range(100, 121))
    path.write_bytes(path.read_bytes() + b"".join(more))
    stored, (error,) = outcome_of_pending(tmp_path, sqlite)
    assert stored == [] and str(error) == f"{path} has more than 20 lines that cannot be used"
    assert queries.run_ids(sqlite) == set()


def journal_with_a_byte_of_facts_too_many(folder: Path, monkeypatch: pytest.MonkeyPatch) -> tuple[Path, int]:
    """A good journal whose facts are one byte more than what is allowed now, and how many they are."""
    path = write_journal(folder, GOOD)
    size = sum(map(size_of_facts, read_run(path)[1].outcomes))
    monkeypatch.setattr("runner.journal._FACTS_OF_EACH", 0)
    monkeypatch.setattr("runner.journal._MOST_FACTS", size - 1)
    return path, size


def test_a_journal_with_more_facts_than_any_run_is_left_alone(
    tmp_path: Path, sqlite: Database, monkeypatch: pytest.MonkeyPatch
) -> None:
    path, size = journal_with_a_byte_of_facts_too_many(tmp_path, monkeypatch)
    _, (error,) = outcome_of_pending(tmp_path, sqlite)
    assert str(error).startswith(f"{path} has outcomes whose facts and metrics take more than")
    with pytest.raises(JournalError, match="facts and metrics"):
        load_run(tmp_path, GOOD, lambda: sqlite)
    monkeypatch.setattr("runner.journal._MOST_FACTS", size)
    assert outcome_of_pending(tmp_path, sqlite) == ([GOOD], [])


def test_facts_are_counted_over_all_pieces(
    tmp_path: Path, sqlite: Database, monkeypatch: pytest.MonkeyPatch
) -> None:
    path, _ = journal_with_a_byte_of_facts_too_many(tmp_path, monkeypatch)
    monkeypatch.setattr("common.bounded_files._PIECE", 1024)
    _, (error,) = outcome_of_pending(tmp_path, sqlite)
    assert str(error).startswith(f"{path} has outcomes whose facts")


@pytest.mark.parametrize("what", ["pipe", "link", "folder", "long"])
def test_what_stands_in_the_place_of_a_mark_is_neither_followed_nor_waited_for(
    tmp_path: Path, sqlite: Database, what: str
) -> None:
    mark, other = write_journal(tmp_path, GOOD).with_name("stored"), tmp_path / "other"
    other.write_text("mine")
    {
        "pipe": lambda: os.mkfifo(mark),
        "link": lambda: mark.symlink_to(other),
        "folder": mark.mkdir,
        "long": lambda: mark.write_text("1 " * (1 << 20)),
    }[what]()
    assert outcome_of_pending(tmp_path, sqlite) == ([GOOD], [])
    assert other.read_text() == "mine"


def test_what_is_no_journal_stops_neither_commands_nor_a_repair(tmp_path: Path, sqlite: Database) -> None:
    good = write_journal(tmp_path, GOOD)
    folder = damaged(tmp_path, "20990101-020000-0001", "")
    folder.unlink()
    folder.mkdir()
    nowhere = damaged(tmp_path, "20990102-020000-0002", "")
    nowhere.unlink()
    nowhere.symlink_to(tmp_path / "gone")
    assert (size_of(good), size_of(nowhere)) == (good.stat().st_size, 0)
    stored, (error,) = outcome_of_pending(tmp_path, sqlite)
    assert stored == [GOOD] and str(folder) in str(error)
    assert load_run(tmp_path, GOOD, lambda: sqlite).result.run == GOOD
    assert all(str(folder) in sentence or str(nowhere) in sentence for sentence in repair(sqlite, tmp_path))
    assert [problem for each in check(sqlite, tmp_path) for problem in each.problems] == []


@pytest.mark.parametrize(
    "damage",
    [
        {"started_at": "not a time"},
        {"started_at": "2099-01-01T00:00:00"},
        {"machine": 5},
        {"environments": ["x"]},
        {"preset": {"name": "quiet"}},
    ],
    ids=repr,
)
def test_a_damaged_header_hides_no_other_run(
    tmp_path: Path, sqlite: Database, damage: dict[str, object]
) -> None:
    write_journal(tmp_path, GOOD)
    bad = "20990101-020000-0001"
    header = {**a_header(bad, a_plan()).to_body(), **damage}
    damaged(tmp_path, bad, encode_line("header", header)[0].decode())
    assert load_run(tmp_path, LATEST, lambda: sqlite).result.run == GOOD
    stored, (error,) = outcome_of_pending(tmp_path, sqlite)
    assert stored == [GOOD] and bad in str(error)
    assert load_run(tmp_path, LATEST, lambda: sqlite).result.run == GOOD
    with pytest.raises(JournalError):
        load_run(tmp_path, bad, lambda: sqlite)


def test_the_checksums_are_those_of_the_program() -> None:
    assert decode_line(nested(3).encode()).body == json.loads('{"run":"x","deep":[[[]]]}')
