"""A disk that another process fills in mid-run: the run goes on, says so, and nothing is lost."""

import re
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from common.text import plural
from db.connection.engine import open_database
from db.runs import queries
from runner import journal
from support.command_line import typed
from support.site import ADD, COMMAND, PATIENCE_SECONDS, Done, Site, of_the_plan, wait_until_gone

pytestmark = pytest.mark.torch

ONCE = ("--replicates", "1")
WAITS = "the disk with the journal is full: outcomes wait in memory until there is room"

#: Fills the disk, says so, and goes on taking whatever is given back until its stdin is closed.
GREEDY = """
import os, select, sys
taken = os.open(sys.argv[1], os.O_WRONLY | os.O_CREAT)
printed = False
while True:
    try:
        os.write(taken, bytes(4096))
        continue
    except OSError:
        pass
    if not printed:
        print("full", flush=True)
        printed = True
    if select.select([0], [], [], 0.005)[0]:
        break
"""


@contextmanager
def filled(disk: Path) -> Iterator[None]:
    """Within the block another process holds every byte of the disk."""
    with subprocess.Popen(
        [sys.executable, "-c", GREEDY, disk / "filler"],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    ) as filler:
        assert filler.stdout is not None and filler.stdout.readline() == "full\n"
        yield
    (disk / "filler").unlink()


def fill_once(disk: Path) -> None:
    """Fill the disk and leave it at that: what is given back later stays free."""
    with filled(disk):
        (disk / "filler").rename(disk / "ballast")
        (disk / "filler").symlink_to("nothing")


def notes(done: Done) -> list[str]:
    """What the run said for people."""
    return [event["text"] for event in done.events if event["event"] == "note"]


def stored(url: str, run: str) -> int:
    """How many outcomes of the run the database holds."""
    with open_database(url, create=False) as database:
        return len(of_the_plan(queries.outcomes_of_run(database, run)))


def the_next_command_stores(site: Site, done: Done, url: str, planned: int, **places: str) -> None:
    """The next command stores what is missing, and the one after finds nothing to store."""
    before = stored(url, done.run)
    following = typed(site, "run", "--resume", done.run, **places)
    missing = plural(planned - before, "outcome")
    assert f"note: stored {missing} of run {done.run} from its journal" in following.err
    assert following.code == 2 and "there is nothing to resume" in following.err
    assert stored(url, done.run) == planned
    assert "note" not in typed(site, "run", "--resume", done.run, **places).err
    assert stored(url, done.run) == planned


def test_the_room_set_aside_sees_a_run_through(site: Site, small_disk: Path) -> None:
    url = f"sqlite:///{small_disk}/pyrometer.db"
    places = {"PYROMETER_DATA_DIR": str(small_disk / "data"), "PYROMETER_DATABASE_URL": url}
    running = site.start_suite("quick", *ONCE, **places)
    running.until("outcome")
    fill_once(small_disk)
    done = running.end()
    assert done.code == 0, done
    kept = journal.read_contents(small_disk / "data" / "runs" / done.run / journal.FILE)
    assert kept.ended is not None and [o.status for o in kept.outcomes] == ["ok"] * 2
    (small_disk / "ballast").unlink()
    typed(site, "run", "--resume", done.run, **places)
    assert stored(url, done.run) == 2


def test_what_fits_nowhere_waits_in_memory_until_there_is_room_or_goes_elsewhere(
    site: Site, small_disk: Path
) -> None:
    url = f"sqlite:///{small_disk}/pyrometer.db"
    places = {"PYROMETER_DATA_DIR": str(small_disk / "data"), "PYROMETER_DATABASE_URL": url}
    running = site.start_suite("long", "--replicates", "3", **places)
    run = str(running.until("began")["run"])
    running.until("outcome")
    target = small_disk / "data" / "runs" / run / journal.FILE
    with filled(small_disk):
        running.until("note", text=WAITS)
    running.until("note", text="there is room again: the journal is complete")
    measured = sum('"event": "outcome"' in line for line in running.lines)
    written = len(journal.read_contents(target).outcomes)
    assert 1 <= measured <= written < 6
    with filled(small_disk):
        done = running.end()
    assert done.code == 0, done
    assert len([e for e in done.events if e["event"] == "outcome" and e["status"] == "ok"]) == 6
    assert notes(done).count(WAITS) >= 2
    note = re.search(r"did not fit on the disk: they are saved in (\S+); append them to (\S+)", done.out)
    assert note, notes(done)
    rescued = Path(note[1])
    assert Path(note[2].rstrip('"}')) == target
    assert written <= len(journal.read_contents(target).outcomes) < 6
    with target.open("ab") as file:
        file.write(rescued.read_bytes())
    kept = journal.read_contents(target)
    assert kept.set_aside == () and [o.status for o in kept.outcomes] == ["ok"] * 6
    the_next_command_stores(site, done, url, 6, **places)
    as_if_nothing_had_happened(url, run, replicates=3)


