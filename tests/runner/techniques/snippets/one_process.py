"""Every technique of one process on small workloads, as the worker's loop takes them, and what came of it."""

import importlib
import io
import itertools
import json
import os
import sys
import tempfile
import weakref
from dataclasses import asdict
from pathlib import Path
from types import SimpleNamespace
from unittest import mock

# A cap, and so nothing where there is less: some virtual machines cannot run oneDNN's AMX kernels.
os.environ.setdefault("ONEDNN_MAX_CPU_ISA", "AVX512_CORE_FP16")

import small_cases
import torch
from torch._dynamo.utils import clear_compilation_metrics, counters

from runner.worker.case_key import CaseKey
from runner.worker.correctness import compare
from runner.worker.measurements import bounds, compiling, memory, timing
from runner.worker.messages import Block
from runner.worker.prepared_case import begin, final_metrics
from runner.worker.single_process import SingleProcess
from runner.worker.techniques.apply import apply_techniques
from runner.worker.worker_loop import failure

torch.set_num_threads(1)
# Cases that answer rightly or wrongly, which other tests measure in processes of their own.
sys.path.append(str(Path(__file__).parents[2] / "case_files"))
importlib.import_module("answers")
importlib.import_module("runner.cases.programs.requests")


def performed(text):
    """A case from the first call to the check."""
    torch._dynamo.reset()
    counters.clear()
    clear_compilation_metrics()
    solo = SingleProcess(CaseKey.parse(text), "cpu", 0)
    solo.first_call()
    solo.warm_up(0.0, 0.0)
    return solo


def describe(text):
    """Metrics, facts and verdict of a case, or how it failed."""
    try:
        solo = performed(text)
        known = {"facts": solo.facts(), "metrics": solo.metrics()}
        checked = solo.check()
    except Exception as error:
        failed = failure(error, "")
        return {"status": failed.status, "reason": failed.reason}
    known["metrics"] |= checked.metrics
    return {**known, "wrong": checked.wrong, "note": checked.note, "tolerance": checked.tolerance}


def saved_mib(model):
    file = io.BytesIO()
    torch.save(model.state_dict(), file)
    return len(file.getvalue()) / 2**20


def inside(text, look):
    """What `look` sees of a case on stage."""
    return look(performed(text).prepared)


def operators(text):
    """Names of all operators of one step."""
    return operators_of(performed(text).prepared)


def operators_of(prepared):
    with torch.profiler.profile(activities=[torch.profiler.ProfilerActivity.CPU]) as profiler:
        prepared.step()
    return sorted({event.name for event in profiler.events()})


def served_in_int8():
    """What a queue of requests says of itself, and the operators of its step."""
    prepared = performed("request_queue/infer/batch=16,rate=800/precision=int8-dynamic").prepared
    called = operators_of(prepared)
    for _ in range(2):
        prepared.step()
    return {"metrics": sorted(final_metrics(prepared)), "operators": called}


def weights_are_constants(technique):
    """Whether a compiled layer still computes with the weights that it was compiled with."""
    # Frozen for the rest of a worker's process; this one goes on with other cases. A product alone needs no
    # kernel in C++, which takes most of the time.
    with torch._inductor.config.patch({"freezing": False}):
        prepared = performed(f"one_layer/infer/-/{technique}").prepared
        before = prepared.step().clone()
        with torch.no_grad():
            prepared.model.weight.zero_()
        return torch.equal(before, prepared.step())


def step_of_shapes():
    """How long a step of three shapes is, for steps of 1, 10 and 100 us in turn; one block is forgotten."""
    solo = SingleProcess(CaseKey.parse("several_shapes/infer/-/eager"), "cpu", 0)
    blocks = [(1_000, 10_000, 100_000, 1_000), (7, 7, 7, 7), (100_000, 1_000, 10_000, 100_000, 1_000)]
    with mock.patch.object(timing, "block", side_effect=[Block(ns, sum(ns), 0) for ns in blocks]):
        for number, ns in enumerate(blocks):
            solo.block(len(ns), 0, 1)
            if number == 1:
                solo.forget()
    with mock.patch.object(bounds, "measure_device_time", return_value={}) as measured:
        solo.metrics()
    return measured.call_args.args[2]


def without_reasons():
    """The counters of a Dynamo that does not note why it compiled again."""
    compiled = [SimpleNamespace(fail_reason=None)] * 2
    with mock.patch.object(torch._dynamo.utils, "get_compilation_metrics", lambda: compiled):
        return compiling.report().metrics


