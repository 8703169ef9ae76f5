"""Models that answer rightly, wrongly or not at all, depending on the technique they run under."""

import os
import random
import time
from pathlib import Path

import numpy
import torch
from torch import nn

from runner.worker.case import Workload, case


class Answers(nn.Module):
    """A linear layer whose answer goes through `change`, which may look at how it is run."""

    def __init__(self, change):
        super().__init__()
        self.layer = nn.Linear(4, 4)
        self.change = change

    def forward(self, x):
        return self.change(self.layer(x))


def workload(change, loss=None):
    """A workload around `change`."""
    return Workload(Answers(change), (torch.ones(2, 4),), items=2, flops=64.0, loss=loss)


def under_autocast():
    """Whether the model runs under bf16 autocast; the reference never does."""
    return torch.is_autocast_enabled("cpu")


@case(phases=("infer", "train"))
def honest():
    return workload(lambda x: x, loss=lambda out: out.square().mean())


@case()
def draws_its_weights_by_others():
    """By Python's and NumPy's generators, as many do it."""
    work = workload(lambda x: x)
    for generator in (random.random, numpy.random.random):
        work.model.layer.weight.data *= 0.5 + generator()
    return work


@case()
def differs_in_bf16():
    return workload(lambda x: x * (1.25 if under_autocast() else 1.0))


@case()
def differs_when_compiled():
    return workload(lambda x: x * (1.25 if torch.compiler.is_compiling() else 1.0))


@case()
def has_another_shape_in_bf16():
    return workload(lambda x: x[:1] if under_autocast() else x)


@case()
def is_not_a_number():
    return workload(lambda x: x * float("nan"))


@case()
def has_a_reference_that_is_not_a_number():
    return workload(lambda x: x if under_autocast() else x * float("nan"))


@case()
def masks_its_logits():
    return workload(lambda x: x.masked_fill(torch.tensor([False, True, False, True]), float("-inf")))


@case()
def differs_in_imaginary_parts():
    return workload(lambda x: torch.complex(x, torch.rand_like(x)))


@case(phases=("train",))
def trains_otherwise_in_bf16():
    return workload(lambda x: x, loss=lambda out: out.square().mean() * (2 if under_autocast() else 1))


@case(phases=("train",))
def trains_to_infinity():
    return workload(lambda x: x, loss=lambda out: out.square().mean() / 0.0)


@case(phases=("infer", "train"))
def has_no_loss():
    return workload(lambda x: x)


@case()
def answers_without_tensors():
    return workload(lambda x: "yes")


@case()
def cannot_be_compiled():
    def change(x):
        for _ in range(2):
            x = x + 1
            torch._dynamo.graph_break()
        return x

    return workload(change)


def writes_down(name):
    """A closure that notes when it ran: the beginning and end of every step."""
    file = os.open(Path(os.environ["CASES_SCRATCH"], "steps"), os.O_WRONLY | os.O_APPEND | os.O_CREAT)

    def step():
        begun = time.monotonic_ns()
        time.sleep(0.004)
        os.write(file, f"{name} {begun} {time.monotonic_ns()}\n".encode())

    return step


@case()
def compiles_by_itself():
    """Notes whether there was anything where Inductor keeps what it compiles, and leaves something there."""
    scratch = Path(os.environ["CASES_SCRATCH"])
    cache = Path(os.environ.get("TORCHINDUCTOR_CACHE_DIR", scratch / "the user's"))
    cache.mkdir(parents=True, exist_ok=True)
    with (scratch / "caches").open("a") as file:
        file.write(f"{len(list(cache.iterdir()))}\n")
    (cache / "compiled").touch()
    return lambda: None


@case()
def first():
    return writes_down("first")


@case()
def second():
    return writes_down("second")


@case(text=["short"])
def has_a_long_key(text):
    return lambda: len(text)
