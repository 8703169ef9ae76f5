"""Layers and losses that several models share."""

from collections.abc import Callable

import torch
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


class PreNormLayer(nn.Module):
    """Attention and feed-forward, each on normalised input and added to what came in.

    The order of GPT-2 and of the vision transformer; BERT normalises after the addition.
    """

    def __init__(
        self, width: int, heads: int, inner: int, causal: bool, approximate: str, epsilon: float
    ) -> None:
        super().__init__()
        self.attention_norm = nn.LayerNorm(width, eps=epsilon)
        self.attention = SelfAttention(width, heads, causal)
        self.feed_forward_norm = nn.LayerNorm(width, eps=epsilon)
        self.feed_forward = FeedForward(width, inner, approximate)

    def forward(self, hidden: Tensor) -> Tensor:
        hidden = hidden + self.attention(self.attention_norm(hidden))
        return hidden + self.feed_forward(self.feed_forward_norm(hidden))


def submodule_names(container: str, count: int) -> tuple[str, ...]:
    """The names of `count` submodules of a container: `layers.0`, `layers.1` and so on."""
    return tuple(f"{container}.{index}" for index in range(count))


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


def cross_entropy(*shape: int, classes: int) -> Callable[[Tensor], Tensor]:
    """A loss for logits of shape (*shape, classes), against targets drawn now from torch's generator.

    The targets follow the logits to their device at the first call, which is a warm-up call, so that a
    measured or captured step copies nothing. The loss is computed in fp32 whatever the logits are:
    autocast does so on CUDA, and a case has to compute the same thing everywhere.
    """
    targets = torch.randint(classes, shape).flatten()

    def loss(logits: Tensor) -> Tensor:
        nonlocal targets
        if targets.device != logits.device:
            targets = targets.to(logits.device)
        return F.cross_entropy(logits.flatten(0, -2).float(), targets)

    return loss


def squared_error(*shape: int) -> Callable[[Tensor], Tensor]:
    """The mean squared error of an output of `shape`, computed in fp32, against normal targets drawn now.

    What a diffusion model is trained with: the noise is its target. The targets move as those above do.
    """
    targets = torch.randn(shape)

    def loss(output: Tensor) -> Tensor:
        nonlocal targets
        if targets.device != output.device:
            targets = targets.to(output.device)
        return F.mse_loss(output.float(), targets)

    return loss
