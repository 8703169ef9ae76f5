"""The techniques of one workload in order of speed-up, those of all workloads as a grid, and the
recommendation.
"""

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass

from dashboard.components import wording
from dashboard.techniques import break_even
from dashboard.techniques.columns import SAME_MEMORY, status
from dashboard.techniques.results import TechniqueResult, TechniqueRun, key_of, technique_words


@dataclass(frozen=True, slots=True)
class TechniqueGrid:
    """Workloads (case keys without their technique) by techniques; None if there is no such case."""

    workloads: tuple[str, ...]
    lines: tuple[tuple[str, tuple[TechniqueResult | None, ...]], ...]


@dataclass(frozen=True, slots=True)
class WorkloadRanking:
    """The techniques of one workload relative to `baseline`, a technique.

    `cases` have a speed-up, fastest first. `base` is the baseline itself; None if the cases were measured in
    several runs, each with its own. `ended` failed, `others` have no speed-up.
    """

    workload: str
    baseline: str
    cases: tuple[TechniqueResult, ...]
    base: TechniqueResult | None
    others: tuple[TechniqueResult, ...]
    ended: tuple[TechniqueResult, ...]

    @property
    def unit(self) -> str:
        """The name of a step's items: `tokens`, `images`; `items` if it is unknown or differs."""
        units = {case.facts.get("unit") for case in self.cases if case.facts}
        unit = next(iter(units)) if len(units) == 1 else None
        return unit if isinstance(unit, str) and unit else "items"


def workloads(cases: Sequence[TechniqueResult]) -> list[str]:
    """The workloads, most speed-ups first."""
    ratios = Counter(case.key.workload for case in cases if case.speed_up is not None)
    return sorted({case.key.workload for case in cases}, key=lambda each: (-ratios[each], each))


def baselines(cases: Sequence[TechniqueResult], workload: str) -> list[str]:
    """The possible baselines of a workload: the techniques that are ok."""
    own = (case for case in cases if case.key.workload == workload and case.failed is None)
    return sorted(case.case.rpartition("/")[2] for case in own)


def grid(cases: Sequence[TechniqueResult]) -> TechniqueGrid:
    """Every case once; techniques of one axis come before those that combine several."""
    columns = sorted({case.key.workload for case in cases})
    cells = {(case.key.workload, case.case.rpartition("/")[2]): case for case in cases}
    names = sorted({technique for _, technique in cells}, key=lambda name: (name.count(","), name))
    lines = tuple((name, tuple(cells.get((column, name)) for column in columns)) for name in names)
    return TechniqueGrid(tuple(columns), lines)


def ranking(
    readings: Sequence[TechniqueRun], results: Sequence[TechniqueResult], workload: str
) -> WorkloadRanking:
    """The ranking of one workload, from the `results` cases of the runs that were read."""
    baseline = readings[0].baseline
    own = [case for case in results if case.key.workload == workload]
    well = [case for case in own if case.failed is None]
    well = [case for case in well if not case.several_ranks]
    timed_cases = [case for case in well if case.speed_up is not None]
    return WorkloadRanking(
        workload,
        baseline,
        tuple(sorted(timed_cases, key=lambda case: (-case.times, case.case))),
        _base(readings, f"{workload}/{baseline}", timed_cases),
        tuple(case for case in well if case.speed_up is None),
        tuple(case for case in own if case.failed is not None),
    )


def _base(
    readings: Sequence[TechniqueRun], case: str, timed_cases: Sequence[TechniqueResult]
) -> TechniqueResult | None:
    runs = {one.run for one in timed_cases}
    result = next((each for each in readings if {each.run} == runs and case in each.metrics), None)
    key = key_of(case)
    if result is None or key is None:
        return None
    metrics = result.metrics[case]
    environment = next((one.environment for one in metrics.values()), "")
    return TechniqueResult(case, key, result.run, environment, {}, metrics, {}, {})


def memory(case: TechniqueResult) -> float | None:
    """Its peak memory / that of the baseline, if known."""
    gain = case.ratio("memory")
    return gain.ratio if gain is not None else None


def memory_words(share: float) -> str:
    """Peak memory against the baseline: `48 % less memory`; empty if it is the same."""
    if abs(share - 1) < SAME_MEMORY:
        return ""
    return f"{wording.significant(100 * abs(share - 1), 2)} % {'less' if share < 1 else 'more'} memory"


def pareto(cases: Sequence[TechniqueResult]) -> list[TechniqueResult]:
    """The cases that no other exceeds in both speed-up and memory, among those whose memory is known."""
    triples = [(case, case.times, share) for case in cases if (share := memory(case)) is not None]
    return [
        case
        for case, fast, small in triples
        if not any(
            one >= fast and other <= small and (one, other) != (fast, small) for _, one, other in triples
        )
    ]


