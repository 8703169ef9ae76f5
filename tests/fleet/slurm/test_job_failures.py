"""Jobs of a real Slurm cluster that are cancelled, lost or time out, or never start."""

import re
import subprocess
import sys
import time
from pathlib import Path

import pytest

from configuration.schema import SlurmSettings
from fleet.engine import NodeRefused, Order
from fleet.slurm import queue as slurm_queue
from runner import journal
from scheduled_jobs.jobs.context import ChildExit, ChildLost
from support.servers.fleet_heads import RUN, under_way
from support.servers.schedulers import executions, executions_of, wait_until_midway
from support.servers.slurm_cluster import SlurmCluster
from support.servers.slurm_site import WELL, Site
from support.waiting import until

pytestmark = pytest.mark.slow


def sentence_of(ended: ChildExit) -> str:
    """Why a job ended whose processes all got SIGTERM at once; which ends first is chance."""
    assert ended.code in (None, 130)
    return ended.sentence


def test_a_node_that_goes_down_is_lost_at_once(at_slurm: Site, cluster: SlurmCluster) -> None:
    with under_way(lambda: at_slurm.measure("patient", name="alpha")) as future:
        at_slurm.midway()
        cluster.set_node("alpha", "down")
    # The node is alive, and its job stored its results; one without power could not.
    sentence = r"its job \d+ is NODE_FAIL: Slurm lost its node"
    assert re.fullmatch(sentence, sentence_of(future.result()))
    assert len(journal.read_contents(at_slurm.data_dir / "runs" / RUN / journal.FILE).outcomes) == 2
    assert at_slurm.there() == ["beta"]
    cluster.set_node("alpha", "resume")
    at_slurm.go_on()
    until(lambda: at_slurm.there() == ["alpha", "beta"], "it is back")
    assert at_slurm.resume(name="alpha") == WELL
    assert executions(at_slurm.node_data()) == executions_of(RUN)


def test_a_node_that_goes_down_before_the_job_began_is_not_waited_for(
    at_slurm: Site, cluster: SlurmCluster
) -> None:
    cluster.call("sbatch", "--nodelist=alpha", "--exclusive", "--output=/dev/null", "--wrap=sleep 600")
    until(lambda: cluster.jobs("--states=RUNNING"), "another one's job has the node")
    with under_way(lambda: at_slurm.measure("quick", name="alpha")) as future:
        until(lambda: "waits in Slurm's queue" in at_slurm.all_logs(), "it waits")
        cluster.set_node("alpha", "drain", "its fan is loud")
    with pytest.raises(ChildLost, match=r"in Slurm it is draining \(its fan is loud\)"):
        future.result()
    assert [job[2] for job in cluster.jobs()] == ["wrap"]


def test_a_job_that_is_cancelled_from_outside(at_slurm: Site, cluster: SlurmCluster) -> None:
    with under_way(lambda: at_slurm.measure("patient", name="alpha")) as future:
        at_slurm.midway()
        number = at_slurm.number()
        cluster.call("scancel", number)
    assert sentence_of(future.result()) == f"its job {number} is CANCELLED: it was cancelled from outside"
    assert len(journal.read_contents(at_slurm.data_dir / "runs" / RUN / journal.FILE).outcomes) == 2
    assert at_slurm.mirror() == at_slurm.journal()


def test_a_job_that_is_terminated_from_outside(at_slurm: Site, cluster: SlurmCluster) -> None:
    with under_way(lambda: at_slurm.measure("patient", name="alpha")) as future:
        at_slurm.midway()
        # What Slurm does by itself shortly before the time limit.
        cluster.call("scancel", "--batch", "--signal=TERM", at_slurm.number())
    assert future.result() == ChildExit(130, None, "its job in Slurm was terminated from outside")
    assert at_slurm.mirror() == at_slurm.journal()


def test_a_job_that_is_killed_from_outside(at_slurm: Site, cluster: SlurmCluster) -> None:
    with under_way(lambda: at_slurm.measure("deaf", name="alpha")) as future:
        at_slurm.midway()
        cluster.call("scancel", at_slurm.number())
    with pytest.raises(ChildLost, match=r"its job \d+ is CANCELLED: it was cancelled from outside"):
        future.result()
    assert at_slurm.mirror() == at_slurm.journal()


def test_the_controller_is_killed_and_comes_back(at_slurm: Site, cluster: SlurmCluster) -> None:
    with under_way(lambda: at_slurm.measure("patient", name="alpha")) as future:
        at_slurm.midway()
        cluster.kill_controller()
        time.sleep(2)
        assert not future.done()
        cluster.start_controller()
        at_slurm.go_on()
    assert future.result() == WELL
    assert executions(at_slurm.node_data()) == executions_of(RUN)
    assert at_slurm.mirror() == at_slurm.journal()


