"""The ends of a language model as single operations: looking tokens up, the loss over a vocabulary."""

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from ..worker.case import Workload, case
from .rotation import copies

#: GPT-2's. The table of 154 MB (fp32, width 768) is more than the caches of most machines hold.
VOCABULARY = 50257
#: As many batches of tokens as together ask for nearly every row of the table.
_BATCHES_OF_TOKENS = 16


class CrossEntropy(nn.Module):
    """Mean over rows of -log softmax(logits) at the target; logits (rows, classes), targets (rows,)."""

    def forward(self, logits: Tensor, targets: Tensor) -> Tensor:
        return F.cross_entropy(logits, targets)


@case(tokens=[8192], width=[768])
def embedding(tokens: int, width: int) -> Workload:
    """Rows of a table of 50 257, at random: memory read in pieces of one row."""
    first, *others = ((torch.randint(VOCABULARY, (tokens,)),) for _ in range(_BATCHES_OF_TOKENS))
    table = nn.Embedding(VOCABULARY, width)
    return Workload(table, first, items=tokens, unit="tokens", variants=tuple(others))


@case(rows=[512], classes=[1000, 50257])
def cross_entropy(rows: int, classes: int) -> Workload:
    """Cross-entropy of random logits; 512 rows over GPT-2's vocabulary are a batch of 4 at 128 tokens."""
    inputs = torch.randn(rows, classes), torch.randint(classes, (rows,))
    return Workload(CrossEntropy(), inputs, items=rows, unit="rows", variants=copies(*inputs))
