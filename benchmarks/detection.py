"""Detection on drawn nights: false candidates, which changes are found and when, and what it costs.

    python benchmarks/detection.py [--series 200] [--seed 1]

Prints the tables of results/0016-detection.md and whether each goal is met. Noise is independent,
autoregressive, or has two modes that last some nights. A session compares the night `against` of a candidate
with the newest one; it straddles a step that begins between the two. Of a drift the two have to lie apart by
the floor, by the truth.
"""

import argparse
import math
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from analysis.detection.change_points import judge
from analysis.detection.night_scan import scan
from analysis.detection.nights import Change, Decision, NightValue, Rules

#: Standard deviations between nights: below 1 %, 1 to 3 %, more.
KINDS = {"low": 0.005, "mid": 0.02, "high": 0.04}
#: Two modes of a machine lie this far apart, as a log ratio.
APART = 0.05
YEAR = 365
#: A track is young for so many nights.
WARM = 40
#: The goals: false candidates a series-year, and nights until a step is reported, in the median.
FALSE = {"low": 0.2, "mid": 0.6, "high": 0.4}
DELAYS = {(0.05, "low"): 2, (0.05, "mid"): 5, (0.05, "high"): 15, (0.10, "mid"): 3}
AUTOCORRELATED = ("independent", "AR(1) .6", "AR(1) .8")
#: A step is found within so many nights.
LATE = 30
Array = NDArray[np.float64]
Noise = Callable[[np.random.Generator, int, float], Array]


def truth(shape: str, size: float, at: int, nights: int, over: int = 60) -> Array:
    """What is planted: a `step` at night `at`, or a `drift` from there on over so many nights."""
    night = np.arange(nights)
    share = night >= at if shape == "step" else np.clip((night - at + 1) / over, 0, 1)
    return math.log1p(size) * share.astype(np.float64)


def autoregressive(keep: float) -> Noise:
    """Normal noise of which each night keeps the share `keep` of the one before; 0 is independent."""

    def noise(rng: np.random.Generator, nights: int, spread: float) -> Array:
        fresh = rng.normal(size=nights)
        out = fresh.copy()
        for night in range(1, nights):
            out[night] = keep * out[night - 1] + math.sqrt(1 - keep**2) * fresh[night]
        return spread * out

    return noise


