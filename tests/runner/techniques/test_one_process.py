"""Techniques inside one process: the answer is right, the format is the requested one, reasons are given."""

import json
from pathlib import Path
from typing import Any

import pytest

from support.site import run_snippet

pytestmark = pytest.mark.torch

SNIPPET = Path(__file__).parent / "snippets/one_process.py"

#: Cases that have to be right, and a metric or fact that each must have.
RIGHT = [
    ("layers/infer/-/eager", {}),
    ("layers/infer/-/precision=amp-fp16", {}),
    ("layers/infer/-/precision=bf16", {"dtype": "torch.bfloat16"}),
    ("layers/infer/-/precision=fp16", {"dtype": "torch.float16"}),
    ("layers/infer/-/precision=int8-dynamic", {"quantised": {"Linear": 1}, "parameters": 808}),
    ("one_layer/infer/-/precision=int8-dynamic", {"quantised": {"Linear": 1}}),
    ("recurrent/infer/-/precision=int8-dynamic", {"quantised": {"LSTM": 1, "Linear": 1}}),
    ("images/infer/-/precision=int8-static", {"quantised": {"ConvReLU2d": 1, "Linear": 1}}),
    ("images/train/-/precision=int8-qat", {"quantised": {"rounded": 6}}),
    ("images/infer/-/onednn=off", {}),
    ("images/train/-/onednn=off", {}),
    ("images/infer/-/layout=channels-last", {}),
    ("images/infer/-/layout=channels-last,precision=bf16", {"dtype": "torch.bfloat16"}),
    ("images/train/-/layout=channels-last", {"optimizer": "fused"}),
    ("layers/train/-/precision=amp-fp16", {"optimizer": "fused"}),
    ("layers/train/-/precision=bf16", {"dtype": "torch.bfloat16"}),
    ("layers/train/-/optimizer=foreach", {"optimizer": "foreach"}),
    ("layers/train/-/optimizer=loop", {"optimizer": "loop"}),
    ("layers/train/-/checkpoint=on", {"checkpointed": 1}),
    ("blocks/train/-/checkpoint=on,compile=aot_eager", {"checkpointed": 1, "not_compiled": ""}),
    ("attends/train/-/attention=math,checkpoint=on", {"checkpointed": 1}),
    ("layers/infer/-/compile=aot_eager", {"not_compiled": ""}),
    ("several_shapes/train/-/compile=aot_eager", {"not_compiled": ""}),
    ("closure/infer/-/compile=aot_eager", {"not_compiled": ""}),
    ("closure/infer/-/precision=amp-bf16", {}),
    ("honest/infer/-/precision=amp-bf16", {}),
    ("honest/train/-/precision=amp-bf16", {}),
    ("masks_its_logits/infer/-/eager", {}),
]

#: Cases that are made to be wrong.
WRONG = [
    ("one_shape_is_wrong_when_compiled/infer/-/compile=aot_eager", "relative error 0.25 above"),
    ("is_wrong_channels_last/infer/-/layout=channels-last", "relative error 0.25 above"),
    ("goes_wrong_later/train/-/precision=bf16", "loss off by 0.5 after 2 updates, above the tolerance"),
    ("has_another_shape_in_bf16/infer/-/precision=amp-bf16", "shape (1, 4) instead of (2, 4)"),
    ("is_not_a_number/infer/-/eager", "the output holds NaN"),
    (
        "has_a_reference_that_is_not_a_number/infer/-/precision=amp-bf16",
        "the reference holds NaN, the output does not",
    ),
    ("differs_in_imaginary_parts/infer/-/eager", "relative error "),
    ("trains_otherwise_in_bf16/train/-/precision=amp-bf16", "relative error 1 above "),
    ("trains_to_infinity/train/-/eager", "loss inf, gradient norm inf: not finite"),
]

NO_CUDA = "needs a CUDA device, and this one is cpu"
PT2E = "compile=default,freezing=on,precision=int8-pt2e"

