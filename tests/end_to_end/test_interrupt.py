"""Ctrl-C, SIGTERM, a closed terminal, a reader that went away: the run ends, what is measured stays."""

import fcntl
import os
import pty
import re
import select
import signal
import struct
import subprocess
import termios
import time
from contextlib import suppress

import psutil
import pytest
from measuring_site import COMMAND, PATIENCE_SECONDS, Done, Site, of_the_plan, wait_for_nobody

from db import queries
from db.engine import open_database
from runner import journal

pytestmark = pytest.mark.torch


def interrupted(done: Done) -> str:
    """Check what an interrupted `--json` run leaves behind; answers the run."""
    assert done.code == 130, done
    assert "Traceback" not in done.err
    assert done.events[-1]["state"] == "interrupted"
    assert f"go on with: pyrometer run --resume {done.run}\n" in done.err
    wait_for_nobody(done.run)
    return done.run


def test_ctrl_c_in_mid_run_ends_it_and_the_printed_command_goes_on(site: Site) -> None:
    running = site.start_suite("quick")
    running.until("outcome")
    running.until("phase", phase="measure")
    running.process.send_signal(signal.SIGINT)
    done = running.end()
    run = interrupted(done)
    kept = journal.read(site.journal(run))
    assert len(kept.outcomes) == len([e for e in done.events if e["event"] == "outcome"]) >= 1
    with open_database(site.url, create=False) as database:
        assert len(of_the_plan(queries.outcomes_of_run(database, run))) == len(kept.outcomes)
        summary = queries.run_summary(database, run)
        assert summary is not None and summary.state == "interrupted"

    command = re.search(r"go on with: pyrometer (.*)", done.err)
    assert command
    resumed = site.call(*command[1].split())
    assert resumed.code == 0, resumed
    assert "is complete: 4 ok of 4 planned" in resumed.out
    whole = journal.read(site.journal(run))
    assert whole.outcomes[: len(kept.outcomes)] == kept.outcomes
    with open_database(site.url, create=False) as database:
        assert len(of_the_plan(queries.outcomes_of_run(database, run))) == 4
        summary = queries.run_summary(database, run)
        assert summary is not None and summary.state == "complete"


def test_a_second_signal_at_once_hurries_and_leaves_nobody(site: Site) -> None:
    running = site.start_suite("quick")
    run = str(running.until("began")["run"])
    running.until("phase", phase="measure")
    for _ in range(2):
        running.process.send_signal(signal.SIGINT)
    done = running.end()
    assert done.code == 130, done
    assert f"--resume {run}" in done.err and "Traceback" not in done.err
    wait_for_nobody(run)
    assert journal.read(site.journal(run)).set_aside == ()


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGHUP])
def test_other_signals_do_the_same_even_before_the_first_case_stands(
    site: Site, number: signal.Signals
) -> None:
    # Whoever runs the tests may ignore SIGHUP (nohup does), and a child inherits that.
    before = signal.signal(number, signal.SIG_DFL)
    try:
        running = site.start_suite("quick")
    finally:
        signal.signal(number, before)
    running.until("began")
    running.process.send_signal(number)
    run = interrupted(running.end())
    assert journal.read(site.journal(run)).ended is not None


def test_a_signal_to_the_whole_tree_is_no_crash_of_a_case(site: Site) -> None:
    running = site.start_suite("long")
    running.until("outcome")
    running.until("phase", phase="measure")
    tree = psutil.Process(running.process.pid)
    # As scancel does it, and systemd where nobody says otherwise: all of them, the oldest first.
    for process in (tree, *tree.children(recursive=True)):
        with suppress(psutil.NoSuchProcess):
            process.send_signal(signal.SIGTERM)
    run = interrupted(running.end())
    kept = journal.read(site.journal(run))
    assert {outcome.status for outcome in kept.outcomes} == {"ok"}
    assert len(kept.outcomes) < 12


def test_a_signal_before_anything_is_measured(site: Site) -> None:
    running = site.start_suite("quick")
    give_up = time.monotonic() + PATIENCE_SECONDS
    # The harness is written before the environment is asked, which takes seconds.
    while not list(site.folder.glob(".pyrometer/harness/*.zip")):
        assert time.monotonic() < give_up
        time.sleep(0.01)
    running.process.send_signal(signal.SIGTERM)
    done = running.end()
    assert (done.code, done.out) == (130, "")
    assert done.err.strip() == "interrupted before anything was measured"
    assert not (site.folder / ".pyrometer" / "runs").exists()