def test_a_controller_that_stays_away_is_not_waited_for_for_ever(
    at_slurm: Site, cluster: SlurmCluster, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(slurm_queue, "AWAY_SECONDS", 3.0)
    with under_way(lambda: at_slurm.measure("patient", name="alpha")) as future:
        at_slurm.midway()
        cluster.kill_controller()
        with cluster.impatience(), pytest.raises(ChildLost, match="Slurm was away for"):
            future.result()
    cluster.start_controller()
    until(lambda: cluster.states() and at_slurm.there(), "it is back")
    # An abandoned job does not run at the same time as the next one.
    monkeypatch.setattr(slurm_queue, "ABANDONED_SECONDS", 0.0)
    until(lambda: at_slurm.there() and not cluster.jobs(), "its job is cancelled")
    at_slurm.go_on()
    assert at_slurm.resume(name="alpha") == WELL
    assert executions(at_slurm.node_data()) == executions_of(RUN)


@pytest.mark.parametrize(
    ("settings", "said"),
    [
        (SlurmSettings(partition="none"), "invalid partition"),
        (SlurmSettings(arguments=("--constraint=nothing",)), "feature"),
    ],
)
def test_a_refusal_of_slurm_is_reported(at_slurm: Site, settings: SlurmSettings, said: str) -> None:
    other = Site(at_slurm.folder, at_slurm.cluster, settings)
    with pytest.raises(ChildLost, match=f"(?i)node alpha: Slurm refuses a job on alpha: sbatch: .*{said}"):
        other.measure("quick", name="alpha")


def test_a_job_that_will_never_begin_is_not_waited_for(at_slurm: Site, cluster: SlurmCluster) -> None:
    other = Site(at_slurm.folder, at_slurm.cluster, SlurmSettings(partition="short", time_limit_hours=1))
    with pytest.raises(ChildLost, match=r"Slurm will never begin job \d+ \(PartitionTimeLimit\)"):
        other.measure("quick", name="alpha")
    assert cluster.jobs() == []


def test_a_program_that_is_not_on_the_nodes_is_named(at_slurm: Site) -> None:
    other = Site(at_slurm.folder, at_slurm.cluster, SlurmSettings(python=Path("/no/such/python")))
    with pytest.raises(ChildLost, match=r"its job \d+ is FAILED, .*: .*/no/such/python: not found"):
        other.measure("quick", name="alpha")


DYING_HEAD = """
import os, signal, sys, time
from pathlib import Path
from configuration.schema import SlurmSettings
from fleet.engine import Order
from fleet.slurm.engine import SlurmEngine
shared, script, folder = map(Path, sys.argv[1:4])
engine = SlurmEngine(SlurmSettings(), shared, folder, None, command=[str(script)], folder=folder)
engine.submit(Order("alpha", tuple(sys.argv[4:]), sys.argv[-1]))
os.kill(os.getpid(), signal.SIGKILL)
"""


def test_a_job_of_a_dead_head_is_cancelled_by_the_next(at_slurm: Site, cluster: SlurmCluster) -> None:
    arguments = ("run", "--environment", "patient", "--run-id", RUN)
    paths = (str(at_slurm.shared), str(at_slurm.folder / "pyrometer.sh"), str(at_slurm.folder))
    subprocess.run([sys.executable, "-c", DYING_HEAD, *paths, *arguments], check=False)
    wait_until_midway(at_slurm.node_data())
    assert [job[1] for job in cluster.jobs()] == ["RUNNING"]
    until(lambda: at_slurm.there() and not cluster.jobs(), "it is cancelled")
    at_slurm.go_on()
    assert at_slurm.resume(name="alpha") == WELL
    assert executions(at_slurm.node_data()) == executions_of(RUN)
    assert at_slurm.mirror() == at_slurm.journal()


def test_a_job_that_is_submitted_twice_is_done_once(at_slurm: Site, cluster: SlurmCluster) -> None:
    order = Order("alpha", ("run", "--run-id", RUN), RUN)
    for _ in range(2):
        handle = at_slurm.engine.submit(order)
    # The output of sbatch was lost, and the job ended before the next query.
    until(lambda: not cluster.jobs(), "it is over")
    folder = at_slurm.shared / "jobs" / order.token
    (folder / "number").unlink()
    at_slurm.engine.sbatch(at_slurm.engine.queue.poll(order.token), order)
    until(lambda: not cluster.jobs(), "it is over")
    assert executions(at_slurm.node_data()) == executions_of(RUN)
    assert handle.result() == WELL
    assert "has run this order" in (folder / "slurm.out").read_text()


def test_names_that_lead_elsewhere_are_refused(at_slurm: Site) -> None:
    with pytest.raises(NodeRefused, match="is not the token of an order"):
        at_slurm.engine.submit(Order("alpha", ("run",), token="../../etc"))
    for path in ("/etc/passwd", f"{at_slurm.shared}/../head/journal.jsonl"):
        with pytest.raises(NodeRefused, match="is not a file of an order"):
            at_slurm.engine.read_files("alpha", {path: 0}, final=True)
