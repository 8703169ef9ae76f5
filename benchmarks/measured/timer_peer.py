"""Runs under the measured interpreter: our blocks and torch.utils.benchmark.Timer on one closure, in turn.

Prints one JSON object: nanoseconds per iteration of each, round by round.
"""

import json
import sys
from statistics import median

import torch
from torch.utils.benchmark import Timer

from runner.worker.case_key import CaseKey
from runner.worker.main import load_cases
from runner.worker.measurements import timing
from runner.worker.techniques.apply import build

ROUNDS = 6
SECONDS = 0.3


def main() -> None:
    """Warm up once, then alternate; who comes first alternates too."""
    load_cases([])
    stage = build(CaseKey.parse(sys.argv[1]), "cpu", 0)
    warm = timing.warm_up(stage.step, "cpu", 0.5, 10.0)
    timing.settle()
    iterations = max(5, round(SECONDS * 1e9 / warm.step_ns))
    # Timer sets one thread by default; ours takes what the preset gives. Compare like with like.
    timer = Timer("step()", globals={"step": stage.step}, num_threads=torch.get_num_threads())

    def ours() -> float:
        return median(timing.block(stage.step, "cpu", iterations).samples_ns)

    def theirs() -> float:
        return timer.blocked_autorange(min_run_time=SECONDS).median * 1e9

    pairs: list[tuple[float, float]] = []
    for number in range(ROUNDS):
        if number % 2:
            peer = theirs()
            pairs.append((ours(), peer))
        else:
            pairs.append((ours(), theirs()))
    print(json.dumps(pairs))


if __name__ == "__main__":
    main()
