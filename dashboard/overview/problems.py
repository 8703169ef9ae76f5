"""What did not end ok in the newest nights: what is new first, and what is as the nights before counted."""

from collections import Counter, defaultdict
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from html import escape

import pandas as pd

from analysis.freshness import shown
from dashboard import links, markup, wording
from dashboard.overview.standing import Standing
from db.endings import Ending
from db.records import Outcome

#: Rows at most: a night that failed as a whole has hundreds, and its run's page lists them.
_ROWS = 20
_FELL, _NEW, _FIRST = "used to be measured", "not so in the earlier night", "no earlier night"
#: How the reason of a replicate begins that was planned and turned out not to be needed.
_NOT_NEEDED = "not needed"


@dataclass(frozen=True, slots=True)
class Problem:
    """So many replicates of a case that did not end ok in the newest night of a part.

    `since` says in words what is new about it; it is empty where they ended so in the earlier night, too.
    `newly`: nothing of the case ended badly in the earlier night, or there was none.
    """

    part: str
    run: str
    case: str
    status: str
    reason: str
    count: int
    since: str
    newly: bool


def needed(outcome: Outcome) -> bool:
    """Whether an outcome says anything: spare pairs of a comparison are skipped, and nobody misses them."""
    return _needed(outcome.status, outcome.reason)


def problems(parts: Iterable[Standing], endings: Mapping[str, Sequence[Ending]]) -> list[Problem]:
    """What did not end ok in the newest night of each part that is over, the worst first."""
    found: list[Problem] = []
    for one in parts:
        task = one.measured
        if task is None or not one.asked_for:
            continue
        run, name = task.run_id or "", shown(task.schedule, task.part)
        fell = {each.case for each in one.coverage.fell} if one.coverage else set[str]()
        before = endings.get(one.runs_before[0], ()) if one.runs_before else None
        known = None if before is None else {(each.case, each.status) for each in before}
        bad = {each.case for each in before or () if _is_bad(each)}
        for each in endings.get(run, ()):
            if each.status != "ok" and _needed(each.status, each.reason):
                since = _since(each, fell, known)
                newly = each.case not in fell and each.case not in bad
                found.append(
                    Problem(name, run, each.case, each.status, each.reason, each.count, since, newly)
                )
    return sorted(found, key=_worst_first)


def newly_failed(items: Iterable[Problem]) -> int:
    """How many cases failed that did not in the earlier night, or in a first one; without those that fell."""
    return len({(one.part, one.case) for one in items if one.newly and _is_bad(one)})


def table(items: Sequence[Problem]) -> str:
    """Those that are new one by one, and the others counted."""
    rows = [one for one in items if one.since]
    columns = [("Outcome", False), ("Case", False), ("Why", False), ("Replicates", True), ("Where", False)]
    cells = (
        (
            markup.chip(one.status),
            markup.case(one.case),
            f'<span class="py-reason">{escape(one.reason)}</span>',
            str(one.count),
            f"{markup.link(links.run(one.run), one.run)}<small>{escape(f'{one.part} · {one.since}')}</small>",
        )
        for one in rows[:_ROWS]
    )
    parts = [markup.table("What did not end ok", columns, cells, folded=True)] if rows else []
    if len(rows) > _ROWS:
        parts.append(_rest(f"and {len(rows) - _ROWS:,} more", rows[_ROWS:]))
    if as_before := [one for one in items if not one.since]:
        parts.append(_rest("As in the earlier night", as_before))
    return "".join(parts)


def frame(items: Iterable[Problem]) -> pd.DataFrame:
    """All of them for a CSV file."""
    columns = ["part", "run", "case", "status", "reason", "replicates", "new"]
    rows = [(one.part, one.run, one.case, one.status, one.reason, one.count, one.since) for one in items]
    return pd.DataFrame(rows, columns=columns)


def _rest(title: str, items: Sequence[Problem]) -> str:
    """A line for many: how they ended, and the runs whose pages list them."""
    counted = Counter(one.status for one in items)
    told = ", ".join(f"{many:,} {wording.status(status).word}" for status, many in counted.most_common())
    runs: dict[str, str] = defaultdict(str)
    for one in items:
        runs[one.run] = one.part
    some = [markup.link(links.run(run), part) for run, part in list(runs.items())[:_ROWS]]
    more = f" and {len(runs) - _ROWS:,} more" if len(runs) > _ROWS else ""
    return f'<p class="py-quiet">{escape(title)}: {escape(told)} in {", ".join(some)}{more}</p>'


def _since(ending: Ending, fell: Collection[str], known: Collection[tuple[str, str]] | None) -> str:
    if ending.case in fell:
        return _FELL
    if known is None:
        return _FIRST
    return "" if (ending.case, ending.status) in known else _NEW


def _needed(status: str, reason: str) -> bool:
    return status != "skipped" or not reason.startswith(_NOT_NEEDED)


def _worst_first(one: Problem) -> tuple[object, ...]:
    return one.since != _FELL, not one.since, not _is_bad(one), one.part, one.case, one.status


def _is_bad(one: Problem | Ending) -> bool:
    return wording.status(one.status).tone == "bad"
