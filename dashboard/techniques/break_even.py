"""When compiling pays: after how many steps it has won back what it took, and which mode from when on."""

import math
from collections.abc import Sequence
from dataclasses import dataclass

from analysis.speedups import Gain
from dashboard.components import wording
from dashboard.techniques import categories
from dashboard.techniques.results import TechniqueResult

#: From so many steps on two digits say enough.
_ROUGHLY = 100
_NOTHING = 1e-9
COLD, WARM, FLOOR = "compile_cold", "compile_warm", "latency_floor"

#: The formula, as the page states it.
FORMULA = (
    "Pays after: seconds of compiling with an empty cache / seconds saved in a step, where a step saves the "
    "case's min-based latency × (speed-up − 1); from the ends of the speed-up's interval come the fewest and "
    "the most steps. Compiling is timed once in a run, by the first process that ended well."
)


@dataclass(frozen=True, slots=True)
class BreakEven:
    """After how many steps compiling has paid, at the speed-up as measured and at its interval's ends.

    `most` is None where the interval holds a speed-up of 1 or less (it may never pay), `fewest` where there
    is no interval. `seconds` is how long the baseline takes for `steps`.
    """

    steps: float
    fewest: float | None
    most: float | None
    seconds: float


def break_even(compile_seconds: float, step_ms: float, speed_up: Gain) -> BreakEven | None:
    """When compiling for `compile_seconds` has paid for a case whose step takes `step_ms`.

    None where it never does at the speed-up that was measured, or after more steps than a float holds. Case
    and baseline do the same items in a step, as a technique that compiles does: a step then saves
    step x (speed-up - 1).
    """
    ratio = speed_up.ratio
    if ratio is None or ratio <= 1 or step_ms <= 0 or compile_seconds < 0:
        return None
    step = step_ms / 1e3

    def after(at: float | None) -> float | None:
        found = math.inf if at is None or at <= 1 else compile_seconds / (step * (at - 1))
        return found if math.isfinite(found) else None

    steps = compile_seconds / (step * (ratio - 1))
    seconds = steps * step * ratio
    if not (math.isfinite(steps) and math.isfinite(seconds)):
        return None
    return BreakEven(steps, after(speed_up.high), after(speed_up.low), seconds)


def of(case: TechniqueResult, cache: str = COLD) -> BreakEven | None:
    """When the compiling of a case has paid, with an empty cache or (`WARM`) a filled one; None if it never
    does, or where a part of it is not known. Of a baseline that compiles too, only the rest is to be paid."""
    gain = case.speed_up
    if gain is None or cache not in case.own or FLOOR not in case.own:
        return None
    more = case.own[cache].point - (case.base[cache].point if cache in case.base else 0.0)
    return break_even(max(0.0, more), case.own[FLOOR].point, gain)


def in_words(steps: float) -> str:
    """A number of steps, rounded up: to two digits, or to a whole one."""
    unit = 10.0 ** (math.floor(math.log10(steps)) - 1) if steps >= _ROUGHLY else 1.0
    # What is too much only by how floats are divided is not rounded up.
    whole = math.ceil(steps / unit - _NOTHING) * unit
    return wording.significant(whole, 2) if steps >= _ROUGHLY else f"{whole:,.0f}"


def advice(cases: Sequence[TechniqueResult]) -> str:
    """Which mode of one workload to use when, of cases that have a speed-up, and which were disturbed."""
    quiet, noisy = ([case for case in cases if _disturbed(case) == which] for which in (False, True))
    sentences = [_undisturbed_advice(quiet)] if quiet else []
    if noisy:
        sentences.append(
            f"{_several(noisy)}: others took part of a core, so that may be anything; measure again when the "
            "machine is quiet."
        )
    return " ".join(sentences)


def _disturbed(case: TechniqueResult) -> bool:
    """Whether its speed-up rests on pairs of which others took part of a core."""
    return case.speed_up is not None and case.speed_up.disturbed > 0


