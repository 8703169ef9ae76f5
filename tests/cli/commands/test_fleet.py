"""`pyrometer fleet` where no engine is needed: machines, waiting tasks, and what is refused."""

import fcntl
import json
import os
import shutil
import signal
import socket
import subprocess
import sys
from collections.abc import Mapping
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest

from cli.commands.fleet import accelerator_labels, start_error
from db.connection.engine import open_database
from db.queue.commands import claim, lose, plan_run, seen_all
from db.queue.queries import schedulers
from fleet.ray import processes as ray_processes
from fleet.ray.processes import (
    Foreground,
    RayUnusable,
    check_token,
    make_token,
    node_variables,
    ray_folder,
)
from fleet.status import drained_nodes
from records.tasks import NewTask, SchedulerSeen
from scheduled_jobs.scheduler.process_identity import machine_name, this_process
from support.command_line import called
from support.site import COMMAND, Done
from support.sqlite_files import open_with_tables

FLEET = '[fleet]\nengine = "ray"\naddress = "127.0.0.1:26379"\n'
MEASURED: Mapping[str, Any] = {
    "hardware": "8 x H200",
    "version": "0.1.0",
    "gpus": ["NVIDIA H200"],
    "environments": [{"name": "default", "says": "torch 2.13.0"}],
    "capabilities": [{"of": "GPU 0", "name": "power", "present": True}, {"of": "CPU", "name": "perf"}],
    "cannot": ["clocks cannot be locked"],
}


def variables() -> dict[str, str]:
    """Ours without settings of Pyrometer's."""
    return {name: text for name, text in os.environ.items() if not name.startswith("PYROMETER_")}


def call(folder: Path, *arguments: str) -> Done:
    """`pyrometer fleet` in a folder, to its end."""
    return called(folder, variables(), "fleet", *arguments)


def call_process(folder: Path, *arguments: str) -> Done:
    """The same as a process of its own, as a shell sees it."""
    done = subprocess.run(
        [COMMAND, "fleet", *arguments], cwd=folder, env=variables(), capture_output=True, text=True
    )
    return Done(done.returncode, done.stdout, done.stderr)


@pytest.fixture
def head(tmp_path: Path) -> Path:
    """A head whose scheduler lives, with a node that measures, one that vanished, and tasks that wait."""
    (tmp_path / "pyrometer.toml").write_text(FLEET)
    now = datetime.now(UTC)
    me = this_process(machine_name())

    def seen(machine: str, ago: timedelta, **facts: Any) -> SchedulerSeen:
        owner = f"{machine}/{me.boot}/{me.pid}/{me.started}"
        labels = (machine, "H200") if facts.get("node") else (machine,)
        return SchedulerSeen(owner, machine, labels, now - ago, now - ago, 1, "0.1.0", facts)

    with open_with_tables(f"sqlite:///{tmp_path}/pyrometer.db") as database:
        node = {"head": me.machine, "measures": True, "node": dict(MEASURED)}
        seen_all(
            database,
            [
                seen(me.machine, timedelta(), measures=False),
                seen("gpu-1", timedelta(seconds=20), **node),
                seen("gpu-2", timedelta(hours=3), **node),
            ],
        )
        wanted = [NewTask(f"default@{label}", "measure", {}, label) for label in ("H200", "H200", "B300")]
        wanted = [NewTask(f"{each.part}.{at}", each.job, {}, each.label) for at, each in enumerate(wanted)]
        plan_run(database, "nightly", now, "by hand", wanted, now)
        assert claim(
            database,
            owner=f"gpu-1/{me.boot}/{me.pid}/{me.started}",
            labels=("gpu-1", "H200"),
            jobs={"measure"},
            token="t",
            now=now,
        )
    return tmp_path


def test_status_lists_unschedulable_tasks_first(head: Path) -> None:
    done = call_process(head, "status", "--json")
    assert done.code == 0, done.err
    body = json.loads(done.out)
    assert [(node["node"], node["state"]) for node in body["nodes"]] == [
        ("gpu-1", "measures"),
        ("gpu-2", "silent"),
    ]
    assert [task["part"] for task in body["nodes"][0]["tasks"]] == ["default@H200.0"]
    assert [(task["label"], task["why"]) for task in body["waiting"]] == [
        ("B300", "no such label"),
        ("H200", "busy"),
    ]
    # The words of its tables: cli/output/golden/fleet.md.
    assert all(name in call(head, "status").out for name in ("gpu-1", "gpu-2", "B300"))


