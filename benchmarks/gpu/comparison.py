"""Compare PyTorch with itself on an NVIDIA GPU: what differs is what the measuring makes up.

    python benchmarks/gpu/comparison.py OUT [--wheels FOLDER] [--seconds 270]

After the acceptance, which has no time for it. First the fingerprints of four cases, each recorded twice:
they must be equal. Then `pyrometer upgrade` from the environment to itself: no case may be slower or faster.
Nothing of the card is set. Without a CUDA device both are skipped. Exit code: 0 nothing differs, 1 something
does or gave no answer, 2 wrong usage.
"""

import argparse
import json
import os
import shutil
import sys
import tempfile
import time
import uuid
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import layout
from lines import NO_DEVICE
from processes import Ended, NoAnswer, ProbeServer, Processes

_ON_GPU = ("--device", "cuda")
#: The cases whose fingerprints are compared: kernels of libraries, a recorded graph, and code of Triton.
_RECORDED = (
    "mlp_overhead/infer/batch=64/eager",
    "mlp_overhead/infer/batch=64/graph=capture",
    "mlp_overhead/infer/batch=64/compile=default",
    "gemm/infer/size=4096/precision=bf16",
)
#: Seconds for the fingerprints, and for the export at the end.
_RECORDING_SECONDS, _EXPORT_SECONDS = 90.0, 15.0
#: For PyTorch to be imported and a first kernel to run.
_DEVICE_SECONDS = 60.0
#: States of a case in the report that an environment against itself must not have.
_WRONG = ("slower", "faster", "broken")


def main() -> None:
    """Compare, and end with the exit code of the comparison."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("out", type=Path, help="folder of the results")
    parser.add_argument("--wheels", type=Path, help="folder with the packages that this interpreter lacks")
    parser.add_argument("--python", default="", help="interpreter to measure [default: this one]")
    parser.add_argument("--seconds", type=float, default=270.0, help="for everything [default: 270]")
    options = parser.parse_args()
    if options.wheels is not None:
        layout.start_again(options.wheels)
    options.out.mkdir(parents=True, exist_ok=True)
    sys.exit(_compare(options.out.absolute(), os.path.abspath(options.python or sys.executable), options))


def _compare(out: Path, python: str, options: argparse.Namespace) -> int:
    # What needs more than the standard library comes after the environment is there.
    from steps import FOLDER, PROGRAM, variables

    ends = time.monotonic() + options.seconds
    with tempfile.TemporaryDirectory(prefix="comparison-") as scratch, (out / "log.txt").open("w") as log:
        work = Path(scratch)
        shutil.copy(FOLDER / "accept.toml", work / "pyrometer.toml")
        processes = Processes(variables(work, python, uuid.uuid4().hex), work, log)

        def pyrometer(*words: str, seconds: float) -> Ended:
            done = processes.run((*PROGRAM, *words), seconds)
            print(f"pyrometer {words[0]}: exit code {done.code}{', at its deadline' * done.late}", flush=True)
            return done

        try:
            if absent := _no_device(ProbeServer(processes, (python, str(FOLDER / "torch_probes.py")))):
                print(f"fingerprints: {absent}\nupgrade: {absent}", flush=True)
                return 0 if absent.startswith("skip") else 1
            same = _same_fingerprints(out, pyrometer)
            left = ends - time.monotonic() - _EXPORT_SECONDS
            budget = ("--budget", f"{max(1.0, left - 30):.0f}", "--no-fingerprint", "--pairs", "8")
            # A report in Markdown takes a package more, which a machine without network may lack.
            report = ("--report", str(out / "report.json"))
            suite = ("--suite", "accept-itself", *_ON_GPU, *budget, *report)
            pyrometer("upgrade", "default", "default", *suite, seconds=left)
            exported = ("export", "--all", "--force", str(out / "comparison.jsonl.gz"))
            pyrometer(*exported, seconds=max(_EXPORT_SECONDS, ends - time.monotonic()))
        finally:
            processes.end_all()
            layout.remove()
    return 0 if _no_difference(out / "report.json") and same else 1


def _no_device(probes: ProbeServer) -> str:
    """Why nothing is compared, `skip: ` or `fail: ` before it; empty where PyTorch computes on a device."""
    try:
        answer = probes.ask("device", _DEVICE_SECONDS)
    except NoAnswer as reason:
        return f"fail: {reason}"
    finally:
        # Its context would be another program's to what is measured next.
        probes.close()
    if "error" in answer:
        return f"fail: {answer['error']}"
    return "" if answer["figures"]["device"]["cuda"] else f"skip: {NO_DEVICE['cuda']}"


def _same_fingerprints(out: Path, pyrometer: Callable[..., Ended]) -> bool:
    """Record each fingerprint twice and keep both; are they there, and equal?"""
    each = _RECORDING_SECONDS / 2
    recorded: list[Mapping[str, Any]] = []
    for name in ("first", "second"):
        words = ("fingerprint", "case", *_RECORDED, *_ON_GPU, "--again", "--json")
        done = pyrometer(*words, seconds=each)
        (out / f"fingerprints_{name}.json").write_text(done.out)
        recorded.append(json.loads(done.out) if done.code == 0 else {})
    same = bool(recorded[0]) and recorded[0] == recorded[1]
    print(f"the fingerprints of {len(_RECORDED)} cases: {'equal' if same else 'not equal, or not there'}")
    return same


def _no_difference(report: Path) -> bool:
    """Print the decision and each case; is there one with a verdict, and none that differs?"""
    if not report.exists():
        print("the upgrade wrote no report: see log.txt")
        return False
    found = json.loads(report.read_text())
    print(found["headline"])
    for case in found["cases"]:
        known = case["verdict"] or {}
        interval = [known.get(end) for end in ("ratio", "ratio_low", "ratio_high")]
        about = f"{case['status']}, {known.get('n', 0)} pairs"
        print(f"{case['case']:<45} {about:<20}", *("-" if x is None else f"{x - 1:+.2%}" for x in interval))
    judged = [case for case in found["cases"] if (case["verdict"] or {}).get("ratio_low") is not None]
    return bool(judged) and not any(case["status"] in _WRONG for case in found["cases"])


if __name__ == "__main__":
    main()