#: Techniques that cannot be had on a CPU with nothing but torch, or never with such a workload.
UNSUPPORTED = [
    (
        "layers/infer/-/precision=tf32",
        "precision=tf32 needs a CUDA device of compute capability 8.0 or newer",
    ),
    ("halves/infer/-/eager", "the case builds weights of torch.bfloat16"),
    ("layers/infer/-/precision=int8-torchao", "torchao is not installed in this environment"),
    ("layers/infer/-/precision=fp8-torchao", "needs a CUDA device of compute capability 8.9 or newer"),
    ("layers/infer/-/precision=int4-torchao", "needs a CUDA device of compute capability 8.0 or newer"),
    ("layers/train/-/precision=int4-torchao", "is for inference: int4 weights do not train"),
    ("layers/infer/-/compile=default,precision=int8-pt2e", "give compile=default,freezing=on"),
    (f"several_shapes/infer/-/{PT2E}", "it is for inputs of one shape"),
    (f"layers/infer/-/{PT2E}", "has no PT2E quantisation, and torchao is not installed"),
    ("layers/train/-/precision=int8-dynamic", "is for inference: int8 weights do not train"),
    ("no_layers/infer/-/precision=int8-dynamic", "finds no layer that it can quantise"),
    ("branches/infer/-/precision=int8-static", "precision=int8-static cannot trace this model: symbolically"),
    ("layers/infer/-/layout=channels-last", "no input of this workload has 4 dimensions"),
    ("layers/infer/-/checkpoint=on", "checkpoint=on is for training"),
    ("images/train/-/checkpoint=on", "needs a workload that names the blocks to wrap"),
    ("layers/infer/-/cudnn=benchmark", "is for a CUDA device, and this one is cpu"),
    ("layers/infer/-/device_allocator=async", "PyTorch's allocator for CUDA, and this device is cpu"),
    ("layers/infer/-/precision=int8-qat", "is for training"),
    ("layers/train/-/checkpoint=on,precision=int8-qat", "their recomputation (checkpoint=on) is lost"),
    ("layers/infer/-/memory=half", "limits PyTorch's allocator for CUDA, and this device is cpu"),
    ("layers/infer/-/optimizer=loop", "optimizer=loop is for training"),
    ("layers/infer/-/graph=capture", f"graph=capture {NO_CUDA}"),
    ("layers/train/-/graph=callables", f"graph=callables {NO_CUDA}"),
    ("layers/infer/-/compile=cudagraphs", f"compile=cudagraphs {NO_CUDA}"),
    ("layers/infer/-/compile=tensorrt", f"compile=tensorrt {NO_CUDA}"),
    ("layers/infer/-/compile=onnxrt", "onnxrt"),
    ("layers/infer/-/dynamic=on", "says how to compile, and this case does not compile"),
    ("layers/infer/-/region=blocks", "says what to compile, and this case does not compile"),
    ("images/infer/-/compile=aot_eager,region=blocks", "needs a workload that names its blocks"),
    ("layers/infer/-/compile=aot_eager,dynamic=mark", "needs inputs of several shapes"),
    ("closure/infer/-/precision=bf16", "a case given as a closure has no model to put into bf16"),
    ("closure/infer/-/memory=half", "limits PyTorch's allocator for CUDA"),
    ("closure/infer/-/compile=aot_eager,dynamic=mark", "has no inputs to mark as dynamic"),
    ("closure/infer/-/compile=openxla", "this case has none"),
    ("closure/infer/-/compile=default,freezing=on", "takes a closure that is called without gradients"),
    ("has_no_loss/train/-/eager", "case has_no_loss has no loss and cannot train"),
]

#: What shapes do to a compiler: by default the second shape makes the graph dynamic, and the third fits it.
RECOMPILES = {"auto": 1, "off": 2, "on": 0, "mark": 0}

OVERFLOWS = "overflows_twice/train/-/precision=amp-fp16"
LOOP = "breaks_in_a_loop/infer/-/compile=aot_eager"
IMPORTS = "imports_what_is_not_there/infer/-/compile=aot_eager"


def shapes_under(dynamic: str) -> str:
    """The key of the case with several shapes."""
    chosen = "" if dynamic == "auto" else f",dynamic={dynamic}"
    return f"several_shapes/infer/-/compile=aot_eager{chosen}"


@pytest.fixture(scope="module")
def results() -> Any:
    cases = [*(case for case, _ in (*RIGHT, *WRONG, *UNSUPPORTED)), *map(shapes_under, RECOMPILES)]
    with pytest.MonkeyPatch.context() as environment:
        environment.setenv("CASES", json.dumps([*cases, OVERFLOWS, LOOP, IMPORTS]))
        return run_snippet(SNIPPET)


@pytest.mark.parametrize(("case", "facts"), RIGHT, ids=[case for case, _ in RIGHT])
def test_the_answer_is_right_and_the_facts_are_reported(
    results: Any, case: str, facts: dict[str, Any]
) -> None:
    found = results["cases"][case]
    assert found.get("reason") is None
    assert found["wrong"] == ""
    assert facts.items() <= found["facts"].items()
    if not case.startswith("closure"):
        assert found["metrics"]["error"] <= found["tolerance"]
        assert ("loss_drift" in found["metrics"]) == ("/train/" in case)
        assert ("error_worst" in found["metrics"]) == ("/infer/" in case)


@pytest.mark.parametrize(("case", "reason"), WRONG, ids=[case for case, _ in WRONG])
def test_a_wrong_answer_is_wrong(results: Any, case: str, reason: str) -> None:
    assert results["cases"][case]["wrong"].startswith(reason)


