"""ViT-B/16: a transformer over patches of an image."""

import torch
from torch import Tensor, nn

from ..worker.case import Workload, case
from . import flops
from .layers import PreNormLayer, cross_entropy, initialise, submodule_names

WIDTH, HEADS, INNER, LAYERS = 768, 12, 3072, 12
PATCH, CLASSES = 16, 1000


def _layer() -> PreNormLayer:
    return PreNormLayer(WIDTH, HEADS, INNER, causal=False, approximate="none", epsilon=1e-6)


class VisionTransformer(nn.Module):
    """Maps images (batch, 3, side, side) to logits (batch, 1000), without dropout.

    Source: Dosovitskiy et al. 2020, arXiv:2010.11929, the base model with patches of 16 pixels and a
    single linear head, as for fine-tuning. The head is drawn like the rest; the authors begin with zeros,
    which would make every answer the same.
    """

    def __init__(self, patches: int) -> None:
        super().__init__()
        self.patches = nn.Conv2d(3, WIDTH, PATCH, PATCH)
        self.class_token = nn.Parameter(torch.randn(1, 1, WIDTH) * 0.02)
        self.positions = nn.Parameter(torch.randn(1, patches + 1, WIDTH) * 0.02)
        self.layers = nn.Sequential(*(_layer() for _ in range(LAYERS)))
        self.norm = nn.LayerNorm(WIDTH, eps=1e-6)
        self.head = nn.Linear(WIDTH, CLASSES)
        initialise(self)

    def forward(self, images: Tensor) -> Tensor:
        patches = self.patches(images).flatten(2).transpose(1, 2)
        tokens = torch.cat([self.class_token.expand(patches.shape[0], -1, -1), patches], 1)
        hidden = self.layers(tokens + self.positions)
        return self.head(self.norm(hidden[:, 0]))


@case(family="transformers", phases=("infer", "train"), batch=[1, 4, 16, 32], image=[64, 224])
def vit_b(batch: int, image: int) -> Workload:
    """ViT-B/16 on square images of `image` pixels a side, a multiple of 16 (224 in the paper)."""
    side = image // PATCH
    encoder = LAYERS * flops.transformer_layer(batch, side * side + 1, WIDTH, INNER)
    return Workload(
        VisionTransformer(side * side),
        (torch.randn(batch, 3, image, image),),
        items=batch,
        unit="images",
        flops=flops.conv2d(batch, 3, WIDTH, PATCH, side) + encoder + flops.linear(batch, WIDTH, CLASSES),
        loss=cross_entropy(batch, classes=CLASSES),
        classes=True,
        checkpointed=submodule_names("layers", LAYERS),
    )
