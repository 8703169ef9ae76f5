"""`kill -9` of the controller, again and again: nothing measured is lost, nothing is measured twice."""

import random
import signal
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Callable
from pathlib import Path

import pytest

from db.connection.engine import open_database
from db.runs import queries
from records.outcomes import Outcome, PlannedReplicate
from runner import journal
from support.site import Site, carriers, of_the_plan, wait_until_gone
from workflows.run_header import Header

#: Kills of the command, its start included, and of controllers that are past their start.
FROM_THE_START, UNDER_WAY = 1, 3
#: Replicates of both cases of suite `long`, and of the run.
REPLICATES, PLANNED = 2, 4


def outcomes_by_plan(path: Path) -> dict[PlannedReplicate, Outcome]:
    """What the journal holds; a line that cannot be read fails the test."""
    contents = journal.read_contents(path)
    assert not [line for line in contents.set_aside if "torn" not in line]
    return {outcome.planned_replicate: outcome for outcome in contents.outcomes}


def kill_from_the_start(site: Site, rng: random.Random) -> tuple[str, float]:
    """Kill a run, then each `--resume` of it; answers the run and the seconds that one outcome takes."""
    started = time.monotonic()
    running = site.start_suite("long", "--replicates", str(REPLICATES))
    run = str(running.until("began")["run"])
    began = time.monotonic()
    running.until("outcome")
    pace = time.monotonic() - began
    for _ in range(FROM_THE_START):
        assert running.process.poll() is None, "a kill that hits nothing shows nothing"
        running.process.kill()
        running.process.wait()
        running = site.start("--resume", run)
        time.sleep(rng.uniform(0.0, began - started + pace))
    running.process.kill()
    running.process.wait()
    return run, pace


def kill_under_way(site: Site, run: str, pace: float, rng: random.Random) -> int:
    """Kill controllers that have begun to measure; after each the journal holds at least what it held.

    Answers how many were killed.
    """
    known: dict[PlannedReplicate, Outcome] = {}
    kills = 0
    with subprocess.Popen(
        [sys.executable, Path(__file__).with_name("controllers.py"), run],
        cwd=site.folder,
        env=site.environ({"OPENBLAS_NUM_THREADS": "1"}),
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        text=True,
    ) as controllers:
        assert controllers.stdin is not None and controllers.stdout is not None
        for _ in range(UNDER_WAY):
            # One life in four or five is long enough for an outcome; a run that is over cannot be killed.
            if len(known) > PLANNED - 2:
                break
            controllers.stdin.write(f"{rng.uniform(0.0, 1.2 * pace)}\n")
            controllers.stdin.flush()
            assert int(controllers.stdout.readline()) == signal.SIGKILL
            kills += 1
            now = outcomes_by_plan(site.journal(run))
            assert {planned: now.get(planned) for planned in known} == known
            known = now
        controllers.stdin.close()
    return kills


@pytest.mark.torch
def test_kills_at_random_moments_lose_nothing(
    site: Site, record_property: Callable[[str, object], None]
) -> None:
    rng = random.Random(50)
    run, pace = kill_from_the_start(site, rng)
    kills = FROM_THE_START + 1 + kill_under_way(site, run, pace, rng)
    record_property("kills", kills)

    done = site.call("run", "--resume", run)
    assert done.code == 0, done
    assert f"is complete: {PLANNED} ok of {PLANNED} planned" in done.out
    wait_until_gone(run)

    path = site.journal(run)
    measured = outcomes_by_plan(path)
    planned = Header.from_body(journal.read_contents(path).header).replicates
    assert sorted(measured, key=str) == sorted(planned, key=str)
    with open_database(site.url, create=False) as database:
        stored = of_the_plan(queries.outcomes_of_run(database, run))
        found = Counter(PlannedReplicate(o.case, o.environment, o.replicate) for o in stored)
        assert found == Counter(planned)
        for outcome in stored:
            original = measured[PlannedReplicate(outcome.case, outcome.environment, outcome.replicate)]
            assert (outcome.status, outcome.metrics) == (original.status, original.metrics)
            samples = queries.samples(database, run, outcome.case, outcome.environment, outcome.replicate)
            assert samples == original.blocks
        made = of_the_plan(queries.measurements_of_run(database, run))
        assert len({m.case for m in made}) == 2
        assert all(m.n == REPLICATES for m in made)
    assert carriers(run) == []
