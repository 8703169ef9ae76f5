"""`--json`: stdout is one JSON object per line and nothing else, from `began` to `ended`."""

import pytest

from analysis.metrics import METRICS
from runner import journal
from support.site import ADD, LINEAR, RAISES, WOBBLES, Done, Site

pytestmark = pytest.mark.torch


def test_events_come_in_order_and_nothing_else_comes(measured_once: tuple[Site, Done]) -> None:
    _, done = measured_once
    kinds = [event["event"] for event in done.events]
    assert kinds[0] == "began" and kinds[-1] == "ended"
    assert set(kinds[1:-1]) == {"phase", "outcome"}
    assert done.err == ""


def test_every_planned_replicate_has_one_outcome_after_its_phases(
    measured_once: tuple[Site, Done],
) -> None:
    _, done = measured_once
    planned = [tuple(one.values()) for one in done.events[0]["planned"]]
    assert len(planned) == len(set(planned)) == 8
    identity = ("case", "environment", "replicate")
    ended: list[tuple[object, ...]] = []
    for event in done.events[1:-1]:
        this = tuple(event[name] for name in identity)
        assert this not in ended, "nothing happens to a replicate after its outcome"
        if event["event"] == "outcome":
            ended.append(this)
    assert sorted(ended, key=str) == sorted(planned, key=str)


def test_the_phases_of_a_replicate_are_reported_in_order(measured_once: tuple[Site, Done]) -> None:
    _, done = measured_once
    phases = [
        event["phase"]
        for event in done.events
        if event["event"] == "phase" and (event["case"], event["replicate"]) == (LINEAR, 0)
    ]
    once = list(dict.fromkeys(phases))
    assert once == ["import", "build", "first_call", "warm_up", "measure", "finish", "check", "end"]


def test_time_is_left_until_the_last_replicate_ends(measured_once: tuple[Site, Done]) -> None:
    _, done = measured_once
    left = [event["seconds_left"] for event in done.events if event["event"] == "phase"]
    assert min(left) >= 1
    assert left[-1] < left[0] / 2


def test_a_run_in_which_something_failed_ends_with_code_1(measured_once: tuple[Site, Done]) -> None:
    _, done = measured_once
    statuses = {(e["case"], e["status"]) for e in done.events if e["event"] == "outcome"}
    assert statuses == {(ADD, "ok"), (LINEAR, "ok"), (RAISES, "crashed"), (WOBBLES, "wrong")}
    assert done.code == 1
    assert done.events[-1]["state"] == "complete" and done.events[-1]["stored"] is True


def test_every_metric_that_a_replicate_emits_is_in_the_catalogue(
    measured_once: tuple[Site, Done],
) -> None:
    site, done = measured_once
    emitted = {name for o in journal.read_contents(site.journal(done.run)).outcomes for name in o.metrics}
    assert {"latency", "throughput", "first_call", "rss_peak", "model_tflops"} <= emitted
    assert emitted <= METRICS.keys()
