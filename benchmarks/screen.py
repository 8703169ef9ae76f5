"""How often a screen lets a slow-down pass, and how often it sends a case on in which nothing differs.

    python benchmarks/screen.py [--cases N] [--seed N]

The noise is that of `suite_simulation.py`: real pairs of an environment against itself, with the spreads of
30 cases of a real upgrade (`measured/`). Added is what a short pair, measured for a sixth of the time, has
more of chance within it (`WITHIN`). A screen sees two such pairs of a case.
"""

import argparse
import math

import numpy as np
import suite_simulation

from analysis.comparison.screening import SCREEN_LIMIT, SHORT_PAIRS

#: Full pairs are measured until chance within them is half a threshold of 1 %; six times shorter, it is this.
WITHIN = 0.005 * math.sqrt(6)
NOISES = ("real", "t3", "wild", "modes")
CHANGES = (0.0, 0.10, 0.12, 0.15, 0.20, 0.30)


def sent_on(rng: np.random.Generator, noise: str, change: float, cases: int) -> float:
    """The share of cases slower by `change` (a share) that a screen sends on to full pairs."""
    draws = math.ceil(cases / 30)
    sent = 0
    for _ in range(draws):
        pairs = suite_simulation.draw(rng, 30, "none", noise).worse[:, :SHORT_PAIRS]
        pairs = pairs + rng.normal(math.log1p(change), WITHIN, pairs.shape)
        sent += int((np.abs(pairs).max(axis=1) >= math.log1p(SCREEN_LIMIT)).sum())
    return sent / (30 * draws)


def main() -> None:
    """Print the table."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--cases", type=int, default=60_000)
    parser.add_argument("--seed", type=int, default=1)
    options = parser.parse_args()
    rng = np.random.default_rng(options.seed)
    print("| noise | " + " | ".join(f"+{change:.0%} passes" for change in CHANGES) + " |")
    print("|---" * (1 + len(CHANGES)) + "|")
    for noise in NOISES:
        shares = [1 - sent_on(rng, noise, change, options.cases) for change in CHANGES]
        print(f"| {noise} | " + " | ".join(f"{share:.2%}" for share in shares) + " |")


if __name__ == "__main__":
    main()
