"""The roofline of a case on a GPU: what bounds it, its arithmetic or its memory traffic, and how near it is.

Williams, Waterman and Patterson (2009), Roofline: an insightful visual performance model for multicore
architectures.
"""

from collections.abc import Mapping
from typing import Any


def mfu(metrics: Mapping[str, float], facts: Mapping[str, Any]) -> dict[str, float]:
    """Metric `mfu`: the case's TFLOP/s by the card's published peak; empty where either is not known."""
    peak, tflops = facts.get("card_peak_tflops"), metrics.get("model_tflops")
    return {"mfu": tflops / peak} if peak and tflops is not None else {}


def roofline(metrics: Mapping[str, float], facts: Mapping[str, Any]) -> dict[str, float]:
    """Metrics `intensity_by_ridge` and `roofline_share` of a telemetry window; empty where something lacks.

    The arithmetic intensity is FLOP a byte of device memory, by `sustained_throughput` and `dram_active`
    (percent of the card's bandwidth). At the ridge point the bandwidth feeds the peak: below it a case is
    bound by its memory traffic, above it by its arithmetic. `roofline_share` is its TFLOP/s by what the
    roofline allows.
    """
    peak, flops = facts.get("card_peak_tflops"), facts.get("flops")
    items, active = metrics.get("sustained_throughput"), metrics.get("dram_active")
    if not (peak and flops and items and active):
        return {}
    tflops = flops / facts["items"] * items / 1e12
    by_ridge = tflops / (active / 100) / peak
    return {"intensity_by_ridge": by_ridge, "roofline_share": tflops / (peak * min(1.0, by_ridge))}
