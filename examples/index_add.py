"""Rows added into a small table at given places, as a graph network sums its messages."""

import torch

table = torch.randn(8, 32)
rows = torch.randn(8, 32)
places = torch.randint(0, 8, (8,))


def step():
    with torch.no_grad():
        return table.index_add(0, places, rows)