def two_modes(shortest: int, longest: int, apart: float = APART) -> Noise:
    """Independent noise around two levels that take turns every `shortest` to `longest` nights."""

    def noise(rng: np.random.Generator, nights: int, spread: float) -> Array:
        lengths = rng.integers(shortest, longest + 1, nights // shortest + 2)
        modes = np.repeat(np.arange(len(lengths)) % 2, lengths)
        first = int(rng.integers(0, shortest + 1))
        return spread * rng.normal(size=nights) + apart * modes[first : first + nights]

    return noise


def outliers(rng: np.random.Generator, nights: int, spread: float) -> Array:
    """Independent noise, of which 3 of 100 times two nights are off by 5 to 20 %."""
    values = spread * rng.normal(size=nights)
    for night in np.flatnonzero(rng.random(nights) < 0.03):
        values[night : night + 2] += rng.uniform(0.05, 0.20)
    return values


def quantised(rng: np.random.Generator, nights: int, spread: float) -> Array:
    """Independent noise in steps of half a deviation."""
    return 0.5 * spread * np.round(2 * rng.normal(size=nights))


NOISES: dict[str, Noise] = {
    "independent": autoregressive(0.0),
    "AR(1) .6": autoregressive(0.6),
    "AR(1) .8": autoregressive(0.8),
    "two modes, 4-10 nights": two_modes(4, 10),
    "two modes, 4-20 nights": two_modes(4, 20),
    "outliers of two nights": outliers,
    "quantised": quantised,
}


def raised(values: Array, decisions: Sequence[Decision] = ()) -> list[Change]:
    """Every candidate of a series of logarithms, oldest first; in one pass, for the scan is causal."""
    nights = [
        NightValue(value, weekly=number % 7 == 0) for number, value in enumerate(np.exp(values).tolist())
    ]
    judged = judge(nights, "lower", Rules(recent=len(values)), None, decisions)
    return sorted(judged.candidates + judged.returned, key=lambda one: one.raised)


@dataclass(slots=True)
class Found:
    """Of planted changes: nights until each was raised (infinite: never), and which were straddled."""

    delays: list[float] = field(default_factory=list[float])
    straddled: list[bool] = field(default_factory=list[bool])

    def add(self, hit: Change | None, at: int, straddled: bool) -> None:
        """One planted change, which began on night `at`."""
        self.delays.append(hit.raised - at if hit else math.inf)
        if hit:
            self.straddled.append(straddled)

    @property
    def share(self) -> float:
        """How many were found."""
        return float(np.mean(np.isfinite(self.delays)))

    @property
    def delay(self) -> float:
        """Nights until found, in the median; infinite where not even half were."""
        return float(np.median(self.delays))

    @property
    def straddle(self) -> float:
        """How many of those found have a session that straddles them."""
        return float(np.mean(self.straddled)) if self.straddled else math.nan

    def __str__(self) -> str:
        """Share found, nights in the median, share straddled."""
        delay = f"{self.delay:.0f}" if math.isfinite(self.delay) else "-"
        return f"{self.share:.2f}, {delay}, {self.straddle:.2f}"


def false_candidates(noise: Noise, spread: float, series: int, seed: int) -> tuple[float, float, float]:
    """Candidates a series-year of which nothing changes: all, on the first 40 nights, with sessions.

    A session refutes each on the night after; the next judging knows that.
    """
    rng = np.random.default_rng(seed)
    every = young = with_sessions = 0
    for _ in range(series):
        values = noise(rng, YEAR, spread)
        found = raised(values)
        every += len(found)
        young += sum(one.raised < WARM for one in found)
        decided: list[Decision] = []
        while len(found) > len(decided):
            one = found[len(decided)]
            decided.append(Decision(one.index, one.raised, confirmed=False))
            found = raised(values, decided)
        with_sessions += len(found)
    return every / series, young / series, with_sessions / series


def steps(noise: Noise, spread: float, size: float, series: int, seed: int) -> Found:
    """Steps that begin on nights 60 to 99, found within 30 nights."""
    rng, found = np.random.default_rng(seed), Found()
    for _ in range(series):
        at = int(rng.integers(60, 100))
        values = noise(rng, at + LATE, spread) + truth("step", size, at, at + LATE)
        hit = next((one for one in raised(values) if one.change > 0 and one.raised >= at), None)
        found.add(hit, at, hit is not None and hit.against < at)
    return found


def first_nights(noise: Noise, spread: float, size: float, series: int, seed: int) -> Found:
    """Steps on nights 4 to 7 of a new track, found within 30 nights."""
    rng, found = np.random.default_rng(seed), Found()
    for number in range(series):
        at = 3 + number % 4
        values = noise(rng, at + LATE, spread) + truth("step", size, at, at + LATE)
        hit = next((one for one in raised(values) if one.change > 0), None)
        found.add(hit, at, hit is not None and hit.against < at)
    return found


def drifts(
    noise: Noise, spread: float, size: float, over: int, series: int, seed: int
) -> tuple[Found, float]:
    """Drifts from night 60 on; and the largest size ever reported, in the median, over the true one.

    Straddled: some candidate's sides lie apart by the floor, by the truth.
    """
    rng, found, largest = np.random.default_rng(seed), Found(), list[float]()
    for _ in range(series):
        drift = truth("drift", size, 60, 380, over)
        hits = [one for one in raised(noise(rng, 380, spread) + drift) if one.change > 0 and one.raised >= 60]
        apart = max((drift[one.raised] - drift[one.against] for one in hits), default=0.0)
        found.add(hits[0] if hits else None, 60, float(apart) >= Rules().log_floor)
        largest.append(max((one.change for one in hits), default=0.0) / math.log1p(size))
    return found, float(np.median(largest))


def milliseconds(series: int, seed: int) -> tuple[float, float]:
    """To judge a series of 365 nights anew, and to go on by one night; independent noise of 2 %, one core."""
    rng = np.random.default_rng(seed)
    drawn = [0.02 * rng.normal(size=YEAR) for _ in range(series)]
    nights = [
        [NightValue(value, weekly=number % 7 == 0) for number, value in enumerate(np.exp(values).tolist())]
        for values in drawn
    ]
    begin = time.process_time()
    for own in nights:
        judge(own, "lower")
    anew = time.process_time() - begin
    scans = [scan(values.tolist(), (), Rules()) for values in drawn]
    begin = time.process_time()
    for one in scans:
        one.night(0.0, border=False)
    return 1000 * anew / series, 1000 * (time.process_time() - begin) / series


def tracks(series: int, seed: int) -> None:
    """Print the tables, and whether each goal is met."""
    goals: list[tuple[str, bool]] = []
    kinds = " / ".join(KINDS)
    print(f"\nfalse candidates a series-year, {kinds}; {series} series each")
    print("| noise | a series-year | of these on the first 40 nights | with sessions that refute them |")
    print("|---|---|---|---|")
    for name, noise in NOISES.items():
        rows = [false_candidates(noise, spread, series, seed) for spread in KINDS.values()]
        cells = [" / ".join(f"{row[place]:.2f}" for row in rows) for place in range(3)]
        print(f"| {name} | " + " | ".join(cells) + " |", flush=True)
        for (kind, most), row in zip(FALSE.items(), rows, strict=True):
            goals.append((f"{name}, {kind}: {row[0]:.2f} false a year, at most {most}", row[0] <= most))
    print(f"\nfound within {LATE} nights, nights in the median, straddled; {kinds}")
    print("| noise | step | low | mid | high |\n|---|---|---|---|---|")
    for name in AUTOCORRELATED:
        for size in (0.03, 0.05, 0.10):
            found = [steps(NOISES[name], spread, size, series, seed + 1) for spread in KINDS.values()]
            print(f"| {name} | {size:.0%} | " + " | ".join(map(str, found)) + " |", flush=True)
            share = found[1].straddle
            goals.append((f"{name}, {size:.0%} at mid: {share:.2f} straddled, at least .95", share >= 0.95))
            for kind, one in zip(KINDS, found, strict=True):
                if (most := DELAYS.get((size, kind))) is not None:
                    text = f"{name}, {size:.0%} at {kind}: {one.delay:.0f} nights, at most {most}"
                    goals.append((text, one.delay <= most))
        for size in (0.05, 0.10):
            found = [first_nights(NOISES[name], spread, size, series, seed + 2) for spread in KINDS.values()]
            row = f"| {name} | {size:.0%} on nights 4 to 7 | " + " | ".join(map(str, found)) + " |"
            print(row, flush=True)
            share = found[1].straddle
            goals.append((f"{name}, {size:.0%} on first nights: {share:.2f} straddled", share >= 0.95))
    _drift_table(series // 2, seed, goals)
    anew, more = milliseconds(series, seed)
    print(f"\n365 nights anew: {anew:.2f} ms a series; one more night: {more:.4f} ms")
    goals += [("at most 1.2 ms anew", anew <= 1.2), ("at most 0.1 ms a night", more <= 0.1)]
    print("\ngoals")
    for text, met in goals:
        print(f"  {'met   ' if met else 'MISSED'}  {text}")


def _drift_table(series: int, seed: int, goals: list[tuple[str, bool]]) -> None:
    print("\ndrifts: found, nights in the median, straddled; largest size reported over the true one")
    print("| noise | drift | low | mid | high |\n|---|---|---|---|---|")
    for name in AUTOCORRELATED[:2]:
        for size, over in ((0.05, 300), (0.10, 300), (0.05, 60)):
            rows = [drifts(NOISES[name], spread, size, over, series, seed + 3) for spread in KINDS.values()]
            cells = [f"{found}; {largest:.2f}" for found, largest in rows]
            print(f"| {name} | {size:.0%} over {over} nights | " + " | ".join(cells) + " |", flush=True)
            share = rows[1][0].straddle
            goals.append((f"{name}, {size:.0%} over {over} at mid: {share:.2f} straddled", share >= 0.95))


def main() -> None:
    """Read the arguments and print the tables."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--series", type=int, default=200)
    parser.add_argument("--seed", type=int, default=1)
    options = parser.parse_args()
    tracks(max(20, options.series), options.seed)


if __name__ == "__main__":
    main()