def test_status_says_of_what_rests_that_it_was_lost(head: Path) -> None:
    now, me = datetime.now(UTC), machine_name()
    with open_database(f"sqlite:///{head}/pyrometer.db") as database:
        assert lose(database, "t", "gone", now, 5) == "waiting"
        assert claim(database, owner=me, labels=("H200",), jobs={"measure"}, token="u", now=now)
        assert lose(database, "u", "gone", now, 5) == "waiting"
    assert "was lost 2 times and will not begin before" in call(head, "status").out


def test_of_what_waits_the_oldest_is_listed_and_the_rest_counted(head: Path) -> None:
    later = datetime.now(UTC) + timedelta(minutes=1)
    with open_database(f"sqlite:///{head}/pyrometer.db") as database:
        plan_run(
            database,
            "later",
            later,
            "by hand",
            [NewTask(f"part {at}", "measure", {}) for at in range(1000)],
            later,
        )
    body = json.loads(call(head, "status", "--json").out)
    assert len(body["waiting"]) == 1000
    assert [task["label"] for task in body["waiting"]].count("H200") == 1
    assert "2 tasks more wait, which were due after all that are listed" in call(head, "status").err


def test_a_machine_that_its_head_misses_is_gone_at_once(head: Path) -> None:
    me = machine_name()
    with open_database(f"sqlite:///{head}/pyrometer.db") as database:
        (own,) = [one for one in schedulers(database) if one.machine == me]
        seen_all(database, [replace(own, facts={**own.facts, "missing": ["gpu-1"]})])
    body = json.loads(call(head, "status", "--json").out)
    assert [(node["node"], node["state"]) for node in body["nodes"]] == [
        ("gpu-1", "gone"),
        ("gpu-2", "silent"),
    ]
    assert {task["why"] for task in body["waiting"]} == {"unscheduled"}


def test_doctor_is_one_table_of_what_each_said(head: Path) -> None:
    shown = call(head, "doctor")
    assert (shown.code, shown.err) == (0, "")
    assert all(machine in shown.out for machine in ("gpu-1", "gpu-2"))
    assert json.loads(call(head, "doctor", "--json").out)["gpu-2"] == MEASURED


def test_drained_is_who_is_to_get_nothing_new(head: Path) -> None:
    done = call(head, "drain", "gpu-1")
    assert "gpu-1 gets no new tasks; it finishes task 1" in done.out, done.err
    assert drained_nodes(head / ".pyrometer") == {"gpu-1"}
    assert json.loads(call(head, "status", "--json").out)["nodes"][0]["state"] == "drained"
    assert 'did you mean "gpu-1"?' in call(head, "drain", "gpu1").one_sentence()
    assert call(head, "drain", "gpu-1", "--undo").out == "gpu-1 gets tasks again\n"
    assert drained_nodes(head / ".pyrometer") == frozenset()
    assert 'unknown drained machine "gpu-1"' in call(head, "drain", "gpu-1", "--undo").one_sentence()


