"""One case over several ranks: what goes together, and what part of the work is whose."""

from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any

import torch

from ..case import Workload
from ..case_key import CaseKey
from ..prepared_case import Inputs, Unsupported, make

#: Every rank has the whole model, or shards of it, and its own part of the batch.
DATA_PARALLEL = ("ddp", "zero1", "fsdp2")
#: Gradients are averaged by DistributedDataParallel.
BY_DDP = ("ddp", "zero1")
_OF_DDP = ("hook", "bucket", "ddp")
_OF_PARALLEL = ("ranks", "nodes", "scaling", "launcher", *_OF_DDP)
_PRECISIONS = {
    "ddp": ("fp32", "tf32", "bf16", "amp-bf16", "amp-fp16"),
    "zero1": ("fp32", "tf32", "bf16", "amp-bf16"),
    "fsdp2": ("fp32", "tf32", "bf16", "amp-bf16"),
    "tp": ("fp32", "tf32", "amp-bf16"),
    "pp": ("fp32", "tf32"),
}


def refuse(key: CaseKey, device: str, nodes: int = 1) -> None:
    """Raise Unsupported for axes that do not go together, or where the run has too few nodes."""
    parallel, instances = key.axis("parallel"), key.count("instances")
    if parallel == "none":
        if out_of_place := [axis for axis, _ in key.technique if axis in _OF_PARALLEL]:
            raise Unsupported(
                f"axis {out_of_place[0]} is for cases over several ranks: choose axis parallel too"
            )
        return
    if instances > 1:
        raise Unsupported("a case is either several independent instances or one over several ranks")
    if not torch.distributed.is_available():
        raise Unsupported("this PyTorch was built without torch.distributed")
    if parallel in BY_DDP and key.phase == "infer":
        raise Unsupported(f"parallel={parallel} shares gradients; inference has none: use axis instances")
    if parallel not in BY_DDP:
        _refuse_beside_ddp(key, parallel)
    for axis in ("export", "graph"):
        if key.axis(axis) != "none":
            raise Unsupported(f"{axis}={key.axis(axis)} takes the model out of reach of parallel={parallel}")
    if key.axis("precision") not in _PRECISIONS[parallel]:
        raise Unsupported(f"precision={key.axis('precision')} is not measured under parallel={parallel}")
    _refuse_nodes(key, nodes)
    _refuse_devices(key, device)


def _refuse_beside_ddp(key: CaseKey, parallel: str) -> None:
    if out_of_place := [axis for axis, _ in key.technique if axis in _OF_DDP]:
        raise Unsupported(f"axis {out_of_place[0]} is an option of DDP: parallel={parallel} has none such")
    if key.axis("compile") != "none":
        raise Unsupported(f"torch.compile is measured with ddp and zero1, not with parallel={parallel}")
    if parallel == "pp" and key.axis("checkpoint") != "off":
        raise Unsupported("parallel=pp traces the blocks, and their recomputation (checkpoint=on) is lost")


def _refuse_nodes(key: CaseKey, available: int) -> None:
    nodes, ranks = key.count("nodes"), key.count("ranks")
    if nodes == 1:
        return
    if ranks % nodes:
        raise Unsupported(
            f"each machine has as many ranks, and {ranks} ranks cannot be divided by nodes={nodes}"
        )
    if key.axis("compile") != "none":
        raise Unsupported("torch.compile is not measured over several machines: each has a cache of its own")
    if available < nodes:
        raise Unsupported(
            f"nodes={nodes} takes {nodes} nodes and the run has {available}: submit it to a fleet with "
            f"nodes = {nodes}, or give it a file of nodes by --nodes"
        )


def _refuse_devices(key: CaseKey, device: str) -> None:
    if not device.startswith("cuda"):
        if key.axis("hook") == "bf16":
            raise Unsupported("PyTorch allows its bf16 hook with NCCL only, and ranks on a CPU speak gloo")
        return
    there = torch.cuda.device_count()
    ranks = key.count("ranks") // key.count("nodes")
    if ranks > there:
        raise Unsupported(f"{ranks} ranks need a GPU each, and {there} are there")
    if not torch.distributed.is_nccl_available():
        raise Unsupported("this PyTorch was built without NCCL")


def device_of(device: str, local: int) -> str:
    """The device of a rank, the one of number `local` on its machine: a GPU each on CUDA."""
    return f"cuda:{local}" if device.startswith("cuda") else device


