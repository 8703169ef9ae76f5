"""A word-level LSTM language model: the vendor's recurrent kernel under a large head."""

import torch
from torch import Tensor, nn

from ..worker.case import Workload, case
from . import flops
from .losses import cross_entropy

VOCABULARY, WIDTH, LAYERS = 33278, 650, 2


class LstmLanguageModel(nn.Module):
    """Embedding, two layers of `nn.LSTM`, and an untied head; no dropout.

    Source: the medium model of Zaremba et al. 2014, arXiv:1409.2329, with the vocabulary of WikiText-2
    (Merity et al. 2016, arXiv:1609.07843). Maps tokens (batch, tokens) to logits (batch, tokens, 33278).
    torch.compile leaves the whole model eager, since Dynamo refuses to trace into `nn.LSTM` unless its
    experimental `allow_rnn` is set: that is what everyone who writes such a model gets, so it stays.
    """

    def __init__(self) -> None:
        super().__init__()
        self.tokens = nn.Embedding(VOCABULARY, WIDTH)
        self.recurrent = nn.LSTM(WIDTH, WIDTH, LAYERS, batch_first=True)
        self.head = nn.Linear(WIDTH, VOCABULARY)

    def forward(self, tokens: Tensor) -> Tensor:
        hidden, _ = self.recurrent(self.tokens(tokens))
        return self.head(hidden)


@case(phases=("infer", "train"), batch=[1, 20], tokens=[35])
def lstm_lm(batch: int, tokens: int) -> Workload:
    """LSTM language model, two layers of 650 units over segments of a WikiText-2-sized vocabulary."""
    layer = flops.recurrent(batch, tokens, WIDTH, WIDTH, gates=4)
    return Workload(
        LstmLanguageModel(),
        (torch.randint(VOCABULARY, (batch, tokens)),),
        items=batch * tokens,
        unit="tokens",
        flops=LAYERS * layer + flops.linear(batch * tokens, WIDTH, VOCABULARY),
        loss=cross_entropy(batch, tokens, classes=VOCABULARY),
    )
