"""Merge a run from a file with what is stored of it; stored values never change."""

import math
from collections import defaultdict
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from statistics import median
from typing import Protocol, TypeVar

from db.connection.engine import Database
from db.runs import queries, store
from db.runs.queries import replicates_of_run
from interchange.runs import ImportedRun
from records.kinds import EnvironmentKind, RunSource, RunState
from records.outcomes import Measurement, Outcome, OutcomeStatus
from records.runs import Run

from ..ingest import measurements_of

Key = tuple[str, str, int]
Name = tuple[str, str, str]
K = TypeVar("K", covariant=True)

#: SQLite takes 32,766 values in one statement.
_MOST_NAMED = 10_000
#: Numbers that went through 32 bits agree so far.
_ROUNDING = 1e-6
_SMALLEST = 1e-37
#: A note of a run while only some of its file's pieces are stored.
UNFINISHED = (
    "not all of this run is here: its import did not come to an end; importing the file again stores the rest"
)


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


@dataclass(frozen=True, slots=True)
class Added:
    """What a piece of a run added; `otherwise` are sentences about stored values that differ.

    Outcomes and measurements are given by their keys: one measurement may follow from several pieces.
    """

    run: bool = False
    outcomes: frozenset[Key] = frozenset()
    measurements: frozenset[Name] = frozenset()
    otherwise: tuple[str, ...] = ()

    def __or__(self, other: "Added") -> "Added":
        return Added(
            self.run or other.run,
            self.outcomes | other.outcomes,
            self.measurements | other.measurements,
            tuple(dict.fromkeys((*self.otherwise, *other.otherwise))),
        )

    @property
    def nothing(self) -> bool:
        """Whether everything was stored before."""
        return not (self.run or self.outcomes or self.measurements)

    @property
    def amount(self) -> Amount:
        """The numbers of what was added."""
        return Amount(int(self.run), len(self.outcomes), len(self.measurements))


def all_of(one: ImportedRun) -> Added:
    """All that a piece of a run holds."""
    return Added(True, _keys(one.outcomes), _keys(one.measurements))


def merge_run(one: ImportedRun, database: Database, *, more: bool = False) -> Added:
    """Store what is new of one run, or of a piece of it where `more` pieces follow.

    Until the last piece is stored a run is not complete, and has the note `UNFINISHED`. Of a run of ours in
    pieces the numbers follow from its outcomes, so that they are what is stored after each piece.

    Raises ValueError where the id is that of another run, and what else the store raises.
    """
    stored = queries.run_record(database, one.run.id)
    if stored is None and not more:
        _save(database, one, planned=one.run.planned)
        return all_of(one)
    begun = stored or replace(one.run, state=RunState.INTERRUPTED, notes=(*one.run.notes, UNFINISHED))
    if stored is None:
        store.save_run(database, begun)
    cases = _named({each.case for each in (*one.outcomes, *one.measurements)})
    known = _Stored(
        begun,
        {each.key: each for each in queries.outcomes_of_run(database, one.run.id, cases=cases)},
        {each.key: each for each in queries.measurements_of_run(database, one.run.id, cases=cases)},
    )
    added = (_more_of_a_foreign_run if _is_foreign(one.run) else _more_of_ours)(one, known, database, more)
    return Added(stored is None, otherwise=tuple(_otherwise(one, known.outcomes))) | added


@dataclass(frozen=True, slots=True)
class _Stored:
    """What the database holds of a run, and of the cases that a piece contains."""

    run: Run
    outcomes: Mapping[Key, Outcome]
    numbers: Mapping[Name, Measurement]

    def added(self, one: ImportedRun) -> tuple[Outcome, ...]:
        """The outcomes that are not stored yet."""
        return tuple(each for each in one.outcomes if each.key not in self.outcomes)

    def ends_with(self, run: Run) -> bool:
        """Whether the run was under way here, or on its way in, and is complete in the file."""
        return UNFINISHED in self.run.notes or (
            self.run.state != RunState.COMPLETE and run.state == RunState.COMPLETE
        )

    def going_on(self, run: Run, notes: Iterable[str], more: bool) -> Run:
        """`run` as it is stored next: what is complete stays so, and what has `more` to come is not yet."""
        noted = tuple(dict.fromkeys(note for note in notes if note != UNFINISHED))
        if more:
            noted = (*noted, UNFINISHED)
        if self.run.state == RunState.COMPLETE:
            return replace(run, state=RunState.COMPLETE, ended_at=self.run.ended_at, notes=noted)
        return replace(run, state=RunState.INTERRUPTED if more else run.state, notes=noted)


def _more_of_ours(one: ImportedRun, stored: _Stored, database: Database, more: bool) -> Added:
    """A run of ours that may have gone on since: outcomes are added, and its numbers follow from all of them.

    What the file says the numbers are is only compared. Notes are added, facts stay.
    """
    added = stored.added(one)
    now = dict(stored.numbers)
    changed: set[Name] = set()
    if added or (stored.ends_with(one.run) and not more):
        run = stored.going_on(one.run, (*stored.run.notes, *one.run.notes), more)
        run = replace(run, facts=stored.run.facts)
        _save(database, ImportedRun(run, added, ()), planned=max(stored.run.planned, run.planned))
        cases = _named({each.case for each in added})
        numbers = measurements_of(replicates_of_run(database, run.id, cases=cases))
        store.save_measurements(database, run.id, numbers)
        changed = {each.key for each in numbers if stored.numbers.get(each.key) != each}
        now |= {each.key: each for each in numbers}
    return Added(False, _keys(added), frozenset(changed), tuple(_numbers_otherwise(one, now)))


