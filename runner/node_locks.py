"""The machine locks of the other nodes of a run: a program on each holds its lock while the run lasts."""

import sys
import tempfile
import time
from collections.abc import Callable, Generator, Sequence
from contextlib import ExitStack, contextmanager
from pathlib import Path

from common.bounded_files import tail
from common.processes import SupervisedProcess

from .errors import MachineBusy, NodeFailed
from .execution.machine_lock import exclusive, holder, lock_path
from .nodes import Node

#: First words of the lines that the program prints.
_WAITS, _HOLDS, _FAILED = "waits", "holds", "failed"
_LOG_BYTES = 4096
_POLL_SECONDS = 0.2
#: How long a node may take to say whether its lock is free; and its program, to end when asked, and at all.
_ANSWER_SECONDS = 60.0
_PATIENCE_SECONDS, _END_SECONDS = 5.0, 30.0


@contextmanager
def exclusive_nodes(nodes: Sequence[Node], on_wait: Callable[[str], None]) -> Generator[None]:
    """Hold the lock of the machine of each node but the first, whose lock is held; waits while others do.

    `on_wait` is called with a sentence where a run measures there. Raises NodeFailed for a node that is not
    reached. The locks are released however this process ends.
    """
    with ExitStack() as stack:
        # Two nodes may be one machine.
        held = [identity()] if len(nodes) > 1 else []
        for node in nodes[1:]:
            held.append(stack.enter_context(_held_lock(node, held, on_wait)))
        yield


@contextmanager
def _held_lock(node: Node, held: Sequence[str], on_wait: Callable[[str], None]) -> Generator[str]:
    """Hold the lock of one node; yields its identity."""
    command = [*node.command, sys.executable, "-I", "-m", "runner.node_locks", *held]
    with tempfile.TemporaryDirectory(prefix="pyrometer-") as folder:
        log = Path(folder) / "log"
        program = SupervisedProcess(command, log, patience_seconds=_PATIENCE_SECONDS)
        try:
            lock = _await_lock(node, program, log, on_wait)
            if lock:
                yield lock
        finally:
            ended = program.end(_END_SECONDS)
        if not lock:
            why = _last_line(log) or ended.get("failed") or f"it ended with code {ended['exit_code']}"
            raise NodeFailed(f"node {node.name} cannot be reached: {why}")


def _await_lock(node: Node, program: SupervisedProcess, log: Path, on_wait: Callable[[str], None]) -> str:
    """The identity of a node's lock once it is held; empty where the program has ended."""
    give_up = time.monotonic() + _ANSWER_SECONDS
    waits = ""
    while True:
        has_ended = program.has_ended(_POLL_SECONDS)
        for line in tail(log, _LOG_BYTES).splitlines():
            word, _, text = line.partition(" ")
            if word == _HOLDS:
                return text
            if word == _FAILED:
                raise NodeFailed(f"node {node.name}: {text}")
            if word == _WAITS and not waits:
                waits = f"another run measures node {node.name}{f' ({text})' if text else ''}"
                on_wait(waits)
        if has_ended:
            return ""
        if not waits and time.monotonic() > give_up:
            raise NodeFailed(f"node {node.name} does not answer within {_ANSWER_SECONDS:g} s")


def _last_line(log: Path) -> str:
    return next(iter(tail(log, _LOG_BYTES).strip().splitlines()[-1:]), "")


def identity() -> str:
    """Which lock this machine's is: that of two processes is the same where only one of them can hold it."""
    boot = Path("/proc/sys/kernel/random/boot_id").read_text(encoding="ascii").strip()
    try:
        found = lock_path().stat()
    except FileNotFoundError:
        return f"{boot}:{lock_path()}"
    return f"{boot}:{found.st_dev}:{found.st_ino}"


def main() -> None:
    """Hold this machine's lock until ended, unless its identity is among the arguments: then it is held."""
    if identity() in sys.argv[1:]:
        _hold()
    try:
        with exclusive(lambda: _say(_WAITS, holder())):
            _hold()
    except MachineBusy as error:
        _say(_FAILED, str(error))


def _hold() -> None:
    _say(_HOLDS, identity())
    while True:
        time.sleep(3600.0)


def _say(word: str, text: str) -> None:
    sys.stdout.write(f"{word} {text}\n")
    sys.stdout.flush()


if __name__ == "__main__":
    main()
