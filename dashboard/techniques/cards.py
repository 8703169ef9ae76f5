"""What matters most of all that techniques brought, in a row of numbers."""

from collections.abc import Sequence
from html import escape

from dashboard.components import markup, wording
from dashboard.techniques import columns, frames
from dashboard.techniques.results import TechniqueResult, TechniqueRun


def row(cases: Sequence[TechniqueResult], readings: Sequence[TechniqueRun]) -> str:
    """What matters most, in a row of numbers."""
    timed = [(case, found) for case in frames.timed(cases) if (found := case.speed_up) is not None]
    standings = [columns.standing(found)[1] for _, found in timed]
    faster, slower = standings.count("faster"), standings.count("slower")
    unclear = len(timed) - faster - slower
    noisy = sum(found.disturbed > 0 for _, found in timed)
    shown = [
        markup.card(
            "Faster than eager fp32",
            f'<span class="py-good">▲ {faster:,}</span> of {len(timed):,}',
            f"▼ {slower:,} slower, ~ {unclear:,} unclear" + (f", * {noisy:,} disturbed" if noisy else ""),
        )
    ]
    proven = [each for each in timed if columns.standing(each[1])[1] == "faster" and not each[1].disturbed]
    if proven:
        best, found = max(proven, key=lambda each: each[1].ratio or 0.0)
        shown.append(_card("Fastest", f"▲ {wording.gain(found)}", best))
    small = [(case, found) for case in cases if (found := case.ratio("memory")) is not None]
    proven = [each for each in small if columns.standing(each[1])[1] == "less"]
    if proven:
        best, found = min(proven, key=lambda each: each[1].ratio or 1.0)
        shown.append(_card("Least memory", f"▼ {wording.gain(found)} of eager's", best))
    failed = sum(case.failed is not None for case in cases)
    shown.append(markup.card("Not measured", f"{failed:,}", _ended(cases, readings)))
    return markup.panels(*shown)


def _ended(cases: Sequence[TechniqueResult], readings: Sequence[TechniqueRun]) -> str:
    """How the replicates of the cases ended, in a few words."""
    if any(case.failed is not None for case in cases):
        return "the reasons stand below"
    if lost := sum(case.lost for case in cases):
        return f"{wording.plural(lost, 'replicate')} did not end well"
    told = {case.run for case in cases}
    unreached = sum(each.unreached for each in readings if each.run in told)
    return f"all that were reached ended well, {unreached:,} were not" if unreached else "all ended well"


def _card(title: str, value: str, case: TechniqueResult) -> str:
    return markup.card(title, escape(value), escape(wording.case(case.case).text))
