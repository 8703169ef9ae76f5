"""Ctrl-C, SIGTERM, a closed terminal: the run ends, what is measured stays."""

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
from collections import defaultdict
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass

import psutil
import pytest

from db.connection.engine import open_database
from db.runs import queries
from runner import journal
from runner.execution.canary_runner import CASES
from support.site import (
    ADD,
    COMMAND,
    PATIENCE_SECONDS,
    Done,
    Site,
    of_the_plan,
    one_site,
    own_cpu,
    wait_until_gone,
)

pytestmark = pytest.mark.torch

ONCE = ("--replicates", "1")


def interrupted(done: Done) -> str:
    """Check what an interrupted `--json` run leaves behind; answers the run."""
    assert done.code == 130, done
    assert "Traceback" not in done.err
    assert done.events[-1]["state"] == "interrupted"
    assert f"resume with: pyrometer run --resume {done.run}\n" in done.err
    wait_until_gone(done.run)
    return done.run


@dataclass(frozen=True)
class GoneOn:
    """A run that Ctrl-C ended in mid-run, what it left behind, and what the printed command made of it."""

    site: Site
    ended: Done
    kept: journal.Contents
    stored: int
    state: str
    resumed: Done


@pytest.fixture(scope="module")
def gone_on(tmp_path_factory: pytest.TempPathFactory) -> Iterator[GoneOn]:
    """One for all tests that look at such a run."""
    for site in one_site(tmp_path_factory.mktemp("gone-on")):
        running = site.start_suite("quick", *ONCE)
        running.until("outcome")
        running.until("phase", phase="measure")
        running.process.send_signal(signal.SIGINT)
        done = running.end()
        run = interrupted(done)
        kept = journal.read_contents(site.journal(run))
        with open_database(site.url, create=False) as database:
            stored = len(of_the_plan(queries.outcomes_of_run(database, run)))
            summary = queries.run_summary(database, run)
        command = re.search(r"resume with: pyrometer (.*)", done.err)
        assert command and summary
        yield GoneOn(site, done, kept, stored, summary.state, site.call(*command[1].split()))


def test_ctrl_c_in_mid_run_ends_it_and_the_printed_command_goes_on(gone_on: GoneOn) -> None:
    done, kept, run = gone_on.ended, gone_on.kept, gone_on.ended.run
    assert len(kept.outcomes) == len([e for e in done.events if e["event"] == "outcome"]) >= 1
    assert gone_on.stored == len(kept.outcomes)
    assert gone_on.state == "interrupted"

    assert gone_on.resumed.code == 0, gone_on.resumed
    assert "is complete: 2 ok of 2 planned" in gone_on.resumed.out
    whole = journal.read_contents(gone_on.site.journal(run))
    assert whole.outcomes[: len(kept.outcomes)] == kept.outcomes
    with open_database(gone_on.site.url, create=False) as database:
        assert len(of_the_plan(queries.outcomes_of_run(database, run))) == 2
        summary = queries.run_summary(database, run)
        assert summary is not None and summary.state == "complete"


def test_the_canary_sings_between_sessions_and_a_resumed_run_counts_on(gone_on: GoneOn) -> None:
    before, run = gone_on.kept.canaries, gone_on.ended.run
    assert [outcome.replicate for outcome in before[:2]] == [0, 0], "before the first session"

    done = gone_on.resumed
    assert done.code == 0 and "is complete: 2 ok of 2 planned" in done.out
    assert "canary" not in done.out, "it is no case of the suite"
    contents = journal.read_contents(gone_on.site.journal(run))
    assert contents.canaries[: len(before)] == before and contents.set_aside == ()
    numbers: dict[str, list[int]] = defaultdict(list)
    for outcome in contents.canaries:
        assert outcome.status == "ok", outcome
        numbers[outcome.case].append(outcome.replicate)
    assert list(numbers) == list(CASES)
    boundaries = len(before) // 2 + 2
    assert all(len(found) >= boundaries and found == [*range(len(found))] for found in numbers.values())
    assert max(o.started_at for o in contents.canaries) > max(o.started_at for o in contents.outcomes)

    with open_database(gone_on.site.url, create=False) as database:
        summary, record = queries.run_summary(database, run), queries.run_record(database, run)
        assert summary is not None and record is not None
        assert (summary.counts, summary.planned) == ({"ok": 2}, 2)
        assert len(summary.torch_versions) == 1, "the canary is no PyTorch"
        assert [e.name for e in record.environments] == ["default", "canary"]
        stored = queries.outcomes_of_run(database, run)
        assert len(stored) == 2 + len(contents.canaries) and len(of_the_plan(stored)) == 2
        latency = {m.case: m for m in queries.measurements_of_run(database, run) if m.metric == "latency"}
        for case, found in numbers.items():
            assert latency[case].n == len(found)
            samples = queries.samples(database, run, case, record.environments[1].fingerprint, 0)
            assert samples == next(o.blocks for o in contents.canaries if o.case == case)


