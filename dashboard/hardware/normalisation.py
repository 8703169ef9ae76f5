"""The same cases on different hardware, as ratios to one of them; pure functions."""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from statistics import geometric_mean, median
from typing import Any, Literal

from analysis.detection.default_watched_metrics import rules_of
from analysis.metrics import METRICS, Better
from runner.worker.case_key import CaseKey, CaseKeyError

#: The assumed noise between runs if no PyTorch was measured twice on any hardware: machines drift by a few
#: per cent from run to run.
UNKNOWN_NOISE = 0.05


@dataclass(frozen=True, slots=True)
class HardwareValue:
    """One case on one hardware: a median of `n` replicates of a run, or of `n` runs of a version.

    `smallest`..`largest` is their range. `apart` is the distance between runs of the same version, as a
    share, if there are several. `harnesses` are those of all runs of the version there with that metric.
    """

    value: float
    smallest: float
    largest: float
    n: int
    of: Literal["replicate", "run"]
    measured_at: datetime
    torch_version: str
    run: str
    harnesses: tuple[str, ...]
    apart: float | None = None


@dataclass(frozen=True, slots=True)
class HardwareColumn:
    """One hardware under one preset (fingerprints), with the result of each case.

    `cpus` is the number of CPUs that the preset gives a process there: 0 for no pinning, None if it is not
    recorded. `gpus` and `machines` are the numbers of GPUs and machines of the hardware. `name` is its label,
    `label` a unique one. `build` is the whole version that is compared on it: empty without a build of the
    chosen version, or if no version is chosen.
    """

    hardware: str
    label: str
    preset: str
    cpus: int | None
    cells: Mapping[str, HardwareValue] = field(default_factory=dict[str, HardwareValue])
    gpus: int = 0
    machines: int = 1
    name: str = ""
    build: str = ""

    def used_gpus(self, case: str) -> int:
        """The number of GPUs of this hardware that a case uses: one for each of its ranks.

        Independent instances share one. 0 if the hardware has none.
        """
        return min(_count(case, "ranks"), self.gpus)

    def share(self, case: str) -> float:
        """The share of this hardware that a case is charged for, above 0 and up to 1: its GPUs of all GPUs,
        because the others can be used meanwhile; without GPUs its machines of all machines.

        A machine is charged as a whole: processes on its CPUs share caches and memory bandwidth, so that one
        process does not show the performance of all CPUs.
        """
        if self.gpus:
            return self.used_gpus(case) / self.gpus
        return min(_count(case, "nodes"), self.machines) / self.machines


def _count(case: str, axis: str) -> int:
    """The number of `ranks` or `nodes` of a case; 1 if its key cannot be parsed."""
    try:
        return CaseKey.parse(case).count(axis)
    except CaseKeyError:
        return 1


@dataclass(frozen=True, slots=True)
class Overall:
    """The geometric mean of the ratios of `n` cases, each counting once, and the smallest and largest of
    them.

    None without a case. `left_out` are the cases that are not in it, with the reasons.
    """

    ratio: float | None
    smallest: float | None
    largest: float | None
    n: int
    left_out: tuple[tuple[str, str], ...]


def ratio(value: float, reference: float, better: Better) -> float | None:
    """The ratio of `value` to `reference`, inverted for metrics where lower is better: above 1 is better.

    None if one of them is not a finite number above 0, or if neither direction is better.
    """
    usable = all(math.isfinite(each) and each > 0 for each in (value, reference))
    if not usable or better == "neither":
        return None
    return reference / value if better == "lower" else value / reference


def ratios(column: HardwareColumn, reference: HardwareColumn, better: Better) -> dict[str, float]:
    """The ratios of the cases that both have."""
    result = {
        case: ratio(cell.value, reference.cells[case].value, better)
        for case, cell in column.cells.items()
        if case in reference.cells
    }
    return {case: each for case, each in result.items() if each is not None}


def overall(column: HardwareColumn, reference: HardwareColumn, better: Better) -> Overall:
    """The mean of a hardware over all cases that it shares with the reference."""
    result = ratios(column, reference, better)
    cases = sorted({*column.cells, *reference.cells} - result.keys())
    left_out = tuple((case, _why(case, column, reference)) for case in cases)
    if not result:
        return Overall(None, None, None, 0, left_out)
    values = list(result.values())
    return Overall(geometric_mean(values), min(values), max(values), len(values), left_out)