def test_nohup_keeps_a_run_alive_when_the_terminal_closes(site: Site) -> None:
    before = signal.signal(signal.SIGHUP, signal.SIG_IGN)
    try:
        running = site.start_suite("quick", "--replicates", "1")
    finally:
        signal.signal(signal.SIGHUP, before)
    running.until("began")
    running.process.send_signal(signal.SIGHUP)
    done = running.end()
    assert done.code == 0, done
    assert done.events[-1]["state"] == "complete"


def test_a_reader_that_goes_away_stops_the_run_and_loses_nothing(site: Site) -> None:
    running = site.start_suite("quick")
    run = str(running.until("began")["run"])
    running.until("outcome")
    assert running.process.stdout is not None
    running.process.stdout.close()
    code = running.process.wait(PATIENCE_SECONDS)
    err = (site.folder / "stderr-0").read_text()
    assert code == 1 and "Traceback" not in err
    assert f"--resume {run}" in err
    wait_for_nobody(run)
    assert journal.read(site.journal(run)).outcomes


def test_on_a_terminal_there_is_a_live_display_and_ctrl_c_gives_the_terminal_back(
    site: Site,
) -> None:
    controller, terminal = pty.openpty()
    fcntl.ioctl(terminal, termios.TIOCSWINSZ, struct.pack("HHHH", 40, 140, 0, 0))
    before = termios.tcgetattr(terminal)

    def own_terminal() -> None:
        os.setsid()
        fcntl.ioctl(0, termios.TIOCSCTTY, 0)

    process = subprocess.Popen(
        [COMMAND, "run", "--suite", "quick", "--cases", "cases.py", *site.narrowed("quick")],
        cwd=site.folder,
        env=site.environ({"TERM": "xterm-256color", "OPENBLAS_NUM_THREADS": "1"}),
        stdin=terminal,
        stdout=terminal,
        stderr=terminal,
        preexec_fn=own_terminal,
    )
    shown = b""
    pressed = False
    give_up = time.monotonic() + PATIENCE_SECONDS
    try:
        while process.poll() is None or select.select([controller], [], [], 0)[0]:
            assert time.monotonic() < give_up, shown
            if select.select([controller], [], [], 0.1)[0]:
                shown += os.read(controller, 1 << 16)
            if not pressed and b"measuring" in shown:
                threads_stay_on_the_housekeeping_cpus(process.pid)
                os.write(controller, b"\x03")
                pressed = True
        after = termios.tcgetattr(terminal)
    finally:
        process.kill()
        process.wait()
        os.close(controller)
        os.close(terminal)
    text = shown.decode()
    assert process.returncode == 130, text
    assert after == before
    assert text.rindex("\x1b[?25h") > text.rindex("\x1b[?25l"), "the cursor is shown again"
    assert "0/4" in text and "left" in text
    assert "is interrupted" in text and "go on with: pyrometer run --resume" in text
    assert "Traceback" not in text


def threads_stay_on_the_housekeeping_cpus(pid: int) -> None:
    """No thread of the controller, the display's included, may run where something is measured."""
    free = min(os.sched_getaffinity(0))
    if len(os.sched_getaffinity(0)) < 2:
        return
    for thread in os.listdir(f"/proc/{pid}/task"):
        allowed = os.sched_getaffinity(int(thread))
        assert free in allowed and allowed != os.sched_getaffinity(0)


def test_where_there_is_no_terminal_there_are_plain_lines(site: Site) -> None:
    done = site.run("quick", "--replicates", "1")
    assert done.code == 0, done
    assert "\x1b" not in done.out
    lines = done.out.splitlines()
    assert re.fullmatch(r"run \S+: suite quick, 2 cases, 2 replicates, torch .*, about [\d:]+", lines[0])
    assert [line for line in lines if line.startswith("  1/2 add/infer/size=8/eager #0: ")]
    assert [line for line in lines if line.startswith("  2/2 linear/infer/width=8/eager #0: ")]
    assert re.fullmatch(r"run \S+ is complete: 2 ok of 2 planned, in [\d:]+", lines[-1])