@pytest.mark.parametrize(("case", "reason"), UNSUPPORTED, ids=[case for case, _ in UNSUPPORTED])
def test_what_cannot_be_had_is_unsupported_with_a_reason(results: Any, case: str, reason: str) -> None:
    found = results["cases"][case]
    assert found["status"] == "unsupported"
    assert reason in found["reason"]


def test_numbers_are_in_the_requested_format(results: Any) -> None:
    assert results["formats"] == {
        "bf16": "torch.bfloat16",
        "amp-fp16": "torch.float16",
        "weights of amp-fp16": "torch.float32",
        "int8-dynamic": "torch.qint8",
        "channels-last weights": True,
        "contiguous weights": False,
    }


@pytest.mark.parametrize("dtype", ["bf16", "fp16"])
def test_the_error_is_that_of_the_model_cast_by_hand(results: Any, dtype: str) -> None:
    expected = results["errors"][dtype]
    assert results["cases"][f"layers/infer/-/precision={dtype}"]["metrics"]["error"] == pytest.approx(
        expected
    )
    assert expected > 1e-5


def test_the_three_errors_are_the_formulas(results: Any) -> None:
    # Off by 0.5 in the last of 1, 2, 3.
    assert results["by_hand"]["compared"] == pytest.approx(
        {"error": 0.5 / 14**0.5, "error_worst": 0.5 / 3, "error_mean": 0.5 / 6}
    )


def test_answers_that_are_the_same_have_no_error_unless_they_hold_nan(results: Any) -> None:
    found = results["by_hand"]["same"]
    for last in ("2.0", "inf"):
        assert found[last]["error"] == found[last]["worst"] == found[last]["mean"] == 0.0
        assert found[last]["wrong"] == ""
    assert found["nan"]["wrong"]


def test_class_scores_agree_in_the_share_of_rows_with_the_same_class(results: Any) -> None:
    found = results["by_hand"]["classes"]
    assert found["scores"]["top1_agreement"] == 0.5
    assert "top1_agreement" not in found["none"] and "top1_agreement" not in found["several"]


def test_model_size_is_what_is_kept(results: Any) -> None:
    # 16 x 32 and 32 x 8 weights and their 40 biases.
    for precision, size in (("eager", 4), ("precision=bf16", 2), ("precision=amp-fp16", 4)):
        case = f"layers/infer/-/{precision}"
        assert results["cases"][case]["metrics"]["model_size"] == pytest.approx(808 * size / 2**20)
    for case, (saved, reported_size) in results["saved"].items():
        assert reported_size == pytest.approx(saved), case


def test_inputs_that_were_cast_or_laid_out_anew_are_not_kept(results: Any) -> None:
    assert results["inputs kept"] == {
        "several_shapes/eager": [3, 3],
        "several_shapes/precision=bf16": [3, 0],
        "images/layout=channels-last": [1, 0],
    }


def test_a_grad_scaler_skips_what_overflows_and_the_training_is_still_compared(results: Any) -> None:
    found = results["cases"][OVERFLOWS]
    assert found["metrics"]["scaler_skips"] == 2
    assert found["metrics"]["error"] < 1e-2
    assert found["wrong"] == found["note"] == ""
    assert results["cases"]["layers/train/-/precision=amp-fp16"]["metrics"]["scaler_skips"] == 0


def test_the_optimizer_is_the_implementation_it_is_called(results: Any) -> None:
    fused, foreach, loop = (set(results["operators"][name]) for name in ("fused", "foreach", "loop"))
    assert "aten::_fused_adamw_" in fused - foreach - loop
    assert "aten::_foreach_addcdiv_" in foreach - fused - loop
    assert "aten::addcdiv_" in loop - fused
    assert not any("foreach" in name for name in loop)


def test_a_model_in_int8_is_the_one_that_is_called_and_that_reports(results: Any) -> None:
    assert "quantized::linear_dynamic" in results["served"]["operators"]
    assert results["served"]["metrics"] == ["queue_latency", "queue_latency_p99"]


def test_alike_blocks_are_compiled_once_and_the_model_around_them_is_not(results: Any) -> None:
    whole, blocks = results["regions"]
    # Three blocks of two calls each in one graph, or one graph that all three share.
    assert (whole["graphs"], blocks["graphs"]) == (1, 1)
    assert whole["nodes"] == 3 * blocks["nodes"]
    assert (whole["blocks"], blocks["blocks"]) == (None, 3)
    assert blocks["wrong"] == "" and blocks["not compiled"] == ""


def test_freezing_makes_constants_of_weights(results: Any) -> None:
    assert results["constants"] == {"compile=default": False, "compile=default,freezing=on": True}


def test_a_step_of_several_shapes_is_the_mean_over_them(results: Any) -> None:
    assert results["step of shapes"] == pytest.approx(37_000)


