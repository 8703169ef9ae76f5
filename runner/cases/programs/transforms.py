"""Programs around a small model: gradients of each sample, graphs, inner loops, many modules, modes."""

from itertools import pairwise
from typing import Any

import torch
from torch import Tensor, nn
from torch.func import functional_call, grad, jacfwd, jacrev, vmap
from torch.nn import functional as F
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils.flop_counter import FlopCounterMode

from ...worker.case import Workload, case
from .. import flops
from ..layers import cross_entropy

CLASSES = 10


def _small_convolutions() -> nn.Sequential:
    return nn.Sequential(
        nn.Conv2d(3, 16, 3, stride=2, padding=1),
        nn.GroupNorm(4, 16),
        nn.ReLU(),
        nn.Conv2d(16, 32, 3, stride=2, padding=1),
        nn.GroupNorm(4, 32),
        nn.ReLU(),
        nn.AdaptiveAvgPool2d(4),
        nn.Flatten(),
        nn.Linear(32 * 16, CLASSES),
    )


class PerSampleGradients(nn.Module):
    """The norm of the gradient of each weight for each sample: (weights, batch)."""

    def __init__(self, network: nn.Module) -> None:
        super().__init__()
        self.network = network

    def forward(self, images: Tensor, targets: Tensor) -> Tensor:
        weights = {name: one.detach() for name, one in self.network.named_parameters()}

        def loss(weights: dict[str, Tensor], image: Tensor, target: Tensor) -> Tensor:
            logits = functional_call(self.network, weights, (image[None],))
            return F.cross_entropy(logits, target[None])

        gradients = vmap(grad(loss), in_dims=(None, 0, 0))(weights, images, targets)
        return torch.stack([one.flatten(1).norm(dim=1) for one in gradients.values()])


@case(family="programs", batch=[16], image=[32])
def per_sample_gradients(batch: int, image: int) -> Workload:
    """The gradient of each sample by torch.func, as training with differential privacy takes it.

    Guards: vmap over convolutions, whose grouped form is a kernel of its own, and its time to compile.
    """
    inputs = torch.randn(batch, 3, image, image), torch.randint(CLASSES, (batch,))
    return Workload(PerSampleGradients(_small_convolutions()), inputs, items=batch, unit="samples")


class InnerStep(nn.Module):
    """A step of gradient descent for each task, then the loss of the changed weights: (tasks,).

    Source: Finn et al. 2017, arXiv:1703.03400, algorithm 1, lines 5 to 7.
    """

    RATE = 0.1

    def __init__(self, network: nn.Module) -> None:
        super().__init__()
        self.network = network

    def forward(self, images: Tensor, targets: Tensor) -> Tensor:
        weights = {name: one.detach() for name, one in self.network.named_parameters()}

        def loss(weights: dict[str, Tensor], images: Tensor, targets: Tensor) -> Tensor:
            return F.cross_entropy(functional_call(self.network, weights, (images,)), targets)

        def loss_after_step(images: Tensor, targets: Tensor) -> Tensor:
            slopes = grad(loss)(weights, images, targets)
            changed = {name: one - self.RATE * slopes[name] for name, one in weights.items()}
            return loss(changed, images, targets)

        return vmap(loss_after_step)(images, targets)


@case(family="programs", tasks=[4], samples=[5], image=[28])
def inner_loop(tasks: int, samples: int, image: int) -> Workload:
    """The inner step of meta-learning (MAML) over several tasks at once.

    Guards: overhead of function transforms around small kernels, alone and compiled.
    """
    inputs = torch.randn(tasks, samples, 3, image, image), torch.randint(CLASSES, (tasks, samples))
    return Workload(InnerStep(_small_convolutions()), inputs, items=tasks, unit="tasks")


class Jacobian(nn.Module):
    """The derivatives of each output of a network by each of its inputs: (batch, outputs, inputs)."""

    def __init__(self, network: nn.Module, way: str) -> None:
        super().__init__()
        self.network = network
        self._derive = {"forward": jacfwd, "reverse": jacrev}[way]

    def forward(self, rows: Tensor) -> Tensor:
        weights = {name: one.detach() for name, one in self.network.named_parameters()}

        def outputs(row: Tensor) -> Tensor:
            return functional_call(self.network, weights, (row,))

        return vmap(self._derive(outputs))(rows)


@case(family="programs", way=["forward", "reverse"], batch=[64], width=[16])
def jacobian(way: str, batch: int, width: int) -> Workload:
    """The Jacobian matrix of a small network at each row, by forward or reverse mode under vmap.

    Guards: derivatives whose rule for a batch is a loop, and the cost of nested transforms.
    """
    network = nn.Sequential(nn.Linear(width, 4 * width), nn.Tanh(), nn.Linear(4 * width, width))
    return Workload(Jacobian(network, way), (torch.randn(batch, width),), items=batch, unit="rows")


