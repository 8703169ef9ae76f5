"""What stands beside the nights: scheduled runs, tasks, schedulers that live, findings, and an upgrade."""

import random
import time
from collections.abc import Iterator
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

from sqlalchemy import insert

from analysis.comparison.plan import Plan
from analysis.comparison.policy import Policy
from analysis.decision.comparison import COMPARED, Comparison
from db.connection.engine import Database, one_transaction, open_database
from db.findings import store as findings
from db.queue import commands as queue
from db.runs import series_queries, store
from db.schema import queue_tables
from records.evidence import evidence_of
from records.findings import NewFinding
from records.kinds import RunKind
from records.outcomes import Outcome, OutcomeStatus
from records.tasks import SchedulerSeen

from .filling import fill, size
from .history import A_NIGHT, CASES, MACHINES, SEED, History, Night, case, environment

#: The nightly's name, and the track it measures.
SCHEDULE = TRACK = "nightly"
#: Every so many nights something is found, in one of the series.
_NIGHTS_A_FINDING = 3
#: What findings came to, over and over.
_STATES = ("confirmed", "refuted", "refuted", "unclear", "confirmed", "no longer")
#: The result of each session, and what else is known.
_EVIDENCE = {
    "reason": "the session shows it too",
    "verdict": {"word": "slower", "unit": "ms", "pairs": 8, "old": 10.0, "new": 10.5, "change": 0.05},
    "changes": [
        {"kind": "environment", "name": f"package-{each}", "before": f"1.{each}.0", "after": f"1.{each}.1"}
        for each in range(30)
    ],
    "neighbours": [
        {"case": case(each), "word": "same", "change": 0.001, "low": -0.004, "high": 0.005, "pairs": 8}
        for each in range(10)
    ],
    "bisect": "pyrometer bisect 2.0.0 2.1.0 --case KEY",
    "reproduce": "pyrometer upgrade 2.0.0 2.1.0 --case KEY",
}


def fill_file(folder: Path, history: History) -> str:
    """The URL of a new SQLite file with a history and all that stands beside it; prints its size."""
    url, started = f"sqlite:///{folder}/pyrometer.db", time.perf_counter()
    with open_database(url) as database:
        fill(database, history)
        keep_watch(database, history)
        store_upgrade(database, history)
        mib, results = size(database) / 2**20, history.count * MACHINES * A_NIGHT
    print(f"{results:,} results, filled in {time.perf_counter() - started:.0f} s, {mib:,.0f} MiB")
    return url


def keep_watch(database: Database, history: History) -> None:
    """Store for every night of a filled database the task that measured it, and what detection found."""
    runs, tasks = list(_runs(history)), list(_tasks(history))
    with database.writing() as connection:
        connection.execute(insert(queue_tables.ScheduledRunRow), runs)
        connection.execute(insert(queue_tables.TaskRow), tasks)
    for each in range(MACHINES):
        owner = f"bench-{each}-4711"
        labels, now = (f"label-{each}",), datetime.now(UTC)
        seen = SchedulerSeen(owner, f"bench-{each}", labels, now, now, 1000, "0.1.0", _served(history))
        queue.seen_all(database, [seen])
    _find(database, history)


def _served(history: History) -> dict[str, Any]:
    """What the scheduler of each machine says."""
    coming = [history.end + timedelta(days=each) for each in range(3)]
    schedule = {
        "schedule": SCHEDULE,
        "job": "measure",
        "cron": "0 2 * * *",
        "enabled": True,
        "built_in": False,
        "labels": [f"label-{each}" for each in range(MACHINES)],
        "next": [moment.isoformat() for moment in coming],
        "suite": "nightly",
        "environments": [TRACK],
        "baseline": "",
    }
    limits = {"silent_minutes": 60, "overdue_hours": 6}
    return {"measures": True, "timezone": "UTC", **limits, "schedules": [schedule]}


def _runs(history: History) -> Iterator[dict[str, Any]]:
    for number in range(history.count):
        at = history.night(number, 0).started_at
        yield {"schedule": SCHEDULE, "due_at": at, "kind": "timetable", "made_at": at}


