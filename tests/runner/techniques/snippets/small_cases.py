"""Workloads small enough to compute by hand what a technique must make of them; some are made to go wrong."""

import torch
from torch import nn

from runner.worker.case import Workload, case


class Counting(nn.Linear):
    """A layer that counts how often it is computed."""

    calls = 0

    def forward(self, x):
        self.calls += 1
        return super().forward(x)


class Changing(nn.Module):
    """A model whose answer goes through `change`."""

    def __init__(self, model, change):
        super().__init__()
        self.model = model
        self.change = change

    def forward(self, x):
        return self.change(self.model(x), x)


def square(out):
    return out.float().square().mean()


@case(phases=("infer", "train"))
def layers():
    model = nn.Sequential(nn.Linear(16, 32), nn.ReLU(), Counting(32, 8))
    return Workload(model, (torch.randn(4, 16),), items=4, loss=square, checkpointed=("2",))


@case(phases=("train",))
def blocks():
    model = nn.Sequential(nn.Linear(8, 8), nn.Sequential(nn.Linear(8, 8), nn.GELU()))
    return Workload(model, (torch.randn(4, 8),), items=4, loss=square, checkpointed=("1",))


@case()
def three_alike():
    model = nn.Sequential(*(nn.Sequential(nn.Linear(8, 8), nn.GELU()) for _ in range(3)))
    return Workload(model, (torch.randn(4, 8),), items=4, checkpointed=("0", "1", "2"))


class Attends(nn.Module):
    """Rows that attend to each other."""

    def forward(self, x):
        return nn.functional.scaled_dot_product_attention(x, x, x)


@case(phases=("train",))
def attends():
    block = nn.Sequential(nn.Linear(16, 16), Attends())
    return Workload(
        nn.Sequential(nn.Linear(16, 16), block),
        (torch.randn(1, 2, 64, 16),),
        items=1,
        loss=square,
        checkpointed=("1",),
    )


@case(phases=("infer", "train"))
def images():
    model = nn.Sequential(nn.Conv2d(3, 16, 3), nn.BatchNorm2d(16), nn.ReLU(), nn.Flatten(), nn.Linear(576, 4))
    return Workload(model, (torch.randn(2, 3, 8, 8),), items=2, loss=square)


@case()
def halves():
    return Workload(nn.Linear(4, 4).bfloat16(), (torch.ones(2, 4, dtype=torch.bfloat16),), items=2)


@case()
def recurrent():
    class Last(nn.Module):
        def __init__(self):
            super().__init__()
            self.lstm, self.head = nn.LSTM(32, 64, batch_first=True), nn.Linear(64, 8)

        def forward(self, x):
            return self.head(self.lstm(x)[0][:, -1])

    return Workload(Last(), (torch.randn(2, 5, 32),), items=2)


@case(phases=("infer", "train"))
def several_shapes():
    first, *others = ((torch.randn(rows, 8),) for rows in (4, 3, 5))
    return Workload(nn.Linear(8, 8), first, items=4, loss=square, variants=tuple(others))


@case()
def one_layer():
    return Workload(nn.Linear(16, 8), (torch.randn(4, 16),), items=4)


@case()
def no_layers():
    return Workload(nn.ReLU(), (torch.randn(2, 4),), items=2)


@case()
def branches():
    return Workload(
        Changing(nn.Linear(4, 4), lambda out, x: out if x.sum() > 0 else -out), (torch.ones(2, 4),), 2
    )


@case()
def one_shape_is_wrong_when_compiled():
    def change(out, x):
        return out * 1.25 if torch.compiler.is_compiling() and x.shape[0] == 5 else out

    first, *others = ((torch.randn(rows, 8),) for rows in (4, 3, 5))
    return Workload(Changing(nn.Linear(8, 8), change), first, items=4, variants=tuple(others))


@case()
def breaks_in_a_loop():
    def change(out, x):
        for _ in range(2):
            out = out + 1
            torch._dynamo.graph_break()
        return out

    return Workload(Changing(nn.Linear(4, 4), change), (torch.ones(2, 4),), items=2)


@case()
def is_wrong_channels_last():
    def change(out, x):
        return out * (1.25 if x.is_contiguous(memory_format=torch.channels_last) else 1.0)

    return Workload(Changing(nn.Conv2d(3, 4, 3), change), (torch.randn(2, 3, 8, 8),), items=2)


@case()
def imports_what_is_not_there():
    def change(out, x):
        import no_such_module

        return no_such_module.change(out)

    return Workload(Changing(nn.Linear(4, 4), change), (torch.ones(2, 4),), items=2)


@case(phases=("train",))
def goes_wrong_later():
    """The third loss of a bf16 model is half of what it should be; the first is right."""
    steps = 0

    def loss(out):
        nonlocal steps
        steps += 1
        return square(out) * (0.5 if steps == 3 and out.dtype == torch.bfloat16 else 1.0)

    return Workload(nn.Linear(8, 8), (torch.randn(4, 8),), items=4, loss=loss)


@case(phases=("train",))
def overflows_twice():
    """The gradient of the output is 3 before scaling: 65536 and 32768 times it are no fp16 numbers."""
    return Workload(nn.Linear(4, 4), (torch.full((1, 4), 0.5),), 1, loss=lambda out: (out.float() * 3).sum())


@case()
def closure():
    left, right = torch.randn(8, 8), torch.randn(8, 8)
    return lambda: left @ right
