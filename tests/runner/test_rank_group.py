"""Several processes as one case: instances and ranks of every kind, and what becomes of one that dies."""

import os
from dataclasses import replace
from typing import Any

import pytest

from records.outcomes import Outcome
from support.measuring import CASE_FILES, QUICK, Happened, Scratch, conditions, measure
from support.processes import alive
from support.site import unavailable

pytestmark = pytest.mark.torch

DDP = "mlp_overhead/train/batch=64/parallel=ddp,ranks=2"
ALONE = "mlp_overhead/train/batch=64/parallel=ddp"
#: They also take much memory at their end.
INSTANCES = "greedy_at_its_end/infer/-/instances=2"
FSDP2 = "blocks/train/batch=4/parallel=fsdp2,ranks=2"
#: All that is an option of DDP, and started by torchrun. `test_nodes` has a pipeline.
ZERO1 = (
    "blocks/train/batch=4/"
    "bucket=1,ddp=bucket-view,hook=fp16,launcher=torchrun,parallel=zero1,ranks=2,scaling=strong"
)
TENSOR = "blocks/infer/batch=4/parallel=tp,ranks=2"
OF_TWO = [DDP, INSTANCES, FSDP2, ZERO1, TENSOR]
OF_RANKS = [case for case in OF_TWO if case != INSTANCES]
FORKS = "ends/train/-/parallel=ddp,ranks=2"
REPORTS = "ends_in_its_report/train/-/parallel=ddp,ranks=2"
TOO_MANY = "blocks/train/batch=4/parallel=ddp,ranks=4096"
COPIES = "host_copy/infer/direction=to_device,mebibytes=2,pinned=False/instances=2"
#: One rank: of several the collectives are measured too.
IN_TURN = "in_turn/train/-/parallel=ddp"
CLOSURE = "closure/infer/-/parallel=fsdp2"

#: Weights and biases of the small transformer: two linear layers around three blocks of three each.
PARAMETERS = 16 * 16 + 16 + 16 * 8 + 8 + 3 * (16 * 16 + 16 + 16 * 32 + 32 + 32 * 16 + 16)


@pytest.fixture(scope="module")
def happened(module_scratch: Scratch) -> Happened:
    """All of them in one run, one after the other."""
    if len(os.sched_getaffinity(0)) < 2:
        unavailable("two processes at once need two CPUs")
    shared = conditions(module_scratch.folder, CASE_FILES / "several.py")
    return measure(shared, [[case] for case in (*OF_TWO, ALONE, COPIES, FORKS, REPORTS, TOO_MANY, CLOSURE)])


def outcome_of(happened: Happened, case: str) -> Outcome:
    """The outcome of a case by its whole key."""
    (outcome,) = [o for o in happened.outcomes if o.case == case]
    return outcome


def members_of(outcome: Outcome) -> list[dict[str, Any]]:
    """What is known of each member."""
    return outcome.facts["members"]


@pytest.mark.parametrize("case", [*OF_TWO, ALONE])
def test_members_of_a_group_compute_what_one_process_computes(happened: Happened, case: str) -> None:
    outcome = outcome_of(happened, case)
    assert (outcome.status, outcome.reason) == ("ok", ""), outcome.facts.get("traceback")
    assert outcome.facts["check"]["error"] <= outcome.facts["check"]["tolerance"]
    assert outcome.facts["exit"]["strays"] == []


@pytest.mark.parametrize("case", OF_TWO)
def test_each_member_was_on_its_own_cpus_during_a_block(happened: Happened, case: str) -> None:
    outcome = outcome_of(happened, case)
    first, second = members_of(outcome)
    assert isinstance(outcome.facts["seen_within_block"], bool)
    assert first["pid"] != second["pid"]
    assert set(first["cpus"]).isdisjoint(second["cpus"])
    for member in (first, second):
        assert member["during_block"]["held"]
        assert member["during_block"]["threads_seen"] >= 1
        assert set(member["during_block"]["ran_on"]) <= set(member["cpus"])


@pytest.mark.parametrize("case", OF_RANKS)
def test_a_rank_has_one_core_and_one_thread(happened: Happened, case: str) -> None:
    outcome = outcome_of(happened, case)
    assert [member["threads"] for member in members_of(outcome)] == [1, 1]
    assert outcome.facts["cpus_in_use"] == 2
    assert outcome.facts["backend"] == "gloo"


def test_one_rank_is_like_two_but_for_the_number(happened: Happened) -> None:
    alone = outcome_of(happened, ALONE)
    (member,) = members_of(alone)
    assert (member["threads"], alone.facts["cpus_in_use"], alone.facts["backend"]) == (1, 1, "gloo")


@pytest.mark.parametrize(("case", "items"), [(DDP, 128), (ALONE, 64), (ZERO1, 4), (FSDP2, 8), (TENSOR, 8)])
def test_a_step_of_ranks_has_the_items_of_all(happened: Happened, case: str, items: int) -> None:
    outcome = outcome_of(happened, case)
    assert outcome.facts["items"] == items
    seconds = outcome.metrics["latency"] / 1e3
    assert outcome.metrics["throughput"] == pytest.approx(items / seconds)


def test_the_slowest_rank_counts_in_every_step(happened: Happened) -> None:
    outcome = outcome_of(happened, DDP)
    assert outcome.metrics["latency"] >= max(member["latency_ms"] for member in members_of(outcome))


