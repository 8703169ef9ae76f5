"""Two environments of one fingerprint: one of them twice, or two that cannot be distinguished."""

from pathlib import Path

import pytest

from cli.context import context
from runner.environment import MeasuredEnvironment
from workflows.planning.plan_run import ProbedMachine
from workflows.planning.plan_upgrade import distinguish_environments


@pytest.mark.parametrize(
    ("new", "sentence"),
    [
        (
            "/old/bin/python",
            "note: both are the same environment: whatever differs comes from the method or the machine\n",
        ),
        (
            "/new/bin/python",
            "note: both say they are the same: whatever differs is nothing that a fingerprint knows\n",
        ),
    ],
)
def test_what_is_said_of_equal_fingerprints(
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    new: str,
    sentence: str,
    capsys: pytest.CaptureFixture[str],
) -> None:
    facts = {"fingerprint": "print", "devices": []}
    sides = [MeasuredEnvironment("one", python, facts, (), {}) for python in ("/old/bin/python", new)]
    monkeypatch.chdir(tmp_path)
    probed = distinguish_environments(context(), ProbedMachine(tuple(sides), {}))
    assert capsys.readouterr().err == sentence
    assert len({one.fingerprint for one in probed.environments}) == 2