def _tasks(history: History) -> Iterator[dict[str, Any]]:
    for night in history.nights():
        label = f"label-{night.machine}"
        yield {
            "schedule": SCHEDULE,
            "due_at": night.started_at - timedelta(minutes=night.machine),
            "part": f"{TRACK}@{label}",
            "job": "measure",
            "spec": {"track": TRACK, "suite": "nightly", "baseline": ""},
            "label": label,
            "state": "done",
            "attempts": 1,
            "token": None,
            "owner": f"bench-{night.machine}-4711",
            "beats": 50,
            "run_id": night.run,
            "not_before": None,
            "started_at": night.started_at,
            "ended_at": night.started_at + timedelta(minutes=50),
            "result": {"exit_code": 0},
            "error": "",
        }


def _find(database: Database, history: History) -> None:
    keys = [key for key in series_queries.series_keys(database) if key.metric == "latency"]
    for place, number in enumerate(range(1, history.count, _NIGHTS_A_FINDING)):
        key = keys[place * 17 % len(keys)]
        machine = int(key.hardware.rpartition("-")[2])
        before, at = history.night(number - 1, machine), history.night(number, machine)
        decided = number + 2 * _NIGHTS_A_FINDING < history.count
        one = NewFinding(
            key=key,
            schedule=SCHEDULE,
            track=TRACK,
            label=f"label-{machine}",
            direction=("worse", "better")[place % 2],
            shape="step",
            at_run=at.run,
            before_run=before.run,
            old_environment=_environment(before),
            new_environment=_environment(at),
            change=0.05,
            low=0.03,
            high=0.07,
            evidence=evidence_of(_EVIDENCE),
            group_key=at.run,
            state=_STATES[place % len(_STATES)] if decided else "candidate",
        )
        findings.save_findings(database, [one], at.started_at)


def _environment(night: Night) -> str:
    return environment(night.release).fingerprint


#: Pairs of the upgrade, and blocks of each process.
PAIRS, BLOCKS = 8, 7
_ITEMS = 8


def store_upgrade(database: Database, history: History) -> str:
    """Store the run of an upgrade from the last version but one to the last, and return its id."""
    last = history.night(history.count - 1, 0)
    at = last.started_at + timedelta(hours=3)
    night = Night(0, f"{at:%Y%m%d-%H%M%S}-upgrade", 0, last.release, at)
    # A short history has one version only.
    old, new = environment(last.release), environment(last.release + 1)
    comparison = Comparison(
        old.fingerprint, new.fingerprint, Plan(), Policy(), (old.name, new.name), ("--suite", "nightly")
    )
    run = replace(
        history.run(night),
        environments=(old, new),
        kind=RunKind.UPGRADE,
        suite="upgrade",
        planned=CASES * PAIRS * 2,
        command=f"pyrometer upgrade {old.name} {new.name} --suite nightly",
        facts={COMPARED: comparison.to_body()},
    )
    luck = random.Random(SEED)
    outcomes = [
        _outcome(luck, night, number, (old.fingerprint, new.fingerprint)[side], pair, side)
        for number in range(CASES)
        for pair in range(PAIRS)
        for side in range(2)
    ]
    with one_transaction(database) as one:
        store.save_run(one, run)
        store.save_outcomes(one, run.id, outcomes)
    return run.id


def _outcome(
    luck: random.Random, night: Night, number: int, environment: str, pair: int, side: int
) -> Outcome:
    """One process: every tenth case is slower in the new environment, every seventh faster."""
    change = side * (0.05 * (number % 10 == 0) - 0.08 * (number % 7 == 1))
    floor = (1.0 + number) * (1.0 + change) * luck.gauss(1.0, 0.002)
    blocks = [floor * 1e6 * luck.gauss(1.0, 0.001) for _ in range(BLOCKS)]
    return Outcome(
        case=case(number),
        environment=environment,
        replicate=pair,
        status=OutcomeStatus.OK,
        reason="",
        phase="",
        started_at=night.started_at
        + timedelta(seconds=20 * (number * PAIRS + pair), milliseconds=700 * side),
        wall_seconds=18.0,
        metrics={
            "latency": floor * 1.02,
            "latency_floor": floor,
            "throughput": _ITEMS * 1e3 / floor,
            "first_call": 0.3,
            "rss_peak": 900.0,
        },
        facts={"items": _ITEMS, "device": "cpu", "cpu_share": 0.99, "block_floors_ns": blocks},
    )
