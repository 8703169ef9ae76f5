"""How often verdicts are false, and what they see: simulated pairs of known truth.

    python benchmarks/verdict_simulation.py [estimators | rules | power | suite]; default: all

Seeds are fixed, so that the tables of docs/decisions/0011-verdicts.md come out again. Takes about a minute.
"""

import sys
from collections.abc import Callable, Sequence

import numpy as np
from numpy.typing import NDArray
from scipy import special, stats  # pyright: ignore[reportMissingTypeStubs]

from analysis.comparison.false_discovery_rate import RATE, adjusted
from analysis.comparison.pairs import Pair
from analysis.comparison.plan import Plan
from analysis.comparison.thresholds import threshold_of
from analysis.comparison.verdict import judge
from analysis.robust_mean import set_aside

Array = NDArray[np.float64]
METRIC = "latency_floor"
THRESHOLD = threshold_of(METRIC).log
EFFECTS = (0.0, 0.01, 0.02, 0.03, 0.05, 0.10)


def pairs(kind: str, spread: float, trials: int, n: int, seed: int) -> Array:
    """Log ratios around 0 of `n` pairs in each of `trials` cases. `spread` is that of ordinary pairs."""
    rng = np.random.default_rng(seed)
    plain = rng.normal(0.0, spread, (trials, n))
    if kind == "normal":
        return plain
    if kind == "t3":
        return rng.standard_t(3, (trials, n)) * spread
    if kind == "wild":
        # As measured: 3 of 24 pairs off by 11 to 24 % for their whole life.
        off = rng.uniform(0.11, 0.24, (trials, n)) * rng.choice([-1, 1], (trials, n))
        return plain + off * (rng.random((trials, n)) < 1 / 8)
    if kind == "modes":
        # Every process is in one of two modes, far apart.
        modes = rng.random((2, trials, n)) < 0.5
        return plain / 2 + 4 * spread * (modes[0].astype(float) - modes[1])
    if kind == "offset":
        # Each pair has a constant of its own that no further rounds take away.
        return plain / 4 + rng.normal(0.0, 2 * spread, (trials, n))
    # The first to start is faster by two spreads: either side in half of each two pairs, or by a coin.
    if kind == "order, in turn":
        first = np.where(rng.random((trials, (n + 1) // 2)) < 0.5, 1, -1)
        first = np.stack([first, -first], axis=2).reshape(trials, -1)[:, :n]
    else:
        first = rng.choice([-1, 1], (trials, n))
    return plain / 4 + 2 * spread * first


def student(x: Array) -> tuple[Array, Array, int]:
    """Point, error and degrees of freedom of Student's t."""
    n = x.shape[1]
    return x.mean(1), x.std(1, ddof=1) / np.sqrt(n), n - 1


def winsorised(x: Array, g: int) -> tuple[Array, Array, int]:
    """The same of the winsorised t with `g` values at either end."""
    n = x.shape[1]
    ordered = np.sort(x, axis=1)
    point, error, _ = student(np.clip(x, ordered[:, [g]], ordered[:, [n - 1 - g]]))
    return point, error * (n - 1) / (n - 2 * g - 1), n - 2 * g - 1


def ours(x: Array) -> tuple[Array, Array, int]:
    """What analysis.robust_mean does, for many cases at once."""
    return winsorised(x, set_aside(x.shape[1]))


def trimmed(x: Array) -> tuple[Array, Array, int]:
    """The trimmed t of Tukey and McLaughlin (1963), which is Yuen's (1974) for pairs: 20 % at either end."""
    n = x.shape[1]
    g = int(0.2 * n)
    ordered = np.sort(x, axis=1)
    _, error, _ = student(np.clip(x, ordered[:, [g]], ordered[:, [n - 1 - g]]))
    return ordered[:, g : n - g].mean(1), error / (1 - 2 * g / n), n - 2 * g - 1


def biweight(x: Array) -> tuple[Array, Array, int]:
    """The biweight t with 0.7 (n - 1) degrees of freedom (Gross 1976; Mosteller and Tukey 1977)."""
    n = x.shape[1]
    middle = np.median(x, axis=1, keepdims=True)
    mad = np.median(np.abs(x - middle), axis=1, keepdims=True)
    for _ in range(8):
        u = (x - middle) / (6 * mad)
        weight = np.where(np.abs(u) < 1, (1 - u**2) ** 2, 0)
        middle = (weight * x).sum(1, keepdims=True) / weight.sum(1, keepdims=True)
    u = (x - middle) / (9 * mad)
    near = np.abs(u) < 1
    above = np.where(near, (x - middle) ** 2 * (1 - u**2) ** 4, 0).sum(1)
    below = np.where(near, (1 - u**2) * (1 - 5 * u**2), 0).sum(1)
    return middle[:, 0], np.sqrt(above / (below * np.maximum(below - 1, 1))), int(0.7 * (n - 1))


def by_t(located: tuple[Array, Array, int], level: float) -> tuple[Array, Array]:
    """The interval of Student's t at this level."""
    point, error, degrees = located
    half = special.stdtrit(degrees, (1 + level) / 2) * error
    return point - half, point + half


def by_ranks(x: Array, level: float) -> tuple[Array, Array]:
    """The Hodges-Lehmann interval: order statistics of pairwise means, by Wilcoxon's distribution."""
    n = x.shape[1]
    i, j = np.triu_indices(n)
    walsh = np.sort((x[:, i] + x[:, j]) / 2, axis=1)
    counts = np.ones(1)
    for rank in range(1, n + 1):
        counts = np.pad(counts, (0, rank)) + np.pad(counts, (rank, 0))
    below = np.cumsum(counts) / 2**n
    return _cut(walsh, int((below <= (1 - level) / 2).sum()))


def by_signs(x: Array, level: float) -> tuple[Array, Array]:
    """The interval for the median between two order statistics (Thompson 1936)."""
    n = x.shape[1]
    below = stats.binom.cdf(np.arange(n), n, 0.5)
    return _cut(np.sort(x, axis=1), int((below <= (1 - level) / 2).sum()))


def _cut(ordered: Array, drop: int) -> tuple[Array, Array]:
    if not drop:
        return np.full(len(ordered), -np.inf), np.full(len(ordered), np.inf)
    return ordered[:, drop - 1], ordered[:, -drop]


def by_bootstrap(x: Array, level: float) -> tuple[Array, Array]:
    """The bootstrap-t interval (Efron 1981) of 400 resamples."""
    trials, n = x.shape
    rng = np.random.default_rng(0)
    point, error, _ = student(x)
    again = rng.integers(0, n, (400, n))
    sampled = x[:, again]
    spread = sampled.std(2, ddof=1) / np.sqrt(n)
    with np.errstate(divide="ignore", invalid="ignore"):
        ts = np.where(spread > 0, (sampled.mean(2) - point[:, None]) / spread, 0.0)
    low, high = np.quantile(ts, [(1 - level) / 2, (1 + level) / 2], axis=1)
    assert low.shape == (trials,)
    return point - high * error, point - low * error


def estimators() -> None:
    """False exclusions of 0, and how often 3 % is seen, of one look at 99 % confidence."""
    ways: dict[str, Callable[[Array], tuple[Array, Array]]] = {
        "Student's t": lambda x: by_t(student(x), 0.99),
        "winsorised t (ours)": lambda x: by_t(ours(x), 0.99),
        "trimmed t, 20 %": lambda x: by_t(trimmed(x), 0.99),
        "biweight t": lambda x: by_t(biweight(x), 0.99),
        "Hodges-Lehmann": lambda x: by_ranks(x, 0.99),
        "median by signs": lambda x: by_signs(x, 0.99),
        "bootstrap-t": lambda x: by_bootstrap(x, 0.99),
    }
    kinds = ("normal", "t3", "wild", "modes", "order, by a coin", "order, in turn")
    print("\n| n | interval at 99 % | " + " | ".join(kinds) + " |")
    print("|---|---|" + "---|" * len(kinds))
    for n in (3, 4, 5, 6, 8, 10, 12):
        for name, interval in ways.items():
            trials = 2_000 if interval is ways["bootstrap-t"] else 40_000
            cells: list[str] = []
            if name == "biweight t" and n < 4:
                continue
            for kind in kinds:
                x = pairs(kind, 0.01, trials, n, seed=n)
                low, high = interval(x)
                false = ((low > 0) | (high < 0)).mean()
                cells.append(f"{100 * false:.2f} / {100 * (low + np.log(1.03) > 0).mean():.0f}")
            print(f"| {n} | {name} | " + " | ".join(cells) + " |")


def words(
    x: Array, plan: Plan, call: str = "point", cases: int = 1, first: Array | None = None
) -> tuple[NDArray[np.int64], NDArray[np.int64], Array]:
    """Of each case: -1 faster, 1 slower, 2 same, 0 unclear; pairs measured; the p value where it stopped.

    `call` is what makes a change one: the interval excludes 0, and its `point` passes the threshold (ours),
    or its `near end` does, or its point does and its near end passes half the threshold (`half`).
    `first` is 1 or -1 for the side that starts first; a side that does so in nearly all pairs is not judged.
    What is called goes on until it would stand alone among so many `cases`, as
    analysis.comparison.sequential_test advises.
    """
    word = np.zeros(len(x), dtype=np.int64)
    measured = np.full(len(x), plan.largest)
    p = np.ones(len(x))
    live = np.ones(len(x), dtype=bool)
    for look in plan.looks:
        point, error, degrees = ours(x[:, :look])
        share = plan.share(look)
        half = special.stdtrit(degrees, 1 - plan.alpha * share / 2) * error
        half_same = special.stdtrit(degrees, 1 - plan.alpha_same * share) * error
        size = np.abs(point)
        beyond = {"point": 0.0, "near end": THRESHOLD, "half": THRESHOLD / 2}[call]
        called = (size - half > beyond) & (size >= THRESHOLD)
        same = ~called & (size + half_same < THRESHOLD)
        p = np.where(live, np.minimum(1, 2 * special.stdtr(degrees, -size / error) / share), p)
        if first is not None:
            even = np.abs(first[:, :look].sum(1)) <= look / 2
            called, same = called & even, same & even
        now = np.where(same, 2, np.where(called, np.sign(point), 0)).astype(np.int64)
        word = np.where(live, now, word)
        stopped = live & (same | (called & (p <= RATE / cases)))
        measured[stopped] = look
        live &= ~stopped
    return word, measured, p


def _agrees_with_judge() -> None:
    """What is simulated here is what analysis decides."""
    plan, threshold = Plan(), threshold_of(METRIC)
    x = pairs("wild", 0.01, 150, plan.largest, seed=1) + 0.02
    word, measured, p = words(x, plan)
    names = {-1: "faster", 0: "unclear", 1: "slower", 2: "same"}
    for row, expected, n, p_value in zip(x, word, measured, p, strict=True):
        verdict = judge(METRIC, [Pair(1.0, float(np.exp(d))) for d in row[:n]], threshold, plan)
        assert verdict.word == names[int(expected)], (verdict, expected)
        assert verdict.p is not None and abs(verdict.p - p_value) < 1e-9
    print("The simulation and analysis.comparison.verdict.judge agree on 150 cases.")


def rules() -> None:
    """What makes a change one, and when to look: false calls, and calls at 2 and 3 %."""
    print("\n| looks | a call needs | pairs | false % | 1 % | 2 % | 3 % | pairs at 2 % |")
    print("|---|---|---|---|---|---|---|---|")
    plans = {
        "6, 8, 10, 12": (Plan(), "point"),
        "6, 8, 10, 12 ": (Plan(), "half"),
        "6, 8, 10, 12  ": (Plan(), "near end"),
        "4, 6, 8, 10, 12": (Plan(smallest=4), "point"),
        "every pair from 4": (Plan(smallest=4, step=1), "point"),
        "12 only": (Plan(smallest=12), "point"),
        "6, 8, 10": (Plan(largest=10), "point"),
        "6, 8": (Plan(largest=8), "point"),
        "8 only": (Plan(smallest=8, largest=8), "point"),
    }
    for looks, (plan, call) in plans.items():
        for kind in ("normal", "wild", "modes"):
            x = pairs(kind, 0.01, 20_000, plan.largest, seed=2)
            shares = [(words(x + np.log1p(effect), plan, call)) for effect in EFFECTS[:4]]
            false = np.isin(shares[0][0], (-1, 1)).mean()
            seen = " | ".join(f"{100 * (word == 1).mean():.0f}" for word, _, _ in shares[1:])
            print(
                f"| {looks.strip()} | {call} | {kind}, 1 % | {100 * false:.2f} | {seen} | "
                f"{shares[2][1].mean():.1f} |"
            )
    _peeking()


def _peeking() -> None:
    """What looking after every pair costs who spends nothing for it; and an always valid test."""
    print("\n| after every pair from 3 to 12 | normal | wild |")
    print("|---|---|---|")
    tables: dict[str, list[str]] = {"t interval at 95 %": [], "t at 99 %": [], "always valid t at 99 %": []}
    power: list[str] = []
    for kind in ("normal", "wild"):
        x = pairs(kind, 0.01, 20_000, 12, seed=3)
        stopped = {name: np.zeros(len(x), dtype=bool) for name in tables}
        seen = np.zeros(len(x), dtype=bool)
        for n in range(3, 13):
            point, error, degrees = student(x[:, :n])
            p = 2 * special.stdtr(degrees, -np.abs(point / error))
            stopped["t interval at 95 %"] |= p < 0.05
            stopped["t at 99 %"] |= p < 0.01
            stopped["always valid t at 99 %"] |= _evidence(point / error, n) >= 100
            seen |= (_evidence((point + np.log(1.02)) / error, n) >= 100) & (point > -np.log(1.02))
        for name, found in stopped.items():
            tables[name].append(f"{100 * found.mean():.2f} % false")
        power.append(f"{100 * seen.mean():.0f} % of 2 % seen")
    tables["always valid t at 99 %"] = [
        f"{a}, {b}" for a, b in zip(tables["always valid t at 99 %"], power, strict=True)
    ]
    for name, cells in tables.items():
        print(f"| {name} | " + " | ".join(cells) + " |")


def _evidence(t: Array, n: int, width: float = 4.0) -> Array:
    """The likelihood ratio of t mixed over effects N(0, width) in units of the spread (Lai 1976)."""
    nu, r = n - 1, 1 / (1 + n * width)
    return np.sqrt(r) * ((1 + r * t**2 / nu) / (1 + t**2 / nu)) ** (-(nu + 1) / 2)


def power() -> None:
    """Share called slower by true effect and spread; false calls; sequential p values below their size."""
    plan = Plan()
    print("\n| pairs | spread | false % | same at 0 | " + " | ".join(f"{e:.0%}" for e in EFFECTS[1:]))
    print("|---|---|---|---|" + "---|" * (len(EFFECTS) - 1))
    for kind in ("normal", "t3", "wild", "modes", "offset", "order, in turn", "order, by a coin"):
        for spread in (0.005, 0.01, 0.02, 0.05):
            cells: list[str] = []
            x = pairs(kind, spread, 20_000, plan.largest, seed=4)
            # Where the order matters, it is what the sign of a null pair comes from.
            first = np.sign(x) if kind.startswith("order") else None
            none, measured, _ = words(x, plan, first=first)
            cells += [f"{100 * np.isin(none, (-1, 1)).mean():.2f}", f"{100 * (none == 2).mean():.0f}"]
            cells[-1] += f" ({measured.mean():.1f})"
            for effect in EFFECTS[1:]:
                word, measured, _ = words(x + np.log1p(effect), plan, first=first)
                wrong = f", {100 * (word == -1).mean():.2f} faster" if (word == -1).any() else ""
                cells.append(f"{100 * (word == 1).mean():.0f} ({measured.mean():.1f}{wrong})")
            print(f"| {kind} | {100 * spread:.1f} % | " + " | ".join(cells) + " |")
    print("In brackets: pairs on average.")
    _p_values()


def _p_values() -> None:
    """How often p is small though nothing differs, over how often that may be."""
    sizes = (0.01, 0.003, 0.001, 0.0003)
    print("\n| pairs | " + " | ".join(f"p <= {size}" for size in sizes) + " |")
    print("|---|" + "---|" * len(sizes))
    for kind in ("normal", "t3", "wild", "modes"):
        _, _, p = words(pairs(kind, 0.02, 200_000, 12, seed=7), Plan())
        print(f"| {kind} | " + " | ".join(f"{(p <= size).mean() / size:.2f} x" for size in sizes) + " |")


def suite() -> None:
    """False calls in a suite of 40 cases, false discovery rate, and share of the true ones found."""
    print(
        "\n| slower cases | in common | each on its own | FDR on top | FDR, called cases go on | more pairs |"
    )
    print("|---|---|---|---|---|---|")
    cases, suites, plan = 40, 1_000, Plan()
    for slower in (0, 2, 10):
        for common in (0.0, 0.5):
            x = pairs("wild", 0.01, cases * suites, plan.largest, seed=5 + slower)
            drift = np.random.default_rng(6).normal(0, 0.01, (suites, 1, plan.largest))
            x = np.sqrt(1 - common) * x.reshape(suites, cases, -1) + np.sqrt(common) * drift
            x[:, :slower] += np.log(1.03)
            flat, true = x.reshape(-1, plan.largest), np.arange(cases) < slower
            cells: list[str] = []
            means: list[float] = []
            for controlled, among in ((False, 1), (True, 1), (True, cases)):
                judged = words(flat, plan, cases=among)
                word, measured, p = (part.reshape(suites, cases) for part in judged)
                called = np.isin(word, (-1, 1))
                if controlled:
                    called &= np.array([adjusted(row.tolist()) for row in p]) <= RATE
                false = (called & ~true).sum(1)
                rate = (false / np.maximum(1, called.sum(1))).mean()
                found = f", {100 * called[:, true].mean():.0f} % found" if slower else ""
                cells.append(f"{false.mean():.3f} false, FDR {100 * rate:.1f} %{found}")
                means.append(float(measured.mean()))
            cells.append(f"{means[2] - means[0]:.2f} a case")
            print(f"| {slower} of {cases} | {common:.0%} of the variance | " + " | ".join(cells) + " |")


def main(chosen: Sequence[str]) -> None:
    """Print the tables asked for."""
    tables = {"estimators": estimators, "rules": rules, "power": power, "suite": suite}
    _agrees_with_judge()
    for name in chosen or tables:
        print(f"\n{name}: {(tables[name].__doc__ or '').splitlines()[0]}")
        tables[name]()


if __name__ == "__main__":
    main(sys.argv[1:])
