"""Candidates measured again: what the pairs say decides, what cannot be measured waits with its reason."""

from collections.abc import Iterator, Sequence
from dataclasses import replace
from datetime import datetime, timedelta
from functools import cache
from pathlib import Path
from typing import Any

import pytest

from db.admin.delete_run import forget_run
from db.connection.engine import Database, open_database
from db.findings import store as findings
from db.runs import queries, store
from records.environments import Environment
from records.evidence import Confirmation
from records.findings import Finding, NewFinding
from records.fingerprints import AGAIN
from records.series import Track
from records.tasks import Task, TaskState
from reports.text.finding_text import because
from runner import journal
from scheduled_jobs.detection.confirmation_plan import conditions_mismatch, plan_confirmation
from scheduled_jobs.detection.findings import compared_runs
from scheduled_jobs.detection.sessions import MOST_TRIES, plan_sessions, related_cases
from scheduled_jobs.jobs import detect as detect_job
from scheduled_jobs.jobs.confirm import confirm
from scheduled_jobs.jobs.context import ChildExit, ChildLost, JobResult
from scheduled_jobs.jobs.detect import detect
from support.builders.detection_nights import (
    CASES,
    PINNED,
    TOML,
    Child,
    Nights,
    a_finding,
    a_task,
    build,
    claimed,
    finish,
    job_context,
    nightly,
    waiting,
)
from support.builders.run_records import MLP, RESNET, RESNET_COMPILED, a_machine, a_night, a_run, an_outcome
from support.sqlite_files import filled_file, laid
from workflows.run_header import Header

SLOWER, LAST = 14, 18
OPERATOR = "matmul/infer/k=768,m=512,n=3072/eager"
#: The two environments that are compared: of a night that lies surely before, and of the newest.
OLD, NEW = nightly(SLOWER - 5), nightly(LAST)
MORNING = a_night(LAST).replace(hour=9)


@cache
def history(*others: str) -> bytes:
    """A database that has a candidate, `others` by less, and a session that is asked for."""

    def fill(database: Database, folder: Path) -> None:
        nights = Nights(database, cases=(*CASES, *others))
        nights.add(range(SLOWER))
        nights.add(range(SLOWER, LAST + 1), {RESNET_COMPILED: 1.1, **dict.fromkeys(others, 1.08)})
        look(database, folder, MORNING + timedelta(seconds=1))
        assert {one.key.case for one in findings.findings(database)} == {RESNET_COMPILED, *others}

    return filled_file(fill)


def look(database: Database, folder: Path, now: datetime) -> JobResult:
    """Have the nights judged."""
    task = a_task(database, "detect", {"schedule": "alone", "track": "nightly", "label": ""}, now)
    done = detect(task, job_context(folder, now))
    finish(database, task, done, now)
    return done


class Watched:
    """A history with a candidate, and a session that is asked for."""

    def __init__(self, database: Database, folder: Path) -> None:
        self.database, self.folder, self.looks = database, folder, 1
        for number, environment in enumerate((OLD, NEW)):
            build(folder / "data", environment, f"{number:08x}")
        (self.id,) = (one.id for one in findings.findings(database) if one.key.case == RESNET_COMPILED)

    def look(self) -> JobResult:
        self.looks += 1
        return look(self.database, self.folder, MORNING + timedelta(seconds=self.looks))

    def child(self, ratio: float = 1.1, **changes: object) -> Child:
        child = Child(self.folder / "data", (OLD, NEW), {RESNET_COMPILED: ratio})
        return replace(child, **changes)  # pyright: ignore[reportArgumentType]

    def confirm(self, child: Child) -> JobResult:
        (task,) = waiting(self.database, "confirm")
        return confirm(task, job_context(self.folder, MORNING, child))

    def session(self, child: Child) -> JobResult:
        """Carry out the session that waits, until its task has ended."""
        (task,) = waiting(self.database, "confirm")
        running = claimed_again(self.database, task)
        done = confirm(running, job_context(self.folder, MORNING, child))
        finish(self.database, running, done, MORNING)
        return done

    @property
    def finding(self) -> Finding:
        found = findings.finding(self.database, self.id)
        assert found is not None
        return found


