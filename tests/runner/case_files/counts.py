"""Cases of one thread that take a millisecond or some, in Python alone."""

import os
import time
from pathlib import Path

import torch

from runner.worker.case import Workload, case


@case()
def counts():
    """Sums integers; returns no tensor."""
    torch.set_num_threads(1)
    return lambda: sum(range(40_000))


class Sleeps(torch.nn.Module):
    """Answers after two milliseconds for each row."""

    def forward(self, rows):
        time.sleep(0.002 * len(rows))
        return rows


@case()
def turns():
    """Sleeps for 2 to 32 milliseconds, by inputs of sixteen shapes in turn."""
    inputs = [(torch.ones(rows, 1),) for rows in range(1, 17)]
    return Workload(Sleeps(), inputs[0], items=1, variants=tuple(inputs[1:]))


@case()
def waits():
    """Sleeps for a millisecond, or for fifty while there is a file `slow`; returns no tensor."""
    slow = Path(os.environ["CASES_SCRATCH"]) / "slow"
    return lambda: time.sleep(0.05 if slow.exists() else 0.001)
