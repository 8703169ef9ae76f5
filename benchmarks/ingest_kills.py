"""A hundred `kill -9` of the process that stores journals, at random moments; each time it checks invariants.

    python benchmarks/ingest_kills.py [URL of an empty database; default: SQLite in a temporary folder]

Each round adds a run's journal, starts two processes that store what is pending, and kills one or both of
them somewhere in the time that storing takes. At the end everything must be stored exactly once: what the
database holds is set beside a new one that was filled from the same journals in peace.
"""

import argparse
import os
import random
import signal
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

# The numbers are made by numpy: threads of its own would not survive a fork.
os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")

from db.admin.check import open_read_only
from db.connection.engine import open_database
from db.runs import queries
from runner.errors import JournalError
from workflows.database_upkeep import check
from workflows.ingest import ingest_pending

sys.path.insert(0, str(Path(__file__).resolve().parent.parent / "tests"))

from support.builders.journals import a_plan, write_journal

KILLS = 100
SEED = 20261121
#: Outcomes of a run: those planned, and the canary's two.
OUTCOMES = len(a_plan()) + 2
#: Older runs are not written to any more; at the end all are looked at.
LOOKED_AT = 5


def main() -> None:
    """Kill, check, and say how it ended; exit code 1 when something was lost, doubled or wrong."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("url", nargs="?", help="of an empty database (default: SQLite in a temporary folder)")
    given: str | None = parser.parse_args().url
    rng = random.Random(SEED)
    with tempfile.TemporaryDirectory(prefix="pyrometer-") as name:
        folder = Path(name)
        url = given or f"sqlite:///{folder}/pyrometer.db"
        data_dir = folder / "data"
        write_journal(data_dir, "run-000")
        store_all(url, data_dir)
        write_journal(data_dir, "run-001")
        pace = timed(url, data_dir)
        kills = waiting = finished = wrong = 0
        runs = 1
        while kills < KILLS:
            runs += 1
            write_journal(data_dir, f"run-{runs:03}")
            processes = [begin(url, data_dir) for _ in range(2)]
            for process in processes[: rng.choice((1, 2))]:
                time.sleep(rng.uniform(0, pace))
                os.kill(process, signal.SIGKILL)
            codes = [os.waitstatus_to_exitcode(os.waitpid(process, 0)[1]) for process in processes]
            if any(code not in (0, -signal.SIGKILL) for code in codes):
                raise SystemExit(f"an ingester failed: {codes}")
            kills += codes.count(-signal.SIGKILL)
            finished += codes.count(0)
            found, unstored = problems(url, data_dir, LOOKED_AT)
            waiting += unstored
            wrong += len(found)
            for problem in found:
                print(f"round {runs}: {problem}")
        print(
            f"{kills} kills in {runs - 1} rounds of two, {finished} ran to their end; one takes {pace:.2f} s"
        )
        print(f"{waiting} of {runs - 1} looks met a journal that waits; {wrong} problems found")
        store_all(url, data_dir)
        store_all(clean := f"sqlite:///{folder}/clean.db", data_dir)
        same = contents(url) == contents(clean)
        found, unstored = problems(url, data_dir)
        outcomes = sum(len(each) for _, each, _ in contents(url))
        print(f"at the end: {runs + 1} runs with {outcomes} outcomes, {len(found)} problems")
        print("the same as stored in peace" if same else "NOT the same as stored in peace")
        expected = (runs + 1) * OUTCOMES
        if wrong or found or unstored or not same or outcomes != expected:
            raise SystemExit(1)


def store_all(url: str, data_dir: Path) -> None:
    """Store what is pending; a journal that cannot be stored is a failure here."""
    with open_database(url, timeout=60) as database:
        for result in ingest_pending(data_dir, database):
            if isinstance(result, JournalError):
                raise result


def begin(url: str, data_dir: Path) -> int:
    """A process that stores what is pending; its id."""
    if process := os.fork():
        return process
    code = 1
    try:
        store_all(url, data_dir)
        code = 0
    finally:
        os._exit(code)


def timed(url: str, data_dir: Path) -> float:
    """Seconds that it takes a process to open the database and store one journal."""
    began = time.monotonic()
    os.waitpid(begin(url, data_dir), 0)
    return time.monotonic() - began


def problems(url: str, data_dir: Path, newest: int | None = None) -> tuple[list[str], bool]:
    """What is wrong with the database, and whether a journal waits; a new one may have no tables yet."""
    if url.startswith("sqlite:") and not Path(url.removeprefix("sqlite:///")).exists():
        return [], True
    with open_read_only(url) as database:
        found = list(check(database, data_dir, newest=newest))
    wrong = [problem.sentence for each in found for problem in each.problems]
    waiting = any(each.notes for each in found if each.name == "journals")
    return [one for one in wrong if not one.endswith("is empty.")], waiting


def contents(url: str) -> list[tuple[Any, list[Any], list[Any]]]:
    """Every run with its outcomes and measurements."""
    with open_database(url, create=False) as database:
        return [
            (
                queries.run_record(database, run),
                queries.outcomes_of_run(database, run),
                queries.measurements_of_run(database, run),
            )
            for run in sorted(queries.run_ids(database))
        ]


if __name__ == "__main__":
    main()