def test_throughput_of_instances_is_their_sum_and_latency_the_slowest(happened: Happened) -> None:
    outcome = outcome_of(happened, INSTANCES)
    latencies = [member["latency_ms"] / 1e3 for member in members_of(outcome)]
    assert outcome.metrics["throughput"] == pytest.approx(sum(4 / seconds for seconds in latencies))
    per_core = outcome.metrics["throughput"] / outcome.facts["cpus_in_use"]
    assert outcome.metrics["throughput_per_core"] == pytest.approx(per_core)
    # Of each block the slowest: never faster than the faster instance.
    assert outcome.metrics["latency"] / 1e3 >= min(latencies)


def test_bandwidth_of_instances_is_their_sum(happened: Happened) -> None:
    outcome = outcome_of(happened, COPIES)
    latencies = [member["latency_ms"] / 1e3 for member in members_of(outcome)]
    gigabytes = 2 * 2**20 / 1e9
    assert outcome.metrics["bandwidth"] == pytest.approx(sum(gigabytes / seconds for seconds in latencies))


def test_communication_is_measured_where_gradients_are_averaged(happened: Happened) -> None:
    two, alone = outcome_of(happened, DDP), outcome_of(happened, ALONE)
    share = two.metrics["exposed_share"]
    assert share < 1
    assert (share < 0) == (two.metrics["exposed_communication"] < 0)
    assert 0 <= two.metrics["rank_skew"] < 1
    assert two.metrics["bus_bandwidth"] > 0
    assert list(two.facts["bus_bandwidth_gb_per_second"]) == ["1", "4", "16", "64"]
    for kind in ("all_gather", "reduce_scatter"):
        table = two.facts[f"{kind}_gb_per_second"]
        assert list(table) == ["1", "4", "16", "64"] and all(value > 0 for value in table.values())
        assert two.metrics[f"{kind}_bandwidth"] == table["64"]
    assert two.facts["gradient_mib"] == pytest.approx(two.facts["parameters"] * 4 / 2**20)
    assert "exposed_communication" in alone.metrics
    assert not {"rank_skew", "bus_bandwidth"} & set(alone.metrics)
    sharded = set(outcome_of(happened, FSDP2).metrics)
    assert {"all_gather_bandwidth", "reduce_scatter_bandwidth"} <= sharded
    assert not {"exposed_communication", "bus_bandwidth"} & sharded


@pytest.mark.parametrize("case", [FSDP2, ZERO1, TENSOR])
def test_a_divided_model_is_counted_whole(happened: Happened, case: str) -> None:
    assert outcome_of(happened, case).facts["parameters"] == PARAMETERS


def test_the_division_of_work_is_reported(happened: Happened) -> None:
    assert outcome_of(happened, FSDP2).facts["sharded_blocks"] == 3
    assert outcome_of(happened, TENSOR).facts["tensor_parallel"].startswith("feed-forward of 3 blocks")


def test_the_pinning_tool_is_reported(happened: Happened) -> None:
    assert outcome_of(happened, ZERO1).facts["members_pinned_by"] == "affinity"
    assert outcome_of(happened, DDP).facts["members_pinned_by"] in ("affinity", "numactl")


def test_a_dead_rank_whose_child_keeps_its_line_open_is_not_waited_for(
    happened: Happened, module_scratch: Scratch
) -> None:
    outcome = outcome_of(happened, FORKS)
    assert (outcome.status, outcome.reason) == ("crashed", "rank 1 was killed by SIGKILL")
    assert len(module_scratch.pids("rank")) == 2
    (child,) = module_scratch.pids("forked")
    assert not alive(child)
    module_scratch.assert_no_process_left(happened.run)


def test_a_rank_that_dies_after_the_last_block_costs_no_number(happened: Happened) -> None:
    outcome = outcome_of(happened, REPORTS)
    assert (outcome.status, outcome.reason, outcome.phase) == ("ok", "", "")
    assert outcome.facts["check"]["note"] == "not compared: rank 1 was killed by SIGKILL"
    assert outcome.metrics["latency_floor"] > 0


def test_what_cannot_be_had_is_said_before_anyone_starts(happened: Happened) -> None:
    too_many = outcome_of(happened, TOO_MANY)
    assert too_many.status == "unsupported"
    assert too_many.reason.startswith("4096 ranks need 4096 cores and this process has ")


def test_a_members_reason_is_the_cases(happened: Happened) -> None:
    closure = outcome_of(happened, CLOSURE)
    assert closure.status == "unsupported"
    assert closure.reason == "a case given as a closure has no model to share between ranks"


def test_every_shape_has_come_twice_before_ranks_are_timed(scratch: Scratch) -> None:
    timing = replace(QUICK, warm_up_max_seconds=0.0)
    shared = conditions(scratch.folder, CASE_FILES / "several.py", timing=timing)
    (outcome,) = measure(shared, [[IN_TURN]]).outcomes
    assert (outcome.status, outcome.reason, outcome.facts["shapes"]) == ("ok", "", 6)
    assert outcome.metrics["data_wait"] == 0


def test_what_members_measure_at_the_end_is_in_no_peak(happened: Happened) -> None:
    greedy = outcome_of(happened, INSTANCES)
    assert (greedy.status, greedy.metrics["data_wait"]) == ("ok", 1.0)
    steady = outcome_of(happened, COPIES).metrics["rss_peak_steady"]
    assert greedy.metrics["rss_peak_steady"] < steady + 256
