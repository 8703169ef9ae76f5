"""What is measured of a CUDA device, on a stand-in whose clock is known."""

import contextlib
import functools
import gc
import io
import itertools
import json
import os
import sys
import weakref
from dataclasses import asdict
from pathlib import Path
from types import SimpleNamespace
from unittest import mock

import torch

sys.path += [str(Path(__file__).parent), str(Path(__file__).parents[1] / "techniques/snippets")]

import small_cases
from cuda_double import US, Device, installed

from runner.worker.case_key import CaseKey
from runner.worker.distributed import leader, member
from runner.worker.distributed.members import Members
from runner.worker.distributed.rank import common_device_time
from runner.worker.measurements import bounds, compiling, memory, timing
from runner.worker.messages import Block
from runner.worker.prepared_case import BadReport, InputRotation, begin, finish, guard_metrics, make_optimizer
from runner.worker.single_process import SingleProcess
from runner.worker.techniques import graphs, precision
from runner.worker.worker_loop import failure

torch.set_num_threads(1)


def step_of(device, us, name="step"):
    """A step of one kernel of so many microseconds."""
    return functools.partial(device.run, us * US, name)


def one_block(device, iterations, us, **how):
    found = timing.block(
        step_of(device, us),
        "cuda:0",
        iterations,
        ready=lambda: device.calls.append("ready"),
        **how,
    )
    calls, device.calls = device.calls, []
    return {"samples": found.samples_ns, "wall": found.wall_ns, "clocks": found.sm_clocks_mhz, "calls": calls}


def order():
    """Two blocks of one process."""
    with installed(Device()) as device:
        return [one_block(device, 4, 100, lead_in=3) for _ in range(2)]


def short_steps():
    """Steps of 5 us that take as long to launch: one event each, and one for each 25 of them."""
    with installed(Device()) as device:
        one_block(device, 600, 5)
        each = one_block(device, 600, 5)
        shared = one_block(device, 600, 5, per_sample=25)
    return {"each": each["samples"], "shared": shared["samples"]}


def ahead():
    """Steps of 3 us that take 5 to launch."""
    with installed(Device()) as device:
        one_block(device, 200, 3)
        without, after = (one_block(device, 200, 3, lead_in=n, per_sample=25) for n in (0, 2000))
    return {"not led in to": without["samples"], "led in to": after["samples"]}


def wall():
    """The time of a block, without reading its events."""
    with installed(Device()) as device:
        one_block(device, 50, 100)
        found = one_block(device, 50, 100)
    return {"wall": found["wall"], "timed": sum(found["samples"])}


def droop():
    """A clock that falls from 1980 to 1500 MHz in the first 30 ms."""
    with installed(Device(mhz=lambda at: 1980 - 16 * min(30.0, at / 1e6))) as device:
        cold = one_block(device, 10, 100)["clocks"]
        # So much later.
        device.device, device.host = 0, 0
        led_in = one_block(device, 10, 100, lead_in=500)["clocks"]
    return {"cold": cold, "led in": led_in}


def backwards():
    with installed(Device(backwards=True)) as device:
        try:
            one_block(device, 4, 100)
        except timing.EventsUnreliable as error:
            failed = failure(error, "measure")
            return [failed.status, failed.reason]


def unordered_clock():
    """The clock between two events that the device stamped in the wrong order."""
    with installed(Device(backwards=True)):
        marks = [torch.cuda.Event(enable_timing=True) for _ in range(2)]
        timing.queue_clock(*marks)
        return timing.clock_mhz(*marks)


def queued():
    """A step that takes 5 us in a queue, and 26 where the host waits for each."""
    with installed(Device(launch=1 * US)) as device:
        found = timing.queued_step_ns(step_of(device, 5), "cuda:0", 26 * US)
        return {"ns": found, "waits": device.calls.count("synchronize"), "steps": device.calls.count("step")}


def warmed(mhz, max_seconds=10.0):
    """A warm-up under a clock: how it ended, how long it was, and how long the device had run by then."""
    with installed(Device(mhz=mhz)) as device:
        found = timing.warm_up(step_of(device, 100), "cuda:0", 0.0, max_seconds)
    return {"ended": found.ended, "ns": found.step_ns, "seconds": found.seconds, "ran": device.device / 1e9}


def warm_ups():
    """Under a steady clock, under one that falls for 0.4 s from 1980 to 1580 MHz, and with a cap."""

    def falling(at):
        return 1980 - min(400.0, at / 1e6)

    return {
        "steady": warmed(lambda at: 1980.0),
        "falling": warmed(falling),
        "cap": warmed(falling, 0.2),
    }


