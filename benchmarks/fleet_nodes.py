"""A night over three real nodes of two kinds: each case once, what the engine costs, what may die.

    python benchmarks/fleet_nodes.py [--only night|cost|deaths ...] [--cases 60] [--pairs 5]

Everything is real: a head and three nodes, each `pyrometer fleet head` or `join` with Ray between them, and
schedulers as users start them; only the network is this machine's own, and each node has a name of its own by
a namespace. `night`: so many cases for two kinds of machine in two environments, two nodes being of one kind.
`cost`: the same twelve cases by turns on a node and on the head itself, no engine between: what a case takes
longer; and the load of an idle node. `deaths`: what is killed or frozen in the middle
of a case, when that is noticed, and whether each case is there once in the end.
"""

import argparse
import os
import subprocess
import sys
import tempfile
import time
from collections import Counter
from pathlib import Path
from statistics import median

import psutil

sys.path.append(str(Path(__file__).resolve().parent.parent / "tests"))
from nodes.deaths import deaths, describe_death
from nodes.head import until
from nodes.night import FEW, KINDS, Night, a_night

from records.tasks import machine_of
from support.site import measured_python

PARTS = ("night", "cost", "deaths")
#: The goal of the engine's cost, in milliseconds a case.
GOAL_MS = 50.0
#: For so long an idle node is looked at.
IDLE_SECONDS = 60.0


def main() -> None:
    """Do what was asked for, one after the other."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--only", choices=PARTS, nargs="+", default=list(PARTS))
    parser.add_argument("--cases", type=int, default=60)
    parser.add_argument("--pairs", type=int, default=5)
    options = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="pyrometer-") as name:
        folder = Path(name)
        with a_night(folder / "fleet", options.cases, _second(folder)) as made:
            print(f"head and {len(KINDS)} nodes stand; {os.cpu_count()} CPUs", flush=True)
            if "night" in options.only:
                whole_night(made)
            if "cost" in options.only:
                cost(made, options.pairs)
            if "deaths" in options.only:
                for death in deaths(made):
                    print(describe_death(death), flush=True)


def whole_night(night: Night) -> None:
    """Every case in both environments on both kinds: how often, and where."""
    began = time.monotonic()
    triggered = night.trigger("night")
    with night.scheduler("--no-measuring"):
        until(lambda: all(night.now(task).state == "done" for task in triggered), "the night is over", 3600)
    seconds = time.monotonic() - began
    seen: Counter[tuple[str, str, str]] = Counter()
    wrong: list[str] = []
    for task in triggered:
        places = [machine_of(each.owner) for each in night.tried(task)]
        wrong += [
            f"task {task.id} for {task.label} on {each}" for each in places if KINDS[each] != task.label
        ]
        measured = night.measured(task)
        seen.update((str(task.label), outcome.environment, outcome.case) for outcome in measured)
        statuses = Counter(outcome.status for outcome in measured)
        print(f"  {task.part:24s} on {', '.join(places):8s} {dict(statuses)}")
    print(
        f"night: {len(seen)} of {len(triggered) * night.cases} (kind, environment, case), "
        f"{sum(seen.values())} outcomes, each {'once' if set(seen.values()) == {1} else 'NOT ONCE'}; "
        f"on a wrong kind: {wrong or 'none'}; {seconds:.0f} s"
    )


def cost(night: Night, pairs: int) -> None:
    """The same cases on a node and on the head itself, in turns; and an idle node."""
    idle = night.fleet.members["node-3"].process.pid
    before = _cpu(idle)
    time.sleep(IDLE_SECONDS)
    share = (_cpu(idle) - before) / IDLE_SECONDS
    print(f"an idle node: {_resident(idle):.0f} MiB, {share:.2%} of a core")
    differences: list[float] = []
    with night.scheduler():
        # Not counted: what is cold at first.
        _seconds(night, "here"), _seconds(night, "there")
        for pair in range(pairs):
            order = ("here", "there") if pair % 2 == 0 else ("there", "here")
            taken = {schedule: _seconds(night, schedule) for schedule in order}
            cases = min(FEW, night.cases)
            differences.append((taken["there"] - taken["here"]) / cases * 1e3)
            print(f"  here {taken['here']:.2f} s, there {taken['there']:.2f} s, {cases} cases", flush=True)
    print(
        f"cost: a case takes {median(differences):+.0f} ms longer on a node, "
        f"{min(differences):+.0f} to {max(differences):+.0f} in {pairs} pairs (goal {GOAL_MS:g} ms)"
    )


def _seconds(night: Night, schedule: str) -> float:
    """From the beginning to the end of the attempt, by the head's clock."""
    (task,) = night.trigger(schedule)
    until(lambda: night.now(task).state == "done", f"{schedule} is done")
    (tried,) = night.tried(task)
    assert tried.ended_at is not None
    return (tried.ended_at - tried.started_at).total_seconds()


def _cpu(pid: int) -> float:
    return sum(sum(each.cpu_times()[:2]) for each in _tree(pid))


def _resident(pid: int) -> float:
    return sum(each.memory_full_info().pss for each in _tree(pid)) / 2**20


def _tree(pid: int) -> list[psutil.Process]:
    process = psutil.Process(pid)
    return [process, *process.children(recursive=True)]


def _second(folder: Path) -> Path:
    """An environment that has a package more than the first, and else the same ones."""
    first = measured_python()
    environment = folder / "second"
    subprocess.run([first, "-m", "venv", "--without-pip", environment], check=True)
    code = "import sysconfig; print(sysconfig.get_paths()['purelib'])"
    theirs, own = (
        Path(subprocess.run([python, "-c", code], check=True, capture_output=True, text=True).stdout.strip())
        for python in (first, environment / "bin" / "python")
    )
    (own / "first.pth").write_text(f"{theirs}\n")
    more = own / "one_package_more-1.0.dist-info"
    more.mkdir()
    (more / "METADATA").write_text("Metadata-Version: 2.1\nName: one-package-more\nVersion: 1.0\n")
    return environment / "bin" / "python"


if __name__ == "__main__":
    main()
