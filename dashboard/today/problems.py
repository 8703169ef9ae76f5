"""Failures of the newest nights: new ones first, and the number of earlier ones."""

from collections import Counter, defaultdict
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from html import escape
from typing import Literal

import pandas as pd

from analysis.decision.run_cases import FAILED
from analysis.staleness import DISTURBED, part_label
from common.text import some
from dashboard.components import links, markup, wording
from dashboard.today.track_status import TrackStatus
from records.outcomes import Outcome, OutcomeCount, OutcomeStatus
from reports.table import Column, DataTable

#: The most causes; the pages of the runs list all.
_ROWS = 20
_FELL, _NEW, _FIRST = "used to be measured", "ok in the earlier night", "no earlier night"
#: The beginning of the reason of a planned replicate that was not needed.
_NOT_NEEDED = "not needed"


@dataclass(frozen=True, slots=True)
class CaseProblem:
    """The number of replicates of a case, `of` all that ended, that are not ok in the newest night of a part.

    `since` tells what is new; it is empty if the same happened in the earlier night. `newly`: the case had no
    failure in the earlier night, or there was none.
    """

    part: str
    machine: str
    run: str
    case: str
    status: OutcomeStatus | Literal["not reached"]
    reason: str
    count: int
    since: str
    newly: bool
    of: int


def needed(outcome: Outcome) -> bool:
    """Whether an outcome matters: unneeded pairs of a comparison are skipped on purpose."""
    return _needed(outcome.status, outcome.reason)


def problems(
    parts: Iterable[TrackStatus], endings: Mapping[str, Sequence[OutcomeCount]]
) -> list[CaseProblem]:
    """The failures in the newest ended night of each part, worst first."""
    results: list[CaseProblem] = []
    for one in parts:
        night = one.night
        if night is None or not one.scheduled:
            continue
        task, run = night.task, night.runs[0]
        name = part_label(task.schedule, task.part)
        lost_cases = {each.case for each in one.coverage.lost} if one.coverage else set[str]()
        before = endings.get(night.before[0], ()) if night.before else None
        earlier = None if before is None else {(each.case, each.status) for each in before}
        bad = {each.case for each in before or () if _is_bad(each)}
        totals: Counter[str] = Counter()
        for each in endings.get(run, ()):
            totals[each.case] += each.count if _needed(each.status, each.reason) else 0
        for each in endings.get(run, ()):
            if each.status != OutcomeStatus.OK and _needed(each.status, each.reason):
                since = _since(each, lost_cases, earlier)
                newly = each.case not in lost_cases and each.case not in bad
                results.append(
                    CaseProblem(
                        name,
                        task.machine,
                        run,
                        each.case,
                        each.status,
                        each.reason,
                        each.count,
                        since,
                        newly,
                        totals[each.case],
                    )
                )
    return sorted(results, key=_worst_first)


def newly_failed(items: Iterable[CaseProblem]) -> int:
    """The number of cases that failed and did not fail in the earlier night, or that failed in a first night.

    Cases without a number are counted separately; outcomes that were disturbed or lost with their machine do
    not count.
    """
    return len({(one.part, one.case) for one in items if one.newly and _is_bad(one)})


@dataclass(frozen=True, slots=True)
class Cause:
    """Equal failures in one run on one machine."""

    items: tuple[CaseProblem, ...]

    @property
    def count(self) -> int:
        """The number of these replicates."""
        return sum(one.count for one in self.items)

    @property
    def of(self) -> int:
        """The number of ended replicates of its cases."""
        return sum({one.case: one.of for one in self.items}.values())

    @property
    def reasons(self) -> tuple[str, ...]:
        """The reasons, most frequent first."""
        counts: Counter[str] = Counter()
        for one in self.items:
            counts[one.reason] += one.count
        return tuple(reason for reason, _ in counts.most_common() if reason)


def causes(items: Iterable[CaseProblem]) -> list[Cause]:
    """Problems by status, reason and run, worst first.

    A case that was also disturbed in the earlier night belongs to the same cause, which is the machine.
    """
    by_cause: dict[tuple[str, ...], list[CaseProblem]] = defaultdict(list)
    for one in items:
        # Reasons of disturbances contain the lost share of time, which differs between cases.
        why = () if one.status in DISTURBED else (one.reason, one.since)
        by_cause[one.part, one.machine, one.run, one.status, *why].append(one)
    matches = [Cause(tuple(own)) for own in by_cause.values() if any(one.since for one in own)]
    return sorted(matches, key=lambda each: min(_worst_first(one) for one in each.items))


