"""What workloads are fed with, by hand and really measured: inputs in turn, other shapes, a DataLoader."""

from dataclasses import replace
from typing import Any

import pytest

from support.measuring import Happened, Scratch, conditions, forked, measure

pytestmark = pytest.mark.torch

FED_BY_PROCESSES = "input_pipeline/infer/batch=2,non_blocking=False,pin=False,prefetch=2,workers=2/eager"
PINNED = "input_pipeline/infer/batch=2,non_blocking=False,pin=True,prefetch=2,workers=1/eager"
SHAPES = "dynamic_shapes/infer/batch=1,layers=1,lengths=3/eager"
OPTIMIZER = "optimizer_step/train/layers=1/optimizer=loop"
TO_DEVICE = "host_copy/infer/direction=to_device,mebibytes=2,pinned=False/eager"
TO_HOST = "host_copy/infer/direction=to_host,mebibytes=2,pinned=False/eager"
PINNED_COPY = "host_copy/infer/direction=to_host,mebibytes=2,pinned=True/eager"
PEER = "peer_copy/infer/mebibytes=1/eager"
SPLIT = "split_layer/train/batch=1,tokens=8,width=64/eager"
#: Their answers are looked at, and no memory: they are measured in forked workers.
FORKED = (PINNED, SHAPES, OPTIMIZER, TO_DEVICE, TO_HOST, PINNED_COPY, PEER, SPLIT)


@pytest.fixture(scope="module")
def feeding(measured: Any) -> Any:
    return measured("feeding.py")


@pytest.fixture(scope="module")
def happened(module_scratch: Scratch) -> Happened:
    shared = conditions(module_scratch.folder)
    with forked(shared) as forking:
        first = measure(forking, [[case] for case in FORKED])
    rest = measure(shared, [[FED_BY_PROCESSES]])
    return replace(rest, outcomes=(*first.outcomes, *rest.outcomes))


def of(happened: Happened, case: str) -> Any:
    """The only outcome of a case."""
    (outcome,) = [outcome for outcome in happened.outcomes if outcome.case == case]
    return outcome


@pytest.mark.parametrize("case", [FED_BY_PROCESSES, SHAPES, OPTIMIZER, TO_DEVICE, TO_HOST])
def test_it_is_measured_and_its_answer_is_right(happened: Happened, case: str) -> None:
    outcome = of(happened, case)
    assert outcome.status == "ok", outcome.reason
    assert outcome.facts["check"]["error"] <= outcome.facts["check"]["tolerance"]
    assert outcome.metrics["latency"] > 0


def test_the_share_of_waiting_is_reported_and_no_process_is_left(
    happened: Happened, module_scratch: Scratch
) -> None:
    assert 0 < of(happened, FED_BY_PROCESSES).metrics["data_wait"] < 1
    assert "data_wait" not in of(happened, SHAPES).metrics
    module_scratch.assert_no_process_left(happened.run)


def test_pinned_memory_without_cuda_is_unsupported(happened: Happened, feeding: Any) -> None:
    outcome = of(happened, PINNED)
    assert outcome.status == "unsupported"
    assert "pinned memory and non-blocking copies need a CUDA device" in outcome.reason
    assert feeding["refused"] == ["pinned memory and non-blocking copies need a CUDA device"] * 2


@pytest.mark.parametrize("case", [TO_DEVICE, TO_HOST])
def test_a_copy_has_the_bandwidth_of_its_bytes(happened: Happened, case: str) -> None:
    outcome = of(happened, case)
    assert outcome.facts["check"]["error"] == 0.0
    gigabytes = 2 * 2**20 / 1e9
    assert outcome.metrics["bandwidth"] == pytest.approx(gigabytes / (outcome.metrics["latency"] / 1e3))
    assert "bandwidth" not in of(happened, SHAPES).metrics


@pytest.mark.parametrize("case", [PINNED_COPY, PEER, SPLIT])
def test_what_takes_a_device_more_is_unsupported(happened: Happened, case: str) -> None:
    assert of(happened, case).status == "unsupported"


def test_waiting_is_what_fetching_takes_of_a_step(feeding: Any) -> None:
    # Two seconds to fetch a batch, six to compute with it.
    assert feeding["waited"] == [0.25, 0.25]


def test_a_loader_with_processes_feeds_what_one_without_feeds(feeding: Any) -> None:
    fed = feeding["fed"]
    assert fed["shape"] == [4, 10]
    assert max(fed["processes"]) < 1e-5
    assert fed["other_seed"] > 1e-3


def test_the_network_gets_the_decoded_images_batch_after_batch(feeding: Any) -> None:
    fed = feeding["fed"]
    assert fed["batches"] == 8
    assert fed["images"] == 0.0
    assert 0.1 < fed["spread"] < 3
    assert fed["half"] == "torch.bfloat16"


def test_an_epoch_is_counted_as_one_step(feeding: Any) -> None:
    fed = feeding["fed"]
    assert fed["items"] == 4 * 8
    assert fed["flops"] == fed["counted"]


def test_a_copy_of_the_model_reports_too(feeding: Any) -> None:
    assert all(0 < share < 1 for share in feeding["fed"]["shares"])


def test_a_loader_is_not_traced_into_constants(feeding: Any) -> None:
    assert feeding["traced"] == "a trace would keep the batches it saw, and fetch no more"


def test_lengths_vary_around_their_mean_and_the_mean_comes_first(feeding: Any) -> None:
    shapes = feeding["shapes"]
    lengths = shapes["lengths"]
    assert sorted(lengths) == list(range(64, 193, 16))
    assert lengths[0] == 128
    assert lengths[1:] not in (sorted(lengths[1:]), sorted(lengths[1:], reverse=True))
    assert shapes["items"] == 2 * 128
    assert shapes["flops"] == shapes["counted"]
    assert shapes["even"] == "lengths must be odd, so that their mean is one of them, not 4"


def test_no_length_is_so_short_that_it_has_no_token(feeding: Any) -> None:
    many = "lengths must be 15 at most, or the shortest has no token, not 17"
    assert feeding["shapes"]["many"] == ["accepted", many]


def test_a_workload_says_what_is_wrong_with_it(feeding: Any) -> None:
    variants = "variants must be a tuple of tuples of tensors, such as ((x,), (y,))"
    assert feeding["complaints"] == {
        "right": "accepted",
        "a list": variants,
        "no tuple inside": variants,
        "one tensor more": "every variant must hold 1 tensors, as inputs does",
        "rotated as well": "rotated inputs are copies of one set: give either rotated or variants",
        "a bare name": 'checkpointed must be a tuple of names, such as ("layers.0",)',
        "the model itself": "checkpointed: the model has no submodule ''",
        "no such part": "checkpointed: the model has no submodule 'layers.7'",
    }
