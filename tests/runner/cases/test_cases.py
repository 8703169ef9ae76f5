"""The models that come with the harness: are they the models they say, and do they count right?"""

from typing import Any

import pytest

pytestmark = pytest.mark.torch

NAMES = [
    "bert_base",
    "bert_large",
    "custom_cnn",
    "custom_gru_cell",
    "gpt2_small",
    "lstm_lm",
    "mlp_overhead",
    "resnet50",
    "transformer_xl",
    "unet_block",
    "vit_b",
]


@pytest.fixture(scope="module")
def sizes(measured: Any) -> Any:
    return measured("sizes.py")


@pytest.fixture(scope="module")
def steps(measured: Any) -> Any:
    return measured("steps.py")


@pytest.fixture(scope="module")
def formulas(measured: Any) -> Any:
    return measured("formulas.py")


def test_all_models_are_registered_for_inference_and_training(sizes: Any) -> None:
    register = sizes["register"]
    # Their modules hold workloads that are tested elsewhere.
    elsewhere = ["autoencoder_block", "custom_lstm_cell", "diffusion_block", "dynamic_shapes", "image_sizes"]
    assert sorted(register) == sorted([*NAMES, *elsewhere, "recurrent_layer", "tiny_mlp"])
    for case in (register[name] for name in NAMES):
        assert case["phases"] == ["infer", "train"]
        assert case["summary"].endswith(".")


@pytest.mark.parametrize(
    ("name", "published"),
    [
        # torchvision.models.ResNet50_Weights: num_params of every entry.
        ("resnet50", 25_557_032),
        # Hugging Face `bert-base-uncased`, BertModel with its pooler; "110M" in the paper's section 3.
        ("bert_base", 109_482_240),
        # Hugging Face `bert-large-uncased`, BertModel with its pooler; "340M" in the same section.
        ("bert_large", 335_141_888),
        # torchvision.models.ViT_B_16_Weights.IMAGENET1K_V1: num_params.
        ("vit_b", 86_567_656),
        # OpenAI's released 12-layer checkpoint, head tied to the embedding; 124M in its model card.
        ("gpt2_small", 124_439_808),
    ],
)
def test_published_models_have_their_published_size(sizes: Any, name: str, published: int) -> None:
    full = next(size for size in sizes["sizes"] if size["name"] == name)
    assert full["parameters"] == published


def test_other_models_have_the_size_that_their_layers_add_up_to(sizes: Any) -> None:
    found: dict[str, int] = {}
    for size in sizes["sizes"]:
        found.setdefault(size["name"], size["parameters"])
    layer = 410 * 410 * 5 + (410 * 2100 + 2100) + (2100 * 410 + 410) + 4 * 410 + 2 * 410
    assert found["transformer_xl"] == 32768 * 410 + 16 * layer
    assert found["lstm_lm"] == 33278 * 650 + 2 * (8 * 650 * 650 + 8 * 650) + (650 * 33278 + 33278)
    assert found["custom_gru_cell"] == (128 + 256) * 768 + 2 * 768
    kernels = 9 * (3 * 64 + 64 * 128 + 128 * 256 + 256 * 256)
    assert found["custom_cnn"] == kernels + 2 * (64 + 128 + 256 + 256) + (4 * 256 * 10 + 10)
    # U-Net level of 320 channels: inputs and outputs of each convolution, and its kernel's size.
    kernels = [(320, 320, 9)] * 3 + [(320, 640, 9), (640, 640, 9), (320, 640, 1), (640, 640, 9)]
    kernels += [(960, 320, 9), (320, 320, 9), (960, 320, 1), (4, 320, 9)]
    times, norms = 1281 * (320 + 640 + 320), 2 * (320 + 320 + 320 + 640 + 960 + 320)
    assert found["unet_block"] == sum(i * o * k + o for i, o, k in kernels) + times + norms
    assert found["mlp_overhead"] == 513 * 1024 + 1025 * 1024 + 1025 * 10


def test_operations_on_paper_are_those_that_pytorch_counts(sizes: Any) -> None:
    assert {size["name"] for size in sizes["sizes"]} == set(NAMES)
    for size in sizes["sizes"]:
        assert size["flops"] == size["counted"], size


def test_operations_of_resnet50_are_the_published_ones(sizes: Any) -> None:
    # 4.089 G multiply-adds a 224 x 224 image: `_ops` of torchvision.models.ResNet50_Weights.
    full = sizes["sizes"][0]
    assert (full["name"], full["size"]) == ("resnet50", {"batch": 2, "image": 224})
    assert full["flops"] / (2 * full["size"]["batch"]) == pytest.approx(4.089e9, rel=1e-3)


def test_operations_of_vit_are_the_published_ones(sizes: Any) -> None:
    # 17.564 G multiply-adds an image: `_ops` of torchvision.models.ViT_B_16_Weights.IMAGENET1K_V1.
    full = next(size for size in sizes["sizes"] if size["name"] == "vit_b")
    assert full["flops"] / 2 == pytest.approx(17.564e9, rel=1e-3)