def test_what_cannot_be_is_said_in_one_sentence(tmp_path: Path) -> None:
    assert "no address of the head" in call_process(tmp_path, "head").one_sentence()
    alone = call(tmp_path, "status")
    assert (alone.code, alone.err) == (0, "") and "no fleet is configured" in alone.out
    assert json.loads(call(tmp_path, "status", "--json").out)["nodes"] == []
    assert '"gpu" is not HOST:PORT' in call(tmp_path, "join", "gpu").one_sentence()
    assert "give the address of the head: HOST:PORT" in call(tmp_path, "join").one_sentence()
    (tmp_path / "pyrometer.toml").write_text(FLEET.replace('engine = "ray"', ""))
    assert 'set [fleet] engine = "ray"' in call(tmp_path, "head").one_sentence()
    (tmp_path / "pyrometer.toml").write_text(FLEET.replace("26379", "10050"))
    assert "port 10050 of the head is one of those from 10000 on" in call(tmp_path, "head").one_sentence()
    (tmp_path / "pyrometer.toml").write_text(FLEET.replace("127.0.0.1", "192.0.2.1"))
    assert "192.0.2.1 is no address of this machine" in call(tmp_path, "head").one_sentence()
    token = tmp_path / ".pyrometer" / "fleet" / "token"
    assert make_token(token)
    for label in ("rack", "rack=", "=7", "rack=a b", "-a=1"):
        refused = call(tmp_path, "join", "127.0.0.1:1", "--label", label)
        assert f"--label {label} is not KEY=VALUE" in refused.one_sentence()
    twice = call(tmp_path, "join", "127.0.0.1:1", "--label", "a=1", "--label", "a=2")
    assert "--label a is given twice, as 1 and as 2" in twice.one_sentence()
    assert "no head answers at 127.0.0.1:1" in call(tmp_path, "join", "127.0.0.1:1").one_sentence()
    token.chmod(0o644)
    assert (
        "every user of this machine may read the fleet's token"
        in call(tmp_path, "join", "127.0.0.1:1").one_sentence()
    )
    token.unlink()
    assert "the fleet's token cannot be read" in call(tmp_path, "join", "127.0.0.1:1").one_sentence()


def test_a_place_is_one_node(tmp_path: Path) -> None:
    folder = tmp_path / ".pyrometer" / "fleet"
    assert make_token(folder / "token")
    with socket.create_server(("127.0.0.1", 0)) as head, (folder / "node.lock").open("a") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        second = call(tmp_path, "join", f"127.0.0.1:{head.getsockname()[1]}")
    assert (
        f"a node with the data folder {tmp_path / '.pyrometer'} is running already" in second.one_sentence()
    )


def test_a_token_is_made_once_and_only_its_owner_can_read_it(tmp_path: Path) -> None:
    file = tmp_path / "deep" / "token"
    assert make_token(file)
    made = file.read_text()
    assert (len(made.strip()), file.stat().st_mode & 0o777) == (64, 0o600)
    assert not make_token(file)
    assert file.read_text() == made
    check_token(file)
    file.write_text(" \n")
    with pytest.raises(RayUnusable, match="is empty"):
        check_token(file)


def test_a_secret_of_rays_own_is_not_what_a_fleet_goes_by(tmp_path: Path) -> None:
    before = {"RAY_AUTH_TOKEN": "other", "RAY_ADDRESS": "elsewhere", "RAY_USE_TLS": "1", "HOME": "/h"}
    found = node_variables(tmp_path / "token", tmp_path, before)
    assert not {"RAY_AUTH_TOKEN", "RAY_ADDRESS"} & found.keys()
    assert (found["RAY_AUTH_MODE"], found["RAY_USE_TLS"]) == ("token", "1")
    assert json.loads(found["PYROMETER_NODE_ENVIRONMENT"]) == before


def test_what_others_put_where_sockets_are_to_lie_is_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(ray_processes, "_SHORT", tmp_path)
    deep, private, elsewhere = tmp_path / ("d" * 60), tmp_path / f"pyrometer-{os.getuid()}", tmp_path / "e"
    elsewhere.mkdir(mode=0o700)
    private.symlink_to(elsewhere)
    with pytest.raises(RayUnusable, match="is not a folder of ours alone"):
        ray_folder(deep, "node")
    assert list(elsewhere.iterdir()) == []
    private.unlink()
    assert ray_folder(deep, "node").parent == private and private.stat().st_mode & 0o077 == 0
    private.chmod(0o755)
    with pytest.raises(RayUnusable, match="is not a folder of ours alone"):
        ray_folder(deep, "node")


def test_sockets_find_room_however_deep_the_data_lies(tmp_path: Path) -> None:
    deep = tmp_path / ("d" * 60)
    folder = ray_folder(deep, "node")
    try:
        assert len(str(folder)) <= 40 and folder != ray_folder(deep, "head")
        for at in range(5):
            (folder / f"session_2026-11-2{at}").mkdir()
        (folder / "session_latest").symlink_to(folder / "session_2026-11-24")
        assert ray_folder(deep, "node") == folder
        kept = sorted(each.name for each in folder.glob("session_2*"))
        assert kept == ["session_2026-11-23", "session_2026-11-24"]
    finally:
        subprocess.run(["rm", "-r", folder, ray_folder(deep, "head")], check=True)


