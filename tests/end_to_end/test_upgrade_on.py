"""`pyrometer upgrade --on` with the real scheduler of this machine, real measuring, and a real Ctrl-C."""

import json
import signal
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager

import pytest

from db.connection.engine import open_database
from db.queue.queries import schedulers, tasks
from db.runs import queries
from fleet.upgrade_tasks import SCHEDULE
from records.tasks import TaskState
from scheduled_jobs.scheduler.process_identity import machine_name
from support.site import COMMAND, Site, measured_python
from support.waiting import until

MLP = "mlp_overhead/infer/batch=64/eager"
SUITE = f'[suites.tiny]\ncases = ["{MLP}"]\nmeasure_seconds = 0.05\nwarm_up_max_seconds = 0.1\n'


@contextmanager
def a_scheduler(site: Site) -> Iterator[None]:
    """The scheduler of this machine, in a process of its own."""
    with (site.folder / "scheduler.log").open("w") as log:
        process = subprocess.Popen(
            [COMMAND, "scheduler", "--log", "json"], cwd=site.folder, env=site.environ({}), stdout=log
        )
        try:
            until(lambda: _known(site), "the scheduler is known")
            yield
        finally:
            process.send_signal(signal.SIGTERM)
            process.wait()


def _known(site: Site) -> bool:
    with open_database(site.url, create=False) as database:
        return bool(schedulers(database))


@pytest.fixture
def place(site: Site) -> Site:
    file = site.folder / "pyrometer.toml"
    file.write_text('machine_labels = ["lab"]\n' + file.read_text() + SUITE)
    return site


@pytest.mark.torch
def test_a_machine_measures_and_its_verdict_is_printed_written_and_the_exit_code(place: Site) -> None:
    # The budget has room for the first pair; `tests/cli/commands/test_upgrade_on.py` has other verdicts.
    how = ("--suite", "tiny", "--pairs", "4", "--budget", "1", "--report", "verdict.json")
    with a_scheduler(place):
        done = place.call("upgrade", "default", "default", "--on", "lab", *how, "--json")
    verdict = done.events[-1]
    assert verdict["event"] == "verdict", done
    assert (done.code, verdict["decision"]) == (3, "unclear")
    (hardware,) = verdict["hardware"]
    (machine,) = hardware["machines"]
    assert (machine["machine"], machine["decision"]) == (machine_name(), "unclear")
    (case,) = machine["report"]["cases"]
    assert (case["case"], case["old"]["status"], case["new"]["status"]) == (MLP, "ok", "ok")
    (dispatch,) = machine["report"]["dispatch"]
    assert (dispatch["case"], dispatch["old_failure"], dispatch["changes"]) == (MLP, "", [])
    written = json.loads((place.folder / "verdict.json").read_text())
    assert written["hardware"] == verdict["hardware"]
    with open_database(place.url, create=False) as database:
        (run,) = queries.run_ids(database)
        assert run == machine["report"]["run"]["id"]
    states = [event["state"] for event in done.events if event["event"] == "task"]
    assert states[-1] == "done" and "running" in states


@pytest.mark.torch
def test_ctrl_c_leaves_the_tasks_queued(place: Site) -> None:
    with a_scheduler(place):
        # The budget has room for the first pair.
        how = ("--suite", "tiny", "--pairs", "4", "--budget", "1", "--no-fingerprint")
        command = place.start_command("upgrade", str(measured_python()), "default", "--on", "lab", *how)
        command.until("task", state="running")
        command.process.send_signal(signal.SIGINT)
        done = command.end()
        assert done.code == 130, done
        assert "the tasks stay queued" in done.err and "Traceback" not in done.err
        with open_database(place.url, create=False) as database:
            (task,) = tasks(database, schedule=SCHEDULE)
            # Its one pair may be over by now.
            assert task.state in (TaskState.RUNNING, TaskState.DONE)
            over = until(
                lambda: [one for one in tasks(database, schedule=SCHEDULE) if one.ended_at],
                "it ends by itself",
            )
    assert [one.state for one in over] == [TaskState.DONE]