def _undisturbed_advice(cases: Sequence[TechniqueResult]) -> str:
    faster = [case for case in cases if _low(case) > 1]
    if not faster:
        return f"stay with eager. {_unproven(cases)}"
    by_run: dict[str, list[TechniqueResult]] = {}
    for case in faster:
        by_run.setdefault(case.run, []).append(case)
    # Machines drift between runs: steps and seconds of two of them make no order.
    largest = max(by_run.values(), key=len)
    apart = [case for case in faster if case not in largest]
    return _of_one_run(largest) + (_apart(apart) if apart else "")


def _of_one_run(faster: Sequence[TechniqueResult]) -> str:
    """Which of the modes that are faster, all of one run, to use when."""
    best = max(faster, key=lambda case: case.times)
    timed = [(case, paid) for case in faster if (paid := of(case)) is not None]
    if not timed:
        return f"{_named(best)}. How long it compiles is not known."
    soonest, paid = min(timed, key=lambda each: each[1].steps)
    steps = in_words(paid.steps)
    text = (
        f"eager for fewer than {steps} steps ({wording.duration(paid.seconds)} of eager work), then "
        f"{_named(soonest)}: by then it has won back {_seconds(soonest)} of compiling."
    )
    if (warm := of(soonest, WARM)) is not None:
        text += f" With a filled cache {in_words(warm.steps)} are enough."
    return text + (_and_the_best(soonest, best) if best is not soonest else "")


def _apart(cases: Sequence[TechniqueResult]) -> str:
    """What other runs found faster."""
    where = "was measured in another run" if len(cases) == 1 else "were measured in other runs"
    return f" {_several(cases)} {where}: there is no order between them."


def _and_the_best(soonest: TechniqueResult, best: TechniqueResult) -> str:
    """What the fastest adds to the one that pays first."""
    name = categories.technique(best.key)
    if _low(best) <= _high(soonest):
        return f" {name} ({_interval(best)}) cannot be distinguished from it by these pairs."
    if COLD not in best.own:
        return f" {_named(best)} is faster; how long it compiles is not known."
    steps = overtakes(soonest, best)
    when = "" if steps is None else f" from {in_words(steps)} steps on"
    return f" {_named(best)} is ahead of it{when}."


def overtakes(first: TechniqueResult, second: TechniqueResult) -> float | None:
    """After how many steps `second`, which is faster, has won back what it compiles longer than `first`.

    Both must be of one run, and `second` must compile. None where its own latency is not the lower one:
    pairs may say otherwise than medians.
    """
    more = second.own[COLD].point - (first.own[COLD].point if COLD in first.own else 0.0)
    saved = (first.own[FLOOR].point - second.own[FLOOR].point) / 1e3
    return max(0.0, more / saved) if saved > 0 else None


def _unproven(cases: Sequence[TechniqueResult]) -> str:
    slower = [case for case in cases if _high(case) < 1]
    rest = [case for case in cases if case not in slower]
    parts: list[str] = []
    if slower:
        parts.append(f"{_several(slower)} {'is' if len(slower) == 1 else 'are'} slower.")
    if rest:
        parts.append(f"{_several(rest)} {'brings' if len(rest) == 1 else 'bring'} no gain that can be seen.")
    return " ".join(parts)


def _several(cases: Sequence[TechniqueResult]) -> str:
    return ", ".join(map(_named, cases))


def _named(case: TechniqueResult) -> str:
    return f"{categories.technique(case.key)} ({_interval(case)})"


def _interval(case: TechniqueResult) -> str:
    gain = case.speed_up
    if gain is None:
        return wording.NONE
    if gain.low is None or gain.high is None:
        return f"{wording.gain(gain)}, {'one pair' if gain.n < 2 else 'no interval'}"
    return f"{wording.gain(gain)}, {wording.gain_interval(gain)}"


def _seconds(case: TechniqueResult) -> str:
    return wording.quantity(case.own[COLD].point, "s")


def _low(case: TechniqueResult) -> float:
    """The lower end of its speed-up; 0 where there is no interval: it proves no gain."""
    gain = case.speed_up
    return gain.low if gain is not None and gain.low is not None else 0.0


def _high(case: TechniqueResult) -> float:
    gain = case.speed_up
    return gain.high if gain is not None and gain.high is not None else float("inf")