@pytest.fixture
def sqlite(tmp_path: Path, request: pytest.FixtureRequest) -> Iterator[Database]:
    """A database with a history; with which further cases, a test says by `history_of`."""
    url = laid(tmp_path / "database/pyrometer.db", history(*getattr(request, "param", ())))
    with open_database(url) as opened:
        yield opened


def history_of(*others: str) -> pytest.MarkDecorator:
    return pytest.mark.parametrize("sqlite", [others], indirect=True, ids=["with-others"])


@pytest.fixture
def watched(sqlite: Database, tmp_path: Path) -> Watched:
    return Watched(sqlite, tmp_path)


def test_what_the_pairs_show_too_is_a_regression(watched: Watched) -> None:
    child = watched.child()
    done = watched.confirm(child)
    assert (done.state, done.result["confirmed"], done.result["summary"]) == ("done", 1, "1 confirmed of 1")
    found = watched.finding
    assert (found.state, found.decided_at) == ("confirmed", MORNING)
    assert found.low is not None and found.high is not None
    assert found.low < 0.0953 < found.high and found.high - found.low < 0.02
    # Both sides are given as what was built, whatever their names mean today.
    command = child.commands[0]
    assert command[0] == "upgrade" and command[1].endswith(f"{OLD.name}-00000000")
    assert (
        command[command.index("--device") + 1] == "cpu" and command[command.index("--suite") + 1] == "smoke"
    )
    # No upgrade was requested.
    assert "--confirms" in command
    evidence, session = found.evidence, found.evidence.confirmation
    assert session.run == done.result["run"] and session.verdict.word == "slower"
    assert session.dispatch["case"] == RESNET_COMPILED
    assert session.dispatch["not_compared"] == {"mkl": "not built in"}
    # Nothing but the candidate is measured until it is confirmed.
    assert command.count("--case") == 1 and session.related == ()
    assert [each.torch for each in session.compared] == [OLD.torch_version, NEW.torch_version]
    assert session.bisect.startswith(
        "pyrometer bisect 'nightly 2026-09-10' 'nightly 2026-09-19' --case resnet50"
    )
    assert session.bisect.endswith(" --metric latency_floor")
    assert session.reproduce.startswith("pyrometer upgrade /") and not session.rebuilt
    # What was seen stays beside what was measured.
    assert evidence.changes and evidence.detected.nights == LAST + 1


@history_of(MLP)
def test_what_came_back_while_its_session_waited_is_not_judged_by_nights_without_it(
    watched: Watched, sqlite: Database, tmp_path: Path
) -> None:
    (task,) = waiting(sqlite, "confirm")
    newest = nightly(LAST + 1)
    build(tmp_path / "data", newest, "00000002")
    # The next night MLP is as fast as it was, and the session has not begun.
    Nights(sqlite).add(range(LAST + 1, LAST + 2), {RESNET_COMPILED: 1.1})
    watched.look()
    child = watched.child(environments=(OLD, newest))
    running = claimed_again(sqlite, task)
    done = confirm(running, job_context(tmp_path, MORNING, child))
    states = {one.key.case: one.state for one in findings.findings(sqlite)}
    assert states == {RESNET_COMPILED: "confirmed", MLP: "candidate"}
    assert MLP not in child.commands[0]
    # The other one gets a session of its own, between its own nights.
    finish(sqlite, running, done, MORNING)
    assert [task.schedule for task in waiting(sqlite, "detect")] == ["detect:alone"]
    (other,) = [one for one in findings.findings(sqlite) if one.key.case == MLP]
    assert (compared_runs(other).old, compared_runs(other).new) == (OLD.fingerprint, NEW.fingerprint)


def test_a_regression_is_traced_on_both_sides(watched: Watched) -> None:
    child = watched.child()
    watched.confirm(child)
    # The first one fails: nothing would be left to subtract the other from.
    (traced,) = child.commands[1:]
    assert traced[:2] == ["profile", RESNET_COMPILED] and traced[3].endswith(f"{OLD.name}-00000000")
    assert watched.finding.evidence.confirmation.operators is None


