"""One rank of a case over several: joins the others, builds its part, and checks the answer of all."""

import inspect
import math
import traceback
from collections.abc import Mapping
from typing import Any

import torch
import torch.distributed as dist
from torch.nn.parallel import DistributedDataParallel

from .. import correctness
from ..case import Workload
from ..case_key import CaseKey
from ..measurements import bounds, compiling, timing
from ..prepared_case import (
    Preparation,
    PreparedCase,
    UnsupportedCase,
    begin,
    final_metrics,
    finish,
    guard_metrics,
)
from ..single_process import SingleProcess
from ..techniques import compilation, kernels, precision
from ..techniques.apply import apply_storage
from .parallel import (
    BY_DDP,
    DATA_PARALLEL,
    ddp,
    fsdp2,
    part,
    part_key,
    pipeline_parallel,
    store,
    tensor_parallel,
    whole,
    zero1,
)


class Rank(SingleProcess):
    """One rank; `rank` of `world` on `device`. It joins the process group as `barrier` describes.

    Where a loss or an output is only on some ranks, `speaks` says whether it is on this one.
    """

    def __init__(
        self, key: CaseKey, device: str, seed: int, rank: int, world: int, store_port: int | None
    ) -> None:
        if key.axis("compile") != "none":
            compiling.keep_headers_next_to_the_cache()
        self._key = part_key(key)
        self._device = device
        self._seed = seed
        self._number = rank
        self._world = world
        self._ddp: DistributedDataParallel | None = None
        self.trace: dict[str, float | None] | None = None
        self.speaks = key.axis("parallel") != "pp" or rank == world - 1
        barrier(device, rank, world, store_port)
        self.prepared = self._prepare_case()

    def first_call(self) -> int:
        """The first step; of a training case, loss and gradients are kept for the answer's check."""
        returned: list[Any] = []
        taken = timing.first_call(lambda: returned.append(self.prepared.step()), self._device)
        if self._key.phase == "train" and self.prepared.model is not None:
            loss = float(returned.pop()) if self.speaks else None
            self.trace = {"loss": loss, "squares": squares(self.prepared.model)}
        return taken

    def local_step(self) -> Any:
        """A training step whose gradients stay on this rank; raises UnsupportedCase without DDP."""
        if self._ddp is None:
            raise UnsupportedCase("only DDP can leave communication out")
        with self._ddp.no_sync():
            return self.prepared.step()

    def facts(self) -> dict[str, Any]:
        """What describes the case as a whole: items, flops and bytes of all ranks."""
        facts = super().facts()
        facts["backend"] = dist.get_backend()
        if self.prepared.model is not None:
            facts["gradient_bytes"] = sum(
                p.numel() * p.element_size() for p in self.prepared.model.parameters()
            )
        if self._key.axis("parallel") in DATA_PARALLEL:
            totals = [name for name in ("items", "flops", "bytes_moved") if facts.get(name)]
            facts |= {name: facts[name] * self._world for name in totals}
        return facts

    def metrics(self) -> Mapping[str, float]:
        """Metrics of the preparation, final metrics, compiler counters; nothing that takes steps of its own.

        A step is a common one: ranks that took different numbers of them would wait for each other for ever.
        So the leader has all of them measure `device_time` at once.
        """
        metrics = self.prepared.metrics | final_metrics(self.prepared)
        if self._key.axis("compile") != "none":
            metrics |= compiling.report(compilation.records_graphs(self._key, self._device)).metrics
        return metrics

    def device_time(self, step_ns: float) -> Mapping[str, float]:
        """`common_device_time` of this rank, of steps that take so long."""
        return common_device_time(self.prepared, self._device, step_ns, self._shapes)

    def reference(self) -> dict[str, Any]:
        """Loss and squared gradient norm of the same step, eager and in fp32 on this process alone.

        The parts of all ranks one after the other, gradients averaged: what data parallel training computes.
        Where that fails, as for want of memory, `problem` says why.
        """
        try:
            return self._reference()
        except Exception as error:
            # Everything is measured; what the check cannot compare must not cost that.
            traceback.print_exc()
            return {"problem": str(error)[:500]}

    def _reference(self) -> dict[str, float]:
        eager = self._key.eager
        loss_of_all = 0.0
        model: torch.nn.Module | None = None
        with precision.exact_fp32():
            for rank in range(self._world):
                prep = begin(eager, self._device, part(eager, self._seed, rank, model))
                assert prep.loss is not None
                loss = prep.loss(prep.called(*prep.inputs[0])) / self._world
                loss.backward()
                loss_of_all += float(loss.detach())
                model = prep.model
        assert model is not None
        return {"loss": loss_of_all, "squares": squares(model)}

    def check(self) -> correctness.Check:
        """Of an inference: this rank's output against the eager fp32 reference for the same inputs.

        All ranks have to take part, for their step is a common one.
        """
        self.prepared.rotation.rewind()
        got = self.prepared.step()
        allowed = correctness.tolerance(self._key)
        if not self.speaks:
            return correctness.Check(None, allowed, note="the output is on the last rank")
        try:
            with precision.exact_fp32():
                eager = self._key.eager
                expected = finish(begin(eager, self._device, self._workload(eager))).step()
            return correctness.compare(got, expected, allowed)
        except Exception as error:
            # Everything is measured; what the check cannot compare must not cost that.
            return correctness.Check(None, allowed, note=f"not compared: {error}"[:500])

    # -- building -------------------------------------------------------------------------

    def _workload(self, key: CaseKey) -> Workload:
        if self._key.axis("parallel") in DATA_PARALLEL:
            return part(key, self._seed, self._number)
        return whole(key, self._seed, self._world)

    def _prepare_case(self) -> PreparedCase:
        parallel = self._key.axis("parallel")
        prep = begin(self._key, self._device, self._workload(self._key))
        # What changes weights or their types comes before what divides or averages them.
        apply_storage(prep)
        precision.apply(prep)
        kernels.apply(prep)
        # DDP goes around what is compiled: Dynamo knows of it all the same, and splits the graph at buckets.
        compilation.apply(prep)
        if parallel in BY_DDP:
            self._ddp = zero1(prep) if parallel == "zero1" else ddp(prep)
        elif parallel == "fsdp2":
            fsdp2(prep)
        elif parallel == "tp":
            tensor_parallel(prep)
        else:
            self._pipeline(prep)
        return finish(prep)

    def _pipeline(self, prep: Preparation) -> None:
        parts = [part(self._key, self._seed, rank, prep.model) for rank in range(self._world)]
        micro = tuple(tensor.to(prep.device) for tensor in parts[0].inputs)
        losses = [one.loss for one in parts if one.loss is not None]
        pipeline_parallel(prep, micro, losses)