def test_a_counter_that_dynamo_lacks_is_absent_and_not_zero(results: Any) -> None:
    assert "graph_breaks" in results["without reasons"]
    assert "recompiles" not in results["without reasons"]


def test_checkpointing_computes_a_block_again(results: Any) -> None:
    assert results["calls"] == {"off": 1, "on": 2}


@pytest.mark.parametrize("dynamic", RECOMPILES)
def test_shapes_that_differ_recompile_as_often_as_they_have_to(results: Any, dynamic: str) -> None:
    found = results["cases"][shapes_under(dynamic)]
    assert found["metrics"]["recompiles"] == RECOMPILES[dynamic]
    reasons = found["facts"]["compile"]["recompile_reasons"]
    assert len(reasons) == RECOMPILES[dynamic]
    assert all("size mismatch at index 0" in reason for reason in reasons)
    assert found["metrics"]["new_shape"] > 0
    assert found["metrics"]["known_shape"] > 0
    assert found["wrong"] == ""


def test_new_and_known_shapes_are_first_and_second_calls(results: Any) -> None:
    # One, other, one in turn: 9 ms is the process's first call, 4 ms the other's, 1 and 2 ms are second ones.
    assert results["by_hand"]["costs"] == {"new_shape": 0.004, "known_shape": 1.5}
    assert results["by_hand"]["alike"] == {}
    assert results["by_hand"]["calls"] == [6, 0]
    assert "known_shape" not in results["cases"]["layers/train/-/precision=bf16"]["metrics"]


def test_a_frame_that_fell_back_is_not_compiled_under_any_backend(results: Any) -> None:
    facts = results["cases"][LOOP]["facts"]
    assert facts["not_compiled"].endswith("fell back to eager")
    assert facts["compile"]["frames_ok"] < facts["compile"]["frames_total"]
    assert "User-inserted graph break" in facts["compile"]["fallbacks"][0]


def test_skipped_cuda_graphs_are_counted_with_reasons(results: Any) -> None:
    assert results["skipped_graphs"]["metrics"]["cudagraph_skips"] == 1
    assert "cpu device" in results["skipped_graphs"]["reasons"][0]
    assert "cudagraph_skips" not in results["cases"]["layers/infer/-/compile=aot_eager"]["metrics"]


def test_a_missing_compiler_is_unsupported_and_a_missing_module_of_the_model_is_a_crash(results: Any) -> None:
    assert results["missing_compiler"]["status"] == "unsupported"
    assert "no-such-compiler" in results["missing_compiler"]["reason"]
    assert results["missing_package"]["status"] == "unsupported"
    assert "apache-tvm" in results["missing_package"]["reason"]
    assert results["cases"][IMPORTS] == {
        "status": "crashed",
        "reason": "ModuleNotFoundError: No module named 'no_such_module'",
    }


def test_what_the_compiler_misses_is_part_of_the_reason(results: Any) -> None:
    found = results["missing_header"]
    assert found["status"] == "crashed"
    assert found["reason"].startswith("InductorError: CppCompileError: C++ compile error: fatal error: ")
    assert "Python.h: No such file or directory" in found["reason"]


def test_kernels_that_overlap_are_counted_once(results: Any) -> None:
    # 0 to 3 in three pieces, and 5 to 6.
    assert results["by_hand"]["union"] == 4
    assert results["by_hand"]["nothing"] == 0


def test_a_cpu_has_no_allocator_and_no_launches(results: Any) -> None:
    assert results["by_hand"]["allocator of a CPU"] == results["by_hand"]["launches of a CPU"] == {}


def test_a_ceiling_is_a_product_that_was_as_fast_twice(results: Any) -> None:
    ceiling = {"ceiling_tflops": pytest.approx(2 * 1024**3 / 0.040 / 1e12)}
    assert results["ceilings"]["quiet"] == {"found": ceiling, "facts": {}, "products": 13}
    assert results["ceilings"]["quiet later"] == {"found": ceiling, "facts": {}, "products": 15}
    assert results["ceilings"]["half a core at first"] == {"found": ceiling, "facts": {}, "products": 25}


def test_of_products_that_take_seconds_two_are_enough(results: Any) -> None:
    ceiling = {"ceiling_tflops": pytest.approx(2 * 1024**3 / 4 / 1e12)}
    assert results["ceilings"]["seconds each"] == {"found": ceiling, "facts": {}, "products": 2}


@pytest.mark.parametrize(("when", "products"), [("one moment", 51), ("half a core", 63)])
def test_without_two_products_that_agree_there_is_no_ceiling_but_a_note(
    results: Any, when: str, products: int
) -> None:
    found = results["ceilings"][when]
    assert found["found"] == {}
    note = f"no ceiling: of {products} products the two fastest do not agree, as beside other programs"
    assert found["facts"] == {"ceiling_note": note}
