"""A recurrent cell written by hand: many small operations in a Python loop, the cost of overhead."""

import torch
from torch import Tensor, nn

from ..worker.case import Workload, case
from . import flops
from .losses import cross_entropy

FEATURES = 128


class GruCell(nn.Module):
    """A gated recurrent unit, stepped over (batch, steps, 128) in Python to its last state (batch, hidden).

    Source: Cho et al. 2014, arXiv:1406.1078, in the form of `torch.nn.GRUCell`: the reset gate acts on
    the hidden state after its matrix product. torch.compile unrolls the loop.
    """

    def __init__(self, hidden: int) -> None:
        super().__init__()
        self.hidden = hidden
        self.from_input = nn.Linear(FEATURES, 3 * hidden)
        self.from_state = nn.Linear(hidden, 3 * hidden)

    def forward(self, sequence: Tensor) -> Tensor:
        state = sequence.new_zeros(sequence.shape[0], self.hidden)
        for features in sequence.unbind(1):
            reset_in, update_in, new_in = self.from_input(features).chunk(3, -1)
            reset_state, update_state, new_state = self.from_state(state).chunk(3, -1)
            reset = torch.sigmoid(reset_in + reset_state)
            update = torch.sigmoid(update_in + update_state)
            new = torch.tanh(new_in + reset * new_state)
            state = new + update * (state - new)
        return state


@case(phases=("infer", "train"), batch=[16], steps=[8, 64], hidden=[256])
def custom_gru_cell(batch: int, steps: int, hidden: int) -> Workload:
    """A GRU written out in Python, step by step; its last state serves as class scores in training."""
    return Workload(
        GruCell(hidden),
        (torch.randn(batch, steps, FEATURES),),
        items=batch,
        unit="sequences",
        flops=flops.recurrent(batch, steps, FEATURES, hidden, gates=3),
        loss=cross_entropy(batch, classes=hidden),
    )
