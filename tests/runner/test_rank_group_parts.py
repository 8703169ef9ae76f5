"""What the parts of a gang decide by themselves: shares of CPUs, parts of a batch, verdicts, bandwidth."""

import json
import os
import subprocess
from pathlib import Path
from typing import Any

import pytest

from runner.worker.case_key import CaseKey
from runner.worker.distributed.communication import MIB, bus_bandwidth, measure
from support.site import measured_python

ROOT = Path(__file__).resolve().parents[2]
SCRIPT = Path(__file__).parent / "scripts/rank_group_parts.py"
KEY = CaseKey.parse("mlp_overhead/train/batch=64/parallel=ddp,ranks=2")


@pytest.fixture(scope="module")
def parts() -> dict[str, Any]:
    """What the script found, under the measured interpreter."""
    environ = {**os.environ, "PYTHONPATH": str(ROOT), "PYTHONDONTWRITEBYTECODE": "1"}
    command = [str(measured_python()), str(SCRIPT)]
    done = subprocess.run(command, env=environ, cwd=ROOT, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)


@pytest.mark.torch
def test_cpus_are_shared_by_whole_cores_and_equally(parts: dict[str, Any]) -> None:
    shares = parts["shares"]
    assert shares["two of all"] == [[0, 1, 4, 5], [2, 3, 6, 7]]
    assert shares["three of all"] == [[0, 4], [1, 5], [2, 6]]
    assert shares["six of all"] == [[0], [4], [1], [5], [2], [6]]
    assert shares["two of one core"] == [[0, 4], [1, 5]]
    assert shares["of a part"] == [[1, 5], [2]]


@pytest.mark.torch
def test_no_two_members_take_turns_on_a_cpu(parts: dict[str, Any]) -> None:
    shares = parts["shares"]
    assert shares["too many"] == "9 instances need 9 CPUs and this process has 8: cpus=all gives it every CPU"
    assert shares["too many cores"].startswith("3 ranks need 6 cores and this process has 4:")


@pytest.mark.torch
def test_ranks_share_weights_and_divide_the_batch(parts: dict[str, Any]) -> None:
    found = parts["parts"]
    assert found["batch"] == 32
    assert found["items"] == [32, 32, 64]
    assert found["same weights"]
    assert not found["same inputs"]
    assert found["joined"]
    assert found["loss"] == pytest.approx(found["mean"])


@pytest.mark.torch
def test_ranks_that_divide_a_model_take_the_same_inputs_in_turn(parts: dict[str, Any]) -> None:
    found = parts["in turns"]
    assert found["shapes"] == [[[8, 5, 3]], [[8, 10, 3]]]
    assert found["joined"] == [True, True]
    assert found["items"] == [4, 8]
    assert found["pipeline"].startswith("parallel=pp traces one shape")


@pytest.mark.torch
def test_inputs_that_are_not_all_by_batch_are_not_joined(parts: dict[str, Any]) -> None:
    found = parts["in turns"]
    said = "with_memory has inputs whose first dimensions differ: its parts cannot be joined"
    assert (found["memory"], found["memory in a pipeline"]) == (said, "")


@pytest.mark.torch
def test_a_rank_of_a_pipeline_keeps_the_weights_of_its_own_stage(parts: dict[str, Any]) -> None:
    first, second = parts["stages"]
    layers = ["layers.0.weight", "layers.0.bias", "layers.1.weight", "layers.1.bias"]
    assert [first[name] for name in layers] == [32, 8, 0, 0]
    assert [second[name] for name in layers] == [0, 0, 64, 8]
    # Both stages have it.
    assert first["scale"] == second["scale"] == 8


@pytest.mark.torch
def test_blocks_of_all_members_are_one(parts: dict[str, Any]) -> None:
    found = parts["blocks"]
    for one in found.values():
        assert (one["started_ns"], one["wall_ns"]) == (100, 45)
        assert (one["minor_faults"], one["involuntary_switches"]) == (4, 6)
    ranks, instances = found["ranks"], found["instances"]
    assert (ranks["samples_ns"], ranks["cpu_ns"]) == ([20, 30], 40)
    # Two with half a core each are not one with a core of its own.
    assert (instances["samples_ns"], instances["cpu_ns"]) == ([10, 30], pytest.approx(45 / 2, abs=1))


