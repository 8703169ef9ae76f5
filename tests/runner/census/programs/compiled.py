"""A training whose middle is compiled.

Arguments: product makes it one matrix product, of which Inductor makes no C++; checkpoint also recomputes it;
crash K ends it at step K.
"""

import sys

import torch
from torch import nn
from torch.nn import functional as F
from torch.utils.checkpoint import checkpoint

RECOMPUTES = "checkpoint" in sys.argv
ONE_PRODUCT = RECOMPUTES or "product" in sys.argv


class Block(nn.Module):
    def __init__(self):
        super().__init__()
        self.norm = nn.LayerNorm(32)
        layers = nn.Sequential(nn.Linear(32, 64), nn.GELU(), nn.Linear(64, 32))
        self.secret_name = nn.Linear(32, 32, bias=False) if ONE_PRODUCT else layers

    def forward(self, hidden):
        if RECOMPUTES:
            return checkpoint(self.secret_name, hidden, use_reentrant=False)
        if ONE_PRODUCT:
            return self.secret_name(hidden)
        return hidden + self.secret_name(self.norm(hidden))[..., :32]


class Model(nn.Module):
    def __init__(self):
        super().__init__()
        self.table = nn.Embedding(50, 32)
        self.block = torch.compile(Block(), fullgraph=True)
        self.head = nn.Linear(32, 50)

    def forward(self, tokens):
        return self.head(self.block(self.table(tokens)))


torch.manual_seed(0)
model = Model()
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
crash_at = int(sys.argv[-1]) if "crash" in sys.argv else 0
for step in range(1, 5):
    tokens = torch.randint(50, (16, 8))
    loss = F.cross_entropy(model(tokens).flatten(0, 1), tokens.flatten())
    if step == crash_at:
        raise RuntimeError("the program itself is broken")
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    print("loss", loss.item(), flush=True)
