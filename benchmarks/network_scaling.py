"""Training over two machines: what the second one brings, by what the network between them carries.

    python benchmarks/network_scaling.py [--case WORKLOAD] [--replicates 3] [--rates "" 1gbit]
                                         [--hooks fp16]

Two network namespaces with a cable between them stand for two machines, each with a name, a clock and one CPU
of its own; `pyrometer lend` waits on the second, `pyrometer run` measures from the first, and DDP speaks gloo
over the cable, of which tc lets pass no more than a rate. Weak scaling: each rank has a batch of its own, so
two machines do twice the work of one in the same time where the network costs nothing. Needs root, and two
CPUs that are idle.
"""

import argparse
import os
import signal
import sys
import tempfile
from collections import defaultdict
from contextlib import closing
from pathlib import Path
from statistics import median
from typing import Any

sys.path.append(str(Path(__file__).resolve().parent.parent / "tests"))
from two_machines import Machines

_SETTINGS = """
[suites.smoke]
measure_seconds = 2
warm_up_max_seconds = 6
observe_seconds = 0
deadline_seconds = 600
budget_seconds = 7200

[profiles.one]
base = "quiet"
cpus = "{cpu}"
"""
#: What a rank tells of itself, in milliseconds.
_STEP, _EXPOSED = "latency", "exposed_communication"

Outcome = dict[str, Any]


def main() -> None:
    """A row for each rate and hook, and one for a single rank."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--case", default="bert_base/train/batch=4,layers=2,tokens=128")
    parser.add_argument("--replicates", type=int, default=3)
    parser.add_argument("--rates", nargs="+", default=["", "1gbit"], help='"": as fast as it can')
    parser.add_argument("--hooks", nargs="*", default=["fp16"], help="beside gradients as they are")
    options = parser.parse_args()
    settings = (_SETTINGS.format(cpu=0), _SETTINGS.format(cpu=1))
    with (
        tempfile.TemporaryDirectory(prefix="pyrometer-") as name,
        closing(Machines(Path(name), None, settings, "one")) as machines,
    ):
        _table(machines, options)


def _table(machines: Machines, options: argparse.Namespace) -> None:
    alone = f"{options.case}/parallel=ddp"
    hooks = ["none", *options.hooks]
    both = {hook: f"{options.case}/{_technique(hook)}" for hook in hooks}
    print(f"{options.case}, {options.replicates} replicates, medians [least, most]")
    heads = ("ranks", 6), ("hook", 7), ("step ms", 26), ("items/s", 9), ("efficiency", 12), ("exposed ms", 12)
    print("network     " + "".join(f"{head:>{width}s}" for head, width in heads))
    for rate in options.rates:
        machines.slow(rate)
        found = _measured(machines, [alone, *both.values()], options.replicates)
        one = found[alone]
        _row("-", 1, "none", one, one)
        for hook, case in both.items():
            _row(rate or "unlimited", 2, hook, found[case], one)


def _technique(hook: str) -> str:
    parts = ([f"hook={hook}"] if hook != "none" else []) + ["nodes=2", "parallel=ddp", "ranks=2"]
    return ",".join(parts)


def _measured(machines: Machines, cases: list[str], replicates: int) -> dict[str, list[Outcome]]:
    """The outcomes of one run, by case."""
    lender, pid = machines.lend()
    done = machines.run(*cases, replicates=replicates).end()
    os.kill(pid, signal.SIGTERM)
    lender.end()
    found: dict[str, list[Outcome]] = defaultdict(list)
    for event in done.events:
        if event["event"] == "outcome":
            found[event["case"]].append(event)
    for case in cases:
        wrong = [f"{one['status']}: {one['reason']}" for one in found[case] if one["status"] != "ok"]
        if wrong or not found[case]:
            raise SystemExit(f"{case}: {wrong or done.err}")
    return found


def _row(network: str, ranks: int, hook: str, outcomes: list[Outcome], one: list[Outcome]) -> None:
    steps = [float(each["metrics"][_STEP]) for each in outcomes]
    alone = [float(each["metrics"][_STEP]) for each in one]
    rate = median(float(each["metrics"]["throughput"]) for each in outcomes)
    exposed = [each["metrics"].get(_EXPOSED) for each in outcomes]
    shown = f"{median(each for each in exposed if each is not None):.1f}" if None not in exposed else "-"
    spread = f"{median(steps):.1f} [{min(steps):.1f}, {max(steps):.1f}]"
    efficiency = f"{median(alone) / median(steps):.1%}" if ranks > 1 else "-"
    print(
        f"{network:12s}{ranks:6d}{hook:>7s}{spread:>26s}{rate:9.1f}{efficiency:>12s}{shown:>12s}", flush=True
    )


if __name__ == "__main__":
    main()
