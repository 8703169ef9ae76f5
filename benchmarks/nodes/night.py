"""Three real nodes of two kinds for one head, with two environments on each."""

from collections.abc import Generator
from contextlib import contextmanager
from pathlib import Path

from nodes.head import Head, cases_file, schedule, suite

from db.connection.engine import Database, open_database
from support.servers.ray_fleet import Fleet, a_fleet
from support.site import measured_python

#: By node, the kind that is its label.
KINDS = {"node-1": "a", "node-2": "a", "node-3": "b"}
#: Cases of the suite that is measured here and there, and of the one in which something dies.
FEW, SLOW = 12, 5


class Night(Head):
    """The head of three nodes that Ray carries."""

    def __init__(self, fleet: Fleet, database: Database, cases: int) -> None:
        super().__init__(fleet.home, fleet.environ(fleet.home), database, cases)
        self.fleet = fleet

    def begin(self, name: str) -> None:
        """A node; answers when it has joined."""
        folder = self.fleet.folder / name
        folder.mkdir(exist_ok=True)
        (folder / "cases.py").write_text(cases_file(self.cases))
        self.fleet.joined(self.fleet.begin(name, "--label", f"kind={KINDS[name]}"))


@contextmanager
def a_night(folder: Path, cases: int, second: Path) -> Generator[Night]:
    """The head and three nodes, joined."""
    own = (
        f'[environments.first]\npython = "{measured_python()}"\n[environments.second]\npython = "{second}"\n'
    )
    few, slow = min(FEW, cases), min(SLOW, cases)
    own += suite("all", cases, 0.05) + suite("few", few, 0.05) + suite("slow", slow, 4.0)
    schedules = (
        schedule("night", "all", cases, ("first", "second"), ("a", "b"))
        + schedule("here", "few", few, ("first",), ("head",))
        + schedule("there", "few", few, ("first",), ("b",))
        + schedule("slow", "slow", slow, ("first",), ("a",))
    )
    with a_fleet(folder, f'machine_labels = ["head"]\n{own}{schedules}', own) as fleet:
        (fleet.home / "cases.py").write_text(cases_file(cases))
        with open_database(f"sqlite:///{fleet.home}/pyrometer.db") as database:
            night = Night(fleet, database, cases)
            for name in KINDS:
                night.begin(name)
            yield night
