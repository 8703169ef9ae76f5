"""From replicates to pairs: who is whose partner, and why a pair does not count."""

import math
from collections.abc import Sequence
from dataclasses import replace
from datetime import timedelta
from typing import Any

import pytest

from analysis.comparison.pairs import Pair, SideFlaw, pairs_of
from records.outcomes import Outcome
from reports.text.verdict_text import left_out_because
from support.builders.run_records import FIRST_NIGHT, an_outcome

FLOOR = "latency_floor"


def processes(*floors: float, **changes: Any) -> list[Outcome]:
    """Replicates of one environment; those of one number are alive together."""
    return [
        an_outcome(
            replicate=number,
            metrics={FLOOR: floor, "graph_breaks": 0.0},
            facts={"items": 8},
            started_at=FIRST_NIGHT + timedelta(minutes=number),
            **changes,
        )
        for number, floor in enumerate(floors)
    ]


def test_replicates_pair_by_number() -> None:
    assert pairs_of(FLOOR, processes(1.0, 2.0), processes(3.0, 4.0)[::-1]) == [Pair(1.0, 3.0), Pair(2.0, 4.0)]


def test_one_without_a_partner_is_left_out_and_not_lost() -> None:
    first, second = pairs_of(FLOOR, processes(1.0, 2.0), processes(3.0))
    assert first == Pair(1.0, 3.0)
    assert (second.old, left_out_because(second.left_out)) == (2.0, "new was not measured")
    assert math.isnan(second.new)


OTHERS: Sequence[tuple[dict[str, Any], str]] = [
    ({"status": "crashed", "metrics": {}}, "new ended crashed"),
    ({"started_at": FIRST_NIGHT + timedelta(hours=3)}, "the two were not measured in one session"),
    ({"facts": {"items": 16}}, "the two differ in the items of a step"),
    ({"facts": {"items": 8, "device": "cpu", "cpu_share": 0.4}}, "new had 40 % of its core"),
    ({"facts": {"items": 8, "launch": {"held": False}}}, "new left the CPUs it was given"),
    ({"metrics": {}}, "new does not know latency_floor"),
    ({"metrics": {FLOOR: math.nan}}, "new does not know latency_floor"),
    ({"metrics": {FLOOR: -1.0}}, "new does not know latency_floor"),
    ({"metrics": {FLOOR: 0.0}}, "new has no latency_floor above 0"),
]


@pytest.mark.parametrize(("changes", "why"), OTHERS)
def test_why_a_pair_does_not_count(changes: dict[str, Any], why: str) -> None:
    (old,), (new,) = processes(1.0), processes(2.0)
    assert [left_out_because(p.left_out) for p in pairs_of(FLOOR, [old], [replace(new, **changes)])] == [why]


def test_a_pair_knows_who_started_first() -> None:
    (old,), (new,) = processes(1.0), processes(2.0)
    later = replace(new, started_at=new.started_at + timedelta(milliseconds=1))
    assert [pair.new_first for pair in pairs_of(FLOOR, [old], [later])] == [False]
    assert [pair.new_first for pair in pairs_of(FLOOR, [later], [old])] == [True]
    assert [pair.new_first for pair in pairs_of(FLOOR, [old], [new])] == [None]


def test_a_count_may_be_zero() -> None:
    assert pairs_of("graph_breaks", processes(1.0), processes(1.0), exact=True) == [Pair(0.0, 0.0)]


def test_what_others_took_of_a_core_says_nothing_about_an_exact_metric() -> None:
    (old,), (new,) = processes(1.0), processes(1.0)
    robbed = replace(new, facts={"items": 8, "device": "cpu", "cpu_share": 0.5})
    (timed,), (counted,) = pairs_of(FLOOR, [old], [robbed]), pairs_of("graph_breaks", [old], [robbed], True)
    assert timed.left_out == (SideFlaw("new", "shared its core", core=0.5),) and not counted.left_out
