"""The run of a task over its attempts: begun, resumed, left, or found complete."""

import threading
from collections.abc import Callable, Sequence
from dataclasses import replace
from datetime import UTC, datetime
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from configuration.settings import load_settings
from db.connection.engine import Database, open_database
from db.queue.commands import claim, lose, plan_run, set_run
from db.queue.queries import attempts
from db.runs import queries, store
from records.tasks import NewTask, Task
from runner.journal import Journal
from scheduled_jobs.jobs.context import ChildExit, ChildLost, JobContext, OnEvent, ignore_event
from scheduled_jobs.jobs.measure import failure_reason
from scheduled_jobs.scheduler.process_identity import Owner
from scheduled_jobs.scheduler.task_runs import MeasuredRun, run_measurement
from support.builders.journals import a_header, a_plan, an_outcome, write_journal
from support.builders.run_records import a_machine, a_run
from workflows.errors import CANNOT_RESUME

NOW = datetime(2026, 6, 1, tzinfo=UTC)
LOCAL_OWNER, REMOTE_OWNER = Owner("here", "boot", 1, 2), Owner("there", "boot", 1, 2)
COMMAND = ["run", "--environment", "nightly"]
OLD_RUN = "20260601-000000-00000001"
WELL = ChildExit(0, None, "")
REFUSED = ChildExit(2, None, "environment nightly has changed since run X began; start a new run")
CHANGED = replace(REFUSED, code=CANNOT_RESUME)

#: Answers a child's arguments; it may write a journal first.
Child = Callable[[Sequence[str]], ChildExit]


def write_half(data_dir: Path, run: str) -> None:
    """The journal of a run that was interrupted after its first outcome."""
    plan = a_plan()
    with Journal(data_dir / "runs" / run) as journal:
        journal.header(a_header(run, plan).to_body())
        journal.outcome(an_outcome(plan[0], NOW))


class TaskSetup:
    """A task in a database, and a machine that measures it by children that are functions."""

    def __init__(self, folder: Path, url: str, database: Database) -> None:
        self.data_dir, self._url, self.database = folder, url, database
        plan_run(database, "nightly", NOW, "timetable", [NewTask("", "measure", {"track": "nightly"})], NOW)
        self.typed: list[list[str]] = []
        self.nodes: list[int] = []
        self.said: list[str] = []

    def attempt(self, owner: Owner, run: str | None = None) -> Task:
        """A new attempt; with `run` one before it measured that, and was lost."""
        if run is not None:
            before = self._claim(owner)
            assert before.token is not None
            set_run(self.database, before.token, run)
            lose(self.database, before.token, "killed", NOW, 5)
        return self._claim(owner)

    def _claim(self, owner: Owner) -> Task:
        token = f"token-{len(self.typed)}-{datetime.now(UTC)}"
        claimed = claim(self.database, owner=str(owner), labels=[], jobs=["measure"], token=token, now=NOW)
        assert claimed is not None
        return claimed

    def measured(self, task: Task, *children: Child, away: bool = False) -> MeasuredRun:
        """Measure on machine `here` by these children, one after the other."""
        waiting = list(children)

        def child(
            arguments: Sequence[str], on_event: OnEvent = ignore_event, run: str = "", nodes: int = 1
        ) -> ChildExit:
            assert run in arguments, "who runs it elsewhere must know which journal to bring"
            self.typed.append(list(arguments))
            self.nodes.append(nodes)
            return waiting.pop(0)(arguments)

        def note(run: str) -> None:
            assert set_run(self.database, str(task.token), run)

        context = JobContext(
            settings=load_settings(cwd=self.data_dir, environ={}),
            data_dir=self.data_dir,
            machine="here",
            open_database=partial(open_database, self._url),
            now=lambda: NOW,
            stop=threading.Event(),
            child=child,
            set_run=note,
            say=self.said.append,
            away=away,
        )
        done = run_measurement(task, context, COMMAND)
        assert waiting == []
        return done

    def named(self, number: int, option: str) -> str:
        """The value of an option that a child was given."""
        return self.typed[number][self.typed[number].index(option) + 1]

    def stored(self, run: str) -> bool:
        found = queries.run_record(self.database, run)
        return found is not None and found.state == "complete"


@pytest.fixture
def setup(tmp_path: Path, url: str, database: Database) -> TaskSetup:
    return TaskSetup(tmp_path, url, database)


def completes(setup: TaskSetup, then: ChildExit = WELL) -> Child:
    """A child that resumes the half run."""

    def child(arguments: Sequence[str]) -> ChildExit:
        with Journal(setup.data_dir / "runs" / OLD_RUN) as journal:
            for one in a_plan()[1:]:
                journal.outcome(an_outcome(one, NOW))
        return then

    return child


