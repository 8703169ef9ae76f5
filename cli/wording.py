"""Numbers and outcomes as the command line writes them."""

from analysis.disturbance import disturbed
from analysis.metrics import METRICS
from runner.records import Outcome

_SIGNS = {"ok": "✓", "skipped": "–", "unsupported": "–"}


def sign(status: str) -> str:
    """A sign for a status: what is not well differs in shape, not in colour alone."""
    return _SIGNS.get(status, "✗")


def figure(value: float) -> str:
    """Four significant digits without an exponent where that is readable."""
    if value == 0:
        return "0"
    if 1e-3 <= abs(value) < 1e6:
        digits = max(0, 3 - int(f"{value:e}".split("e")[1]))
        return f"{value:.{digits}f}"
    return f"{value:.3g}"


def quantity(metric: str, value: float) -> str:
    """A value with its unit."""
    known = METRICS.get(metric)
    return f"{figure(value)} {known.unit}" if known else figure(value)


def outcome_line(outcome: Outcome) -> str:
    """One outcome in a line: case, replicate, and its latency or what went wrong."""
    name = f"{outcome.case} #{outcome.replicate}"
    if outcome.status == "ok":
        parts = [quantity("latency", outcome.metrics["latency"])]
        parts += [
            f"{METRICS[m].title.lower()} {quantity(m, outcome.metrics[m])}"
            for m in ("compile_cold", "compile_warm")
            if m in outcome.metrics
        ]
        if disturbance := disturbed(outcome.facts):
            parts.append(f"disturbed: {disturbance}")
        return f"{name}: {', '.join(parts)}"
    return f"{name}: {outcome.status}: {printable(outcome.reason)}"


def printable(text: str) -> str:
    """The text without control characters, which a terminal would obey."""
    return "".join(sign if sign.isprintable() else " " for sign in text)
