"""Children as jobs of a real Slurm cluster: node, environment, results."""

import os
import socket
import subprocess
from pathlib import Path

import pytest

from runner import journal, nodes
from scheduled_jobs.jobs.context import JobStopped
from support.fakes.pyrometer_run import CASES
from support.servers.fleet_heads import RUN, under_way
from support.servers.schedulers import executions, executions_of
from support.servers.slurm_cluster import SlurmCluster
from support.servers.slurm_site import WELL, Site
from support.waiting import until

pytestmark = pytest.mark.slow


def test_nodes_are_listed_with_their_labels(at_slurm: Site, cluster: SlurmCluster) -> None:
    assert at_slurm.there() == ["alpha", "beta"]
    labels = {name: at_slurm.engine.describe(name)["labels"] for name in at_slurm.there()}
    assert labels == {"alpha": ["rack7", "a10"], "beta": ["rack7", "gpu:h200", "h200", "gpu"]}
    # The host name of a node is known after its first job.
    assert at_slurm.measure("quick", name="alpha") == WELL
    labels = at_slurm.engine.describe("alpha")["labels"]
    assert labels == ["rack7", "a10", socket.gethostname()]
    cluster.set_node("beta", "drain")
    until(lambda: at_slurm.there() == ["alpha"], "a drained node is not there")
    cluster.set_node("beta", "resume")
    until(lambda: at_slurm.there() == ["alpha", "beta"], "it is back")


def test_a_run_is_mirrored_byte_for_byte(at_slurm: Site) -> None:
    logs = at_slurm.logs()
    assert at_slurm.measure("quick", name="alpha", logs=logs) == WELL
    assert at_slurm.mirror() == at_slurm.journal() != b""
    assert len(journal.read_contents(at_slurm.data_dir / "runs" / RUN / journal.FILE).outcomes) == len(CASES)
    assert at_slurm.events == [{"event": "began"}]
    assert logs.events.read_bytes() == b'{"event": "began"}\n'
    assert executions(at_slurm.node_data()) == executions_of(RUN)
    (there,) = at_slurm.engine.runs("alpha")
    assert (there.run, there.size, there.in_use) == (RUN, len(at_slurm.mirror()), False)


def test_a_job_has_the_node_for_itself_and_no_secret(at_slurm: Site, cluster: SlurmCluster) -> None:
    with under_way(lambda: at_slurm.measure("patient", name="beta")) as future:
        at_slurm.midway("beta")
        job = cluster.call("scontrol", "show", "job", "--oneliner", at_slurm.number())
        wanted = {"Requeue=0", "Restarts=0", "NodeList=beta", "OverSubscribe=NO", "NumNodes=1"}
        assert wanted <= set(job.split())
        assert f"cpu={os.cpu_count()}" in job
        at_slurm.go_on()
    assert future.result() == WELL
    environ = dict(
        line.split("=", 1)
        for line in (at_slurm.node_data("beta") / "environ").read_text().splitlines()
        if "=" in line
    )
    assert environ["SLURMD_NODENAME"] == "beta"
    assert environ["PYROMETER_CONTENTION_LIMIT"] == "1"
    assert environ["PYROMETER_DATA_DIR"] == str(at_slurm.node_data("beta"))
    assert environ["PYROMETER_DATABASE_URL"].startswith("sqlite:////")
    assert not Path(environ["PYROMETER_DATABASE_URL"].removeprefix("sqlite:///")).parent.exists()
    for path in [*at_slurm.shared.rglob("*"), *cluster.folder.rglob("*")]:
        assert not path.is_file() or b"hunter2" not in path.read_bytes(), path


def test_a_stopped_run_keeps_what_is_measured_and_is_resumed(at_slurm: Site) -> None:
    with under_way(lambda: at_slurm.measure("patient", name="alpha")) as future:
        at_slurm.midway()
        at_slurm.stop.set()
    with pytest.raises(JobStopped):
        future.result()
    assert at_slurm.mirror() == at_slurm.journal()
    assert len(journal.read_contents(at_slurm.data_dir / "runs" / RUN / journal.FILE).outcomes) == 2
    at_slurm.stop.clear()
    at_slurm.go_on()
    assert at_slurm.resume(name="alpha") == WELL
    assert executions(at_slurm.node_data()) == executions_of(RUN)
    assert at_slurm.mirror() == at_slurm.journal()


