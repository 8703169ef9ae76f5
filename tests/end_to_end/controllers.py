"""Goes on with a run in process after process, each killed when its time is up; a line of stdin is a time.

Python, the imports and the description of the environment are paid for once: every life is spent in what
a controller does after that.
"""

import os
import signal
import sys
import time
from typing import Any

from cli.registry import app
from runner import environment


def remember_environment() -> None:
    """Describe the environment once; it is the same one every time."""
    known: list[environment.MeasuredEnvironment] = []
    describe = environment.describe

    def once(*about: Any) -> environment.MeasuredEnvironment:
        if not known:
            known.append(describe(*about))
        return known[0]

    environment.describe = once


def one_life(run: str, seconds: float) -> int:
    """Start a controller, kill it after `seconds`; answers the signal that ended it, 0 for none."""
    child = os.fork()
    if child == 0:
        sys.argv = ["pyrometer", "run", "--resume", run]
        app()
        os._exit(0)
    time.sleep(seconds)
    os.kill(child, signal.SIGKILL)
    status = os.waitpid(child, 0)[1]
    return os.WTERMSIG(status) if os.WIFSIGNALED(status) else 0


if __name__ == "__main__":
    run = sys.argv[1]
    replies = os.fdopen(os.dup(1), "w")
    os.dup2(os.open(os.devnull, os.O_WRONLY), 1)
    remember_environment()
    for line in sys.stdin:
        replies.write(f"{one_life(run, float(line))}\n")
        replies.flush()
