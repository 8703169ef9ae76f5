"""Our verdicts beside the field's rules, on simulated processes of known truth.

    python benchmarks/field_simulation.py

Every rule judges the same kind of processes. The seed is fixed. Takes about a minute.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from scipy import special
from verdict_simulation import EFFECTS, Array, words

from analysis.comparison.plan import Plan

TRIALS = 1_000
#: One step takes this long, and so does starting a process until it is warm.
STEP, START = 0.010, 2.3
#: Ours: a pair measures so many blocks of each side in turn, each of so many steps.
BLOCKS, STEPS = 10, 10


@dataclass(frozen=True, slots=True)
class Machine:
    """How processes differ on it, as spreads of logarithms.

    `process` is each process's own constant, `wild` the share of processes off by 11 to 24 % for life,
    `drift` the machine's slow wave (a correlation of 20 s), `busy` the share of seconds in which every other
    step takes up to 20 % longer. Every step is late by an exponential of mean 1 % besides.
    """

    process: float
    wild: float
    drift: float
    busy: float

    def constants(self, rng: np.random.Generator, shape: tuple[int, ...]) -> Array:
        """Constants of fresh processes."""
        off = rng.uniform(0.11, 0.24, shape) * (rng.random(shape) < self.wild)
        return rng.normal(0.0, self.process, shape) + off

    def wave(self, rng: np.random.Generator, seconds: int) -> Array:
        """The drift in each second of each trial: an autoregressive process of the first order."""
        keep = np.exp(-1 / 20)
        level = rng.normal(0.0, self.drift, TRIALS)
        rows: list[Array] = []
        for _ in range(seconds):
            rows.append(level)
            level = keep * level + np.sqrt(1 - keep**2) * rng.normal(0.0, self.drift, TRIALS)
        return np.stack(rows, axis=1)

    def steps(self, rng: np.random.Generator, level: Array, busy: NDArray[np.bool_], many: int) -> Array:
        """Logarithms of so many steps at each `level`, in a new last axis; slower where it is `busy`."""
        shape = (*level.shape, many)
        late = rng.exponential(0.01, shape)
        hit = busy[..., None] & (rng.random(shape) < 0.5)
        return level[..., None] + late + hit * rng.uniform(0.0, 0.2, shape)

    def is_busy(self, rng: np.random.Generator, shape: tuple[int, ...]) -> NDArray[np.bool_]:
        """Which seconds are busy."""
        return rng.random(shape) < self.busy


MACHINES: Mapping[str, Machine] = {
    "quiet preset, idle": Machine(process=0.006, wild=0.0, drift=0.01, busy=0.1),
    "quiet preset, shared": Machine(process=0.006, wild=1 / 16, drift=0.05, busy=0.4),
    "as it comes, shared": Machine(process=0.058, wild=1 / 16, drift=0.05, busy=0.4),
}


def one_after_the_other(
    machine: Machine, rng: np.random.Generator, effect: float, seconds: int
) -> tuple[Array, Array]:
    """Steps of one process each, the second started when the first has ended."""
    sides: list[Array] = []
    pause = round(START)
    wave = machine.wave(rng, 2 * (seconds + pause))
    for side in range(2):
        begin = side * (seconds + pause) + pause
        level = wave[:, begin : begin + seconds] + machine.constants(rng, (TRIALS, 1)) + side * effect
        busy = machine.is_busy(rng, level.shape)
        sides.append(machine.steps(rng, level, busy, round(1 / STEP)).reshape(TRIALS, -1))
    return sides[0], sides[1]


def by_size(change: Array, limit: float) -> Array:
    """1 slower, -1 faster, 0 neither, by the size of the change alone."""
    return np.sign(change) * (np.abs(change) > np.log1p(limit))


def torchbench(machine: Machine, rng: np.random.Generator, effect: float) -> tuple[Array, float]:
    """One process each and 7 %."""
    old, new = one_after_the_other(machine, rng, effect, 1)
    return by_size(np.median(new, axis=1) - np.median(old, axis=1), 0.07), 2 * (START + 1)


def interleaved(machine: Machine, rng: np.random.Generator, effect: float) -> tuple[Array, float]:
    """Medians of 30 steps each, taken in turn in one life of the processes, and 5 %."""
    sides = machine.constants(rng, (2, TRIALS)) + np.array([[0.0], [effect]])
    busy = machine.is_busy(rng, (TRIALS,))
    old, new = (np.median(machine.steps(rng, side, busy, 30), axis=1) for side in sides)
    return by_size(new - old, 0.05), 2 * (START + 30 * STEP)


def welch(machine: Machine, rng: np.random.Generator, effect: float) -> tuple[Array, float]:
    """Welch's t-test on the steps of 10 s of one process each, at 5 %."""
    old, new = (np.exp(side) for side in one_after_the_other(machine, rng, effect, 10))
    n = old.shape[1]
    errors = [side.var(1, ddof=1) / n for side in (old, new)]
    t = (new.mean(1) - old.mean(1)) / np.sqrt(errors[0] + errors[1])
    degrees = (errors[0] + errors[1]) ** 2 / ((errors[0] ** 2 + errors[1] ** 2) / (n - 1))
    return np.sign(t) * (2 * special.stdtr(degrees, -np.abs(t)) < 0.05), 2 * (START + 10)