def test_a_machine_that_is_lost_with_a_trace_takes_no_verdict_with_it(watched: Watched) -> None:
    child = watched.child()

    def lost_with_a_trace(arguments: Sequence[str], *about: Any, **named: Any) -> ChildExit:
        if arguments[0] == "profile":
            raise ChildLost("node bench-1 is lost")
        return child(arguments, *about, **named)

    (task,) = waiting(watched.database, "confirm")
    confirm(task, job_context(watched.folder, MORNING, lost_with_a_trace))
    assert watched.finding.state == "confirmed"


def test_tables_of_both_sides_are_subtracted(watched: Watched, sqlite: Database) -> None:
    for environment, microseconds in ((OLD, 100.0), (NEW, 140.0)):
        row = {"name": "aten::mm", "kind": "operator", "calls": 3, "self_cpu_us": microseconds}
        facts = {"operators": [row], "device": "cpu"}
        outcome = an_outcome(RESNET_COMPILED, environment=environment, metrics={}, facts=facts, blocks=())
        traced = f"traced-{environment.name}"
        store.save_run(
            sqlite, a_run(traced, suite="profile", environments=[environment], started_at=a_night(20))
        )
        store.save_outcomes(sqlite, traced, [outcome])
    watched.confirm(watched.child())
    operators = watched.finding.evidence.confirmation.operators
    assert (operators.old_run, operators.new_run) == (f"traced-{OLD.name}", f"traced-{NEW.name}")
    assert [(row["name"], row["delta_us"]) for row in operators.rows] == [("aten::mm", 40.0)]


def test_what_stays_off_its_old_level_is_measured_once_more_and_not_for_ever(
    watched: Watched, sqlite: Database
) -> None:
    watched.session(watched.child(1.0))
    nights, slower = Nights(sqlite), {RESNET_COMPILED: 1.1}
    nights.add(range(LAST + 1, SLOWER + 10), slower)
    assert (watched.look().result["repeated"], watched.finding.state) == (0, "refuted")
    nights.add(range(SLOWER + 10, SLOWER + 11), slower)
    first = nightly(0)
    build(watched.folder / "data", first, "00000007")
    build(watched.folder / "data", nightly(SLOWER + 10), "00000008")
    assert watched.look().result["repeated"] == 1
    found = watched.finding
    assert found.state == "candidate" and found.change == pytest.approx(0.0953, abs=0.01)
    assert "stay off the old level by +1" in because(found.state, found.evidence)
    # From the first night of the level that was left to the newest.
    child = watched.child(1.0, environments=(first, nightly(SLOWER + 10)))
    watched.session(child)
    assert child.commands[0][1].endswith(f"{first.name}-00000007")
    assert (watched.finding.state, because("refuted", watched.finding.evidence)) == (
        "refuted",
        "the session shows no difference that matters",
    )
    nights.add(range(SLOWER + 11, SLOWER + 13), slower)
    assert (watched.look().result["repeated"], waiting(sqlite, "confirm")) == (0, [])


def test_what_stayed_unclear_and_stays_off_its_old_level_is_measured_once_more(
    watched: Watched, sqlite: Database
) -> None:
    """As a session may end that others disturbed: without a second one, that would be its last word."""
    (task,) = waiting(sqlite, "confirm")
    running = claimed_again(sqlite, task)
    findings.decide(sqlite, watched.id, "unclear", 0.1, None, None, Confirmation(), MORNING)
    finish(sqlite, running, JobResult(), MORNING)
    Nights(sqlite).add(range(LAST + 1, SLOWER + 11), {RESNET_COMPILED: 1.1})
    assert watched.look().result["repeated"] == 1
    found = watched.finding
    assert found.state == "candidate" and "unclear once" in because(found.state, found.evidence)
    assert len(waiting(sqlite, "confirm")) == 1


