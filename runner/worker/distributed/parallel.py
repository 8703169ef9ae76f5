"""One case over several ranks: what goes together, and how batches, models and blocks are divided."""

import importlib
from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any

import torch
import torch.distributed as dist
from torch import nn
from torch.nn.parallel import DistributedDataParallel

from ..case import Workload
from ..case_key import AXES, CaseKey
from ..prepared_case import Inputs, Preparation, UnsupportedCase, adamw, make

#: Every rank has the whole model, or shards of it, and its own part of the batch.
DATA_PARALLEL = ("ddp", "zero1", "fsdp2")
#: Gradients are averaged by DistributedDataParallel.
BY_DDP = ("ddp", "zero1")
_OF_DDP = ("hook", "bucket", "ddp")
_OF_PARALLEL = ("ranks", "nodes", "scaling", "launcher", "sharding", *_OF_DDP)
_PRECISIONS = {
    "ddp": ("fp32", "tf32", "bf16", "amp-bf16", "amp-fp16"),
    "zero1": ("fp32", "tf32", "bf16", "amp-bf16"),
    "fsdp2": ("fp32", "tf32", "bf16", "amp-bf16"),
    "tp": ("fp32", "tf32", "amp-bf16"),
    "pp": ("fp32", "tf32"),
}


def refuse(key: CaseKey, device: str, nodes: int = 1) -> None:
    """Raise UnsupportedCase for axes that do not go together, or where the run has too few nodes."""
    parallel, instances = key.axis("parallel"), key.count("instances")
    if parallel == "none":
        if out_of_place := [axis for axis, _ in key.technique if axis in _OF_PARALLEL]:
            raise UnsupportedCase(
                f"axis {out_of_place[0]} is for cases over several ranks: choose axis parallel too"
            )
        return
    if instances > 1:
        raise UnsupportedCase("a case is either several independent instances or one over several ranks")
    if not torch.distributed.is_available():
        raise UnsupportedCase("this PyTorch was built without torch.distributed")
    if parallel in BY_DDP and key.phase == "infer":
        raise UnsupportedCase(f"parallel={parallel} shares gradients; inference has none: use axis instances")
    if parallel not in BY_DDP:
        _refuse_options_of_ddp(key, parallel)
    for axis in ("export", "graph"):
        if key.axis(axis) != "none":
            raise UnsupportedCase(
                f"{axis}={key.axis(axis)} takes the model out of reach of parallel={parallel}"
            )
    if key.axis("precision") not in _PRECISIONS[parallel]:
        raise UnsupportedCase(f"precision={key.axis('precision')} is not measured under parallel={parallel}")
    _refuse_sharding(key)
    _refuse_nodes(key, nodes)
    _refuse_devices(key, device)


def _refuse_sharding(key: CaseKey) -> None:
    sharding, ranks = key.axis("sharding"), key.count("ranks")
    if sharding != "full" and key.axis("parallel") != "fsdp2":
        raise UnsupportedCase("axis sharding is an option of FSDP2: choose parallel=fsdp2 too")
    if sharding == "hybrid" and (ranks < 4 or ranks % 2):
        raise UnsupportedCase(f"sharding=hybrid takes several pairs of ranks, which {ranks} ranks are not")


def _refuse_options_of_ddp(key: CaseKey, parallel: str) -> None:
    if out_of_place := [axis for axis, _ in key.technique if axis in _OF_DDP]:
        raise UnsupportedCase(
            f"axis {out_of_place[0]} is an option of DDP: parallel={parallel} has none such"
        )
    if key.axis("compile") != "none":
        raise UnsupportedCase(f"torch.compile is measured with ddp and zero1, not with parallel={parallel}")
    if parallel == "pp" and key.axis("checkpoint") != "off":
        raise UnsupportedCase(
            "parallel=pp traces the blocks, and their recomputation (checkpoint=on) is lost"
        )


def _refuse_nodes(key: CaseKey, available: int) -> None:
    nodes, ranks = key.count("nodes"), key.count("ranks")
    if nodes == 1:
        return
    if ranks % nodes:
        raise UnsupportedCase(
            f"each machine has as many ranks, and {ranks} ranks cannot be divided by nodes={nodes}"
        )
    if key.axis("compile") != "none":
        raise UnsupportedCase(
            "torch.compile is not measured over several machines: each has a cache of its own"
        )
    if available < nodes:
        raise UnsupportedCase(
            f"nodes={nodes} takes {nodes} nodes and the run has {available}: submit it to a fleet on Slurm "
            f"with nodes = {nodes}, or give it a file of nodes by --nodes"
        )


