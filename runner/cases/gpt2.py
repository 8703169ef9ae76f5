"""GPT-2: a causal decoder with a large vocabulary, hence a large head."""

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from ..worker.case import Workload, case
from . import flops
from .layers import PreNormLayer, cross_entropy, initialise, submodule_names

VOCABULARY, POSITIONS = 50257, 1024
WIDTH, HEADS, INNER = 768, 12, 3072


def _layer() -> PreNormLayer:
    return PreNormLayer(WIDTH, HEADS, INNER, causal=True, approximate="tanh", epsilon=1e-5)


class Gpt2(nn.Module):
    """The small model, without dropout; its head is the token embedding transposed.

    Source: Radford et al. 2019, "Language Models are Unsupervised Multitask Learners", section 2.3.
    Maps tokens (batch, tokens) to logits (batch, tokens, 50257).
    """

    def __init__(self, layers: int) -> None:
        super().__init__()
        self.tokens = nn.Embedding(VOCABULARY, WIDTH)
        self.positions = nn.Embedding(POSITIONS, WIDTH)
        self.layers = nn.Sequential(*(_layer() for _ in range(layers)))
        self.norm = nn.LayerNorm(WIDTH)
        initialise(self)

    def forward(self, tokens: Tensor) -> Tensor:
        hidden = self.tokens(tokens) + self.positions.weight[: tokens.shape[1]]
        return F.linear(self.norm(self.layers(hidden)), self.tokens.weight)


@case(family="transformers", phases=("infer", "train"), batch=[1, 4], tokens=[128], layers=[2, 12])
def gpt2_small(batch: int, tokens: int, layers: int) -> Workload:
    """GPT-2 small: logits of every position at once (prefill; no key-value cache)."""
    head = flops.linear(batch * tokens, WIDTH, VOCABULARY)
    return Workload(
        Gpt2(layers),
        (torch.randint(VOCABULARY, (batch, tokens)),),
        items=batch * tokens,
        unit="tokens",
        flops=layers * flops.transformer_layer(batch, tokens, WIDTH, INNER) + head,
        loss=cross_entropy(batch, tokens, classes=VOCABULARY),
        classes=True,
        checkpointed=submodule_names("layers", layers),
    )
