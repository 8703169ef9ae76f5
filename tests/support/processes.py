"""Processes that may end while they are looked at."""

import contextlib
from collections.abc import Callable

import psutil


def alive(pid: int) -> bool:
    """Whether the process exists and has not ended; one whose main thread alone has ended is alive."""
    try:
        process = psutil.Process(pid)
        return process.status() != psutil.STATUS_ZOMBIE or process.num_threads() > 1
    except psutil.NoSuchProcess:
        return False


def processes_below(fits: Callable[[list[str]], bool], pid: int | None = None) -> list[psutil.Process]:
    """The processes below this one, or below another, whose command line fits."""
    found: list[psutil.Process] = []
    for each in psutil.Process(pid).children(recursive=True):
        with contextlib.suppress(psutil.NoSuchProcess):
            if fits(each.cmdline()):
                found.append(each)
    return found
