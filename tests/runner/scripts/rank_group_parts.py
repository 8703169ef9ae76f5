"""Run by the measured interpreter: what the parts of a gang decide, each without a process, as JSON."""

import json
import sys
import tempfile
from collections.abc import Callable
from dataclasses import asdict
from pathlib import Path
from typing import Any, ClassVar
from unittest import mock

import torch
from torch.testing._internal.distributed.fake_pg import FakeStore

from runner.cases import small_networks
from runner.worker.case import REGISTER, Workload, case
from runner.worker.case_key import CaseKey
from runner.worker.distributed.collectives import backend_lacks, collective_seconds
from runner.worker.distributed.cpu_partition import TooFewCpus, share_out
from runner.worker.distributed.leader import add_peaks, merge_blocks, merge_metrics
from runner.worker.distributed.parallel import part, part_key, pipeline_parallel, refuse, store, whole
from runner.worker.distributed.rank import Rank, judge
from runner.worker.messages import Block
from runner.worker.prepared_case import UnknownCase, UnsupportedCase, begin
from runner.worker.worker_loop import start_runner

REFUSED = [
    "mlp_overhead/train/batch=64/ranks=2",
    "mlp_overhead/train/batch=64/hook=fp16",
    "mlp_overhead/train/batch=64/instances=2,parallel=ddp",
    "mlp_overhead/infer/batch=64/parallel=ddp,ranks=2",
    "mlp_overhead/train/batch=64/bucket=1,parallel=fsdp2",
    "mlp_overhead/train/batch=64/compile=default,parallel=tp",
    "mlp_overhead/train/batch=64/checkpoint=on,parallel=pp,ranks=2",
    "mlp_overhead/train/batch=64/graph=capture,parallel=ddp",
    "mlp_overhead/train/batch=64/hook=bf16,parallel=ddp",
    "mlp_overhead/train/batch=64/parallel=fsdp2,precision=int8-dynamic",
    "mlp_overhead/train/batch=1/parallel=ddp,ranks=2,scaling=strong",
    "mlp_overhead/train/batch=64/nodes=2",
    "mlp_overhead/train/batch=64/nodes=2,parallel=ddp,ranks=3",
    "mlp_overhead/train/batch=64/compile=default,nodes=2,parallel=ddp,ranks=2",
    "mlp_overhead/train/batch=64/nodes=2,parallel=ddp,ranks=2",
    "mlp_overhead/train/batch=64/nodes=4,parallel=ddp,ranks=4",
    "mlp_overhead/train/batch=64/parallel=ddp,ranks=2,sharding=gradients",
    "mlp_overhead/train/batch=64/parallel=fsdp2,ranks=2,sharding=hybrid",
]


@case(lengths=[1, 2])
def in_turn(lengths: int) -> Workload:
    """Two inputs in turn, of one length or two."""
    first, other = ((torch.randn(4, length, 3),) for length in (5, 5 * lengths))
    return Workload(torch.nn.Linear(3, 3), first, items=4, flops=2.0, variants=(other,))


@case()
def with_memory() -> Workload:
    """Sequences, and a memory by layers."""
    return Workload(torch.nn.Identity(), (torch.randn(2, 4), torch.randn(3, 2, 4)), items=2)


class TwoBlocks(torch.nn.Module):
    """Two layers, each of which scales what it computes by the same numbers."""

    def __init__(self) -> None:
        super().__init__()
        self.layers = torch.nn.ModuleList([torch.nn.Linear(4, 8), torch.nn.Linear(8, 8)])
        self.register_buffer("scale", torch.ones(8))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        for layer in self.layers:
            x = layer(x) * self.scale
        return x


class LooksAtOneDnn(torch.nn.Linear):
    """Notes whether oneDNN's kernels are allowed while it is computed."""

    seen: ClassVar[list[bool]] = []

    def forward(self, input: torch.Tensor) -> torch.Tensor:
        self.seen.append(bool(torch.backends.mkldnn.enabled))
        return super().forward(input)


@case(phases=("train",))
def fits_once() -> Workload:
    """What is computed once, and has no room for a reference."""
    if LooksAtOneDnn.seen:
        raise RuntimeError("there is no room for another one")
    return Workload(LooksAtOneDnn(4, 4), (torch.randn(2, 4),), items=2, loss=lambda output: output.sum())


@case()
def two_blocks() -> Workload:
    """What a pipeline of two divides."""
    return Workload(TwoBlocks(), (torch.randn(4, 4),), items=4, checkpointed=("layers.0", "layers.1"))


def reason(of: Callable[[], object]) -> str:
    """Why something is unsupported; empty when it is not."""
    try:
        of()
    except (UnsupportedCase, UnknownCase, TooFewCpus) as error:
        return str(error)
    return ""


def machine(folder: Path) -> Path:
    """Four cores with two threads each, numbered as Linux does: 0 and 4 are of one core."""
    for cpu in range(8):
        topology = folder / f"cpu{cpu}/topology"
        topology.mkdir(parents=True)
        (topology / "thread_siblings_list").write_text(f"{cpu % 4},{cpu % 4 + 4}\n")
    return folder


