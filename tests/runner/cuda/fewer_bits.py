"""What a stand-in for torchao makes of a model, on a CUDA device that there is not."""

import importlib.machinery
import json
import sys
from pathlib import Path
from types import ModuleType
from unittest import mock

import torch

sys.path.append(str(Path(__file__).parents[1] / "techniques/snippets"))

import small_cases

from runner.worker.case_key import CaseKey
from runner.worker.prepared_case import UnsupportedCase, begin
from runner.worker.techniques import precision


def torchao(precision_, capability=(9, 0), release="new"):
    """What a stand-in for torchao is asked for, and what becomes of a model of two layers."""
    asked = []

    def config(name):
        def make(**options):
            if options and release == "old":
                raise TypeError("unexpected keyword argument")
            return [name, options]

        return make

    def quantize(model, how):
        asked.append([*how, str(next(model.parameters()).dtype)])
        for one in model.modules():
            if isinstance(one, torch.nn.Linear):
                one.weight = torch.nn.Parameter(one.weight.detach().clone())

    module = ModuleType("torchao.quantization")
    module.quantize_ = quantize
    for name in ("Int8DynamicActivationInt8Weight", "Float8DynamicActivationFloat8Weight", "Int4WeightOnly"):
        setattr(module, f"{name}Config", config(name))
    package = ModuleType("torchao")
    package.__version__ = "0.15"
    package.__spec__ = importlib.machinery.ModuleSpec("torchao", None)
    prep = begin(CaseKey.parse(f"layers/infer/-/precision={precision_}"), "cpu", small_cases.layers())
    prep.device = "cuda:0"
    with (
        mock.patch.dict(sys.modules, {"torchao": package, "torchao.quantization": module}),
        mock.patch.object(torch.cuda, "get_device_capability", lambda device: capability),
    ):
        try:
            precision.apply(prep)
        except UnsupportedCase as error:
            return str(error)
    facts = {"layers": prep.facts["quantised"], "dtype": prep.facts["dtype"]}
    return {"asked": asked, "by": prep.facts["quantised_by"], **facts}


print(
    json.dumps(
        {
            "int8": torchao("int8-torchao", (7, 5)),
            "fp8": torchao("fp8-torchao"),
            "fp8 on an A100": torchao("fp8-torchao", (8, 0)),
            "int4": torchao("int4-torchao", (8, 0)),
            "int4 of an old release": torchao("int4-torchao", release="old"),
        }
    )
)