def as_if_nothing_had_happened(url: str, run: str, replicates: int) -> None:
    """The database holds the complete run of both cases."""
    with open_database(url, create=False) as database:
        summary = queries.run_summary(database, run)
        assert summary is not None and (summary.state, summary.counts) == ("complete", {"ok": 2 * replicates})
        assert {m.n for m in of_the_plan(queries.measurements_of_run(database, run))} == {replicates}


def test_output_to_a_full_disk_ends_no_run(site: Site, small_disk: Path) -> None:
    out, err = small_disk / "out.jsonl", small_disk / "err.log"
    places = {"PYROMETER_DATA_DIR": str(small_disk / "data")}
    options = ["--suite", "quick", "--cases", "cases.py", *site.narrowed("quick"), "--json"]
    with out.open("wb") as stdout, err.open("wb") as stderr:
        process = subprocess.Popen(
            [COMMAND, "run", *options],
            cwd=site.folder,
            env=site.environ(places),
            stdin=subprocess.DEVNULL,
            stdout=stdout,
            stderr=stderr,
        )
    try:
        give_up = time.monotonic() + PATIENCE_SECONDS
        while b'"event": "outcome"' not in out.read_bytes():
            assert time.monotonic() < give_up and process.poll() is None, err.read_text()
            time.sleep(0.01)
        with filled(small_disk):
            code = process.wait(PATIENCE_SECONDS)
    finally:
        process.kill()
        process.wait()
    assert code == 0, err.read_text()
    (path,) = (small_disk / "data" / "runs").glob(f"*/{journal.FILE}")
    run = path.parent.name
    assert 1 <= len(journal.read_contents(path).outcomes) < 4
    as_if_nothing_had_happened(site.url, run, replicates=2)
    with path.open("ab") as file:
        file.write((site.temporary / f"pyrometer-{run}.jsonl").read_bytes())
    kept = journal.read_contents(path)
    assert kept.set_aside == () and [o.status for o in kept.outcomes] == ["ok"] * 4


def test_a_reader_that_goes_away_while_outcomes_wait_in_memory_loses_none(
    site: Site, small_disk: Path
) -> None:
    running = site.start_suite("quick", PYROMETER_DATA_DIR=str(small_disk / "data"))
    run = str(running.until("began")["run"])
    running.until("outcome")
    with filled(small_disk):
        running.until("note", text=WAITS)
        # That note may have been about the canary.
        running.until("outcome")
        assert running.process.stdout is not None
        running.process.stdout.close()
        code = running.process.wait(PATIENCE_SECONDS)
    assert code == 130 and "the output is closed: stopped" in running.said()
    assert f"--resume {run}" in running.said() and "Traceback" not in running.said()
    wait_until_gone(run)
    note = re.search(r"note: \d+ lines did not fit .* saved in (\S+); append them to (\S+)", running.said())
    assert note, running.said()
    rescued, target = Path(note[1]), Path(note[2])
    before = len(journal.read_contents(target).outcomes)
    with target.open("ab") as file:
        file.write(rescued.read_bytes())
    kept = journal.read_contents(target)
    assert kept.set_aside == () and before < len(kept.outcomes)


def test_the_database_alone_on_a_disk_that_fills(site: Site, small_disk: Path) -> None:
    url = f"sqlite:///{small_disk}/pyrometer.db"
    one = ("--suite", "quick", "--cases", "cases.py", "--case", ADD)
    running = site.start(*one, *ONCE, PYROMETER_DATABASE_URL=url)
    running.until("phase", phase="measure")
    with filled(small_disk):
        done = running.end()
    assert done.code == 0, done
    assert not done.events[-1]["stored"]
    assert sum("disk is full" in note for note in notes(done)) == 1, "the same problem is reported once"
    assert len(journal.read_contents(site.journal(done.run)).outcomes) == 1
    the_next_command_stores(site, done, url, 1, PYROMETER_DATABASE_URL=url)


def test_a_disk_that_is_full_from_the_start_is_said_in_a_sentence(site: Site, small_disk: Path) -> None:
    with filled(small_disk):
        done = site.run("quick", PYROMETER_DATA_DIR=str(small_disk / "data"))
    assert "No space left on device" in done.one_sentence()
