"""The output of Slurm's commands: states of nodes and jobs, resources, error messages."""

import os
from collections.abc import Iterator
from functools import partial
from pathlib import Path
from types import SimpleNamespace

import pytest

from configuration.schema import SlurmSettings
from configuration.settings import load_settings
from db.connection.engine import open_database
from fleet.engine import EngineAway, NodeLost, NodeSilent, Order
from fleet.hosts import FleetHosts
from fleet.slurm import queue as slurm_queue
from fleet.slurm.commands import NodeRow, Slurm, SlurmAway, SlurmRefused
from fleet.slurm.engine import SlurmEngine, SlurmHandle
from scheduled_jobs.jobs.context import ChildExit

TOKEN = "2" * 32
#: The text of sbatch after the name of any limit.
POLICY = (
    "sbatch: error: Batch job submission failed: Job violates accounting/QOS policy "
    "(job submit limit, the size and/or time limits of a user)"
)


@pytest.mark.parametrize(
    ("state", "there", "free"),
    [
        ("idle", True, True),
        ("mixed", True, False),
        ("allocated", True, False),
        ("allocated+", True, False),
        ("completing", True, False),
        ("planned", True, False),
        ("reserved", True, False),
        # Powered down to save energy: a job powers it up.
        ("idle~", True, True),
        ("idle#", True, True),
        ("idle*", False, False),
        ("idle%", False, False),
        ("allocated@", False, False),
        ("down", False, False),
        ("down*", False, False),
        ("drained", False, False),
        ("draining", False, False),
        ("draining@", False, False),
        ("fail", False, False),
        ("maint", False, False),
        ("inval", False, False),
        ("unknown*", False, False),
        ("powering_down", False, False),
        ("", False, False),
    ],
)
def test_which_nodes_take_jobs(state: str, there: bool, free: bool) -> None:
    row = NodeRow("n1", state, "(null)", "(null)", "none")
    assert (row.is_online, row.is_free) == (there, free)


@pytest.mark.parametrize(
    ("features", "resources", "labels"),
    [
        ("(null)", "(null)", ()),
        ("lab,a10", "(null)", ("lab", "a10")),
        ("(null)", "gpu:h200:8(S:0-1)", ("gpu:h200", "h200", "gpu")),
        ("(null)", "gpu:4", ("gpu",)),
        ("h200", "gpu:h200:4(S:0,2),nic:2", ("h200", "gpu:h200", "gpu", "nic")),
        ("(null)", "gpu:a100:2,gpu:t4:2", ("gpu:a100", "a100", "gpu", "gpu:t4", "t4")),
    ],
)
def test_the_labels_of_a_node(features: str, resources: str, labels: tuple[str, ...]) -> None:
    assert NodeRow("n1", "idle", features, resources, "none").labels == labels


