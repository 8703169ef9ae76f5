"""Data parallel training: DistributedDataParallel, with ZeroRedundancyOptimizer, and fully_shard."""

import importlib
from math import ceil
from typing import Any

import torch
import torch.distributed as dist
from torch.nn.parallel import DistributedDataParallel

from ..axes import AXES
from ..prepared_case import Act, Unsupported, adamw

#: Plain averaging until this step: PowerSGD's warm start needs one step behind it. Source: PowerSGDState.
_POWERSGD_FROM = 2
#: The smallest bucket that is not DDP's default, for models that need none as large.
_OTHER_BUCKET = 26
_HOOKS = {"fp16": "default_hooks", "bf16": "default_hooks", "powersgd": "powerSGD_hook"}


def ddp(act: Act) -> DistributedDataParallel:
    """Wrap what the act calls by axes `bucket`, `ddp` and `hook`; answers the wrapper."""
    _refuse_powersgd(act)
    options, bucket = act.key.axis("ddp"), act.key.axis("bucket")
    wrapped = DistributedDataParallel(
        act.called,
        device_ids=[torch.device(act.device).index] if act.device.startswith("cuda") else None,
        # Told nothing, DDP makes the first bucket small; told its own default, it does not.
        bucket_cap_mb=None if bucket == AXES["bucket"].default else int(bucket),
        gradient_as_bucket_view=options == "bucket-view",
        static_graph=options == "static-graph",
    )
    _register_hook(act, wrapped)
    act.called = wrapped
    return wrapped


def _refuse_powersgd(act: Act) -> None:
    """Raise Unsupported where PowerSGD would hang: over gloo with more than one bucket.

    Its hook starts all-reduces from callbacks of others. NCCL runs these in the order of a stream; gloo runs
    them in its own threads, where the buckets' all-reduces meet in another order on each rank: they mismatch.
    """
    if act.key.axis("hook") != "powersgd" or act.device.startswith("cuda"):
        return
    gradients = sum(p.numel() * p.element_size() for p in act.model.parameters() if p.requires_grad)
    whole = ceil(gradients / 2**20)
    bucket = act.key.axis("bucket")
    # Told nothing, DDP makes a small first bucket whatever the rest would fit into.
    if bucket == AXES["bucket"].default or int(bucket) < whole:
        raise Unsupported(
            "hook=powersgd over gloo, which ranks on a CPU speak, mixes up the all-reduces of several "
            f"buckets: choose a bucket that holds all gradients, such as bucket={max(whole, _OTHER_BUCKET)}"
        )


def _register_hook(act: Act, wrapped: DistributedDataParallel) -> None:
    hook = act.key.axis("hook")
    if hook == "none":
        return
    where = "torch.distributed.algorithms.ddp_comm_hooks"
    try:
        hooks = importlib.import_module(f"{where}.{_HOOKS[hook]}")
    except ImportError as error:
        raise Unsupported(f"hook={hook} is not in this environment: {error}") from error
    if hook == "powersgd":
        state = hooks.PowerSGDState(None, matrix_approximation_rank=1, start_powerSGD_iter=_POWERSGD_FROM)
        wrapped.register_comm_hook(state, hooks.powerSGD_hook)
        act.facts["hook"] = (
            f"rank 1, from step {_POWERSGD_FROM + 1} on; the answer's check sees the first step"
        )
        return
    wrapped.register_comm_hook(None, getattr(hooks, f"{hook}_compress_hook"))


def zero1(act: Act) -> DistributedDataParallel:
    """DDP whose optimizer keeps each rank's share of the state only (ZeRO stage 1)."""
    act.optimizer = _sharded_optimizer
    return ddp(act)


def _sharded_optimizer(act: Act) -> torch.optim.Optimizer:
    from torch.distributed.optim import ZeroRedundancyOptimizer

    parameters = list(act.model.parameters())
    return adamw(act, lambda **how: ZeroRedundancyOptimizer(parameters, torch.optim.AdamW, **how))


def fsdp2(act: Act) -> None:
    """Shard the parameters of each repeated block, then of what is left, over all ranks."""
    try:
        from torch.distributed.fsdp import fully_shard
    except ImportError as error:
        raise Unsupported(f"this PyTorch has no fully_shard: {error}") from error
    mesh = mesh_of(act)
    for name in act.workload.checkpointed:
        fully_shard(act.model.get_submodule(name), mesh=mesh)
    fully_shard(act.model, mesh=mesh)
    act.facts["sharded_blocks"] = len(act.workload.checkpointed)


def mesh_of(act: Act) -> Any:
    """All ranks in a row."""
    from torch.distributed.device_mesh import init_device_mesh

    return init_device_mesh(act.device.split(":")[0], (dist.get_world_size(),))