def test_related_cases_are_measured_once_a_candidate_is_confirmed(watched: Watched, sqlite: Database) -> None:
    child = watched.child()
    watched.session(child)
    (after,) = waiting(sqlite, "confirm")
    done = confirm(after, job_context(watched.folder, MORNING, child))
    command = child.commands[-1]
    assert command[:3] == child.commands[0][:3] and command[command.index("--case") + 1] == RESNET
    assert (done.state, done.result["summary"], done.follow_ups) == ("done", "1 related case measured", ())
    found = watched.finding
    (related,) = found.evidence.confirmation.related
    assert (related.case, related.verdict.word) == (RESNET, "same")
    # What was decided stays as it was, with the run that decided it.
    assert found.state == "confirmed" and found.evidence.confirmation.run != done.result["run"]
    # An attempt that dies after it stored them is repeated.
    confirm(after, job_context(watched.folder, MORNING, child))
    assert [one.case for one in watched.finding.evidence.confirmation.related] == [RESNET]


def test_an_attempt_that_ended_after_its_decisions_leads_to_what_it_would_have(
    watched: Watched, sqlite: Database
) -> None:
    (task,) = waiting(sqlite, "confirm")
    task = replace(task, spec={**task.spec, "left": 1})
    child = watched.child()
    done = confirm(task, job_context(watched.folder, MORNING, child))
    repeated = replace(task, run_id=str(done.result["run"]))
    again = confirm(repeated, job_context(watched.folder, MORNING, child))
    assert again.follow_ups == done.follow_ups and len(done.follow_ups) == 2
    assert "nothing" in again.result["summary"]


def test_what_is_refuted_has_no_related_cases_measured(watched: Watched) -> None:
    assert watched.confirm(watched.child(1.0)).follow_ups == ()


def test_related_cases_that_cannot_be_measured_change_nothing(watched: Watched, sqlite: Database) -> None:
    watched.session(watched.child())
    before = watched.finding
    (after,) = waiting(sqlite, "confirm")
    done = confirm(after, job_context(watched.folder, MORNING, watched.child(refuses="the disk is full")))
    assert (done.state, done.error, watched.finding) == ("failed", "the disk is full", before)


@pytest.mark.parametrize(("ratio", "reason"), [(1.0, "no difference"), (0.9, "the opposite")])
def test_what_the_pairs_do_not_show_is_refuted(watched: Watched, ratio: float, reason: str) -> None:
    done = watched.confirm(watched.child(ratio))
    found = watched.finding
    assert (found.state, done.result["refuted"]) == ("refuted", 1)
    assert reason in found.evidence.confirmation.reason and found.evidence.confirmation.bisect == ""
    # It is kept as that, and is not requested again.
    assert watched.look().follow_ups == () and watched.finding.state == "refuted"


@history_of(OPERATOR)
@pytest.mark.parametrize(("ratio", "states"), [(1.0, []), (1.08, ["confirmed"])])
def test_an_operator_of_the_same_session_moved_too_only_where_it_is_not_refuted(
    watched: Watched, sqlite: Database, ratio: float, states: list[str]
) -> None:
    (task,) = waiting(sqlite, "confirm")
    # The model is decided first: what the session says of the operator is not stored by then.
    assert len(task.spec["findings"]) == 2 and task.spec["findings"][0] == watched.id
    watched.confirm(watched.child(ratios={RESNET_COMPILED: 1.1, OPERATOR: ratio}))
    found = watched.finding
    assert (
        found.state == "confirmed" and [one.state for one in found.evidence.confirmation.moved_with] == states
    )


@history_of(OPERATOR)
def test_what_moved_too_is_stored_with_the_decision_itself(
    watched: Watched, monkeypatch: pytest.MonkeyPatch
) -> None:
    decide = findings.decide

    def dies_after_it(*about: object) -> None:
        decide(*about)  # pyright: ignore[reportArgumentType]
        raise KeyboardInterrupt

    monkeypatch.setattr(findings, "decide", dies_after_it)
    with pytest.raises(KeyboardInterrupt):
        watched.confirm(watched.child(ratios={RESNET_COMPILED: 1.1, OPERATOR: 1.08}))
    found = watched.finding
    assert found.state == "confirmed"
    stored = [(one.case, one.state, round(one.change, 2)) for one in found.evidence.confirmation.moved_with]
    assert stored == [(OPERATOR, "confirmed", 0.08)]


