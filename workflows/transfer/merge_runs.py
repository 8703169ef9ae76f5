"""Merges a run from a file with its stored part; stored values never change."""

import math
from collections import defaultdict
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from statistics import median

from analysis.decision.comparison import DECIDED
from common.text import plural
from db.connection.engine import Database
from db.runs import queries, store
from db.runs.queries import replicates_of_run
from interchange.runs import ImportedRun
from records.json_values import finite
from records.kinds import EnvironmentKind, RunSource, RunState
from records.outcomes import Measurement, Outcome, OutcomeStatus
from records.runs import Run

from ..ingest import measurements_of

Key = tuple[str, str, int]
Name = tuple[str, str, str]

#: SQLite takes 32,766 values in one statement.
_MOST_NAMED = 10_000
#: The relative precision of numbers that were stored with 32 bits.
_ROUNDING = 1e-6
_SMALLEST = 1e-37
#: A note of a run while only some of its file's pieces are stored.
UNFINISHED = "this run is incomplete: its import did not finish; importing the file again stores the rest"


@dataclass(frozen=True, slots=True)
class Amount:
    """Numbers of runs, outcomes and measurements."""

    runs: int = 0
    outcomes: int = 0
    measurements: int = 0

    def __add__(self, other: "Amount") -> "Amount":
        return Amount(
            self.runs + other.runs,
            self.outcomes + other.outcomes,
            self.measurements + other.measurements,
        )