def calls_in_a_step(text):
    prepared = performed(text).prepared
    before = prepared.model[2].calls
    prepared.step()
    return prepared.model[2].calls - before


def inputs_kept(name, technique):
    """How many of a workload's inputs, later ones included, are alive when it is on stage."""
    made = getattr(small_cases, name)()
    given = [weakref.ref(tensor) for one in (made.inputs, *made.variants) for tensor in one]
    prepared = apply_techniques(begin(CaseKey.parse(f"{name}/infer/-/{technique}"), "cpu", made))
    del made
    memory.release_memory("cpu")
    prepared.step()
    return [len(given), sum(tensor() is not None for tensor in given)]


def error_by_hand(dtype):
    """Relative error of `layers` computed in `dtype` as a whole."""
    reference = performed("layers/infer/-/eager").prepared
    torch.manual_seed(0)
    workload = small_cases.layers()
    with torch.no_grad():
        got = workload.model.to(dtype)(workload.inputs[0].to(dtype)).double()
        return float((got - reference.step().double()).norm() / reference.step().double().norm())


def formats():
    channels_last = torch.channels_last
    return {
        "bf16": inside("layers/infer/-/precision=bf16", lambda s: str(s.step().dtype)),
        "amp-fp16": inside("layers/infer/-/precision=amp-fp16", lambda s: str(s.step().dtype)),
        "weights of amp-fp16": inside("layers/infer/-/precision=amp-fp16", lambda s: s.dtype),
        "int8-dynamic": inside(
            "layers/infer/-/precision=int8-dynamic", lambda s: str(s.model[0].weight().dtype)
        ),
        "channels-last weights": inside(
            "images/infer/-/layout=channels-last",
            lambda s: s.model[0].weight.is_contiguous(memory_format=channels_last),
        ),
        "contiguous weights": inside(
            "images/infer/-/eager", lambda s: s.model[0].weight.is_contiguous(memory_format=channels_last)
        ),
    }


def saved_sizes():
    cases = ("layers/infer/-/precision=int8-dynamic", "images/infer/-/precision=int8-static")
    return {case: inside(case, lambda s: [saved_mib(s.model), s.metrics["model_size"]]) for case in cases}


def skipped_graphs():
    """PyTorch's CUDA graph backend refuses a graph of the CPU, and counts it."""
    torch._dynamo.reset()
    counters.clear()
    clear_compilation_metrics()
    torch.compile(torch.nn.Linear(2, 2), backend="cudagraphs")(torch.ones(1, 2))
    report = compiling.report()
    return {"metrics": report.metrics, "reasons": report.cudagraph_skip_reasons}


def missing_compiler():
    with torch._inductor.config.patch({"cpp.cxx": ("no-such-compiler",)}):
        return describe("layers/infer/-/compile=default")


def missing_header():
    """A compiler that works, without the headers of Python."""
    with tempfile.TemporaryDirectory() as folder:
        compiler = Path(folder, "g++")
        compiler.write_text(
            "#!/bin/bash\n"
            'for each in "$@"; do [[ $each == -I*include/python3* ]] || kept+=("$each"); done\n'
            'exec g++ "${kept[@]}"\n'
        )
        compiler.chmod(0o755)
        with torch._inductor.config.patch({"cpp.cxx": (str(compiler),)}):
            return describe("layers/infer/-/compile=default")


def missing_package():
    """A backend that is known but whose package is not there says so at the first call only."""
    torch._dynamo.reset()
    try:
        torch.compile(torch.nn.Linear(2, 2), backend="tvm")(torch.ones(1, 2))
    except Exception as error:
        failed = failure(error, "")
        return {"status": failed.status, "reason": failed.reason}
    return {}


def by_hand():
    got, want = torch.tensor([1.0, 2.0, 3.5]), torch.tensor([1.0, 2.0, 3.0])
    one, other = ((2, 8),), ((3, 8),)
    return {
        "compared": compare(got, want, 1.0).metrics,
        "classes": {
            "scores": compare(
                torch.tensor([[1.0, 3.0], [2.5, 2.0]]),
                torch.tensor([[1.0, 2.0], [2.0, 2.5]]),
                1.0,
                classes=True,
            ).metrics,
            "none": compare(got, want, 1.0).metrics,
            "several": compare((got, got), (want, want), 1.0, classes=True).metrics,
        },
        "same": {
            str(last): asdict(compare(torch.tensor([1.0, last]), torch.tensor([1.0, last]), 1.0))
            for last in (2.0, float("inf"), float("nan"))
        },
        "union": bounds.union([(5.0, 6.0), (0.0, 2.0), (1.0, 3.0), (1.5, 2.5)]),
        "nothing": bounds.union([]),
        "costs": compiling.shape_costs(
            [one, other, one], [9_000_000, 4_000_000, 1_000_000, 3_000_000, 2_000_000, 7]
        ),
        "alike": compiling.shape_costs([one, one], [1, 2, 3, 4]),
        "calls": [
            compiling.calls_of_each_shape([one, other, one]),
            compiling.calls_of_each_shape([one, one]),
        ],
        "allocator of a CPU": memory.cuda_allocator("cpu"),
        "launches of a CPU": dict(bounds.measure_device_time(lambda: None, "cpu", 1e6)),
    }


