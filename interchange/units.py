"""Units: their spelling in the name of a metric, and the numbers that each permits."""

import hashlib
import re

from analysis.metrics import Better

#: Units that differ from others only in capitals: bits and bytes, mega and milli.
_CAPITALS = re.compile(r"(?<![A-Za-z])(?:[KMGTPE]i?b|[kKMGTPE]i?Bps|M[AJVW])(?![A-Za-z])")


def slug(text: str) -> str:
    """A metric's name out of a foreign one: lower-case letters, digits, dots and underscores."""
    return re.sub(r"[^a-z0-9.]+", "_", text.lower()).strip("_.")


def unit_slug(unit: str) -> str:
    """`ns/iter` is `ns_per_iter`, `µs` is `us`; what has no Latin letter is a hash, no unit is `value`."""
    plain = slug(_replace_micro(unit).replace("%", " percent ").replace("/", " per "))
    if plain or not unit:
        return plain or "value"
    return f"unit_{_hash(unit)}"


def slug_apart(text: str, nameless: str) -> str:
    """The slug of a unit, or of a name with one, `nameless` where nothing is left of it.

    Where that loses a letter, as of `µs`, or capitals that make another unit, as of `Mb`, a hash follows.
    """
    plain = slug(_replace_micro(text)) or nameless
    lost = any(each.isalnum() and not each.isascii() for each in text)
    return f"{plain}_{_hash(text)}" if lost or _CAPITALS.search(text) else plain


def _replace_micro(unit: str) -> str:
    return re.sub("[\N{MICRO SIGN}\N{GREEK SMALL LETTER MU}]", "u", unit)


def _hash(unit: str) -> str:
    return hashlib.sha256(unit.encode(errors="replace")).hexdigest()[:8]


_TIME = (
    r"(?:h|hours?|min|minutes?|s|secs?|seconds?|ms|msecs?|milliseconds?"
    r"|[u\N{MICRO SIGN}\N{GREEK SMALL LETTER MU}]s|usecs?|microseconds?|ns|nsecs?|nanoseconds?)"
)
#: A time, or one for each of something: ms, ns/iter.
_TIMES = re.compile(rf"{_TIME}(?:\s*(?:/|per ).+)?", re.IGNORECASE)
#: A number of things per time: 1/s, samples/s, GB/s, iter/sec.
_RATES = re.compile(rf".*(?:/|\bper )\s*{_TIME}|fps|qps|[kmgt]?flops|[kmg]?hz", re.IGNORECASE)
#: Amounts and counts.
_AMOUNTS = re.compile(r"[kmgt]i?b|b|bytes|count|instructions", re.IGNORECASE)
#: Words in a name: a spread or a wait may be 0, and a difference has a sign.
_MAY_BE_NOUGHT = frozenset(
    {"stdev", "stddev", "std", "iqr", "mad", "sem", "spread", "noise", "margin"}
    | {"wait", "waiting", "idle", "stall", "pause"}
)
_HAS_A_SIGN = frozenset(
    ("difference", "diff", "delta", "drift", "overhead", "skew", "exposed", "change", "saved", "gain", "loss")
)


def objection(name: str, unit: str, better: Better, value: float, *, nought: bool = False) -> str:
    """Why a number is impossible in that unit; empty if it is possible. `name` may hold more than the
    metric's name.

    A time is above 0, and so is a rate of which more is better; an amount and a rate of which less is better
    are 0 or above. A spread or a wait may be 0, which `nought` says of anything; a difference may be below.
    Shares, ratios, losses, unknown units, and metrics without a direction may be anything.
    """
    words = frozenset(re.split(r"[^a-z]+", name.lower()))
    if better == "neither" or words & _HAS_A_SIGN:
        return ""
    kind = "time" if _TIMES.fullmatch(unit) else "rate" if _RATES.fullmatch(unit) else ""
    if not kind and not _AMOUNTS.fullmatch(unit):
        return ""
    if value < 0:
        return f"{value:g} {unit} is not a valid {kind or 'amount'}: it is below 0"
    may_be_nought = nought or not kind or (kind == "rate" and better == "lower")
    if value == 0 and not may_be_nought and not words & _MAY_BE_NOUGHT:
        return f"{value:g} {unit} is not a valid {kind}: nothing was measured"
    return ""
