"""Dispatch fingerprints of all CPU cases, taken twice: how many differ, which should be none.

    python benchmarks/fingerprints.py [--suite NAME ...] [--python INTERPRETER]

Prints one line a case: whether both are the same, and the seconds of both. Cases of several processes are
left out. Two cases are recorded at a time.
"""

import argparse
import tempfile
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from analysis.dispatch_difference import compare_cases
from records.dispatch import CaseFingerprint
from runner.dispatch.capture import FingerprintSettings, take_fingerprint
from runner.execution import harness
from runner.preset import MachinePreset
from runner.suites.suite import built_in
from runner.worker.case_key import CaseKey

ROOT = Path(__file__).resolve().parent.parent
DEADLINE_SECONDS = 900.0


def main() -> None:
    """Record every case twice and print what differs."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--suite", action="append", choices=sorted(built_in()))
    parser.add_argument("--python", default=str(ROOT / ".pyrometer/environments/default/bin/python"))
    options = parser.parse_args()
    every = dict.fromkeys(
        case for suite in options.suite or ("smoke", "ops", "cpu") for case in built_in()[suite].cases
    )
    cases = [case for case in every if not {"instances", "parallel"} & {*dict(CaseKey.parse(case).technique)}]
    with tempfile.TemporaryDirectory() as folder, ThreadPoolExecutor(2) as pool:
        about = (options.python, harness.build(Path(folder, "harness")), MachinePreset("as-it-comes"), "cpu")
        settings = FingerprintSettings(*about, DEADLINE_SECONDS, Path(folder, "work"), "fingerprints-twice")

        def twice(case: str) -> tuple[CaseFingerprint, CaseFingerprint, float]:
            started = time.monotonic()
            first, second = (take_fingerprint(case, settings) for _ in "ab")
            return first, second, time.monotonic() - started

        different = 0
        for first, second, seconds in pool.map(twice, cases):
            (found,) = compare_cases({first.case: first}, {second.case: second})
            different += found.changed
            state = "differs" if found.changed else "the same"
            print(f"{first.case}: {first.status}, {state}, {seconds:.0f} s", flush=True)
    print(f"{different} of {len(cases)} cases differ")


if __name__ == "__main__":
    main()