def _refuse_devices(key: CaseKey, device: str) -> None:
    if not device.startswith("cuda"):
        if key.axis("hook") == "bf16":
            raise UnsupportedCase(
                "PyTorch allows its bf16 hook with NCCL only, and ranks on a CPU speak gloo"
            )
        if key.axis("hook") == "powersgd":
            # Its hook starts all-reduces from callbacks of others. NCCL runs these in the order of a stream;
            # gloo runs them in threads of its own, where those of several buckets meet in another order on
            # each rank.
            raise UnsupportedCase(
                "PowerSGD is measured with NCCL only: over gloo, which ranks on a CPU speak, the all-reduces "
                "that its hook starts mismatch or hang"
            )
        return
    there = torch.cuda.device_count()
    ranks = key.count("ranks") // key.count("nodes")
    if ranks > there:
        raise UnsupportedCase(f"{ranks} ranks need a GPU each, and {there} are there")
    if not torch.distributed.is_nccl_available():
        raise UnsupportedCase("this PyTorch was built without NCCL")


def device_of(device: str, local: int) -> str:
    """The device of a rank, the one of number `local` on its machine: a GPU each on CUDA."""
    return f"cuda:{local}" if device.startswith("cuda") else device


def store(port: int, *, leads: bool) -> Any:
    """Where the ranks of one machine meet: served by the leader on a free port (0), joined by each rank."""
    tcp = torch.distributed.TCPStore  # pyright: ignore[reportPrivateImportUsage]
    return tcp("127.0.0.1", port, None, leads, wait_for_workers=False)


