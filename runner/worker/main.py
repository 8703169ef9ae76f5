"""The way into the harness: `python -I harness (describe|serve) --in FD --out FD`; fork, member, node."""

import argparse
import contextlib
import faulthandler
import gc
import importlib
import importlib.util
import os
import pkgutil
import signal
import socket
import sys
import time
import traceback
from collections.abc import Callable, Sequence
from typing import Any, NoReturn, TextIO, cast

#: Longer than any order.
_ORDER_BYTES = 64
#: What the profiler of some versions imports when it is first started, which takes longer than torch itself.
_OF_THE_PROFILER = ("torch.distributed", "torch._inductor.config")


def main(harness: str, user_cases: list[str]) -> None:
    """Run the worker; `harness` is the hash of this folder, `user_cases` the module names that joined it."""
    faulthandler.enable(file=sys.stderr, all_threads=True)
    parser = argparse.ArgumentParser(prog="harness")
    modes = parser.add_subparsers(dest="mode", required=True)
    for mode in ("describe", "serve"):
        spoken_to = modes.add_parser(mode)
        spoken_to.add_argument("--in", dest="source", type=int, required=True)
        spoken_to.add_argument("--out", dest="sink", type=int, required=True)
    forking = modes.add_parser("fork")
    forking.add_argument("--control", type=int, required=True)
    forking.add_argument("--profiler", action="store_true")
    member = modes.add_parser("member")
    member.add_argument("--leader")
    member.add_argument("--rank", type=int)
    # Of one that torchrun started, which sets its rank as a variable.
    member.add_argument("--store")
    member.add_argument("--shares")
    modes.add_parser("node").add_argument("--order", required=True)
    arguments = parser.parse_args()
    if arguments.mode == "member":
        _be_member(arguments, user_cases)
    if arguments.mode == "node":
        from .distributed.node_agent import serve

        serve(arguments.order)
        _leave()
    if arguments.mode == "fork":
        _fork_workers(arguments, harness, user_cases)
    lines, out = _open(arguments.source, "r"), _open(arguments.sink, "w")
    started = time.perf_counter()
    from .messages import Failed

    try:
        # A user's file may change PyTorch's defaults: it is not loaded for a case that is not in it.
        broken = load_cases(user_cases if arguments.mode == "describe" else [])
    except BaseException as error:
        text = "".join(traceback.format_exception(error))
        out.write(Failed("crashed", f"{type(error).__name__}: {error}", "import", text).to_json() + "\n")
        out.flush()
        return
    seconds = time.perf_counter() - started
    if arguments.mode == "describe":
        out.write(_describe(broken) + "\n")
        out.flush()
        return
    _be_worker(lines, out, harness, user_cases, seconds)


def _be_worker(
    lines: TextIO, out: TextIO, harness: str, user_cases: list[str], import_seconds: float
) -> NoReturn:
    from .worker_loop import Worker

    worker = Worker(out, lambda case: load_user_case(case, user_cases))
    worker.hello(harness, import_seconds)
    worker.serve(lines)
    _leave()


def _fork_workers(arguments: argparse.Namespace, harness: str, user_cases: list[str]) -> NoReturn:
    """Fork workers until the controller closes its end; what they import is imported once, here."""
    load_cases([])
    # For what it imports.
    importlib.import_module("runner.worker.worker_loop")

    def be_worker(source: int, sink: int) -> NoReturn:
        _be_worker(_open(source, "r"), _open(sink, "w"), harness, user_cases, 0.0)

    for module in _OF_THE_PROFILER if arguments.profiler else ():
        with contextlib.suppress(Exception):
            importlib.import_module(module)
    _answer_orders(socket.socket(fileno=arguments.control), be_worker)
    _leave()


def _answer_orders(control: socket.socket, be_worker: Callable[[int, int], object]) -> None:
    """Fork a worker for each order until the other end of `control` is closed.

    Orders and answers are datagrams: `fork` with three descriptors (the worker's two pipes and its log)
    answers the worker's process id, `wait PID` the status of wait(2) after its end. `be_worker` serves two
    pipes until it ends its process. No thread may have been started before: only the one that forks goes on
    in a worker.
    """
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


