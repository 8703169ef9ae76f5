"""What a run prints while it waits or measures, also on a disk that is full."""

import json
import subprocess
import sys
from pathlib import Path

import pytest

from analysis.comparison.screening import as_evidence
from cli.output.progress import outcome_line
from runner.execution.machine_lock import exclusive
from support.builders.run_records import an_outcome
from support.site import LOCK_FOLDER, ROOT

#: Reports what a run reports; `more()` gives the file room again. A file that may not grow is a full disk.
SCRIPT = """
import resource, signal, sys
from cli.app import _mend_streams
from cli.context import say
from cli.output.console import watching_console
from cli.output.progress import JsonWatcher, PlainWatcher

def room(size):
    resource.setrlimit(resource.RLIMIT_FSIZE, (size, resource.RLIM_INFINITY))

_mend_streams()
signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
room(100)
JsonWatcher(watching_console()).report_wait("another run measures this machine")
watcher = {watcher}(watching_console())
for number in range(8):
    watcher.note(f"{{number}} " + "Größe" * 4)
say("this is said as well")
{then}
"""


def run_script(folder: Path, watcher: str, then: str = "") -> tuple[int, list[str], str]:
    """The exit code, and the contents of the two files of the output."""
    out, err = folder / "out", folder / "err"
    with out.open("wb") as stdout, err.open("wb") as stderr:
        code = subprocess.run(
            [sys.executable, "-c", SCRIPT.format(watcher=watcher, then=then)],
            cwd=ROOT,
            stdout=stdout,
            stderr=stderr,
            timeout=60,
        ).returncode
    return code, out.read_bytes().decode(errors="replace").splitlines(), err.read_text()


@pytest.mark.parametrize("watcher", ["JsonWatcher", "PlainWatcher"])
def test_a_full_disk_ends_nothing(tmp_path: Path, watcher: str) -> None:
    code, lines, said = run_script(tmp_path, watcher, "say('x' * 200)")
    # Not 120 either, with which Python ends when it cannot write what it still has.
    assert code == 0
    assert (tmp_path / "out").stat().st_size == (tmp_path / "err").stat().st_size == 100
    assert json.loads(lines[0])["event"] == "waiting"
    assert said.startswith("this is said as well\nxxx") and "Traceback" not in said


def test_what_does_not_fit_is_dropped_and_the_loss_is_known(tmp_path: Path) -> None:
    asks = "say(str(watching_console().file.lost))"
    then = f"room(1 << 20); watcher.note('8'); {asks}"
    code, lines, said = run_script(tmp_path, "JsonWatcher", then)
    assert (code, said.splitlines()[-1]) == (0, "True")
    # The line that was torn when the disk was full is ended before the next one.
    assert json.loads(lines[0])["event"] == "waiting" and json.loads(lines[-1])["text"] == "8"


def test_cut_output_of_a_command_is_an_error() -> None:
    with Path("/dev/full").open("wb") as full:
        done = subprocess.run(
            [sys.executable, "-c", "from cli.app import main; main()", "version"],
            cwd=ROOT,
            stdout=full,
            stderr=subprocess.PIPE,
            timeout=60,
        )
    assert done.returncode not in (0, 1)


WAITS = """
from cli.output.reporter import JsonReporter, TerminalReporter
from workflows.run_locally import exclusive_machine
with exclusive_machine({reporter}()): pass
"""


@pytest.mark.parametrize("as_json", [True, False])
def test_a_run_that_waits_says_for_whom(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, as_json: bool
) -> None:
    monkeypatch.setenv(LOCK_FOLDER, str(tmp_path))
    command = [sys.executable, "-c", WAITS.format(reporter="JsonReporter" if as_json else "TerminalReporter")]
    with exclusive(lambda: pytest.fail("no other run holds the lock")):
        waits = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
        assert waits.stdout is not None and waits.stderr is not None
        said = waits.stderr.readline()
    output, _ = waits.communicate(timeout=60)
    assert waits.returncode == 0
    assert said.startswith("another run measures this machine (process ") and "Ctrl-C stops waiting" in said
    events = [json.loads(line) for line in output.splitlines()]
    assert [each["event"] for each in events] == (["waiting"] if as_json else [])
    assert all(each["text"] in said for each in events)


def test_a_process_of_a_short_pair_is_named_as_one() -> None:
    short = as_evidence(an_outcome("mlp/infer/-/eager", metrics={"latency": 2.5}))
    assert outcome_line(short) == "mlp/infer/-/eager #0: short pair of the screen, median 2.500 ms"


def test_a_process_without_a_latency_has_a_line() -> None:
    assert outcome_line(an_outcome("mlp/infer/-/eager", metrics={"rss_peak": 9.0})) == (
        "mlp/infer/-/eager #0: no latency"
    )
    compiled = an_outcome("mlp/infer/-/eager", metrics={"compile_cold": 2.5, "latency": 4.0})
    assert outcome_line(compiled) == "mlp/infer/-/eager #0: median 4.000 ms, compile, cold cache 2.500 s"