def part_key(key: CaseKey) -> CaseKey:
    """The case as one rank has it: with `scaling=strong` its share of the batch.

    Raises UnsupportedCase where there is no batch to divide.
    """
    ranks = key.count("ranks")
    if key.axis("scaling") == "weak" or ranks == 1:
        return key
    parameters = dict(key.parameters)
    batch = parameters.get("batch")
    if type(batch) is not int:
        raise UnsupportedCase(f"scaling=strong divides the batch, and {key.name} has no parameter batch")
    if batch % ranks:
        raise UnsupportedCase(
            f"scaling=strong divides the batch, and {batch} cannot be divided by {ranks} ranks"
        )
    return CaseKey.of(key.name, key.phase, {**parameters, "batch": batch // ranks}, dict(key.technique))


def part(key: CaseKey, seed: int, rank: int, model: torch.nn.Module | None = None) -> Workload:
    """A rank's workload (`key` as by `part_key`): the model of `seed`, inputs and targets of `seed + rank`.

    `model` is taken in place of a new one where it exists already. Raises UnsupportedCase for closures.
    """
    made = make(key, seed + rank)
    if not isinstance(made, Workload):
        raise UnsupportedCase("a case given as a closure has no model to share between ranks")
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
    Raises UnsupportedCase for inputs that have no batch as their first dimension.
    """
    parts = [part(key, seed, 0)]
    parts += [part(key, seed, rank, parts[0].model) for rank in range(1, ranks)]
    if ranks == 1:
        return parts[0]
    first = parts[0]
    turns = list(zip(*((p.inputs, *p.variants) for p in parts), strict=True))
    inputs, *variants = (_join_inputs(key, of_parts) for of_parts in turns)
    losses = [p.loss for p in parts if p.loss is not None]
    return replace(
        first,
        inputs=inputs,
        variants=tuple(variants),
        items=first.items * ranks,
        flops=None if first.flops is None else first.flops * ranks,
        loss=mean_of(losses) if losses else None,
    )


def _join_inputs(key: CaseKey, parts: Sequence[Inputs]) -> Inputs:
    """The inputs of one step of all parts, each joined along its first dimension."""
    if any(not tensor.dim() for tensor in parts[0]):
        raise UnsupportedCase(
            f"{key.name} has an input without a batch dimension: its parts cannot be joined"
        )
    if key.axis("parallel") == "tp" and len({len(tensor) for tensor in parts[0]}) > 1:
        # Such as a memory by layers. A pipeline divides what is joined here again, whatever dimension it is.
        raise UnsupportedCase(
            f"{key.name} has inputs whose first dimensions differ: its parts cannot be joined"
        )
    return tuple(torch.cat(joined) for joined in zip(*parts, strict=True))


def mean_of(losses: "list[Callable[[Any], torch.Tensor]]") -> "Callable[[Any], torch.Tensor]":
    """The mean of one loss for each part of a joined output."""

    def loss(output: Any) -> torch.Tensor:
        parts = zip(losses, _divide_output(output, len(losses)), strict=True)
        return torch.stack([one(own) for one, own in parts]).mean()

    return loss


def _divide_output(output: Any, count: int) -> list[Any]:
    """`output` cut into `count` along the first dimension of every tensor in it."""
    if isinstance(output, torch.Tensor):
        return list(output.chunk(count))
    if isinstance(output, dict):
        cut = {name: _divide_output(value, count) for name, value in output.items()}
        return [{name: values[number] for name, values in cut.items()} for number in range(count)]
    if isinstance(output, (list, tuple)):
        return [
            tuple(values) for values in zip(*(_divide_output(value, count) for value in output), strict=True)
        ]
    return [output] * count


#: Plain averaging until this step: PowerSGD's warm start needs one step behind it. Source: PowerSGDState.
_POWERSGD_FROM = 2
_HOOKS = {"fp16": "default_hooks", "bf16": "default_hooks", "powersgd": "powerSGD_hook"}


def ddp(prep: Preparation) -> DistributedDataParallel:
    """Wrap what the preparation calls by axes `bucket`, `ddp` and `hook`; answers the wrapper."""
    options, bucket = prep.key.axis("ddp"), prep.key.axis("bucket")
    wrapped = DistributedDataParallel(
        prep.called,
        device_ids=[torch.device(prep.device).index] if prep.device.startswith("cuda") else None,
        # With None DDP makes the first bucket small; with its own default as a number it does not.
        bucket_cap_mb=None if bucket == AXES["bucket"].default else int(bucket),
        gradient_as_bucket_view=options == "bucket-view",
        static_graph=options == "static-graph",
    )
    _register_hook(prep, wrapped)
    prep.called = wrapped
    return wrapped


def _register_hook(prep: Preparation, wrapped: DistributedDataParallel) -> None:
    hook = prep.key.axis("hook")
    if hook == "none":
        return
    where = "torch.distributed.algorithms.ddp_comm_hooks"
    try:
        hooks = importlib.import_module(f"{where}.{_HOOKS[hook]}")
    except ImportError as error:
        raise UnsupportedCase(f"hook={hook} is not in this environment: {error}") from error
    if hook == "powersgd":
        state = hooks.PowerSGDState(None, matrix_approximation_rank=1, start_powerSGD_iter=_POWERSGD_FROM)
        wrapped.register_comm_hook(state, hooks.powerSGD_hook)
        prep.facts["hook"] = (
            f"rank 1, from step {_POWERSGD_FROM + 1} on; the answer's check sees the first step"
        )
        return
    wrapped.register_comm_hook(None, getattr(hooks, f"{hook}_compress_hook"))


def zero1(prep: Preparation) -> DistributedDataParallel:
    """DDP whose optimizer keeps each rank's share of the state only (ZeRO stage 1)."""
    prep.optimizer = _sharded_optimizer
    return ddp(prep)


def _sharded_optimizer(prep: Preparation) -> torch.optim.Optimizer:
    from torch.distributed.optim import ZeroRedundancyOptimizer

    parameters = list(prep.model.parameters())
    return adamw(prep, lambda **how: ZeroRedundancyOptimizer(parameters, torch.optim.AdamW, **how))


def fsdp2(prep: Preparation) -> None:
    """Shard the parameters of each repeated block, then of what is left, as axis `sharding` says.

    With `gradients` the parameters stay whole from the forward to the backward pass (Rajbhandari et al. 2020,
    arXiv:1910.02054, stage 2); with `hybrid` each pair of ranks has all shards.
    """
    try:
        from torch.distributed.fsdp import fully_shard
    except ImportError as error:
        raise UnsupportedCase(f"this PyTorch has no fully_shard: {error}") from error
    sharding = prep.key.axis("sharding")
    options: dict[str, Any] = {"mesh": _pairs_of(prep) if sharding == "hybrid" else mesh_of(prep)}
    if sharding == "gradients":
        options["reshard_after_forward"] = False
    for name in prep.workload.checkpointed:
        fully_shard(prep.model.get_submodule(name), **options)
    fully_shard(prep.model, **options)
    prep.facts["sharded_blocks"] = len(prep.workload.checkpointed)


def mesh_of(prep: Preparation) -> Any:
    """All ranks in a row."""
    from torch.distributed.device_mesh import init_device_mesh

    return init_device_mesh(prep.device.split(":")[0], (dist.get_world_size(),))


def _pairs_of(prep: Preparation) -> Any:
    """All ranks in pairs: replicas in the first dimension, shards in the second."""
    from torch.distributed.device_mesh import init_device_mesh

    shape = dist.get_world_size() // 2, 2
    return init_device_mesh(prep.device.split(":")[0], shape, mesh_dim_names=("replicate", "shard"))


Loss = Callable[[Any], torch.Tensor]


def tensor_parallel(prep: Preparation) -> None:
    """Divide the feed-forward layers of a transformer: the first by columns, the second by rows.

    One all-reduce a block and direction (Shoeybi et al. 2019, arXiv:1909.08053, section 3). Attention,
    embeddings and norms stay whole on every rank, which computes them alike.
    """
    from torch.distributed.tensor.parallel import ColwiseParallel, RowwiseParallel, parallelize_module

    ranks = dist.get_world_size()
    found = _feed_forwards(prep.model)
    if not found:
        raise UnsupportedCase(
            f"{prep.key.name} has no feed-forward layers (linear, activation, linear) to divide"
        )
    if uneven := [name for name in found if _inner(prep.model, name) % ranks]:
        raise UnsupportedCase(f"the width of {uneven[0]} cannot be divided by {ranks} ranks")
    plan: dict[str, Any] = {f"{name}.0": ColwiseParallel() for name in found}
    plan |= {f"{name}.2": RowwiseParallel() for name in found}
    parallelize_module(prep.model, mesh_of(prep), plan)
    prep.optimizer = _grouped_optimizer
    prep.facts["tensor_parallel"] = f"feed-forward of {len(found)} blocks; the rest is whole on every rank"


def _feed_forwards(model: nn.Module) -> list[str]:
    return [
        name
        for name, module in model.named_modules()
        if isinstance(module, nn.Sequential)
        and [isinstance(part, nn.Linear) for part in module] == [True, False, True]
    ]


def _inner(model: nn.Module, name: str) -> int:
    first = model.get_submodule(f"{name}.0")
    assert isinstance(first, nn.Linear)
    return first.out_features


def _grouped_optimizer(prep: Preparation) -> torch.optim.Optimizer:
    """AdamW with divided and whole parameters in groups of their own: one kernel cannot take both."""
    groups: dict[bool, list[nn.Parameter]] = {}
    for parameter in prep.model.parameters():
        groups.setdefault(hasattr(parameter, "full_tensor"), []).append(parameter)
    return adamw(prep, lambda **how: torch.optim.AdamW([{"params": one} for one in groups.values()], **how))


def pipeline_parallel(prep: Preparation, micro: Inputs, losses: list[Loss]) -> None:
    """Divide the repeated blocks into as many stages as there are ranks, one micro-batch for each rank.

    `micro` are the inputs of one micro-batch, `losses` one loss for each. Training runs the schedule 1F1B
    (Narayanan et al. 2019, PipeDream, section 3.2), inference plain GPipe. Raises UnsupportedCase for inputs
    of several shapes, of which the stages would be traced for the first, and for what cannot be divided.
    """
    from torch.distributed import pipelining

    if len(set(prep.shapes)) > 1:
        raise UnsupportedCase(
            "parallel=pp traces one shape: it is not measured with inputs of several shapes"
        )
    rank, ranks = dist.get_rank(), dist.get_world_size()
    blocks = prep.workload.checkpointed
    if len(blocks) < ranks:
        raise UnsupportedCase(
            f"{prep.key.name} has {len(blocks)} repeated blocks: too few for {ranks} stages"
        )
    begins = {blocks[len(blocks) * number // ranks] for number in range(1, ranks)}
    spec = dict.fromkeys(begins, pipelining.SplitPoint.BEGINNING)
    total = sum(parameter.numel() for parameter in prep.model.parameters())
    piped: Any = pipelining.pipeline(prep.model, micro, split_spec=spec)
    modules: list[nn.Module] = [piped.get_stage_module(number) for number in range(ranks)]
    divided = sum(parameter.numel() for module in modules for parameter in module.parameters())
    if divided != total:
        raise UnsupportedCase(f"{prep.key.name} has weights that two stages share")
    stage = piped.build_stage(rank, torch.device(prep.device))
    first, last = rank == 0, rank == ranks - 1
    if prep.training:
        schedule: Any = pipelining.Schedule1F1B(
            stage, ranks, loss_fn=lambda out, which: losses[int(which)](out)
        )
    else:
        schedule = pipelining.ScheduleGPipe(stage, ranks)
    targets = torch.arange(ranks)

    def run_schedule(*inputs: torch.Tensor) -> Any:
        found: list[torch.Tensor] = []
        given = inputs if first else ()
        if not prep.training:
            return schedule.step(*given)
        schedule.step(*given, target=targets if last else None, losses=found)
        return found

    prep.called = run_schedule
    prep.model = modules[rank]
    _release_memory(modules, prep.model)
    prep.workload = replace(prep.workload, model=prep.model, checkpointed=())
    prep.loss = lambda found: torch.stack(found).mean() if found else torch.zeros(())
    # The schedule has already gone backward.
    prep.backward = lambda loss: None
    prep.facts |= {"parameters": total, "stage_blocks": len(blocks) / ranks, "micro_batches": ranks}


def _release_memory(modules: list[nn.Module], own: nn.Module) -> None:
    """Free the weights and buffers of all stages but `own`, which the schedule would keep by its trace."""
    storages = {tensor.untyped_storage().data_ptr() for tensor in (*own.parameters(), *own.buffers())}
    for module in modules:
        for tensor in (*module.parameters(), *module.buffers()):
            if (storage := tensor.untyped_storage()).data_ptr() not in storages:
                storage.resize_(0)
