"""What a run spent beyond what its parts must cost.

    python benchmarks/suite_cost.py [path of a journal.jsonl; default: the newest run]

Must: importing torch, building, the first call, warm-up and the timed iterations themselves. The rest is
ours: starting and ending processes, collecting garbage before blocks, checking answers, storing.
"""

import argparse
from collections import Counter
from datetime import datetime
from pathlib import Path

from configuration.settings import load_settings
from runner import journal

MUST = ("import", "build", "first_call", "warm_up")
GOAL = 1.2


def main() -> None:
    """Print the seconds of each part and the ratio."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("journal", type=Path, nargs="?", help="a journal.jsonl (default: the newest run's)")
    path = parser.parse_args().journal or _newest()
    if path is None:
        print("no run yet: pyrometer run --suite smoke")
        return
    contents = journal.read(path)
    if contents.ended is None:
        print(f"{path}: the run has not ended")
        return
    parts: Counter[str] = Counter()
    for outcome in contents.outcomes:
        parts.update(outcome.phases)
        parts["timed iterations"] += sum(ns for block in outcome.blocks for ns in block) / 1e9
    began = datetime.fromisoformat(contents.header["started_at"])
    wall = (datetime.fromisoformat(contents.ended["at"]) - began).total_seconds()
    must = sum(parts[name] for name in MUST) + parts["timed iterations"]
    print(
        f"run {contents.header['run']}, suite {contents.header['suite']}, {len(contents.outcomes)} outcomes"
    )
    for name, seconds in parts.most_common():
        print(
            f"  {name:18s} {seconds:7.1f} s{'  must' if name in MUST or name == 'timed iterations' else ''}"
        )
    print(f"wall {wall:.1f} s / must {must:.1f} s = {wall / must:.2f} (goal {GOAL})")


def _newest() -> Path | None:
    runs = load_settings().data_dir / "runs"
    return max(runs.glob(f"*/{journal.FILE}"), default=None)


if __name__ == "__main__":
    main()
