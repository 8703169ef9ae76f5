"""Carry out the attacks of `tests/test_withstood.py` again, and print what was tried of each as a table.

    python benchmarks/withstood.py                    all of them: some twenty minutes on two cores
    python benchmarks/withstood.py 'mutated files'    only those whose name holds the text

The exit code is 1 where a test fails. What a test counts it records as a property of itself.
"""

import argparse
import re
import subprocess
import sys
import tempfile
from collections import Counter, defaultdict
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from xml.etree import ElementTree

ROOT = Path(__file__).resolve().parent.parent
TESTS = ROOT / "tests"
sys.path.insert(0, str(TESTS))

from test_withstood import WITHSTOOD  # noqa: E402

#: A property whose name begins so is the largest of all tests, not their sum.
PEAK = "peak"


@dataclass(slots=True)
class Carried:
    """The tests of one attack: how many ended how, what they counted, how long they took."""

    ended: Counter[str] = field(default_factory=Counter[str])
    counted: dict[str, float] = field(default_factory=lambda: defaultdict[str, float](float))
    seconds: float = 0.0


def main() -> int:
    """Run the tests attack by attack, print the table as it grows, and answer the exit code."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("attack", nargs="*", help="a part of an attack's name; all without any")
    parts = parser.parse_args().attack
    print("| attack | tests | failed | skipped | counted | seconds |\n|---|---|---|---|---|---|")
    failed = 0
    for attack, places in WITHSTOOD.items():
        if not parts or any(part in attack for part in parts):
            carried = carry_out(places)
            failed += carried.ended["failed"]
            print(row(attack, carried), flush=True)
    return 1 if failed else 0


def carry_out(places: Sequence[str]) -> Carried:
    """Run the tests at these places, one after the other."""
    nodes = [node for place in places for node in nodes_of(place)]
    with tempfile.TemporaryDirectory() as folder:
        report = Path(folder) / "report.xml"
        command = [sys.executable, "-m", "pytest", "-q", "-n", "0", "-m", "slow or not slow"]
        # The usual form of the report has no properties of a test.
        command += ["-o", "junit_family=xunit1", f"--junitxml={report}"]
        done = subprocess.run([*command, *nodes], cwd=ROOT, stdout=subprocess.PIPE, text=True)
        if not report.exists():
            raise SystemExit(f"pytest did not run {' '.join(nodes)}:\n{done.stdout}")
        found = read(ElementTree.parse(report).getroot())
    if found.ended["failed"]:
        print(done.stdout, file=sys.stderr)
    return found


def nodes_of(place: str) -> list[str]:
    """The tests that a place of the table names: a file, or the functions whose names begin so."""
    file, _, begins = place.partition("::")
    if not begins:
        return [str(TESTS / file)]
    names = re.findall(rf"^def ({re.escape(begins)}\w*)\(", (TESTS / file).read_text(), re.MULTILINE)
    return [f"{TESTS / file}::{name}" for name in names]


def read(report: ElementTree.Element) -> Carried:
    """What a report of pytest in the form of JUnit says."""
    found = Carried()
    for case in report.iter("testcase"):
        found.seconds += float(case.get("time", 0.0))
        ends = {child.tag for child in case}
        failed = ends & {"failure", "error"}
        found.ended["failed" if failed else "skipped" if "skipped" in ends else "passed"] += 1
        for each in case.iter("property"):
            name, value = each.get("name", ""), float(each.get("value", 0.0))
            known = found.counted[name]
            found.counted[name] = max(known, value) if name.startswith(PEAK) else known + value
    return found


def row(attack: str, carried: Carried) -> str:
    """A line of the table."""
    counted = ", ".join(f"{value:,.0f} {name}" for name, value in carried.counted.items())
    ended = carried.ended
    cells = (attack, ended.total(), ended["failed"], ended["skipped"], counted, f"{carried.seconds:,.0f}")
    return f"| {' | '.join(map(str, cells))} |"


if __name__ == "__main__":
    sys.exit(main())
