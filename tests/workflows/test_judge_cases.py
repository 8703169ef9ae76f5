"""A run against the earlier ones in the database: only those that it can be compared with count."""

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import pytest

from analysis.decision.run_cases import RunCase
from analysis.detection.default_watched_metrics import WATCHED
from db.connection.engine import Database, open_database
from db.findings import store as findings
from db.queue import commands as queue
from records.environments import Environment
from records.evidence import Confirmation
from records.findings import NewFinding
from records.kinds import RunKind, RunSource
from records.outcomes import Outcome
from records.runs import Run
from records.series import SeriesKey
from records.tasks import NewTask
from support.builders.run_records import (
    MLP,
    RESNET,
    a_machine,
    a_night,
    a_preset,
    a_run,
    an_environment,
    an_outcome,
)
from support.builders.stored_run import store_run
from support.sqlite_files import open_with_tables
from workflows.errors import UsageError
from workflows.load_run import LoadedRun, judge_cases
from workflows.measure import RunResult

DEFAULT = an_environment(name="default")
#: The number of the night that is judged.
NOW = 20


def stored(
    database: Database, night: int, latency: float, environment: Environment = DEFAULT, **changes: Any
) -> tuple[Run, list[Outcome]]:
    """A run of one case, stored."""
    named = {name: changes.pop(name) for name in ("machine", "preset", "environments") if name in changes}
    environments = named.pop("environments", [environment])
    metrics, case = changes.pop("metrics", None), changes.pop("case", MLP)
    run = a_run(f"night-{night}", environments=environments, started_at=a_night(night), **named)
    run = replace(run, **changes)
    outcomes = [
        an_outcome(case, environment=each, replicate=number, latency=latency, metrics=metrics)
        for each in environments
        for number in (0, 1)
    ]
    store_run(database, run, outcomes)
    return run, outcomes


def judged(database: Database, run: Run, outcomes: Sequence[Outcome]) -> RunCase:
    """The only case of a stored run."""
    result = RunResult(run.id, run.state, tuple(outcomes), stored=True, seconds=None)
    loaded = LoadedRun(result, run.started_at, 2, traced=False, source=run.source, stored=run)
    (case,) = judge_cases(loaded, lambda: open_database(database.name)).cases
    return case


def test_earlier_runs_of_the_same_environment_are_its_level(database: Database) -> None:
    for night in range(5):
        stored(database, night, 2.0 + night / 1000)
    # Another version in an environment of the same name is what is to be seen.
    stored(database, 5, 2.0, an_environment("2.14.0", name="default"))
    case = judged(database, *stored(database, NOW, 2.4))
    assert case.change is not None
    assert (case.change.nights, case.outside) == (6, True)
    assert case.change.level == pytest.approx(2.0015, rel=1e-3)


@pytest.mark.parametrize(
    "changes",
    [
        {"machine": a_machine("bench-2")},
        {"machine": a_machine("bench-1", "Xeon 8580, 2 cores")},
        {"preset": a_preset("as-it-comes")},
        {"harness": "harness-2"},
        {"environment": an_environment("2.14.0", name="nightly")},
        {"environments": [DEFAULT, an_environment("2.14.0", name="new")]},
        {"night": NOW + 1},
    ],
    ids=["machine", "hardware", "preset", "harness", "environment", "pairs", "later"],
)
def test_what_cannot_be_compared_is_left_out(database: Database, changes: dict[str, Any]) -> None:
    stored(database, 1, 2.0)
    stored(database, **{"night": 2, "latency": 9.0, **changes})
    case = judged(database, *stored(database, NOW, 2.0))
    assert case.change is not None
    assert (case.change.nights, case.change.change) == (1, pytest.approx(0.0))


@pytest.mark.parametrize("where", ["other machines", "other cases", "later"])
def test_many_other_runs_hide_no_earlier_one(database: Database, where: str) -> None:
    for night in range(4):
        stored(database, night, 2.0 + night / 1000)
    run, outcomes = stored(database, NOW, 2.4)
    for number in range(60):
        if where == "later":
            stored(database, NOW + 1 + number, 9.0)
        elif where == "other cases":
            stored(database, 100 + number, 9.0, case=RESNET, started_at=a_night(10))
        else:
            machine = a_machine(f"bench-{2 + number}")
            stored(database, 100 + number, 9.0, machine=machine, started_at=a_night(10))
    case = judged(database, run, outcomes)
    assert case.change is not None
    assert (case.change.nights, case.outside) == (4, True)


