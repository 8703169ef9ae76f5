"""A run keeps the command as somebody would type it, without what only the scheduler says."""

import sys

import pytest

from cli.context import command_line


def test_what_the_scheduler_says_beside_a_command_is_not_typed_again(monkeypatch: pytest.MonkeyPatch) -> None:
    asked = ["upgrade", "2.13.0", "nightly 2026-11-20", "--case", "mlp/*"]
    monkeypatch.setattr(
        sys, "argv", ["pyrometer", *asked, "--confirms", "--run-id", "20261121-aaaa", "--json"]
    )
    assert command_line() == "pyrometer upgrade 2.13.0 'nightly 2026-11-20' --case 'mlp/*' --json"
