"""Data without a network: small objects, bytes, the first batch of a loader, and lists of numbers."""

import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import torch
from torch import Tensor
from torch.utils.data import DataLoader, Dataset, IterableDataset, get_worker_info

from ...worker.case import case

#: Batches of one epoch.
BATCHES = 16


class Records(Dataset[dict[str, Any]]):
    """Items of many small fields: twenty numbers, a name, and optionally 4 KiB of bytes."""

    FIELDS = 20

    def __init__(self, count: int, payload: bool) -> None:
        self._count = count
        self._payload = bytes(range(256)) * 16 if payload else b""

    def __len__(self) -> int:
        return self._count

    def __getitem__(self, index: int) -> dict[str, Any]:
        record: dict[str, Any] = {f"field_{number}": index + number for number in range(self.FIELDS)}
        record["name"] = f"record {index}"
        if self._payload:
            record["payload"] = self._payload
        return record


def _loader(batch: int, workers: int, payload: bool, keep: bool) -> "DataLoader[dict[str, Any]]":
    parallel: dict[str, Any] = (
        {"multiprocessing_context": "fork", "persistent_workers": keep} if workers else {}
    )
    # Pinned where there is a device to pin memory for.
    pin = payload and torch.cuda.is_available()
    return DataLoader(
        Records(batch * BATCHES, payload), batch, num_workers=workers, pin_memory=pin, **parallel
    )


@case(family="input pipeline", batch=[32], workers=[0, 1, 2], payload=[False, True])
def small_records(batch: int, workers: int, payload: bool) -> Callable[[], object]:
    """An epoch of 16 batches whose items are dictionaries of numbers; with `payload` also of bytes, pinned.

    Guards: collation item by item, bytes walked one by one, and what goes through pipes between processes.
    """
    loader = _loader(batch, workers, payload, keep=True)

    def epoch() -> int:
        return sum(len(one["name"]) for one in loader)

    return epoch


@case(family="input pipeline", batch=[32], workers=[0, 1, 2])
def first_batch(batch: int, workers: int) -> Callable[[], object]:
    """The first batch of a new loader, whose processes are started for it and ended after it.

    Guards: what starting and ending of processes costs, which each epoch pays without persistent workers.
    """
    loader = _loader(batch, workers, payload=False, keep=False)

    def first() -> object:
        return next(iter(loader))

    return first


#: Files of the sharded data set, samples in each, and numbers in a sample: 4 MiB a file.
SHARDS, SAMPLES, NUMBERS = 8, 256, 4096


class Shards(IterableDataset[Tensor]):
    """Samples (4096,) out of files that hold many each; every worker process reads files of its own."""

    def __init__(self, folder: Path) -> None:
        self._files = sorted(folder.glob("*.pt"))

    def __iter__(self) -> Iterator[Tensor]:
        worker = get_worker_info()
        first, step = (worker.id, worker.num_workers) if worker else (0, 1)
        for file in self._files[first::step]:
            yield from torch.load(file, weights_only=True)


@case(family="input pipeline", batch=[32], workers=[0, 1, 2])
def sharded_records(batch: int, workers: int) -> Callable[[], object]:
    """An epoch over a data set of eight files, which the worker processes divide among themselves.

    Guards: what is loaded file by file, and batches that go through pipes. The page cache answers: the disk
    is not measured.
    """
    folder = tempfile.TemporaryDirectory(prefix="pyrometer-shards-")
    for number in range(SHARDS):
        torch.save(torch.randn(SAMPLES, NUMBERS), Path(folder.name) / f"shard-{number}.pt")
    parallel: dict[str, Any] = (
        {"multiprocessing_context": "fork", "persistent_workers": True} if workers else {}
    )
    loader = DataLoader(Shards(Path(folder.name)), batch, num_workers=workers, **parallel)

    def epoch() -> int:
        # Named here, for the folder goes with the last name of it.
        assert Path(folder.name).is_dir()
        return sum(len(one) for one in loader)

    return epoch


@case(family="input pipeline", kind=["from_list", "to_list", "items"], numbers=[10000])
def conversion(kind: str, numbers: int) -> Callable[[], object]:
    """Numbers of Python made a tensor, a tensor made a list, or its numbers read one by one.

    Guards: objects that are walked or checked more often than before, and the cost of the smallest call.
    """
    tensor = torch.rand(numbers)
    values = tensor.tolist()
    return {
        "from_list": lambda: torch.tensor(values),
        "to_list": tensor.tolist,
        "items": lambda: [float(one) for one in tensor],
    }[kind]
