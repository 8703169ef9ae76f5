"""Compares two processes that took turns block by block, round by round, and finds disturbances."""

import math
from collections.abc import Mapping, Sequence
from statistics import median
from typing import Any, cast

from records.outcomes import Outcome

#: The metric whose ratio is known round by round, because it is computed from one number of each block.
METRIC = "latency_floor"
#: The fact with the blocks that do not count, each with its number, a status and a reason.
TAINTED = "tainted_blocks"
#: With fewer rounds the two values are compared directly.
FEWEST = 4


def change(old: Mapping[str, Any], new: Mapping[str, Any]) -> float | None:
    """The logarithm of new / old of two processes of one session, from their facts.

    It is the median, over the rounds in which both took a block that counts, of the logarithm of the ratio of
    the two blocks' fastest iterations; on CUDA, where facts have them, of their medians. If the speed of a
    machine changes from second to second, it changes equally for both sides of a round, but not for the
    medians of the two sides. None where fewer than `FEWEST` rounds are known.
    """
    return _change(_of_blocks(old), _of_blocks(new))


def change_under_load(old: Mapping[str, Any], new: Mapping[str, Any]) -> float | None:
    """As `change`, over all rounds, including disturbed ones."""
    return _change(_of_blocks(old, disturbed=True), _of_blocks(new, disturbed=True))


def _change(old: Mapping[int, float], new: Mapping[int, float]) -> float | None:
    rounds = sorted(old.keys() & new.keys())
    if len(rounds) < FEWEST:
        return None
    return median(math.log(new[number]) - math.log(old[number]) for number in rounds)


def tainted_block_numbers(facts: Mapping[str, Any]) -> frozenset[int]:
    """The numbers, from 0, of a process's disturbed blocks, which do not count."""
    return frozenset(int(each["block"]) for each in tainted_blocks(facts))


def tainted_blocks(facts: Mapping[str, Any]) -> list[Mapping[str, Any]]:
    """The facts of each tainted block; an imported file may have other values under that name."""
    listed = facts.get(TAINTED)
    entries = cast("Sequence[Any]", listed) if isinstance(listed, list | tuple) else ()
    blocks = [cast("Mapping[str, Any]", one) for one in entries if isinstance(one, Mapping)]
    return [each for each in blocks if _is_number(each.get("block"))]


def _is_number(block: object) -> bool:
    """Whether a value is the number of a block; some files have 2.0 for 2."""
    return isinstance(block, int | float) and block == block // 1


def _of_blocks(facts: Mapping[str, Any], *, disturbed: bool = False) -> dict[int, float]:
    """The compared value of each block that counts, in ns by its number; of all blocks if `disturbed`."""
    listed = facts.get("block_medians_ns", facts.get("block_floors_ns"))
    values = cast("Sequence[Any]", listed) if isinstance(listed, list | tuple) else ()
    left_out = frozenset[int]() if disturbed else tainted_block_numbers(facts)
    return {
        number: float(value)
        for number, value in enumerate(values)
        if number not in left_out and isinstance(value, int | float) and value > 0
    }


#: A process that computes on the CPU and had a smaller share of its core than this was disturbed.
OWN_CORE = 0.9


def core_share(outcome: Outcome) -> float | None:
    """The share of its core that a replicate had, if other programs used some of it; else None.

    It is based on these facts: `device`, `cpu_share` (CPU time / wall time during the timing; for instances
    the smallest), `core_share` (the share of the requested CPU time that its processes had; missing in older
    outcomes), and `contention_ignored` if the user set `contention_limit = 1`. The main process of a case
    with the metric `data_wait` sleeps while its data is prepared.
    """
    facts = outcome.facts
    share = facts.get("cpu_share")
    had = facts.get("core_share")
    if isinstance(had, float) and isinstance(share, float):
        # A process that sleeps while others of its case work, or waits for a disk, was not disturbed.
        share = max(share, had)
    if (
        "data_wait" in outcome.metrics
        or facts.get("contention_ignored")
        or facts.get("device") != "cpu"
        or not isinstance(share, float)
        or share >= OWN_CORE
    ):
        return None
    return share
