"""What workloads are fed with: inputs in turn, sequences of several lengths, and a DataLoader."""

import copy
import json
import warnings

import torch
from torch import nn
from torch.nn.attention import SDPBackend, sdpa_kernel
from torch.utils.flop_counter import FlopCounterMode

from runner.cases import bert  # noqa: F401
from runner.cases.programs import input_pipeline
from runner.worker.case import REGISTER, Workload


class Clock:
    """Stands in for `time`: what takes how long is said, not measured."""

    def __init__(self):
        self.now = 100.0

    def perf_counter(self):
        return self.now

    def takes(self, seconds):
        self.now += seconds


class SlowBatches:
    """Four batches that take two seconds each to fetch; the network below takes six for each."""

    pin_memory = False

    def __init__(self, clock):
        self.clock = clock

    def __iter__(self):
        for _ in range(4):
            self.clock.takes(2.0)
            yield torch.zeros(1)


class SlowNetwork(nn.Module):
    def __init__(self, clock):
        super().__init__()
        self.clock = clock

    def forward(self, batch):
        self.clock.takes(6.0)
        return batch


def share_waited():
    clock = Clock()
    real, input_pipeline.time = input_pipeline.time, clock
    try:
        shares = []
        fed = input_pipeline.LoaderNetwork(SlowBatches(clock), SlowNetwork(clock), False, shares.append)
        fed(torch.zeros(()))
        fed(torch.zeros(()))
        return shares
    finally:
        input_pipeline.time = real


def pipeline(workers, seed=0, pin=False, non_blocking=False):
    torch.manual_seed(seed)
    build = REGISTER["input_pipeline"].build
    return build(batch=4, workers=workers, prefetch=2, pin=pin, non_blocking=non_blocking)


def refused(run=lambda workload: workload.model(*workload.inputs), **options):
    try:
        run(pipeline(0, **options))
    except NotImplementedError as reason:
        return str(reason)
    return "not refused"


def fed():
    """Answers with and without processes, and of the network given the same images by hand."""
    alone, helped, other = pipeline(0), pipeline(2), pipeline(0, seed=1)
    seen = []
    alone.model.network.register_forward_pre_hook(lambda _module, inputs: seen.append(inputs[0].clone()))
    answers = [workload.model(*workload.inputs) for workload in (alone, helped, helped, other)]
    copied = pipeline(0)
    copy.deepcopy(copied.model)(*copied.inputs)
    half = alone.model.bfloat16()(torch.zeros((), dtype=torch.bfloat16))
    torch.manual_seed(0)
    photographs = input_pipeline.Photographs(4)
    images = torch.stack([photographs[index] for index in range(4)])
    with FlopCounterMode(display=False) as counter:
        pipeline(0).model(torch.zeros(()))
    return {
        "shape": list(answers[0].shape),
        "processes": [float((answer - answers[0]).abs().max()) for answer in answers[1:3]],
        "other_seed": float((answers[3] - answers[0]).abs().max()),
        "batches": len(seen[: input_pipeline.BATCHES]),
        "images": max(float((batch - images).abs().max()) for batch in seen[: input_pipeline.BATCHES]),
        "spread": float(images.std()),
        "half": str(half.dtype),
        "flops": alone.flops,
        "counted": counter.get_total_flops(),
        "items": alone.items,
        "shares": [workload.report()["data_wait"] for workload in (helped, copied)],
    }


def shapes():
    torch.manual_seed(0)
    workload = REGISTER["dynamic_shapes"].build(batch=2, layers=1, lengths=9)
    sets = [workload.inputs, *workload.variants]
    with FlopCounterMode(display=False) as counter, sdpa_kernel(SDPBackend.MATH):
        for inputs in sets:
            workload.model(*inputs)
    return {
        "lengths": [tokens.shape[1] for tokens, _ in sets],
        "items": workload.items,
        "flops": workload.flops,
        "counted": counter.get_total_flops() / len(sets),
        "many": [
            complaint(lambda: REGISTER["dynamic_shapes"].build(batch=1, layers=1, lengths=15)),
            complaint(lambda: REGISTER["dynamic_shapes"].build(batch=1, layers=1, lengths=17)),
        ],
        "even": complaint(lambda: REGISTER["dynamic_shapes"].build(batch=2, layers=1, lengths=4)),
    }


def complaint(make):
    try:
        make()
    except ValueError as error:
        return str(error)
    return "accepted"


def workload(**fields):
    return Workload(nn.Sequential(nn.Linear(2, 2)), (torch.ones(1, 2),), items=1, **fields)


# torch.jit.trace is called where it must be refused.
warnings.simplefilter("ignore", DeprecationWarning)
x = torch.ones(3, 2)
with torch.no_grad():
    found = {
        "waited": share_waited(),
        "fed": fed(),
        "refused": [refused(pin=True), refused(non_blocking=True)],
        "traced": refused(lambda workload: torch.jit.trace(workload.model, workload.inputs)),
        "shapes": shapes(),
        "complaints": {
            "right": complaint(lambda: workload(variants=((x,), (x,)), checkpointed=("0",))),
            "a list": complaint(lambda: workload(variants=[(x,)])),
            "no tuple inside": complaint(lambda: workload(variants=(x,))),
            "one tensor more": complaint(lambda: workload(variants=((x,), (x, x)))),
            "rotated as well": complaint(lambda: workload(variants=((x,),), rotated=True)),
            "a bare name": complaint(lambda: workload(checkpointed="0")),
            "the model itself": complaint(lambda: workload(checkpointed=("",))),
            "no such part": complaint(lambda: workload(checkpointed=("0", "layers.7"))),
        },
    }
print(json.dumps(found))
