"""Small models taken out of eager Python in every way, as a case takes them; warnings of age are errors."""

import importlib.util
import json
import os
import sys
import tempfile
import warnings
from pathlib import Path
from unittest import mock

import torch
import torch._inductor.config
from torch import nn

from runner.worker.case import Workload, case
from runner.worker.case_key import CaseKey
from runner.worker.correctness import compare
from runner.worker.prepared_case import UnsupportedCase
from runner.worker.techniques import export
from runner.worker.techniques.apply import build

WAYS = ("jit-trace", "jit-freeze", "jit-script", "export", "aot-inductor", "onnxruntime")
PACKAGES = ("onnx", "onnxscript", "onnxruntime")


NOT_FOR_ONNX = ("attention=math", "onednn=off")


class Pair(nn.Module):
    def __init__(self):
        super().__init__()
        self.table = nn.Embedding(50, 512)
        self.layer = nn.Linear(512, 1024)

    def forward(self, words, shift):
        hidden = self.layer(self.table(words)) + shift
        return hidden.relu(), hidden.mean(-1)


class Named(Pair):
    def forward(self, words, shift):
        hidden = self.layer(self.table(words)) + shift
        return {"relu": hidden.relu(), "mean": hidden.mean(-1)}


class Undecided(nn.Linear):
    def forward(self, x):
        return x + 1 if x.sum() > 0 else super().forward(x)


def words():
    return torch.randint(50, (2, 3)), torch.randn(2, 3, 1)


@case(phases=("infer", "train"))
def pair():
    return Workload(Pair(), words(), items=2, loss=lambda out: out[0].sum(), variants=(words(), words()))


@case()
def named():
    return Workload(Named(), words(), items=2, variants=(words(), words()))


@case()
def undecided():
    return Workload(Undecided(4, 4), (torch.ones(2, 4),), items=2)


@case()
def shapes():
    return Workload(nn.Linear(4, 4), (torch.ones(2, 4),), items=2, variants=((torch.ones(3, 4),),))


@case()
def reporting():
    return Workload(nn.Linear(4, 4), (torch.ones(2, 4),), items=2, report=lambda: {"data_wait": 0.5})


def staged(name, technique, phase="infer"):
    return build(CaseKey.parse(f"{name}/{phase}/-/{technique}"), "cpu", seed=1)


def structure(value):
    if isinstance(value, dict):
        return {key: structure(part) for key, part in value.items()}
    return [structure(part) for part in value] if isinstance(value, (list, tuple)) else list(value.shape)


def looked_at(name, way):
    """One way of exporting: three answers against the eager model's, their structure, metrics and facts."""
    exported, eager = staged(name, f"export={way}"), staged(name, "eager")
    checks = [compare(exported.step(), eager.step(), 1e-5) for _ in range(3)]
    return {
        "error": max(check.error for check in checks),
        "wrong": [check.wrong for check in checks if check.wrong],
        "structure": structure(exported.step()) == structure(eager.step()),
        "metrics": exported.metrics,
        "facts": exported.facts,
        "parameters": exported.parameters,
    }


def reason(name, technique, phase="infer"):
    """Why a technique cannot be had, or the exception that came instead."""
    try:
        staged(name, technique, phase)
    except UnsupportedCase as error:
        return str(error)
    except Exception as error:
        return f"{type(error).__name__} of another kind"
    return None


def files_in(folder):
    """The names of all files in the folder, at any depth."""
    return [file.name for file in Path(folder).rglob("*") if file.is_file()]


def saved():
    """Bytes of the traced model and of the exported program, written here without the harness."""
    prepared = staged("pair", "eager")
    with tempfile.TemporaryDirectory() as folder, warnings.catch_warnings():
        warnings.simplefilter("ignore")
        model, inputs = prepared.model, words()
        torch.jit.trace(model, inputs).save(f"{folder}/model.pt")
        torch.export.save(torch.export.export(model, inputs), f"{folder}/model.pt2")
        bytes_of = {file.name: file.stat().st_size for file in Path(folder).iterdir()}
    return {"jit-trace": bytes_of["model.pt"], "export": bytes_of["model.pt2"]}