class GraphIsomorphismLayer(nn.Module):
    """Each node plus the sum of its neighbours, through two linear layers.

    Source: Xu et al. 2019, arXiv:1810.00826, equation 4.1. Maps nodes (nodes, width) and edges (2, edges).
    """

    def __init__(self, width: int) -> None:
        super().__init__()
        self.epsilon = nn.Parameter(torch.zeros(()))
        self.update = nn.Sequential(
            nn.Linear(width, width), nn.BatchNorm1d(width), nn.ReLU(), nn.Linear(width, width)
        )

    def forward(self, nodes: Tensor, edges: Tensor) -> Tensor:
        source, target = edges
        sums = torch.zeros_like(nodes).index_add(0, target, nodes[source])
        return self.update((1 + self.epsilon) * nodes + sums)


class GraphNetwork(nn.Module):
    """Layers over a graph, then logits (nodes, 10)."""

    def __init__(self, width: int, layers: int) -> None:
        super().__init__()
        self.layers = nn.ModuleList(GraphIsomorphismLayer(width) for _ in range(layers))
        self.head = nn.Linear(width, CLASSES)

    def forward(self, nodes: Tensor, edges: Tensor) -> Tensor:
        for layer in self.layers:
            nodes = layer(nodes, edges).relu()
        return self.head(nodes)


@case(family="programs", phases=("infer", "train"), nodes=[2000], degree=[8], width=[64], layers=[2])
def graph_network(nodes: int, degree: int, width: int, layers: int) -> Workload:
    """A graph isomorphism network: rows gathered by edge, added by node, small products between.

    Guards: index_add and its fusion under compile, on which graph networks live.
    """
    rows = nodes * layers
    return Workload(
        GraphNetwork(width, layers),
        (torch.randn(nodes, width), torch.randint(nodes, (2, nodes * degree))),
        items=nodes,
        unit="nodes",
        flops=2 * flops.linear(rows, width, width) + flops.linear(nodes, width, CLASSES),
        loss=cross_entropy(nodes, classes=CLASSES),
    )


class EdgeConvolution(nn.Module):
    """At each node the largest, number by number, of what layers make of it and each neighbour's distance.

    Source: Wang et al. 2019, arXiv:1801.07829, equation 8. Maps nodes (nodes, width) and edges (2, edges).
    """

    def __init__(self, width: int) -> None:
        super().__init__()
        self.update = nn.Sequential(nn.Linear(2 * width, width), nn.ReLU(), nn.Linear(width, width))

    def forward(self, nodes: Tensor, edges: Tensor) -> Tensor:
        source, target = edges
        own = nodes[target]
        messages = self.update(torch.cat([own, nodes[source] - own], 1))
        places = target[:, None].expand_as(messages)
        return torch.zeros_like(nodes).scatter_reduce(0, places, messages, "amax", include_self=False)


@case(family="programs", phases=("infer", "train"), nodes=[1000], degree=[8], width=[64])
def edge_convolution(nodes: int, degree: int, width: int) -> Workload:
    """A layer over the edges of a graph: rows gathered, two products for each edge, the largest by node.

    Guards: scatter_reduce and its gradient between products, and their fusion under compile.
    """
    edges = nodes * degree
    return Workload(
        EdgeConvolution(width),
        (torch.randn(nodes, width), torch.randint(nodes, (2, edges))),
        items=nodes,
        unit="nodes",
        flops=flops.linear(edges, 2 * width, width) + flops.linear(edges, width, width),
        loss=lambda output: output.square().mean(),
    )


class ScaledLayer(nn.Module):
    """A linear layer whose output is scaled by a number that is an attribute of the module."""

    def __init__(self, width: int, scale: float) -> None:
        super().__init__()
        self.layer = nn.Linear(width, width)
        self.scale = scale

    def forward(self, hidden: Tensor) -> Tensor:
        return hidden + self.scale * self.layer(hidden).tanh()


@case(family="programs", layers=[48], width=[64], batch=[4])
def module_stack(layers: int, width: int, batch: int) -> Workload:
    """Many small modules, each with a number as attribute: compiled, its time is the evaluation of guards.

    Guards: guards per module and attribute that are checked in Python, or again for every call.
    """
    return Workload(
        nn.Sequential(*(ScaledLayer(width, 1.0 / (2 + index)) for index in range(layers))),
        (torch.randn(batch, width),),
        items=batch,
        unit="rows",
        flops=layers * flops.linear(batch, width, width),
    )


def _noop_hook(*arguments: object) -> None:
    """A hook that changes nothing."""


@case(
    family="programs",
    phases=("infer", "train"),
    hooks=["none", "forward", "gradient"],
    layers=[48],
    width=[64],
    batch=[4],
)
def hooked_stack(hooks: str, layers: int, width: int, batch: int) -> Workload:
    """Many small modules with a hook on the output of each, on its gradient (in training), or without.

    Guards: what calling a module costs in Python, and hooks that cost more than their call.
    """
    modules = [ScaledLayer(width, 1.0 / (2 + index)) for index in range(layers)]
    for module in modules:
        if hooks == "forward":
            module.register_forward_hook(_noop_hook)
        elif hooks == "gradient":
            module.register_full_backward_hook(_noop_hook)
    return Workload(
        nn.Sequential(*modules),
        (torch.randn(batch, width),),
        items=batch,
        unit="rows",
        flops=layers * flops.linear(batch, width, width),
        loss=lambda output: output.square().mean(),
    )


