"""A run keeps the command as a person would type it, without the scheduler's own options."""

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
