"""Fourier transforms of signals, of images, and of short windows."""

from collections.abc import Callable

import torch
from torch import Tensor

from ...worker.case import Workload, case
from .operator import FunctionModel


def _short_time(signals: Tensor) -> Tensor:
    window = torch.hann_window(512, dtype=signals.dtype, device=signals.device)
    return torch.view_as_real(torch.stft(signals, 512, 128, window=window, return_complex=True))


_SPECTRA: dict[str, Callable[[Tensor], Tensor]] = {
    "fft": lambda signals: torch.view_as_real(torch.fft.fft(signals)),
    "real_fft": lambda signals: torch.view_as_real(torch.fft.rfft(signals)),
    "real_fft2": lambda signals: torch.view_as_real(torch.fft.rfft2(signals)),
    "stft": _short_time,
}


@case(
    family="linear algebra",
    kind=["fft", "real_fft", "real_fft2", "stft"],
    signals=[64],
    length=[4096, 4093],
)
def fourier(kind: str, signals: int, length: int) -> Workload:
    """Fourier transforms of signals, of all of them as one image, or of short windows of each.

    Guards: a plan that is made anew in every call, and lengths without small factors (4093 is prime).
    """
    samples = torch.randn(signals, length)
    return Workload(FunctionModel(_SPECTRA[kind]), (samples,), items=signals, unit="signals", rotated=True)
