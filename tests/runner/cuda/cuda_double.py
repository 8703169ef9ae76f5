"""A stand-in for a CUDA device whose clock the test owns: events, a queue, SM cycles, the profiler.

The host's clock moves with what the host does, the device's with what is queued. Every call is in `calls`.
"""

import contextlib
from dataclasses import dataclass, field
from types import SimpleNamespace
from unittest import mock

import torch
from torch.utils._python_dispatch import TorchDispatchMode

from runner.worker.measurements import timing

US = 1_000


@dataclass
class Device:
    """Costs are in nanoseconds: of an event's first recording and of each, of reading one, of a launch."""

    create: int = 20 * US
    record: int = 2 * US
    read: int = 3 * US
    launch: int = 5 * US
    #: What the first launch of the kernel that spins costs the host besides.
    load: int = 0
    #: The SM clock in MHz, by the device's time in nanoseconds.
    mhz: object = lambda at: 1500.0
    host: int = 0
    device: int = 0
    #: What the caching allocator says: its peaks in MiB, its retries, and its segments.
    allocated: int = 0
    reserved: int = 0
    retries: int = 0
    segments: list = field(default_factory=list)
    calls: list = field(default_factory=list)
    kernels: list = field(default_factory=list)
    backwards: bool = False

    def run(self, nanoseconds, name="step"):
        """Queue a kernel."""
        self.calls.append(name)
        self.host += self.launch
        started = max(self.device, self.host)
        self.device = started + nanoseconds
        self.kernels.append((started, self.device))

    def sleep(self, cycles):
        """torch.cuda._sleep."""
        self.host += self.load
        self.load = 0
        self.run(round(cycles / self.mhz(self.device) * US), "spin")

    def synchronize(self, *_):
        """torch.cuda.synchronize, and that of an event that is the last of the queue."""
        self.calls.append("synchronize")
        self.host = max(self.host, self.device)

    def reset_peaks(self, device):
        """torch.cuda.reset_peak_memory_stats."""
        self.calls.append("reset peaks")

    @contextlib.contextmanager
    def range(self, name):
        """torch.cuda.nvtx.range."""
        self.calls.append(name)
        yield
        self.calls.append("end of range")

    def event(self, enable_timing=False):
        """torch.cuda.Event."""
        assert enable_timing
        return Event(self)

    def profile(self, activities):
        """torch.profiler.profile: it makes launching slower and leaves the kernels as they are."""
        return Profile(self)


class Event:
    """CUDA makes an event when it is first recorded."""

    def __init__(self, device):
        self._device = device
        self._at = None

    def record(self):
        device = self._device
        device.calls.append("create" if self._at is None else "record")
        device.host += device.record + (device.create if self._at is None else 0)
        self._at = max(device.device, device.host)

    def synchronize(self):
        self._device.synchronize()

    def elapsed_time(self, later):
        self._device.host += self._device.read
        distance = (later._at - self._at) / 1e6
        return -distance if self._device.backwards else distance


class Profile:
    def __init__(self, device):
        self._device = device

    def __enter__(self):
        self._device.kernels.clear()
        self._device.launch *= 5
        return self

    def __exit__(self, *_):
        self._device.launch //= 5

    def events(self):
        on_device = SimpleNamespace(name="CUDA")
        return [
            SimpleNamespace(
                name="spin", device_type=on_device, time_range=SimpleNamespace(start=a / US, end=b / US)
            )
            for a, b in self._device.kernels
        ]


class Recorded(TorchDispatchMode):
    """What a stream does while a graph is recorded; `replay` does it again, where it was done."""

    def __init__(self, graph):
        super().__init__()
        self._graph = graph

    def __torch_dispatch__(self, function, types, arguments=(), keywords=None):
        answer = function(*arguments, **(keywords or {}))
        self._graph.done.append((function, arguments, keywords or {}, answer))
        return answer


class Graph:
    """torch.cuda.CUDAGraph on a CPU: replays into the tensors that were there while it was recorded."""

    def __init__(self, keep_graph=False):
        self.done = []

    def instantiate(self):
        """Nothing is to be made ready."""

    @torch.no_grad()
    def replay(self):
        for function, arguments, keywords, answer in self.done:
            again = function(*arguments, **keywords)
            # A view shows by itself what it is a view of.
            if isinstance(answer, torch.Tensor) and again is not answer and not answer._is_view():
                answer.copy_(again)


class Stream:
    def wait_stream(self, other):
        """There is one stream."""


@contextlib.contextmanager
def installed(device):
    """PyTorch's CUDA and the clocks of what is measured are the stand-in's."""
    clock = SimpleNamespace(
        perf_counter_ns=lambda: device.host,
        monotonic_ns=lambda: device.host,
        perf_counter=lambda: device.host / 1e9,
    )
    timing.CudaQueue._pool.clear()
    patches = [
        mock.patch.object(torch.cuda, "Event", device.event),
        mock.patch.object(torch.cuda, "synchronize", device.synchronize),
        mock.patch.object(torch.cuda.nvtx, "range", device.range),
        mock.patch.object(torch.cuda, "_sleep", device.sleep, create=True),
        mock.patch.object(torch.version, "cuda", "13.0"),
        mock.patch.object(torch.cuda, "CUDAGraph", Graph),
        mock.patch.object(torch.cuda, "graph", Recorded),
        mock.patch.object(torch.cuda, "Stream", Stream),
        mock.patch.object(torch.cuda, "current_stream", Stream),
        mock.patch.object(torch.cuda, "stream", contextlib.nullcontext),
        mock.patch.object(torch.cuda, "empty_cache", lambda: None),
        mock.patch.object(torch.cuda, "is_initialized", lambda: True),
        mock.patch.object(torch.cuda, "memory_reserved", lambda name: device.reserved << 20),
        mock.patch.object(torch.cuda, "max_memory_reserved", lambda name: device.reserved << 20),
        mock.patch.object(torch.cuda, "max_memory_allocated", lambda name: device.allocated << 20),
        mock.patch.object(torch.cuda, "memory_stats", lambda name: {"num_alloc_retries": device.retries}),
        mock.patch.object(torch.cuda, "memory_snapshot", lambda: device.segments),
        mock.patch.object(torch.cuda, "reset_peak_memory_stats", device.reset_peaks),
        mock.patch.object(torch.profiler, "profile", device.profile),
        mock.patch.object(timing, "time", clock),
    ]
    with contextlib.ExitStack() as stack:
        for patch in patches:
            stack.enter_context(patch)
        yield device
