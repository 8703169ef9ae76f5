"""CUDA graphs by hand: a whole step captured with a private pool, or make_graphed_callables."""

import contextlib
import time
from collections.abc import Callable, Generator
from typing import Any

import torch

from ..measurements import memory, timing
from ..prepared_case import Act, Turn, Unsupported, make_optimizer, perform
from . import compiled

#: Steps on a side stream before the capture, as PyTorch's notes on CUDA graphs ask for.
_WARM_UP = 3


def apply(act: Act) -> None:
    """Do what axis `graph` says; raises Unsupported where a step cannot be recorded."""
    way = act.key.axis("graph")
    if way == "none":
        return
    _refuse(act, way)
    if way == "callables":
        _graph_callables(act)
        return
    act.perform = _captured


def _refuse(act: Act, way: str) -> None:
    if not act.device.startswith("cuda"):
        raise Unsupported(f"graph={way} needs a CUDA device, and this one is {act.device}")
    if len(set(act.shapes)) > 1:
        raise Unsupported(f"graph={way} records fixed shapes, and this workload brings several")
    how = act.key.axis("compile")
    if how in (*compiled.RECORDS_GRAPHS, "cudagraphs"):
        raise Unsupported(f"compile={how} records CUDA graphs itself: give either it or graph={way}")
    if way == "callables" and act.called is not act.model:
        raise Unsupported("graph=callables records an eager module, and this case calls something else")
    if way == "capture" and act.training and act.key.axis("precision") == "amp-fp16":
        raise Unsupported(
            "graph=capture records a whole training step, and a GradScaler decides on the CPU whether "
            "to take it"
        )


def _captured(act: Act, turn: Turn) -> Callable[[], Any]:
    """A step that copies its inputs to where the recorded one reads them, and replays it.

    Metrics: `capture`, `instantiate` and `first_replay` in ms, `graph_pool` in MiB. Source: PyTorch's notes
    on CUDA graphs, whole-network capture.
    """
    static = tuple(tensor.clone() for tensor in act.inputs[0])
    optimizers: list[torch.optim.Optimizer] = []

    def optimizer(act: Act) -> torch.optim.Optimizer:
        optimizers.append(make_optimizer(act, capturable=True))
        return optimizers[0]

    act.optimizer = optimizer
    step = perform(act, Turn((static,)))
    weights = _copies(act)
    with _on_side_stream():
        for _ in range(_WARM_UP):
            step()
    graph, instantiates = _graph()
    # So that the backward pass allocates the gradients in the graph's pool.
    act.model.zero_grad(set_to_none=True)
    pool = _reserved(act)
    with torch.cuda.graph(graph):
        # Not before: on entering, garbage is collected and the allocator's caches are emptied.
        started = time.perf_counter_ns()
        answer = step()
    torch.cuda.synchronize()
    act.metrics["capture"] = _ms_since(started)
    if instantiates:
        started = time.perf_counter_ns()
        graph.instantiate()
        act.metrics["instantiate"] = _ms_since(started)
    act.metrics["graph_pool"] = (torch.cuda.memory_reserved(act.device) - pool) / memory.MIB
    rotates = len(act.inputs) > 1

    def replay() -> Any:
        given = turn.take()
        if rotates:
            for place, tensor in zip(static, given, strict=True):
                place.copy_(tensor)
        graph.replay()
        return answer

    act.metrics["first_replay"] = timing.first_call(replay, act.device) / 1e6
    turn.rewind()
    _restore(act, weights, optimizers)
    return replay


def _graph_callables(act: Act) -> None:
    """Forward and backward of the model as two graphs; loss and optimizer stay outside.

    Metric `graph_pool` in MiB. The time is not split: warm-up and capture are one call.
    """
    weights = _copies(act)
    pool = _reserved(act)
    sample = tuple(tensor.clone() for tensor in act.inputs[0])
    grads = torch.enable_grad if act.training else torch.no_grad
    with grads(), act.context(), _without_autocast_cache():
        act.called = torch.cuda.make_graphed_callables(act.model, sample)
    act.metrics["graph_pool"] = (_reserved(act) - pool) / memory.MIB
    _restore(act, weights, [])


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
    """Casts of weights kept from one call to the next would lie outside the graph's pool."""
    before = torch.is_autocast_cache_enabled()
    torch.set_autocast_cache_enabled(False)
    try:
        yield
    finally:
        torch.set_autocast_cache_enabled(before)


def _ms_since(started_ns: int) -> float:
    return (time.perf_counter_ns() - started_ns) / 1e6


def _reserved(act: Act) -> int:
    """Bytes that the allocator holds and needs."""
    torch.cuda.empty_cache()
    return torch.cuda.memory_reserved(act.device)


def _copies(act: Act) -> list[torch.Tensor]:
    """What steps of a training change; nothing of an inference."""
    if not act.training:
        return []
    return [tensor.detach().clone() for tensor in (*act.model.parameters(), *act.model.buffers())]


def _restore(act: Act, weights: list[torch.Tensor], optimizers: list[torch.optim.Optimizer]) -> None:
    """Undo the steps that preparing took, in place: the graph knows addresses."""
    with torch.no_grad():
        if weights:
            for tensor, kept in zip((*act.model.parameters(), *act.model.buffers()), weights, strict=True):
                tensor.copy_(kept)
        for optimizer in optimizers:
            for state in optimizer.state.values():
                for value in state.values():
                    # AdamW begins with zeros, the count of steps among them.
                    value.zero_()
    weights.clear()
    torch.cuda.empty_cache()