def barrier(device: str, rank: int, world: int, store_port: int | None) -> None:
    """Form the process group: nccl on CUDA, else gloo.

    Without a port of the leader's store, the variables that torchrun sets say where.
    """
    how: dict[str, Any] = {"backend": "gloo"}
    if device.startswith("cuda"):
        how["backend"] = "nccl"
        torch.cuda.set_device(device)
        if "device_id" in inspect.signature(dist.init_process_group).parameters:
            # Where PyTorch can, it connects the GPUs here; otherwise that is part of the first step.
            how["device_id"] = torch.device(device)
    if store_port is not None:
        how |= {"store": store(store_port, leads=False), "rank": rank, "world_size": world}
    dist.init_process_group(**how)


def common_device_time(
    prepared: PreparedCase, device: str, step_ns: float, shapes: int = 1
) -> Mapping[str, float]:
    """Metrics and facts of `bounds.measure_device_time` of one rank, to be called on all at once.

    The kernels of collectives are among its kernels, and run while they wait for other ranks. A rank whose
    profiler fails takes as many steps as the others, who would wait for it; a step that fails is raised.
    """
    left = bounds.steps_looked_at(step_ns, shapes)
    failed: list[Exception] = []

    def step() -> object:
        nonlocal left
        left -= 1
        try:
            return prepared.step()
        except Exception as error:
            failed.append(error)
            raise

    found = guard_metrics(
        prepared, lambda: bounds.measure_device_time(step, device, step_ns, shapes, prepared.facts)
    )
    if failed:
        raise failed[0]
    for _ in range(left):
        prepared.step()
    timing.synchronize(device)
    return found


def squares(model: torch.nn.Module) -> float:
    """The squared Euclidean norm of all gradients; of divided ones, over all their parts.

    To be called on all ranks together, for the parts are gathered.
    """
    total = 0.0
    for parameter in model.parameters():
        gradient: Any = parameter.grad
        if gradient is None:
            continue
        if hasattr(gradient, "full_tensor"):
            gradient = gradient.full_tensor()
        total += correctness.square_sum(gradient)
    return total


def judge(key: CaseKey, traces: list[dict[str, Any]], reference: dict[str, Any]) -> correctness.Check:
    """The first step of all ranks against the reference; of a pipeline each has gradients of its own."""
    allowed = correctness.tolerance(key)
    if "problem" in reference:
        return correctness.Check(None, allowed, note=f"not compared: {reference['problem']}")
    losses = [trace["loss"] for trace in traces if trace["loss"] is not None]
    pairs = [(sum(losses) / len(losses), reference["loss"])]
    own = [trace["squares"] for trace in traces]
    norm = math.sqrt(sum(own) if key.axis("parallel") == "pp" else own[0])
    # A GradScaler tries its scale by letting gradients overflow: such a step changes no weight.
    skipped = key.axis("precision") == "amp-fp16" and not math.isfinite(norm)
    note = "gradients not compared: GradScaler skipped the first step" if skipped else ""
    pairs += [] if skipped else [(norm, math.sqrt(reference["squares"]))]
    if not all(math.isfinite(number) for pair in pairs for number in pair):
        return correctness.Check(None, allowed, wrong=f"loss {pairs[0][0]}, gradient norm {norm}: not finite")
    return correctness.judge_error(
        max(correctness.relative(got, want) for got, want in pairs), allowed, note=note
    )
