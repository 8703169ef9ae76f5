"""Was a measured process disturbed by others on its machine?"""

from collections.abc import Mapping
from typing import Any

#: A process that computes on the CPU and had less of its core than this was disturbed.
OWN_CORE = 0.9


def disturbed(facts: Mapping[str, Any]) -> bool:
    """Whether others took some of the core of a replicate; see `core_share`."""
    return core_share(facts) is not None


def core_share(facts: Mapping[str, Any]) -> float | None:
    """The share of its core that a replicate had, where others took some of it; else None.

    `facts` are the outcome's: `device`, `cpu_share` (its CPU time over its wall time while timed; of
    instances that of the one that had least),
    `waits_for_data` for a case whose own process sleeps while its data is being made, and
    `contention_ignored` where the user wants it so (`contention_limit = 1`).
    """
    share = facts.get("cpu_share")
    if (
        facts.get("waits_for_data")
        or facts.get("contention_ignored")
        or facts.get("device") != "cpu"
        or not isinstance(share, float)
        or share >= OWN_CORE
    ):
        return None
    return share
