"""What being watched costs: the same steps with the sampler resting and sampling at 5 Hz, taking turns.

    python benchmarks/sampler_cost.py [processes] [seconds of each process]

Each process holds one case, and its blocks alternate: resting, sampling, sampling, resting... A process is
one sample. The ratio is that of the blocks' medians, sampling / resting: 1 says that nothing is seen of the
sampler. The interval is Student's, over processes, on the logarithm. Blocks between two readings of the
counters, as every block of a run is, are compared with blocks without in the same way. The budget is 0.5 %.
"""

import argparse
import math
import tempfile
from pathlib import Path
from statistics import median
from typing import TypeVar

from analysis.replicates import summarise
from configuration.settings import load_settings
from runner import preset
from runner.execution import harness
from runner.execution.process import Launch, WorkerProcess
from runner.telemetry.sampler_client import Sampler
from runner.worker.messages import Block, Finish, Finished, Hello, Measure, Message, Phase, Prepare, Ready

CASES = (
    "mlp_overhead/infer/batch=64/eager",
    "resnet50/infer/batch=1,image=64/eager",
    "bert_base/infer/batch=1,layers=2,tokens=128/eager",
)
ROOT = Path(__file__).resolve().parent.parent
HZ = 5.0
#: Long enough that sampling at 5 Hz falls into each block twice, short enough to take turns faster than the
#: machine drifts.
BLOCK_SECONDS = 0.4
BUDGET = 0.005

M = TypeVar("M", bound=Message)


def main() -> None:
    """Print one line per case and kind of watching."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("processes", type=int, nargs="?", default=5, help="of each case (default: 5)")
    parser.add_argument("seconds", type=float, nargs="?", default=16.0, help="of each process (default: 16)")
    options = parser.parse_args()
    processes: int = options.processes
    seconds: float = options.seconds
    print(f"sampling / resting, preset quiet, {processes} processes a case, budget {BUDGET:.1%}")
    for case in CASES:
        rows = [_one(case, max(1, round(seconds / BLOCK_SECONDS / 8))) for _ in range(processes)]
        for number, what in enumerate((f"at {HZ:g} Hz", "readings around")):
            found = summarise([row[number] for row in rows])
            low, high = found.low or math.nan, found.high or math.nan
            verdict = "within the budget" if high - 1 <= BUDGET else "not shown to be within"
            print(
                f"{case:52s} {what:16s} ratio {found.point:.4f}  95 % [{low:.4f}, {high:.4f}]  "
                f"n={found.n}  {verdict}"
            )


def _one(case: str, rounds: int) -> tuple[float, float]:
    """The two ratios of one process: sampling / resting, and readings around / none."""
    settings = load_settings(cwd=ROOT)
    quiet = preset.make("quiet", "quiet", variables=settings.presets["quiet"].environment)
    with tempfile.TemporaryDirectory() as text:
        folder = Path(text)
        launch = Launch(
            python=str(settings.environments["default"].python),
            harness=harness.build(folder / "harness"),
            variables=quiet.variables,
            cpus=quiet.cpus,
            own_cpus=quiet.housekeeping,
            log=folder / "log",
            deadline_seconds=600,
            token="sampler-cost",
        )
        sampler = Sampler(folder, (), quiet.cpus, quiet.housekeeping, "sampler-cost")
        try:
            with WorkerProcess(launch) as worker:
                return _compared(worker, sampler, case, rounds)
        finally:
            sampler.close()


def _compared(worker: WorkerProcess, sampler: Sampler, case: str, rounds: int) -> tuple[float, float]:
    _expect(worker, Hello)
    worker.send(Prepare(case=case))
    ready = _expect(worker, Ready)
    worker.stop_sampling()
    iterations = max(3, round(BLOCK_SECONDS * 1e9 / ready.step_ns))

    def block() -> float:
        worker.send(Measure(iterations))
        return median(_expect(worker, Block).samples_ns)

    def sampled() -> float:
        sampler.start(worker.root, HZ)
        try:
            return block()
        finally:
            sampler.stop()

    def read() -> float:
        sampler.read(worker.root)
        try:
            return block()
        finally:
            sampler.read(worker.root)

    sampler.read(worker.root)
    logs: tuple[list[float], list[float]] = ([], [])
    for _ in range(rounds):
        for row, watched in zip(logs, (sampled, read), strict=True):
            # A B B A: what drifts evenly hits both alike.
            first, one, other, last = block(), watched(), watched(), block()
            row.append(math.log((one + other) / (first + last)))
    worker.send(Finish())
    _expect(worker, Finished)
    return math.exp(median(logs[0])), math.exp(median(logs[1]))


def _expect(worker: WorkerProcess, kind: type[M]) -> M:
    while True:
        message = worker.receive(120)
        if isinstance(message, kind):
            return message
        if not isinstance(message, Phase):
            raise SystemExit(f"the worker answered {message}")


if __name__ == "__main__":
    main()
