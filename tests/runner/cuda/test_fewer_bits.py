"""Quantised models on CUDA: which configuration of torchao is taken, and what it is given."""

from pathlib import Path

import pytest

from support.site import run_snippet

pytestmark = pytest.mark.torch


def test_weights_in_fewer_bits_are_those_of_a_model_in_bf16() -> None:
    torchao, two = run_snippet(Path(__file__).with_name("fewer_bits.py")), {"Linear": 2}
    int8, fp8 = "Int8DynamicActivationInt8Weight", "Float8DynamicActivationFloat8Weight"
    bf16, own = "torch.bfloat16", {"layers": two, "by": "torchao 0.15"}
    assert torchao["int8"] == {**own, "asked": [[int8, {}, "torch.float32"]], "dtype": "torch.qint8"}
    assert torchao["fp8"] == {**own, "asked": [[fp8, {}, bf16]], "dtype": "torch.float8_e4m3fn"}
    int4, layout = torchao["int4"], "tile_packed_to_4d"
    assert int4["asked"] == [["Int4WeightOnly", {"int4_packing_format": layout}, bf16]]
    assert (int4["by"], int4["layers"], int4["dtype"]) == (f"torchao 0.15 {layout}", two, "int4")
    old = torchao["int4 of an old release"]
    assert (old["asked"], old["by"]) == ([["Int4WeightOnly", {}, bf16]], "torchao 0.15 by its defaults")
    assert "compute capability 8.9 or newer" in torchao["fp8 on an A100"]
