"""Blocks that others disturbed, and how that is said."""

from collections import Counter
from collections.abc import Mapping
from typing import Any

from analysis.rounds import TAINTED
from dashboard import wording


def in_words(facts: Mapping[str, Any]) -> str:
    """How many blocks do not count and why; empty where all do."""
    listed = _listed(facts)
    if not listed:
        return ""
    counted = Counter(str(each.get("status", "disturbed")) for each in listed)
    kinds = ", ".join(f"{many} {wording.status(word).word}" for word, many in counted.items())
    worst = max(listed, key=_share)
    left_out = f"{wording.plural(len(listed), 'block')} left out and taken again ({kinds})"
    return f"{left_out}; at worst: {worst['reason']}" if worst.get("reason") else left_out


def _listed(facts: Mapping[str, Any]) -> list[Mapping[str, Any]]:
    told = facts.get(TAINTED)
    if not isinstance(told, list | tuple):
        return []
    return [each for each in told if isinstance(each, Mapping) and isinstance(each.get("block"), int | float)]


def _share(each: Mapping[str, Any]) -> float:
    share = each.get("share")
    return share if isinstance(share, int | float) else 0.0
