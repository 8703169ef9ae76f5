"""Quantised models on CUDA: which configuration of torchao is taken, and what it is given."""

from pathlib import Path

import pytest

from support.site import run_snippet

pytestmark = pytest.mark.torch


def test_weights_in_fewer_bits_are_those_of_a_model_in_bf16() -> None:
    torchao, two = run_snippet(Path(__file__).with_name("fewer_bits.py")), {"Linear": 2}
    int8, fp8 = "Int8DynamicActivationInt8Weight", "Float8DynamicActivationFloat8Weight"
    assert torchao["int8"] == {"asked": [[int8, {}, "torch.float32"]], "layers": two, "dtype": "torch.qint8"}
    bf16 = "torch.bfloat16"
    assert torchao["fp8"] == {"asked": [[fp8, {}, bf16]], "layers": two, "dtype": "torch.float8_e4m3fn"}
    layout = {"int4_packing_format": "tile_packed_to_4d"}
    asked = [["Int4WeightOnly", layout, bf16]]
    assert torchao["int4"] == {"asked": asked, "layers": two, "dtype": "int4"}
    assert torchao["int4 of an old release"]["asked"] == [["Int4WeightOnly", {}, bf16]]
    assert "compute capability 8.9 or newer" in torchao["fp8 on an A100"]
