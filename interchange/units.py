"""A unit as part of a metric's name, so that one name never has two units."""

import hashlib
import re

from .foreign_runs import slug

#: What only capitals tell from another unit: bits from bytes, mega from milli.
_CAPITALS = re.compile(r"(?<![A-Za-z])(?:[KMGTPE]i?b|[kKMGTPE]i?Bps|M[AJVW])(?![A-Za-z])")


def unit_slug(unit: str) -> str:
    """`ns/iter` is `ns_per_iter`, `µs` is `us`; what has no Latin letter is a hash, no unit is `value`."""
    plain = slug(_spelled(unit).replace("%", " percent ").replace("/", " per "))
    if plain or not unit:
        return plain or "value"
    return f"unit_{_hash(unit)}"


def slug_apart(text: str, nameless: str) -> str:
    """The slug of a unit, or of a name with one, `nameless` where nothing is left of it.

    Where that loses a letter, as of `µs`, or capitals that make another unit, as of `Mb`, a hash follows.
    """
    plain = slug(_spelled(text)) or nameless
    lost = any(each.isalnum() and not each.isascii() for each in text)
    return f"{plain}_{_hash(text)}" if lost or _CAPITALS.search(text) else plain


def _spelled(unit: str) -> str:
    return re.sub("[\N{MICRO SIGN}\N{GREEK SMALL LETTER MU}]", "u", unit)


def _hash(unit: str) -> str:
    return hashlib.sha256(unit.encode(errors="replace")).hexdigest()[:8]