def captured():
    """A captured step, and the eager one, for an input that changed after the capture."""
    torch.manual_seed(0)
    prep = begin(CaseKey.parse("layers/infer/-/graph=capture"), "cpu", small_cases.layers())
    prep.device = "cuda:0"
    with installed(Device()):
        graphs.apply(prep)
        step = prep.make_step(prep, InputRotation(prep.inputs))
        before = step().clone()
        with torch.no_grad():
            prep.inputs[0][0].mul_(2)
            got, want = step(), prep.model(*prep.inputs[0])
    return {"follows": bool(torch.equal(got, want)), "changed": not torch.equal(before, want)}


def captured_training():
    """Whether the optimizer of a captured training step outlives what prepared it, and its losses."""
    torch.manual_seed(0)
    prep = begin(CaseKey.parse("layers/train/-/graph=capture"), "cpu", small_cases.layers())
    prep.device = "cuda:0"
    made = []

    def on_cpu(prep, capturable):
        assert capturable
        made.append(weakref.ref(optimizer := make_optimizer(prep)))
        return optimizer

    with installed(Device()), mock.patch.object(graphs, "make_optimizer", on_cpu):
        graphs.apply(prep)
        prepared = finish(prep)
        del prep
        gc.collect()
        losses = [float(prepared.step()) for _ in range(4)]
    return {"kept": made[0]() is not None, "falls": losses == sorted(losses, reverse=True), "losses": losses}


def first_clock():
    """The clock before a process's first block, where loading the kernel takes a quarter of a millisecond."""
    with installed(Device(load=250 * US)) as device:
        return one_block(device, 4, 100, lead_in=20)["clocks"]


def clock_of_waiting():
    """The clock where steps take longer to launch than to run: the queue is empty when it is measured."""
    with installed(Device(launch=10 * US)) as device:
        one_block(device, 200, 3)
        return one_block(device, 200, 3, lead_in=200, per_sample=25)["clocks"]


def queued_answers():
    """How many answers of a warm-up's steps are alive at once."""
    alive, most = weakref.WeakSet(), []

    def step():
        answer = torch.zeros(1)
        alive.add(answer)
        most.append(len(alive))
        return answer

    with installed(Device()):
        timing.queued_step_ns(step, "cuda:0", 5_000_000)
    return max(most)


def device_time(us, launch, latency, lost=0, shapes=1):
    with installed(Device(launch=launch * US)) as device:
        step = step_of(device, us) if not lost else lambda: None
        facts = {}
        found = dict(bounds.measure_device_time(step, "cuda:0", latency * US, shapes, facts))
    return {**found, **facts, "steps": device.calls.count("step")}


def ranks_time(us, breaks=0):
    """A rank's device time, under a profiler that works and under one that fails; or a step that fails."""
    found = []
    for profile in (None, mock.Mock(side_effect=RuntimeError("CUPTI is in use by another process"))):
        with installed(Device()) as device:
            steps = itertools.count(1)

            def step(device=device, steps=steps):
                if next(steps) == breaks:
                    raise RuntimeError("out of order")
                device.run(us * US, "step")

            prepared = SimpleNamespace(step=step, facts={})
            with mock.patch.object(torch.profiler, "profile", profile or device.profile):
                try:
                    known = dict(common_device_time(prepared, "cuda:0", us * US))
                except RuntimeError as error:
                    known = {"failed": str(error)}
            found.append({**known, **prepared.facts, "steps": device.calls.count("step")})
    return found


#: Which steps a block has.
STEPS = ("iterations", "lead_in")


class Ranks:
    """Two members that report what they are asked for; `slower`: milliseconds of the slower one's steps."""

    def __init__(self, spec, early=1, slower=(5, 5, 5), clocks=()):
        self.early, self.slower, self.clocks = early, slower, iter(clocks)
        self.asked, self.pids, self.shares = {}, [os.getpid()] * 2, ((0,), (0,))
        self.own, self.spec, self.one_clock, self.pinned_by = range(2), spec, True, "affinity"

    def facts(self):
        return {}

    def node_of(self, number):
        return ""

    def soon(self):
        return 1

    def local_number(self, number):
        return number

    def order(self, do, **details):
        self.asked[do] = details

    def order_one(self, number, do, **details):
        self.order(do, **details)

    def gather(self):
        def block(*steps):
            return asdict(Block(tuple(ms * 1_000_000 for ms in steps), sum(steps) * 1_000_000, 5, 0, 0, 1))

        if [*self.asked][-1] == "queued":
            # The second rank has another clock, and a longer step.
            return [{"ns": 2_000_000, "mhz": next(self.clocks)}, {"ns": 2_500_000, "mhz": 1500}]
        # Of the first rank's profiler nothing is known; the slower rank is the second.
        return {
            "build": [self.early] * 2,
            # As each is when the host waits for it.
            "steps": [[5_000_000] * 20] * 2,
            "settle": [None] * 2,
            "block": [block(4, 4, 4), block(*self.slower)],
            "local": [[1, 1, 1]] * 2,
            "metrics": [{"rss_peak": 1.0}, {"rss_peak": 2.0}],
            "device_time": [{}, {"device_time": 3.0, "launch_bound": 0.4}],
            "facts": [{"threads": 1, "affinity": {"allowed": [], "seen": []}, "card_peak_tflops": 100.0}] * 2,
        }[[*self.asked][-1]]

    def request(self, do, **details):
        self.order(do, **details)
        return self.gather()