def test_where_an_environment_is_gone_and_cannot_come_back_it_waits(
    watched: Watched, sqlite: Database
) -> None:
    child = watched.child(refuses="environment nightly 2026-09-10 cannot be built: no such wheel")
    for number in range(MOST_TRIES):
        done = watched.session(child)
        found = watched.finding
        assert (done.state, found.state, found.evidence.tries) == ("failed", "candidate", number + 1)
        assert found.evidence.waits == done.error == child.refuses
        watched.look()
    assert waiting(sqlite, "confirm") == []


def claimed_again(database: Database, task: Task) -> Task:
    taken = claimed(database, MORNING + timedelta(hours=task.id), task.label)
    assert taken.id == task.id
    return taken


def test_another_pytorch_in_the_old_ones_place_judges_nothing(watched: Watched) -> None:
    other = replace(OLD, fingerprint="other", torch_version="2.15.0+cpu"), "is another today"
    same = replace(NEW, fingerprint=NEW.fingerprint + AGAIN), "one and the same"
    for tries, (old, reason) in enumerate((other, same), start=1):
        done = watched.confirm(watched.child(environments=(old, NEW)))
        assert done.state == "failed" and reason in done.error
        assert (watched.finding.state, watched.finding.evidence.tries) == ("candidate", tries)


def test_other_hardware_judges_nothing(watched: Watched) -> None:
    done = watched.confirm(watched.child(machine=a_machine(hardware="Xeon 6430, 4 cores")))
    assert done.state == "failed" and "hardware of bench-1 has changed" in done.error
    found = watched.finding
    assert (found.state, found.evidence.waits) == ("candidate", done.error)


def test_a_session_on_other_hardware_is_not_measured_again(watched: Watched, sqlite: Database) -> None:
    done = watched.session(watched.child(machine=a_machine(hardware="Xeon 6430, 4 cores")))
    watched.look()
    assert waiting(sqlite, "confirm") == []
    assert watched.finding.evidence.waits == done.error


def test_a_session_under_another_preset_judges_nothing(watched: Watched) -> None:
    run = watched.confirm(watched.child()).result["run"]
    header = Header.from_body(
        journal.read_contents(watched.folder / "data" / "runs" / run / journal.FILE).header
    )
    hardware, preset = header.machine["hardware_fingerprint"], header.preset["fingerprint"]
    assert conditions_mismatch(hardware, preset, header) == conditions_mismatch("", "", header) == ""
    assert "preset quiet has changed" in conditions_mismatch(hardware, "other", header)


def test_a_side_that_was_built_anew_refutes_nothing(watched: Watched) -> None:
    (built,) = (watched.folder / "data" / "environments").glob(f"{OLD.name}-*")
    (built / "built.json").unlink()
    anew = replace(OLD, fingerprint="anew")
    child = watched.child(1.0, environments=(anew, NEW))
    watched.confirm(child)
    assert child.commands[0][1] == "nightly 2026-09-10"
    found = watched.finding
    assert (
        found.state == "unclear"
        and "built anew" in found.evidence.confirmation.reason
        and found.evidence.confirmation.rebuilt
    )


def test_one_that_was_called_fixed_returns(watched: Watched, sqlite: Database) -> None:
    fixed = findings.save_findings(sqlite, [earlier(watched.finding)], a_night(3))[0]
    findings.decide(sqlite, fixed.id, "confirmed", 0.1, 0.09, 0.11, Confirmation(), a_night(3))
    findings.triage(sqlite, fixed.id, "fixed", "ada", "", None, a_night(4))
    watched.confirm(watched.child())
    assert (watched.finding.returns_of, watched.finding.triage) == (fixed.id, "open")