def _more_of_a_foreign_run(one: ImportedRun, stored: _Stored, database: Database, more: bool) -> Added:
    """Another file, or the same one again, of a run that comes from files only."""
    outcomes, added = stored.outcomes, stored.added(one)
    gained = _gaining(one, outcomes)
    otherwise: list[str] = []
    unlike = {
        (each.case, each.environment)
        for each in one.outcomes
        if each.key in outcomes and outcomes[each.key].status != each.status
    }
    differing = {name for name, _, _ in _differing(one, outcomes)}
    values = _values((*{**outcomes, **{each.key: each for each in gained}}.values(), *added))
    fresh: list[Measurement] = []
    for each in one.measurements:
        known = stored.numbers.get(each.key)
        agreed = each.key not in differing
        if known is None and agreed and (each.case, each.environment) not in unlike:
            fresh.append(each)
        elif known is None or (known.point, known.n) == (each.point, each.n):
            continue
        elif agreed and known.n < each.n and _is_of(each, values.get(each.key, ())):
            # Of a run that went on since, the measurement that counts all of its processes is the right one.
            fresh.append(each)
        else:
            otherwise.append(_unlike(known, each))
    if added or fresh or (stored.ends_with(one.run) and not more):
        # What another file holds of the same foreign run was planned as well.
        summary = queries.run_summary(database, one.run.id)
        all_of_it = len(added) + (sum(summary.counts.values()) if summary else 0)
        planned = max(stored.run.planned, one.run.planned, all_of_it)
        run = stored.going_on(one.run, one.run.notes, more)
        _save(database, ImportedRun(run, added, tuple(fresh)), planned=planned, gained=gained)
    elif gained:
        store.save_more_metrics(database, one.run.id, gained)
    return Added(False, _keys(added), _keys(fresh), tuple(otherwise))


def _gaining(one: ImportedRun, stored: Mapping[Key, Outcome]) -> list[Outcome]:
    """The stored outcomes for which the file has more metrics, with these metrics."""
    known = ((stored.get(each.key), each) for each in one.outcomes)
    return [
        replace(mine, metrics={**its.metrics, **mine.metrics})
        for mine, its in known
        if mine and mine.status == its.status and its.metrics.keys() - mine.metrics.keys()
    ]


def _otherwise(one: ImportedRun, stored: Mapping[Key, Outcome]) -> list[str]:
    """Sentences about outcomes that are stored with another status, or with other numbers."""
    known = ((stored.get(each.key, each), each) for each in one.outcomes)
    ends = [
        f"{its.case} is stored as {mine.status} and here as {its.status}"
        for mine, its in known
        if mine.status != its.status
    ]
    numbers = [
        f"{metric} of {case} is stored as {mine!r} and here as {its!r}"
        for (case, _, metric), mine, its in _differing(one, stored)
    ]
    return ends + numbers


def _differing(one: ImportedRun, stored: Mapping[Key, Outcome]) -> Iterator[tuple[Name, float, float]]:
    """Of which measurement a process is stored with another number, with which, and what it is here."""
    for each in one.outcomes:
        known = stored.get(each.key, each)
        for metric in sorted(known.metrics.keys() & each.metrics.keys()):
            mine, its = known.metrics[metric], each.metrics[metric]
            if known.status == each.status and mine != its:
                yield (each.case, each.environment, metric), mine, its


def _values(outcomes: Iterable[Outcome]) -> Mapping[Name, list[float]]:
    """By measurement the numbers of the processes that went well."""
    values: dict[Name, list[float]] = defaultdict(list)
    for each in outcomes:
        for metric, value in each.metrics.items() if each.status == OutcomeStatus.OK else ():
            values[each.case, each.environment, metric].append(value)
    return values


def _is_of(one: Measurement, values: Sequence[float]) -> bool:
    """Whether it can be what these numbers say: where a run comes in pieces, an earlier one brought them."""
    if one.n != len(values):
        return False
    said, found = (one.point, one.smallest, one.largest), (median(values), min(values), max(values))
    pairs = zip(said, found, strict=True)
    return all(math.isclose(a, b, rel_tol=_ROUNDING, abs_tol=_SMALLEST) for a, b in pairs)


def _numbers_otherwise(one: ImportedRun, stored: Mapping[Name, Measurement]) -> list[str]:
    """The measurements that differ from the stored ones although they have as many processes."""
    known = ((stored.get(each.key), each) for each in one.measurements)
    return [_unlike(mine, its) for mine, its in known if mine and mine.n == its.n and mine.point != its.point]


def _unlike(known: Measurement, other: Measurement) -> str:
    return f"{other.metric} of {other.case} is stored as {known.point!r} and here as {other.point!r}"


def _save(database: Database, one: ImportedRun, planned: int, gained: Collection[Outcome] = ()) -> None:
    run = replace(one.run, planned=planned)
    # Of a run of ours the canary's outcomes are in no plan.
    canaries = {each.fingerprint for each in run.environments if each.kind == EnvironmentKind.CANARY}
    store.save_run(database, run)
    store.save_more_metrics(database, run.id, list(gained))
    for of_a_canary in (False, True):
        own = [each for each in one.outcomes if (each.environment in canaries) is of_a_canary]
        store.save_outcomes(database, run.id, own, planned=not of_a_canary)
    store.save_measurements(database, run.id, one.measurements)


class _Keyed(Protocol[K]):
    """An outcome or a measurement."""

    @property
    def key(self) -> K: ...


def _keys(records: Iterable[_Keyed[K]]) -> frozenset[K]:
    return frozenset(each.key for each in records)


def _named(cases: set[str]) -> set[str] | None:
    """The cases where a statement can name them all, else None: then all of the run are looked at."""
    return cases if len(cases) <= _MOST_NAMED else None


def _is_foreign(run: Run) -> bool:
    return run.source != RunSource.MEASURED