def test_files_that_ray_opens_to_everybody_lie_in_a_private_folder() -> None:
    data = Path("/tmp") / f"p{os.getpid()}"
    closed = Path(f"{data}/fleet/node")
    closed.mkdir(parents=True)
    try:
        closed.chmod(0o777)
        assert ray_folder(data, "node") == Path(f"{data}/fleet/node/ray")
        assert closed.stat().st_mode & 0o077 == 0
    finally:
        subprocess.run(["rm", "-r", data], check=True)


@pytest.mark.parametrize(
    ("name", "labels"),
    [
        ("NVIDIA H200", ("H200", "H200")),
        ("NVIDIA H100 80GB HBM3", ("H100", "H100-80GB-HBM3")),
        ("NVIDIA A100-SXM4-80GB", ("A100", "A100-SXM4-80GB")),
        ("Tesla T4", ("T4", "T4")),
        ("NVIDIA GeForce RTX 4090", ("RTX-4090", "RTX-4090")),
        ("NVIDIA RTX A6000", ("RTX-A6000", "RTX-A6000")),
        ("NVIDIA", None),
    ],
)
def test_a_gpu_is_a_label(name: str, labels: tuple[str, str] | None) -> None:
    wanted = {"accelerator": labels[0], "gpu": labels[1]} if labels else {}
    assert accelerator_labels(name) == wanted


def test_why_ray_does_not_start_is_one_sentence() -> None:
    assert "refuses this machine's token" in start_error("W client: InvalidAuthToken: missing\nTraceback\n")
    assert "same version of Ray" in start_error(
        "RuntimeError: Version mismatch: The cluster was started with:\n Ray: 2.60\n"
    )
    assert "nodes on this machine still use" in start_error(
        "ConnectionError: Ray is trying to start at 127.0.0.2:6379, but is already running at 127.0.0.2:6379."
    )
    assert "try again" in start_error("Exception: The current node timed out during startup. This could\n")
    assert start_error("one\n\ntwo\n") == "two"
    assert start_error("") == "its log is empty"


LEAVES = """
import os, signal, subprocess, sys, time
from fleet.ray.processes import Foreground
from pathlib import Path
program = Foreground(["sh", "-c", sys.argv[1]], dict(os.environ), Path(sys.argv[2]), ("own:",))
print(program.run(lambda: print("stands", flush=True), "ready", "hopeless"), flush=True)
"""


def foreground(folder: Path, script: str) -> subprocess.Popen[str]:
    """A foreground as the process that it needs."""
    command = [sys.executable, "-P", "-c", LEAVES, script, str(folder / "log")]
    return subprocess.Popen(command, stdout=subprocess.PIPE, text=True)


def test_a_foreground_ends_in_order_and_waits_for_what_it_leaves(tmp_path: Path) -> None:
    # What outlives the program in a session of its own ends when it has kept what it has; but for its own.
    shutil.copy(str(shutil.which("sleep")), tmp_path / "own:sleep")
    lingers = f"setsid {tmp_path}/own:sleep 3000 &"
    left = f"setsid sh -c 'sleep 1.5; touch {tmp_path}/kept' & {lingers} echo ready; wait"
    with foreground(tmp_path, left) as process:
        assert process.stdout is not None and process.stdout.readline() == "stands\n"
        process.send_signal(signal.SIGTERM)
        assert process.stdout.read() == "0\n"
        assert (tmp_path / "kept").exists()


def test_a_foreground_says_when_the_program_ended_by_itself_or_never_can(tmp_path: Path) -> None:
    with foreground(tmp_path, "echo ready; exit 3") as process:
        assert process.stdout is not None
        assert process.stdout.read().split()[-1] == "3"
    with foreground(tmp_path, "echo hopeless; exec sleep 3000") as process:
        assert process.stdout is not None
        assert process.stdout.read().split() == ["-15"]
    assert Foreground([], {}, tmp_path / "nothing").output() == ""


def test_a_scheduler_whose_fleet_cannot_be_had_says_so(tmp_path: Path) -> None:
    (tmp_path / "pyrometer.toml").write_text(FLEET)
    done = called(tmp_path, variables(), "scheduler", "--once", "--log", "json")
    assert "the fleet's token cannot be read" in done.one_sentence()
