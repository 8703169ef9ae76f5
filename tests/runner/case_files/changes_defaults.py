"""A user's file that changes PyTorch's defaults when it is imported, and what comes of that."""

import torch

from runner.worker.case import Workload, case

torch.set_default_dtype(torch.float64)


@case()
def in_double():
    model = torch.nn.Linear(4, 4)
    return Workload(model, (torch.ones(2, 4),), items=2 if model.weight.dtype == torch.float64 else 1)


@case()
def forgets_a_comma():
    return Workload(torch.nn.Linear(4, 4), (torch.ones(2, 4)), items=2)


@case()
def trains_in_its_closure():
    weight = torch.ones(4, requires_grad=True)
    return lambda: weight.sum().backward()
