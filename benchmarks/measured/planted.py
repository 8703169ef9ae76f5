"""Small models whose steps can be made slower by a known share: for judging verdicts by the truth."""

import time
from collections.abc import Callable

import torch
from torch import Tensor, nn

from runner.worker.case import case

#: Slow-downs in percent; 0 is nothing planted.
PLANTED = (0, 1, 2, 3, 5, 10)
#: A step's own time is the fastest of so many: what is planted must not depend on the neighbours.
_CALIBRATION = 60


def planted(model: nn.Module, inputs: Tensor, slow: int) -> Callable[[], object]:
    """A step of the model that then spins, in the same thread, for `slow` percent of the step's own time."""
    model.eval()

    def step() -> Tensor:
        with torch.inference_mode():
            return model(inputs)

    def timed() -> int:
        began = time.perf_counter_ns()
        step()
        return time.perf_counter_ns() - began

    for _ in range(10):
        step()
    extra_ns = min(timed() for _ in range(_CALIBRATION)) * slow // 100
    if not slow:
        return step

    def slowed() -> Tensor:
        result = step()
        end = time.perf_counter_ns() + extra_ns
        while time.perf_counter_ns() < end:
            pass
        return result

    return slowed


@case(slow=PLANTED)
def planted_mlp(slow: int) -> Callable[[], object]:
    """Four layers, batch 64: about a millisecond."""
    layers = [part for _ in range(4) for part in (nn.Linear(256, 256), nn.ReLU())]
    return planted(nn.Sequential(*layers), torch.randn(64, 256), slow)


@case(slow=PLANTED)
def planted_conv(slow: int) -> Callable[[], object]:
    """Three convolutions over 8 images of 64 x 64: large activations, which the allocator moves about."""
    layers = (nn.Conv2d(3, 32, 3), nn.ReLU(), nn.Conv2d(32, 32, 3), nn.ReLU(), nn.Conv2d(32, 32, 3))
    return planted(nn.Sequential(*layers), torch.randn(8, 3, 64, 64), slow)


@case(slow=PLANTED)
def planted_encoder(slow: int) -> Callable[[], object]:
    """Two encoder layers of width 256 over 64 tokens: many small operators."""
    layer = nn.TransformerEncoderLayer(256, 4, 512, batch_first=True)
    return planted(nn.TransformerEncoder(layer, 2, enable_nested_tensor=False), torch.randn(2, 64, 256), slow)
