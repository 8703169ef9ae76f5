"""Changes, figures and verdicts as text, for every room."""

import math
from collections.abc import Callable, Iterable, Sequence

from analysis.comparison.verdict import Verdict
from analysis.metrics import METRICS
from common.text import plural

NONE = "–"

#: Units of metrics of which one says faster and slower; of others, better and worse.
_SPEEDS = ("ms", "s", "items/s", "TFLOP/s")

#: Beyond this a change is printed as a multiple: +4,312 % is hard to read.
_MULTIPLE = math.log(10)

#: What differs by less is the same; sums and logarithms are rounded.
_NOTHING = 1e-9
#: So many more digits distinguish values that differ.
_MOST_DIGITS = 9

#: A number as a text of so many more digits than usual, and the number that the text says.
_Rendered = tuple[str, float]


def percent(change: float | None) -> str:
    """A logarithm of new / old as people read it: `+3.1 %`, `-0.42 %`, `12.3 times`."""
    return NONE if change is None or not math.isfinite(change) else _percent(change)[0]


def format_limit(limit: float) -> str:
    """A limit, a logarithm of new / old, as `percent` prints it; with all digits where that rounds it."""
    return _percent(limit, _digits_of(limit))[0]


def share(value: float) -> str:
    """A share in per cent: `99 %`."""
    return f"{100 * value:.6g} %"


def share_near(value: float, limit: float) -> str:
    """A share in whole per cent, with more digits where it reads as the limit, as none or as all, and is not.

    The limit is as `share` prints it. So the text lies on the side of the limit on which the share lies.
    """
    bars = [(limit, float(share(limit)[:-2]) / 100), (0.0, 0.0), (1.0, 1.0)]
    return _distinct_text(lambda more: _whole(value, more), value, bars) or _whole(value, 0)[0]


def ends(low: float, high: float) -> tuple[str, str]:
    """Both ends of an interval, as `percent` prints them; where it leaves 0 outside, neither reads as 0."""
    bars = _zero(low, high)
    first, last = (_distinct_text(_renderer(end), end, bars) or percent(end) for end in (low, high))
    return first, last


def change_near(
    change: float | None, low: float | None, high: float | None, limit: float | None = None
) -> tuple[str, str]:
    """A change with its interval, `+3.1 % [+2.8 %, +3.4 %]`, and the limit that it is held against.

    All are logarithms of new / old. Each number has as many digits as `percent` gives it, and more where it
    would else read as the limit or lie on its other side; the ends as in `ends`. Without a limit its text is
    empty.
    """
    ranged = [] if low is None or high is None else [low, high]
    numbers = [*([] if change is None else [change]), *ranged]
    for more in range(0 if limit is None else _digits_of(limit), _MOST_DIGITS):
        limit_text = None if limit is None else _percent(limit, more)
        bars = [] if limit is None or limit_text is None else [(limit, limit_text[1])]
        texts = {
            number: _distinct_text(_renderer(number), number, [*bars, *_zero(*ranged)]) for number in numbers
        }
        if all(texts.values()):
            break
    else:
        texts, limit_text = {}, None if limit is None else _percent(limit)
    text = texts.get(change) or percent(change) if change is not None else NONE
    if ranged:
        text += f" [{', '.join(texts.get(end) or percent(end) for end in ranged)}]"
    return text, limit_text[0] if limit_text else ""


def _zero(*ranged: float) -> list[tuple[float, float]]:
    """Of an interval that leaves 0 outside: 0, and what it reads as."""
    return [(0.0, 0.0)] if ranged and math.prod(map(_sign, ranged)) > 0 else []


def _sign(value: float) -> int:
    return 0 if abs(value) <= _NOTHING else 1 if value > 0 else -1


def _distinct_text(
    render: Callable[[int], _Rendered], value: float, bars: Iterable[tuple[float, float]]
) -> str | None:
    """The shortest text that lies on the side of each printed bar on which the value lies.

    `bars` are pairs of a number and of what its own text says. None where no text does.
    """
    listed: Sequence[tuple[float, float]] = list(bars)
    for more in range(_MOST_DIGITS):
        text, number = render(more)
        if all(_sign(number - read) == _sign(value - bar) for bar, read in listed):
            return text
    return None


def _renderer(change: float) -> Callable[[int], _Rendered]:
    return lambda more: _percent(change, more)


def _digits_of(limit: float) -> int:
    """How many more digits than usual print a limit exactly; none where a few do not."""
    return next((more for more in range(4) if abs(_percent(limit, more)[1] - limit) <= _NOTHING), 0)


def _whole(value: float, more: int) -> _Rendered:
    text = f"{100 * value:.{more}f}"
    return f"{text} %", float(text) / 100


def _percent(change: float, more: int = 0) -> _Rendered:
    if not math.isfinite(change):
        return NONE, change
    if abs(change) > _MULTIPLE:
        text, log = _multiple(abs(change), more)
        return (f"{text} times", log) if change > 0 else (f"1/{text}", -log)
    value = 100 * math.expm1(change)
    text = f"{value:+.{(2 if abs(value) < 1 else 1) + more}f}"
    return ("0 %", 0.0) if float(text) == 0 else (f"{text} %", math.log1p(float(text) / 100))


def _multiple(log: float, more: int) -> _Rendered:
    # By hand, for e to the power of 800 is too large for a float.
    tens = log / math.log(10)
    if tens < 6:
        text = figure(10**tens, 3 + more)
        return text, math.log(float(text.replace(",", "")))
    lead = f"{10 ** (tens % 1):.{1 + more}f}"
    return f"{lead}e+{math.floor(tens)}", math.log(float(lead)) + math.floor(tens) * math.log(10)


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
    return kind_word(verdict.word, verdict.metric)


def kind_word(kind: str, metric: str) -> str:
    """What a verdict of a kind is called where it is about a metric; see `word`."""
    if METRICS[metric].unit in _SPEEDS:
        return kind
    return {"faster": "better", "slower": "worse"}.get(kind, kind)


def of_cases(many: int, total: int, verb: str = "are") -> str:
    """`1 of 39 cases is`, `2 of 39 cases are`; the verb is `are`, `have` or `were`."""
    singular = {"are": "is", "have": "has", "were": "was"}
    return f"{many:,} of {plural(total, 'case')} {singular[verb] if many == 1 else verb}"
