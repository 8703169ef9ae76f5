"""A run from a file put together with what is stored of it: nothing that is stored is told otherwise."""

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, replace

from db import queries, store
from db.engine import Database
from db.records import Measurement, Outcome, Run
from db.replicates import replicates_of_run
from exchange import formats
from exchange.imported import ImportedRun
from runner.drift import ENVIRONMENT as CANARY

from .ingest import measured

Key = tuple[str, str, int]
Name = tuple[str, str, str]


@dataclass(frozen=True, slots=True)
class Amount:
    """How many runs, outcomes and measurements."""

    runs: int = 0
    outcomes: int = 0
    measurements: int = 0

    def __add__(self, other: "Amount") -> "Amount":
        return Amount(
            self.runs + other.runs,
            self.outcomes + other.outcomes,
            self.measurements + other.measurements,
        )

    def __sub__(self, other: "Amount") -> "Amount":
        return Amount(
            self.runs - other.runs,
            self.outcomes - other.outcomes,
            self.measurements - other.measurements,
        )


def merged(one: ImportedRun, database: Database) -> tuple[Amount, list[str]]:
    """Store what is new of one run, and say what is stored otherwise.

    Raises ValueError where the id is that of another run, and what else the store raises.
    """
    stored = queries.run_record(database, one.run.id)
    if stored is None:
        _save(database, one, planned=one.run.planned)
        return Amount(1, len(one.outcomes), len(one.measurements)), []
    more = _more_of_a_foreign_run if _is_foreign(one.run) else _more_of_ours
    outcomes = {each.key: each for each in queries.outcomes_of_run(database, one.run.id)}
    numbers = {each.key: each for each in queries.measurements_of_run(database, one.run.id)}
    new, told = more(one, _Stored(stored, outcomes, numbers), database)
    return new, list(dict.fromkeys(_otherwise(one, outcomes) + told))


@dataclass(frozen=True, slots=True)
class _Stored:
    """What the database holds of a run."""

    run: Run
    outcomes: Mapping[Key, Outcome]
    numbers: Mapping[Name, Measurement]

    def added(self, one: ImportedRun) -> tuple[Outcome, ...]:
        """The outcomes that are not stored yet."""
        return tuple(each for each in one.outcomes if each.key not in self.outcomes)

    def ends_with(self, run: Run) -> bool:
        """Whether the run was under way here and is complete there."""
        return self.run.state != "complete" and run.state == "complete"


def _more_of_ours(one: ImportedRun, stored: _Stored, database: Database) -> tuple[Amount, list[str]]:
    """A run of ours that may have gone on since: outcomes are added, and its numbers follow from all of them.

    What the file says the numbers are is only compared. Notes are added, facts stay.
    """
    added = stored.added(one)
    notes = tuple(dict.fromkeys((*stored.run.notes, *one.run.notes)))
    run = replace(one.run, notes=notes, facts=stored.run.facts)
    now = stored.numbers
    if added or stored.ends_with(run):
        _save(database, ImportedRun(run, added, ()), planned=max(stored.run.planned, run.planned))
        numbers = measured(replicates_of_run(database, run.id))
        store.save_measurements(database, run.id, numbers)
        now = {each.key: each for each in numbers}
    changed = sum(stored.numbers.get(name) != each for name, each in now.items())
    return Amount(0, len(added), changed), _numbers_otherwise(one, now)


def _more_of_a_foreign_run(one: ImportedRun, stored: _Stored, database: Database) -> tuple[Amount, list[str]]:
    """Another file, or the same one again, of a run that only files tell of."""
    outcomes, added = stored.outcomes, stored.added(one)
    told: list[str] = []
    unlike = {
        (each.case, each.environment)
        for each in one.outcomes
        if each.key in outcomes and outcomes[each.key].status != each.status
    }
    # Of a run that went on since, the measurement that counts all of its processes is the right one.
    processes = Counter(
        (each.case, each.environment, metric)
        for each in (*outcomes.values(), *added)
        if each.status == "ok"
        for metric in each.metrics
    )
    fresh: list[Measurement] = []
    for each in one.measurements:
        known = stored.numbers.get(each.key)
        if known is None and (each.case, each.environment) not in unlike:
            fresh.append(each)
        elif known is None or (known.point, known.n) == (each.point, each.n):
            continue
        elif known.n < each.n == processes[each.key]:
            fresh.append(each)
        else:
            told.append(_unlike(known, each))
    if added or fresh or stored.ends_with(one.run):
        # What another file told of the same foreign run was planned as well.
        all_of_it = len({*outcomes, *(each.key for each in one.outcomes)})
        planned = max(stored.run.planned, one.run.planned, all_of_it)
        _save(database, ImportedRun(one.run, added, tuple(fresh)), planned=planned)
    return Amount(0, len(added), len(fresh)), told


def _otherwise(one: ImportedRun, stored: Mapping[Key, Outcome]) -> list[str]:
    """The outcomes that are stored with another end, or with another number."""
    told: list[str] = []
    for each in one.outcomes:
        known = stored.get(each.key, each)
        if known.status != each.status:
            told.append(f"{each.case} is stored as {known.status} and here as {each.status}")
            continue
        for metric in sorted(known.metrics.keys() & each.metrics.keys()):
            mine, its = known.metrics[metric], each.metrics[metric]
            if mine != its:
                told.append(f"{metric} of {each.case} is stored as {mine!r} and here as {its!r}")
    return told


def _numbers_otherwise(one: ImportedRun, stored: Mapping[Name, Measurement]) -> list[str]:
    """The measurements that say something else of as many processes."""
    known = ((stored.get(each.key), each) for each in one.measurements)
    return [_unlike(mine, its) for mine, its in known if mine and mine.n == its.n and mine.point != its.point]


def _unlike(known: Measurement, other: Measurement) -> str:
    return f"{other.metric} of {other.case} is stored as {known.point!r} and here as {other.point!r}"


def _save(database: Database, one: ImportedRun, planned: int) -> None:
    run = replace(one.run, planned=planned)
    # Of a run of ours the canary's outcomes are in no plan.
    singing = [each for each in run.environments if not each.torch_version and each.name == CANARY]
    canaries = set[str]() if _is_foreign(run) else {each.fingerprint for each in singing}
    store.save_run(database, run)
    for of_a_canary in (False, True):
        own = [each for each in one.outcomes if (each.environment in canaries) is of_a_canary]
        store.save_outcomes(database, run.id, own, planned=not of_a_canary)
    store.save_measurements(database, run.id, one.measurements)


def _is_foreign(run: Run) -> bool:
    return formats.came_from(run.id) != ""
