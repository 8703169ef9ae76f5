"""Golden files: each report and page in the words in which it was last reviewed.

The words of a report are asserted here and nowhere else. After an intended change of words, rewrite the files
with `pytest --update-golden PATH` and review their diff.
"""

from collections.abc import Mapping
from difflib import unified_diff
from pathlib import Path

import pytest


class Golden:
    """Compares reports with the files in the folder `golden` next to a test module."""

    def __init__(self, folder: Path, *, update: bool) -> None:
        self._folder = folder
        self._update = update

    def check(self, name: str, text: str) -> None:
        """Fail with a diff unless the file holds exactly this text; with `--update-golden`, write it."""
        file = self._folder / name
        if self._update:
            self._folder.mkdir(exist_ok=True)
            file.write_text(text)
            return
        kept = file.read_text() if file.exists() else ""
        if text != kept:
            lines = unified_diff(
                kept.splitlines(), text.splitlines(), f"golden/{name}", "this run", lineterm=""
            )
            pytest.fail(
                "\n".join([f"{file} differs (pytest --update-golden rewrites it):", *lines]), pytrace=False
            )

    def check_terminal(self, name: str, reports: Mapping[str, str]) -> None:
        """Like `check`, for what a terminal shows: a section of Markdown for each report, by its title."""
        self.check(name, "\n".join(map(_section, reports, reports.values())))


def _section(title: str, report: str) -> str:
    # Tables are padded to their width, which is not part of their words.
    lines = [line.rstrip() for line in report.rstrip("\n").splitlines()]
    return "\n".join([f"## {title}", "", "````text", *lines, "````", ""])
