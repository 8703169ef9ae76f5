"""`pyrometer upgrade OLD NEW --on LABEL`: a task for each machine, a verdict for each hardware, the worst."""

import json
import os
import sys
import threading
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from datetime import UTC, datetime
from io import StringIO
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest

from db.connection.engine import open_database
from db.queue.queries import schedulers, tasks
from fleet import upgrade_tasks
from fleet.upgrade_tasks import SCHEDULE
from records.tasks import Task, TaskState
from scheduled_jobs.jobs.upgrade import upgrade
from scheduled_jobs.scheduler import scheduler
from scheduled_jobs.scheduler.log import Log
from support.builders.upgrade_journals import BERT, RESNET
from support.command_line import called
from support.servers.schedulers import a_service, settings_of
from support.site import Done
from support.sqlite_files import sqlite_with_tables
from support.waiting import until

pytestmark = pytest.mark.slow

FAKE = Path(__file__).resolve().parents[2] / "support/fakes/pyrometer_upgrade.py"


class Machines:
    """A folder with a database, and schedulers of several machines that share it, in threads."""

    def __init__(self, folder: Path) -> None:
        self.folder, self.url = folder, sqlite_with_tables(folder / "pyrometer.db")
        (folder / "pyrometer.toml").write_text("")

    def typed(self, *arguments: str) -> Done:
        """`pyrometer upgrade 2.13.0 2.15.0 ...` in this process."""
        return called(self.folder, dict(os.environ), "upgrade", "2.13.0", "2.15.0", *arguments)

    @contextmanager
    def there(self, machine: str, *labels: str, **story: Any) -> Iterator[None]:
        """A scheduler of a machine with these labels, on which upgrades come to that story."""
        data_dir = self.folder / machine
        data_dir.mkdir()
        (data_dir / "story.json").write_text(json.dumps(story))
        stop = threading.Event()
        service = a_service(
            self.url,
            data_dir,
            settings_of("", data_dir),
            Log("json", lambda: datetime.now(UTC), StringIO()),
            machine=machine,
            jobs={"upgrade": upgrade},
            command=(sys.executable, str(FAKE)),
            labels=labels,
        )
        thread = threading.Thread(target=service.run, args=(stop.is_set,))
        thread.start()
        try:
            until(lambda: machine in self._known(), f"{machine} is known")
            yield
        finally:
            stop.set()
            service.wake()
            thread.join()

    def commands(self, machine: str) -> list[list[str]]:
        """The commands that a machine carried out."""
        file = self.folder / machine / "commands"
        return [json.loads(line) for line in file.read_text().splitlines()] if file.exists() else []

    def queued(self) -> list[Task]:
        """The tasks of upgrades on machines, by machine."""
        with open_database(self.url) as database:
            return sorted(tasks(database, schedule=SCHEDULE), key=lambda task: task.part)

    def _known(self) -> list[str]:
        with open_database(self.url) as database:
            return [one.machine for one in schedulers(database)]


