"""`pyrometer serve`: the scheduler, and the dashboard beside it as a process of its own."""

import os
import signal
import subprocess
import sys
import time
from collections.abc import Sequence

import typer

from common.interrupts import interruptible
from common.processes import die_with

from ..context import FAILED, context, in_one_sentence
from ..options import AllowHost, Host, Port
from .scheduler import LogForm, Measuring, live, serving_of

HELP = """Scheduler and dashboard together, until Ctrl-C or SIGTERM.

The dashboard is a process of its own: if it dies it is started again, and nothing that is measured notices.
"""

#: A dashboard that ends sooner than this after its start is not going to live.
_STILLBORN_SECONDS = 15.0
_END_SECONDS = 10.0
_BESIDE = "from cli.commands.serve import beside; beside(); from cli.app import main; main()"


def serve(
    port: Port = 8501,
    host: Host = "127.0.0.1",
    allow_host: AllowHost = None,
    measuring: Measuring = True,
    log: LogForm = None,
) -> None:
    """Run both (the help text is above, where its layout survives)."""
    names = [part for name in allow_host or () for part in ("--allow-host", name)]
    with in_one_sentence(), interruptible() as interrupts:
        service = serving_of(context(), log, measuring=measuring)
        dashboard = _Dashboard(["dashboard", "--port", str(port), "--host", host, *names])
        try:
            live(service, interrupts, asked=dashboard.has_failed)
        finally:
            dashboard.end()
    if dashboard.failed is not None:
        raise typer.Exit(dashboard.failed or FAILED)


class _Dashboard:
    """A dashboard that is kept alive; `failed` is the exit code of one that cannot live."""

    def __init__(self, arguments: Sequence[str]) -> None:
        self._arguments = arguments
        self.failed: int | None = None
        self._start()

    def has_failed(self) -> bool:
        """Start one that has died again; true for one that cannot live: it has said why."""
        code = self._process.poll()
        if code is None or self.failed is not None:
            return self.failed is not None
        if time.monotonic() - self._started < _STILLBORN_SECONDS:
            self.failed = code
            return True
        self._start()
        return False

    def end(self) -> None:
        """End it, whatever it does."""
        self._process.terminate()
        try:
            self._process.wait(_END_SECONDS)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()

    def _start(self) -> None:
        self._started = time.monotonic()
        # In a session of its own, so that a terminal's Ctrl-C comes to the scheduler alone.
        self._process = subprocess.Popen(
            [sys.executable, "-P", "-c", _BESIDE, str(os.getpid()), *self._arguments],
            stdin=subprocess.DEVNULL,
            start_new_session=True,
        )


def beside() -> None:
    """Have this process end with its parent, whose id comes first among the arguments."""
    die_with(int(sys.argv.pop(1)), signal.SIGTERM)