class Played:
    """Slurm's commands as scripts with output set by a test."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.says("sinfo", "alpha|idle|(null)|(null)|none")
        self.says("squeue", "")
        self.says("sbatch", "7")
        self.says("scancel", "")

    def says(self, program: str, answer: str, code: int = 0, err: str = "") -> None:
        script = self.folder / program
        words = f'cat > /dev/null\necho {program} "$@" >> {self.folder}/asked\n'
        script.write_text(f"#!/bin/sh\n{words}cat <<'END'\n{answer}\nEND\necho '{err}' >&2\nexit {code}\n")
        script.chmod(0o755)

    def asked(self, program: str) -> list[str]:
        lines = (self.folder / "asked").read_text().splitlines()
        return [line.partition(" ")[2] for line in lines if line.split(" ")[0] == program]


@pytest.fixture
def played(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Played]:
    monkeypatch.setattr(slurm_queue, "JOBS_SECONDS", 0.0)
    monkeypatch.setattr(slurm_queue, "NODES_SECONDS", 0.0)
    monkeypatch.setattr(slurm_queue, "UNSEEN_SECONDS", 0.0)
    folder = tmp_path / "bin"
    folder.mkdir()
    monkeypatch.setenv("PATH", f"{folder}:{os.environ['PATH']}")
    yield Played(folder)


def an_engine(folder: Path, settings: SlurmSettings | None = None) -> SlurmEngine:
    return SlurmEngine(settings or SlurmSettings(), folder / "shared", folder, None, folder=folder)


def submitted(engine: SlurmEngine) -> SlurmHandle:
    return engine.submit(Order("alpha", ("run",), "r", token=TOKEN))


def ended(handle: SlurmHandle) -> ChildExit | None:
    """The exit of its job; None while it may run."""
    return handle.result() if handle.done() else None


def started(folder: Path, played: Played, state: str = "RUNNING") -> tuple[SlurmEngine, SlurmHandle]:
    """An engine with one job on alpha."""
    engine = an_engine(folder)
    handle = submitted(engine)
    played.says("squeue", f"7|{state}|alpha|{engine.queue.name(TOKEN)}|None")
    return engine, handle


def test_a_job_that_waits_outlives_short_outages_of_slurm(
    tmp_path: Path, played: Played, monkeypatch: pytest.MonkeyPatch
) -> None:
    (engine, handle), clock = started(tmp_path, played, "PENDING"), [1000.0]
    monkeypatch.setattr(slurm_queue, "time", SimpleNamespace(monotonic=lambda: clock[0]))
    for _ in range(3):
        played.says("squeue", f"7|PENDING||{engine.queue.name(TOKEN)}|None")
        assert ended(handle) is None
        clock[0] += slurm_queue.AWAY_SECONDS + 1
        played.says("squeue", "", code=1, err="slurm_load_jobs error: Unable to contact slurm controller")
        assert ended(handle) is None
    clock[0] += slurm_queue.AWAY_SECONDS + 1
    with pytest.raises(NodeLost, match="Slurm was away for 10 minutes"):
        ended(handle)


def test_a_waiting_job_outlives_a_restart_of_the_controller(tmp_path: Path, played: Played) -> None:
    _, handle = started(tmp_path, played, "PENDING")
    # The node has not reported to the new controller yet.
    played.says("sinfo", "alpha|unknown*|(null)|(null)|none")
    assert ended(handle) is None and "alpha" in handle.wait_reason
    played.says("sinfo", "alpha|down*|(null)|(null)|not responding")
    with pytest.raises(NodeLost, match="not responding"):
        ended(handle)
    assert played.asked("scancel") == ["7"]


def test_a_file_system_that_fails_for_a_moment_costs_nothing(
    tmp_path: Path, played: Played, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(slurm_queue, "SWEEP_SECONDS", 0.0)
    engine, handle = started(tmp_path, played)
    assert ended(handle) is None
    folder = engine.queue.poll(TOKEN).path
    # A folder cannot be read as a file, not even by root.
    (folder / "order.json").unlink()
    (folder / "order.json").mkdir()
    assert ended(handle) is None
    (folder / "end.json").mkdir()
    with pytest.raises(NodeSilent, match=r"Is a directory: .*end.json"):
        ended(handle)
    another = an_engine(tmp_path)
    with pytest.raises(NodeSilent, match=r"Is a directory: .*order.json"):
        submitted(another).done()
    assert [node.name for node in another.nodes()] == ["alpha"]


def test_a_node_of_other_users_gets_tasks_for_its_name_alone(tmp_path: Path, played: Played) -> None:
    played.says(
        "sinfo", "alpha|allocated|lab|(null)|none\nbeta|idle|lab|(null)|none\ngamma|allocated|x||none"
    )
    engine = an_engine(tmp_path)
    home = tmp_path / "shared" / "data" / "alpha"
    home.mkdir(parents=True)
    (home / "hostname").write_text("host7")
    hosts = FleetHosts(engine, tmp_path, partial(open_database, f"sqlite:///{tmp_path}/pyrometer.db"))
    try:
        assert hosts.wait_until_known(30)
        seen = {each.host.machine: each for each in hosts.look()}
    finally:
        hosts.close()
    assert {name: each.only_labels for name, each in seen.items()} == {
        "alpha": ("alpha", "host7"),
        "beta": (),
        "gamma": (),
    }
    assert not any(each.drained for each in seen.values())
    assert seen["alpha"].host.labels == ("alpha", "lab", "host7")


def test_a_node_with_a_job_of_ours_is_not_reserved(
    tmp_path: Path, played: Played, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(slurm_queue, "SWEEP_SECONDS", 0.0)
    played.says("sinfo", "alpha|allocated|(null)|(null)|none\nbeta|idle|(null)|(null)|none")
    engine, _ = started(tmp_path, played)
    assert not any(node.reserved for node in engine.nodes())
    # The order is read once.
    (engine.queue.poll(TOKEN).path / "order.json").unlink()
    assert not any(node.reserved for node in engine.nodes())
    played.says("squeue", "")
    assert [node.name for node in engine.nodes() if node.reserved] == ["alpha"]


@pytest.mark.parametrize(
    ("row", "said"),
    [
        ("7|NODE_FAIL|alpha|{name}|NodeDown", "its job 7 is NODE_FAIL: Slurm lost its node"),
        ("7|PREEMPTED|alpha|{name}|None", "its job 7 is PREEMPTED: another job preempted it"),
        ("7|BOOT_FAIL|alpha|{name}|None", "its job 7 is BOOT_FAIL: its node did not start"),
        ("7|OUT_OF_MEMORY|alpha|{name}|None", "its job 7 is OUT_OF_MEMORY: its node ran out of memory"),
        ("7|CANCELLED||{name}|None", "its job 7 is CANCELLED: it was cancelled from outside"),
        (
            "7|TIMEOUT|alpha|{name}|TimeLimit",
            "job 7: its time limit in Slurm, 12 h, was over: raise [slurm] time_limit_hours",
        ),
        ("7|REQUEUED||{name}|None", "its job 7 is REQUEUED: it was put back into the queue"),
        (
            "7|FAILED|alpha|{name}|NonZeroExitCode",
            "its job 7 is FAILED, and did not report how it ended: no such python",
        ),
        ("", "Slurm does not know its job 7 any more, and that did not report how it ended"),
        (
            "8|RUNNING|alpha|another|None",
            "Slurm does not know its job 7 any more, and that did not report how it ended",
        ),
    ],
)
def test_why_a_job_has_no_end(tmp_path: Path, played: Played, row: str, said: str) -> None:
    engine = an_engine(tmp_path)
    handle = submitted(engine)
    name = engine.queue.name(TOKEN)
    for state in ("PENDING", "RUNNING", "COMPLETING", "CONFIGURING", "SUSPENDED"):
        played.says("squeue", f"7|{state}|alpha|{name}|None")
        assert ended(handle) is None
    engine.queue.poll(TOKEN).output.write_text("no such python\n")
    played.says("squeue", row.format(name=name))
    with pytest.raises(NodeLost) as error:
        ended(handle)
    assert str(error.value) == said
    assert ("7" in played.asked("scancel")) == ("REQUEUED" in row)


def test_a_job_that_reaches_its_time_limit_reports_that(tmp_path: Path, played: Played) -> None:
    engine = an_engine(tmp_path, SlurmSettings(time_limit_hours=2))
    handle = submitted(engine)
    (options,) = played.asked("sbatch")
    assert "--time=120 --signal=B:TERM@120 " in options
    end = {"code": 130, "signal": None, "sentence": "go on with...", "asked": True, "seconds": 7085.0}
    engine.queue.poll(TOKEN).write_end(end)
    played.says("squeue", f"7|COMPLETED|alpha|{engine.queue.name(TOKEN)}|None")
    sentence = "its time limit in Slurm, 2 h, was over: raise [slurm] time_limit_hours"
    assert handle.result() == ChildExit(130, None, sentence)
    engine.queue.poll(TOKEN).write_end({**end, "seconds": 600.0})
    asked = ChildExit(130, None, "its job in Slurm was terminated from outside")
    assert submitted(engine).result() == asked


def test_settings_of_slurm_are_options_of_sbatch(tmp_path: Path, played: Played) -> None:
    (tmp_path / "pyrometer.toml").write_text(
        '[fleet]\nengine = "slurm"\n[slurm]\nfolder = "jobs"\npartition = "gpu"\naccount = "perf"\n'
        'arguments = ["--qos=low"]\ntime_limit_hours = 0.5\npython = "/opt/python"\n'
    )
    variables = {"PYROMETER_SLURM__PARTITION": "night"}
    settings = load_settings(cwd=tmp_path, environ=variables).slurm
    assert settings.folder == tmp_path / "jobs"
    engine = an_engine(tmp_path, settings)
    submitted(engine)
    (options,) = played.asked("sbatch")
    wanted = "--exclusive --mem=0 --no-requeue --time=30 --partition=night --account=perf --qos=low"
    assert set(wanted.split()) <= set(options.split())
    job = engine.queue.poll(TOKEN).job
    assert job is not None
    assert job.command[0] == "/opt/python" and job.command[-1] == "run"
    assert engine.nodes()[0].name == "alpha"
    assert "--partition=night" in played.asked("sinfo")[0]


@pytest.mark.parametrize(
    "said",
    [
        "sbatch: error: Batch job submission failed: Unable to contact slurm controller (connect failure)",
        "sbatch: error: Batch job submission failed: Socket timed out on send/recv operation",
        "sbatch: error: If munged is up, restart with --num-threads=10",
        "sbatch: error: Slurm temporarily unable to accept job, sleeping and retrying",
        f"sbatch: error: QOSMaxSubmitJobPerUserLimit\n{POLICY}",
        f"sbatch: error: AssocMaxSubmitJobLimit\n{POLICY}",
        f"sbatch: error: AssocGrpSubmitJobsLimit\n{POLICY}",
    ],
)
def test_trouble_that_may_pass_is_no_refusal(played: Played, said: str) -> None:
    played.says("sbatch", "", code=1, err=said)
    with pytest.raises(SlurmAway):
        Slurm().submit("", [], os.environ)


def test_a_limit_that_a_job_will_always_exceed_is_a_refusal(played: Played) -> None:
    played.says("sbatch", "", code=1, err=f"sbatch: error: QOSMaxWallDurationPerJobLimit\n{POLICY}")
    with pytest.raises(SlurmRefused, match="Job violates accounting/QOS policy"):
        Slurm().submit("", [], os.environ)


def test_a_refusal_is_one_sentence(played: Played) -> None:
    played.says("sbatch", "", code=1, err="sbatch: error: Batch job submission failed: Invalid account")
    with pytest.raises(SlurmRefused, match=r"^sbatch: Batch job submission failed: Invalid account$"):
        Slurm().submit("", [], os.environ)


def test_without_slurms_commands_it_is_said_how_to_get_them(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(EngineAway, match="there is no sinfo on PATH: install Slurm's commands"):
        an_engine(tmp_path).nodes()
