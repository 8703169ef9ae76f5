"""The break-even of compiling: the number of steps after which it has saved its own time."""

import math
from dataclasses import dataclass

from analysis.speedups import Gain
from dashboard.components import wording
from dashboard.techniques.results import TechniqueResult

#: From this number of steps on, two digits are printed.
_ROUGHLY = 100
_NOTHING = 1e-9
COLD, WARM, FLOOR = "compile_cold", "compile_warm", "latency_floor"

#: The formula, as text of the page.
FORMULA = (
    "Pays after: seconds of compiling with an empty cache / seconds saved per step, where a step saves the "
    "case's min-based latency × (speed-up − 1); the ends of the speed-up's interval give the fewest and the "
    "most steps. Compiling is timed once in a run, by the first process that is ok."
)


@dataclass(frozen=True, slots=True)
class BreakEven:
    """The steps after which compiling has paid, at the measured speed-up and at the ends of its interval.

    `most` is None if the interval contains a speed-up of 1 or less (it may never pay), `fewest` if there is
    no interval. `seconds` is the time of the baseline for `steps`.
    """

    steps: float
    fewest: float | None
    most: float | None
    seconds: float


def break_even(compile_seconds: float, step_ms: float, speed_up: Gain) -> BreakEven | None:
    """The break-even of compiling for `compile_seconds` of a case whose step takes `step_ms`.

    None if it never pays at the measured speed-up, or after more steps than a float can hold. Case and
    baseline process the same items in a step, as techniques that compile do: a step then saves step x
    (speed-up - 1).
    """
    ratio = speed_up.ratio
    if ratio is None or ratio <= 1 or step_ms <= 0 or compile_seconds < 0:
        return None
    step = step_ms / 1e3

    def after(at: float | None) -> float | None:
        result = math.inf if at is None or at <= 1 else compile_seconds / (step * (at - 1))
        return result if math.isfinite(result) else None

    steps = compile_seconds / (step * (ratio - 1))
    seconds = steps * step * ratio
    if not (math.isfinite(steps) and math.isfinite(seconds)):
        return None
    return BreakEven(steps, after(speed_up.high), after(speed_up.low), seconds)


def of(case: TechniqueResult, cache: str = COLD) -> BreakEven | None:
    """The break-even of compiling a case, with an empty cache or (`WARM`) a filled one; None if it never
    pays, or if a number is unknown. If the baseline compiles too, only the difference counts.
    """
    gain = case.speed_up
    if gain is None or cache not in case.own or FLOOR not in case.own:
        return None
    more = case.own[cache].point - (case.base[cache].point if cache in case.base else 0.0)
    return break_even(max(0.0, more), case.own[FLOOR].point, gain)


def in_words(steps: float) -> str:
    """A number of steps, rounded up: to two digits, or to a whole one."""
    unit = 10.0 ** (math.floor(math.log10(steps)) - 1) if steps >= _ROUGHLY else 1.0
    # An excess caused only by the rounding of floats is not rounded up.
    whole = math.ceil(steps / unit - _NOTHING) * unit
    return wording.significant(whole, 2) if steps >= _ROUGHLY else f"{whole:,.0f}"


def overtakes(first: TechniqueResult, second: TechniqueResult) -> float | None:
    """The steps after which `second`, which is faster, has saved its longer compiling compared with `first`.

    Both must be of one run, and `second` must compile. None if its median latency is not lower: pairs and
    medians may differ.
    """
    more = second.own[COLD].point - (first.own[COLD].point if COLD in first.own else 0.0)
    saved_seconds = (first.own[FLOOR].point - second.own[FLOOR].point) / 1e3
    return max(0.0, more / saved_seconds) if saved_seconds > 0 else None