@pytest.mark.torch
def test_ceilings_of_members_add_up_and_a_gpu_they_share_has_one(parts: dict[str, Any]) -> None:
    found = parts["metrics"]
    others = {"rss_peak_steady": 4.0, "switches": 7.0, "model_size": 7.0}
    assert found["cpus"] == {"ceiling_tflops": 5.0, **others}
    assert found["gpu"] == {"ceiling_tflops": 3.0, **others}


@pytest.mark.torch
def test_shares_and_times_are_those_of_the_member_that_is_worst_off(parts: dict[str, Any]) -> None:
    found = parts["metrics"]
    assert found["worst"] == [found["worse"]] * 3


@pytest.mark.torch
def test_what_one_member_could_not_tell_is_in_no_sum(parts: dict[str, Any]) -> None:
    for known in parts["metrics"]["half a sum"]:
        assert known["rss_peak_steady"] == 1.0
        assert not {"ceiling_tflops", "switches"} & known.keys()


@pytest.mark.torch
def test_the_first_step_of_all_ranks_is_judged(parts: dict[str, Any]) -> None:
    judged = parts["judged"]
    assert (judged["alike"], judged["stages"]) == (0.0, 0.0)
    assert judged["another gradient"] == "relative error 0.048 above the tolerance 0.001"
    assert judged["not finite"].endswith("not finite")
    assert judged["overflowed"].endswith("not finite")
    scaler = judged["scaler"]
    assert (scaler["error"], scaler["wrong"]) == (0.0, "")
    assert scaler["note"] == "gradients not compared: GradScaler skipped the first step"


@pytest.mark.torch
def test_incompatible_parts_are_refused_in_a_sentence(parts: dict[str, Any]) -> None:
    refused: dict[str, str] = parts["refused"]
    assert len(set(refused.values())) == len(refused) == 18
    for case, reason in refused.items():
        assert reason, case
        assert "\n" not in reason


@pytest.mark.torch
def test_an_option_of_ranks_without_ranks_is_refused(parts: dict[str, Any]) -> None:
    reason = "axis sharding is for cases over several ranks: choose axis parallel too"
    assert parts["sharded alone"] == reason


@pytest.mark.torch
def test_a_rank_takes_the_kernels_that_its_case_names(parts: dict[str, Any]) -> None:
    assert parts["on a rank"]["onednn"] == [False]


@pytest.mark.torch
def test_a_reference_that_fails_costs_no_number(parts: dict[str, Any]) -> None:
    check = parts["on a rank"]["check"]
    assert (check["wrong"], check["error"]) == ("", None)
    assert check["note"] == "not compared: there is no room for another one"


@pytest.mark.torch
def test_ranks_have_the_peaks_of_all_their_cards(parts: dict[str, Any]) -> None:
    assert parts["peaks"] == [
        {"card_peak_tflops": 200.0, "card_peak_gb_per_second": 6000.0},
        {"card_peak_tflops": None, "card_peak_gb_per_second": None},
        {},
    ]


@pytest.mark.torch
def test_powersgd_over_gloo_is_refused_whatever_the_buckets(parts: dict[str, Any]) -> None:
    """It hangs until the deadline, or dies."""
    assert len(parts["powersgd"]) == 3
    assert all("with NCCL only" in reason for reason in parts["powersgd"].values())


@pytest.mark.torch
def test_a_backend_that_lacks_a_collective_differs_from_one_that_fails(parts: dict[str, Any]) -> None:
    found = parts["lacking"]
    assert (found["bits of floats"], found["reduce_scatter"]) == (True, False)
    assert found["seconds"] > 0 and found["of no release"] is None
    # Alone it works: what failed is something else, whatever the text says.
    assert found["other"] == "a rank does not support this any more"