def removed():
    """Reasons where the functions are gone; a model that fits in no memory is another matter."""
    trace, script, export = torch.jit.trace, torch.jit.script, torch.export.export
    del torch.jit.trace, torch.jit.script, torch.export.export
    found = {way: reason("pair", f"export={way}") for way in ("jit-trace", "jit-script", "export")}

    def starving(*_, **__):
        raise RuntimeError("[enforce fail at alloc_cpu.cpp] DefaultCPUAllocator: can't allocate memory")

    torch.jit.trace, torch.jit.script, torch.export.export = starving, script, export
    found["starving"] = reason("pair", "export=jit-trace")
    torch.jit.trace = trace
    return found


def kernels_while_exporting():
    """Whether fused attention and oneDNN are allowed while a model is exported without them."""
    found = []

    def way(prep, package):
        found.append([torch.backends.cuda.flash_sdp_enabled(), torch.backends.mkldnn.enabled])
        return prep.model, lambda: None

    with mock.patch.dict(export._WAYS, {"aot-inductor": way}):
        staged("pair", "attention=math,export=aot-inductor,onednn=off")
    return found


def absent(*names):
    """Have the import system say that these packages are not installed."""
    sys.modules.update(dict.fromkeys(names, None))


def main():
    warnings.simplefilter("error", DeprecationWarning)
    # What is compiled here is small: to compile headers first took most of the time.
    torch._inductor.config.aot_inductor.precompile_headers = False
    runtime = all(importlib.util.find_spec(name) for name in PACKAGES)
    with tempfile.TemporaryDirectory() as folder:
        tempfile.tempdir = os.environ["TMPDIR"] = folder
        shell = f"{folder}/of-the-shell"
        os.environ |= {"TORCHINDUCTOR_CACHE_DIR": shell, "TRITON_CACHE_DIR": shell}
        variables = dict(os.environ)
        # Answers with names are the harder ones; a script takes none.
        with_names = ["jit-trace", "export", *(["onnxruntime"] if runtime else [])]
        results = {
            "pair": {way: looked_at("pair", way) for way in ("jit-trace", "jit-script", "export")},
            "named": {way: looked_at("named", way) for way in with_names},
            "aot-inductor": looked_at("named", "aot-inductor"),
            "warmed": files_in(shell),
            "left": [*files_in(folder), *sorted(dict(os.environ).items() ^ variables.items())],
            "shapes": looked_at("shapes", "jit-script")["error"],
            "saved": saved(),
        }
    tempfile.tempdir = None
    results["refused"] = {way: reason("undecided", f"export={way}") for way in ("export", "aot-inductor")}
    results["refused"]["jit-script"] = reason("undecided", "export=jit-script")
    results["train"] = {way: reason("pair", f"export={way}", "train") for way in WAYS}
    results["compiled"] = reason("pair", "compile=default,export=export")
    results["autocast"] = reason("pair", "export=jit-trace,precision=amp-bf16")
    results["reporting"] = reason("reporting", "export=jit-trace")
    results["several"] = {way: reason("shapes", f"export={way}") for way in WAYS if way != "jit-script"}
    results["removed"] = removed()
    results["kernels"] = kernels_while_exporting()
    absent(*PACKAGES, "torch_xla")
    results["absent"] = reason("pair", "export=onnxruntime")
    results["xla"] = {
        "absent": reason("pair", "compile=openxla"),
        "train": reason("pair", "compile=openxla", "train"),
        "autocast": reason("pair", "compile=openxla,precision=amp-bf16"),
    }
    for name, values in (("xla", ("attention=math", "wrapper=cpp", "freezing=on")), ("onnx", NOT_FOR_ONNX)):
        technique = "compile=openxla" if name == "xla" else "export=onnxruntime"
        results[f"{name} lacks"] = {value: reason("pair", f"{technique},{value}") for value in values}
    print(json.dumps(results))


main()
