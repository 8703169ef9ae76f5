"""Two that measure one machine would measure each other: the second waits, and says so."""

import re
import time

import pytest

from db.connection.engine import open_database
from db.runs import queries
from runner import journal
from support.site import ADD, PATIENCE_SECONDS, Running, Site, carriers, wait_until_gone

pytestmark = pytest.mark.torch

QUICK = ("--suite", "quick", "--cases", "cases.py", "--case", ADD)
ONCE = ("--replicates", "1")

#: Who is waited for is named: a process, and its run once there is one.
WAITING = (
    r"another run measures this machine \(process \d+, (run \S+|which has no run yet)\): "
    r"waiting until it ends \(Ctrl-C stops waiting\)\n"
)


def wait_until_it_waits(running: Running) -> None:
    give_up = time.monotonic() + PATIENCE_SECONDS
    while not re.search(WAITING, running.said()):
        assert running.process.poll() is None and time.monotonic() < give_up, running.said()
        time.sleep(0.05)


def test_a_second_run_waits_for_the_first_and_a_third_may_give_up(site: Site) -> None:
    first = site.start_suite("quick", *ONCE)
    first.until("began")
    # At once: between the end of the first and the next look of the second the third would find no run.
    second = site.start_suite("quick", *ONCE)
    third = site.start_suite("quick")
    wait_until_it_waits(second)
    wait_until_it_waits(third)
    third.process.terminate()
    gave_up = third.end()
    assert (gave_up.code, [event["event"] for event in gave_up.events]) == (130, ["waiting"])
    assert re.fullmatch(f"{WAITING}interrupted before anything was measured\n", gave_up.err), gave_up.err
    one, two = first.end(), second.end()
    assert (one.code, two.code) == (0, 0), (one, two)
    assert not re.search(WAITING, one.err)
    with open_database(site.url, create=False) as database:
        runs = queries.recent_runs(database)
        assert [(run.id, run.state, run.counts) for run in runs] == [
            (two.run, "complete", {"ok": 2}),
            (one.run, "complete", {"ok": 2}),
        ]
        later = [outcome.started_at for outcome in queries.outcomes_of_run(database, two.run)]
    ended = journal.read_contents(site.journal(one.run)).ended
    assert ended is not None and min(later).isoformat() > str(ended["at"])


def test_a_killed_run_takes_its_workers_along_and_of_two_that_resume_it_the_second_finds_nothing_left(
    site: Site,
) -> None:
    started = site.start(*QUICK)
    run = str(started.until("began")["run"])
    started.until("outcome")
    started.until("phase", phase="measure")
    assert carriers(run)
    started.process.kill()
    started.end()
    wait_until_gone(run)
    first = site.start("--resume", run)
    first.until("began")
    second = site.start("--resume", "latest")
    wait_until_it_waits(second)
    one, two = first.end(), second.end()
    assert one.code == 0, one
    assert (two.code, [event["event"] for event in two.events]) == (2, ["waiting"])
    nothing_left = re.escape(f"pyrometer: run {run} is complete: there is nothing to resume\n")
    assert re.fullmatch(WAITING + nothing_left, two.err), two.err
    assert len(journal.read_contents(site.journal(run)).outcomes) == 2
