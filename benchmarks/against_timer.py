"""Our latency beside PyTorch's own Timer.blocked_autorange, on the same closure in the same run.

    python benchmarks/against_timer.py [processes]

Each process builds the case once and lets the two take turns; a process is one sample. A ratio of 1 says
that our blocks see what the Timer sees; the interval is Student's, over processes, on the logarithm.
"""

import argparse
import json
import math
import os
import subprocess
from pathlib import Path
from statistics import median

from analysis.replicates import summarise
from configuration.settings import load_settings
from runner import preset

CASES = (
    "mlp_overhead/infer/batch=64/eager",
    "resnet50/infer/batch=1,image=64/eager",
    "bert_base/infer/batch=1,layers=2,tokens=128/eager",
)
ROOT = Path(__file__).resolve().parent.parent
PEER = ROOT / "benchmarks" / "measured" / "timer_peer.py"


def main() -> None:
    """Print one line per case: ratio of medians, its 95 % interval over processes, and both latencies."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("processes", type=int, nargs="?", default=5, help="of each case (default: 5)")
    processes: int = parser.parse_args().processes
    settings = load_settings(cwd=ROOT)
    python = settings.environments["default"].python
    quiet = preset.make("quiet", "quiet", variables=settings.presets["quiet"].environment)
    print(f"ours / Timer.blocked_autorange, preset quiet, {processes} processes a case")
    for case in CASES:
        rows = [_one(str(python), case, quiet) for _ in range(processes)]
        ratios = [math.exp(median(math.log(a / b) for a, b in pairs)) for pairs in rows]
        summary = summarise(ratios)
        ours = median(a for pairs in rows for a, _ in pairs) / 1e6
        theirs = median(b for pairs in rows for _, b in pairs) / 1e6
        print(
            f"{case:52s} ratio {summary.point:.4f}  95 % [{summary.low:.4f}, {summary.high:.4f}]  "
            f"spread {100 * (summary.spread or 0):.2f} %  n={summary.n}  "
            f"ours {ours:.4g} ms, Timer {theirs:.4g} ms"
        )


def _one(python: str, case: str, quiet: preset.MachinePreset) -> list[tuple[float, float]]:
    variables = {**os.environ, **quiet.variables, "PYTHONPATH": str(ROOT)}
    done = subprocess.run(
        [python, str(PEER), case],
        env=variables,
        capture_output=True,
        text=True,
        check=True,
        preexec_fn=lambda: os.sched_setaffinity(0, quiet.cpus) if quiet.cpus else None,
    )
    return [(float(a), float(b)) for a, b in json.loads(done.stdout.splitlines()[-1])]


if __name__ == "__main__":
    main()
