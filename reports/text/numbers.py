"""Changes, numbers and verdicts as text, for all rooms."""

import math
from collections.abc import Callable, Iterable, Sequence

from analysis.comparison.verdict import Verdict
from analysis.metrics import METRICS
from common.text import plural

NONE = "–"

#: Units of metrics with the words faster and slower; other metrics have better and worse.
_SPEEDS = ("ms", "s", "items/s", "TFLOP/s")

#: A larger change is printed as a multiple, because +4,312 % is hard to read.
_MULTIPLE = math.log(10)

#: Smaller differences are rounding errors of sums and logarithms.
_NOTHING = 1e-9
#: The most additional digits that are used to distinguish values.
_MOST_DIGITS = 9

#: A number as text with additional digits, and the number that the text denotes.
_Rendered = tuple[str, float]


def percent(change: float | None) -> str:
    """A logarithm of new / old as text: `+3.1 %`, `-0.42 %`, `12.3 times`."""
    return NONE if change is None or not math.isfinite(change) else _percent(change)[0]


def format_limit(limit: float) -> str:
    """A limit, a logarithm of new / old, as `percent` prints it; with all digits if that would round it."""
    return _percent(limit, _digits_of(limit))[0]


def share(value: float) -> str:
    """A share in per cent: `99 %`."""
    return f"{100 * value:.6g} %"


def share_near(value: float, limit: float) -> str:
    """A share in whole per cent, with more digits if it would wrongly read as the limit, as 0 % or as 100 %.

    The limit is as `share` prints it. The text is on the same side of the limit as the share.
    """
    bars = [(limit, float(share(limit)[:-2]) / 100), (0.0, 0.0), (1.0, 1.0)]
    return _distinct_text(lambda more: _whole(value, more), value, bars) or _whole(value, 0)[0]


def ends(low: float, high: float) -> tuple[str, str]:
    """Both ends of an interval, as `percent` prints them; if the interval excludes 0, neither reads as 0."""
    bars = _zero(low, high)
    first, last = (_distinct_text(_renderer(end), end, bars) or percent(end) for end in (low, high))
    return first, last


def change_near(
    change: float | None, low: float | None, high: float | None, limit: float | None = None
) -> tuple[str, str]:
    """A change with its interval, `+3.1 % [+2.8 %, +3.4 %]`, and its limit.

    All are logarithms of new / old. Each number has the digits of `percent`, and more if it would otherwise
    read as the limit or be on its other side; for the ends see `ends`. Without a limit its text is empty.
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
    """For an interval that excludes 0: 0, and the number that its text denotes."""
    return [(0.0, 0.0)] if ranged and math.prod(map(_sign, ranged)) > 0 else []


def _sign(value: float) -> int:
    return 0 if abs(value) <= _NOTHING else 1 if value > 0 else -1


def _distinct_text(
    render: Callable[[int], _Rendered], value: float, bars: Iterable[tuple[float, float]]
) -> str | None:
    """The shortest text that is on the same side of each printed bar as the value.

    `bars` are pairs of a number and of the number that its text denotes. None if there is no such text.
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
    """The number of additional digits that print a limit exactly; 0 if a few do not suffice."""
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
    # Computed by hand, because e to the power of 800 is too large for a float.
    tens = log / math.log(10)
    if tens < 6:
        text = figure(10**tens, 3 + more)
        return text, math.log(float(text.replace(",", "")))
    lead = f"{10 ** (tens % 1):.{1 + more}f}"
    return f"{lead}e+{math.floor(tens)}", math.log(float(lead)) + math.floor(tens) * math.log(10)


def figure(value: float, digits: int = 4) -> str:
    """`value` to `digits` significant digits, with thousands separators; an exponent only if there would be
    many zeros.
    """
    if not math.isfinite(value):
        return NONE
    if value == 0:
        return "0"
    if not 1e-4 <= abs(value) < 1e9:
        return f"{value:.{digits - 1}e}"
    rounded = float(f"{value:.{digits - 1}e}")
    return f"{rounded:,.{max(0, digits - 1 - math.floor(math.log10(abs(rounded))))}f}"


def word(verdict: Verdict) -> str:
    """The verdict in a word: `faster` for a time, `better` for other metrics."""
    return kind_word(verdict.word, verdict.metric)


def kind_word(kind: str, metric: str) -> str:
    """The word for a kind of verdict on a metric; see `word`."""
    if METRICS[metric].unit in _SPEEDS:
        return kind
    return {"faster": "better", "slower": "worse"}.get(kind, kind)


def of_cases(many: int, total: int, verb: str = "are") -> str:
    """`1 of 39 cases is`, `2 of 39 cases are`; the verb is `are`, `have` or `were`."""
    singular = {"are": "is", "have": "has", "were": "was"}
    return f"{many:,} of {plural(total, 'case')} {singular[verb] if many == 1 else verb}"
