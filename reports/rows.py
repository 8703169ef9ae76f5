"""An upgrade as rows: what every form of the report shows of a case, in the same order and words."""

import math
from collections import Counter, defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Literal

from analysis.comparison.case_results import CaseResult
from analysis.comparison.policy import Policy
from analysis.comparison.verdict import Verdict
from analysis.decision.upgrade import Table, Upgrade
from analysis.geomean import Geomean
from records.outcomes import OutcomeStatus

from . import wording
from .report_context import JudgedUpgrade, Subject
from .text import numbers
from .text.reason_text import exclusion
from .text.verdict_text import in_cycles, ran_alone

Tone = Literal["bad", "odd", "quiet", "good"]

#: What is broken comes first, and what has no number last; between them it goes from worse to better.
_PLACES = {
    "broken": 0,
    "broken in both": 2,
    "repaired": 3,
    "not measured": 4,
    "waived": 4,
    "no data": 4,
    "not comparable": 4,
    "screened": 5,
}

#: Places in the order of impact, for a page that begins with what moved.
_IMPACT_PLACES = {"broken": 0, "slower": 1, "faster": 1, "unclear": 2, "same": 3, "repaired": 4}
_LAST = 5

#: A sign per word that differs in shape.
_SIGNS = {
    "broken": "✗",
    "broken in both": "✗",
    "repaired": "✓",
    "slower": "▲",
    "faster": "▼",
    "same": "●",
    "unclear": "○",
}

_TONES: Mapping[str, Tone] = {
    "broken": "bad",
    "slower": "bad",
    "unclear": "odd",
    "not comparable": "odd",
    "broken in both": "odd",
    "faster": "good",
    "repaired": "good",
}


@dataclass(frozen=True, slots=True)
class Row:
    """One case: its `status` in the comparison, and its verdict on the metric that decides, if it has one.

    That of a waived case has no part in the decision.
    """

    result: CaseResult
    verdict: Verdict | None
    status: str

    @property
    def case(self) -> str:
        return self.result.case

    @property
    def workload(self) -> str:
        """The case key without its technique."""
        return self.case.rpartition("/")[0] or self.case

    @property
    def summary(self) -> str:
        """The verdict in words, or how the case ended; the reason is in the exclusions."""
        # What an accepted case does now is to be seen all the same.
        return f"waived: {self._how_it_ended}" if self.status == "waived" else self._how_it_ended

    @property
    def _how_it_ended(self) -> str:
        if self.result.screen is not None and self.result.only_screened:
            return f"screened: {wording.describe_screen(self.result.screen)}"
        if self.result.works:
            text = wording.verdict(self.verdict) if self.verdict else "no data: it has no such number"
            cycles = in_cycles(self.result, self.verdict.word if self.verdict else "")
            return "; ".join(filter(None, (text, cycles, ran_alone(self.result))))
        return f"{_ending(self.result)}: {_ends(self.result)}"

    @property
    def word(self) -> str:
        """Its status in a word: `faster` for a time, `better` for other metrics."""
        judged = self.result.works and self.verdict and self.status != "waived"
        return numbers.word(self.verdict) if judged and self.verdict else self.status

    @property
    def sign(self) -> str:
        return _SIGNS.get(self.status, numbers.NONE)

    @property
    def tone(self) -> Tone:
        return tone(self.status)


def tone(status: str) -> Tone:
    """How a status or a verdict's word is coloured."""
    return _TONES.get(status, "quiet")


def sign(status: str) -> str:
    """The sign of a status or a verdict's word."""
    return _SIGNS.get(status, numbers.NONE)


def rows(judged: JudgedUpgrade) -> list[Row]:
    """Every case once: broken first, then by its impact, the worst first. Equal ones by name."""
    upgrade, metric = judged.upgrade, judged.subject.policy.metric
    each: list[Row] = []
    for result in judged.results:
        status = _status(result, upgrade)
        own = result.verdicts if status == "waived" and result.works else {}
        each.append(Row(result, upgrade.verdicts.get(result.case, own.get(metric)), status))
    return sorted(each, key=lambda row: (_PLACES.get(row.status, 1), _impact(row, judged.subject), row.case))


def _status(result: CaseResult, upgrade: Upgrade) -> str:
    if any(one.matches(result.case) for one in upgrade.waived):
        return "waived"
    if result.only_screened:
        return "screened"
    if result.works:
        verdict = upgrade.verdicts.get(result.case)
        return verdict.word if verdict else "no data"
    return _ending(result)


def _ending(result: CaseResult) -> str:
    """The status of a case that does not work in both environments."""
    return (
        "broken"
        if result.broke
        else "repaired"
        if result.repaired
        else "broken in both"
        if result.never_worked
        else "not measured"
    )