@contextlib.contextmanager
def two_ranks(**how):
    """A group on two GPUs."""
    key = CaseKey.parse("layers/infer/-/parallel=tp,ranks=2")
    with (
        mock.patch.object(leader, "refuse"),
        mock.patch.object(leader, "store"),
        mock.patch.object(leader, "LocalMembers", functools.partial(Ranks, **how)),
        mock.patch.object(torch.cuda, "device_count", lambda: 2),
    ):
        yield leader.RankGroup(key, "cuda:0", 0)


def warm_up_of_ranks(clocks):
    """How a group's warm-up ends while the first rank has these clocks, and how many it took."""
    left = iter(clocks)
    with two_ranks(clocks=left) as group:
        found = group.warm_up(0.0, 10.0)
    return [found.ended, found.step_ns, len(clocks) - len([*left])]


def group_of_ranks(**how):
    """What a group on two GPUs comes to, and what its ranks were asked for."""
    with two_ranks(**how) as group:
        group.block(iterations=3, lead_in=1, per_sample=1)
        group.common_steps()
        group.local_steps()
        turns = [[group._members.asked[do][name] for name in STEPS] for do in ("block", "local")]
        found = {"metrics": dict(group.metrics()), "asked": group._members.asked["device_time"]}
        return {**found, "peak": group.facts()["card_peak_tflops"], "turns": turns}


class Products:
    """What torch.matmul is on the stand-in: products of so many microseconds."""

    def __init__(self, device, us):
        self._device, self._us = device, us

    def __call__(self, left, right):
        self._device.run(self._us * US, "product")


def ceiling(us):
    """How many products of so long are queued between two waits, how many there are, and the ceiling."""
    with (
        installed(Device()) as device,
        mock.patch.object(torch, "matmul", Products(device, us)),
        mock.patch.object(torch, "randn", lambda *_, device: torch.ones(1)),
    ):
        found = bounds.measure_matmul_peak(CaseKey.parse("layers/infer/-/eager"), "cuda:0", {})
    words = "".join("p" if call == "product" else "w" for call in device.calls)
    groups = [len(group) for group in words.split("w") if group]
    return {"last": groups[-1], "products": words.count("p"), "tflops": found["ceiling_tflops"]}


def requests():
    """A step of 1 ms of which the host knows nothing until it waits."""
    with installed(Device()) as device:
        found = dict(timing.measure_request_latency(step_of(device, 1000), "cuda:0"))
        return {**found, "calls": device.calls[:6], "steps": device.calls.count("step")}


def allocator():
    """Peaks of 300 MiB of 400, a graph's pool of 64 with 24 in tensors, and another device's segment."""
    pool = {"device": 0, "total_size": 64 << 20, "allocated_size": 24 << 20, "segment_pool_id": (0, 1)}
    shared = {**pool, "segment_pool_id": (0, 0)}
    double = Device(allocated=300, reserved=400, retries=2, segments=[pool, shared, {**pool, "device": 1}])
    with installed(double):
        found = memory.cuda_peaks("cuda:0", "_compile") | memory.cuda_allocator("cuda:0")
        memory.reset_cuda_peaks("cuda:0")
        memory.reset_cuda_peaks("cpu")
    return {**found, "calls": double.calls}


