"""A model whose parts lie on two devices."""

import torch
from torch import Tensor, nn

from ...worker.case import Workload, case
from .. import flops
from ..layers import PreNormLayer


class SplitLayer(nn.Module):
    """A transformer's layer: attention on the device of its input, the feed-forward part on the second one.

    What passes from one to the other and back, (batch, tokens, width) twice, is copied in each step.
    """

    def __init__(self, width: int, heads: int) -> None:
        super().__init__()
        self.layer = PreNormLayer(
            width, heads, inner=4 * width, causal=False, approximate="none", epsilon=1e-5
        )
        self._second: torch.device | None = None

    def forward(self, hidden: Tensor) -> Tensor:
        if self._second is None:
            if not hidden.is_cuda or torch.cuda.device_count() < 2:
                raise NotImplementedError("a layer over two devices needs two CUDA devices")
            self._second = torch.device("cuda:1")
            for part in (self.layer.feed_forward_norm, self.layer.feed_forward):
                part.to(self._second)
        attended = hidden + self.layer.attention(self.layer.attention_norm(hidden))
        passed = attended.to(self._second, non_blocking=True)
        fed = self.layer.feed_forward(self.layer.feed_forward_norm(passed))
        return attended + fed.to(hidden.device, non_blocking=True)


@case(family="transformers", phases=("infer", "train"), batch=[8], tokens=[128], width=[1024])
def split_layer(batch: int, tokens: int, width: int) -> Workload:
    """One layer of BERT-large with attention on one CUDA device and the feed-forward part on another."""
    return Workload(
        SplitLayer(width, heads=16),
        (torch.randn(batch, tokens, width),),
        items=batch,
        unit="samples",
        flops=flops.transformer_layer(batch, tokens, width, 4 * width),
        loss=lambda output: output.square().mean(),
    )