def _impact(row: Row, subject: Subject) -> float:
    """From worse to better, by the weight of the case; what has no ratio goes by its word."""
    verdict = row.verdict
    if verdict is None:
        return math.inf
    if verdict.change is None:
        return {"slower": -math.inf, "faster": math.inf}.get(verdict.word, 0.0)
    return -verdict.change * verdict.cost * subject.policy.weight(row.case)


def impact(row: Row, policy: Policy) -> float | None:
    """Weight x log(new / old), above 0 where it is worse; None without a number.

    Where a case is called without a ratio, as a count that was 0 before, it is infinite.
    """
    verdict = row.verdict
    if verdict is None:
        return None
    if verdict.change is None:
        return {"slower": math.inf, "faster": -math.inf}.get(verdict.word)
    return verdict.change * verdict.cost * policy.weight(row.case)


def by_impact(each: Sequence[Row], policy: Policy) -> list[Row]:
    """Broken first, then what moved, then what may have, the largest impact first; equal ones by name."""

    def _key(row: Row) -> tuple[int, float, str]:
        return _IMPACT_PLACES.get(row.status, _LAST), -abs(impact(row, policy) or 0.0), row.case

    return sorted(each, key=_key)


def _ends(result: CaseResult) -> str:
    """How a case ended where it did not end well."""
    sides = (("old", result.old.status), ("new", result.new.status))
    return ", ".join(f"{name} ended {status}" for name, status in sides if status != OutcomeStatus.OK)


def statuses(each: Sequence[Row]) -> list[str]:
    """How many cases have which status, worst first: `2 broken`, `1 slower`, `7 same`."""
    order = ["broken", "slower", "unclear", "same", "faster", "repaired"]
    found = Counter(row.status for row in each)
    words = {row.status: row.word for row in each}
    listed = [*order, *(word for word in found if word not in order)]
    return [f"{found[word]} {words[word]}" for word in listed if found[word]]


@dataclass(frozen=True, slots=True)
class TechniqueRow:
    """One technique: its geomean, and the cases that are in none, with the reasons.

    `left_out` counts all of its cases that are in no geomean, those screened and waived among them.
    """

    technique: str
    mean: Geomean | None
    excluded: tuple[tuple[str, str], ...]
    left_out: int


def techniques(judged: JudgedUpgrade) -> list[TechniqueRow]:
    """Every technique of the suite, but those whose cases are all screened; also those without a mean."""
    upgrade = judged.upgrade
    reasons = {one.case: exclusion(one) for one in upgrade.exclusions}
    excluded: dict[str, list[tuple[str, str]]] = {}
    for result in judged.results:
        listed = excluded.setdefault(result.technique, [])
        if result.case in reasons:
            listed.append((result.case, reasons[result.case]))
    cases = Counter(result.technique for result in judged.results)
    return [
        TechniqueRow(name, mean, tuple(excluded[name]), cases[name] - (mean.cases if mean else 0))
        for name in sorted(excluded)
        if (mean := upgrade.techniques.get(name)) or excluded[name]
    ]


def without_ratio(table: Table) -> list[str]:
    """The cases of a table that are not in its geomean."""
    if len(table.verdicts) == table.geomean.cases:
        return []
    return [case for case, one in table.verdicts.items() if one.too_few or not one.has_ratio]


def table_rows(table: Table) -> list[tuple[str, Verdict]]:
    """The cases of a table, the worst first; those that stayed the same by name."""
    order = ["slower", "unclear", "faster"]

    def _key(item: tuple[str, Verdict]) -> tuple[int, float, str]:
        case, verdict = item
        place = order.index(verdict.word) if verdict.word in order else len(order)
        if place == len(order):
            return place, 0.0, case
        # Of 0, any other number is an infinite multiple.
        called = verdict.word in ("slower", "faster")
        size = math.inf if called and verdict.change is None else abs(verdict.change or 0.0)
        return place, -size, case

    return sorted(table.verdicts.items(), key=_key)


def left_out(each: Sequence[Row]) -> list[tuple[str, str]]:
    """Pairs that do not count although their case is compared: case and reason."""
    return [(row.case, why) for row in each if row.verdict for why in wording.left_out(row.verdict)]


@dataclass(frozen=True, slots=True)
class Grid:
    """Workloads by techniques; a cell is None where there is no such case."""

    techniques: tuple[str, ...]
    lines: tuple[tuple[str, tuple[Row | None, ...]], ...]


def grid(each: Sequence[Row], widest: int) -> Grid | None:
    """The cases as a grid; None where it would show nothing more than a list, or would be too wide."""
    cells: dict[str, dict[str, Row]] = defaultdict(dict)
    for row in each:
        cells[row.workload][row.result.technique] = row
    names = sorted({row.result.technique for row in each}, key=lambda name: (name != "eager", name))
    if len(cells) < 2 or not 2 <= len(names) <= widest or sum(map(len, cells.values())) < len(each):
        return None
    lines = ((workload, tuple(own.get(name) for name in names)) for workload, own in sorted(cells.items()))
    return Grid(tuple(names), tuple(lines))