def mean_of_ten_seconds(machine: Machine, rng: np.random.Generator, effect: float) -> tuple[Array, float]:
    """Means of 10 s of one process each, and 5 %."""
    old, new = (np.exp(side).mean(1) for side in one_after_the_other(machine, rng, effect, 10))
    return by_size(np.log(new / old), 0.05), 2 * (START + 10)


def ours(machine: Machine, rng: np.random.Generator, effect: float) -> tuple[Array, float]:
    """Pairs of fresh processes in turn block by block, floors, and the verdict's rule."""
    plan = Plan()
    shape = (TRIALS, plan.largest, BLOCKS)
    busy = machine.is_busy(rng, shape)
    floors: list[Array] = []
    for side in range(2):
        level = np.broadcast_to(machine.constants(rng, shape[:2])[..., None] + side * effect, shape)
        steps = machine.steps(rng, level, busy, STEPS)
        floors.append(np.median(steps.min(axis=3), axis=2))
    word, measured, _ = words(floors[1] - floors[0], plan)
    seconds = measured.mean() * 2 * (START + BLOCKS * STEPS * STEP)
    return np.where(word == 2, 0, word).astype(float), float(seconds)


RULES: Mapping[str, Callable[[Machine, np.random.Generator, float], tuple[Array, float]]] = {
    "ours": ours,
    "one process each, 7 %": torchbench,
    "median of 30 in turn, 5 %": interleaved,
    "Welch's t on steps, p < 0.05": welch,
    "mean of 10 s, 5 %": mean_of_ten_seconds,
}


def main() -> None:
    """Print the table."""
    print("| machine | rule | false % | " + " | ".join(f"{e:.0%}" for e in EFFECTS[1:]) + " | s |")
    print("|---|---|---|" + "---|" * len(EFFECTS))
    for name, machine in MACHINES.items():
        for rule, judged in RULES.items():
            cells: list[str] = []
            spent: list[float] = []
            for effect in EFFECTS:
                verdicts, seconds = judged(machine, np.random.default_rng(8), float(np.log1p(effect)))
                spent.append(seconds)
                slower, faster = (100 * (verdicts == side).mean() for side in (1, -1))
                wrong = f" ({faster:.0f} faster)" if faster >= 0.5 else ""
                cells.append(f"{slower:.0f}{wrong}" if effect else f"{slower + faster:.1f}")
            print(f"| {name} | {rule} | " + " | ".join(cells) + f" | {np.mean(spent):.0f} |")


if __name__ == "__main__":
    main()