@dataclass(frozen=True, slots=True)
class MergeResult:
    """The additions of a piece of a run; `otherwise` are sentences about stored values that differ.

    Outcomes and measurements are given by key: one measurement may follow from several pieces.
    """

    run: bool = False
    outcomes: frozenset[Key] = frozenset()
    measurements: frozenset[Name] = frozenset()
    otherwise: tuple[str, ...] = ()

    def __or__(self, other: "MergeResult") -> "MergeResult":
        return MergeResult(
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


def all_of(one: ImportedRun) -> MergeResult:
    """The whole content of a piece of a run."""
    measurements = frozenset(each.key for each in one.measurements)
    return MergeResult(True, frozenset(each.key for each in one.outcomes), measurements)


def merge_run(
    one: ImportedRun, database: Database, *, more: bool = False, has_journal: bool = False
) -> MergeResult:
    """Store the new parts of one run, or of a piece of it if `more` pieces follow.

    Until the last piece is stored a run is not complete, and has the note `UNFINISHED`. The measurements of a
    run that Pyrometer measured are computed from its outcomes. Nothing is added to such a run if it is
    complete, or `has_journal` in this data folder, which is its source. Raises ValueError if the id is that
    of another run, and the errors of the store.
    """
    stored = queries.run_record(database, one.run.id)
    if stored is not None:
        _refuse_another(one.run, stored)
    if stored is None and has_journal:
        raise ValueError(
            f"run {one.run.id} has a journal in this data folder, which `pyrometer report` stores"
        )
    if stored is None and not more and _is_foreign(one.run):
        _save(database, one, planned=one.run.planned)
        return all_of(one)
    begun = stored or replace(one.run, state=RunState.INTERRUPTED, notes=(*one.run.notes, UNFINISHED))
    if stored is None:
        store.save_run(database, begun)
    cases = _case_filter({each.case for each in (*one.outcomes, *one.measurements)})
    stored_run = _StoredRun(
        begun,
        {each.key: each for each in queries.outcomes_of_run(database, one.run.id, cases=cases)},
        {each.key: each for each in queries.measurements_of_run(database, one.run.id, cases=cases)},
    )
    if _is_foreign(one.run):
        added = _more_of_a_foreign_run(one, stored_run, database, more)
    elif stored is not None and UNFINISHED not in stored.notes and (has_journal or _is_complete(stored)):
        added = _nothing_of_ours(one, stored_run)
    else:
        added = _more_of_ours(one, stored_run, database, more)
    added = MergeResult(stored is None, otherwise=tuple(_otherwise(one, stored_run.outcomes))) | added
    facts = _facts_otherwise(one, stored_run) if stored is not None and not _is_foreign(one.run) else ()
    return added | MergeResult(otherwise=tuple(facts))


@dataclass(frozen=True, slots=True)
class _StoredRun:
    """The stored part of a run, with the cases that a piece contains."""

    run: Run
    outcomes: Mapping[Key, Outcome]
    numbers: Mapping[Name, Measurement]

    def new_outcomes(self, one: ImportedRun) -> tuple[Outcome, ...]:
        """The outcomes that are not stored yet."""
        return tuple(each for each in one.outcomes if each.key not in self.outcomes)

    def ends_with(self, run: Run) -> bool:
        """Whether the stored run is running or partly imported, and is complete in the file."""
        return UNFINISHED in self.run.notes or (
            self.run.state != RunState.COMPLETE and run.state == RunState.COMPLETE
        )

    def updated_run(self, run: Run, notes: Iterable[str], more: bool) -> Run:
        """The next stored state of `run`: a complete run stays complete, one with `more` pieces to come is
        not complete yet.
        """
        noted = tuple(dict.fromkeys(note for note in notes if note != UNFINISHED))
        if more:
            noted = (*noted, UNFINISHED)
        if self.run.state == RunState.COMPLETE:
            return replace(run, state=RunState.COMPLETE, ended_at=self.run.ended_at, notes=noted)
        return replace(run, state=RunState.INTERRUPTED if more else run.state, notes=noted)


def _refuse_another(run: Run, stored: Run) -> None:
    """Raise ValueError if two runs with the same id are different runs."""
    pairs = zip(_identity(run), _identity(stored), strict=False)
    if others := [name for (name, value), (_, stored_value) in pairs if value != stored_value]:
        raise ValueError(f"run {run.id} is stored with another {' and another '.join(others)}")


def _identity(run: Run) -> Iterator[tuple[str, object]]:
    yield "source", run.source
    if _is_foreign(run):
        # For a run without a time each copy of the file gives another start.
        return
    yield "start", run.started_at
    yield "suite", run.suite
    yield "machine", run.machine.fingerprint
    yield "hardware", run.machine.hardware.fingerprint
    yield "preset", run.preset.fingerprint
    yield "harness", run.harness


def _is_complete(run: Run) -> bool:
    return run.state == RunState.COMPLETE


def _nothing_of_ours(one: ImportedRun, stored: _StoredRun) -> MergeResult:
    """A run that is complete, or has a journal here: the file is only compared."""
    otherwise = list(_numbers_otherwise(one, stored.numbers))
    if added := stored.new_outcomes(one):
        journal = "the run is stored from its journal in this data folder,"
        why = "the run is complete" if _is_complete(stored.run) else journal
        otherwise.insert(0, f"{why} without {_named_outcomes(added)}")
    return MergeResult(otherwise=tuple(otherwise))


def _named_outcomes(outcomes: Sequence[Outcome]) -> str:
    first = min(outcomes, key=lambda each: each.key)
    example = f"such as replicate {first.replicate} of {first.case}"
    return f"{plural(len(outcomes), 'outcome')} of the file, {example}"


def _planned_only(
    one: ImportedRun, stored: _StoredRun, database: Database
) -> tuple[tuple[Outcome, ...], bool, str]:
    """The new outcomes, and whether they complete the plan of the run.

    If there are more than the plan allows, only those of the canary, with a sentence.
    """
    added = stored.new_outcomes(one)
    canaries = _canaries(stored.run)
    own = [each for each in added if each.environment not in canaries]
    summary = queries.run_summary(database, one.run.id)
    counted = sum(summary.counts.values()) if summary else 0
    if counted + len(own) <= stored.run.planned:
        return added, counted + len(own) == stored.run.planned, ""
    of_canary = tuple(each for each in added if each.environment in canaries)
    plan = f"the run planned {plural(stored.run.planned, 'outcome')} and has {counted:,}"
    return of_canary, counted == stored.run.planned, f"{plan} without {_named_outcomes(own)}"


def _more_of_ours(one: ImportedRun, stored: _StoredRun, database: Database, more: bool) -> MergeResult:
    """A run of ours that may have continued: outcomes are added, and measurements are computed from all of
    them.

    The measurements of the file are only compared. Notes are added; the plan and the facts are kept, except
    the decision, which only a complete run has.
    """
    added, is_whole, refused = _planned_only(one, stored, database)
    now = dict(stored.numbers)
    changed: set[Name] = set()
    if added or (stored.ends_with(one.run) and not more):
        run = stored.updated_run(one.run, (*stored.run.notes, *one.run.notes), more)
        if run.state == RunState.COMPLETE and not is_whole:
            # Independent of the file.
            run = replace(run, state=RunState.INTERRUPTED)
        decided = DECIDED in one.run.facts and run.state == RunState.COMPLETE and not refused
        facts = {**stored.run.facts, **({DECIDED: one.run.facts[DECIDED]} if decided else {})}
        run = replace(run, facts=facts)
        _save(database, ImportedRun(run, added, ()), planned=stored.run.planned)
        cases = _case_filter({each.case for each in added})
        numbers = measurements_of(replicates_of_run(database, run.id, cases=cases))
        store.save_measurements(database, run.id, numbers)
        changed = {each.key for each in numbers if stored.numbers.get(each.key) != each}
        now |= {each.key: each for each in numbers}
    otherwise = (*([refused] if refused else []), *_numbers_otherwise(one, now))
    return MergeResult(False, frozenset(each.key for each in added), frozenset(changed), otherwise)


def _more_of_a_foreign_run(
    one: ImportedRun, stored: _StoredRun, database: Database, more: bool
) -> MergeResult:
    """Another file, or the same one again, of an imported run."""
    outcomes, added = stored.outcomes, stored.new_outcomes(one)
    gained = _with_more_metrics(one, outcomes)
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
        number = stored.numbers.get(each.key)
        agreed = each.key not in differing
        if number is None and agreed and (each.case, each.environment) not in unlike:
            fresh.append(each)
        elif number is None or (number.point, number.n) == (each.point, each.n):
            continue
        elif agreed and number.n < each.n and _is_of(each, values.get(each.key, ())):
            # For a run that continued, the measurement over all of its processes is the right one.
            fresh.append(each)
        else:
            otherwise.append(_unlike(number, each))
    if added or fresh or (stored.ends_with(one.run) and not more):
        # Outcomes in another file of the same foreign run were planned as well.
        summary = queries.run_summary(database, one.run.id)
        all_of_it = len(added) + (sum(summary.counts.values()) if summary else 0)
        planned = max(stored.run.planned, one.run.planned, all_of_it)
        # For a run without a time each copy of the file gives another start: that of the first one is kept.
        run = replace(stored.updated_run(one.run, one.run.notes, more), started_at=stored.run.started_at)
        _save(database, ImportedRun(run, added, tuple(fresh)), planned=planned, gained=gained)
    elif gained:
        store.save_more_metrics(database, one.run.id, gained)
    measurements = frozenset(each.key for each in fresh)
    return MergeResult(False, frozenset(each.key for each in added), measurements, tuple(otherwise))


def _with_more_metrics(one: ImportedRun, stored: Mapping[Key, Outcome]) -> list[Outcome]:
    """The stored outcomes for which the file has more metrics, with these metrics."""
    pairs = ((stored.get(each.key), each) for each in one.outcomes)
    return [
        replace(own, metrics={**new.metrics, **own.metrics})
        for own, new in pairs
        if own and own.status == new.status and new.metrics.keys() - own.metrics.keys()
    ]


def _otherwise(one: ImportedRun, stored: Mapping[Key, Outcome]) -> list[str]:
    """Sentences about outcomes that are stored with another status, or with other numbers."""
    pairs = ((stored.get(each.key, each), each) for each in one.outcomes)
    ends = [
        f"{new.case} is stored as {own.status} and here as {new.status}"
        for own, new in pairs
        if own.status != new.status
    ]
    numbers = [
        f"{metric} of {case} is stored as {own!r} and here as {new!r}"
        for (case, _, metric), own, new in _differing(one, stored)
    ]
    return ends + numbers


def _facts_otherwise(one: ImportedRun, stored: _StoredRun) -> list[str]:
    """Sentences about other facts of a run of ours, and of its outcomes, than those that are stored."""
    if UNFINISHED in stored.run.notes:
        # Later pieces may have more.
        return []
    run, own = one.run, stored.run
    sentences = [
        f"its {name} is stored as {getattr(own, name)!s:.100} and here as {getattr(run, name)!s:.100}"
        for name in ("kind", "planned", "command")
        if getattr(own, name) != getattr(run, name)
    ]
    own_facts, new_facts = finite(own.facts), finite(run.facts)
    # Only a complete run has a decision.
    compared = [name for name in new_facts if name != DECIDED or _is_complete(own)]
    if others := [name for name in compared if name not in own_facts or own_facts[name] != new_facts[name]]:
        sentences.append(
            f"its facts are stored without those of the file about {', '.join(sorted(others)[:5])}"
        )
    for each in one.outcomes:
        found = stored.outcomes.get(each.key, each)
        if found.status == each.status and finite(found.facts) != finite(each.facts):
            sentences.append(
                f"facts of replicate {each.replicate} of {each.case} are stored with other values"
            )
    return sentences


def _differing(one: ImportedRun, stored: Mapping[Key, Outcome]) -> Iterator[tuple[Name, float, float]]:
    """The measurement of which a process is stored with another number, with both numbers."""
    for each in one.outcomes:
        own = stored.get(each.key, each)
        for metric in sorted(own.metrics.keys() & each.metrics.keys()):
            own_value, new_value = own.metrics[metric], each.metrics[metric]
            if own.status == each.status and own_value != new_value:
                yield (each.case, each.environment, metric), own_value, new_value


def _values(outcomes: Iterable[Outcome]) -> Mapping[Name, list[float]]:
    """The numbers of ok processes by measurement."""
    values: dict[Name, list[float]] = defaultdict(list)
    for each in outcomes:
        for metric, value in each.metrics.items() if each.status == OutcomeStatus.OK else ():
            values[each.case, each.environment, metric].append(value)
    return values


def _is_of(one: Measurement, values: Sequence[float]) -> bool:
    """Whether the measurement is consistent with these numbers; if a run comes in pieces, an earlier one may
    have them.
    """
    if one.n != len(values):
        return False
    summary, expected = (one.point, one.smallest, one.largest), (median(values), min(values), max(values))
    pairs = zip(summary, expected, strict=True)
    return all(math.isclose(a, b, rel_tol=_ROUNDING, abs_tol=_SMALLEST) for a, b in pairs)


def _numbers_otherwise(one: ImportedRun, stored: Mapping[Name, Measurement]) -> list[str]:
    """The measurements that differ from the stored ones although they have as many processes."""
    pairs = ((stored.get(each.key), each) for each in one.measurements)
    return [
        _unlike(own, new) for own, new in pairs if own and own.n == new.n and not _same_measurement(own, new)
    ]


def _same_measurement(one: Measurement, other: Measurement) -> bool:
    return math.isclose(one.point, other.point, rel_tol=_ROUNDING, abs_tol=_SMALLEST)


def _unlike(own: Measurement, other: Measurement) -> str:
    return f"{other.metric} of {other.case} is stored as {own.point!r} and here as {other.point!r}"


def _save(database: Database, one: ImportedRun, planned: int, gained: Collection[Outcome] = ()) -> None:
    run = replace(one.run, planned=planned)
    # The outcomes of the canary of our runs are not planned.
    canaries = _canaries(run)
    store.save_run(database, run)
    store.save_more_metrics(database, run.id, list(gained))
    for of_a_canary in (False, True):
        own = [each for each in one.outcomes if (each.environment in canaries) is of_a_canary]
        store.save_outcomes(database, run.id, own, planned=not of_a_canary)
    store.save_measurements(database, run.id, one.measurements)


def _canaries(run: Run) -> set[str]:
    return {each.fingerprint for each in run.environments if each.kind == EnvironmentKind.CANARY}


def _case_filter(cases: set[str]) -> set[str] | None:
    """The cases if a statement can contain all of them, else None: then all cases of the run are read."""
    return cases if len(cases) <= _MOST_NAMED else None


def _is_foreign(run: Run) -> bool:
    return run.source != RunSource.MEASURED
