"""Blocks that others disturbed: which of an outcome's do not count, and how that is said."""

from collections import Counter
from collections.abc import Mapping
from typing import Any

from dashboard import wording

#: Where an outcome's facts list them, each with its number from 0, a status and a reason.
FACT = "tainted_blocks"


def numbers(facts: Mapping[str, Any]) -> frozenset[int]:
    """The numbers, from 0, of the blocks that do not count."""
    return frozenset(each["block"] for each in _listed(facts))


def in_words(facts: Mapping[str, Any]) -> str:
    """How many blocks do not count and why; empty where all do."""
    listed = _listed(facts)
    if not listed:
        return ""
    counted = Counter(str(each.get("status", "disturbed")) for each in listed)
    kinds = ", ".join(f"{many} {wording.status(word).word}" for word, many in counted.items())
    worst = max(listed, key=lambda each: each.get("share") or 0.0)
    left_out = f"{wording.plural(len(listed), 'block')} left out and taken again ({kinds})"
    return f"{left_out}; at worst: {worst['reason']}" if worst.get("reason") else left_out


def _listed(facts: Mapping[str, Any]) -> list[Mapping[str, Any]]:
    told = facts.get(FACT)
    if not isinstance(told, list | tuple):
        return []
    return [each for each in told if isinstance(each, Mapping) and isinstance(each.get("block"), int)]
