"""Selects the cases of a screened upgrade that are measured in full; the others have only short pairs.

A screen compares dispatch fingerprints, and takes two short pairs of each case that runs the same in both
environments. A case goes on to full pairs if operators or kernels differ, if the steady latency of a short
pair differs by `SCREEN_LIMIT` or more, and if its short pairs do not count. Short pairs are separate from
full ones: a case that was selected by its pairs is judged by others. Their numbers are not measurements: an
outcome stores them as a fact (see `as_evidence`). For the rate of missed slow-downs see
`benchmarks/screen.py`.
"""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from enum import StrEnum

from records.outcomes import Outcome, OutcomeStatus

from ..dispatch_difference import CaseDifference
from . import rounds
from .pairs import pairs_of

#: The fact of an outcome that holds the metrics of a process of a short pair.
EVIDENCE = "screening"
#: The number of short pairs of each case, and the largest number with replacements for those that do not
#: count.
SHORT_PAIRS, FIRST_FULL = 2, 4
#: The change of a short pair from which on its case goes on to full pairs.
SCREEN_LIMIT = 0.10
#: A slow-down of `MISSED_LIMIT` passes the screen in at most the share `MISSED_SHARE` of cases.
MISSED_LIMIT, MISSED_SHARE = 0.15, 0.02

#: Statuses caused by infrastructure or other programs, which do not describe the case.
_SAYS_NOTHING = {OutcomeStatus.CONTENDED, OutcomeStatus.THROTTLED, OutcomeStatus.LOST, OutcomeStatus.SKIPPED}


class Selection(StrEnum):
    """The reason why a case goes on to full pairs."""

    DISPATCH = "dispatch"
    CHANGE = "change"
    FAILURE = "failure"
    NO_PAIRS = "no_pairs"


@dataclass(frozen=True, slots=True)
class Screen:
    """The result of comparing the dispatch fingerprints of a screened upgrade, before anything is measured.

    The cases `changed` differ in more than guards and generated code. The cases `unknown` lack a fingerprint
    in at least one environment: they are screened only by short pairs.
    """

    changed: tuple[str, ...] = ()
    unknown: tuple[str, ...] = ()

    @staticmethod
    def of(cases: Sequence[str], differences: Sequence[CaseDifference]) -> "Screen":
        """The screen of these cases; those without a difference are `unknown`."""
        by_case = {one.case: one for one in differences}
        found = {case: by_case[case].difference if case in by_case else None for case in cases}
        changed = tuple(case for case, one in found.items() if one and one.changes and not one.only_in_code)
        return Screen(changed, tuple(case for case, one in found.items() if one is None))


@dataclass(frozen=True, slots=True)
class ScreenedCase:
    """The result of a screen for a case: the short pairs that count, as logarithms of new / old.

    `selection` is the reason why it goes on to full pairs, None if it does not. `compared` is whether its
    fingerprints were compared.
    """

    changes: tuple[float, ...]
    selection: Selection | None
    compared: bool

    @property
    def least_change(self) -> float:
        """The smallest change of a short pair that counts, a logarithm; 0 without any."""
        return min(self.changes, default=0.0)

    @property
    def looks_slower(self) -> bool:
        """Whether it was slower by `SCREEN_LIMIT` or more in every short pair that counts."""
        return self.least_change >= math.log1p(SCREEN_LIMIT)

    @property
    def priority(self) -> tuple[bool, float]:
        """The priority for full pairs: failing cases first, then the slowest."""
        return self.selection == Selection.FAILURE, self.least_change


def as_evidence(outcome: Outcome) -> Outcome:
    """The stored outcome of a short pair: its metrics are moved to the fact `EVIDENCE`, so that histories,
    charts, detection and reports do not take them for measurements.
    """
    facts = {**outcome.facts, EVIDENCE: dict(outcome.metrics)}
    return replace(outcome, metrics={}, facts=facts)


def with_metrics(outcome: Outcome) -> Outcome:
    """The inverse of `as_evidence`; other outcomes are unchanged."""
    found = outcome.facts.get(EVIDENCE)
    return replace(outcome, metrics=found) if isinstance(found, Mapping) else outcome


def screen_case(case: str, screen: Screen, old: Sequence[Outcome], new: Sequence[Outcome]) -> ScreenedCase:
    """Screens a case by the outcomes of its short pairs in either environment, each as evidence."""
    short_old, short_new = ([with_metrics(one) for one in side] for side in (old, new))
    pairs = pairs_of(rounds.METRIC, short_old, short_new)
    changes = tuple(pair.log for pair in pairs if not pair.left_out)
    failed = any(one.status not in (OutcomeStatus.OK, *_SAYS_NOTHING) for one in (*old, *new))
    limit = math.log1p(SCREEN_LIMIT)
    if case in screen.changed:
        selection = Selection.DISPATCH
    elif failed:
        selection = Selection.FAILURE
    elif any(abs(change) >= limit for change in changes):
        selection = Selection.CHANGE
    elif len(changes) < SHORT_PAIRS:
        selection = Selection.NO_PAIRS
    else:
        selection = None
    return ScreenedCase(changes, selection, case not in screen.unknown)