@pytest.fixture
def machines(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Machines:
    """Machines in a hurry: a child of theirs takes no time."""
    monkeypatch.setattr(scheduler, "TICK_SECONDS", 0.05)
    monkeypatch.setattr(upgrade_tasks, "LOOK_SECONDS", 0.1)
    return Machines(tmp_path)


def test_each_machine_with_a_label_measures_and_the_worst_verdict_is_the_exit_code(
    machines: Machines,
) -> None:
    reports = [machines.folder / f"verdict.{ending}" for ending in ("html", "md", "json")]
    with ExitStack() as alive:
        alive.enter_context(machines.there("h200-1", "h200", hardware="H200 x 8", still=True, memory=1.0))
        alive.enter_context(machines.there("a10-1", "a10", hardware="A10", broken=[BERT]))
        alive.enter_context(machines.there("tpu-1", "tpu", hardware="TPU", still=True))
        given = [part for file in reports for part in ("--report", str(file))]
        done = machines.typed("--on", "h200", "--on", "a10", "--suite", "cpu", *given)
    assert done.code == 1, done
    assert [task.part for task in machines.queued()] == ["a10-1", "h200-1"]
    assert machines.commands("tpu-1") == []
    lines = done.out.splitlines()[2:]
    (worse,), (better,) = ([line for line in lines if name in line] for name in ("a10-1", "h200-1"))
    assert "✗ No-go" in worse and "bert_base" in worse and "✓ Go" in better
    assert lines.index(worse) < lines.index(better) and lines[-1] == "✗ No-go, the worst of 2 machines"
    assert all(f"{machine}: done: 2.13.0 -> 2.15.0" in done.err for machine in ("a10-1", "h200-1"))
    page, markdown, body = (file.read_text() for file in reports)
    for text, worse, better in (
        (page, "A10: machine a10-1", "H200 x 8: machine h200-1"),
        (markdown, "A10, suite cpu", "H200 x 8, suite cpu"),
    ):
        assert 0 < text.index(worse) < text.index(better)
    verdicts = json.loads(body)
    assert verdicts["decision"] == "no-go"
    assert [(one["hardware"], one["decision"]) for one in verdicts["hardware"]] == [
        ("A10", "no-go"),
        ("H200 x 8", "go"),
    ]
    assert verdicts["hardware"][0]["machines"][0]["report"]["broken"] == [BERT]


def test_a_machine_that_fails_leaves_the_upgrade_unclear_with_its_reason(machines: Machines) -> None:
    with ExitStack() as alive:
        alive.enter_context(machines.there("one", "lab", hardware="A10", still=True, memory=1.0))
        alive.enter_context(machines.there("two", "lab", refuses="the package index offers no torch 2.15.0"))
        done = machines.typed("--on", "lab", "--json")
    assert done.code == 3, done
    verdict = done.events[-1]
    assert (verdict["event"], verdict["decision"]) == ("verdict", "unclear")
    failed, measured = (one["machines"][0] for one in verdict["hardware"])
    assert (failed["machine"], failed["decision"], failed["report"]) == ("two", None, None)
    assert "the package index offers no torch 2.15.0" in failed["because"]
    assert (measured["machine"], measured["decision"]) == ("one", "go")
    states = [
        event["state"] for event in done.events if event["event"] == "task" and event["machine"] == "two"
    ]
    assert states[-1] == "failed"


def test_the_options_travel_to_the_machine(machines: Machines) -> None:
    how = ("--suite", "cpu", "--case", "resnet50", "--pairs", "8", "--also", "compile_warm", "--budget", "60")
    waived = ("--waive", RESNET, "--because", "known, #7", "--no-fingerprint", "--policy", "default")
    waived += ("--screen",)
    with machines.there("one", "lab", hardware="A10", still=True, memory=1.0):
        assert machines.typed("--on", "one", *how, *waived).code == 0
    (command,) = machines.commands("one")
    assert command[:3] == ["upgrade", "2.13.0", "2.15.0"]
    given = dict(pairwise(command))
    assert {name: given[name] for name in how[::2]} == dict(zip(how[::2], how[1::2], strict=True)) | {
        "--budget": "60"
    }
    assert (given["--waive"], given["--because"]) == (RESNET, "known, #7")
    assert given["--waived-by"] and {"--no-fingerprint", "--screen"} <= {*command}


def test_without_waiting_the_tasks_are_named_and_wait(machines: Machines) -> None:
    with machines.there("one", "lab", refuses="never mind"):
        done = machines.typed("--on", "lab", "--no-wait")
        (task,) = machines.queued()
        until(lambda: machines.queued()[0].state == TaskState.FAILED, "the machine takes it up")
    assert done.code == 0
    assert done.out == f"task {task.id}: one; `pyrometer tasks show {task.id}` follows it\n"
    assert (task.label, task.spec) == ("one", {"old": "2.13.0", "new": "2.15.0"})


REFUSED = [
    (("--on", "h100"), 'no machine with a running scheduler has the label "h100": known labels are a10, one'),
    (
        ("--on", "a10", "--cases", "own.py"),
        "--cases cannot be combined with --on: the file is on this machine only",
    ),
    (
        ("--on", "a10", "--step", "own.py"),
        "--step cannot be combined with --on: the script is on this machine only",
    ),
    (
        ("--on", "a10", "--step", "own.py"),
        "--step cannot be combined with --on: the script is on this machine only",
    ),
    (("--on", "a10", "--resume", "latest"), "--resume cannot be combined with --on"),
    (("--on", "a10", "--pairs", "5"), "--pairs takes an even number"),
    (("--on", "a10", "--suite", "smok"), 'unknown suite "smok"'),
    (("--on", "a10", "--waive", "a"), "--waive CASE requires --because TEXT"),
    (("--on", "a10", "--run-id", "mine"), "each machine has its own run"),
    (("--on", "a10", "--confirms"), "--confirms cannot be combined with --on"),
    (("--no-wait",), "--no-wait requires --on"),
    (("--on", "a10", "--no-wait", "--report", "a.md"), "--no-wait cannot be combined with --report"),
]


def test_what_makes_no_sense_is_refused_and_queues_nothing(machines: Machines) -> None:
    (machines.folder / "own.py").touch()
    with machines.there("one", "a10", refuses="never mind"):
        for arguments, sentence in REFUSED:
            assert sentence in machines.typed(*arguments).one_sentence(), arguments
        assert machines.queued() == []


def test_without_a_scheduler_it_says_how_to_start_one(machines: Machines) -> None:
    sentence = machines.typed("--on", "a10").one_sentence()
    assert sentence == "pyrometer: no running scheduler measures: start one with `pyrometer scheduler`"