@pytest.mark.torch
def test_a_collective_too_large_for_memory_costs_no_number(parts: dict[str, Any]) -> None:
    assert parts["lacking"]["too large"] is None
    ranks = Ranks([], [[[1], [1]]])
    ranks.without = ("all_reduce",)
    metrics, _ = measure(ranks, KEY.with_technique(compile="default"))
    assert set(metrics) == {"all_gather_bandwidth", "reduce_scatter_bandwidth"}


@pytest.mark.torch
def test_nodes_that_are_missing_are_counted(parts: dict[str, Any]) -> None:
    refused: dict[str, str] = parts["refused"]
    wanting = {case: reason for case, reason in refused.items() if "nodes and the run" in reason}
    assert [reason.partition(":")[0] for reason in wanting.values()] == [
        "nodes=2 takes 2 nodes and the run has 1",
        "nodes=4 takes 4 nodes and the run has 1",
    ]


def test_bus_bandwidth_is_that_of_nccl_tests() -> None:
    # Two ranks move each byte once, many ranks twice.
    assert bus_bandwidth(10**9, 0.5, 2) == pytest.approx(2.0)
    assert bus_bandwidth(10**9, 1.0, 1000) == pytest.approx(1.998)
    # Each rank lacks all parts but its own.
    for kind in ("all_gather", "reduce_scatter"):
        assert bus_bandwidth(10**9, 0.5, 4, kind) == pytest.approx(1.5)


class Ranks:
    """Ranks whose steps take a scripted time."""

    def __init__(self, common: list[list[int]], local: list[list[list[int]]]) -> None:
        self.ranks = len(local[0])
        self.asked: list[str] = []
        self.without: tuple[str, ...] = ()
        self._common, self._local = common, local

    def common_steps(self) -> list[int]:
        self.asked.append("common")
        return self._common.pop(0)

    def local_steps(self) -> list[list[int]]:
        self.asked.append("local")
        return self._local.pop(0)

    def collective(self, kind: str, sizes: list[int]) -> list[float]:
        return [] if kind in self.without else [size / 1e9 for size in sizes]

    def gradient_bytes(self) -> int:
        return 3 * MIB


def test_exposed_communication_is_the_step_less_the_slowest_local_one() -> None:
    common = [[10_000_000] * 3, [12_000_000] * 4]
    local = [[[5_000_000], [7_000_000]], [[6_000_000] * 2, [8_000_000] * 2]]
    ranks = Ranks(common, local)
    metrics, facts = measure(ranks, KEY)
    assert ranks.asked == ["common", "local", "local", "common"]
    assert metrics == {
        "exposed_communication": pytest.approx(4.0),
        "exposed_share": pytest.approx(4 / 12),
        "rank_skew": pytest.approx(0.25),
        "bus_bandwidth": pytest.approx(1.0),
        "all_gather_bandwidth": pytest.approx(0.5),
        "reduce_scatter_bandwidth": pytest.approx(0.5),
    }
    assert facts["gradient_mib"] == 3


def test_noise_is_not_hidden_and_one_rank_has_neither_skew_nor_bandwidth() -> None:
    metrics, _ = measure(Ranks([[10], [10]], [[[11]], [[11]]]), KEY)
    assert set(metrics) == {"exposed_communication", "exposed_share"}
    assert metrics["exposed_share"] == pytest.approx(-0.1)


def test_compiled_steps_are_not_compiled_anew_to_leave_communication_out() -> None:
    ranks = Ranks([], [[[1], [1]]])
    metrics, _ = measure(ranks, KEY.with_technique(compile="default"))
    assert set(metrics) == {"bus_bandwidth", "all_gather_bandwidth", "reduce_scatter_bandwidth"}
    assert ranks.asked == []


def test_a_collective_that_the_backend_lacks_has_no_bandwidth() -> None:
    ranks = Ranks([], [[[1], [1]]])
    ranks.without = ("reduce_scatter",)
    metrics, facts = measure(ranks, KEY.with_technique(parallel="fsdp2"))
    # FSDP2 gathers and scatters: an all-reduce of all gradients may not fit beside its shards.
    assert set(metrics) == {"all_gather_bandwidth"}
    assert list(facts["all_gather_gb_per_second"]) == ["1", "4", "16", "64"]
