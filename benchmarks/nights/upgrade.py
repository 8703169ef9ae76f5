"""An upgrade beside the nights: all of their cases in two environments, pair by pair."""

import random
from dataclasses import replace
from datetime import timedelta

from analysis.comparison.plan import Plan
from analysis.comparison.policy import Policy
from analysis.decision.comparison import COMPARED, Comparison
from db.connection.engine import Database, one_transaction
from db.runs import store
from records.kinds import RunKind
from records.outcomes import Outcome, OutcomeStatus

from .history import CASES, SEED, History, Night, case, environment

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
