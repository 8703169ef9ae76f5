"""The single operations: are they what they say, do they count right, and do they miss the caches?"""

from typing import Any

import pytest

pytestmark = pytest.mark.torch

NAMES = [
    "conv2d",
    "conv_channels",
    "cross_entropy",
    "embedding",
    "gemm",
    "layernorm_gelu",
    "matmul",
    "sdpa",
    "softmax",
]


@pytest.fixture(scope="module")
def operations(measured: Any) -> Any:
    return measured("operations.py")


@pytest.fixture(scope="module")
def stored_gradients(measured: Any) -> Any:
    return measured("stored_gradients.py")


def test_every_operation_is_there_for_inference(operations: Any) -> None:
    assert sorted(operations["phases"]) == NAMES
    assert set(map(tuple, operations["phases"].values())) == {("infer",)}
    assert all(summary.endswith(".") for summary in operations["summaries"].values())


@pytest.mark.parametrize("name", NAMES)
def test_the_answer_is_the_formula_s(operations: Any, name: str) -> None:
    assert operations["small"][name]["error"] < 1e-6


@pytest.mark.parametrize("name", NAMES)
def test_a_seed_decides_the_inputs(operations: Any, name: str) -> None:
    assert operations["small"][name]["same_seed"] == 0.0
    assert operations["small"][name]["other_seed"] > 0.01


@pytest.mark.parametrize("name", NAMES)
def test_inputs_in_bf16_give_an_answer_in_bf16(operations: Any, name: str) -> None:
    half = operations["small"][name]["bf16"]
    assert half["dtype"] == "torch.bfloat16"
    assert 0 < half["error"] < 2e-2


def test_operations_on_paper_are_those_that_pytorch_counts(operations: Any) -> None:
    counted = {name: found["counted"] for name, found in operations["small"].items()}
    on_paper = {name: found["flops"] or 0 for name, found in operations["small"].items()}
    assert on_paper == counted
    assert {name for name, flops in on_paper.items() if not flops} == {
        "cross_entropy",
        "embedding",
        "layernorm_gelu",
        "softmax",
    }


def test_items_are_counted_in_what_the_unit_says(operations: Any) -> None:
    assert {name: (found["items"], found["unit"]) for name, found in operations["small"].items()} == {
        "conv2d": (2, "images"),
        "conv_channels": (3, "images"),
        "cross_entropy": (12, "rows"),
        "embedding": (40, "tokens"),
        "gemm": (33, "rows"),
        "layernorm_gelu": (12, "rows"),
        "matmul": (24, "rows"),
        "sdpa": (20, "tokens"),
        "softmax": (12, "rows"),
    }


@pytest.mark.parametrize("name", [name for name in NAMES if name != "embedding"])
def test_copies_of_the_inputs_fill_what_no_cache_holds(operations: Any, name: str) -> None:
    found = operations["small"][name]["rotation"]
    assert found["apart"] and found["equal"] and found["alike"]
    assert found["sets"] == (1 << 20) // found["set_bytes"]


@pytest.mark.parametrize(("technique", "half"), [("bf16", True), ("channels-last", False)])
def test_inputs_are_copied_as_they_are_computed_with(operations: Any, technique: str, half: bool) -> None:
    plain, found = operations["small"]["conv2d"]["rotation"], operations["precisions"][technique]
    assert found["set_bytes"] * (2 if half else 1) == plain["set_bytes"]
    assert (1 << 20) - found["set_bytes"] < found["bytes"] <= 1 << 20
    assert found["apart"] and found["equal"] and found["alike"]
    assert found["channels_last"] == (technique == "channels-last")


def test_copies_lie_in_memory_as_the_input_does(operations: Any) -> None:
    layouts = operations["layouts"]
    assert all(found["apart"] and found["equal"] and found["alike"] for found in layouts.values())
    # By the memory that a copy takes: 16 rows of 32 numbers, as much without the last gap, a single row.
    assert {name: found["sets"] for name, found in layouts.items()} == {
        "transposed": (1 << 20) // (4 * 16 * 32),
        "gaps": (1 << 20) // (4 * (16 * 32 - 1)),
        "expanded": 4096,
    }


def test_only_timed_steps_take_copies(operations: Any) -> None:
    sets = operations["sets"]
    assert sets["timed"] == (1 << 20) // (4 * 12 * 70)
    assert (sets["check"], sets["error"]) == ([1], 0.0)
    assert sets["fingerprint"] == 1


def test_an_embedding_looks_up_other_rows_each_time(operations: Any) -> None:
    found = operations["small"]["embedding"]["rotation"]
    assert found["apart"] and not found["equal"]


def test_inputs_larger_than_all_copies_may_be_are_not_copied(operations: Any) -> None:
    assert operations["larger"] == 1


def test_every_weight_gets_its_stored_gradient_and_no_copy_of_it(stored_gradients: Any) -> None:
    assert stored_gradients["weights"] == 7_087_872
    assert stored_gradients["handed"] == stored_gradients["tensors"] == 12
    assert stored_gradients["unchanged"]


def test_the_loss_has_the_stored_gradient_where_it_looks(stored_gradients: Any) -> None:
    ((moved, expected),) = stored_gradients["loss_moves"]
    assert moved == pytest.approx(expected, rel=1e-4)


def test_every_implementation_takes_the_step_of_adamw(stored_gradients: Any) -> None:
    assert set(stored_gradients["steps"]) == {"fused", "foreach", "loop"}
    for error in stored_gradients["steps"].values():
        assert error < 1e-6


def test_a_scaled_loss_is_refused(stored_gradients: Any) -> None:
    assert stored_gradients["scaled"].startswith("stored gradients cannot be scaled")


def test_stored_gradients_are_not_shared_between_ranks(stored_gradients: Any) -> None:
    assert stored_gradients["shared"] == "stored gradients cannot be shared between ranks"