def test_what_repeats_can_be_checkpointed(sizes: Any) -> None:
    found: dict[str, list[str]] = {}
    for size in sizes["sizes"]:
        found.setdefault(size["name"], size["checkpointed"])
    for name, container, count in [
        ("bert_base", "layers", 12),
        ("bert_large", "layers", 24),
        ("gpt2_small", "layers", 12),
        ("transformer_xl", "layers", 16),
        ("vit_b", "layers", 12),
        ("resnet50", "blocks", 16),
    ]:
        assert found.pop(name) == [f"{container}.{index}" for index in range(count)]
    assert found.pop("unet_block") == ["down", "below", "up"]
    assert set().union(*found.values()) == set()


def test_items_are_counted_in_what_the_unit_says(sizes: Any) -> None:
    for size in sizes["sizes"]:
        per_sample = size["size"]["tokens"] if size["unit"] == "tokens" else 1
        assert size["items"] == size["size"]["batch"] * per_sample, size
    units = {size["name"]: size["unit"] for size in sizes["sizes"]}
    assert units == {
        "bert_base": "tokens",
        "bert_large": "tokens",
        "custom_cnn": "images",
        "custom_gru_cell": "sequences",
        "gpt2_small": "tokens",
        "lstm_lm": "tokens",
        "mlp_overhead": "samples",
        "resnet50": "images",
        "transformer_xl": "tokens",
        "unet_block": "images",
        "vit_b": "images",
    }


def test_answers_have_their_shapes_and_are_numbers(steps: Any) -> None:
    shapes = {name: steps[name]["infer"]["shapes"] for name in NAMES}
    assert shapes == {
        "bert_base": [[2, 16, 768], [2, 768]],
        "bert_large": [[2, 16, 1024], [2, 1024]],
        "custom_cnn": [[4, 10]],
        "custom_gru_cell": [[4, 32]],
        "gpt2_small": [[2, 16, 512]],
        "lstm_lm": [[2, 4, 512]],
        "mlp_overhead": [[4, 10]],
        "resnet50": [[2, 1000]],
        "transformer_xl": [[2, 16, 512], [2, 2, 150, 410]],
        "unet_block": [[2, 32, 8, 8]],
        "vit_b": [[2, 1000]],
    }
    for name in NAMES:
        infer = steps[name]["infer"]
        assert infer["finite"] and not infer["constant"], name
        assert infer["dtypes"] == ["torch.float32"], name


@pytest.mark.parametrize("name", NAMES)
def test_a_seed_decides_weights_and_inputs(steps: Any, name: str) -> None:
    assert steps[name]["same_seed"] == 0.0
    assert steps[name]["other_seed"] > 0.1


@pytest.mark.parametrize("name", NAMES)
def test_training_reaches_every_weight_and_lowers_the_loss(steps: Any, name: str) -> None:
    assert steps[name]["untouched"] == []
    losses = steps[name]["losses"]
    assert losses[2] < losses[1] < losses[0]


@pytest.mark.parametrize("name", NAMES)
def test_a_training_step_draws_nothing(steps: Any, name: str) -> None:
    once, twice = steps[name]["repeated"]
    assert once == twice == steps[name]["losses"][0]


# `nn.LSTM` is the one module that Dynamo refuses, so that `lstm_lm` always runs eager.
@pytest.mark.parametrize("name", [name for name in NAMES if name != "lstm_lm"])
def test_the_compiler_sees_one_graph_with_the_same_answer(steps: Any, name: str) -> None:
    compiled = steps[name]["compiled"]
    # One graph for inference and one for training, and no other.
    assert compiled["graphs"] == 2
    assert compiled["answer"] < 1e-4
    assert compiled["loss"] < 1e-4
    assert compiled["gradient"] < 1e-3


def test_the_gru_written_by_hand_is_the_gru_of_pytorch(formulas: Any) -> None:
    assert formulas["gru"] < 1e-5


def test_attention_is_multi_head_attention(formulas: Any) -> None:
    assert len(formulas["attention"]) == 2
    assert max(formulas["attention"]) < 1e-5


def test_relative_attention_is_the_formula_taken_score_by_score(formulas: Any) -> None:
    assert formulas["relative_attention"] < 1e-5
    assert formulas["shift"] and set(formulas["shift"]) == {0.0}


def test_language_models_see_no_future(formulas: Any) -> None:
    expected = [False] * 5 + [True] * 3
    assert formulas["reach"] == {"gpt2": expected, "transformer_xl": expected}


def test_the_memory_of_transformer_xl_is_used_and_moves_on(formulas: Any) -> None:
    assert formulas["memory"]["carried"] == 0.0
    assert formulas["memory"]["embedded"] == 0.0
    assert formulas["memory"]["used"] > 1e-4


def test_resnet50_halves_its_maps_where_the_paper_does(formulas: Any) -> None:
    stages = [([256, 56, 56], 3), ([512, 28, 28], 4), ([1024, 14, 14], 6), ([2048, 7, 7], 3)]
    assert formulas["resnet"] == [shape for shape, count in stages for _ in range(count)]


def test_gradients_of_resnet50_are_not_made_of_rounding_errors(formulas: Any) -> None:
    # 2e-2 with every block at full scale: more than any tolerance of a correctness check.
    assert formulas["resnet_gradients"] < 1e-3


def test_the_loss_is_cross_entropy_in_fp32(formulas: Any) -> None:
    assert formulas["loss"]["error"] < 1e-6
    assert formulas["loss"]["dtype_from_bf16"] == "torch.float32"