def _fork_worker(
    control: socket.socket, be_worker: Callable[[int, int], object], descriptors: Sequence[int]
) -> int:
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


def _be_member(arguments: argparse.Namespace, user_cases: list[str]) -> NoReturn:
    """Join the leader's group, first of all to be on the right CPUs when torch is imported."""
    if arguments.store is None:
        from .distributed.channels import join

        line = join(arguments.leader, arguments.rank)
    else:
        share = arguments.shares.split(";")[int(os.environ["LOCAL_RANK"])]
        os.sched_setaffinity(0, [int(cpu) for cpu in share.split(",")])
        from .distributed.channels import StoreChannel, client, end_with_input

        end_with_input()
        host, _, port = arguments.store.rpartition(":")
        store = client(host, int(port))
        line = StoreChannel(store, int(os.environ["RANK"]), int(os.environ["WORLD_SIZE"]))
    load_cases([])
    from .distributed.member import Member

    Member(line, lambda case: load_user_case(case, user_cases)).serve()
    _leave()


def _leave() -> NoReturn:
    # All messages are sent. Shutting down an interpreter with torch loaded costs up to a second a
    # process and is no part of what is measured; the supervisor clears away what is left.
    sys.stdout.flush()
    sys.stderr.flush()
    os._exit(0)


def load_cases(user_cases: list[str]) -> dict[str, str]:
    """Import every module of `runner.cases` and the user's; answers the user's broken ones with reasons."""
    cases = importlib.import_module("runner.cases")
    for module in pkgutil.walk_packages(cases.__path__, "runner.cases."):
        importlib.import_module(module.name)
    return load_user_cases(user_cases)


def load_user_cases(user_cases: list[str]) -> dict[str, str]:
    """Import the user's modules; answers the broken ones with reasons."""
    broken: dict[str, str] = {}
    for name in user_cases:
        try:
            importlib.import_module(f"user_cases.{name}")
        except BaseException as error:
            broken[name] = _sentence(error)
            traceback.print_exc()
    return broken


def load_user_case(case: str, user_cases: list[str]) -> None:
    """Import the user's modules until one has registered the case, first those that define such a function.

    What others of them change, as PyTorch's defaults or its threads, is no part of the case.
    """
    from .case import REGISTER

    for module in sorted(user_cases, key=lambda each: f"def {case}(" not in _source(each)):
        if case in REGISTER:
            return
        load_user_cases([module])


def _source(module: str) -> str:
    """The text of a user's module; empty where it cannot be read."""
    try:
        spec = importlib.util.find_spec(f"user_cases.{module}")
        return (spec and cast("Any", spec.loader).get_source(spec.name)) or ""
    except (ImportError, SyntaxError, ValueError):
        return ""


def _sentence(error: BaseException) -> str:
    frames = [f for f in traceback.extract_tb(error.__traceback__) if "user_cases" in f.filename]
    line = getattr(error, "lineno", None) or (frames[-1].lineno if frames else None)
    where = f"line {line}: " if line else ""
    return f"{where}{type(error).__name__}: {str(error).splitlines()[0] if str(error) else ''}".rstrip(": ")


def _describe(broken: dict[str, str]) -> str:
    from .case import REGISTER
    from .environment import describe
    from .messages import Described

    workloads: tuple[dict[str, Any], ...] = tuple(
        {
            "name": case.name,
            "phases": list(case.phases),
            "grid": dict(case.grid),
            "summary": case.summary,
            "family": case.family,
            "guards": case.guards,
            "source": case.build.__module__,
        }
        for case in REGISTER.values()
    )
    return Described(describe(), workloads, broken).to_json()


def _open(descriptor: int, mode: str) -> TextIO:
    # Not for the case's children: a grandchild holding the pipe would hide the worker's death.
    os.set_inheritable(descriptor, False)
    # Nor for a copy that a case forks: two workers must not speak on one pipe.
    os.register_at_fork(after_in_child=lambda: os.close(descriptor))
    return cast("TextIO", os.fdopen(descriptor, mode, encoding="utf-8", newline="\n"))
