"""A DataLoader that decodes images before a small network: how much of a step is waiting for data?"""

import statistics
import time
import zlib
from collections.abc import Callable
from itertools import pairwise
from typing import Any

import torch
from torch import Tensor, nn
from torch.jit import is_tracing  # pyright: ignore[reportPrivateImportUsage]
from torch.nn import functional as F
from torch.utils.data import DataLoader, Dataset

from ...worker.case import Workload, case
from .. import flops

#: What lies on the disk of others: as large as a photograph scaled for training usually is kept.
STORED_SIDE = 160
SIDE, CLASSES = 64, 10
WIDTHS = (3, 32, 64)
#: Batches of one epoch, which is one step.
BATCHES = 8


class Photographs(Dataset[Tensor]):
    """Compressed images (3, 160, 160) of bytes; an item is decoded, scaled to (3, 64, 64) and normalised.

    Every batch holds the same images, so that any step's answer is the answer. They are made of smooth steps
    and of grain, so that zlib has something to find, as in photographs: it takes them to two thirds.
    """

    def __init__(self, batch: int) -> None:
        coarse = torch.rand(batch, 3, 8, 8) * 255
        smooth = F.interpolate(coarse, (STORED_SIDE, STORED_SIDE), mode="bilinear")
        pixels = ((smooth / 8).floor() * 8 + torch.randint(4, smooth.shape)).to(torch.uint8)
        self._stored = [zlib.compress(bytes(image.flatten().tolist()), 6) for image in pixels]

    def __len__(self) -> int:
        return len(self._stored) * BATCHES

    def __getitem__(self, index: int) -> Tensor:
        stored = self._stored[index % len(self._stored)]
        pixels = torch.frombuffer(bytearray(zlib.decompress(stored)), dtype=torch.uint8)
        image = pixels.view(1, 3, STORED_SIDE, STORED_SIDE).float()
        scaled = F.interpolate(image, (SIDE, SIDE), mode="bilinear", antialias=True)
        return (scaled[0] - 127.5) / 64


class LoaderNetwork(nn.Module):
    """A network that fetches an epoch of batches itself; its input only says where, and in which dtype.

    An epoch is one step, because a step of one batch would find batches that were fetched ahead while
    nothing was measured. The worker processes live from the first step on. Returns the last batch's logits.
    After every step, `report_share` gets the share of it that went into waiting for the next batch.
    """

    def __init__(
        self,
        loader: "DataLoader[Tensor]",
        network: nn.Module,
        non_blocking: bool,
        report_share: Callable[[float], object],
    ) -> None:
        super().__init__()
        self.network = network
        self._loader = loader
        self._non_blocking = non_blocking
        self._report_share = report_share
        # A loop over a loader makes no graph; Dynamo would lose itself in the decoding instead. Said here and
        # not at the method: there it would load all of Dynamo into every process, whatever it measures.
        self.forward = torch.compiler.disable(self.forward)  # pyright: ignore[reportAttributeAccessIssue]

    def forward(self, where: Tensor) -> Tensor:
        if is_tracing() or torch.compiler.is_compiling():
            raise NotImplementedError("a trace would keep the batches it saw, and fetch no more")
        if where.device.type == "cpu" and (self._loader.pin_memory or self._non_blocking):
            raise NotImplementedError("pinned memory and non-blocking copies need a CUDA device")
        return self._on_cuda(where) if where.is_cuda else self._on_cpu(where)

    def _on_cpu(self, where: Tensor) -> Tensor:
        logits, waited = where, 0.0
        started = since = time.perf_counter()
        for batch in self._loader:
            waited += time.perf_counter() - since
            logits = self._compute_logits(batch, where)
            since = time.perf_counter()
        self._report_share(waited / (time.perf_counter() - started))
        return logits

    def _on_cuda(self, where: Tensor) -> Tensor:
        """The process runs ahead of the device: what counts is how long the device had nothing to do."""
        logits, began = where, torch.cuda.Event(enable_timing=True)
        began.record()
        marks = [began]
        for batch in self._loader:
            start, end = (torch.cuda.Event(enable_timing=True) for _ in range(2))
            start.record()
            logits = self._compute_logits(batch, where)
            end.record()
            marks += [start, end]
        marks[-1].synchronize()
        # Pairs of the end before and the start after.
        waited = sum(end.elapsed_time(start) for end, start in zip(marks[::2], marks[1::2], strict=False))
        self._report_share(waited / began.elapsed_time(marks[-1]))
        return logits

    def _compute_logits(self, batch: Tensor, where: Tensor) -> Tensor:
        return self.network(batch.to(where.device, where.dtype, non_blocking=self._non_blocking))


def _loader(batch: int, workers: int, prefetch: int, pin: bool) -> "DataLoader[Tensor]":
    parallel: dict[str, Any] = {}
    if workers:
        # Forked on every version of Python, whose defaults differ.
        parallel = {
            "prefetch_factor": prefetch,
            "persistent_workers": True,
            "multiprocessing_context": "fork",
        }
    return DataLoader(Photographs(batch), batch, num_workers=workers, pin_memory=pin, **parallel)


def _network() -> nn.Sequential:
    layers: list[nn.Module] = []
    for inputs, outputs in pairwise(WIDTHS):
        layers += [nn.Conv2d(inputs, outputs, 3, padding=1), nn.ReLU(), nn.MaxPool2d(2)]
    return nn.Sequential(*layers, nn.Flatten(), nn.Linear(_features(), CLASSES))


def _features() -> int:
    return WIDTHS[-1] * (SIDE >> (len(WIDTHS) - 1)) ** 2


def _flops(images: int) -> int:
    convolutions = sum(
        flops.conv2d(images, inputs, outputs, 3, SIDE >> level)
        for level, (inputs, outputs) in enumerate(pairwise(WIDTHS))
    )
    return convolutions + flops.linear(images, _features(), CLASSES)


@case(
    family="input pipeline",
    batch=[16],
    workers=[0, 1, 2],
    prefetch=[2],
    pin=[False, True],
    non_blocking=[False, True],
)
def input_pipeline(batch: int, workers: int, prefetch: int, pin: bool, non_blocking: bool) -> Workload:
    """An epoch of 8 batches through DataLoader, decoding and a small network, and the share spent waiting.

    `prefetch` batches are fetched ahead by each of the `workers` processes; without workers the step itself
    decodes, and nothing is fetched ahead. `pin` and `non_blocking` are about the copy to a CUDA device.
    """
    # Kept in this list, not in the model: a technique may measure a copy of that.
    shares: list[float] = []
    return Workload(
        LoaderNetwork(_loader(batch, workers, prefetch, pin), _network(), non_blocking, shares.append),
        (torch.zeros(()),),
        items=batch * BATCHES,
        unit="images",
        flops=_flops(batch * BATCHES),
        report=lambda: {"data_wait": statistics.median(shares)},
    )
