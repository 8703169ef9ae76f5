"""How often each rule says go, no-go or unclear of a suite whose truth is known, and after how many minutes.

    python benchmarks/suite_simulation.py [--suites N] [--only WORD] [--seed N]

The noise is that of real pairs (`measured/verdicts.jsonl`: an environment against itself, each process's log
value around the median of its comparison), scaled to the spread and the cost of the 30 cases of suite `cpu`
against itself (`measured/cpu_against_itself.csv`). Added are an effect of which side starts first, and per
scenario wild pairs, heavy tails or processes in two modes. A scenario with `!` breaks the limit exactly and
on the noisiest cases. Beside the rule of `analysis/decision` stand the rule before it (every case cleared for
itself at 1 %), a Bonferroni t over twelve pairs, and two rules of the field that compare one process of
either side: 7 % (TorchBench) and 5 % (HUD).
"""

import argparse
import json
import math
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pandas as pd
from numpy.typing import NDArray
from scipy import special

from analysis.decision.case_estimates import CasePairs
from analysis.decision.next_pairs import next_pairs
from analysis.decision.suite_decision import SuiteLimits, judge_suite

Array = NDArray[np.float64]
ROOT = Path(__file__).resolve().parent.parent
MOST = 32
LIMITS = SuiteLimits()
CASE, WORST, MEAN = (math.log1p(limit) for limit in (LIMITS.case, LIMITS.worst, LIMITS.mean))
#: Of the first pairs of a case the old side starts first, then the new, then the new, then the old.
NEW_FIRST = np.array([number % 4 in (1, 2) for number in range(MOST)])
#: (cases, truth, noise, whether a limit is broken or reached).
SCENARIOS = (
    (10, "none", "real", False),
    (30, "none", "real", False),
    (150, "none", "real", False),
    (3, "none", "real", False),
    (30, "none", "t3", False),
    (10, "none", "wild", False),
    (10, "none", "modes", False),
    (30, "none", "modes", False),
    (30, "small", "real", False),
    (10, "one +10 %!", "real", True),
    (10, "one +10 %!", "wild", True),
    (10, "one +10 %!", "modes", True),
    (30, "one +10 %!", "real", True),
    (10, "share +5 %!", "real", True),
    (10, "share +5 %!", "modes", True),
    (30, "share +5 %!", "real", True),
    (10, "all +1 %", "real", True),
    (30, "all +1 %", "real", True),
    (30, "all +1 %", "t3", True),
    (10, "three +3.4 %", "real", True),
    (30, "one +12 %", "real", True),
    (30, "one +30 %", "wild", True),
    (30, "all +1.5 %", "real", True),
)


@dataclass(frozen=True, slots=True)
class Suite:
    """Log values of the processes, cases x pairs x (old, new), and the seconds of a pair of each case."""

    floors: Array
    seconds: Array

    @property
    def worse(self) -> Array:
        """Log ratios, cases x pairs."""
        return self.floors[:, :, 1] - self.floors[:, :, 0]


@dataclass(frozen=True, slots=True)
class Answer:
    """What a rule says of a suite, after how many pairs and minutes."""

    decision: str
    pairs: int
    minutes: float


def bank() -> Array:
    """Standardised log values of (old, new) of real pairs without a difference, n x 2.

    Every pair is there with its sides swapped, too: nothing distinguishes the two, and the mean of their
    differences, a few wild ones, would be a change.
    """
    found: list[Array] = []
    for line in (ROOT / "benchmarks/measured/verdicts.jsonl").read_text().splitlines():
        entry = json.loads(line)
        logs = np.log(np.array(entry.get("pair_logs") or np.empty((0, 2)), dtype=float))
        if entry["planted"] == 0 and len(logs) >= 6:
            logs = logs - np.median(logs, axis=0)
            ratios = logs[:, 1] - logs[:, 0]
            found.append(logs / max(1e-4, 1.4826 * float(np.median(np.abs(ratios - np.median(ratios))))))
    pairs = np.concatenate(found)
    return np.concatenate([pairs, pairs[:, ::-1]])


