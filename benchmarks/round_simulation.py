"""Pairs of as many rounds as they need, beside ten rounds each: false calls, what is seen, and the time.

    python benchmarks/round_simulation.py

A round says the pair's own constant, which spreads by 0.5 %, and chance of some kind. Either way the rule of
verdicts judges the pairs. The seed is fixed. Takes about a minute on one core.
"""

import math
from collections.abc import Callable, Mapping

import numpy as np
from verdict_simulation import Array, words

from analysis.comparison.plan import Plan
from analysis.comparison.thresholds import threshold_of
from runner.execution.blocks import standard_error

TRIALS = 4_000
#: What both sides of a pair take to start, and one round of both, in seconds.
START, ROUND = 7.0, 0.2
#: Rounds that a pair has at least, and at most.
LEAST, MOST = 10, 40
CONSTANT = 0.005
EFFECTS = (0.0, 0.01, 0.02, 0.03)
LIMIT = threshold_of("latency_floor").log / 2

Rounds = Callable[[np.random.Generator, tuple[int, ...]], Array]


def spread(share: float) -> Rounds:
    """Normal rounds."""
    return lambda rng, shape: rng.normal(0.0, share, shape)


def wild(share: float) -> Rounds:
    """Normal rounds of which one in five spreads four times as much."""
    return lambda rng, shape: rng.normal(0.0, share, shape) * np.where(rng.random(shape) < 0.2, 4.0, 1.0)


def following(share: float) -> Rounds:
    """Normal rounds, each of which keeps half of the one before: a mood outlasts a round."""

    def drawn(rng: np.random.Generator, shape: tuple[int, ...]) -> Array:
        values = rng.normal(0.0, share, shape)
        for number in range(1, shape[-1]):
            values[..., number] = 0.5 * values[..., number - 1] + math.sqrt(0.75) * values[..., number]
        return values

    return drawn


KINDS: Mapping[str, Rounds] = {
    "agree, 1 %": spread(0.01),
    "spread by 5 %": spread(0.05),
    "spread by 10 %": spread(0.10),
    "5 %, one in five wild": wild(0.05),
    "10 %, each like the one before": following(0.10),
}


def errors(rounds: Array) -> Array:
    """As `runner.execution.blocks.standard_error`, of the last axis."""
    many = rounds.shape[-1]
    rank = max(1, round((many + 1) / 2 - 1.96 * math.sqrt(many / 4)))
    ordered = np.sort(rounds, axis=-1)
    return (ordered[..., many - rank] - ordered[..., rank - 1]) / (2 * 1.96)


def fixed(rounds: Array) -> tuple[Array, Array]:
    """What pairs of ten rounds say, and their rounds."""
    return np.median(rounds[..., :LEAST], axis=-1), np.full(rounds.shape[:-1], float(LEAST))


def needed(rounds: Array) -> tuple[Array, Array]:
    """What pairs of as many rounds as they need say, and these."""
    said = np.median(rounds, axis=-1)
    taken = np.full(rounds.shape[:-1], float(MOST))
    for many in range(MOST - 1, LEAST - 1, -1):
        enough = errors(rounds[..., :many]) <= LIMIT
        said = np.where(enough, np.median(rounds[..., :many], axis=-1), said)
        taken = np.where(enough, many, taken)
    return said, taken


def main() -> None:
    """Check the rule against the one that is used, then print the table."""
    rng = np.random.default_rng(8)
    some = rng.normal(size=(50, 17))
    assert np.allclose(errors(some), [standard_error(list(each)) for each in some])
    plan = Plan()
    heads = [f"{effect:.0%} seen" for effect in EFFECTS[1:]]
    print("| rounds | of a pair | false % | " + " | ".join(heads) + " | rounds at 2 % | s at 2 % |")
    print("|---|---|---|" + "---|" * (len(heads) + 2))
    for kind, drawn in KINDS.items():
        for name, rule in (("ten", fixed), ("as many as needed", needed)):
            rng = np.random.default_rng(8)
            cells: list[str] = []
            cost = ""
            for effect in EFFECTS:
                constants = rng.normal(math.log1p(effect), CONSTANT, (TRIALS, plan.largest, 1))
                said, taken = rule(constants + drawn(rng, (TRIALS, plan.largest, MOST)))
                word, measured, _ = words(said, plan)
                share = 100 * (word == 1).mean()
                cells.append(f"{share:.0f}" if effect else f"{share + 100 * (word == -1).mean():.2f}")
                if effect == EFFECTS[2]:
                    seconds = measured * (START + ROUND * taken.mean(axis=1))
                    cost = f"{taken.mean():.0f} | {seconds.mean():.0f}"
            print(f"| {kind} | {name} | " + " | ".join(cells) + f" | {cost} |", flush=True)


if __name__ == "__main__":
    main()