def shares() -> dict[str, Any]:
    """Shares of that machine."""
    with tempfile.TemporaryDirectory() as name:
        root = machine(Path(name))
        cpus = range(8)
        return {
            "two of all": share_out(cpus, 2, "instance", None, root),
            "three of all": share_out(cpus, 3, "instance", None, root),
            "six of all": share_out(cpus, 6, "instance", None, root),
            "two of one core": share_out(cpus, 2, "rank", 1, root),
            "of a part": share_out([1, 2, 5], 2, "instance", None, root),
            "too many": reason(lambda: share_out(cpus, 9, "instance", None, root)),
            "too many cores": reason(lambda: share_out(cpus, 3, "rank", 2, root)),
        }


def judged() -> dict[str, Any]:
    """Courses of two ranks against references."""
    ddp = CaseKey.parse("mlp_overhead/train/batch=64/parallel=ddp,ranks=2")
    right = {"loss": 2.0, "squares": 4.0}
    both = [{"loss": 1.0, "squares": 4.0}, {"loss": 3.0, "squares": 4.0}]
    stages = [{"loss": None, "squares": 1.0}, {"loss": 2.0, "squares": 3.0}]
    none = [{"loss": float("nan"), "squares": 4.0}] * 2
    overflowed = [{"loss": 2.0, "squares": float("inf")}] * 2
    return {
        "alike": judge(ddp, both, right).error,
        "stages": judge(ddp.with_technique(parallel="pp"), stages, right).error,
        "another gradient": judge(ddp, both, right | {"squares": 4.41}).wrong,
        "not finite": judge(ddp, none, right).wrong,
        "overflowed": judge(ddp, overflowed, right).wrong,
        "scaler": asdict(judge(ddp.with_technique(precision="amp-fp16"), overflowed, right)),
    }


def parts() -> dict[str, Any]:
    """The parts of two ranks, and both as one."""
    key = CaseKey.parse("mlp_overhead/train/batch=64/parallel=ddp,ranks=2,scaling=strong")
    own = part_key(key)
    first, second, both = part(own, 0, 0), part(own, 0, 1), whole(own, 0, 2)
    output = torch.randn(64, 10)
    halves = [one.loss(output[at : at + 32]) for one, at in ((first, 0), (second, 32)) if one.loss]
    weights = zip(first.model.parameters(), second.model.parameters(), strict=True)
    return {
        "batch": dict(own.parameters)["batch"],
        "items": [first.items, second.items, both.items],
        "same weights": all(torch.equal(one, other) for one, other in weights),
        "same inputs": torch.equal(first.inputs[0], second.inputs[0]),
        "joined": torch.equal(both.inputs[0], torch.cat([first.inputs[0], second.inputs[0]])),
        "loss": float(both.loss(output)) if both.loss else None,
        "mean": float(sum(halves) / 2),
    }


def in_turns() -> dict[str, Any]:
    """The parts of two ranks with inputs in turn, and both as one; and what a pipeline says of two shapes."""
    key = CaseKey.parse("in_turn/infer/lengths=2/parallel=pp,ranks=2")
    first, second, both = part(key, 0, 0), part(key, 0, 1), whole(key, 0, 2)
    turns = zip(*((one.inputs, *one.variants) for one in (first, second, both)), strict=True)
    act = begin(key, "cpu", first)
    remembers = CaseKey.parse("with_memory/infer/-/parallel=tp,ranks=2")
    return {
        "shapes": [[tuple(one.shape) for one in step] for step in (both.inputs, *both.variants)],
        "joined": [torch.equal(joined, torch.cat([a, b])) for (a,), (b,), (joined,) in turns],
        "items": [first.items, both.items],
        "memory": reason(lambda: whole(remembers, 0, 2)),
        "memory in a pipeline": reason(lambda: whole(remembers.with_technique(parallel="pp"), 0, 2)),
        "pipeline": reason(lambda: pipeline_parallel(act, first.inputs, [])),
    }


def stages() -> list[dict[str, float]]:
    """How many numbers of each weight and buffer are kept on each rank of a pipeline of two."""
    key = CaseKey.parse("two_blocks/infer/-/parallel=pp,ranks=2")
    kept: list[dict[str, float]] = []
    for rank in range(2):
        # Nothing is sent while a pipeline is built.
        torch.distributed.init_process_group("fake", store=FakeStore(), rank=rank, world_size=2)
        act = begin(key, "cpu", part(key, 0, 0))
        named = [*act.model.named_parameters(), *act.model.named_buffers()]
        pipeline_parallel(act, act.inputs[0], [])
        kept.append({name: tensor.untyped_storage().nbytes() / 4 for name, tensor in named})
        torch.distributed.destroy_process_group()
    return kept


def blocks() -> dict[str, Any]:
    """Blocks of two members that had half a core each, of which the second began later."""
    first = Block((10, 30), 40, 100, minor_faults=1, involuntary_switches=2, cpu_ns=20)
    second = Block((20, 15), 35, 110, minor_faults=3, involuntary_switches=4, cpu_ns=20)
    return {
        "ranks": asdict(merge_blocks([first, second], ranks=True)),
        "instances": asdict(merge_blocks([first, second], ranks=False)),
    }


