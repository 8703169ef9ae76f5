"""What techniques bring, as the report of a run writes it: how a speed-up is made, scaling, claims."""

from collections import Counter
from collections.abc import Mapping, Sequence
from itertools import chain
from statistics import median

from rich.console import Console
from rich.table import Table

from analysis.claims_check import ClaimMeasurement, findings
from analysis.metrics import METRICS
from analysis.speedups import Gain
from records.outcomes import Outcome
from records.references import Claim
from runner.suites.references import claims_for

from .case_names import CaseName
from .wording import figure, times

_HOW = (
    "speed-up: time per item of eager fp32 / of the case, from min-based latency (the median over blocks of "
    "each block's fastest iteration; from items/s where several processes run at once); median over pairs of "
    "replicates of one session [95 % interval]"
)
_DISTURBED = (
    "*: in some pair a process had less than 90 % of its core, for others used it too; such a ratio may be "
    "anything: measure again when the machine is quiet"
)
_HOW_SCALING = (
    "scaling: efficiency is the speed-up per item over one rank / ranks; x is the throughput of several "
    "processes / of one with all the CPUs; items/s are those of all ranks and processes together, from the "
    "same latency as the ratio"
)

#: Gains that the table of scaling shows, and what each is called.
_SCALING = {"efficiency": "efficiency", "one process": "comparison with one process"}

#: Kinds of claims that are told in per cent.
_PERCENTAGES = ("saved", "efficiency")


def print_gains(
    console: Console,
    by_case: Mapping[str, Sequence[Outcome]],
    found: Mapping[tuple[str, str], tuple[Gain, ...]],
) -> None:
    """How the speed-ups were made and which are missing, the table of scaling, and the field's claims."""
    every = [gain for own in found.values() for gain in own]
    if any(gain.kind == "speed-up" and gain.ratio is not None for gain in every):
        _line(console, _HOW)
    if any(gain.ratio is not None and gain.disturbed for gain in every):
        _line(console, _DISTURBED)
    for line in _missing(every, by_case):
        _line(console, line)
    scaled = [gain for gain in every if gain.kind in _SCALING]
    if any(gain.ratio is not None for gain in scaled):
        console.print(_scaling(scaled, by_case))
        _line(console, _HOW_SCALING)
    claims = _claims(by_case, found)
    if claims:
        _line(console, "claimed elsewhere, and measured here [95 % interval]:")
    for line in claims:
        _line(console, line)


def _line(console: Console, text: str) -> None:
    console.print(text, markup=False, soft_wrap=True)


def _missing(every: Sequence[Gain], by_case: Mapping[str, Sequence[Outcome]]) -> list[str]:
    """One line for each reason for which cases that all ended well have no ratio."""
    well = {case for case, outcomes in by_case.items() if all(o.status == "ok" for o in outcomes)}
    missing = [gain for gain in every if gain.ratio is None and gain.case in well]
    lines: list[str] = []
    for (kind, reason), many in Counter((gain.kind, gain.reason) for gain in missing).items():
        cases = [gain.case for gain in missing if (gain.kind, gain.reason) == (kind, reason)]
        what = _SCALING.get(kind, kind)
        lines.append(f"no {what} for {cases[0] if many == 1 else f'{many} cases'}: {reason}")
    return lines


def _scaling(gains: Sequence[Gain], by_case: Mapping[str, Sequence[Outcome]]) -> Table:
    table = Table(box=None, header_style="bold", pad_edge=False)
    table.add_column("case", overflow="fold")
    table.add_column("items/s", justify="right")
    table.add_column("against", overflow="fold")
    table.add_column("items/s", justify="right")
    table.add_column("scaling", no_wrap=True)
    for gain in gains:
        # Of the baseline the technique says it all: the workload is the same.
        against = gain.against.rsplit("/", 1)[-1]
        rates = [_rate(by_case.get(case, ()), gain.metric) for case in (gain.case, gain.against)]
        table.add_row(CaseName(gain.case), rates[0], against, rates[1], times(gain))
    return table


def _rate(outcomes: Sequence[Outcome], metric: str) -> str:
    """Items a second, from what a ratio of this `metric` is made of; the median over processes."""
    values = [
        one.facts["items"] / one.metrics[metric] * 1e3 if metric == "latency_floor" else one.metrics[metric]
        for one in outcomes
        if one.status == "ok" and one.metrics.get(metric) and one.facts.get("items")
    ]
    return figure(median(values)) if values else "-"


def _claims(
    by_case: Mapping[str, Sequence[Outcome]], found: Mapping[tuple[str, str], tuple[Gain, ...]]
) -> list[str]:
    """Each claim about a case of the run, and below it what was measured, case by case."""
    lines: list[str] = []
    for claim, measured in findings(chain.from_iterable(by_case.values()), found, claims_for).items():
        ends = [_number(claim, value) for value in dict.fromkeys((claim.low, claim.high))]
        claimed = " to ".join(ends) + _unit(claim)
        lines.append(f"  {claim.statement} ({claim.hardware}): {claimed}")
        lines += [f"    {_measured(claim, here)}: {case}" for case, _, here in measured]
    return lines


def _measured(claim: Claim, here: ClaimMeasurement) -> str:
    if here.point is None:
        return f"none, {here.reason}"
    text = _number(claim, here.point) + _unit(claim)
    if here.low is None or here.high is None:
        return text
    return f"{text} [{_number(claim, here.low)}, {_number(claim, here.high)}]"


def _number(claim: Claim, value: float) -> str:
    return figure(100 * value if claim.kind in _PERCENTAGES else value, 3)


def _unit(claim: Claim) -> str:
    if claim.kind in _PERCENTAGES:
        return " %"
    known = METRICS.get(claim.metric)
    return "x" if claim.kind == "ratio" else f" {known.unit}" if known else ""
