"""A batch of small products added to what was there, as attention scores are added to a bias."""

import torch

bias = torch.randn(128, 64, 32)
queries = torch.randn(128, 64, 64)
keys = torch.randn(128, 64, 32)


def step():
    with torch.no_grad():
        return torch.baddbmm(bias, queries, keys)
