"""Cases that print, and processes that they leave behind: the numbers stay right and no process survives."""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from runner import preset
from runner.execution.session import OutcomeMeasured, PhaseEntered
from support.measuring import (
    CASE_FILES,
    ENVIRONMENT,
    Happened,
    Scratch,
    conditions,
    follow,
    measure,
    start,
)
from support.processes import alive
from support.site import carriers, wait_until_gone
from support.waiting import until

pytestmark = pytest.mark.torch

FILE = CASE_FILES / "noisy.py"
CONTROLLER = Path(__file__).parent / "scripts/controller.py"

#: Case, and the names of the processes it leaves behind.
LEAVING = {
    "leaves_a_session": ["session"],
    "leaves_all_kinds": [
        *("daemon", "headless", "launcher", "rank0", "rank1"),
        *("pool", "compiling", "spawned0", "spawned1"),
    ],
}
PRINTING = ["floods_stdout", "floods_while_measured", "prints_protocol"]
CONDITIONS = "writes_its_conditions/infer/flag=False/eager"


@pytest.fixture(scope="module")
def happened(module_scratch: Scratch) -> Happened:
    """All of them in one run, under the preset that is measured with by default."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("PYROMETER_DATABASE_URL", "postgresql://somebody:secret@somewhere/db")
        quiet = preset.make("quiet", "quiet", variables={"OF_THE_TEST": "1"})
        shared = conditions(module_scratch.folder, FILE, preset=quiet)
        return measure(shared, [[name] for name in (*LEAVING, *PRINTING, CONDITIONS)])


def log_of(scratch: Scratch, name: str) -> bytes:
    """The log of a case's only replicate."""
    return (scratch.folder / f"run/logs/{ENVIRONMENT}/{name}__infer__-__eager-0.log").read_bytes()


@pytest.mark.parametrize("name", LEAVING)
def test_who_is_left_behind_is_gone_afterwards(
    happened: Happened, module_scratch: Scratch, name: str
) -> None:
    assert happened.of(name).status == "ok", happened.of(name).reason
    left = [pid for child in LEAVING[name] for pid in module_scratch.pids(child)]
    assert len(left) == len(LEAVING[name])
    assert [pid for pid in left if alive(pid)] == []


def test_the_strays_are_named(happened: Happened) -> None:
    assert happened.of("leaves_a_session").facts["exit"]["strays"] == ["sleep"]
    assert happened.of("prints_protocol").facts["exit"]["strays"] == []


def test_no_process_is_left(happened: Happened, module_scratch: Scratch) -> None:
    module_scratch.assert_no_process_left(happened.run)


@pytest.mark.parametrize("name", PRINTING)
def test_printing_changes_no_outcome(happened: Happened, name: str) -> None:
    outcome = happened.of(name)
    assert (outcome.status, outcome.reason) == ("ok", "")
    samples = [sample for block in outcome.blocks for sample in block]
    assert min(samples) / 1e6 <= outcome.metrics["latency"] <= max(samples) / 1e6


def test_a_flood_leaves_a_bounded_log_with_both_ends(happened: Happened, module_scratch: Scratch) -> None:
    assert happened.of("floods_stdout").status == "ok"
    log = log_of(module_scratch, "floods_stdout")
    assert len(log) < 2 << 20
    assert log.startswith(b"the beginning\n")
    assert b"bytes left out ...\n" in log
    assert b"the end\n" in log[-1000:]


def test_what_looks_like_the_protocol_is_only_printed(happened: Happened, module_scratch: Scratch) -> None:
    assert happened.of("prints_protocol").metrics["latency"] != 1e-9
    assert b'{"type":"failed","status":"oom","reason":"no"}' in log_of(module_scratch, "prints_protocol")


def test_a_worker_starts_under_its_preset_and_sees_nothing_of_ours(
    happened: Happened, module_scratch: Scratch
) -> None:
    assert happened.of("writes_its_conditions").status == "ok"
    conditions = json.loads((module_scratch.folder / "conditions.json").read_text())
    quiet = preset.make("quiet", "quiet", variables={"OF_THE_TEST": "1"})
    assert conditions["cpus"] == sorted(quiet.cpus or os.sched_getaffinity(0))
    assert {name: conditions["variables"][name] for name in quiet.variables} == dict(quiet.variables)
    assert [name for name in conditions["variables"] if name.startswith("PYROMETER_")] == ["PYROMETER_TOKEN"]
    assert conditions["stdin"] == ""
    assert conditions["modules"] == []
    assert conditions["flag"] is False


def test_a_killed_controller_takes_everything_with_it(scratch: Scratch) -> None:
    environ = {**os.environ, "PYTHONPATH": str(CONTROLLER.parents[2])}
    controller = subprocess.Popen(
        [sys.executable, str(CONTROLLER), str(scratch.folder), "sleeps_with_a_child"], env=environ
    )
    try:
        until(lambda: len(scratch.pids()) == 2, "the case sleeps beside its child")
        left = scratch.pids()
        assert all(alive(pid) for pid in left)
    finally:
        controller.kill()
        controller.wait()
    run = (scratch.folder / "run.name").read_text()
    wait_until_gone(run)
    until(lambda: not any(alive(pid) for pid in left), "worker and child are gone")


def test_a_cancelled_attempt_has_no_outcome_and_the_next_is_measured(scratch: Scratch) -> None:
    shared = conditions(scratch.folder, FILE)

    def cancel(event: PhaseEntered | OutcomeMeasured) -> None:
        if isinstance(event, PhaseEntered) and event.phase == "first_call":
            slow.cancel()

    with start(shared, "sleeps_with_a_child") as slow:
        happened = follow(slow, shared, cancel)
    assert ([ended.kind for ended in happened.ended], happened.outcomes) == (["cancelled"], ())
    happened = measure(shared, [["prints_protocol"]])
    assert [ended.kind for ended in happened.ended] == ["done"]
    assert happened.of("prints_protocol").status == "ok"
    assert not any(alive(pid) for pid in scratch.pids())
    scratch.assert_no_process_left(shared.run)


def test_closing_cancels_what_runs(scratch: Scratch) -> None:
    shared = conditions(scratch.folder, FILE)
    session = start(shared, "sleeps_with_a_child")
    until(lambda: len(scratch.pids()) == 2, "the case sleeps beside its child")
    assert carriers(shared.run)
    session.close()
    scratch.assert_no_process_left(shared.run)
    assert not any(alive(pid) for pid in scratch.pids())
    happened = follow(session, shared)
    assert [ended.kind for ended in happened.ended] == ["cancelled"]
    assert happened.outcomes == ()
