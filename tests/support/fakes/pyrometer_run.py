"""A stand-in for `pyrometer run`: takes its options, writes a real journal, measures nothing.

    pyrometer_run.py DATA_DIR run --environment KIND --run-id RUN --json
    pyrometer_run.py DATA_DIR run --resume RUN --json

What KIND the environment is says how it goes (see KINDS). A line of DATA_DIR/executions is written for each
replicate that is carried out.
"""

import argparse
import fcntl
import json
import os
import signal
import sys
import time
from collections.abc import Callable
from dataclasses import asdict
from datetime import UTC, datetime
from pathlib import Path
from types import FrameType

from records.outcomes import Outcome, PlannedReplicate
from runner import journal
from runner.journal import Journal

CASES = ("a", "b", "c", "d")
ENVIRONMENT = "an-environment"
#: What journals begin with, but for the run's own: in DATA_DIR, so that nothing that takes long is imported.
HEADER = "header.json"
_INTERRUPTED, _REFUSED = 130, 2


class Interrupted(Exception):
    """A stop was requested."""


def quick(number: int) -> None:
    """Measures at once."""


def slow(number: int) -> None:
    """Takes a twentieth of a second for each case."""
    time.sleep(0.05)


def patient(number: int) -> None:
    """Stays at the third case until it is allowed to go on."""
    while number == 2 and not Path("go-on").exists():
        time.sleep(0.02)


def suicidal(number: int) -> None:
    """Is killed at the third case, the first time."""
    if number == 2 and not Path("killed").exists():
        Path("killed").touch()
        os.kill(os.getpid(), signal.SIGKILL)


def deaf(number: int) -> None:
    """Stays at the third case and hears no wish to end."""
    signal.signal(signal.SIGTERM, signal.SIG_IGN)
    patient(number)


KINDS: dict[str, Callable[[int], None]] = {
    each.__name__: each for each in (quick, slow, patient, suicidal, deaf)
}
#: Says that it waits for another run until it is allowed to go on, and then measures at once.
KINDS["waiting"] = quick


def main() -> int:
    """Carry out what is left of a run; answers the exit code."""
    parser = argparse.ArgumentParser()
    parser.add_argument("data_dir", type=Path)
    parser.add_argument("command", nargs="+")
    parser.add_argument("--environment", default="quick")
    parser.add_argument("--run-id")
    parser.add_argument("--resume")
    options, _ = parser.parse_known_args()
    signal.signal(signal.SIGTERM, _interrupt)
    kind: str = options.environment
    run: str = options.resume or options.run_id
    folder: Path = options.data_dir / "runs" / run
    if kind == "unknown":
        sys.stderr.write("note: looking\npyrometer: there is no such environment\n")
        return _REFUSED
    if kind == "raises":
        raise RuntimeError("a defect")
    path = folder / journal.FILE
    if options.resume:
        contents = journal.read_contents(path)
        kind = str(contents.header["command"])
        done = len(contents.outcomes)
        if done == len(CASES):
            sys.stderr.write("pyrometer: the run is complete\n")
            return _REFUSED
    elif path.exists():
        sys.stderr.write("pyrometer: the run began already\n")
        return _REFUSED
    else:
        done = 0
    if kind == "waiting":
        print('{"event": "waiting", "text": "another run measures this machine"}', flush=True)
        while not Path("go-on").exists():
            time.sleep(0.02)
    print('{"event": "began"}', flush=True)
    try:
        _measure(options.data_dir, run, kind, done)
    except Interrupted:
        sys.stderr.write("interrupted\n")
        return _INTERRUPTED
    return 0


def _measure(data_dir: Path, run: str, kind: str, done: int) -> None:
    with Journal(data_dir / "runs" / run) as kept:
        if not done:
            header = json.loads((data_dir / HEADER).read_text())
            kept.header(header | {"run": run, "command": kind})
        for number, one in list(enumerate(plan()))[done:]:
            KINDS[kind](number)
            # Both or neither: an end in between would be a case carried out and not known.
            signal.pthread_sigmask(signal.SIG_BLOCK, [signal.SIGTERM])
            _note(data_dir, f"{run} {one.case}")
            kept.outcome(Outcome(**asdict(one), status="ok", started_at=datetime.now(UTC)))
            signal.pthread_sigmask(signal.SIG_UNBLOCK, [signal.SIGTERM])
        kept.ended({"at": _now(), "state": "complete"})


def plan() -> tuple[PlannedReplicate, ...]:
    """Each case once."""
    return tuple(PlannedReplicate(f"{case}/infer/-/eager", ENVIRONMENT, 0) for case in CASES)


def _now() -> str:
    return datetime.now(UTC).isoformat()


def _note(data_dir: Path, line: str) -> None:
    with (data_dir / "executions").open("a") as file:
        fcntl.flock(file, fcntl.LOCK_EX)
        file.write(line + "\n")
        file.flush()
        os.fsync(file.fileno())


def _interrupt(number: int, frame: FrameType | None) -> None:
    # Slurm asks each process of a job, and its guard asks it once more: one wish is enough.
    signal.signal(signal.SIGTERM, signal.SIG_IGN)
    raise Interrupted


if __name__ == "__main__":
    sys.exit(main())
