"""The families in which regressions live: is each case what it says, and does it count right?"""

from typing import Any

import pytest

from runner.suites.suite import built_in
from runner.worker.case import FAMILIES

pytestmark = pytest.mark.torch


@pytest.fixture(scope="module")
def families(measured: Any) -> Any:
    return measured("families.py")


def _answers(families: Any) -> dict[str, Any]:
    return {name: found for name, found in families["every"].items() if "error" in found}


def test_every_answer_is_that_of_double_precision(families: Any) -> None:
    answers = _answers(families)
    assert len(answers) > 80
    assert {name: found["error"] for name, found in answers.items() if not found["error"] < 1e-3} == {}


def test_a_seed_decides_every_answer(families: Any) -> None:
    assert {name for name, found in _answers(families).items() if found["same_seed"]} == set()


def test_operations_on_paper_are_those_that_pytorch_counts(families: Any) -> None:
    # PyTorch's counter takes the gradients of grouped convolutions for those of ungrouped ones, and does not
    # see those of the CPU's fused attention.
    off = {
        name: (found["flops"], found["counted"])
        for name, found in _answers(families).items()
        if found["counted"] is not None and found["flops"] != pytest.approx(found["counted"], rel=1e-3)
    }
    assert set(off) == {
        "attention_backward kind=causal",
        "attention_backward kind=plain",
        "convolution_backward kind=depthwise",
        "convolution_backward kind=grouped",
    }


@pytest.mark.parametrize("model", ["llama", "gpt2"])
@pytest.mark.parametrize("growing", ["False", "True"])
def test_tokens_one_by_one_give_the_logits_of_the_whole_prompt(
    families: Any, model: str, growing: str
) -> None:
    assert families["decoded"][f"{model} {growing}"] < 1e-4


def test_generation_takes_the_best_token_each_time(families: Any) -> None:
    assert families["generated"] < 1e-4


def test_gradients_by_transforms_are_those_of_each_sample(families: Any) -> None:
    assert families["per_sample"] < 1e-4
    assert families["inner"] < 1e-4


def test_messages_are_summed_over_edges(families: Any) -> None:
    assert families["graph"] < 1e-5


def test_each_token_takes_its_two_best_experts(families: Any) -> None:
    assert max(families["experts"]) < 1e-5


def test_bags_are_sums_of_their_rows(families: Any) -> None:
    assert families["bags"] < 1e-6


def test_gradients_alone_are_those_of_calculus_and_stay(families: Any) -> None:
    assert families["gradient"] < 1e-6


def test_windows_complex_numbers_derivatives_and_padding_are_those_of_a_second_way(families: Any) -> None:
    assert families["windows"] < 1e-5
    assert families["rms_norm"] < 1e-5
    assert families["complex_product"] < 1e-5
    assert max(families["jacobian"].values()) < 1e-5
    assert families["padded"] < 1e-5


def test_blocks_of_a_mask_hide_what_the_whole_mask_hides(families: Any) -> None:
    used, made = families["documents"]
    assert used < 1e-5
    assert made == 0


def test_eight_bits_are_the_nearest_of_256_numbers(families: Any) -> None:
    off = families["eight_bits"]
    # A sum half way between two numbers may go to either.
    assert off.pop("add") <= 1.0
    assert {kind for kind, error in off.items() if not error < 1e-5} == set()


def test_mxfp8_rounds_to_the_nearest_number_that_its_block_has(families: Any) -> None:
    found = families["microscaled"]
    assert (found["apart"], found["scales"]) == (0.0, 0.0)
    # Numbers of e4m3 are 1/8 to 1/16 apart.
    assert 1e-2 < found["rounding"] < 5e-2


def test_nested_and_distributed_tensors_compute_what_plain_ones_do(families: Any) -> None:
    assert families["sentences"] < 1e-5
    assert max(families["distributed"]) < 1e-6


def test_rotation_keeps_lengths_and_knows_distances_alone(families: Any) -> None:
    rotated = families["rotated"]
    assert rotated["length"] == pytest.approx(1.0, rel=1e-5)
    first, second = rotated["apart"]
    assert first == pytest.approx(second, rel=1e-4)
    assert rotated["other"] != pytest.approx(first, rel=1e-3)


def test_a_dense_block_concatenates_all_its_layers(families: Any) -> None:
    assert families["dense_width"] == 64 + 6 * 32


def test_an_operator_in_cpp_and_a_cell_in_python_are_those_of_pytorch(families: Any) -> None:
    assert families["operator_in_cpp"] == 0.0
    assert families["lstm"] < 1e-5


def test_waits_of_requests_are_those_after_the_first_calls(families: Any) -> None:
    assert families["waits"] == {
        "0": {"many": 0, "positive": True},
        "2": {"many": 2 * 64, "positive": True},
    }


def test_every_built_in_case_is_of_a_known_family(families: Any) -> None:
    assert set(families["families"].values()) == set(FAMILIES)


def test_a_night_on_a_cpu_leaves_no_family_out(families: Any) -> None:
    names = {case.partition("/")[0] for case in built_in()["nightly-cpu"].cases}
    assert {families["families"][name] for name in names} == set(FAMILIES)
