"""Cases to be traced: a closure, and one that a profiler finds broken."""

import torch

from runner.worker.case import case


@case()
def closure():
    """Two additions."""
    ones = torch.ones(8)
    return lambda: ones + ones + ones


@case()
def breaks_under_the_profiler():
    """Works until it is traced."""
    ones = torch.ones(8)

    def step():
        if torch.autograd._profiler_enabled():
            raise RuntimeError("do not look")
        return ones + ones

    return step
