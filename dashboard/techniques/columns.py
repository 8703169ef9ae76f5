"""The columns of the page's tables: what a cell shows, and what the CSV file has in its place."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from html import escape

import pandas as pd

from analysis.speedups import Gain
from dashboard.components import links, markup, wording
from dashboard.techniques import break_even
from dashboard.techniques.results import TechniqueResult

#: Between a number and what belongs to it, where cells are narrow.
_TIED = "\N{NO-BREAK SPACE}"

#: What a CSV file has of one case, by column.
Values = Mapping[str, object]


@dataclass(frozen=True, slots=True)
class TechniqueColumn:
    """One column: its title, the HTML of a cell, and what the CSV has for it; nothing where nothing is known.

    A column that no case tells anything in is left out, unless it `stays`.
    """

    title: str
    cell: Callable[[TechniqueResult], str]
    values: Callable[[TechniqueResult], Values]
    number: bool = True
    stays: bool = False


def table(
    label: str, columns: Sequence[TechniqueColumn], cases: Sequence[TechniqueResult], *, one_run: bool = False
) -> str:
    """The cases as a table, those columns in it that anything is known for; `one_run` needs no naming."""
    shown = [column for column in columns if column.stays or any(column.values(case) for case in cases)]
    shown = [column for column in shown if column is not RUN or not one_run]
    heads = [(column.title, column.number) for column in shown]
    rows = ([column.cell(case) for column in shown] for case in cases)
    return f'<div class="py-dense">{markup.table(label, heads, rows, folded=True)}</div>'


def frame(columns: Sequence[TechniqueColumn], cases: Sequence[TechniqueResult]) -> pd.DataFrame:
    """The same for CSV, with what cells leave out: what a ratio is against, how many pairs were disturbed."""
    rows: list[dict[str, object]] = []
    for case in cases:
        row: dict[str, object] = {}
        for column in columns:
            row |= column.values(case)
        rows.append(row)
    return pd.DataFrame(rows)


def _case_cell(case: TechniqueResult) -> str:
    return markup.case(case.case)


def _case_values(case: TechniqueResult) -> Values:
    return {"case": case.case}


def _run_values(case: TechniqueResult) -> Values:
    return {"run": case.run, "environment": case.environment}


def _run_cell(case: TechniqueResult) -> str:
    return markup.link(links.run(case.run), case.run)


CASE = TechniqueColumn("Case", _case_cell, _case_values, number=False, stays=True)
RUN = TechniqueColumn("Run", _run_cell, _run_values, number=False, stays=True)


def metric(name: str, title: str = "", *, base: bool = False) -> TechniqueColumn:
    """A metric of the case, or of its `base`line: the median with its interval, and n where that differs."""
    known = wording.metric(name)
    words = (title or known.title) + ("" if known.unit in ("", "share", "count") else f" ({known.unit})")
    prefix = f"baseline_{name}" if base else name

    def values(case: TechniqueResult) -> Values:
        found = (case.base if base else case.own).get(name)
        if found is None:
            return {}
        ends = {f"{prefix}_low": found.low, f"{prefix}_high": found.high, f"{prefix}_n": found.n}
        return {prefix: found.point, **ends}

    def cell(case: TechniqueResult) -> str:
        found = (case.base if base else case.own).get(name)
        if found is None:
            return wording.NONE
        point, about = _value(found.point, known.unit), f"n{_TIED}{found.n}"
        ends = [_value(end, known.unit) for end in (found.low, found.high) if end is not None]
        # Where all replicates agree, as sizes and counts do, the interval says nothing more.
        if set(ends) - {point}:
            about = f"{' to '.join(ends)}, {about}"
        return f"{escape(point)}<small>{escape(about)}</small>"

    return TechniqueColumn(words, cell, values)


def gain(kind: str, title: str) -> TechniqueColumn:
    """A gain of the case: the ratio, whether it is one, its interval and n, or why there is none."""
    name = kind.replace("-", "_").replace(" ", "_")

    def values(case: TechniqueResult) -> Values:
        found = case.gains.get(kind)
        if found is None:
            return {}
        ends = {f"{name}_low": found.low, f"{name}_high": found.high, f"{name}_n": found.n}
        left = {f"{name}_left_out": found.left_out, f"{name}_disturbed": found.disturbed}
        about = {f"{name}_against": found.against, f"{name}_reason": found.reason}
        return {name: found.ratio, **ends, **left, **about}

    def cell(case: TechniqueResult) -> str:
        found = case.gains.get(kind)
        if found is None:
            return wording.NONE
        if found.ratio is None:
            return f"{wording.NONE}<small>{escape(found.reason)}</small>"
        sign, _, tone = standing(found)
        shown = f'<strong class="py-{tone}">{sign} {escape(wording.gain(found))}</strong>'
        return f"{shown}<small>{escape(about_gain(found))}</small>"

    return TechniqueColumn(title, cell, values)


def standing(found: Gain) -> tuple[str, str, wording.Tone]:
    """What a gain's interval proves: a sign, a word and its tone.

    Of memory and size less is better, of everything else more.
    """
    if found.low is None or found.high is None:
        return "?", "one pair" if found.n < 2 else "no interval", "quiet"
    less_is_better = found.kind in ("memory", "size")
    words = ("more", "less") if less_is_better else ("faster", "slower")
    if found.kind == "efficiency":
        # 100 % is the most anybody hopes for, so to lie below it is no failure.
        return "", "of ideal", "quiet"
    if found.low > 1:
        return "▲", words[0], "bad" if less_is_better else "good"
    if found.high < 1:
        return "▼", words[1], "good" if less_is_better else "bad"
    return "~", "unclear", "quiet"


def about_gain(found: Gain) -> str:
    """The interval and n of a gain, with what was left out and what others disturbed."""
    parts = (
        [f"n{_TIED}{found.n}"] if found.low is None else [wording.gain_interval(found), f"n{_TIED}{found.n}"]
    )
    if found.left_out:
        parts.append(f"{found.left_out:,} left out")
    if found.disturbed:
        parts.append(f"{found.disturbed:,} disturbed")
    return ", ".join(parts)


def _pays_values(case: TechniqueResult) -> Values:
    found = break_even.of(case)
    if found is None:
        return {}
    ends = {"pays_after_fewest": found.fewest, "pays_after_most": found.most}
    return {"pays_after_steps": found.steps, **ends, "pays_after_baseline_seconds": found.seconds}


def _pays_cell(case: TechniqueResult) -> str:
    found = break_even.of(case)
    if found is None:
        compiled = case.speed_up is not None and break_even.COLD in case.own
        return "never<small>not faster</small>" if compiled else wording.NONE
    steps = break_even.in_words(found.steps)
    if found.fewest is None:
        alone = case.speed_up is not None and case.speed_up.n < 2
        return f"{steps}<small>{'one pair: ' if alone else ''}no interval</small>"
    fewest = break_even.in_words(found.fewest)
    if found.most is None:
        return f"{steps}<small>{fewest} at best, perhaps never</small>"
    return f"{steps}<small>{fewest} to {break_even.in_words(found.most)}</small>"


PAYS = TechniqueColumn("Pays after (steps)", _pays_cell, _pays_values)


def _allowed(case: TechniqueResult) -> float | None:
    """The error up to which the answer counts as right."""
    check = case.facts.get("check")
    value = check.get("tolerance") if isinstance(check, Mapping) else None
    return float(value) if isinstance(value, int | float) and not isinstance(value, bool) else None


def _allowed_cell(case: TechniqueResult) -> str:
    return escape(wording.percent(_allowed(case)))


def _allowed_values(case: TechniqueResult) -> Values:
    value = _allowed(case)
    return {} if value is None else {"error_allowed": value}


ALLOWED = TechniqueColumn("Error allowed", _allowed_cell, _allowed_values)


def _why_cell(case: TechniqueResult) -> str:
    return f'<span class="py-reason">{escape(case.failed[1] if case.failed else "")}</span>'


def _why_values(case: TechniqueResult) -> Values:
    return {"reason": case.failed[1]} if case.failed else {}


def _ended_cell(case: TechniqueResult) -> str:
    return markup.chip(case.failed[0]) if case.failed else ""


def _ended_values(case: TechniqueResult) -> Values:
    return {"status": case.failed[0]} if case.failed else {}


ENDED = TechniqueColumn("Outcome", _ended_cell, _ended_values, number=False, stays=True)
WHY = TechniqueColumn("Why", _why_cell, _why_values, number=False, stays=True)


def _value(value: float, unit: str) -> str:
    return wording.percent(value).replace(" ", _TIED) if unit == "share" else wording.number(value, unit)