def cases() -> tuple[Array, Array]:
    """Of each case of a real suite the standard deviation of log ratios, and the median seconds of a pair."""
    pairs = pd.read_csv(ROOT / "benchmarks/measured/cpu_against_itself.csv").groupby("case", sort=False)
    return pairs["log_ratio"].std().to_numpy(), pairs["seconds"].median().to_numpy()


BANK = bank()
SPREADS, SECONDS = cases()
#: The standard deviation of the bank's ratios, the wildest drawn in, as the example's intervals have it.
UNIT = float(np.clip(BANK[:, 1] - BANK[:, 0], -6, 6).std())


def draw(rng: np.random.Generator, many: int, truth: str, noise: str) -> Suite:
    """A suite of so many cases."""
    chosen = rng.permutation(30)[:many] if many <= 30 else rng.integers(0, 30, many)
    scale = (SPREADS[chosen] / UNIT)[:, None, None]
    if noise == "t3":
        values = rng.standard_t(3, (many, MOST, 2)) / math.sqrt(2)
    else:
        values = BANK[rng.integers(0, len(BANK), (many, MOST))]
    # What both processes of a pair have in common: the machine's pace. The wildest of it is not scaled up.
    pace = np.clip(scale * values.mean(2, keepdims=True), -0.05, 0.05)
    floors = pace + scale * (values - values.mean(2, keepdims=True))
    order = np.abs(rng.normal(0.4, 0.5, many))[:, None] * scale[:, :, 0]
    floors[:, :, 1] += order * np.where(NEW_FIRST, 1, -1)
    if noise == "wild":
        off = rng.uniform(0.11, 0.24, (many, MOST)) * rng.choice([-1, 1], (many, MOST))
        floors[:, :, 1] += off * (rng.random((many, MOST)) < 1 / 8)
    moded = np.zeros(many, dtype=bool)
    if noise == "modes":
        # As a model under autocast was seen: one process in eight is slower by half for its whole life.
        moded = rng.random(many) < 0.2
        moded[rng.integers(many)] = True
        floors += 0.405 * (rng.random((many, MOST, 2)) < 1 / 8) * moded[:, None, None]
    floors[:, :, 1] += effects(rng, truth, scale[:, 0, 0] + moded)[:, None]
    return Suite(floors, SECONDS[chosen])


def effects(rng: np.random.Generator, truth: str, noise: Array) -> Array:
    """The true log change of each case."""
    many = len(noise)
    changes = np.zeros(many)
    order = np.argsort(-noise) if truth.endswith("!") else rng.permutation(many)
    allowed = math.floor(LIMITS.share * many + 1e-9)
    match truth.rstrip("!"):
        case "small":
            changes = rng.standard_t(4, many) * 0.007
        case "share +5 %":
            changes[order[: allowed + 1]] = CASE
        case "three +3.4 %":
            changes[order[:3]] = math.log(1.034)
        case "all +1 %":
            changes[:] = MEAN
        case "all +1.5 %":
            changes[:] = math.log(1.015)
        case one if one.startswith("one"):
            changes[order[0]] = math.log1p(float(one.split()[1]) / 100)
    return changes


def by_rule(suite: Suite) -> Answer:
    """The rule of `analysis/decision`, with pairs where they decide."""
    worse, pairs = suite.worse, np.full(len(suite.seconds), 4)

    def measured(at: int) -> CasePairs:
        n = int(pairs[at])
        floors = tuple((float(old), float(new)) for old, new in suite.floors[at, :n])
        first = tuple(bool(one) for one in NEW_FIRST[:n])
        return CasePairs(str(at), tuple(map(float, worse[at, :n])), first, floors, 1.0)

    cases = [measured(at) for at in range(len(pairs))]
    while True:
        decision = judge_suite(cases, LIMITS)
        following = next_pairs(decision, [float(one) for one in suite.seconds], LIMITS)
        if following.case is None:
            break
        at = int(following.case)
        pairs[at] = following.pairs
        cases[at] = measured(at)
    return Answer(decision.decision, int(pairs.sum()), float(pairs @ suite.seconds) / 60)