def allocators():
    """Peaks of a process on two of three devices: 100 MiB of 200 on the first, 500 of 600 on the second."""
    double, reset = Device(), []
    allocated, reserved = {0: 100, 1: 500, 2: 0}, {0: 200, 1: 600, 2: 0}
    with (
        installed(double),
        mock.patch.object(torch.cuda, "device_count", lambda: 3),
        mock.patch.object(torch.cuda, "memory_reserved", lambda number: reserved[number] << 20),
        mock.patch.object(torch.cuda, "max_memory_reserved", lambda number: reserved[number] << 20),
        mock.patch.object(torch.cuda, "max_memory_allocated", lambda number: allocated[number] << 20),
        mock.patch.object(torch.cuda, "memory_stats", lambda number: {"num_alloc_retries": number + 1}),
        mock.patch.object(torch.cuda, "reset_peak_memory_stats", reset.append),
    ):
        memory.reset_cuda_peaks("cuda:0")
        return {**memory.cuda_peaks("cuda:0"), **memory.cuda_allocator("cuda:0"), "reset": reset}


def allocator_of_cuda():
    """Peaks under cudaMallocAsync, which refuses a snapshot."""
    refusal = mock.Mock(side_effect=RuntimeError("Calling snapshot with backend:cudaMallocAsync"))
    with (
        installed(Device(allocated=300, reserved=400)),
        mock.patch.object(torch.cuda, "memory_snapshot", refusal),
    ):
        return memory.cuda_peaks("cuda:0")


def kernel_names():
    """The table of two kernels whose long names differ in their end, and of memory set in two ways."""
    names = ["kernel" * 50 + "<float>", "kernel" * 50 + "<half>", "Memset (Device)", "Memset (Unknown)"]
    events = [SimpleNamespace(name=name, time_range=SimpleNamespace(start=0.0, end=2.0)) for name in names]
    return bounds.kernel_table(events, steps=1)


def guards():
    prep = begin(CaseKey.parse("layers/infer/-/eager"), "cpu", small_cases.layers())
    prepared = finish(prep)

    def fails():
        raise RuntimeError("CUPTI is in use by another process")

    def misreports():
        raise BadReport("report() returns nan")

    answers = [guard_metrics(prepared, lambda: {"a": 1.0}), guard_metrics(prepared, fails)]
    try:
        guard_metrics(prepared, misreports)
    except BadReport as error:
        answers.append(str(error))
    return {"answers": answers, "facts": prepared.facts["not_measured"]}


def last_of_all():
    """A case whose ceiling does not fit beside the others."""
    torch.manual_seed(0)
    solo = SingleProcess(CaseKey.parse("layers/infer/-/eager"), "cpu", 0)
    solo.first_call()

    def no_room():
        raise torch.OutOfMemoryError("CUDA out of memory. Tried to allocate 256 MiB")

    solo.prepared.final_metrics.append(no_room)
    metrics = solo.metrics()
    return {"metrics": sorted(metrics), "facts": solo.facts()["not_measured"]}


OUT_OF_MEMORY = (
    "CUDA out of memory. Tried to allocate 2.00 GiB",
    "CUDA error: CUBLAS_STATUS_ALLOC_FAILED when calling `cublasCreate(handle)`",
    "cuDNN error: CUDNN_STATUS_ALLOC_FAILED",
    "cuDNN error: CUDNN_STATUS_INTERNAL_ERROR_DEVICE_ALLOCATION_FAILED",
    "NCCL error: unhandled cuda error, Last error: Cuda failure 2 'out of memory'",
)


def newer_interface():
    """What a reference computes in, and what is so after it, where a case set TF32 by the newer interface."""
    matmul = torch.backends.cuda.matmul
    if not hasattr(matmul, "fp32_precision"):
        return None
    before, matmul.fp32_precision = matmul.fp32_precision, "tf32"
    try:
        with precision.exact_fp32():
            within = matmul.fp32_precision
        return [within, matmul.fp32_precision]
    finally:
        matmul.fp32_precision = before


def waited_for(local):
    """The device that a rank of this number on its machine waits for before and after a block."""
    built = SimpleNamespace(prepared=SimpleNamespace(step=lambda: None, shapes=()))
    devices = []
    with (
        mock.patch.object(member, "Rank", lambda *_: built),
        mock.patch.object(timing, "block", lambda step, device, **_: devices.append(device)),
    ):
        rank = member.Member(None, dict)
        rank._build("layers/train/-/parallel=ddp,ranks=2", "cuda:0", 0, local, local, 2, None)
        rank._time_block(built.prepared.step, 0, iterations=1)
    return devices


def peaks_of_instances():
    """The peaks of memory that an instance reports of PyTorch's own runtime, and of another one."""
    built = SimpleNamespace(metrics=dict, prepared=SimpleNamespace(shapes=()))
    found = {}
    for technique in ("instances=2", "export=onnxruntime,instances=2"):
        with (
            installed(Device(allocated=300, reserved=400)),
            mock.patch.object(member, "SingleProcess", lambda *_: built),
        ):
            one = member.Member(None, dict)
            one._build(f"layers/infer/-/{technique}", "cuda:0", 0, 0, 0, 2, None)
            one._settle()
            found[technique] = sorted(name for name in one._report() if name.startswith("cuda"))
    return found


