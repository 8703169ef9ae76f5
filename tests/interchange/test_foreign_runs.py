"""From points of a foreign file to a run: nothing is merged that is not the same, nothing is dropped."""

from dataclasses import replace
from datetime import UTC, datetime, timedelta, timezone
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from interchange.errors import SourcePlace
from interchange.foreign_runs import Failure, ForeignOrigin, Point, assemble_run, case_key, is_undated, plain
from interchange.units import slug

WHEN = datetime(2026, 3, 1, 12, 30, tzinfo=UTC)
ORIGIN = ForeignOrigin(format="tool", suite="nightly", started_at=WHEN, machine="box", hardware="A100")
SOURCE = SourcePlace("results.json", 3, "metrics.speed")
SPEED = Point(
    case="net/infer/-/eager",
    metric="tool.speed",
    unit="items/s",
    better="higher",
    values=(2.0, 4.0),
    place=SOURCE,
)
LATENCY = replace(SPEED, metric="latency", unit="ms", better="lower", values=(3.0,))


def test_a_run_holds_its_points_as_replicates_and_measurements() -> None:
    imported, metrics, problems = assemble_run(
        ORIGIN, [SPEED, LATENCY], [Failure("net/train/-/eager", "oom", "no room")]
    )
    assert problems == ()
    assert [(one.name, one.unit, one.better) for one in metrics] == [("tool.speed", "items/s", "higher")]
    assert [(one.case, one.replicate, one.status, dict(one.metrics)) for one in imported.outcomes] == [
        ("net/infer/-/eager", 0, "ok", {"tool.speed": 2.0, "latency": 3.0}),
        ("net/infer/-/eager", 1, "ok", {"tool.speed": 4.0}),
        ("net/train/-/eager", 0, "oom", {}),
    ]
    speed, latency = imported.measurements
    assert (speed.point, speed.n, speed.smallest, speed.largest) == (3.0, 2, 2.0, 4.0)
    assert (latency.point, latency.n, latency.low) == (3.0, 1, None)
    assert imported.run.planned == 3
    assert {one.environment for one in imported.outcomes} == {imported.run.environments[0].fingerprint}


def test_a_case_that_went_well_and_failed_keeps_both() -> None:
    failures = [Failure(SPEED.case, "crashed", "first"), Failure(SPEED.case, "timeout", "second")]
    imported, _, _ = assemble_run(
        ORIGIN, [LATENCY], [*failures, *failures, Failure(SPEED.case, "ok", "pass")]
    )
    assert [(one.replicate, one.status, one.reason) for one in imported.outcomes] == [
        (0, "ok", ""),
        (1, "crashed", "first"),
        (2, "timeout", "second"),
    ]


@pytest.mark.parametrize(
    ("points", "sentence"),
    [
        ([replace(SPEED, values=())], "there is no value"),
        ([replace(LATENCY, unit="s")], "latency is in ms, not in s"),
        ([SPEED, replace(SPEED, case="b", unit="1/s")], "tool.speed is in items/s, not in 1/s"),
        ([replace(LATENCY, better="higher")], "of latency lower is better, not higher"),
        ([SPEED, replace(SPEED, case="b", better="lower")], "of tool.speed higher is better, not lower"),
        (
            [SPEED, replace(SPEED, values=(9.0,))],
            "tool.speed of net/infer/-/eager is in the file twice; the first one is used",
        ),
    ],
)
def test_what_cannot_be_used_is_set_aside_with_its_place(points: list[Point], sentence: str) -> None:
    imported, _, problems = assemble_run(ORIGIN, points)
    assert [str(problem) for problem in problems] == [f"results.json, line 3, metrics.speed: {sentence}"]
    assert len(imported.measurements) == len(points) - 1


def test_the_same_origin_is_the_same_run_and_any_other_is_another() -> None:
    def run(origin: ForeignOrigin) -> str:
        return assemble_run(origin, [SPEED])[0].run.id

    elsewhere = WHEN.astimezone(timezone(timedelta(hours=5)))
    assert (
        run(ORIGIN)
        == run(replace(ORIGIN, started_at=elsewhere))
        == "20260301-123000-tool-" + run(ORIGIN)[-8:]
    )
    others = [
        replace(ORIGIN, format="other"),
        replace(ORIGIN, suite="weekly"),
        replace(ORIGIN, started_at=WHEN + timedelta(microseconds=1)),
        replace(ORIGIN, identity="commit"),
        replace(ORIGIN, machine="other"),
        replace(ORIGIN, hardware="H100"),
    ]
    assert len({run(one) for one in (ORIGIN, *others)}) == 7


def test_an_undated_run_is_identified_without_its_time() -> None:
    def run(**changed: Any) -> str:
        return assemble_run(replace(ORIGIN, dated=False, **changed), [SPEED])[0].run.id

    assert run() == run(started_at=WHEN + timedelta(days=9)) == "undated-tool-" + run()[-16:]
    others = [
        {"format": "other"},
        {"suite": "weekly"},
        {"identity": "x"},
        {"machine": "b"},
        {"hardware": "H"},
    ]
    assert len({run(), *(run(**each) for each in others)}) == 6
    assert is_undated(run()) and not is_undated(assemble_run(ORIGIN, [SPEED])[0].run.id)


def test_what_is_to_be_known_of_a_run_is_among_its_notes() -> None:
    origin = replace(ORIGIN, facts={"notes": ["the time is that of the upload"]})
    assert assemble_run(origin, [SPEED])[0].run.notes == ("the time is that of the upload",)


def test_no_time_and_no_rate_is_impossible() -> None:
    points = [replace(SPEED, values=(2.0, -1.0)), replace(LATENCY, values=(0.0,))]
    imported, metrics, problems = assemble_run(ORIGIN, points)
    assert [each.sentence for each in problems] == [
        "-1 items/s is not a valid rate: it is below 0",
        "0 ms is not a valid time: nothing was measured",
    ]
    assert (imported.outcomes, metrics) == ((), ())
    unbound = [replace(each, unbound=True) for each in points]
    assert len(assemble_run(ORIGIN, unbound)[0].measurements) == 2


def test_machines_that_share_a_label_are_compared_and_formats_never() -> None:
    one, other = (assemble_run(replace(ORIGIN, machine=name), [SPEED])[0].run for name in ("a", "b"))
    assert one.machine.hardware == other.machine.hardware
    assert one.machine.fingerprint != other.machine.fingerprint
    assert (
        one.preset.fingerprint != assemble_run(replace(ORIGIN, format="x"), [SPEED])[0].run.preset.fingerprint
    )


def test_a_key_is_sorted_and_leaves_out_what_is_not_known() -> None:
    key = case_key("a/b c", "call", {"z": 1, "a": "x,y=1", "none": None})
    assert key == "a%2Fb%20c/call/a=x%2Cy%3D1,z=1/eager"
    assert case_key("", "infer") == "-/infer/-/eager"


@given(st.text(), st.text())
def test_no_two_names_become_one(one: str, other: str) -> None:
    # Lone surrogates are no text that a file in UTF-8 could hold.
    clean = [each.encode(errors="replace").decode() for each in (one, other)]
    assert (plain(clean[0]) == plain(clean[1])) == (clean[0] == clean[1])
    assert not set(plain(one)) & set("/,= \n\t")


def test_a_slug_is_lower_case_and_plain() -> None:
    assert slug(" Tokens/s (Mean) ") == "tokens_s_mean"
