"""Output whose disk is full: who measures goes on, says so, and loses no whole line before that."""

import json
import subprocess
import sys
from pathlib import Path

import pytest

from support.site import ROOT

#: Tells what a run tells; `more()` gives the file room again. A file that may not grow is a full disk.
TELLS = """
import resource, signal, sys
from cli.app import _mend_streams
from cli.context import say
from cli.output.progress import JsonWatcher, PlainWatcher, report_waiting, watching_console

def room(size):
    resource.setrlimit(resource.RLIMIT_FSIZE, (size, resource.RLIM_INFINITY))

_mend_streams()
signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
room(100)
report_waiting("another run measures this machine")
watcher = {watcher}(watching_console())
for number in range(8):
    watcher.note(f"{{number}} " + "Größe" * 4)
say("this is said as well")
{then}
"""


def told(folder: Path, watcher: str, then: str = "") -> tuple[int, list[str], str]:
    """The exit code, and what stands in the two files that this was told into."""
    out, err = folder / "out", folder / "err"
    with out.open("wb") as stdout, err.open("wb") as stderr:
        code = subprocess.run(
            [sys.executable, "-c", TELLS.format(watcher=watcher, then=then)],
            cwd=ROOT,
            stdout=stdout,
            stderr=stderr,
            timeout=60,
        ).returncode
    return code, out.read_bytes().decode(errors="replace").splitlines(), err.read_text()


@pytest.mark.parametrize("watcher", ["JsonWatcher", "PlainWatcher"])
def test_a_full_disk_ends_nothing(tmp_path: Path, watcher: str) -> None:
    code, lines, said = told(tmp_path, watcher, "say('x' * 200)")
    # Not 120 either, with which Python ends when it cannot write what it still has.
    assert code == 0
    assert (tmp_path / "out").stat().st_size == (tmp_path / "err").stat().st_size == 100
    assert json.loads(lines[0])["event"] == "waiting"
    assert said.startswith("this is said as well\nxxx") and "Traceback" not in said


def test_what_waited_for_room_comes_whole_and_in_order(tmp_path: Path) -> None:
    asks = "from cli.streams import is_cut_short; say(str(is_cut_short(watching_console().file)))"
    code, lines, said = told(tmp_path, "JsonWatcher", f"{asks}; room(1 << 20); watcher.note('8'); {asks}")
    assert said.splitlines()[1:] == ["True", "False"], "whether it is cut short is known"
    events = [json.loads(line) for line in lines]
    assert code == 0
    assert [each["event"] for each in events] == ["waiting"] + ["note"] * 9
    assert [each["text"].split(" ")[0] for each in events[1:]] == [str(number) for number in range(9)]


def test_what_a_command_was_asked_for_is_not_cut_short_in_silence() -> None:
    with Path("/dev/full").open("wb") as full:
        done = subprocess.run(
            [sys.executable, "-c", "from cli.app import main; main()", "version"],
            cwd=ROOT,
            stdout=full,
            stderr=subprocess.PIPE,
            timeout=60,
        )
    assert done.returncode not in (0, 1)