def advice(ranking: WorkloadRanking) -> list[str]:
    """The recommendation as sentences about the measured numbers; the first one names the fastest.

    Only pairs without disturbance count, and only the run with the most techniques, because machines drift
    between runs.
    """
    against = technique_words(ranking.baseline)
    quiet = [case for case in ranking.cases if case.speed_up and not case.speed_up.disturbed]
    runs = Counter(case.run for case in quiet)
    one_run = [case for case in quiet if case.run == runs.most_common(1)[0][0]]
    proved_cases = [case for case in one_run if _proved(case)]
    bounds = [*_launch_bound(ranking, against), *_roofline(ranking, against)]
    if not proved_cases:
        return [f"Stay with {against}: no technique measured here is proved faster.", *bounds]
    best, *rest = proved_cases
    peers = [case.technique for case in rest if _high(case) >= _low(best)]
    fastest = f"among the fastest, with {', '.join(peers)}" if peers else "the fastest"
    lines = [f"{best.technique} is {fastest}: {_numbers(best)}."]
    plain = next((case for case in proved_cases if _simpler(case, best)), None)
    if plain is not None:
        lines.append(f"{plain.technique} alone gives {_numbers(plain)}, with nothing to compile.")
    return [*lines, *_pays(best, plain, against), *_sooner(best, proved_cases), *bounds]


def _roofline(ranking: WorkloadRanking, against: str) -> list[str]:
    """The bound of the baseline on a card with published peaks."""
    own = ranking.base.own if ranking.base is not None else {}
    ridge, share = own.get("intensity_by_ridge"), own.get("roofline_share")
    if ridge is None or share is None:
        return []
    what = "memory bandwidth" if ridge.point < 1 else "arithmetic"
    return [f"{against} is bound by {what} and reaches {_percent(share.point)} of that bound."]


def _launch_bound(ranking: WorkloadRanking, against: str) -> list[str]:
    share = ranking.base.own.get("launch_bound") if ranking.base is not None else None
    if share is None:
        return []
    idle = _percent(share.point)
    return [f"No kernel ran in {idle} of a step of {against}: a CUDA graph saves at most that."]


def _proved(case: TechniqueResult) -> bool:
    return case.speed_up is not None and status(case.speed_up)[1] == "faster"


def _simpler(case: TechniqueResult, best: TechniqueResult) -> bool:
    """Whether a case compiles nothing, unlike the best one."""
    return break_even.COLD not in case.own and break_even.COLD in best.own


def _pays(best: TechniqueResult, plain: TechniqueResult | None, against: str) -> list[str]:
    """The break-even of the best one's compiling, against the baseline and the techniques that compile
    nothing.
    """
    pay_back = break_even.of(best)
    if pay_back is None:
        return []
    seconds = wording.duration(best.own[break_even.COLD].point)
    warm = break_even.of(best, break_even.WARM)
    warm_note = f"; {break_even.in_words(warm.steps)} steps with a filled cache" if warm is not None else ""
    text = (
        f"Compiling takes {seconds} with an empty cache; against {against} it has paid after "
        f"{break_even.in_words(pay_back.steps)} steps "
        f"({wording.duration(pay_back.seconds)} of work{warm_note})"
    )
    alike = plain is not None and plain.facts.get("items") == best.facts.get("items")
    steps = break_even.overtakes(plain, best) if plain is not None and alike else None
    if plain is not None and steps is not None:
        text += f", against {plain.technique} after {break_even.in_words(steps)}"
    return [f"{text}."]


def _sooner(best: TechniqueResult, proved_cases: Sequence[TechniqueResult]) -> list[str]:
    """The technique whose compiling pays first, and the number of steps after which the best one is ahead of
    it.
    """
    alike = [case for case in proved_cases if case.facts.get("items") == best.facts.get("items")]
    steps = {case.case: pay_back.steps for case in alike if (pay_back := break_even.of(case)) is not None}
    timed_cases = [case for case in alike if case.case in steps]
    if best not in timed_cases:
        return []
    soonest = min(timed_cases, key=lambda case: steps[case.case])
    ahead = break_even.overtakes(soonest, best)
    if ahead is None or _high(soonest) >= _low(best):
        return []
    pay_back = break_even.in_words(steps[soonest.case])
    return [
        f"{soonest.technique} has paid after {pay_back} steps; {best.technique} is ahead of it from "
        f"{break_even.in_words(ahead)} on."
    ]


def _low(case: TechniqueResult) -> float:
    """The lower end of a speed-up with an interval."""
    return (case.speed_up.low if case.speed_up else None) or 0.0


def _high(case: TechniqueResult) -> float:
    """The upper end of a speed-up with an interval."""
    return (case.speed_up.high if case.speed_up else None) or 0.0


def _percent(share: float) -> str:
    return f"{wording.percentage(share, 2)} %"


def _numbers(case: TechniqueResult) -> str:
    """`5.90× (5.82× to 5.97×), 48 % less memory, error 0.43 %`."""
    gain = case.speed_up
    if gain is None:
        return wording.NONE
    parts = [f"{wording.gain(gain)} ({wording.gain_interval(gain)})"]
    if (share := memory(case)) is not None and (words := memory_words(share)):
        parts.append(words)
    if "error" in case.own:
        parts.append(f"error {_percent(case.own['error'].point)}")
    return ", ".join(parts)