def test_a_job_that_waits_in_the_queue_has_a_reason(at_slurm: Site, cluster: SlurmCluster) -> None:
    other = f"{RUN[:-1]}e"
    with under_way(lambda: at_slurm.measure("patient", name="alpha")) as first:
        at_slurm.midway()
        logs = at_slurm.logs()
        with under_way(lambda: at_slurm.measure("quick", name="alpha", run=other, logs=logs)) as second:
            until(lambda: logs.log.exists() and logs.log.read_text(), "it says that it waits")
            at_slurm.go_on()
        assert second.result() == WELL
    assert first.result() == WELL
    log = logs.log.read_text()
    assert log.startswith("waits in Slurm's queue as job ") and log.count("\n") == 1, log
    assert executions(at_slurm.node_data(run=other)) == executions_of(other)


def test_a_job_that_waits_is_taken_out_of_the_queue(at_slurm: Site, cluster: SlurmCluster) -> None:
    cluster.call("sbatch", "--nodelist=alpha", "--exclusive", "--output=/dev/null", "--wrap=sleep 600")
    until(lambda: cluster.jobs("--states=RUNNING"), "another one's job has the node")
    with under_way(lambda: at_slurm.measure("quick", name="alpha")) as future:
        until(lambda: "waits in Slurm's queue" in at_slurm.all_logs(), "it waits")
        at_slurm.stop.set()
    with pytest.raises(JobStopped):
        future.result()
    assert [job[1:3] for job in cluster.jobs()] == [["RUNNING", "wrap"]]
    assert not at_slurm.node_data().exists()


def test_a_node_of_other_users_is_reserved_while_one_like_it_is_free(
    at_slurm: Site, cluster: SlurmCluster
) -> None:
    assert not reserved(at_slurm)
    cluster.call("sbatch", "--nodelist=alpha", "--exclusive", "--output=/dev/null", "--wrap=sleep 600")
    until(lambda: cluster.jobs("--states=RUNNING"), "another one's job has the node")
    until(
        lambda: at_slurm.engine.nodes() and at_slurm.engine.queue.nodes.last()[0].state != "idle",
        "it is seen",
    )
    # Beta is free, and has other labels.
    assert not reserved(at_slurm)
    rows = at_slurm.engine.queue.nodes.last()
    alike = [rows[0], type(rows[1])("beta", "idle", rows[0].features, rows[0].resources, "none")]
    at_slurm.engine.queue.nodes.last = lambda: alike  # type: ignore[method-assign]
    assert reserved(at_slurm) == ["alpha"]


def reserved(at_slurm: Site) -> list[str]:
    """The names of the reserved nodes."""
    return [node.name for node in at_slurm.engine.nodes() if node.reserved]


def test_a_run_over_two_nodes_has_both_and_reaches_the_second(at_slurm: Site, cluster: SlurmCluster) -> None:
    with under_way(lambda: at_slurm.measure("patient", name="beta", nodes=2)) as future:
        at_slurm.midway("beta")
        (row,) = cluster.jobs("--states=RUNNING")
        job = cluster.call("scontrol", "show", "job", "--oneliner", row[0])
        assert {"NumNodes=2", "OverSubscribe=NO"} <= set(job.split())
        environ = (at_slurm.node_data("beta") / "environ").read_text().splitlines()
        variables = dict(line.split("=", 1) for line in environ if "=" in line)
        first, second = nodes.read_nodes(Path(variables["PYROMETER_NODES_FILE"]))
        assert (first.name, first.command) == (variables["SLURMD_NODENAME"], ())
        assert {first.name, second.name} == {"alpha", "beta"} and first.address == "127.0.0.1"
        step = [*second.command, "sh", "-c", "cat; echo $SLURMD_NODENAME"]
        done = subprocess.run(step, env=variables, input="", capture_output=True, text=True, check=True)
        assert done.stdout.split() == [second.name]
        at_slurm.go_on()
    assert future.result() == WELL
    assert at_slurm.mirror() == at_slurm.journal("beta")