def metrics() -> dict[str, Any]:
    """The reports of two members, on CPUs of their own and on one GPU."""
    reports = [
        {"ceiling_tflops": 3.0, "rss_peak_steady": 1.0, "switches": 2.0, "model_size": 7.0},
        {"ceiling_tflops": 2.0, "rss_peak_steady": 4.0, "switches": 5.0, "model_size": 7.0},
    ]
    better = {"pages_local": 1.0, "data_wait": 0.05, "launch_bound": 0.1, "export_time": 1.0, "capture": 1.0}
    worse = {"pages_local": 0.02, "data_wait": 0.95, "launch_bound": 0.9, "export_time": 9.0, "capture": 2.0}
    better, worse = better | {"queue_latency_p99": 1.0}, worse | {"queue_latency_p99": 8.0}
    return {
        "cpus": merge_metrics(reports, one_gpu=False),
        "gpu": merge_metrics(reports, one_gpu=True),
        "worse": worse,
        "worst": [
            merge_metrics(both, one_gpu=False) for both in ([better, worse], [worse, better], [{}, worse])
        ],
        "half a sum": [merge_metrics(both, one_gpu=False) for both in ([reports[0], {}], [{}, reports[0]])],
    }


def lacking() -> dict[str, Any]:
    """What gloo lacks, and what becomes of a collective that fails in every group or in that of all ranks."""
    dist = torch.distributed
    dist.init_process_group("gloo", store=dist.HashStore(), rank=0, world_size=1)
    one, other = torch.ones(1), torch.ones(1)

    def timed(fails: Callable[[Any], bool], text: str) -> Any:
        def scatter(*_: Any, group: Any = None) -> None:
            if fails(group):
                raise RuntimeError(text)

        with mock.patch.object(dist, "reduce_scatter_tensor", scatter):
            try:
                return collective_seconds("reduce_scatter", 64, "cpu")
            except RuntimeError as error:
                return str(error)

    found = {
        "bits of floats": backend_lacks(
            lambda group: dist.all_reduce(one, op=dist.ReduceOp.BAND, group=group)
        ),
        "reduce_scatter": backend_lacks(lambda group: dist.reduce_scatter_tensor(one, other, group=group)),
        "seconds": collective_seconds("reduce_scatter", 64, "cpu"),
        "of no release": timed(lambda group: True, "not implemented"),
        "other": timed(lambda group: group is None, "a rank does not support this any more"),
    }
    with mock.patch.object(torch, "zeros", side_effect=MemoryError):
        found["too large"] = collective_seconds("all_reduce", 64, "cpu")
    dist.destroy_process_group()
    return found


def on_a_rank() -> dict[str, Any]:
    """A training step of one rank without oneDNN, and the verdict on it where the reference fails."""
    key = CaseKey.parse("fits_once/train/-/onednn=off,parallel=ddp")
    served = store(0, leads=True)
    rank = Rank(key, "cpu", 0, rank=0, world=1, store_port=served.port)
    rank.first_call()
    assert rank.trace is not None
    checked = judge(key, [rank.trace], rank.reference())
    torch.distributed.destroy_process_group()
    return {"onednn": LooksAtOneDnn.seen, "check": asdict(checked)}


def peaks() -> list[dict[str, float | None]]:
    """The peaks of two cards, of two of which one is not listed, and of none."""
    known = {"card_peak_tflops": 100.0, "card_peak_gb_per_second": 3000.0}
    return [add_peaks([known, known]), add_peaks([known, {}]), add_peaks([{}, {}])]


def powersgd() -> dict[str, str]:
    """Why PowerSGD is refused on the CPU, with several buckets and with one that holds all gradients."""
    case = "mlp_overhead/train/batch=64/{}hook=powersgd,parallel=ddp,ranks=2"
    return {bucket: refusal(case.format(bucket)) for bucket in ("", "bucket=1,", "bucket=26,")}


def refusal(text: str) -> str:
    """Why a case on a CPU is refused."""
    key = CaseKey.parse(text)
    return reason(lambda: (refuse(key, "cpu"), part_key(key)))


if __name__ == "__main__":
    assert small_networks.mlp_overhead.__name__ in REGISTER
    refused = {text: refusal(text) for text in REFUSED}
    results = {"shares": shares(), "judged": judged(), "parts": parts(), "refused": refused}
    results |= {
        "blocks": blocks(),
        "metrics": metrics(),
        "in turns": in_turns(),
        "stages": stages(),
        "powersgd": powersgd(),
        "lacking": lacking(),
        "on a rank": on_a_rank(),
        "peaks": peaks(),
        "sharded alone": reason(
            lambda: start_runner(CaseKey.parse("mlp_overhead/train/batch=64/sharding=hybrid"), "cpu", 0)
        ),
    }
    json.dump(results, sys.stdout)
