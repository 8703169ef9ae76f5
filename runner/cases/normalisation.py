"""Layer normalisation and GELU: two passes over memory, or one where a compiler fuses them."""

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from ..worker.case import Workload, case
from .rotation import copies


class LayerNormGelu(nn.Module):
    """GELU of the normalised rows (rows, width), with scale and shift of (width,)."""

    def forward(self, rows: Tensor, scale: Tensor, shift: Tensor) -> Tensor:
        return F.gelu(F.layer_norm(rows, scale.shape, scale, shift))


@case(rows=[4096], width=[768, 1024])
def layernorm_gelu(rows: int, width: int) -> Workload:
    """Layer normalisation, then GELU: what fusion is worth in its simplest case."""
    inputs = torch.randn(rows, width), 1.0 + 0.1 * torch.randn(width), torch.randn(width)
    return Workload(LayerNormGelu(), inputs, items=rows, unit="rows", variants=copies(*inputs))
