"""Accept Pyrometer on a machine with an NVIDIA GPU: some thirty lines with bounds, and a bundle to keep.

    python benchmarks/gpu/acceptance.py OUT [--wheels FOLDER] [--seconds 570] [--only LINE,...]
    python benchmarks/gpu/acceptance.py --list

Needs PyTorch and no network. Nothing of the card is set: no clock, no limit, no mode. `--list` explains the
lines. Exit code: 0 no line failed, 1 a line failed, 2 wrong usage.
"""

import argparse
import os
import shutil
import signal
import sys
import tempfile
import time
import uuid
from pathlib import Path

import layout
from lines import BY_NAME, LINES
from processes import USUAL_SECONDS, Budget, Processes
from report import Report

#: For the bundle, out of the whole.
_RESERVE_SECONDS = 25.0


def main() -> None:
    """Measure, and end with the exit code of the acceptance."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("out", type=Path, nargs="?", help="folder of the bundle")
    parser.add_argument("--list", action="store_true", help="print the lines and their bounds")
    parser.add_argument("--wheels", type=Path, help="folder with the packages that this interpreter lacks")
    parser.add_argument("--python", default="", help="interpreter to measure [default: this one]")
    seconds = f"for everything; with more, each step has more, too [default: {USUAL_SECONDS:g}]"
    parser.add_argument("--seconds", type=float, default=USUAL_SECONDS, help=seconds)
    parser.add_argument("--only", default="", help="names of lines, with commas [default: all]")
    options = parser.parse_args()
    if options.list:
        _list_lines()
        return
    if options.out is None:
        parser.error("name a folder for the bundle")
    only = frozenset(filter(None, options.only.split(",")))
    if unknown := only - BY_NAME.keys():
        parser.error(f"no line is named {', '.join(sorted(unknown))}: one of {', '.join(BY_NAME)}")
    if options.wheels is not None:
        layout.start_again(options.wheels)
    options.out.mkdir(parents=True, exist_ok=True)
    # Its processes have another working folder. A link stays one: a virtual environment is known by it.
    python = os.path.abspath(options.python or sys.executable)
    sys.exit(_accept(options.out.absolute(), python, options.seconds, only))


def _list_lines() -> None:
    """Print each line: what it needs, what it means, its bounds."""
    for number, line in enumerate(LINES, start=1):
        print(f"{number:02d} {line.name:<18} {line.needs:<5} {line.meaning}\n{'':27}{line.bound}")


def _accept(out: Path, python: str, seconds: float, only: frozenset[str]) -> int:
    # What needs more than the standard library comes after the environment is there.
    from steps import FOLDER, Acceptance, variables

    mark = uuid.uuid4().hex
    report, budget = Report(out), Budget(seconds, _RESERVE_SECONDS, time.monotonic())
    with tempfile.TemporaryDirectory(prefix="acceptance-") as scratch, (out / "log.txt").open("w") as log:
        work = Path(scratch)
        shutil.copy(FOLDER / "accept.toml", work / "pyrometer.toml")
        processes = Processes(variables(work, python, mark), work, log)
        signal.signal(signal.SIGTERM, lambda *_: sys.exit(1))
        try:
            acceptance = Acceptance(report, processes, budget, python, work, out, mark)
            acceptance.run(only)
            acceptance.bundle()
        finally:
            processes.end_all()
            layout.remove()
    report.describe(complete=True)
    return _conclude(report)


def _conclude(report: Report) -> int:
    """The last sentence, and the exit code."""
    passed, failed, skipped = (report.count(verdict) for verdict in ("pass", "fail", "skip"))
    device = report.about.get("device", {})
    where = device.get("name") or "no CUDA device"
    print(f"{where}: {passed} of {len(LINES)} lines passed, {failed} failed, {skipped} skipped", flush=True)
    return 1 if failed else 0


if __name__ == "__main__":
    main()