def earlier(one: Finding) -> NewFinding:
    """The same change two weeks before."""
    return NewFinding(
        *(one.key, one.schedule, one.track, one.label, one.direction, one.shape),
        *("alone-nightly-bench-1-003", "alone-nightly-bench-1-002"),
        *(one.old_environment, one.new_environment, 0.1),
    )


def test_findings_of_other_tracks_displace_none(
    watched: Watched, sqlite: Database, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As where the machines of a fleet have a track each."""
    (task,) = waiting(sqlite, "confirm")
    finish(sqlite, claimed_again(sqlite, task), JobResult(TaskState.FAILED), MORNING)
    findings.save_findings(
        sqlite, [replace(earlier(watched.finding), label="other")], MORNING + timedelta(days=1)
    )
    monkeypatch.setattr(detect_job, "_KNOWN", 1)
    (again,) = [each for follow_up in watched.look().follow_ups for each in follow_up.tasks]
    assert again.spec["findings"] == [watched.id]


def test_what_was_decided_meanwhile_is_not_measured(watched: Watched, sqlite: Database) -> None:
    findings.decide(sqlite, watched.id, "refuted", 0.0, None, None, Confirmation(), MORNING)
    child = watched.child()
    done = watched.confirm(child)
    assert (done.state, child.commands) == ("done", []) and "nothing" in done.result["summary"]


def test_what_only_an_empty_cache_tells_is_measured_with_one_in_each_pair(watched: Watched) -> None:
    one, again = watched.finding, Track("alone", "nightly", "")
    compiles = replace(one, id=77, key=replace(one.key, metric="compile_cold"))
    warm = replace(one, id=78, key=replace(one.key, metric="compile_warm"))
    # In one session the other would find no cache that is filled.
    both = plan_sessions([one, compiles, warm], {one.machine: [RESNET]})
    assert {each.cold: each.cases for each in both} == {
        False: (RESNET_COMPILED,),
        True: (RESNET_COMPILED,),
    }
    assert {each.cold: each.related for each in both} == {False: (RESNET,), True: ()}
    assert sorted(each.findings for each in both) == [(watched.id, 78), (77,)]
    assert len({each.task(again).part for each in both}) == 2
    with open_database(f"sqlite:///{watched.folder}/database/pyrometer.db") as database:
        commands = {
            found.key.metric: plan_confirmation(
                database, job_context(watched.folder, MORNING), [found], []
            ).command
            for found in (one, compiles, warm)
        }
    also = {
        metric: command[command.index("--also") + 1 :]
        for metric, command in commands.items()
        if "--also" in command
    }
    assert also == {"compile_cold": ["compile_cold"], "compile_warm": ["compile_warm"]}
    given = {metric: "--cold-pairs" in command for metric, command in commands.items()}
    assert given == {"latency_floor": False, "compile_cold": True, "compile_warm": False}
    command = commands["compile_cold"]
    # As many as there are, spare ones included.
    assert int(command[command.index("--cold-pairs") + 1]) >= 15


def test_a_case_that_no_session_can_measure_uses_up_no_tries_of_the_others(watched: Watched) -> None:
    one, track = watched.finding, Track("alone", "nightly", "")
    other = replace(one, id=77, key=replace(one.key, case=MLP))
    (both,) = plan_sessions([one, other], {})
    assert {*both.findings} == {one.id, 77}
    # As where a file of cases lacks one of them now: the command of both refuses.
    failed = [replace(each, evidence=replace(each.evidence, tries=1)) for each in (one, other)]
    alone = plan_sessions(failed, {})
    assert sorted(each.findings for each in alone) == [(one.id,), (77,)]
    # What a session is called is its key in the queue.
    assert len({each.task(track).part for each in (both, *alone)}) == 3


def test_memory_that_includes_compiling_is_measured_with_an_empty_cache_where_anything_is_compiled(
    watched: Watched,
) -> None:
    one = watched.finding
    found = [
        replace(one, id=at, key=replace(one.key, metric="rss_peak", case=case))
        for at, case in ((77, RESNET_COMPILED), (78, RESNET))
    ]
    sessions = plan_sessions(found, {})
    assert {each.cold: each.findings for each in sessions} == {True: (77,), False: (78,)}
    with open_database(f"sqlite:///{watched.folder}/database/pyrometer.db") as database:
        commands = [
            plan_confirmation(database, job_context(watched.folder, MORNING), [each], []).command
            for each in found
        ]
    assert ["--cold-pairs" in command for command in commands] == [True, False]
    # Two pairs decide a metric that hardly varies.
    assert not any("--also" in command for command in commands)


def test_what_is_neither_better_nor_worse_keeps_no_other_from_its_verdict(watched: Watched) -> None:
    one = watched.finding
    found = [
        one,
        *(
            replace(one, id=at, key=replace(one.key, metric=name))
            for at, name in ((77, "power"), (78, "latency"))
        ),
    ]
    with open_database(f"sqlite:///{watched.folder}/database/pyrometer.db") as database:
        command = plan_confirmation(database, job_context(watched.folder, MORNING), found, []).command
    assert command[command.index("--also") :] == ["--also", "latency"]


def test_clocks_that_the_nights_held_are_held_by_the_session(watched: Watched) -> None:
    run = queries.run_record(watched.database, compared_runs(watched.finding).new_run)
    assert run is not None
    held = {"device": "cuda:0", "conditions": {"gpus": {"0": {"locked_clock_mhz": 1500}}}}
    store.save_run(watched.database, replace(run, facts={**run.facts, **held}))
    context = job_context(watched.folder, MORNING)
    session = plan_confirmation(watched.database, context, [watched.finding], [])
    assert session.command[-2:] == ["--lock-clocks", "1500"]
    # Nor has `profile` or `bisect`, which take its options, such a one.
    assert "--lock-clocks" not in session.options


def test_cases_of_ones_own_are_brought_along(watched: Watched) -> None:
    toml = TOML + 'case_files = ["mine.py", "/elsewhere/cases.py"]\n'
    (task,) = waiting(watched.database, "confirm")
    child = watched.child()
    confirm(task, job_context(watched.folder, MORNING, child, toml))
    own = ["--cases", str(watched.folder / "mine.py"), "--cases", "/elsewhere/cases.py"]
    for command in child.commands:
        at = command.index("--cases")
        assert command[at : at + 4] == own
    assert [command[0] for command in child.commands] == ["upgrade", "profile"]


def test_what_a_name_stood_for_is_known_however_much_others_measured_since(
    database: Database, tmp_path: Path
) -> None:
    def own(night: int) -> Environment:
        return replace(nightly(night), name=f"ours-{night}", torch_version=f"2.16.0a0+git{night}")

    Nights(database, environment=own).add(range(3))
    for number in range(201):
        other = a_run(
            f"other-{number}",
            environments=[PINNED],
            started_at=a_night(3) + timedelta(minutes=number),
            machine=a_machine("another"),
        )
        store.save_run(database, other)
    away = replace(job_context(tmp_path, a_night(9)), away=True)
    session = plan_confirmation(database, away, [a_finding(database)], [])
    assert (session.old.text, session.new.text) == ("ours-1", "ours-2")


def test_the_others_of_the_workload_are_related() -> None:
    gelu = "resnet50/infer/batch=8,image=224/precision=bf16"
    assert related_cases([RESNET_COMPILED], [MLP, gelu, RESNET, RESNET_COMPILED]) == [RESNET, gelu]


def test_where_a_night_was_pruned_it_waits_with_a_sentence(watched: Watched, sqlite: Database) -> None:
    old = compared_runs(watched.finding).old_run
    assert forget_run(sqlite, old, force=True) is not None
    child = watched.child()
    done = watched.confirm(child)
    sentence = f"run {old}, whose environment is to be compared, is no longer in the database"
    assert (done.state, done.error, child.commands) == ("failed", sentence, [])
    assert (watched.finding.state, because("candidate", watched.finding.evidence)) == ("candidate", sentence)
    # The next look knows other nights that lie surely before.
    watched.look()
    assert compared_runs(watched.finding).old_run != old and len(waiting(sqlite, "confirm")) >= 1
