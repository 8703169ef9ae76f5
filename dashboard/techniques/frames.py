"""The data of the page's charts: speed-up by memory, scaling against the ideal, throughput over the batch."""

import math
from collections.abc import Sequence
from dataclasses import dataclass

import pandas as pd

from analysis.speedups import Gain
from dashboard.components import charts, links, wording
from dashboard.techniques.columns import status
from dashboard.techniques.results import Metrics, TechniqueResult, TechniqueRun, key_of
from runner.worker.case_key import CaseKey

#: Intervals are drawn up to this multiple of the outermost ratios: the interval of two pairs may have any
#: width and would compress the others.
_BEYOND = 2
#: The parameter that a batch curve is along.
BATCH = "batch"


@dataclass(frozen=True, slots=True)
class Curves:
    """The lines of one chart: `names` are the case keys of its legend, one for each line.

    `beyond` are the points of lines that are not drawn, `lines` is the number of all lines.
    """

    title: str
    names: tuple[str, ...]
    points: pd.DataFrame
    beyond: pd.DataFrame
    lines: int


def single_rank_cases(cases: Sequence[TechniqueResult]) -> list[TechniqueResult]:
    """The cases with a speed-up, without those of several ranks."""
    return [case for case in cases if case.speed_up is not None and not case.several_ranks]


def axis(cases: Sequence[TechniqueResult]) -> tuple[float, float]:
    """The ends of the axis of bars: 1, all speed-ups, and their intervals up to `_BEYOND`."""
    gains = [gain for case in cases if (gain := case.speed_up) is not None]
    ratios = [gain.ratio for gain in gains if gain.ratio is not None]
    least, most = min([1.0, *ratios]), max([1.0, *ratios])
    lows = [gain.low for gain in gains if gain.low is not None]
    highs = [gain.high for gain in gains if gain.high is not None]
    return max(min([least, *lows]), least / _BEYOND), min(max([most, *highs]), most * _BEYOND)


def pareto(cases: Sequence[TechniqueResult], best: Sequence[TechniqueResult]) -> pd.DataFrame:
    """The points of `charts.pareto`; those of the `best` cases are named."""
    names = {case.case for case in best}
    rows: list[dict[str, object]] = []
    for case in cases:
        fast, small = case.speed_up, case.ratio("memory")
        if fast is None or small is None:
            continue
        name = case.technique
        rows.append(
            {
                "technique": name,
                "label": name if case.case in names else "",
                "best": case.case in names,
                "speed_up": fast.ratio,
                "memory": small.ratio,
                "status": status(fast)[1],
            }
        )
    frame = pd.DataFrame(rows)
    if rows:
        # The name of a point is on its right, in the right half of the chart on its left.
        middle = (frame["speed_up"].min() + frame["speed_up"].max()) / 2
        frame["left"] = frame["speed_up"] <= middle
        frame["right"] = ~frame["left"]
    return frame


def rank_curves(cases: Sequence[TechniqueResult]) -> Curves | None:
    """Speed-up over one rank along the ranks, for up to six ways to distribute a workload; None without any.

    One rank is 1 by definition. Further ways are in the table.
    """
    groups: dict[str, list[tuple[int, TechniqueResult, Gain]]] = {}
    for case in cases:
        gain = case.ratio("efficiency")
        if gain is not None and case.several_ranks:
            groups.setdefault(str(case.key.with_technique(ranks="1")), []).append(
                (case.key.count("ranks"), case, gain)
            )
    names = tuple(groups)[: charts.MAX_CASES]
    rows = [
        row
        for place, name in enumerate(names)
        for row in _curve_rows(charts.letter(place), name, sorted(groups[name], key=lambda each: each[0]))
    ]
    return Curves("", names, pd.DataFrame(rows), pd.DataFrame(), len(groups)) if rows else None


def most_ranks(curves: Curves) -> int:
    """The most ranks that were measured."""
    return max(curves.points["ranks"].tolist())


def ideal(curves: Curves) -> pd.DataFrame:
    """Twice the ranks, twice the items: from one rank to the most that were measured."""
    most = most_ranks(curves)
    return pd.DataFrame({"ranks": [1, most], "times": [1, most]})


