"""One case over two machines: real gloo between two network namespaces, and what becomes of a loss."""

import os
import signal
import time
from collections.abc import Iterator
from typing import Any

import psutil
import pytest
from measuring import CASE_FILES, Scratch, alive, wait_until
from measuring_site import Done
from two_machines import ADDRESS, AHEAD_SECONDS, NAME, Machines, next_of, outcomes, stopped, two_machines

from db.connection.engine import open_database
from db.queue.queries import tasks
from db.runs.queries import outcomes_of_run, run_record
from runner.worker.distributed.tcp_channel import DEAD_SECONDS

pytestmark = [pytest.mark.torch, pytest.mark.timeout(600)]

DDP = "blocks/train/batch=4/nodes=2,parallel=ddp,ranks=2"
TORCHRUN = "blocks/train/batch=4/launcher=torchrun,nodes=2,parallel=ddp,ranks=2"
FSDP2 = "blocks/train/batch=4/nodes=2,parallel=fsdp2,ranks=2"
ZERO1 = "blocks/train/batch=4/nodes=2,parallel=zero1,ranks=2"
TENSOR = "blocks/train/batch=4/nodes=2,parallel=tp,ranks=2"
PIPELINE = "blocks/train/batch=4/nodes=2,parallel=pp,ranks=2"
#: A schedule that is fired by hand.
PAIR = """
[schedules.pair]
cron = "0 0 1 1 *"
enabled = false
suite = "smoke"
replicates = 1
profile = "as-it-comes"
case_files = ["{file}"]
cases = ["{case}"]
neighbours = ["{address}"]
"""
OVER_TWO = [DDP, TORCHRUN, FSDP2, ZERO1, TENSOR, PIPELINE]
DIES = "ends/train/how=dies/nodes=2,parallel=ddp,ranks=2"
STOPS = "ends/train/how=stops/nodes=2,parallel=ddp,ranks=2"
ONCE = "ends/train/how=once/nodes=2,parallel=ddp,ranks=2"


@pytest.fixture(scope="module")
def machines(module_scratch: Scratch) -> Iterator[Machines]:
    """Two of them, for all tests here."""
    yield from two_machines(module_scratch.folder, CASE_FILES / "over_nodes.py")


@pytest.fixture(scope="module")
def measured(machines: Machines) -> Done:
    """One run of everything that ends by itself."""
    lender, pid = machines.lend()
    done = machines.run(*OVER_TWO, DIES).end()
    os.kill(pid, signal.SIGTERM)
    ended = lender.end()
    assert (ended.code, ended.events[-1]["event"]) == (0, "stopped"), ended
    return done


def outcome_of(done: Done, case: str) -> dict[str, Any]:
    """The outcome of a case, as `--json` tells it."""
    return outcomes(done.out.splitlines())[case]


def lent_processes() -> list[int]:
    """Whatever was started for another machine and lives."""
    found: list[int] = []
    for process in psutil.process_iter():
        try:
            token = process.environ().get("PYROMETER_TOKEN", "")
        except psutil.Error:
            continue
        if token.startswith("lent:") and alive(process.pid):
            found.append(process.pid)
    return found


@pytest.mark.parametrize("case", OVER_TWO)
def test_ranks_on_two_machines_compute_what_one_process_computes(measured: Done, case: str) -> None:
    outcome = outcome_of(measured, case)
    assert (outcome["status"], outcome["reason"]) == ("ok", ""), measured.err
    assert outcome["facts"]["check"]["error"] <= outcome["facts"]["check"]["tolerance"]
    assert outcome["facts"]["exit"]["strays"] == []
    assert lent_processes() == []


def test_who_took_part_and_how_is_told(measured: Done, machines: Machines) -> None:
    facts = outcome_of(measured, DDP)["facts"]
    first, second = facts["members"]
    assert ("neighbour" not in first, second["neighbour"]) == (True, NAME)
    assert (first["during_block"]["held"], second["during_block"]) == (True, None)
    (neighbour,) = facts["neighbours"]
    assert (neighbour["name"], neighbour["address"]) == (NAME, ADDRESS)
    assert facts["interface"] == machines.interface
    assert not {"key", "loan"} & neighbour.keys()


@pytest.mark.parametrize("case", OVER_TWO)
def test_the_other_clock_is_known_as_well_as_is_said(measured: Done, case: str) -> None:
    (neighbour,) = outcome_of(measured, case)["facts"]["neighbours"]
    # The namespaces share one clock but for the shift that they were made with.
    wrong = abs(neighbour["clock_offset_ns"] - AHEAD_SECONDS * 1_000_000_000)
    assert wrong <= neighbour["clock_error_ns"]


