"""The results of an acceptance on disk: rewritten after each line, so that a cut run keeps what it had."""

import json
import os
from collections.abc import Mapping
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from lines import LINES, LineResult

FILE = "accept.json"


class Report:
    """The lines that have ended, in the order in which they did; each is printed and written at once."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self.results: dict[str, LineResult] = {}
        self.about: dict[str, Any] = {"started_at": datetime.now(UTC).isoformat(), "complete": False}

    def add(self, result: LineResult) -> None:
        """A line has ended."""
        self.results[result.name] = result
        reason = f": {result.reason}" if result.reason else ""
        print(
            f"{result.number:02d} {result.name:<18} {result.verdict}{reason}  [{result.seconds:.1f} s]",
            flush=True,
        )
        self.write()

    def describe(self, **about: Any) -> None:
        """More about the machine and this run."""
        self.about |= about
        self.write()

    def write(self) -> None:
        """Replace the file, whole."""
        counts = {word: self.count(word) for word in ("pass", "fail", "skip")}
        ordered = sorted(self.results.values(), key=lambda result: result.number)
        body: Mapping[str, Any] = {
            **self.about,
            "counts": {**counts, "missing": len(LINES) - len(ordered)},
            "lines": [result.to_body() for result in ordered],
        }
        part = self._folder / f".{FILE}"
        part.write_text(json.dumps(body, indent=1, default=str) + "\n")
        os.replace(part, self._folder / FILE)

    def count(self, verdict: str) -> int:
        """The lines with this verdict."""
        return sum(result.verdict == verdict for result in self.results.values())
