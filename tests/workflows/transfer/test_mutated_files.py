"""Mutated files, many of them: none changes what was measured, none ends a command with a traceback."""

import random
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from common.journal_lines import decode_line, encode_line
from db.connection.engine import Database, open_database
from db.runs import queries
from interchange.errors import ExchangeError
from interchange.runs import ImportedRun
from support.builders.exports import file_of
from support.builders.journals import write_journal
from support.sqlite_files import sqlite_with_tables
from workflows.database_upkeep import check
from workflows.ingest import ingest
from workflows.transfer.import_runs import import_path

pytestmark = pytest.mark.slow

RUN = "20260901-020000-0001"
#: Files of each kind.
COUNT = 200
ODD: list[Any] = [
    *(None, True, -1, 0, 1e308, -1e-300, 2**63, "", "x\x00\x1b]0;y\x07", "\u202e", [], {}, [[]]),
    *("complete", "imported", "measured", "ok", RUN, "9999-12-31T23:59:59+00:00"),
]


def changed(value: Any, dice: random.Random) -> Any:
    """The JSON value with one of its parts replaced, left out or doubled."""
    if isinstance(value, dict) and value and dice.random() < 0.9:
        name = dice.choice(list(value))
        if dice.random() < 0.1:
            return {key: each for key, each in value.items() if key != name}
        return {**value, name: changed(value[name], dice)}
    if isinstance(value, list) and value and dice.random() < 0.9:
        at = dice.randrange(len(value))
        return [*value[:at], changed(value[at], dice), *value[at + dice.randrange(2) :]]
    if isinstance(value, int | float) and dice.random() < 0.5:
        return value * dice.choice([0.1, 10, -1])
    return dice.choice(ODD)


def mutated(lines: list[bytes], dice: random.Random) -> bytes:
    """The file with some lines changed under right checksums, or with wrong bytes."""
    if dice.random() < 0.3:
        content = bytearray(b"".join(lines))
        for _ in range(dice.randrange(1, 9)):
            content[dice.randrange(len(content))] = dice.randrange(256)
        return bytes(content[: dice.randrange(1, len(content) + 1)])
    made = list(lines)
    for _ in range(dice.randrange(1, 4)):
        at = dice.randrange(len(made))
        line = decode_line(lines[dice.randrange(len(lines))])
        made[at] = encode_line(line.kind, changed(line.body, dice) or {})[0]
    return b"".join(made)


@pytest.mark.parametrize("kind", ["export", "journal"])
def test_no_mutated_file_changes_a_measured_run(
    tmp_path: Path, kind: str, record_property: Callable[[str, object], None]
) -> None:
    url = sqlite_with_tables(tmp_path / "database" / "pyrometer.db")
    own = write_journal(tmp_path, RUN)
    with open_database(url) as database:
        ingest(own, database)
        before = everything(database)
        run, outcomes, numbers = before
        journal = own.read_bytes()
        export = file_of(ImportedRun(replace(run), outcomes, tuple(numbers)))
        lines = (journal if kind == "journal" else export).splitlines(keepends=True)
        dice, read, refused = random.Random(32), 0, 0
        for number in range(COUNT):
            path = tmp_path / f"{number}.jsonl"
            path.write_bytes(mutated(lines, dice))
            try:
                import_path(path, None, database, lambda stored: None)
                read += 1
            except ExchangeError:
                refused += 1
            path.unlink()
            assert everything(database) == before, number
        assert read + refused == COUNT and min(read, refused) > COUNT // 20
        problems = [problem for each in check(database, tmp_path) for problem in each.problems]
        assert problems == []
    record_property("files read", read)
    record_property("files refused", refused)


def everything(database: Database) -> Any:
    run = queries.run_record(database, RUN)
    assert run
    numbers = queries.measurements_of_run(database, RUN)
    return run, tuple(queries.outcomes_of_run(database, RUN)), sorted(numbers, key=lambda each: each.key)
