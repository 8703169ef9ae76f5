"""How changes, figures and verdicts read, in reasons and in reports alike."""

import math

from .metrics import METRICS
from .verdict import Verdict

NONE = "–"

#: Units of metrics of which one says faster and slower; of others, better and worse.
_SPEEDS = ("ms", "s", "items/s", "TFLOP/s")

#: Beyond this a change is told as a multiple: nobody reads +4,312 %.
_MULTIPLE = math.log(10)


def percent(change: float | None) -> str:
    """A logarithm of new / old as people read it: `+3.1 %`, `-0.42 %`, `12.3 times`."""
    if change is None or not math.isfinite(change):
        return NONE
    if abs(change) > _MULTIPLE:
        return f"{_multiple(change)} times" if change > 0 else f"1/{_multiple(-change)}"
    value = 100 * math.expm1(change)
    text = f"{value:+.{2 if abs(value) < 1 else 1}f} %"
    return "0 %" if text in ("+0.00 %", "-0.00 %") else text


def _multiple(log: float) -> str:
    # By hand, for e to the power of 800 is too large for a float.
    tens = log / math.log(10)
    if tens < 6:
        return figure(10**tens, 3)
    return f"{10 ** (tens % 1):.1f}e+{math.floor(tens)}"


def figure(value: float, digits: int = 4) -> str:
    """`value` to `digits` significant digits, thousands apart; an exponent only where zeros would swarm."""
    if not math.isfinite(value):
        return NONE
    if value == 0:
        return "0"
    if not 1e-4 <= abs(value) < 1e9:
        return f"{value:.{digits - 1}e}"
    rounded = float(f"{value:.{digits - 1}e}")
    return f"{rounded:,.{max(0, digits - 1 - math.floor(math.log10(abs(rounded))))}f}"


def word(verdict: Verdict) -> str:
    """The verdict in a word: `faster` for a time, `better` for what is none."""
    if METRICS[verdict.metric].unit in _SPEEDS:
        return verdict.word
    return {"faster": "better", "slower": "worse"}.get(verdict.word, verdict.word)


def printable(text: str) -> str:
    """The text in one line, without characters that steer a terminal or a page."""
    return "".join(sign if sign.isprintable() else " " for sign in text)
