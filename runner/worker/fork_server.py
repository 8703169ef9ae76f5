"""A process that has imported torch and all cases, and forks a worker for each order.

Orders and answers are datagrams on one socket: `fork` with three descriptors (the worker's two pipes and its
log) answers the worker's process id, `wait PID` the status of wait(2) after its end.
"""

import contextlib
import gc
import importlib
import os
import signal
import socket
from collections.abc import Callable, Sequence

#: Longer than any order.
_ORDER_BYTES = 64
#: What the profiler of some versions imports when it is first started, which takes longer than torch itself.
_OF_THE_PROFILER = ("torch.distributed", "torch._inductor.config")

#: Is a worker that speaks on these two descriptors, until it ends its process.
BeWorker = Callable[[int, int], object]


def serve(control: socket.socket, be_worker: BeWorker, *, profiler: bool) -> None:
    """Answer orders until the other end of `control` is closed; with `profiler` workers will need that.

    No thread may have been started before: only the one that forks goes on in a worker.
    """
    for module in _OF_THE_PROFILER if profiler else ():
        with contextlib.suppress(Exception):
            importlib.import_module(module)
    # Collecting garbage would copy the pages that workers share with this process.
    gc.collect()
    gc.freeze()
    control.send(b"ready")
    while True:
        order, descriptors, _, _ = socket.recv_fds(control, _ORDER_BYTES, 3)
        if not order:
            return
        if descriptors:
            answer = _fork_worker(control, be_worker, descriptors)
        else:
            answer = _await_worker(int(order.removeprefix(b"wait ")))
        control.send(str(answer).encode())


def _fork_worker(control: socket.socket, be_worker: BeWorker, descriptors: Sequence[int]) -> int:
    worker = os.fork()
    if worker:
        for descriptor in descriptors:
            os.close(descriptor)
        return worker
    try:
        # What it leaves behind is killed as its process group.
        os.setsid()
        control.close()
        source, sink, log = descriptors
        os.dup2(log, 1)
        os.dup2(log, 2)
        os.close(log)
        be_worker(source, sink)
    finally:
        os._exit(1)


def _await_worker(worker: int) -> int:
    _, status = os.waitpid(worker, 0)
    with contextlib.suppress(ProcessLookupError):
        os.killpg(worker, signal.SIGKILL)
    return status