def peaks_of_cards():
    """The facts of a process that holds memory on some devices; the third one is no card that is listed."""
    names = ["NVIDIA H100 80GB HBM3", "NVIDIA H100 80GB HBM3", "a card"]
    found = []
    for used in ((), (0,), (0, 1), (0, 2)):
        with (
            installed(Device()),
            mock.patch.object(torch.cuda, "device_count", lambda: 3),
            mock.patch.object(torch.cuda, "memory_reserved", lambda number, used=used: number in used),
            mock.patch.object(torch.cuda, "get_device_name", names.__getitem__),
        ):
            found.append(bounds.peak_facts("cuda:0", "bf16"))
    return found


def logged(text):
    """What the log holds after an error."""
    with (
        installed(Device()),
        mock.patch.object(torch.cuda, "memory_summary", lambda abbreviated: "allocated 300 MiB"),
        contextlib.redirect_stderr(io.StringIO()) as log,
    ):
        failure(RuntimeError(text), "measure")
    return log.getvalue()


#: Errors of CUDA, and how a case ends that meets them.
ERRORS = (
    "CUDA error: uncorrectable ECC error encountered",
    "CUDA error: uncorrectable NVLink error detected during the execution",
    "Unexpected error from cudaGetDeviceCount(). Error 802: system not yet initialized",
    "No CUDA-capable device is detected",
    "CUDA error: CUDA-capable device(s) is/are busy or unavailable",
    "CUDA error: device-side assert triggered",
    "CUDA error: an illegal memory access was encountered",
)


def ended(text):
    failed = failure(RuntimeError(text), "measure")
    return [failed.status, failed.device_lost]


def member_ended(number, text=ERRORS[0]):
    """How a case over ranks ends whose rank meets an error; the first one alone is on this machine."""
    group = SimpleNamespace(own=range(1), name="rank {}".format)
    failed = failure(Members.member_failure(group, number, asdict(failure(RuntimeError(text), "block"))), "")
    return [failed.status, failed.device_lost]


print(
    json.dumps(
        {
            "order": order(),
            "short": short_steps(),
            "ahead": ahead(),
            "wall": wall(),
            "droop": droop(),
            "backwards": backwards(),
            "unordered clock": unordered_clock(),
            "queued": queued(),
            "warm-ups": warm_ups(),
            "captured": captured(),
            "captured training": captured_training(),
            "first clock": first_clock(),
            "clock of waiting": clock_of_waiting(),
            "queued answers": queued_answers(),
            "device_time": {
                "replay": device_time(8, 10, 10),
                "droop": device_time(800, 1, 1000),
                "long": device_time(50_000, 5, 50_000),
                "not known": device_time(8, 1, 0),
                "shapes": device_time(3000, 1, 3000, shapes=16),
                "no kernel": device_time(8, 1, 10, lost=1),
            },
            "ranks": {
                "time": ranks_time(500),
                "broken": ranks_time(500, 7),
                "warm-up": warm_up_of_ranks([1980, 1800, 1790, 1790]),
                "warm-up without clocks": warm_up_of_ranks([None, None]),
                "group": group_of_ranks(),
                # Twice each of two shapes.
                "shapes": group_of_ranks(early=4, slower=(5, 9, 5)),
            },
            "kernel names": kernel_names(),
            "ceilings": {"short": ceiling(1_500), "long": ceiling(21_000), "longest": ceiling(60_000)},
            "requests": requests(),
            "allocator": allocator(),
            "allocators": allocators(),
            "allocator of CUDA": allocator_of_cuda(),
            "peaks of instances": peaks_of_instances(),
            "peaks of cards": peaks_of_cards(),
            "guards": guards(),
            "last": last_of_all(),
            "oom": [memory.is_out_of_memory(RuntimeError(text)) for text in OUT_OF_MEMORY],
            "logged": [logged(OUT_OF_MEMORY[0]), logged("another error")],
            "no oom": memory.is_out_of_memory(RuntimeError("CUDA error: an illegal memory access")),
            "newer interface": newer_interface(),
            "waited for": [waited_for(0), waited_for(1)],
            "errors": [ended(text) for text in ERRORS],
            "errors of ranks": [member_ended(0), member_ended(1), member_ended(0, "another error")],
            "skips": [compiling.report(asked).cudagraph_skips for asked in (False, True)],
        }
    )
)
