"""One model over several ranks: its matrices divided (tensor parallel) or its blocks (pipeline parallel)."""

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import torch
import torch.distributed as dist
from torch import nn

from ..prepared_case import Act, Inputs, Unsupported, adamw
from .data_parallel import mesh_of

Loss = Callable[[Any], torch.Tensor]


def tensor_parallel(act: Act) -> None:
    """Divide the feed-forward layers of a transformer: the first by columns, the second by rows.

    One all-reduce a block and direction (Shoeybi et al. 2019, arXiv:1909.08053, section 3). Attention,
    embeddings and norms stay whole on every rank, which computes them alike.
    """
    from torch.distributed.tensor.parallel import ColwiseParallel, RowwiseParallel, parallelize_module

    ranks = dist.get_world_size()
    found = _feed_forwards(act.model)
    if not found:
        raise Unsupported(f"{act.key.name} has no feed-forward layers (linear, activation, linear) to divide")
    if uneven := [name for name in found if _inner(act.model, name) % ranks]:
        raise Unsupported(f"the width of {uneven[0]} cannot be divided by {ranks} ranks")
    plan: dict[str, Any] = {f"{name}.0": ColwiseParallel() for name in found}
    plan |= {f"{name}.2": RowwiseParallel() for name in found}
    parallelize_module(act.model, mesh_of(act), plan)
    act.optimizer = _grouped_optimizer
    act.facts["tensor_parallel"] = f"feed-forward of {len(found)} blocks; the rest is whole on every rank"


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


def _grouped_optimizer(act: Act) -> torch.optim.Optimizer:
    """AdamW with divided and whole parameters in groups of their own: one kernel cannot take both."""
    groups: dict[bool, list[nn.Parameter]] = {}
    for parameter in act.model.parameters():
        groups.setdefault(hasattr(parameter, "full_tensor"), []).append(parameter)
    return adamw(act, lambda **how: torch.optim.AdamW([{"params": one} for one in groups.values()], **how))


def pipeline_parallel(act: Act, micro: Inputs, losses: list[Loss]) -> None:
    """Divide the repeated blocks into as many stages as there are ranks, one micro-batch for each rank.

    `micro` are the inputs of one micro-batch, `losses` one loss for each. Training runs the schedule 1F1B
    (Narayanan et al. 2019, PipeDream, section 3.2), inference plain GPipe. Raises Unsupported for inputs of
    several shapes, of which the stages would be traced for the first, and for what cannot be divided.
    """
    from torch.distributed import pipelining

    if len(set(act.shapes)) > 1:
        raise Unsupported("parallel=pp traces one shape: it is not measured with inputs of several shapes")
    rank, ranks = dist.get_rank(), dist.get_world_size()
    blocks = act.workload.checkpointed
    if len(blocks) < ranks:
        raise Unsupported(f"{act.key.name} has {len(blocks)} repeated blocks: too few for {ranks} stages")
    begins = {blocks[len(blocks) * number // ranks] for number in range(1, ranks)}
    spec = dict.fromkeys(begins, pipelining.SplitPoint.BEGINNING)
    total = sum(parameter.numel() for parameter in act.model.parameters())
    piped: Any = pipelining.pipeline(act.model, micro, split_spec=spec)
    modules: list[nn.Module] = [piped.get_stage_module(number) for number in range(ranks)]
    divided = sum(parameter.numel() for module in modules for parameter in module.parameters())
    if divided != total:
        raise Unsupported(f"{act.key.name} has weights that two stages share")
    stage = piped.build_stage(rank, torch.device(act.device))
    first, last = rank == 0, rank == ranks - 1
    if act.training:
        schedule: Any = pipelining.Schedule1F1B(
            stage, ranks, loss_fn=lambda out, which: losses[int(which)](out)
        )
    else:
        schedule = pipelining.ScheduleGPipe(stage, ranks)
    targets = torch.arange(ranks)

    def called(*inputs: torch.Tensor) -> Any:
        found: list[torch.Tensor] = []
        given = inputs if first else ()
        if not act.training:
            return schedule.step(*given)
        schedule.step(*given, target=targets if last else None, losses=found)
        return found

    act.called = called
    act.model = modules[rank]
    _let_go(modules, act.model)
    act.workload = replace(act.workload, model=act.model, checkpointed=())
    act.loss = lambda found: torch.stack(found).mean() if found else torch.zeros(())
    # The schedule has already gone backward.
    act.backward = lambda loss: None
    act.facts |= {"parameters": total, "stage_blocks": len(blocks) / ranks, "micro_batches": ranks}


def _let_go(modules: list[nn.Module], own: nn.Module) -> None:
    """Free the weights and buffers of all stages but `own`, which the schedule would keep by its trace."""
    kept = {tensor.untyped_storage().data_ptr() for tensor in (*own.parameters(), *own.buffers())}
    for module in modules:
        for tensor in (*module.parameters(), *module.buffers()):
            if (storage := tensor.untyped_storage()).data_ptr() not in kept:
                storage.resize_(0)
