"""Real regressions of PyTorch, measured between the real releases through `pyrometer upgrade`.

    python benchmarks/museum/run.py [--only R06 ...] [--pairs N] [--minutes M] [--list]

Each exhibit of `exhibits.toml` is a case of a report in `reports.toml` with two releases that can be had from
a package index. One that `needs` a CPU feature (a flag of /proc/cpuinfo) is left out without it. Releases are
built on demand (2 to 7 GB each; `pyrometer environments remove` deletes them). What each exhibit showed is
kept in `results/`, and an interrupted visit resumes; the table is over all that is there.
Exit code: 0 unless a negative control was called slower.
"""

import argparse
import json
import math
import subprocess
import sys
import tempfile
import tomllib
from dataclasses import dataclass
from pathlib import Path
from typing import Any

FOLDER = Path(__file__).resolve().parent
RESULTS = FOLDER / "results"


@dataclass(frozen=True)
class Exhibit:
    """One case between two releases; without `at_least` a negative control."""

    report: str
    old: str
    new: str
    case: str
    metric: str
    at_least: float | None = None
    needs: str = ""

    @property
    def is_possible(self) -> bool:
        """Whether this machine's CPU has what it needs."""
        return not self.needs or self.needs in Path("/proc/cpuinfo").read_text().split()

    @property
    def file(self) -> Path:
        """Where its report is kept."""
        name = self.case.replace("/", "_").replace("=", "-").replace(",", "_")
        return RESULTS / f"{self.report}_{self.old}_{self.new}_{name}.json"


def exhibits() -> list[Exhibit]:
    """All of them, in the order of the file."""
    return [Exhibit(**one) for one in tomllib.loads((FOLDER / "exhibits.toml").read_text())["exhibit"]]


def reports() -> dict[str, dict[str, Any]]:
    """The reported regressions by id."""
    return {one["id"]: one for one in tomllib.loads((FOLDER / "reports.toml").read_text())["report"]}


def measure(one: Exhibit, pairs: int, minutes: float) -> int:
    """Measure an exhibit and keep what is compared of its report; returns the exit code of the upgrade."""
    RESULTS.mkdir(exist_ok=True)
    with tempfile.TemporaryDirectory() as folder:
        report = Path(folder) / "report.json"
        code = _upgrade(one, report, pairs, minutes)
        if report.exists():
            result = reduced(json.loads(report.read_text()), one)
            one.file.write_text(json.dumps(result, indent=2) + "\n")
    return code


def reduced(body: dict[str, Any], one: Exhibit) -> dict[str, Any]:
    """Of an upgrade's report: the verdicts on the exhibit's case, what ran differently, and where it was."""
    verdicts = [case["verdict"] for case in body["cases"] if case["case"] == one.case]
    verdicts += [
        row["verdict"] for table in body["tables"] for row in table["cases"] if row["case"] == one.case
    ]
    return {
        "decision": body["decision"],
        "headline": body["headline"],
        "verdicts": [each for each in verdicts if each],
        "broken": body["broken"],
        "environments": {side: body["environments"][side]["torch"] for side in ("old", "new")},
        "hardware": body["run"]["hardware"],
        "started_at": body["run"]["started_at"],
    }


def _upgrade(one: Exhibit, report: Path, pairs: int, minutes: float) -> int:
    command = [
        str(Path(sys.executable).with_name("pyrometer")),
        *("upgrade", one.old, one.new, "--case", one.case, "--device", "cpu"),
        *("--pairs", str(pairs), "--budget", str(minutes * 60), "--report", str(report)),
        *(() if one.metric == "latency_floor" else ("--also", one.metric)),
        *(("--cold-pairs", str(pairs)) if one.metric == "compile_cold" else ()),
    ]
    return subprocess.run(command, cwd=FOLDER.parents[1], check=False).returncode


def verdict(one: Exhibit) -> dict[str, Any] | None:
    """The verdict on the exhibit's metric in its kept report; None where it was not measured."""
    if not one.file.exists():
        return None
    found: list[dict[str, Any]] = json.loads(one.file.read_text())["verdicts"]
    return next((each for each in found if each["metric"] == one.metric), None)


def is_broken(one: Exhibit) -> bool:
    """Whether its case works in the old release and not in the new one, by its kept report."""
    return one.file.exists() and one.case in json.loads(one.file.read_text())["broken"]


def judged(one: Exhibit, found: dict[str, Any] | None) -> str:
    """`caught`, `missed`, `undecided`, `held` (a negative control), `false`, or `not measured`.

    A case that broke is caught. Missed is what the interval rules out; where it does not, the pairs were too
    few or too far apart.
    """
    if is_broken(one):
        return "false" if one.at_least is None else "caught"
    if found is None or found["ratio"] is None:
        return "not measured"
    slower = found["word"] == "slower"
    if one.at_least is None:
        return "false" if slower else "held"
    if slower and found["ratio"] >= one.at_least:
        return "caught"
    return "missed" if (found["ratio_high"] or math.inf) < one.at_least else "undecided"


def change(ratio: float) -> str:
    """A ratio new / old as a change: `+4.1%`, `17 times`."""
    return f"{ratio - 1:+.1%}" if ratio < 2 else f"{ratio:.2g} times"


def print_table(chosen: list[Exhibit]) -> int:
    """Print what was found; returns how many negative controls were called slower."""
    all_reports, counts = reports(), dict[str, int]()
    print("| report | releases | case | metric | change | pairs | |")
    print("|---|---|---|---|---|---|---|")
    for one in chosen:
        found = verdict(one)
        word = judged(one, found)
        counts[word] = counts.get(word, 0) + 1
        moved = "broken" if is_broken(one) else "-"
        if found and found["ratio"] is not None:
            moved = change(found["ratio"])
            if found["ratio_low"] is not None:
                moved += f" [{change(found['ratio_low'])}, {change(found['ratio_high'])}]"
        pairs = found["n"] if found else 0
        which = f"{all_reports[one.report]['issue']} | {one.old} to {one.new} | `{one.case}`"
        print(f"| {which} | {one.metric} | {moved} | {pairs} | {word} |")
    print("\n" + ", ".join(f"{count} {word}" for word, count in sorted(counts.items())))
    return counts.get("false", 0)


def main() -> None:
    """Measure what was not measured yet, then print the table."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument(
        "--only", action="append", default=[], metavar="ID", help="these reports (repeatable)"
    )
    parser.add_argument("--pairs", type=int, default=8, help="largest number of pairs of each (default 8)")
    parser.add_argument("--minutes", type=float, default=6, help="time limit of each (default 6)")
    parser.add_argument("--list", action="store_true", help="print what is kept, measure nothing")
    options = parser.parse_args()
    chosen = [one for one in exhibits() if not options.only or one.report in options.only]
    if unknown := set(options.only) - {one.report for one in exhibits()}:
        parser.error(f"no exhibit is of {', '.join(sorted(unknown))}")
    for one in chosen:
        if options.list or one.file.exists():
            continue
        if not one.is_possible:
            print(f"{one.report}: this CPU has no {one.needs}", flush=True)
            continue
        print(f"{one.report}: {one.case}, {one.old} to {one.new}", flush=True)
        if (code := measure(one, options.pairs, options.minutes)) not in (0, 1, 3):
            print(f"{one.report}: pyrometer upgrade ended with {code}", flush=True)
    if print_table(chosen):
        sys.exit(1)


if __name__ == "__main__":
    main()