def begins(
    setup: TaskSetup, then: ChildExit = WELL, write: Callable[[Path, str], Any] = write_journal
) -> Child:
    """A child that begins the given run."""

    def child(arguments: Sequence[str]) -> ChildExit:
        write(setup.data_dir, arguments[list(arguments).index("--run-id") + 1])
        return then

    return child


def test_a_run_has_its_name_before_it_begins(setup: TaskSetup) -> None:
    done = setup.measured(setup.attempt(LOCAL_OWNER), begins(setup))
    assert (setup.typed, setup.nodes) == ([[*COMMAND, "--run-id", done.run, "--json"]], [1])
    assert (done.began, done.complete, done.counts) == (True, True, {"ok": 8, "crashed": 4})
    assert setup.stored(done.run)


def test_a_run_is_given_the_nodes_of_its_schedule(setup: TaskSetup) -> None:
    task = setup.attempt(LOCAL_OWNER)
    done = setup.measured(replace(task, spec={**task.spec, "nodes": 2}), begins(setup))
    assert (done.complete, setup.nodes) == (True, [2])


def test_what_this_machine_began_is_gone_on_with(setup: TaskSetup) -> None:
    write_half(setup.data_dir, OLD_RUN)

    done = setup.measured(setup.attempt(LOCAL_OWNER, OLD_RUN), completes(setup, ChildExit(1, None, "")))
    assert setup.typed == [["run", "--resume", OLD_RUN, "--json"]]
    assert (done.run, done.complete) == (OLD_RUN, True)
    assert setup.stored(OLD_RUN)


def test_a_child_that_still_writes_is_waited_for(setup: TaskSetup) -> None:
    write_half(setup.data_dir, OLD_RUN)
    orphan, ended = Journal(setup.data_dir / "runs" / OLD_RUN), threading.Event()

    def end() -> None:
        ended.set()
        orphan.close()

    def child(arguments: Sequence[str]) -> ChildExit:
        assert ended.is_set()
        return completes(setup)(arguments)

    threading.Timer(0.5, end).start()
    assert setup.measured(setup.attempt(LOCAL_OWNER, OLD_RUN), child).run == OLD_RUN
    assert setup.typed == [["run", "--resume", OLD_RUN, "--json"]]


def test_what_was_never_begun_keeps_its_name(setup: TaskSetup) -> None:
    done = setup.measured(setup.attempt(LOCAL_OWNER, OLD_RUN), begins(setup))
    assert done.run == OLD_RUN == setup.named(0, "--run-id")


def test_what_another_machine_began_is_begun_anew(setup: TaskSetup) -> None:
    done = setup.measured(setup.attempt(REMOTE_OWNER, OLD_RUN), begins(setup))
    assert done.run != OLD_RUN
    assert done.complete


def test_what_is_complete_needs_no_child_and_is_stored(setup: TaskSetup) -> None:
    write_journal(setup.data_dir, OLD_RUN)
    done = setup.measured(setup.attempt(LOCAL_OWNER, OLD_RUN))
    assert (done.run, done.ended, done.complete) == (OLD_RUN, None, True)
    assert setup.stored(OLD_RUN)


def test_a_complete_run_that_the_database_refuses_fails_with_the_reason(setup: TaskSetup) -> None:
    store.save_run(setup.database, a_run(OLD_RUN, machine=a_machine("elsewhere")))
    write_journal(setup.data_dir, OLD_RUN)
    done = setup.measured(setup.attempt(LOCAL_OWNER, OLD_RUN))
    assert (done.complete, done.stored) == (True, False)
    assert "another machine" in done.refused
    assert failure_reason(done) == done.refused


def test_what_cannot_be_gone_on_with_is_left_and_begun_anew(setup: TaskSetup) -> None:
    write_half(setup.data_dir, OLD_RUN)
    done = setup.measured(setup.attempt(LOCAL_OWNER, OLD_RUN), lambda _: CHANGED, begins(setup))
    assert (setup.named(0, "--resume"), setup.named(1, "--run-id")) == (OLD_RUN, done.run)
    assert done.run != OLD_RUN
    assert done.complete
    assert setup.said == [f"run {OLD_RUN} is not resumed: {CHANGED.sentence}"]