def _intervals(suite: Suite, n: int, tail: float) -> tuple[Array, Array, Array]:
    """Points, errors and the t quantile, of plain means over n pairs."""
    worse = suite.worse[:, :n]
    return worse.mean(1), worse.std(1, ddof=1) / math.sqrt(n), special.stdtrit(n - 1, 1 - tail)


def one_by_one(suite: Suite) -> Answer:
    """As before: twelve pairs a case at most, each cleared of 1 % for itself, in nine of ten."""
    return _cleared(suite, MEAN, 0.005, LIMITS.share)


def bonferroni(suite: Suite) -> Answer:
    """Twelve pairs, a t interval for each case, the error divided by the number of cases."""
    return _cleared(suite, CASE, 0.01 / len(suite.seconds), LIMITS.share)


def _cleared(suite: Suite, material: float, tail: float, share: float) -> Answer:
    point, error, t = _intervals(suite, 12, tail)
    low, high = point - t * error, point + t * error
    many = len(point)
    variance = float((error**2).sum()) / many**2
    half = float(special.stdtrit(11, 0.99)) * math.sqrt(variance)
    mean = float(point.mean())
    over = (low > WORST).any() or (low > material).mean() > share + 1e-9 or mean - half > MEAN
    may = (high > WORST).any() or (high > material).mean() > share + 1e-9 or mean + half > MEAN
    minutes = 12 * float(suite.seconds.sum()) / 60
    return Answer("no-go" if over else "unclear" if may else "go", 12 * many, minutes)


def single(limit: float) -> Callable[[Suite], Answer]:
    """One process of either side, and a limit."""

    def _rule(suite: Suite) -> Answer:
        over = bool((suite.worse[:, 0] > math.log1p(limit)).any())
        return Answer("no-go" if over else "go", len(suite.seconds), float(suite.seconds.sum()) / 60)

    return _rule


RULES: dict[str, Callable[[Suite], Answer]] = {
    "suite rule": by_rule,
    "one by one": one_by_one,
    "Bonferroni": bonferroni,
    "one pair, 7 %": single(0.07),
    "one pair, 5 %": single(0.05),
}


def answers(many: int, truth: str, noise: str, suites: int, seed: int) -> Iterator[dict[str, Answer]]:
    """What each rule says of so many drawn suites."""
    for number in range(suites):
        rng = np.random.default_rng([seed, number, many])
        suite = draw(rng, many, truth, noise)
        yield {name: rule(suite) for name, rule in RULES.items()}


def main() -> None:
    """Print go / no-go / unclear in per cent, then the median pairs and minutes of the suite rule."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--suites", type=int, default=200)
    parser.add_argument("--only", default="", help="scenarios whose line holds this word")
    parser.add_argument("--seed", type=int, default=1)
    options = parser.parse_args()
    print(f"{'cases, truth, noise':34}" + "".join(f"{name:>18}" for name in RULES) + "     pairs   minutes")
    for many, truth, noise, broken in SCENARIOS:
        name = f"{many:4d} {truth}, {noise}" + (" (broken)" if broken else "")
        if options.only not in name:
            continue
        drawn = list(answers(many, truth, noise, options.suites, options.seed))
        line = f"{name:34}"
        for rule in RULES:
            decisions = [each[rule].decision for each in drawn]
            shares = [100 * decisions.count(word) / len(decisions) for word in ("go", "no-go", "unclear")]
            line += f"{shares[0]:7.1f}/{shares[1]:4.0f}/{shares[2]:4.0f} "
        own = [each["suite rule"] for each in drawn]
        line += f"{np.median([one.pairs for one in own]):9.0f} {np.median([one.minutes for one in own]):9.1f}"
        print(line, flush=True)


if __name__ == "__main__":
    main()
