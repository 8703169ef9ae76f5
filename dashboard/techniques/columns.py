"""The columns of the page's tables, with the values of cells and of CSV files."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace

from markupsafe import Markup

from analysis.metrics import PEAK_MEMORY
from analysis.speedups import Gain
from dashboard.components import links, markup, wording
from dashboard.techniques import break_even
from dashboard.techniques.results import TechniqueResult
from reports.table import Column, DataTable
from reports.tables import reason_text
from reports.text.verdict_text import refusal

#: The separator between a number and its additions in narrow cells.
_TIED = "\N{NO-BREAK SPACE}"

#: Differences of memory below one hundredth count as none.
SAME_MEMORY = 0.01

#: Values of CSV files, by column.
Values = Callable[[TechniqueResult], Mapping[str, object]]
#: A column of pages together with the additional columns of CSV files.
ColumnGroup = tuple[Column[TechniqueResult], ...]


def table(
    label: str,
    groups: Sequence[ColumnGroup],
    cases: Sequence[TechniqueResult],
    version: str,
    *,
    one_run: bool = False,
) -> DataTable[TechniqueResult]:
    """The cases as a table, without columns that have no values; with `one_run` without the run."""
    groups_with_values = [
        group for group in groups if _stays(group) or any(_known(group, case) for case in cases)
    ]
    columns = [column for group in groups_with_values for column in group]
    if one_run:
        columns = [replace(column, label=None) if column is RUN[0] else column for column in columns]
    columns.append(Column("torch", value=lambda case: version))
    return DataTable(label, columns, cases, dense=True)


def _stays(group: ColumnGroup) -> bool:
    return group[0].name in _ALWAYS


def _known(group: ColumnGroup, case: TechniqueResult) -> bool:
    return any(column.value is not None and column.value(case) is not None for column in group)


def _columns(
    label: str, cell: Callable[[TechniqueResult], Markup], names: Sequence[str], values: Values
) -> ColumnGroup:
    """A column of numbers, and those of CSV files whose values `values` holds by name."""

    def value_of(name: str) -> Callable[[TechniqueResult], object]:
        return lambda case: values(case).get(name)

    first, *rest = names
    return (
        Column(first, label, value_of(first), cell, number=True),
        *(Column(name, value=value_of(name)) for name in rest),
    )


def _run_cell(case: TechniqueResult) -> Markup:
    return Markup(markup.link(links.run(case.run), case.run))


CASE: ColumnGroup = (
    Column("case", "Case", lambda case: case.case, lambda case: Markup(markup.case(case.case))),
)
RUN: ColumnGroup = (
    Column("run", "Run", lambda case: case.run, _run_cell),
    Column("environment", value=lambda case: case.environment),
)


def _technique_cell(case: TechniqueResult) -> Markup:
    return Markup(markup.technique(case.technique))


TECHNIQUE: ColumnGroup = (Column("case", "Technique", lambda case: case.case, _technique_cell),)


def opened_technique(address: Callable[[str], str]) -> ColumnGroup:
    """The technique with a link to the panel of its case at an `address`."""

    def link(case: TechniqueResult) -> str:
        return address(case.case)

    return (replace(TECHNIQUE[0], link=link),)


def metric(name: str, title: str = "", *, base: bool = False, unit: str = "") -> ColumnGroup:
    """A metric of the case, or of its `base`line: the median with its interval, and n if that differs.

    `unit` replaces that of the metric.
    """
    metric = wording.metric(name)
    unit_text = unit or ("" if metric.unit in ("share", "count") else metric.unit)
    words = (title or metric.title) + (f" ({unit_text})" if unit_text else "")
    prefix = f"baseline_{name}" if base else name

    def values(case: TechniqueResult) -> Mapping[str, object]:
        measurement = (case.base if base else case.own).get(name)
        if measurement is None:
            return {}
        ends = {
            f"{prefix}_low": measurement.low,
            f"{prefix}_high": measurement.high,
            f"{prefix}_n": measurement.n,
        }
        return {prefix: measurement.point, **ends}

    def cell(case: TechniqueResult) -> Markup:
        measurement = (case.base if base else case.own).get(name)
        if measurement is None:
            return Markup(wording.NONE)
        point, about = _value(measurement.point, metric.unit), f"n{_TIED}{measurement.n}"
        ends = [_value(end, metric.unit) for end in (measurement.low, measurement.high) if end is not None]
        # If all replicates agree, as for sizes and counts, the interval is left out.
        if set(ends) - {point}:
            about = f"{' to '.join(ends)}, {about}"
        return Markup("{}<small>{}</small>").format(point, about)

    return _columns(words, cell, [prefix, *(f"{prefix}_{end}" for end in ("low", "high", "n"))], values)


def gain(kind: str, title: str) -> ColumnGroup:
    """A gain of the case: the ratio, its verdict, its interval and n, or the reason why there is none."""
    name = kind.replace("-", "_").replace(" ", "_")

    def values(case: TechniqueResult) -> Mapping[str, object]:
        gain = case.gains.get(kind)
        if gain is None:
            return {}
        ends = {f"{name}_low": gain.low, f"{name}_high": gain.high, f"{name}_n": gain.n}
        counts = {f"{name}_left_out": gain.left_out, f"{name}_disturbed": gain.disturbed}
        about = {f"{name}_against": gain.against, f"{name}_reason": refusal(gain.reason)}
        return {name: gain.ratio, **ends, **counts, **about}

    def cell(case: TechniqueResult) -> Markup:
        gain = case.gains.get(kind)
        if gain is None:
            return Markup(wording.NONE)
        if gain.ratio is None:
            return Markup("{}<small>{}</small>").format(wording.NONE, refusal(gain.reason))
        sign, _, tone = status(gain)
        return Markup('<strong class="py-{}">{} {}</strong><small>{}</small>').format(
            tone, sign, wording.gain(gain), about_gain(gain)
        )

    about = ("low", "high", "n", "left_out", "disturbed", "against", "reason")
    return _columns(title, cell, [name, *(f"{name}_{each}" for each in about)], values)


def speed_up(title: str, ends: tuple[float, float]) -> ColumnGroup:
    """The speed-up with its interval as a bar along an axis between `ends`; the baseline itself is 1."""
    plain = gain("speed-up", title)

    def cell(case: TechniqueResult) -> Markup:
        found = case.gains.get("speed-up")
        if found is None:
            bar = markup.bar(1.0, None, None, ends)
            return Markup(f'{bar}<span class="py-times">1.00×</span><small>baseline</small>')
        if found.ratio is None:
            return plain[0].cell(case)
        sign, _, tone = status(found)
        star = "*" if found.disturbed else ""
        return Markup(
            '<span class="py-{}">{}<strong class="py-times">{} {}{}</strong></span><small>{}</small>'
        ).format(
            tone,
            Markup(markup.bar(found.ratio, found.low, found.high, ends)),
            sign,
            wording.gain(found),
            star,
            about_gain(found),
        )

    return (replace(plain[0], format=cell), *plain[1:])


def peak_memory() -> ColumnGroup:
    """Peak memory against the baseline as text, coloured if all pairs agree on the direction."""
    plain = gain("memory", "Peak memory")

    def cell(case: TechniqueResult) -> Markup:
        found = case.gains.get("memory")
        peak = next((case.own[name] for name in PEAK_MEMORY if name in case.own), None)
        size = wording.quantity(peak.point, wording.metric(peak.metric).unit) if peak else ""
        if found is None or found.ratio is None:
            return Markup("{}").format(size or wording.NONE)
        if abs(found.ratio - 1) < SAME_MEMORY:
            return Markup("·<small>{}</small>").format(size)
        _, _, tone = status(found)
        sign = "−" if found.ratio < 1 else "+"
        change = f"{sign}{wording.significant(100 * abs(found.ratio - 1), 2)}{_TIED}%"
        return Markup('<span class="py-{}">{}</span><small>{}</small>').format(tone, change, size)

    return (replace(plain[0], format=cell), *plain[1:])


def status(gain: Gain) -> tuple[str, str, wording.Tone]:
    """The verdict of a gain's interval: a sign, a word and its tone.

    Less is better for memory and size, more for everything else.
    """
    if gain.low is None or gain.high is None:
        return "?", "one pair" if gain.n < 2 else "no interval", "quiet"
    less_is_better = gain.kind in ("memory", "size")
    words = ("more", "less") if less_is_better else ("faster", "slower")
    if gain.kind == "efficiency":
        # 100 % is the ideal, so that a lower value is not a failure.
        return "", "of ideal", "quiet"
    if gain.low > 1:
        return "▲", words[0], "bad" if less_is_better else "good"
    if gain.high < 1:
        return "▼", words[1], "good" if less_is_better else "bad"
    return "~", "unclear", "quiet"


def about_gain(gain: Gain) -> str:
    """The interval and n of a gain, with the numbers of pairs left out and disturbed."""
    parts = [f"n{_TIED}{gain.n}"] if gain.low is None else [wording.gain_interval(gain), f"n{_TIED}{gain.n}"]
    if gain.left_out:
        parts.append(f"{gain.left_out:,} left out")
    if gain.disturbed:
        parts.append(f"{gain.disturbed:,} disturbed")
    return ", ".join(parts)


def _pays_values(case: TechniqueResult) -> Mapping[str, object]:
    pay_back = break_even.of(case)
    if pay_back is None:
        return {}
    ends = {"pays_after_fewest": pay_back.fewest, "pays_after_most": pay_back.most}
    return {"pays_after_steps": pay_back.steps, **ends, "pays_after_baseline_seconds": pay_back.seconds}


def _pays_cell(case: TechniqueResult) -> Markup:
    pay_back = break_even.of(case)
    if pay_back is None:
        slower = 0 < case.times <= 1 and break_even.COLD in case.own
        return Markup("never<small>not faster</small>") if slower else Markup(wording.NONE)
    if pay_back.fewest is None:
        alone = case.speed_up is not None and case.speed_up.n < 2
        about = f"{'one pair: ' if alone else ''}no interval"
    elif pay_back.most is None:
        about = f"{break_even.in_words(pay_back.fewest)} at best, perhaps never"
    else:
        about = f"{break_even.in_words(pay_back.fewest)} to {break_even.in_words(pay_back.most)}"
    return Markup("{}<small>{}</small>").format(break_even.in_words(pay_back.steps), about)


PAYS = _columns(
    "Break-even (steps)",
    _pays_cell,
    ("pays_after_steps", "pays_after_fewest", "pays_after_most", "pays_after_baseline_seconds"),
    _pays_values,
)


def _tolerance(case: TechniqueResult) -> float | None:
    """The error up to which the answer counts as correct."""
    check = case.facts.get("check")
    value = check.get("tolerance") if isinstance(check, Mapping) else None
    return float(value) if isinstance(value, int | float) and not isinstance(value, bool) else None


ALLOWED: ColumnGroup = (
    Column(
        "error_allowed",
        "Error allowed",
        _tolerance,
        lambda case: wording.percent(_tolerance(case)),
        number=True,
    ),
)
ENDED: ColumnGroup = (
    Column(
        "status",
        "Outcome",
        lambda case: case.failed[0] if case.failed else None,
        lambda case: Markup(markup.chip(case.failed[0])) if case.failed else "",
    ),
)
WHY: ColumnGroup = (
    Column(
        "reason",
        "Why",
        lambda case: case.failed[1] if case.failed else None,
        lambda case: reason_text(case.failed[1] if case.failed else ""),
    ),
)
#: Columns that are kept without values.
_ALWAYS = tuple(group[0].name for group in (CASE, RUN, ENDED, WHY))


def _value(value: float, unit: str) -> str:
    if unit == "share":
        return f"{wording.percentage(value, 2)}{_TIED}%"
    return wording.number(value, unit)
