"""Models taken out of eager Python: the right answer, what it cost, and reasons where it cannot be had."""

from pathlib import Path
from typing import Any

import pytest

from support.measuring import conditions, measure
from support.site import run_snippet

pytestmark = pytest.mark.torch

FOLDER = Path(__file__).parent
#: What weighs the same in every way: an embedding of 50 x 512 and a layer of 512 x 1024 with its bias.
PARAMETERS = 50 * 512 + 512 * 1024 + 1024

USER_CASES = '''"""A model whose source only the harness holds, and one that decides by its data."""

from runner.worker.case import Workload, case
from torch import Tensor, nn
import torch


class Undecided(nn.Linear):
    def forward(self, x: Tensor) -> Tensor:
        if x.sum() > 0:
            return torch.nn.functional.linear(x, self.weight, self.bias) + 1
        return x


@case()
def undecided():
    """One branch or the other."""
    return Workload(Undecided(4, 4), (torch.ones(2, 4),), items=2)
'''


@pytest.fixture(scope="module")
def results() -> Any:
    return run_snippet(FOLDER / "snippets/exporting.py")


def every(results: Any) -> dict[str, Any]:
    """All that was exported, by workload and way."""
    exported = {f"{name} {way}": results[name][way] for name in ("pair", "named") for way in results[name]}
    return {**exported, "named aot-inductor": results["aot-inductor"]}


def test_every_way_answers_as_the_eager_model_for_every_input(results: Any) -> None:
    assert {"pair jit-trace", "pair jit-script", "pair export", "named jit-trace"} <= set(every(results))
    for name, exported in every(results).items():
        assert exported["wrong"] == [], name
        assert exported["error"] < 1e-5, name
        assert exported["structure"], name
        assert exported["parameters"] == PARAMETERS, name


def test_exporting_takes_time_and_packages_weigh_their_weights_and_little_more(results: Any) -> None:
    for name, exported in every(results).items():
        assert exported["metrics"]["export_time"] > 0, name
        packed = exported["metrics"]["package_size"] * 2**20 - 4 * PARAMETERS
        # AOTInductor's holds machine code and its source beside the weights.
        assert 0 < packed < (4e6 if "aot" in name else 1e5), name


def test_packages_weigh_what_the_same_model_saved_by_hand_weighs(results: Any) -> None:
    for way, size in results["saved"].items():
        assert results["pair"][way]["metrics"]["package_size"] * 2**20 == pytest.approx(size, rel=1e-3), way


def test_exporting_leaves_no_file_and_no_variable_behind(results: Any) -> None:
    assert results["left"] == []


def test_exporting_is_cold_whatever_cache_the_shell_has(results: Any) -> None:
    assert results["warmed"] == []


def test_a_script_takes_other_shapes_where_an_example_fixes_them(results: Any) -> None:
    assert results["shapes"] < 1e-6
    for way, reason in results["several"].items():
        assert reason == f"export={way} is for inputs of one shape, and this workload brings several"


def test_a_model_that_the_exporter_refuses_is_unsupported_in_its_words(results: Any) -> None:
    words = "GuardOnDataDependentSymNode: Could not guard on data-dependent expression"
    assert results["refused"]["export"].startswith(f"torch.export refuses the model: {words}")
    assert results["refused"]["aot-inductor"].startswith(f"torch.export refuses the model: {words}")
    assert results["refused"]["jit-script"].startswith("torch.jit.script refuses the model: ")
    assert all("\n" not in reason for reason in results["refused"].values())


def test_what_an_exported_model_cannot_be_combined_with(results: Any) -> None:
    for way, reason in results["train"].items():
        assert reason == f"export={way} is for inference: an exported model cannot train"
    assert results["compiled"] == "export=export leaves nothing to compile: give either export or compile"
    assert results["autocast"].startswith("export=jit-trace fixes number formats when exporting")
    left_behind = "export=jit-trace would leave behind what this workload measures by itself in Python"
    assert results["reporting"] == left_behind


def test_a_way_that_this_pytorch_has_lost_is_an_outcome(results: Any) -> None:
    for way in ("trace", "script"):
        gone = f"torch.jit.{way} was removed in this version of PyTorch ("
        assert results["removed"][f"jit-{way}"].startswith(gone)
    assert results["removed"]["export"].startswith("torch.export.export is not in this version of PyTorch (")


def test_running_out_of_memory_is_no_refusal(results: Any) -> None:
    assert results["removed"]["starving"] == "RuntimeError of another kind"


def test_missing_packages_are_named_with_the_way_to_get_them(results: Any) -> None:
    packages = "onnx onnxscript onnxruntime"
    assert results["absent"] == (
        f"{packages.replace(' ', ', ')} are not installed in this environment: pip install {packages}"
    )
    assert results["xla"]["absent"].startswith("torch_xla is not installed in this environment")


def test_xla_takes_over_inference_in_formats_of_its_own(results: Any) -> None:
    assert results["xla"]["train"] == "compile=openxla is measured for inference only"
    assert results["xla"]["autocast"] == "precision=amp-bf16 is nothing that compile=openxla takes over"


def test_kernels_are_chosen_while_a_model_is_exported(results: Any) -> None:
    # AOTInductor compiles the chosen ones in.
    assert results["kernels"] == [[False, False]]


def test_another_runtime_refuses_what_it_would_not_do(results: Any) -> None:
    for value, reason in results["onnx lacks"].items():
        assert reason == f"{value} means nothing to ONNX Runtime, which does this its own way"
    lacks = results["xla lacks"]
    assert lacks["attention=math"] == "attention=math means nothing to XLA, which does this its own way"
    for value in ("wrapper=cpp", "freezing=on"):
        assert lacks[value] == f"{value} is an option of compile=default, not of compile=openxla"


def test_onnx_runtime_says_what_it_is(results: Any) -> None:
    if "onnxruntime" not in results["named"]:
        pytest.skip("the measured environment has no onnx, onnxscript and onnxruntime")
    facts = results["named"]["onnxruntime"]["facts"]["onnxruntime"]
    assert (facts["providers"], facts["threads"]) == (["CPUExecutionProvider"], 1)


def test_a_users_model_is_scripted_and_a_refusal_ends_in_one_sentence(tmp_path: Path) -> None:
    (tmp_path / "mine.py").write_text(USER_CASES)
    ways = [f"undecided/infer/-/{technique}" for technique in ("export=jit-script", "export=export")]
    happened = measure(conditions(tmp_path, tmp_path / "mine.py"), [ways])
    outcomes = {outcome.case: outcome for outcome in happened.outcomes}
    scripted, refused = (outcomes[way] for way in ways)
    assert (scripted.status, scripted.reason) == ("ok", "")
    assert scripted.metrics["export_time"] > 0
    assert scripted.metrics["package_size"] > 4 * 20 / 2**20
    assert scripted.facts["check"]["error"] == 0.0
    assert (refused.status, refused.phase) == ("unsupported", "build")
    assert refused.reason.startswith("torch.export refuses the model: GuardOnDataDependentSymNode")
