"""What NVIDIA publishes of its cards: dense peaks by number format, and the bandwidth of their memory."""

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class CardPeaks:
    """Dense peaks in TFLOP/s, without sparsity, and GB/s of the memory.

    `half` is bf16 and fp16 with sums in fp32, on tensor cores; `fp32` is without them.
    """

    half: float
    tf32: float
    fp32: float
    bandwidth: float

    def tflops(self, precision: str) -> float | None:
        """The peak of a value of axis `precision`; None for integers, whose operations are not FLOP."""
        return {
            **dict.fromkeys(("bf16", "fp16", "amp-bf16", "amp-fp16"), self.half),
            "tf32": self.tf32,
            "fp32": self.fp32,
        }.get(precision)


#: By the name that the driver reports. Sources: NVIDIA's data sheets of each card; GeForce from the
#: whitepapers of Ada and Ampere, appendix A.
_PEAKS = {
    "NVIDIA B200": CardPeaks(2250, 1100, 75, 8000),
    "NVIDIA GH200 480GB": CardPeaks(989.4, 494.7, 66.9, 4000),
    "NVIDIA H200 NVL": CardPeaks(835.5, 417.5, 60, 4800),
    "NVIDIA H200": CardPeaks(989.4, 494.7, 66.9, 4800),
    "NVIDIA H100 NVL": CardPeaks(835.5, 417.5, 60, 3938),
    "NVIDIA H100 PCIe": CardPeaks(756, 378, 51.2, 2039),
    "NVIDIA H100 80GB HBM3": CardPeaks(989.4, 494.7, 66.9, 3352),
    "NVIDIA A100 80GB PCIe": CardPeaks(312, 156, 19.5, 1935),
    "NVIDIA A100-SXM4-80GB": CardPeaks(312, 156, 19.5, 2039),
    "NVIDIA A100-SXM4-40GB": CardPeaks(312, 156, 19.5, 1555),
    "NVIDIA A100-PCIE-40GB": CardPeaks(312, 156, 19.5, 1555),
    "NVIDIA L40S": CardPeaks(362, 183, 91.6, 864),
    "NVIDIA L4": CardPeaks(121, 60, 30.3, 300),
    "NVIDIA A10": CardPeaks(125, 62.5, 31.2, 600),
    "NVIDIA GeForce RTX 4090": CardPeaks(165.2, 82.6, 82.6, 1008),
    "NVIDIA GeForce RTX 3090": CardPeaks(71, 35.6, 35.6, 936),
}


def card_peaks(name: str) -> CardPeaks | None:
    """The published peaks of the card that the driver calls `name`; None for one that is not listed.

    The whole name counts: a "Laptop GPU", a "Ti", a "D" and a share of a card are others.
    """
    return _PEAKS.get(name)
