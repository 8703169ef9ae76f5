"""Blocks that others disturbed, and how that is said."""

from collections import Counter
from collections.abc import Mapping
from typing import Any

from analysis.comparison.rounds import tainted_blocks
from dashboard.components import wording


def in_words(facts: Mapping[str, Any]) -> str:
    """How many blocks do not count and why; empty where all do."""
    listed = tainted_blocks(facts)
    if not listed:
        return ""
    counted = Counter(str(each.get("status", "disturbed")) for each in listed)
    kinds = ", ".join(f"{many} {wording.status(word).word}" for word, many in counted.items())
    worst = max(listed, key=_share)
    left_out = f"{wording.plural(len(listed), 'block')} left out and taken again ({kinds})"
    return f"{left_out}; at worst: {worst['reason']}" if worst.get("reason") else left_out


def _share(each: Mapping[str, Any]) -> float:
    share = each.get("share")
    return share if isinstance(share, int | float) else 0.0
