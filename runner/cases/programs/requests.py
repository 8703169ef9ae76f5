"""Requests that arrive by a clock of their own, and a server that answers those that wait as one batch."""

import time
from collections.abc import Mapping
from statistics import quantiles

import torch
from torch import Tensor, nn
from torch.jit import is_tracing  # pyright: ignore[reportPrivateImportUsage]

from ...worker.case import Workload, case
from .. import flops

FEATURES, WIDTH, CLASSES = 256, 1024, 16
#: Requests of one step.
REQUESTS = 64
#: The first calls make what later ones find made, and requests queue behind them: their waits do not count.
FIRST_CALLS = 3
#: Answers that are kept for the percentiles.
_KEPT = 20_000


class Server(nn.Module):
    """Answers requests (64, features) that arrive at the times `arrivals` (64) in seconds after the start.

    Whatever has arrived is answered at once, at most `batch` requests together; a request waits while others
    are computed, however slow the network is (an open loop). Returns the answers (64, classes) in the order
    of the requests. `waits` gets the milliseconds from each arrival to its answer, after FIRST_CALLS calls.
    """

    def __init__(self, network: nn.Module, batch: int, arrivals: Tensor) -> None:
        super().__init__()
        self.network = network
        self._batch = batch
        self._arrivals: list[float] = arrivals.tolist()
        self.waits: list[float] = []
        self._calls = 0
        # A loop around a clock makes no graph.
        self.forward = torch.compiler.disable(self.forward)  # pyright: ignore[reportAttributeAccessIssue]

    def forward(self, requests: Tensor) -> Tensor:
        if is_tracing() or torch.compiler.is_compiling():
            raise NotImplementedError("a trace would keep the batches that it saw")
        answers: list[Tensor] = []
        self._calls += 1
        done, started = 0, time.perf_counter()
        while done < len(self._arrivals):
            now = time.perf_counter() - started
            there = sum(arrival <= now for arrival in self._arrivals[done : done + self._batch])
            if not there:
                time.sleep(self._arrivals[done] - now)
                continue
            answers.append(self.network(requests[done : done + there]))
            if requests.is_cuda:
                torch.cuda.synchronize()
            answered = time.perf_counter() - started
            if self._calls > FIRST_CALLS:
                self.waits += [1e3 * (answered - one) for one in self._arrivals[done : done + there]]
            done += there
        del self.waits[:-_KEPT]
        return torch.cat(answers)


@case(family="programs", rate=[200, 800], batch=[1, 16])
def request_queue(rate: int, batch: int) -> Workload:
    """64 requests that arrive at random, `rate` a second, and are answered in batches of what waits.

    Metrics `queue_latency` and `queue_latency_p99` are the time from a request's arrival to its answer. The
    step itself takes as long as the requests take to arrive, unless the server cannot keep up.

    Guards: overhead of a call for one or few rows, which a throughput of large batches hides.
    """
    gaps = torch.empty(REQUESTS).exponential_(rate)
    layers = [
        nn.Linear(FEATURES, WIDTH),
        nn.ReLU(),
        nn.Linear(WIDTH, WIDTH),
        nn.ReLU(),
        nn.Linear(WIDTH, CLASSES),
    ]
    server = Server(nn.Sequential(*layers), batch, gaps.cumsum(0))
    sizes = ((FEATURES, WIDTH), (WIDTH, WIDTH), (WIDTH, CLASSES))
    return Workload(
        server,
        (torch.randn(REQUESTS, FEATURES),),
        items=REQUESTS,
        unit="requests",
        flops=sum(flops.linear(REQUESTS, inputs, outputs) for inputs, outputs in sizes),
        report=lambda: _latencies(server.waits),
    )


def _latencies(waits: list[float]) -> Mapping[str, float]:
    cuts = quantiles(waits, n=100)
    return {"queue_latency": cuts[49], "queue_latency_p99": cuts[98]}
