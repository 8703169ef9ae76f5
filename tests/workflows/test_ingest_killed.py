"""Journals are stored exactly once: by several processes at once, and by some that are killed at any step."""

import os
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from sqlalchemy import select

from db.admin.check import open_read_only
from db.connection.engine import open_database
from db.schema import core_tables as tables
from support.builders.journals import SONG, a_plan, write_journal
from support.ingest_process import __file__ as INGESTERS
from support.servers.databases import on_both
from workflows.database_upkeep import check

pytestmark = pytest.mark.slow

KILLED = -9


class Ingesters:
    """Ingesters forked off one process that has imported everything."""

    def __init__(self, url: str, data_dir: Path) -> None:
        self._server = subprocess.Popen(
            [sys.executable, INGESTERS, url, data_dir],
            env=os.environ | {"OPENBLAS_NUM_THREADS": "1"},
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )

    def run(self, *killed_at: int) -> list[int]:
        """Exit codes of processes started together, then the steps of each that was not killed."""
        stdin, stdout = self._server.stdin, self._server.stdout
        assert stdin is not None and stdout is not None
        print(*killed_at, file=stdin, flush=True)
        return [int(each) for each in stdout.readline().split()]

    def close(self) -> None:
        self._server.communicate()


@pytest.fixture
def data_dir(tmp_path: Path) -> Path:
    return tmp_path / "data"


@pytest.fixture
def ingesters(url: str, data_dir: Path) -> Iterator[Ingesters]:
    started = Ingesters(url, data_dir)
    yield started
    started.close()


def problems(url: str, data_dir: Path) -> list[str]:
    """What is wrong with a database; a new one has no tables yet."""
    with open_read_only(url) as database:
        found = [problem.sentence for each in check(database, data_dir) for problem in each.problems]
    return [one for one in found if not one.endswith("is empty.")]


def rows(url: str) -> dict[str, list[Any]]:
    """Every row of every table."""
    with open_database(url, create=False) as database, database.reading() as connection:
        return {
            table.name: [tuple(row) for row in connection.execute(select(table).order_by(*table.primary_key))]
            for table in tables.Base.metadata.sorted_tables
        }


@on_both
def test_killed_at_any_step_everything_is_stored_once(
    url: str,
    data_dir: Path,
    ingesters: Ingesters,
    tmp_path: Path,
    record_property: Callable[[str, object], None],
) -> None:
    write_journal(data_dir, "run-1")
    clean = f"sqlite:///{tmp_path}/clean.db"
    for each in (clean, url):
        open_database(each).close()
    counting = Ingesters(clean, data_dir)
    (code, steps) = counting.run(0)
    counting.close()
    assert code == 0 and steps > 30
    (data_dir / "runs" / "run-1" / "stored").unlink()
    killed = 0
    # Every step would take as long as the rest of this folder: some, and the end.
    # `benchmarks/ingest_kills.py` kills anywhere.
    for step in [*range(steps // 4, steps - 4, steps // 4), *range(steps - 4, steps + 1)]:
        code, *_ = ingesters.run(step)
        assert code in (KILLED, 0), "on a server the steps are not quite the same"
        killed += code == KILLED
        assert problems(url, data_dir) == []
    assert killed > 3
    record_property("kills", killed)
    assert ingesters.run(0)[0] == 0
    stored = rows(url)
    assert {name: len(each) for name, each in stored.items()} == {
        name: len(each) for name, each in rows(clean).items()
    }
    assert len(stored["outcome"]) == len(a_plan()) + 2 and len(stored["run"]) == 1
    assert problems(url, data_dir) == []
    assert ingesters.run(0)[0] == 0 and rows(url) == stored


@on_both
def test_several_at_once_store_everything_once(url: str, data_dir: Path, ingesters: Ingesters) -> None:
    for night in range(2):
        for number in range(2):
            write_journal(data_dir, f"run-{night}-{number}")
        killed, *others = ingesters.run(40 + night, 0, 0)[:3]
        assert killed in (KILLED, 0) and others == [0, 0]
        stored = rows(url)
        runs = 2 * (night + 1)
        assert len(stored["run"]) == runs and len(stored["outcome"]) == runs * (len(a_plan()) + 2)
        assert len(stored["samples"]) == runs * 8 and len(stored["benchmark_case"]) == 4
        assert problems(url, data_dir) == []
    assert any(row[1] == SONG for row in stored["benchmark_case"])
