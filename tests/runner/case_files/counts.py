"""Cases of one thread that take about a millisecond, in Python alone."""

import os
import time
from pathlib import Path

import torch

from runner.worker.case import case


@case()
def counts():
    """Sums integers; returns no tensor."""
    torch.set_num_threads(1)
    return lambda: sum(range(40_000))


@case()
def waits():
    """Sleeps for a millisecond, or for fifty while there is a file `slow`; returns no tensor."""
    slow = Path(os.environ["CASES_SCRATCH"]) / "slow"
    return lambda: time.sleep(0.05 if slow.exists() else 0.001)
