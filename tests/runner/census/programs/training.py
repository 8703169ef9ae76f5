"""A small model trained with a DataLoader, as a user writes it."""

import torch
from torch import nn
from torch.nn import functional as F
from torch.utils.data import DataLoader, TensorDataset


class Model(nn.Module):
    def __init__(self):
        super().__init__()
        self.table = nn.Embedding(50, 32)
        self.layers = nn.Sequential(nn.Linear(32, 64), nn.GELU(), nn.LayerNorm(64), nn.Dropout(0.1))
        self.head = nn.Linear(64, 50)

    def forward(self, tokens):
        return self.head(self.layers(self.table(tokens)))


def main():
    model = Model()
    optimizer = torch.optim.AdamW(model.parameters())
    data = TensorDataset(torch.randint(50, (256, 8)), torch.randint(50, (256, 8)))
    for step, (tokens, targets) in enumerate(DataLoader(data, 16, num_workers=1), 1):
        loss = F.cross_entropy(model(tokens).flatten(0, 1), targets.flatten())
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        print("step", step, flush=True)


if __name__ == "__main__":
    main()