def store(port: int, *, leads: bool) -> Any:
    """Where the ranks of one machine meet: served by the leader on a free port (0), joined by each rank."""
    tcp = torch.distributed.TCPStore  # pyright: ignore[reportPrivateImportUsage]
    return tcp("127.0.0.1", port, None, leads, wait_for_workers=False)


def part_key(key: CaseKey) -> CaseKey:
    """The case as one rank has it: with `scaling=strong` its share of the batch.

    Raises Unsupported where there is no batch to divide.
    """
    ranks = key.count("ranks")
    if key.axis("scaling") == "weak" or ranks == 1:
        return key
    parameters = dict(key.parameters)
    batch = parameters.get("batch")
    if type(batch) is not int:
        raise Unsupported(f"scaling=strong divides the batch, and {key.name} has no parameter batch")
    if batch % ranks:
        raise Unsupported(f"scaling=strong divides the batch, and {batch} cannot be divided by {ranks} ranks")
    return CaseKey.of(key.name, key.phase, {**parameters, "batch": batch // ranks}, dict(key.technique))


def part(key: CaseKey, seed: int, rank: int, model: torch.nn.Module | None = None) -> Workload:
    """A rank's workload (`key` as by `part_key`): the model of `seed`, inputs and targets of `seed + rank`.

    `model` is taken in place of a new one where it exists already. Raises Unsupported for closures.
    """
    made = make(key, seed + rank)
    if not isinstance(made, Workload):
        raise Unsupported("a case given as a closure has no model to share between ranks")
    if rank == 0 and model is None:
        return made
    if model is None:
        first = make(key, seed)
        assert isinstance(first, Workload)
        model = first.model
    return replace(made, model=model)


def whole(key: CaseKey, seed: int, ranks: int) -> Workload:
    """The parts of all ranks as one workload: inputs joined along their first dimension, the mean of losses.

    So are the inputs of every later step (`variants`): a step is the same work as the parts together.
    Raises Unsupported for inputs that have no batch as their first dimension.
    """
    parts = [part(key, seed, 0)]
    parts += [part(key, seed, rank, parts[0].model) for rank in range(1, ranks)]
    if ranks == 1:
        return parts[0]
    first = parts[0]
    turns = list(zip(*((p.inputs, *p.variants) for p in parts), strict=True))
    inputs, *variants = (_joined(key, of_parts) for of_parts in turns)
    losses = [p.loss for p in parts if p.loss is not None]
    return replace(
        first,
        inputs=inputs,
        variants=tuple(variants),
        items=first.items * ranks,
        flops=None if first.flops is None else first.flops * ranks,
        loss=mean_of(losses) if losses else None,
    )


def _joined(key: CaseKey, parts: Sequence[Inputs]) -> Inputs:
    """The inputs of one step of all parts, each joined along its first dimension."""
    if any(not tensor.dim() for tensor in parts[0]):
        raise Unsupported(f"{key.name} has an input without a batch dimension: its parts cannot be joined")
    if key.axis("parallel") == "tp" and len({len(tensor) for tensor in parts[0]}) > 1:
        # Such as a memory by layers. A pipeline divides what is joined here again, whatever dimension it is.
        raise Unsupported(f"{key.name} has inputs whose first dimensions differ: its parts cannot be joined")
    return tuple(torch.cat(joined) for joined in zip(*parts, strict=True))


def mean_of(losses: "list[Callable[[Any], torch.Tensor]]") -> "Callable[[Any], torch.Tensor]":
    """The mean of one loss for each part of a joined output."""

    def loss(output: Any) -> torch.Tensor:
        parts = zip(losses, _divided(output, len(losses)), strict=True)
        return torch.stack([one(own) for one, own in parts]).mean()

    return loss


def _divided(output: Any, count: int) -> list[Any]:
    """`output` cut into `count` along the first dimension of every tensor in it."""
    if isinstance(output, torch.Tensor):
        return list(output.chunk(count))
    if isinstance(output, dict):
        cut = {name: _divided(value, count) for name, value in output.items()}
        return [{name: values[number] for name, values in cut.items()} for number in range(count)]
    if isinstance(output, (list, tuple)):
        return [tuple(values) for values in zip(*(_divided(value, count) for value in output), strict=True)]
    return [output] * count
