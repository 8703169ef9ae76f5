"""A program named dcgmi that prints what NVIDIA's is documented to print, and can go wrong like it."""

import json
import os
import shutil
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

_PROGRAM = """
import json, os, sys, time

here = os.path.dirname(os.path.abspath(__file__))
with open(os.path.join(here, "plan.json")) as file:
    plan = json.load(file)


def log(text):
    with open(os.path.join(here, "log"), "a") as file:
        print(text, file=file)


def say(text):
    print(text, flush=True)


def fail(told):
    print(told, file=sys.stderr, flush=True)
    sys.exit(225)


def discovery():
    say(f"{len(plan['gpus'])} GPUs found (Active).")
    line = "+--------+" + "-" * 70 + "+"
    say(line + "\\n| GPU ID | " + "Device Information".ljust(69) + "|\\n" + line)
    for number, uuid in plan["gpus"]:
        facts = ("Name: NVIDIA A100-SXM4-80GB", "PCI Bus ID: 00000000:21:00.0", f"Device UUID: {uuid}")
        for first, fact in zip((number, "", ""), facts):
            say(f"| {first!s:<6} | {fact:<69}|")
        say(line)
    say("0 NvSwitches found.\\n+-----------+\\n| Switch ID |\\n+-----------+\\n+-----------+")


def dmon(options):
    names = {"1002": "SMACT", "1003": "SMOCC", "1004": "TENSO", "1005": "DRAMA"}
    fields = [names[field] for field in options["-e"].split(",")]
    wanted = [int(number) for number in options["-i"].split(",")]
    log(f"dmon {os.getpid()}")
    time.sleep(plan.get("slow", 0))

    def header():
        say("#Entity".ljust(16) + "".join(f"{name:<13}" for name in fields))
        say("ID".ljust(16) + " " * 13 * len(fields))

    header()
    if plan.get("error"):
        fail("Error setting watches. Result: " + plan["error"] + "\\n")
    if plan.get("hang"):
        time.sleep(600)
    for number in range(10_000):
        time.sleep(int(options["-d"]) / 1e3 if number else 0)
        if number and number % plan["header"] == 0:
            header()
        told = plan["rounds"][min(number, len(plan["rounds"]) - 1)]
        now = time.monotonic_ns()
        for gpu in wanted:
            say(f"GPU {gpu}".ljust(16) + "".join(f"{value:<13}" for value in told[str(gpu)]))
        log(f"told {now} {time.monotonic_ns()} {told[str(wanted[0])][0]}")


if plan.get("connection"):
    say("Error: unable to establish a connection to the specified host: localhost")
    say("Error: Unable to connect to host engine. Host engine connection invalid/disconnected.")
    sys.exit(235)
if sys.argv[1:] == ["discovery", "-l"]:
    log("discovery")
    if plan.get("silent"):
        time.sleep(600)
    discovery()
elif sys.argv[1] == "dmon":
    dmon(dict(zip(sys.argv[2::2], sys.argv[3::2])))
else:
    sys.exit(2)
"""

Round = dict[int, Sequence[str]]


@dataclass(frozen=True)
class StandIn:
    """A folder with the program, what it shall do, and what it did."""

    folder: Path

    @property
    def variables(self) -> dict[str, str]:
        """What a process needs to find it, and no other."""
        return {"PATH": str(self.folder)}

    @property
    def log(self) -> list[list[str]]:
        """What was asked of it and what it told, a list of words each."""
        log = self.folder / "log"
        return [line.split() for line in log.read_text().splitlines()] if log.exists() else []

    @property
    def streams(self) -> list[int]:
        """The process of each stream that was ever started."""
        return [int(words[1]) for words in self.log if words[0] == "dmon"]

    def alive(self) -> bool:
        """Whether the last stream still runs."""
        return Path(f"/proc/{self.streams[-1]}").exists()


def build(
    folder: Path, gpus: Sequence[tuple[int, str]], *rounds: Round, header: int = 14, **trouble: Any
) -> StandIn:
    """Write the program: DCGM's number and UUID of each GPU, and what it tells by number, round by round.

    The last round is told for ever. `header`: after how many rounds the header comes again.
    """
    folder.mkdir(parents=True, exist_ok=True)
    plan = {"gpus": [*gpus], "rounds": [*rounds], "header": header, **trouble}
    (folder / "plan.json").write_text(json.dumps(plan))
    program = folder / "dcgmi"
    program.write_text(f"#!{os.path.realpath(sys.executable)} -IS\n{_PROGRAM}")
    program.chmod(0o755)
    assert shutil.which("dcgmi", path=str(folder)) == str(program)
    return StandIn(folder)