def ceiling_of(products, then, before=(1, 1)):
    """The ceiling on a CPU of products that last so many milliseconds of wall and of CPU time.

    At most three `before` them warm up; after them all are as `then`.
    """
    lasting = itertools.chain([before] * 3, products, itertools.repeat(then))
    facts, clock, count = {}, [0], itertools.count()

    def call(step, device):
        wall, cpu = next(lasting)
        clock[0] += cpu * 1_000_000
        next(count)
        return wall * 1_000_000

    with (
        mock.patch.object(timing, "first_call", call),
        mock.patch.object(bounds.time, "process_time_ns", lambda: clock[0]),
    ):
        peak = bounds.measure_matmul_peak(CaseKey.parse("layers/infer/-/eager"), "cpu", facts)
    return {"found": peak, "facts": facts, "products": next(count)}


def ceilings():
    slowed = [(ms, ms) for ms in (80, 70, 100, 90, 110, 120, 130, 140, 60, 150)]
    return {
        "quiet": ceiling_of([(40, 40)] * 10, (40, 40)),
        "quiet later": ceiling_of(slowed, (40, 40)),
        "half a core at first": ceiling_of([(80, 40)] * 20, (40, 40)),
        "one moment": ceiling_of([*slowed[:9], (40, 40)], (100, 100)),
        "half a core": ceiling_of([], (80, 40)),
        "seconds each": ceiling_of([], (4000, 4000), before=(4000, 4000)),
    }


CASES = json.loads(os.environ["CASES"])


def traced(text):
    """How many graphs Dynamo makes of a case, and of how many calls they consist."""
    sizes = []

    def backend(graph, inputs):
        sizes.append(sum(node.op == "call_function" for node in graph.graph.nodes))
        return graph.forward

    own = torch.compile
    with mock.patch.object(torch, "compile", lambda called, **_: own(called, backend=backend)):
        solo = performed(text)
    facts = solo.facts()
    return {
        "graphs": len(sizes),
        "nodes": sum(sizes),
        "blocks": facts.get("compiled_blocks"),
        "not compiled": facts["not_compiled"],
        "wrong": solo.check().wrong,
    }


print(
    json.dumps(
        {
            "cases": {text: describe(text) for text in CASES},
            "ceilings": ceilings(),
            "formats": formats(),
            "errors": {"bf16": error_by_hand(torch.bfloat16), "fp16": error_by_hand(torch.float16)},
            "saved": saved_sizes(),
            "operators": {
                name: operators(f"layers/train/-/{technique}")
                for name, technique in (
                    ("fused", "eager"),
                    ("foreach", "optimizer=foreach"),
                    ("loop", "optimizer=loop"),
                )
            },
            "calls": {
                name: calls_in_a_step(f"layers/train/-/{technique}")
                for name, technique in (("off", "eager"), ("on", "checkpoint=on"))
            },
            "inputs kept": {
                f"{name}/{technique}": inputs_kept(name, technique)
                for name, technique in (
                    ("several_shapes", "eager"),
                    ("several_shapes", "precision=bf16"),
                    ("images", "layout=channels-last"),
                )
            },
            "served": served_in_int8(),
            "regions": [
                traced("three_alike/infer/-/compile=aot_eager" + more) for more in ("", ",region=blocks")
            ],
            "constants": {
                technique: weights_are_constants(technique)
                for technique in ("compile=default", "compile=default,freezing=on")
            },
            "step of shapes": step_of_shapes(),
            "without reasons": without_reasons(),
            "skipped_graphs": skipped_graphs(),
            "missing_compiler": missing_compiler(),
            "missing_header": missing_header(),
            "missing_package": missing_package(),
            "by_hand": by_hand(),
        }
    )
)
