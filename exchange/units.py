"""A unit as part of a metric's name, so that one name never has two units."""

import hashlib
import re

from .foreign import slug


def unit_slug(unit: str) -> str:
    """`ns/iter` is `ns_per_iter`, `µs` is `us`; what has no Latin letter is a hash, no unit is `value`."""
    spelled = re.sub("[\N{MICRO SIGN}\N{GREEK SMALL LETTER MU}]", "u", unit)
    plain = slug(spelled.replace("%", " percent ").replace("/", " per "))
    if plain or not unit:
        return plain or "value"
    return f"unit_{hashlib.sha256(unit.encode(errors='replace')).hexdigest()[:8]}"
