"""A night over a real Slurm cluster: the same suite on each node, and a node that is set down in the middle.

    python benchmarks/fleet_slurm.py [--cases 12]

A controller and two nodes, which are this machine; `pyrometer scheduler` as users start it, one job for each
task, real measuring. First each node measures the suite, as asked for by its label; then a task that both
could do is begun, an operator sets its node down in mid-run, and the other one has to take it over.
"""

import argparse
import os
import sys
import tempfile
from collections import Counter
from collections.abc import Generator
from contextlib import closing, contextmanager
from pathlib import Path

sys.path.append(str(Path(__file__).resolve().parent.parent / "tests"))
from nodes.head import Head, cases_file, schedule, suite, until

from db.connection.engine import open_database
from records.tasks import Task, machine_of
from support.servers.slurm_cluster import SlurmCluster, missing_programs
from support.site import LOCK_FOLDER, measured_python

#: By node, a label that no other has; both have the last one.
LABELS, BOTH = {"alpha": "a10", "beta": "h200"}, "rack7"


def main() -> None:
    """Both nodes, then one that fails."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--cases", type=int, default=12)
    options = parser.parse_args()
    if missing := missing_programs():
        raise SystemExit(f"there is no Slurm here: as root, apt-get install {' '.join(missing)}")
    # A socket's path must be short, and nodes read what lies in the head's folder.
    with (
        tempfile.TemporaryDirectory(prefix="pyrometer-") as slurm,
        tempfile.TemporaryDirectory(prefix="pyrometer-") as name,
        closing(SlurmCluster(Path(slurm))) as cluster,
    ):
        cluster.start()
        with _head(Path(name), cluster, options.cases) as head, head.scheduler("--no-measuring"):
            _both(head)
            _one_goes_down(head, cluster)


@contextmanager
def _head(home: Path, cluster: SlurmCluster, cases: int) -> Generator[Head]:
    kept = {name: text for name, text in os.environ.items() if not name.startswith(("PYROMETER_", "OMP_"))}
    # Both nodes are this machine, whose lock lies there; its noise is not what is looked at.
    own = {"PYROMETER_CONTENTION_LIMIT": "1", "TMPDIR": str(home), LOCK_FOLDER: str(home)}
    passed = f'environment = ["TMPDIR", "{LOCK_FOLDER}"]'
    text = f'[fleet]\nengine = "slurm"\n[slurm]\n{passed}\n{suite("all", cases, 0.05)}'
    text += f'[environments.first]\npython = "{measured_python()}"\n'
    text += schedule("each", "all", cases, ("first",), tuple(LABELS.values()))
    text += schedule("either", "all", cases, ("first",), (BOTH,))
    (home / "pyrometer.toml").write_text(text)
    (home / "cases.py").write_text(cases_file(cases))
    with open_database(f"sqlite:///{home}/pyrometer.db") as database:
        yield Head(home, {**kept, **own, **cluster.variables}, database, cases)


def _both(head: Head) -> None:
    triggered = head.trigger("each")
    until(lambda: all(head.now(task).state == "done" for task in triggered), "both have measured", 3600)
    for task in triggered:
        print(f"asked for {task.label}: {_output_of(head, task)}", flush=True)


def _one_goes_down(head: Head, cluster: SlurmCluster) -> None:
    (task,) = head.trigger("either")
    until(lambda: head.mirrored(task) >= 3, "three cases are measured")
    node = machine_of(head.tried(task)[0].owner)
    began = until(lambda: True, "now")
    cluster.set_node(node, "down")
    lost = until(lambda: head.tried(task)[0].ended, "the attempt is lost") - began
    again = until(lambda: len(head.tried(task)) > 1, "another begins") - began
    done = until(lambda: head.now(task).state == "done", "all is measured", 3600) - began
    print(f"{node} set down: lost after {lost:.1f} s, begun again after {again:.1f}, done after {done:.0f}:")
    print(f"  {_output_of(head, task)}")
    print(f"  {head.tried(task)[0].detail}")


def _output_of(head: Head, task: Task) -> str:
    measured = head.measured(task)
    often = Counter(outcome.case for outcome in measured)
    statuses = dict(Counter(outcome.status for outcome in measured))
    ways = "; ".join(f"{each.ended} on {machine_of(each.owner)}" for each in head.tried(task))
    once = "each once" if set(often.values()) == {1} and len(often) == head.cases else "NOT EACH ONCE"
    return f"{ways}; {len(often)} of {head.cases} cases, {once}: {statuses}"


if __name__ == "__main__":
    main()