def test_the_run_belongs_to_the_hardware_of_both(measured: Done) -> None:
    machine = measured.events[0]["about"]["machine"]
    (neighbour,) = machine["neighbours"]
    assert machine["hardware_label"] == f"2 x ({neighbour['hardware_label']})"
    assert machine["hardware_fingerprint"] != neighbour["hardware_fingerprint"]
    ended = measured.events[-1]
    assert (ended["event"], ended["stored"]) == ("ended", True)


def test_a_schedule_measures_with_the_neighbours_that_it_names(machines: Machines) -> None:
    lender, pid = machines.lend()
    site = machines.sites[0]
    before = (site.folder / "pyrometer.toml").read_text()
    pair = PAIR.format(file=CASE_FILES / "over_nodes.py", case=DDP, address=ADDRESS)
    (site.folder / "pyrometer.toml").write_text(before + pair)
    for command in (("schedule", "fire", "pair"), ("scheduler", "--once", "--log", "json")):
        done = machines.call(*command)
        assert done.returncode == 0, done.stderr
    os.kill(pid, signal.SIGTERM)
    assert lender.end().code == 0
    with open_database(site.url) as database:
        (task,) = tasks(database, schedule="pair")
        assert task.state == "done", done.stdout
        run = run_record(database, str(task.run_id))
        assert run is not None and run.machine.hardware.label.startswith("2 x (")
        measured = [outcome.status for outcome in outcomes_of_run(database, run.id) if outcome.case == DDP]
    assert measured == ["ok"]


def test_a_rank_killed_on_the_other_machine_is_named(measured: Done) -> None:
    outcome = outcome_of(measured, DIES)
    told = (outcome["status"], outcome["reason"])
    assert told == ("crashed", f"rank 1 on {NAME} was killed by SIGKILL")


def test_a_link_cut_in_mid_step_is_noticed_and_the_case_measured_again(
    machines: Machines, module_scratch: Scratch
) -> None:
    lender, pid = machines.lend()
    running = machines.run(ONCE)
    wait_until(lambda: stopped(module_scratch, "once"), "rank 1 stops")
    machines.plug(0, "down")
    # Neither side is told: each has to notice by itself.
    assert lender.until("ended")["left_over"] == []
    assert lent_processes() == []
    # The leader's kernel gives its lines up by itself; plugged in before, the lender would tell it why.
    time.sleep(2 * DEAD_SECONDS)
    machines.plug(0, "up")
    outcome = outcome_of(running.end(), ONCE)
    assert (outcome["status"], outcome["reason"]) == ("ok", "")
    before = outcome["facts"]["lost_before"][0]
    assert before.startswith(f"rank 1 on {NAME}: the connection was lost (")
    os.kill(pid, signal.SIGTERM)
    assert lender.end().code == 0


def test_a_lender_killed_in_mid_step_leaves_nobody(machines: Machines, module_scratch: Scratch) -> None:
    _, pid = machines.lend()
    running = machines.run(STOPS)
    wait_until(lambda: stopped(module_scratch, "stops"), "rank 1 stops")
    os.kill(pid, signal.SIGKILL)
    outcome = outcome_of(running.end(), STOPS)
    assert outcome["status"] == "lost"
    unreachable = f"neighbour {ADDRESS}: {ADDRESS} cannot be reached: Connection refused"
    assert outcome["reason"] == f"lost 3 times, at last: {unreachable}"
    first = outcome["facts"]["lost_before"][0]
    assert first == f"rank 1 on {NAME}: {NAME} lends itself no longer"
    wait_until(lambda: lent_processes() == [], "the supervisor has cleared up")


def test_a_leader_killed_in_mid_step_gives_the_machine_back(
    machines: Machines, module_scratch: Scratch
) -> None:
    lender, pid = machines.lend()
    for file in module_scratch.folder.glob("stops*.pid"):
        file.unlink()
    running = machines.run(STOPS)
    wait_until(lambda: stopped(module_scratch, "stops"), "rank 1 stops")
    os.kill(running.process.pid, signal.SIGKILL)
    # Either may be noticed first: that the run is gone, or its worker.
    told = [next_of(lender, "ended", "returned") for _ in range(2)]
    assert sorted(one["event"] for one in told) == ["ended", "returned"]
    assert [one["left_over"] for one in told if one["event"] == "ended"] == [[]]
    assert lent_processes() == []
    os.kill(pid, signal.SIGTERM)
    assert lender.end().code == 0
