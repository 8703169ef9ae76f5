"""The parts that BERT and GPT-2 share; not `nn.TransformerEncoder`, which swaps its kernels in eval mode."""

from torch import Tensor, nn
from torch.nn import functional as F


class SelfAttention(nn.Module):
    """Multi-head self-attention over (batch, tokens, width), query, key and value in one projection.

    Source: Vaswani et al. 2017, arXiv:1706.03762, section 3.2.
    """

    def __init__(self, width: int, heads: int, causal: bool) -> None:
        super().__init__()
        self.heads = heads
        self.causal = causal
        self.projections = nn.Linear(width, 3 * width)
        self.output = nn.Linear(width, width)

    def forward(self, hidden: Tensor) -> Tensor:
        split = self.projections(hidden).unflatten(-1, (3, self.heads, -1))
        query, key, value = split.permute(2, 0, 3, 1, 4).unbind()
        attended = F.scaled_dot_product_attention(query, key, value, is_causal=self.causal)
        return self.output(attended.transpose(1, 2).flatten(2))


class FeedForward(nn.Sequential):
    """Two linear layers with a GELU between them; `approximate` as in `nn.GELU`."""

    def __init__(self, width: int, inner: int, approximate: str = "none") -> None:
        super().__init__(nn.Linear(width, inner), nn.GELU(approximate), nn.Linear(inner, width))


def initialise(model: nn.Module) -> None:
    """Draw weights from N(0, 0.02) and zero the biases, as BERT, GPT-2 and Transformer-XL do.

    With torch's own N(0, 1) for embeddings a tied head would give logits of magnitude 28, a softmax
    without rounding noise to speak of, and checks against a reference that prove little.
    """
    for module in model.modules():
        if isinstance(module, nn.Linear | nn.Embedding):
            nn.init.normal_(module.weight, std=0.02)
    for name, parameter in model.named_parameters():
        if name.endswith(".bias"):
            nn.init.zeros_(parameter)