def _why(case: str, column: HardwareColumn, reference: HardwareColumn) -> str:
    for each in (column, reference):
        if case not in each.cells:
            return f"not measured on {each.label}"
    return "one of the two is not a number above 0"


def noise(columns: Sequence[HardwareColumn]) -> tuple[float, int] | None:
    """The spread of runs of one version on one hardware: its median over series with several runs, and n."""
    differences = [
        cell.apart for column in columns for cell in column.cells.values() if cell.apart is not None
    ]
    return (median(differences), len(differences)) if differences else None


def threshold(columns: Sequence[HardwareColumn], metric: str) -> float:
    """The share above which a difference exceeds the noise between runs, which were not interleaved: the
    noise of these `columns`, or a default if it is unknown, but at least the threshold of detection for the
    metric.
    """
    differences = noise(columns)
    # Metrics of other tools have no threshold of detection.
    floor = rules_of(metric).floor if metric in METRICS else UNKNOWN_NOISE
    return max(UNKNOWN_NOISE if differences is None else differences[0], floor)


def beyond(ratio: float, threshold: float) -> bool:
    """Whether a ratio is further from 1 than a share, up or down."""
    return ratio > 1 + threshold or ratio < 1 / (1 + threshold)


def relative_distance(smallest: float, largest: float) -> float | None:
    """The distance of two numbers as a share of the smaller; None if that is not above 0."""
    return largest / smallest - 1 if smallest > 0 and math.isfinite(largest / smallest) else None


def cost(price_per_hour: float, throughput: float, share: float = 1.0) -> float | None:
    """The cost of a million items at `throughput` (items/s): price x share / 3600 s / throughput x 1e6.

    `price_per_hour` is the price of the whole hardware, `share` the share of it that the case is charged for:
    on 8 GPUs at 24 per hour, a case on one GPU is charged 3. The result is in the currency of the price; None
    if the throughput or the cost is not a finite number above 0.
    """
    if not (math.isfinite(throughput) and throughput > 0):
        return None
    result = price_per_hour * share / 3600 / throughput * 1e6
    return result if math.isfinite(result) and result > 0 else None


def cheapest(
    columns: Sequence[HardwareColumn], prices: Mapping[str, float]
) -> list[tuple[HardwareColumn, float, int]]:
    """Hardware with a price, its cost for the same items relative to the first, and the number of cases.

    The geometric mean of the ratios of cost over the cases that both have: below 1 is cheaper. `columns` hold
    the throughput in items/s, `prices` are per hour of a whole hardware, by its fingerprint. The first is the
    first one with results.
    """
    priced_columns = [
        (column, _costs(column, prices[column.hardware])) for column in columns if column.hardware in prices
    ]
    results: list[tuple[HardwareColumn, float, int]] = []
    first = next((costs for _, costs in priced_columns if costs), {})
    for column, own in priced_columns:
        both = [own[case] / first[case] for case in own if case in first]
        if both:
            results.append((column, geometric_mean(both), len(both)))
    return results


def _costs(column: HardwareColumn, price: float) -> dict[str, float]:
    each = {case: cost(price, cell.value, column.share(case)) for case, cell in column.cells.items()}
    return {case: found for case, found in each.items() if found is not None}


#: The settings of a preset that must be equal; the number of pinned CPUs depends on the machine.
Conditions = tuple[tuple[tuple[str, str], ...], str]


def conditions(settings: Mapping[str, Any]) -> Conditions:
    """The variables and threads of a preset in a comparable form."""
    variables = settings.get("variables")
    pairs = variables.items() if isinstance(variables, Mapping) else ()
    return tuple(sorted((str(name), str(value)) for name, value in pairs)), str(settings.get("threads"))


def unlike(own: Mapping[str, Any], reference: Mapping[str, Any]) -> str:
    """The differences of two presets with the same name, without the pinned CPUs; empty for none."""
    (variables, threads), (reference_variables, reference_threads) = conditions(own), conditions(reference)
    names = sorted({name for name, _ in set(variables) ^ set(reference_variables)})
    if threads != reference_threads:
        names.append("threads")
    return ", ".join(names)
