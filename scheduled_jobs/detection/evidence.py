"""Evidence of a finding besides its size: other changes, related cases, operators."""

import shlex
from collections.abc import Iterable, Sequence
from dataclasses import asdict
from datetime import timedelta
from functools import cache

from analysis.comparison.verdict import Verdict
from analysis.metrics import METRICS
from analysis.operators import KERNEL, difference, operators, unlike
from db.connection.engine import Database
from db.runs.traces import newest_operator_table
from records.evidence import OperatorDifference, PairVerdict, RelatedFinding
from records.findings import Finding, FindingState
from records.json_values import finite
from records.series import SeriesKey
from reports.text.verdict_text import left_out_because, open_because
from runner.environments.versions import date_of, parse
from runner.suites.suite import built_in

from .confirmation_plan import version_spec

#: The most stored rows of a difference of operator tables: the cause of a change is among the first.
_OPERATORS = 12
#: The largest distance between the first nights of two findings that belong together.
_ONE_CAUSE = timedelta(hours=36)
#: States of findings without a change of PyTorch.
_DID_NOT_MOVE = (FindingState.REFUTED, FindingState.NO_LONGER, FindingState.MACHINE)
_SUITE_OF_OPERATORS = "ops"


def pair_verdict(verdict: Verdict) -> PairVerdict:
    """A verdict in its stored form; numbers that are not finite become unknown."""
    numbers = {
        "old": verdict.old,
        "new": verdict.new,
        "change": verdict.change,
        "low": verdict.low,
        "high": verdict.high,
        "confidence": verdict.confidence,
        "p": verdict.p,
        "smallest": verdict.smallest,
        "threshold": verdict.threshold,
    }
    return PairVerdict(
        metric=verdict.metric,
        unit=METRICS[verdict.metric].unit,
        word=verdict.word,
        reason=open_because(verdict),
        pairs=verdict.n,
        needed=verdict.needed,
        left_out=tuple(map(left_out_because, verdict.left_out)),
        **finite(numbers),
    )


@cache
def operations() -> frozenset[str]:
    """The names of the workloads that are single operators."""
    return frozenset(case.partition("/")[0] for case in built_in()[_SUITE_OF_OPERATORS].cases)


def moved_with(one: Finding, others: Iterable[Finding]) -> tuple[RelatedFinding, ...]:
    """The cases of single operators that moved on the same machine in the same nights, the largest first."""
    found = [
        other
        for other in others
        if other.id != one.id
        and other.key.case.partition("/")[0] in operations()
        and other.machine == one.machine
        and other.state not in _DID_NOT_MOVE
        and abs(other.at - one.at) <= _ONE_CAUSE
    ]
    return tuple(
        RelatedFinding(other.id, other.key.case, other.key.metric, other.direction, other.change, other.state)
        for other in sorted(found, key=lambda other: -abs(other.change))
    )


def operator_difference(
    database: Database, key: SeriesKey, old_torch: str, new_torch: str
) -> OperatorDifference | None:
    """The difference of the newest operator tables of a case under two versions of PyTorch; None if one is
    missing.

    In microseconds per step; above zero, the new one is slower. If both versions are equal, the tables cannot
    be assigned.
    """
    if old_torch == new_torch:
        return None
    old, new = (newest_operator_table(database, key, version) for version in (old_torch, new_torch))
    if old is None or new is None or unlike(old, new):
        return None
    changes = difference(operators(old.rows), operators(new.rows))
    kinds = {kind: sum(c.delta_us for c in changes if c.kind == kind) for kind in {c.kind for c in changes}}
    return OperatorDifference(
        old_run=old.run,
        new_run=new.run,
        total_us=kinds,
        on_device=KERNEL in kinds,
        rows=tuple({**asdict(change), "delta_us": change.delta_us} for change in changes[:_OPERATORS]),
        more=max(0, len(changes) - _OPERATORS),
    )


def bisect_offer(old_torch: str, new_torch: str, case: str, options: Sequence[str] = ()) -> str:
    """The command that finds the version in which a case changed; empty if there are none in between.

    Between releases whose numbers allow others the package index is queried by the command.
    """
    old, new = parse(old_torch), parse(new_torch)
    specs = (version_spec(old_torch), version_spec(new_torch))
    if old is None or new is None or None in specs:
        return ""
    days = (date_of(old), date_of(new))
    if days[0] and days[1]:
        between = abs(days[1] - days[0]) > timedelta(days=1)
    elif days[0] or days[1]:
        between = False
    else:
        between = old.release[:2] != new.release[:2] or abs(old.micro - new.micro) > 1
    if not between:
        return ""
    return shlex.join(["pyrometer", "bisect", *map(str, specs), "--case", case, *options])
