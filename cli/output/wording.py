"""Numbers, outcomes and case keys as the command line writes them."""

from collections.abc import Mapping

from analysis.comparison.rounds import core_share
from analysis.comparison.screening import EVIDENCE
from analysis.metrics import METRICS
from analysis.speedups import Gain
from common.text import printable
from records.outcomes import Outcome, OutcomeStatus
from reports.text.verdict_text import had_of_core

_SIGNS = {OutcomeStatus.OK: "✓", OutcomeStatus.SKIPPED: "–", OutcomeStatus.UNSUPPORTED: "–"}


def sign(status: OutcomeStatus) -> str:
    """A sign for a status: what is not well differs in shape, not in colour alone."""
    return _SIGNS.get(status, "✗")


def figure(value: float, digits: int = 4) -> str:
    """`digits` significant digits without an exponent where that is readable."""
    if value == 0:
        return "0"
    if 1e-3 <= abs(value) < 1e6:
        decimals = max(0, digits - 1 - int(f"{value:.{digits - 1}e}".split("e")[1]))
        return f"{value:.{decimals}f}"
    return f"{value:.3g}"


def times(gain: Gain, *, interval: bool = True) -> str:
    """A ratio with its interval, "1.92x [1.88, 1.96]", and n where pairs are missing; a dash for none.

    An efficiency is a percentage: "93.1 % [92.0, 94.2]". A star marks one that rests on disturbed processes.
    """
    if gain.ratio is None:
        return "-"
    scale, unit = (100, " %") if gain.kind == "efficiency" else (1, "x")
    text = f"{figure(gain.ratio * scale, 3)}{unit}"
    if interval and gain.low is not None and gain.high is not None:
        text += f" [{figure(gain.low * scale, 3)}, {figure(gain.high * scale, 3)}]"
    text += "*" if gain.disturbed else ""
    return f"{text} n={gain.n}" if interval and gain.left_out else text


def quantity(metric: str, value: float) -> str:
    """A value with its unit."""
    known = METRICS.get(metric)
    return f"{figure(value)} {known.unit}" if known else figure(value)


def _times_of(metrics: Mapping[str, float]) -> list[str]:
    """The median latency and the compile times, as far as they are known."""
    named = {
        "latency": "median",
        **{name: METRICS[name].title.lower() for name in ("compile_cold", "compile_warm")},
    }
    return [f"{words} {quantity(name, metrics[name])}" for name, words in named.items() if name in metrics]


def outcome_line(outcome: Outcome, environment: str = "") -> str:
    """One outcome in a line: case, replicate, `environment` if given, median latency or what went wrong."""
    name = f"{outcome.case} #{outcome.replicate}" + (f" in {environment}" if environment else "")
    if "operators" in outcome.facts and outcome.status == OutcomeStatus.OK:
        totals = outcome.facts["traced"]
        return f"{name}: {len(outcome.facts['operators'])} operators traced over {totals['steps']:g} steps"
    if outcome.status == OutcomeStatus.OK:
        if (short := outcome.facts.get(EVIDENCE)) is not None:
            return f"{name}: short pair of the screen, {', '.join(_times_of(short)) or 'no latency'}"
        parts = _times_of(outcome.metrics) or ["no latency"]
        if disturbance := had_of_core(core_share(outcome.facts)):
            parts.append(f"disturbed: {disturbance}")
        return f"{name}: {', '.join(parts)}"
    return f"{name}: {outcome.status}: {printable(outcome.reason)}"
