"""Rules of the field, stated anew from what their projects publish, for detection.py.

Each looks at logarithms of the nights so far and answers the nights at which it sees a change begin, with its
sign. Rules that look only at the newest night can only answer that one.
"""

import math
from collections.abc import Callable
from itertools import pairwise

import numpy as np
from detection_series import Array, between_nights
from ruptures import KernelCPD
from scipy import special  # pyright: ignore[reportMissingTypeStubs]

Seen = list[tuple[int, int]]
Rule = Callable[[Array], Seen]


def _tonight(values: Array, off: float, limit: float) -> Seen:
    return [(len(values) - 1, 1 if off > 0 else -1)] if abs(off) > limit else []


def naive(values: Array) -> Seen:
    """5 % off the median of the seven nights before."""
    return _tonight(values, values[-1] - float(np.median(values[-8:-1])), math.log1p(0.05))


def torchbench(values: Array) -> Seen:
    """7 % off the night before, as TorchBench's nightly regression check."""
    return _tonight(values, values[-1] - values[-2], math.log1p(0.07))


def twice(values: Array) -> Seen:
    """5 % and four deviations off the median of ten nights, on two nights in a row."""
    before = values[-12:-2]
    limit = max(math.log1p(0.05), 4 * between_nights(before))
    off = values[-2:] - float(np.median(before))
    return (
        _tonight(values, float(off[1]), limit)
        if abs(off.sum()) == np.abs(off).sum() and abs(off[0]) > limit
        else []
    )


def fence(values: Array) -> Seen:
    """rustc-perf: a change from night to night beyond Q3 + 3 IQR of the last 30 of them."""
    sizes = np.abs(np.expm1(np.diff(values[-32:])))
    low, high = np.quantile(sizes[:-1], [0.25, 0.75])
    return _tonight(values, values[-1] - values[-2], math.log1p(high + 3 * (high - low)))


def bencher(values: Array) -> Seen:
    """Bencher: outside Student's prediction interval of 99 % from the last 64 nights."""
    before = values[-65:-1]
    n = len(before)
    half = float(special.stdtrit(n - 1, 0.995)) * float(before.std(ddof=1)) * math.sqrt(1 + 1 / n)
    return _tonight(values, values[-1] - float(before.mean()), half)


def perfherder(values: Array) -> Seen:
    """Perfherder: weighted t above 7 between 24 nights before and 12 after, where it is highest, and 2 %."""
    n = len(values)
    windows = np.lib.stride_tricks.sliding_window_view
    there = windows(np.pad(np.ones(n), (24, 0)), 24)[12 : n - 11]
    old = _weighted(windows(np.pad(values, (24, 0)), 24)[12 : n - 11], there * np.arange(1, 25))
    new = _weighted(windows(values, 12)[12:], np.arange(12, 0, -1) * np.ones((n - 23, 1)))
    error = np.sqrt(old[1] / there.sum(1) + new[1] / 12)
    ts = np.concatenate([np.zeros(12), (new[0] - old[0]) / np.maximum(error, 1e-12), np.zeros(11)])
    size = np.abs(ts)
    return [
        (night, 1 if ts[night] > 0 else -1)
        for night in np.flatnonzero(size > 7).tolist()
        if size[night] == size[max(0, night - 6) : night + 7].max()
        and abs(values[night:].mean() - values[max(0, night - 24) : night].mean()) > math.log1p(0.02)
    ]


def _weighted(values: Array, weights: Array) -> tuple[Array, Array]:
    """Weighted means and variances of the rows."""
    weights = weights / weights.sum(1, keepdims=True)
    means = (values * weights).sum(1)
    return means, ((values - means[:, None]) ** 2 * weights).sum(1)


def otava(values: Array) -> Seen:
    """Like Apache Otava: splits where the energy statistic is largest, kept by t-tests at 0.001."""
    found: list[int] = []
    parts = [(0, len(values))]
    while parts:
        low, high = parts.pop()
        split = _energy(values[low:high])
        if split and _student(values[low : low + split], values[low + split : high]) < 0.01:
            found.append(low + split)
            parts += [(low, low + split), (low + split, high)]
    found.sort()
    while found:
        edges = [0, *found, len(values)]
        ps = [
            _student(values[a:b], values[b:c]) for a, b, c in zip(edges, edges[1:], edges[2:], strict=False)
        ]
        if max(ps) < 0.001:
            break
        del found[int(np.argmax(ps))]
    return _signed(values, found)


