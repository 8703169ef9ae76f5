"""How long one request takes: from its start on the host until the answer is in the host's memory."""

import time
from collections.abc import Callable, Mapping
from statistics import quantiles
from typing import Any, cast

import torch

from . import timing

#: As many as a 99th percentile takes (see runner/execution/metrics.py), or this long.
_REQUESTS = 662
_SECONDS = 2.0
_FEWEST = 10
#: From how many requests on a percentile is published.
_PERCENTILES = {"request_latency_p90": (90, 64), "request_latency_p99": (99, _REQUESTS)}


def measure_request_latency(step: Callable[[], object], device: str) -> Mapping[str, float]:
    """Metrics `request_latency` and its percentiles in ms of an inference on CUDA; empty off CUDA.

    Blocks queue their steps, so the time between two of them is a throughput and no request's latency: a
    request is not queued behind another, and is done when its answer has been copied to the host.
    """
    if not device.startswith("cuda"):
        return {}
    taken: list[int] = []
    timing.synchronize(device)
    ends = time.perf_counter() + _SECONDS
    while len(taken) < _REQUESTS and (len(taken) < _FEWEST or time.perf_counter() < ends):
        started = time.perf_counter_ns()
        to_host(step())
        timing.synchronize(device)
        taken.append(time.perf_counter_ns() - started)
    cuts = quantiles(taken, n=100, method="inclusive")
    found = {"request_latency": cuts[49] / 1e6}
    return found | {
        name: cuts[share - 1] / 1e6 for name, (share, enough) in _PERCENTILES.items() if len(taken) >= enough
    }


def to_host(answer: Any) -> None:
    """Copy every tensor of an answer to the host; its parts may be tuples, lists and mappings."""
    if isinstance(answer, torch.Tensor):
        answer.to("cpu")
    elif isinstance(answer, Mapping):
        for part in cast("Mapping[Any, Any]", answer).values():
            to_host(part)
    elif isinstance(answer, (tuple, list)):
        for part in cast("list[Any]", answer):
            to_host(part)