class _PassingOn(TorchDispatchMode):
    """Sees every operator and passes it on."""

    def __torch_dispatch__(self, func, types, args=(), kwargs=None):  # pyright: ignore
        return func(*args, **(kwargs or {}))


class UnderMode(nn.Module):
    """A model inside of a dispatch mode in every call."""

    def __init__(self, model: nn.Module) -> None:
        super().__init__()
        self.model = model

    def forward(self, rows: Tensor) -> Tensor:
        with _PassingOn():
            return self.model(rows)


@case(family="programs", batch=[64])
def dispatch_mode(batch: int) -> Workload:
    """A perceptron under a dispatch mode, as counters of operations are.

    Guards: the cost of an operator in Python.
    """
    widths = 512, 1024, 1024, CLASSES
    layers: list[nn.Module] = []
    for inputs, outputs in pairwise(widths):
        layers += [nn.Linear(inputs, outputs), nn.ReLU()]
    return Workload(
        UnderMode(nn.Sequential(*layers)),
        (torch.randn(batch, widths[0]),),
        items=batch,
        unit="samples",
        flops=sum(flops.linear(batch, a, b) for a, b in pairwise(widths)),
    )


class _SigmoidGate(nn.Module):
    """Several small operators that a compiler fuses: (batch, width) to the same shape."""

    def __init__(self, width: int) -> None:
        super().__init__()
        self.linear = nn.Linear(width, width)

    def forward(self, rows: Tensor) -> Tensor:
        return rows + self.linear(rows) * torch.sigmoid(1.702 * rows - 0.5)


class CountedFirst(nn.Module):
    """A model whose operations are counted in its first call, which is also the one that compiles it."""

    def __init__(self, model: nn.Module) -> None:
        super().__init__()
        self.model = model
        self._counted = False
        # The counter is the caller's, and no part of what is compiled.
        uncompiled: Any = torch.compiler.disable(self.forward, recursive=False)
        self.forward = uncompiled

    def forward(self, rows: Tensor) -> Tensor:
        if self._counted:
            return self.model(rows)
        self._counted = True
        with FlopCounterMode(display=False):
            return self.model(rows)


@case(family="programs", batch=[64], layers=[8])
def counted_first(batch: int, layers: int) -> Workload:
    """A stack of small gated layers after a FLOP counter saw the first call.

    Guards: a dispatch mode, once left, that keeps a compiled model from its code.
    """
    width = 64
    return Workload(
        CountedFirst(nn.Sequential(*(_SigmoidGate(width) for _ in range(layers)))),
        (torch.randn(batch, width),),
        items=batch,
        unit="samples",
        flops=layers * flops.linear(batch, width, width),
    )


class TensorSubclass(Tensor):
    """A tensor of another type, which sends every operator by way of Python."""


class SubclassModel(nn.Module):
    """A model whose input is of type `TensorSubclass`."""

    def __init__(self, model: nn.Module) -> None:
        super().__init__()
        self.model = model

    def forward(self, rows: Tensor) -> Tensor:
        return self.model(rows.as_subclass(TensorSubclass)).as_subclass(Tensor)


@case(family="programs", batch=[4], layers=[48], width=[64])
def tensor_subclass(batch: int, layers: int, width: int) -> Workload:
    """Many small modules over a tensor of a type of one's own, as units, masks and images are.

    Guards: what an operator costs that is looked up in Python (`__torch_function__`), compiled or not.
    """
    return Workload(
        SubclassModel(nn.Sequential(*(ScaledLayer(width, 1.0 / (2 + index)) for index in range(layers)))),
        (torch.randn(batch, width),),
        items=batch,
        unit="rows",
        flops=layers * flops.linear(batch, width, width),
    )


class MovingAverage(nn.Module):
    """An average of all rows so far, (rows, width), which each call changes in place."""

    KEPT = 0.9

    def __init__(self, rows: int, width: int) -> None:
        super().__init__()
        self.average: Tensor
        self.register_buffer("average", torch.zeros(rows, width))

    def forward(self, rows: Tensor) -> Tensor:
        return self.average.mul_(self.KEPT).add_(rows, alpha=1 - self.KEPT)


@case(family="programs", rows=[8192], width=[1024])
def moving_average(rows: int, width: int) -> Workload:
    """A buffer that is changed in place, as averages of weights and caches are; its answer moves on.

    Guards: peak memory, where a compiler copies what it may write to, also while it tries kernels.
    """
    return Workload(
        MovingAverage(rows, width), (torch.randn(rows, width),), items=rows, unit="rows", compared=False
    )