def table(items: Sequence[CaseProblem]) -> str:
    """A row for each cause with its folded cases; failures that also occurred in the earlier night are
    counted.
    """
    cause_list = causes(items)
    columns: list[Column[Cause]] = [
        Column("", "Outcome", html=_outcome),
        Column("", "Why", html=lambda one: _why(one.reasons)),
        Column("", "Cases", html=lambda one: _cases(one.items)),
        Column("", "Where", html=lambda one: _where(one.items)),
    ]
    parts: list[str] = (
        [DataTable("Outcomes that are not ok", columns, cause_list[:_ROWS]).html()] if cause_list else []
    )
    if len(cause_list) > _ROWS:
        rest = [one for each in cause_list[_ROWS:] for one in each.items]
        parts.append(_rest(f"and {len(cause_list) - _ROWS:,} more", rest))
    entries = {id(one) for each in cause_list for one in each.items}
    if as_before := [one for one in items if id(one) not in entries]:
        parts.append(_rest("As in the earlier night", as_before))
    return "".join(parts)


def _outcome(one: Cause) -> str:
    """The number of failed processes and of all: one of three may be chance, three are not."""
    chip = markup.chip(one.items[0].status, one.count)
    return f"{chip}<small>of {wording.plural(one.of, 'process', 'processes')}</small>"


def _why(reasons: Sequence[str]) -> str:
    """The first reason; the unfolded cases have their own."""
    more = f"<small>and {len(reasons) - 1} more, by case</small>" if len(reasons) > 1 else ""
    return f'<span class="py-reason">{escape(reasons[0] if reasons else wording.NONE)}</span>{more}'


def _cases(items: Sequence[CaseProblem]) -> str:
    """The case, or the number of cases and, unfolded, each with its own reason."""
    if len(items) == 1:
        return markup.case(items[0].case)
    lines = "".join(
        f"<li>{escape(wording.case(one.case).text)}: {one.count} of {one.of}"
        f"{f', {escape(one.reason)}' if one.reason else ''}</li>"
        for one in items
    )
    return f"<details><summary>{wording.plural(len(items), 'case')}</summary><ul>{lines}</ul></details>"


def _where(items: Sequence[CaseProblem]) -> str:
    first = items[0]
    new = [one.since for one in items if one.since]
    since = new[0] if len(new) == len(items) else f"{len(new)} of them {new[0]}"
    text = " · ".join(filter(None, (first.part, first.machine, since)))
    return f"{markup.link(links.run(first.run), first.run)}<small>{escape(text)}</small>"


def frame(items: Iterable[CaseProblem]) -> pd.DataFrame:
    """All of them for a CSV file."""
    columns = ["part", "machine", "run", "case", "status", "reason", "replicates", "of", "new"]
    rows = [
        (one.part, one.machine, one.run, one.case, one.status, one.reason, one.count, one.of, one.since)
        for one in items
    ]
    return pd.DataFrame(rows, columns=columns)


def _rest(title: str, items: Sequence[CaseProblem]) -> str:
    """A line for many failures: their statuses, and the runs whose pages list them."""
    counter = Counter(one.status for one in items)
    counts = ", ".join(f"{many:,} {wording.status(status).word}" for status, many in counter.most_common())
    runs: dict[str, str] = defaultdict(str)
    for one in items:
        runs[one.run] = one.part
    links_text = some([markup.link(links.run(run), part) for run, part in runs.items()], _ROWS)
    return f'<p class="py-quiet">{escape(title)}: {escape(counts)} in {links_text}</p>'


def _since(
    ending: OutcomeCount, lost_cases: Collection[str], earlier: Collection[tuple[str, str]] | None
) -> str:
    if ending.case in lost_cases:
        return _FELL
    if earlier is None:
        return _FIRST
    return "" if (ending.case, ending.status) in earlier else _NEW


def _needed(status: OutcomeStatus, reason: str) -> bool:
    return status != OutcomeStatus.SKIPPED or not reason.startswith(_NOT_NEEDED)


def _worst_first(one: CaseProblem) -> tuple[object, ...]:
    some = one.count < one.of
    return one.since != _FELL, not one.since, not _is_bad(one), some, one.part, one.case, one.status


def _is_bad(one: CaseProblem | OutcomeCount) -> bool:
    return one.status in FAILED