@pytest.mark.parametrize("away", [False, True])
def test_what_cannot_be_gone_on_with_just_now_keeps_its_run(setup: TaskSetup, away: bool) -> None:
    write_half(setup.data_dir, OLD_RUN)
    passing = ChildExit(2, None, "node gpu-b:7391 does not answer")
    with pytest.raises(ChildLost, match="cannot be resumed now: node gpu-b:7391 does not"):
        setup.measured(setup.attempt(LOCAL_OWNER, OLD_RUN), lambda _: passing, away=away)
    assert setup.typed == [["run", "--resume", OLD_RUN, "--json"]] and setup.said == []
    assert [each.run_id for each in attempts(setup.database, 1)] == [OLD_RUN, OLD_RUN]


def test_what_had_trouble_after_it_began_is_gone_on_with_at_once_and_else_later(setup: TaskSetup) -> None:
    full = ChildExit(2, None, "No space left on device")
    with pytest.raises(ChildLost, match="cannot be resumed now: No space left"):
        setup.measured(setup.attempt(LOCAL_OWNER, OLD_RUN), begins(setup, full, write_half), lambda _: full)
    assert (setup.named(0, "--run-id"), setup.named(1, "--resume")) == (OLD_RUN, OLD_RUN)


@pytest.mark.parametrize("refused", [REFUSED, CHANGED])
def test_what_was_completed_while_it_was_waited_for_is_complete(setup: TaskSetup, refused: ChildExit) -> None:
    write_half(setup.data_dir, OLD_RUN)

    # The child of an attempt that was thought dead ended in its own time.
    done = setup.measured(setup.attempt(LOCAL_OWNER, OLD_RUN), completes(setup, refused))
    assert (done.run, done.complete) == (OLD_RUN, True)


def test_what_another_child_has_begun_meanwhile_is_gone_on_with(setup: TaskSetup) -> None:
    task = setup.attempt(LOCAL_OWNER, OLD_RUN)
    done = setup.measured(task, begins(setup, REFUSED, write_half), completes(setup))
    assert (setup.named(0, "--run-id"), setup.named(1, "--resume")) == (OLD_RUN, OLD_RUN)
    assert done.complete


def test_what_cannot_begin_is_not_tried_again(setup: TaskSetup) -> None:
    done = setup.measured(setup.attempt(LOCAL_OWNER), lambda _: REFUSED)
    assert (done.began, done.complete, done.ended) == (False, False, REFUSED)


def test_a_node_that_cannot_begin_leaves_the_task_to_others(setup: TaskSetup) -> None:
    with pytest.raises(ChildLost, match="here cannot begin it: environment nightly has changed"):
        setup.measured(setup.attempt(LOCAL_OWNER), lambda _: REFUSED, away=True)


def test_what_a_node_cannot_go_on_with_is_begun_anew_there(setup: TaskSetup) -> None:
    write_half(setup.data_dir, OLD_RUN)
    done = setup.measured(setup.attempt(LOCAL_OWNER, OLD_RUN), lambda _: CHANGED, begins(setup), away=True)
    assert done.run != OLD_RUN and done.complete


@pytest.mark.parametrize("ended", [ChildExit(None, 9, ""), ChildExit(130, None, "resume with: ...")])
def test_a_run_that_was_killed_from_outside_is_lost(setup: TaskSetup, ended: ChildExit) -> None:
    with pytest.raises(ChildLost):
        setup.measured(setup.attempt(LOCAL_OWNER), begins(setup, ended, write_half))


def test_an_empty_journal_is_a_run_that_never_began(setup: TaskSetup) -> None:
    folder = setup.data_dir / "runs" / OLD_RUN
    folder.mkdir(parents=True)
    (folder / "journal.jsonl").touch()
    done = setup.measured(setup.attempt(LOCAL_OWNER, OLD_RUN), begins(setup))
    assert done.run == OLD_RUN == setup.named(0, "--run-id")


def test_a_run_whose_header_cannot_be_read_is_left_and_begun_anew(setup: TaskSetup) -> None:
    path = setup.data_dir / "runs" / OLD_RUN / "journal.jsonl"
    path.parent.mkdir(parents=True)
    path.write_text("half a header\n")
    done = setup.measured(setup.attempt(LOCAL_OWNER, OLD_RUN), begins(setup))
    assert done.run != OLD_RUN and done.complete and setup.named(0, "--run-id") == done.run
    assert setup.said[0] == f"run {OLD_RUN} is not resumed: {path} has no readable header"
    assert path.read_text() == "half a header\n"


def test_every_attempt_says_which_run_it_measured(setup: TaskSetup) -> None:
    write_half(setup.data_dir, OLD_RUN)
    task = setup.attempt(LOCAL_OWNER, OLD_RUN)
    with pytest.raises(ChildLost):
        setup.measured(task, lambda _: ChildExit(None, 9, ""))
    assert [each.run_id for each in attempts(setup.database, task.id)] == [OLD_RUN, OLD_RUN]
