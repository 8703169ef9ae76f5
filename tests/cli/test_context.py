"""A run keeps the command as a person would type it, without the scheduler's own options."""

import os
import subprocess
import sys

import pytest

from cli.context import command_line


def test_options_that_the_scheduler_adds_are_left_out_of_a_command_to_repeat(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    words = ["upgrade", "2.13.0", "nightly 2026-11-20", "--case", "mlp/*"]
    monkeypatch.setattr(
        sys, "argv", ["pyrometer", *words, "--confirms", "--run-id", "20261121-aaaa", "--json"]
    )
    assert command_line() == "pyrometer upgrade 2.13.0 'nightly 2026-11-20' --case 'mlp/*' --json"


def test_the_run_that_an_agent_names_is_none_of_a_command_to_repeat(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(
        sys, "argv", ["pyrometer", "upgrade", "--run-id=20261121-aaaa", "--", "2.13.0", "2.15.0"]
    )
    assert command_line() == "pyrometer upgrade -- 2.13.0 2.15.0"


#: What an upgrade does whose reader is gone: it prints, and its command ends as every command does.
PRINTS = """
import time
import typer
from cli.context import in_one_sentence


def upgrade() -> None:
    with in_one_sentence():
        while True:
            print("a case is measured", flush=True)
            time.sleep(0.01)


typer.run(upgrade)
"""


def test_a_command_whose_output_is_closed_is_interrupted_and_no_verdict() -> None:
    """By itself Typer would end it with 1, which is a no-go."""
    reading, writing = os.pipe()
    process = subprocess.Popen([sys.executable, "-c", PRINTS], stdout=writing, stderr=subprocess.PIPE)
    os.close(writing)
    assert os.read(reading, 1)
    os.close(reading)
    _, err = process.communicate(timeout=60.0)
    assert (process.returncode, err) == (130, b"")
