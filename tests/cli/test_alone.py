"""One run at a time: whoever waits says for whom, to people and to programs."""

import json
import subprocess
import sys
from pathlib import Path

import pytest

from runner.execution.machine_lock import exclusive
from support.site import LOCK_FOLDER

WAITS = """
from cli.output.reporter import JsonReporter, TerminalReporter
from workflows.run_locally import alone
with alone({reporter}()): pass
"""


@pytest.mark.parametrize("as_json", [True, False])
def test_a_run_that_waits_says_for_whom(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, as_json: bool
) -> None:
    monkeypatch.setenv(LOCK_FOLDER, str(tmp_path))
    command = [sys.executable, "-c", WAITS.format(reporter="JsonReporter" if as_json else "TerminalReporter")]
    with exclusive(lambda: pytest.fail("nobody else is here")):
        waits = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
        assert waits.stdout is not None and waits.stderr is not None
        said = waits.stderr.readline()
    told, _ = waits.communicate(timeout=60)
    assert waits.returncode == 0
    assert said.startswith("another run measures this machine (process ") and "Ctrl-C gives up" in said
    events = [json.loads(line) for line in told.splitlines()]
    assert [each["event"] for each in events] == (["waiting"] if as_json else [])
    assert all(each["text"] in said for each in events)
