"""Series of nights for detection.py: generated, or drawn again from real ones.

The generator is fitted to 262 series of the benchmarks of tensordict (github.com/pytorch/tensordict, branch
gh-pages, dev/bench/data.js at 15870fe2): 57 runs on a hosted CPU runner and 38 on one with an A10G, in 2024.
Changes of level were taken out first.
"""

import csv
import math
from collections import defaultdict
from collections.abc import Callable
from itertools import pairwise
from pathlib import Path

import numpy as np
from numpy.typing import NDArray
from ruptures import KernelCPD

Array = NDArray[np.float64]
Source = Callable[[np.random.Generator, int], Array]

#: Spreads between runs: 1.65 % (CPU) and 2.63 % (GPU) in the middle; logarithms of them by 0.64 and 0.97.
SPREAD, SPREADS = 0.021, 0.8
#: |z| is below 1.77 and 2.34 in 90 and 95 of 100 runs (CPU): Student's t of five degrees of freedom.
DEGREES = 5
#: 1.7 % (CPU) and 4.8 % (GPU) of the runs are off by more than four deviations. Of those 9 of 10 last one
#: run, and 9 of 10 are slow. In logarithms: 0.03 to 0.06, 0.11 to 0.20, 0.9 to 1.0 (10, 50, 90 of 100).
SPIKES, LASTING, SLOW, SPIKE, SPIKE_SPREAD = 0.03, 0.1, 0.9, 0.15, 1.25
#: Neighbours correlate by 0.03 (CPU) and 0.14 (GPU) in the middle.
CORRELATED = 0.1
#: Two modes that stand four deviations apart: in 5 (CPU) to 10 (GPU) of 100 series.
MODES, APART = 0.07, 4.0
#: Not fitted, for 57 runs show no slow waves: one series of five has one of half a deviation, 15 nights long.
WAVES, WAVE, WAVE_NIGHTS = 0.2, 0.5, 15
#: A real series of fewer runs is left out; residuals are drawn in blocks, so that neighbours stay neighbours.
FEWEST, BLOCK = 30, 8


def generated(rng: np.random.Generator, nights: int) -> Array:
    """Logarithms of a series of which nothing changes."""
    z = _first_order(rng.standard_t(DEGREES, nights) / math.sqrt(DEGREES / (DEGREES - 2)), CORRELATED)
    if rng.random() < WAVES:
        z = z + WAVE * _first_order(rng.normal(size=nights), math.exp(-1 / WAVE_NIGHTS))
    if rng.random() < MODES:
        z = z + APART * (rng.random(nights) < rng.uniform(0.1, 0.5))
    spread = SPREAD * math.exp(SPREADS * rng.normal())
    hit = rng.random(nights) < SPIKES
    hit[1:] |= hit[:-1] & (rng.random(nights - 1) < LASTING)
    size = np.maximum(4 * spread, SPIKE * np.exp(SPIKE_SPREAD * rng.normal(size=nights)))
    return spread * z + hit * size * np.where(rng.random(nights) < SLOW, 1, -1)


def _first_order(noise: Array, keep: float) -> Array:
    """An autoregressive process of the first order with the variance of the noise."""
    out = noise.copy()
    for night in range(1, len(out)):
        out[night] = keep * out[night - 1] + math.sqrt(1 - keep**2) * noise[night]
    return out


def drawn_again(folder: Path, half: slice = slice(None)) -> Source:
    """Series made of blocks of residuals of the real ones in the CSV files of a folder, or of `half` of them.

    The columns are `device`, `benchmark`, `run_time_utc`, `mean_s`. Raises SystemExit where there are none.
    """
    found: dict[tuple[str, ...], list[tuple[str, float]]] = defaultdict(list)
    for path in sorted(folder.glob("*.csv")):
        with path.open(newline="", encoding="utf-8") as file:
            for row in csv.DictReader(file):
                key = (path.name, row["device"], row["benchmark"])
                found[key].append((row["run_time_utc"], math.log(float(row["mean_s"]))))
    long = [np.array([value for _, value in sorted(runs)]) for runs in found.values() if len(runs) >= FEWEST]
    if not long:
        raise SystemExit(f"{folder} holds no CSV with {FEWEST} runs or more of a benchmark")
    residuals = [_residuals(values) for values in long[half]]

    def again(rng: np.random.Generator, nights: int) -> Array:
        one = residuals[rng.integers(len(residuals))]
        starts = rng.integers(0, len(one) - BLOCK + 1, -(-nights // BLOCK))
        return np.concatenate([one[start : start + BLOCK] for start in starts])[:nights]

    return again


def _residuals(values: Array) -> Array:
    """The values less the medians of segments, found by another rule than any that is judged here."""
    spread = between_nights(values)
    scaled = np.clip((values - np.median(values)) / spread, -20, 20)
    found = KernelCPD(kernel="linear", min_size=5).fit(scaled[:, None])
    edges = [0, *(found.predict(pen=5 * math.log(len(values))) or ())]
    return np.concatenate([values[a:b] - np.median(values[a:b]) for a, b in pairwise(edges)])


def between_nights(values: Array) -> float:
    """The standard deviation between nights, from differences of neighbours."""
    size = np.abs(np.diff(values))
    return max(1.048 * float(np.median(size)), float(np.quantile(size, 0.9)) / 2.326, 1e-9)


def kind(values: Array) -> str:
    """How noisy a series is, in the three classes of the tables."""
    spread = 1.4826 * float(np.median(np.abs(values - np.median(values))))
    return "low" if spread < 0.01 else "mid" if spread < 0.03 else "high"


def truth(shape: str, size: float, at: int, nights: int, over: int = 60) -> Array:
    """What is planted: a `step` at night `at`, or a `drift` from there on over so many nights."""
    night = np.arange(nights)
    share = night >= at if shape == "step" else np.clip((night - at + 1) / over, 0, 1)
    return math.log1p(size) * share.astype(np.float64)
