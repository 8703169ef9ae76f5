"""Two environments of one fingerprint: one of them twice, or two that nobody can tell apart."""

import pytest

from cli.commands.upgrade import told_apart
from cli.workflows.plan_run import Asked
from runner.environment import Environment


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
    new: str, sentence: str, capsys: pytest.CaptureFixture[str]
) -> None:
    facts = {"fingerprint": "print", "devices": []}
    sides = [Environment("one", python, facts, (), {}) for python in ("/old/bin/python", new)]
    asked = told_apart(Asked(tuple(sides), {}))
    assert capsys.readouterr().err == sentence
    assert len({one.fingerprint for one in asked.environments}) == 2