def test_a_second_signal_at_once_hurries_and_leaves_no_process(site: Site) -> None:
    running = site.start_suite("quick")
    run = str(running.until("began")["run"])
    running.until("phase", phase="measure")
    for _ in range(2):
        running.process.send_signal(signal.SIGINT)
    done = running.end()
    assert done.code == 130, done
    assert f"--resume {run}" in done.err and "Traceback" not in done.err
    wait_until_gone(run)
    assert journal.read_contents(site.journal(run)).set_aside == ()


def test_a_closed_terminal_does_the_same_even_before_the_first_case_stands(site: Site) -> None:
    # The tests may run with SIGHUP ignored (nohup does that), and a child inherits it.
    before = signal.signal(signal.SIGHUP, signal.SIG_DFL)
    try:
        running = site.start_suite("quick")
    finally:
        signal.signal(signal.SIGHUP, before)
    running.until("began")
    running.process.send_signal(signal.SIGHUP)
    run = interrupted(running.end())
    assert journal.read_contents(site.journal(run)).ended is not None


def test_a_signal_to_the_whole_tree_is_no_crash_of_a_case(site: Site) -> None:
    running = site.start_suite("quick")
    running.until("phase", phase="measure")
    tree = psutil.Process(running.process.pid)
    # As scancel does it, and systemd by default: all of them, the oldest first.
    for process in (tree, *tree.children(recursive=True)):
        with suppress(psutil.NoSuchProcess):
            process.send_signal(signal.SIGTERM)
    run = interrupted(running.end())
    kept = journal.read_contents(site.journal(run))
    assert {outcome.status for outcome in kept.outcomes} <= {"ok"}
    assert len(kept.outcomes) < 4


def test_a_signal_before_anything_is_measured(site: Site) -> None:
    running = site.start_suite("quick")
    give_up = time.monotonic() + PATIENCE_SECONDS
    # The harness is written before the environment is asked, which takes seconds.
    while not list(site.folder.glob(".pyrometer/harness/harness-*")):
        assert time.monotonic() < give_up
        time.sleep(0.01)
    running.process.send_signal(signal.SIGTERM)
    done = running.end()
    assert (done.code, done.out) == (130, "")
    assert done.err.strip() == "interrupted before anything was measured"
    assert not (site.folder / ".pyrometer" / "runs").exists()


def test_nohup_keeps_a_run_alive_when_the_terminal_closes_and_where_there_is_none_there_are_plain_lines(
    site: Site,
) -> None:
    before = signal.signal(signal.SIGHUP, signal.SIG_IGN)
    try:
        process = subprocess.Popen(
            [COMMAND, "run", "--suite", "quick", "--cases", "cases.py", "--case", ADD, *ONCE],
            cwd=site.folder,
            env=site.environ({}),
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            text=True,
        )
    finally:
        signal.signal(signal.SIGHUP, before)
    with process:
        assert process.stdout is not None
        try:
            lines = [process.stdout.readline().rstrip("\n")]
            process.send_signal(signal.SIGHUP)
            lines += process.stdout.read().splitlines()
            code = process.wait(PATIENCE_SECONDS)
        finally:
            process.kill()
    assert code == 0, lines
    assert "\x1b" not in "".join(lines)
    assert re.fullmatch(r"run \S+: suite quick, 1 case, 1 replicate, torch .*, about [\d:]+", lines[0])
    assert [line for line in lines if line.startswith(f"  1/1 {ADD} #0: ")]
    assert re.fullmatch(r"run \S+ is complete: 1 ok of 1 planned, in [\d:]+", lines[-1])


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
    assert "is interrupted" in text and "resume with: pyrometer run --resume" in text
    assert "Traceback" not in text


def threads_stay_on_the_housekeeping_cpus(pid: int) -> None:
    """No thread of the controller, the display's included, may run where something is measured."""
    free = os.sched_getaffinity(0) - {own_cpu()}
    if free:
        for thread in os.listdir(f"/proc/{pid}/task"):
            assert os.sched_getaffinity(int(thread)) <= free
