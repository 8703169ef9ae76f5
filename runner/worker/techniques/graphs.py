"""CUDA graphs by hand: a whole step captured with a private pool, or make_graphed_callables."""

import contextlib
import time
from collections.abc import Callable, Generator
from dataclasses import dataclass
from typing import Any

import torch

from ..measurements import memory, timing
from ..prepared_case import InputRotation, Preparation, UnsupportedCase, make_optimizer, make_step
from . import compilation

#: Steps on a side stream before the capture, as PyTorch's notes on CUDA graphs ask for.
_WARM_UP = 3


def apply(prep: Preparation) -> None:
    """Do what axis `graph` says; raises UnsupportedCase where a step cannot be recorded."""
    way = prep.key.axis("graph")
    if way == "none":
        return
    _refuse(prep, way)
    if way == "callables":
        _graph_callables(prep)
        return
    prep.make_step = _make_graph_step


def _refuse(prep: Preparation, way: str) -> None:
    if not prep.device.startswith("cuda"):
        raise UnsupportedCase(f"graph={way} needs a CUDA device, and this one is {prep.device}")
    if len(set(prep.shapes)) > 1:
        raise UnsupportedCase(f"graph={way} records fixed shapes, and this workload brings several")
    how = prep.key.axis("compile")
    if how in (*compilation.RECORDS_GRAPHS, "cudagraphs"):
        raise UnsupportedCase(f"compile={how} records CUDA graphs itself: give either it or graph={way}")
    if way == "callables" and (prep.called is not prep.model or how != "none"):
        raise UnsupportedCase("graph=callables records an eager module, and this case calls something else")
    if way == "capture" and prep.training and prep.key.axis("precision") == "amp-fp16":
        raise UnsupportedCase(
            "graph=capture records a whole training step, and a GradScaler decides on the CPU whether "
            "to take it"
        )


def _make_graph_step(prep: Preparation, rotation: InputRotation) -> Callable[[], Any]:
    """A step that copies its inputs to where the recorded one reads them, and replays it.

    Metrics: `capture`, `instantiate` and `first_replay` in ms, `graph_pool` in MiB. Source: PyTorch's notes
    on CUDA graphs, whole-network capture.
    """
    static = tuple(tensor.clone() for tensor in prep.inputs[0])
    optimizers: list[torch.optim.Optimizer] = []

    def optimizer(prep: Preparation) -> torch.optim.Optimizer:
        optimizers.append(make_optimizer(prep, capturable=True))
        return optimizers[0]

    prep.optimizer = optimizer
    step = make_step(prep, InputRotation((static,)))
    weights = _copies(prep)
    with _on_side_stream():
        for _ in range(_WARM_UP):
            step()
    graph, instantiates = _graph()
    # So that the backward pass allocates the gradients in the graph's pool.
    prep.model.zero_grad(set_to_none=True)
    pool = _reserved_memory(prep)
    with torch.cuda.graph(graph):
        # Not before: on entering, garbage is collected and the allocator's caches are emptied.
        started = time.perf_counter_ns()
        answer = step()
    torch.cuda.synchronize()
    prep.metrics["capture"] = _ms_since(started)
    if instantiates:
        started = time.perf_counter_ns()
        graph.instantiate()
        prep.metrics["instantiate"] = _ms_since(started)
    prep.metrics["graph_pool"] = (torch.cuda.memory_reserved(prep.device) - pool) / memory.MIB

    replay = _Replay(graph, static, answer, rotation, step)
    prep.metrics["first_replay"] = timing.first_call(replay, prep.device) / 1e6
    rotation.rewind()
    _restore(prep, weights, optimizers)
    return replay


@dataclass(frozen=True, slots=True)
class _Replay:
    """A step as its recorded graph, which knows addresses and keeps no tensor alive.

    `static` is where the graph reads its inputs and `answer` where it writes; `recorded` is the step that was
    recorded, for all else that it uses: the state of its optimizer above all.
    """

    graph: torch.cuda.CUDAGraph
    static: tuple[torch.Tensor, ...]
    answer: Any
    rotation: InputRotation
    recorded: Callable[[], Any]

    def __call__(self) -> Any:
        # Always, as graphed callables and Inductor's graphs do: a new input is never where the graph reads.
        for place, tensor in zip(self.static, self.rotation.take(), strict=True):
            place.copy_(tensor)
        self.graph.replay()
        return self.answer


def _graph_callables(prep: Preparation) -> None:
    """Forward and backward of the model as two graphs; loss and optimizer stay outside.

    Metric `graph_pool` in MiB. The time is not split: warm-up and capture are one call.
    """
    weights = _copies(prep)
    pool = _reserved_memory(prep)
    sample = tuple(tensor.clone() for tensor in prep.inputs[0])
    grads = torch.enable_grad if prep.training else torch.no_grad
    with grads(), prep.context(), _without_autocast_cache():
        prep.called = torch.cuda.make_graphed_callables(prep.model, sample)
    prep.metrics["graph_pool"] = (_reserved_memory(prep) - pool) / memory.MIB
    _restore(prep, weights, [])


def _graph() -> tuple[torch.cuda.CUDAGraph, bool]:
    """A graph to record into, and whether making it executable can be taken apart from recording."""
    try:
        return torch.cuda.CUDAGraph(keep_graph=True), True
    except TypeError:
        return torch.cuda.CUDAGraph(), False


@contextlib.contextmanager
def _on_side_stream() -> Generator[None]:
    side = torch.cuda.Stream()
    side.wait_stream(torch.cuda.current_stream())
    with torch.cuda.stream(side):
        yield
    torch.cuda.current_stream().wait_stream(side)
    torch.cuda.synchronize()


@contextlib.contextmanager
def _without_autocast_cache() -> Generator[None]:
    """Casts of weights kept from one call to the next would be outside the graph's pool."""
    before = torch.is_autocast_cache_enabled()
    torch.set_autocast_cache_enabled(False)
    try:
        yield
    finally:
        torch.set_autocast_cache_enabled(before)


def _ms_since(started_ns: int) -> float:
    return (time.perf_counter_ns() - started_ns) / 1e6


def _reserved_memory(prep: Preparation) -> int:
    """Bytes that the allocator holds and needs."""
    torch.cuda.empty_cache()
    return torch.cuda.memory_reserved(prep.device)


def _copies(prep: Preparation) -> list[torch.Tensor]:
    """What steps of a training change, on the host: on the device it would be in the peaks of the first call.

    Nothing of an inference.
    """
    if not prep.training:
        return []
    tensors = (*prep.model.parameters(), *prep.model.buffers())
    return [tensor.detach().to("cpu", copy=True) for tensor in tensors]


def _restore(prep: Preparation, weights: list[torch.Tensor], optimizers: list[torch.optim.Optimizer]) -> None:
    """Undo the steps that preparing took, in place: the graph knows addresses."""
    with torch.no_grad():
        if weights:
            for tensor, original in zip(
                (*prep.model.parameters(), *prep.model.buffers()), weights, strict=True
            ):
                tensor.copy_(original)
        for optimizer in optimizers:
            for state in optimizer.state.values():
                for value in state.values():
                    # AdamW begins with zeros, the count of steps among them.
                    value.zero_()
    weights.clear()
    torch.cuda.empty_cache()