def test_nights_of_one_track_are_compared_whatever_their_environment_is_called(database: Database) -> None:
    for night in (1, 2, NOW):
        environment = an_environment(f"2.14.0.dev{night}", name=f"nightly {night}")
        run, outcomes = stored(database, night, 2.0, environment)
        task = NewTask("nightly@h200", "measure", {"track": "nightly" if night > 1 else "other"}, "h200")
        at, token = a_night(night), f"token-{night}"
        queue.plan_run(database, "nightly", at, "timetable", [task], at)
        queue.claim(database, owner="one", labels=["h200"], jobs=["measure"], token=token, now=at)
        assert queue.set_run(database, token, run.id)
        queue.finish(database, token, "done", {}, "", at)
    case = judged(database, run, outcomes)
    assert case.change is not None and case.change.nights == 1


def test_the_first_run_has_no_change(database: Database) -> None:
    assert judged(database, *stored(database, NOW, 2.0)).change is None


def a_confirmed_regression(database: Database, **changes: Any) -> None:
    """One in `DEFAULT`, found by a schedule on night 2."""
    preset, hardware = a_preset(), a_machine().hardware
    where = (hardware.fingerprint, hardware.label, preset.fingerprint, preset.name)
    key = SeriesKey(MLP, changes.pop("metric", "latency"), *where)
    new = NewFinding(
        *(key, "nightly", "nightly", "", "worse", "step", "night-2", "night-1"),
        *(DEFAULT.fingerprint, DEFAULT.fingerprint, 0.1),
    )
    (found,) = findings.save_findings(database, [replace(new, **changes)], a_night(3))
    findings.decide(database, found.id, "confirmed", 0.1, 0.09, 0.11, Confirmation(), a_night(4))


def test_an_open_regression_that_was_confirmed_in_its_environment_fails_a_case(database: Database) -> None:
    for night in (1, 2):
        stored(database, night, 2.0)
    a_confirmed_regression(database)
    run, outcomes = stored(database, NOW, 2.2)
    assert judged(database, run, outcomes).failed
    findings.triage(database, judged_id(database), "expected", "ada", "known", None, a_night(5))
    assert not judged(database, run, outcomes).failed


def test_a_regression_that_was_confirmed_on_another_machine_fails_nothing(database: Database) -> None:
    for night in (1, 2):
        stored(database, night, 2.0)
    a_confirmed_regression(database)
    assert not judged(database, *stored(database, NOW, 2.0, machine=a_machine("bench-2"))).failed


@pytest.mark.parametrize("metric", WATCHED)
def test_a_confirmed_regression_of_every_watched_metric_fails_its_case(
    database: Database, metric: str
) -> None:
    measured: dict[str, Any] = {"metrics": {"latency": 2.0, metric: 1.0}}
    for night in (1, 2):
        stored(database, night, 2.0, **measured)
    a_confirmed_regression(database, metric=metric)
    assert judged(database, *stored(database, NOW, 2.0, **measured)).failed


def judged_id(database: Database) -> int:
    """The id of the only finding."""
    (found,) = findings.findings(database)
    return found.id


@pytest.mark.parametrize("direction", ["better", "worse"])
def test_an_improvement_and_a_regression_elsewhere_fail_nothing(database: Database, direction: str) -> None:
    other = an_environment("2.14.0", name="nightly")
    for night in (1, 2):
        stored(database, night, 2.0, environments=[DEFAULT, other])
    environment = DEFAULT if direction == "better" else other
    a_confirmed_regression(database, direction=direction, new_environment=environment.fingerprint)
    assert not judged(database, *stored(database, NOW, 2.0)).failed


@pytest.mark.parametrize(
    ("changes", "word"),
    [({"source": RunSource.IMPORTED}, "not measured by Pyrometer"), ({"kind": RunKind.TRACE}, "was traced")],
)
def test_what_was_not_measured_has_no_report(changes: dict[str, Any], word: str) -> None:
    run = replace(a_run(), **changes)
    result = RunResult(run.id, run.state, (), stored=True, seconds=None)
    loaded = LoadedRun(
        result, run.started_at, 0, traced=run.kind == RunKind.TRACE, source=run.source, stored=run
    )
    with pytest.raises(UsageError, match=word):
        judge_cases(loaded, lambda: open_with_tables("sqlite:///unused"))
