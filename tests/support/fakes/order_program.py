"""Stands for `pyrometer` on the nodes of an engine that is tested: KIND FOLDER RUN STEP...

Writes `began-RUN` and a journal; waits for `go-RUN` in FOLDER, unless it is quick; then fails, is killed,
runs STEP on its other nodes, or ends well. Asked to end it says so and ends with 130.
"""

import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path


def say(**event: object) -> None:
    """An event."""
    print(json.dumps(event), flush=True)


def wait_for(file: Path) -> None:
    """Wait until a file is there."""
    while not file.exists():
        time.sleep(0.02)


def interrupted(*_: object) -> None:
    """Asked to end."""
    signal.signal(signal.SIGTERM, signal.SIG_IGN)
    say(event="interrupted")
    sys.exit(130)


def steps(end: Path, command: list[str]) -> None:
    """Run a command on each other node, and report its end; kill the one here for it once `end` is there."""
    first, *others = json.loads(Path(os.environ["PYROMETER_NODES_FILE"]).read_text())
    say(nodes=[first["name"], *(each["name"] for each in others)], address=first["address"])
    for other in others:
        pipes = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE}
        step = subprocess.Popen([*other["command"], *command], text=True, **pipes)
        if command[-1] == "stays":
            wait_for(end)
            step.kill()
        out, _ = step.communicate()
        say(code=step.returncode, out=out)


def main() -> None:
    """Do as the arguments say."""
    kind, folder, run = sys.argv[1], Path(sys.argv[2]), sys.argv[3]
    signal.signal(signal.SIGTERM, interrupted)
    data_dir = Path(os.environ.get("PYROMETER_DATA_DIR", ".pyrometer")) / "runs" / run
    data_dir.mkdir(parents=True, exist_ok=True)
    say(event="began")
    with (data_dir / "journal.jsonl").open("ab", buffering=0) as file:
        file.write(b"first\nhalf of")
        with (folder / f"began-{run}").open("a") as began:
            began.write(f"{os.getpid()}\n")
        if kind != "quick":
            wait_for(folder / f"go-{run}")
        file.write(b" the second\n")
    if kind == "killed":
        os.kill(os.getpid(), signal.SIGKILL)
    if kind == "nodes":
        steps(folder / f"end-{run}", sys.argv[4:])
    sys.stderr.write("pyrometer: this is all\n")
    sys.exit(3 if kind == "fails" else 0)


if __name__ == "__main__":
    main()