def batch_curves(readings: Sequence[TechniqueRun]) -> list[Curves]:
    """Throughput over the batch, a chart for each workload with several batches in one run.

    If several runs measured a workload, the newest is used. Its techniques are lines, at most six of which
    are drawn.
    """
    result: dict[str, Curves] = {}
    for reading in readings:
        for title, lines in _by_workload(reading).items():
            several = {name: each for name, each in lines.items() if len(each) > 1}
            if title in result or not several:
                continue
            names = tuple(several)[: charts.MAX_CASES]
            rows = [
                row
                for place, name in enumerate(names)
                for row in _batches(charts.letter(place), name, several[name], reading.run)
            ]
            rest = [
                row
                for name in several
                if name not in names
                for row in _batches("", name, several[name], reading.run)
            ]
            result[title] = Curves(title, names, pd.DataFrame(rows), pd.DataFrame(rest), len(several))
    return list(result.values())


def curve_title(workload: str) -> str:
    """The title of the batch curve with a point of a workload (a case key without its technique)."""
    parts = _without_batch(f"{workload}/eager")
    return wording.workload_title(parts[1].workload) if parts is not None else ""


def _by_workload(reading: TechniqueRun) -> dict[str, dict[str, list[tuple[int, Metrics]]]]:
    """By workload without batch, and by technique: the measured batches with their metrics."""
    result: dict[str, dict[str, list[tuple[int, Metrics]]]] = {}
    for case, metrics in sorted(reading.metrics.items(), key=_eager_first):
        if (parts := _without_batch(case)) is None or "throughput" not in metrics or case in reading.spoilt:
            continue
        batch, rest = parts
        lines = result.setdefault(wording.workload_title(rest.workload), {})
        lines.setdefault(str(rest), []).append((batch, metrics))
    return result


def _eager_first(item: tuple[str, Metrics]) -> tuple[bool, str]:
    return not item[0].endswith("/eager"), item[0]


def _without_batch(case: str) -> tuple[int, CaseKey] | None:
    """The batch of a case and the rest of its key; None without a batch."""
    key = key_of(case)
    if key is None:
        return None
    parameters = dict(key.parameters)
    batch = parameters.pop(BATCH, None)
    if not isinstance(batch, int) or isinstance(batch, bool) or batch < 1:
        return None
    return batch, CaseKey.of(key.name, key.phase, parameters, dict(key.technique))


def _batches(
    letter: str, name: str, points: Sequence[tuple[int, Metrics]], run: str
) -> list[dict[str, object]]:
    in_order = sorted(points, key=lambda each: each[0])
    rows: list[dict[str, object]] = []
    for batch, metrics in in_order:
        rate = metrics["throughput"]
        rows.append(
            {
                "letter": letter,
                "last": batch == in_order[-1][0],
                "case": wording.case(name).text,
                "batch": batch,
                "throughput": rate.point,
                "low": rate.point if rate.low is None else rate.low,
                "high": rate.point if rate.high is None else min(rate.high, _BEYOND * rate.point),
                "latency": metrics["latency"].point if "latency" in metrics else math.nan,
                "n": rate.n,
                "run": run,
                "link": links.run(run),
            }
        )
    return rows


def _curve_rows(
    letter: str, name: str, points: Sequence[tuple[int, TechniqueResult, Gain]]
) -> list[dict[str, object]]:
    about = {"letter": letter, "case": wording.case(name).text}
    first = {"ranks": 1, "times": 1.0, "low": 1.0, "high": 1.0, "efficiency": "by definition", "n": 0}
    rows: list[dict[str, object]] = [{**about, **first, "run": "", "link": "", "last": False}]
    for ranks, case, gain in points:
        share = gain.ratio or 0.0
        rows.append(
            {
                **about,
                "ranks": ranks,
                "times": share * ranks,
                "low": ranks * (share if gain.low is None else gain.low),
                "high": ranks * (share if gain.high is None else min(gain.high, _BEYOND * share)),
                "efficiency": wording.gain(gain),
                "n": gain.n,
                "run": case.run,
                "link": links.run(case.run),
                "last": ranks == points[-1][0],
            }
        )
    return rows