def _energy(values: Array) -> int:
    """Where to split: Q = mn/(m+n) (2 E|X-Y| - E|X-X'| - E|Y-Y'|) (Matteson, James 2014); 0 for nowhere."""
    n = len(values)
    if n < 6:
        return 0
    sums = np.pad(np.abs(values[:, None] - values[None, :]).cumsum(0).cumsum(1), ((1, 0), (1, 0)))
    m = np.arange(2, n - 1)
    within, total = sums[m, m], sums[n, n]
    across = sums[m, n] - within
    after = total - within - 2 * across
    rest = n - m
    q = 2 * across / (m * rest) - within / (m * (m - 1)) - after / (rest * (rest - 1))
    return int(m[np.argmax(q * m * rest / n)])


def _student(old: Array, new: Array) -> float:
    degrees = len(old) + len(new) - 2
    pooled = (old.var() * len(old) + new.var() * len(new)) / max(1, degrees)
    error = math.sqrt(pooled * (1 / len(old) + 1 / len(new)))
    return 2 * float(special.stdtr(max(1, degrees), -abs(new.mean() - old.mean()) / max(error, 1e-12)))


def _signed(values: Array, found: list[int]) -> Seen:
    edges = [0, *found, len(values)]
    levels = [float(np.median(values[a:b])) for a, b in pairwise(edges)]
    return [(at, 1 if new > old else -1) for at, (old, new) in zip(found, pairwise(levels), strict=True)]


def kernel_rbf(values: Array) -> Seen:
    """KernelCPD with the radial kernel at 0.75 ln n, as it is."""
    scaled = (values / between_nights(values))[:, None]
    found = KernelCPD(kernel="rbf", min_size=5).fit(scaled).predict(pen=0.75 * math.log(len(values)))
    return _signed(values, (found or [])[:-1])


def kernel_welch(values: Array, floor: float = 0.0) -> Seen:
    """KernelCPD, linear, 5 ln n, after a Hampel filter; kept by Welch's t at 0.0001, a deviation, a floor."""
    spread = between_nights(values)
    clean = _hampel(values, 4 * spread)
    found = KernelCPD(kernel="linear", min_size=5).fit((clean / spread)[:, None])
    edges = (found.predict(pen=5 * math.log(len(values))) or [])[:-1]
    while edges:
        ends = [0, *edges, len(values)]
        worst, drop = -1.0, -1
        for number, (a, b, c) in enumerate(zip(ends, ends[1:], ends[2:], strict=False)):
            old, new = clean[a:b], clean[b:c]
            p = _welch(old, new)
            size = abs(float(np.median(new) - np.median(old)))
            if (p >= 1e-4 or size < max(spread, floor)) and p > worst:
                worst, drop = p, number
        if drop < 0:
            break
        del edges[drop]
    return _signed(clean, edges)


def _welch(old: Array, new: Array) -> float:
    parts = [max(float(side.var(ddof=1)) / len(side), 1e-18) for side in (old, new)]
    degrees = sum(parts) ** 2 / (parts[0] ** 2 / (len(old) - 1) + parts[1] ** 2 / (len(new) - 1))
    return 2 * float(special.stdtr(degrees, -abs(float(new.mean() - old.mean())) / math.sqrt(sum(parts))))


def kernel_welch_floor(values: Array) -> Seen:
    """The same with a floor of 3 %."""
    return kernel_welch(values, math.log1p(0.03))


def _hampel(values: Array, limit: float) -> Array:
    windows = np.lib.stride_tricks.sliding_window_view(np.pad(values, 5, mode="reflect"), 11)
    middle = np.median(windows, axis=1)
    return np.where(np.abs(values - middle) > limit, middle, values)


#: Of the newest night only, and of every night so far.
TONIGHT: dict[str, Rule] = {
    "5 % off the median of 7": naive,
    "7 % off the night before (TorchBench)": torchbench,
    "5 % and 4 sd, twice in a row": twice,
    "fence of Q3 + 3 IQR (rustc-perf)": fence,
    "Student's prediction, 99 % (Bencher)": bencher,
}
HISTORY: dict[str, Rule] = {
    "weighted t > 7 (Perfherder)": perfherder,
    "energy and t-tests (like Otava)": otava,
    "KernelCPD, radial": kernel_rbf,
    "KernelCPD, kept by Welch's t": kernel_welch,
    "the same, 3 % and more": kernel_welch_floor,
}
