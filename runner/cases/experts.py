"""Mixtures of experts: a router sends each token to two of eight networks."""

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from ..worker.case import Workload, case
from . import flops
from .layers import FeedForward, squared_error

EXPERTS, CHOSEN = 8, 2
WIDTH, INNER = 256, 1024


class MixtureOfExperts(nn.Module):
    """Tokens (tokens, width) through the two experts with the largest scores, weighted by their softmax.

    Source: Jiang et al. 2024, arXiv:2401.04088, section 2.1; each expert gets its tokens as one batch.
    """

    def __init__(self) -> None:
        super().__init__()
        self.router = nn.Linear(WIDTH, EXPERTS, bias=False)
        self.experts = nn.ModuleList(FeedForward(WIDTH, INNER) for _ in range(EXPERTS))

    def forward(self, tokens: Tensor) -> Tensor:
        scores, chosen = self.router(tokens).topk(CHOSEN, -1)
        shares = scores.softmax(-1)
        output = torch.zeros_like(tokens)
        for number, expert in enumerate(self.experts):
            rows, place = torch.where(chosen == number)
            output.index_add_(0, rows, expert(tokens[rows]) * shares[rows, place, None])
        return output


class DenseExperts(nn.Module):
    """The same where every expert takes every token, and a share of 0 leaves out those not chosen.

    No size depends on the data, so that all of it is one graph.
    """

    def __init__(self) -> None:
        super().__init__()
        self.router = nn.Linear(WIDTH, EXPERTS, bias=False)
        self.up = nn.Parameter(torch.randn(EXPERTS, WIDTH, INNER) / WIDTH**0.5)
        self.down = nn.Parameter(torch.randn(EXPERTS, INNER, WIDTH) / INNER**0.5)

    def forward(self, tokens: Tensor) -> Tensor:
        scores, chosen = self.router(tokens).topk(CHOSEN, -1)
        shares = tokens.new_zeros(len(tokens), EXPERTS).scatter(-1, chosen, scores.softmax(-1))
        answers = F.gelu(tokens @ self.up) @ self.down
        return (answers * shares.t()[..., None]).sum(0)


@case(family="transformers", phases=("infer", "train"), tokens=[256])
def mixture_of_experts(tokens: int) -> Workload:
    """Eight experts, of which each token takes two: sizes that depend on the data.

    Guards: small products of odd sizes, indexing between them, and graphs that break where sizes are data.
    """
    routed = flops.linear(tokens, WIDTH, EXPERTS)
    experts = CHOSEN * 2 * flops.linear(tokens, WIDTH, INNER)
    return Workload(
        MixtureOfExperts(),
        (torch.randn(tokens, WIDTH),),
        items=tokens,
        unit="tokens",
        flops=routed + experts,
        loss=squared_error(tokens, WIDTH),
    )


@case(family="transformers", phases=("infer", "train"), tokens=[16])
def dense_experts(tokens: int) -> Workload:
    """Eight experts over a few tokens, each token through all of them, as decoders do it to be one graph.

    Guards: the time to compile batched products between selections.
    """
    return Workload(
        DenseExperts(),
        (torch.randn(tokens, WIDTH),),
        items=tokens,
        unit="tokens",
        flops=flops.linear(tokens, WIDTH, EXPERTS) + EXPERTS * 2 * flops.linear(tokens, WIDTH, INNER),
        loss=squared_error(tokens, WIDTH),
    )
