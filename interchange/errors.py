"""The errors of imported files.

* ExchangeError
  * BadFile          a file does not hold what its format says; where and why
  * UnknownFormat    no importer knows the file

Unusable parts of a good file raise no exception: they are listed as problems, with place and reason.
"""

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class SourcePlace:
    """Where in a file: its name, a line from 1 on (0: the whole file) and a field such as `runs[3].date`."""

    file: str
    line: int = 0
    field: str = ""

    def at(self, field: str) -> "SourcePlace":
        """The place of a field within this one; `[3]` is an element."""
        dot = "." if self.field and not field.startswith("[") else ""
        return SourcePlace(self.file, self.line, f"{self.field}{dot}{field}")

    def error(self, sentence: str) -> "BadFile":
        """The error about the value at this place."""
        return BadFile(self, sentence)

    def __str__(self) -> str:
        line = f", line {self.line}" if self.line else ""
        return f"{self.file}{line}" + (f", {self.field}" if self.field else "")


class ExchangeError(Exception):
    """Base of the errors of this folder; its text is one sentence for users."""


class BadFile(ExchangeError):
    """A file does not hold what its format says."""

    def __init__(self, place: SourcePlace, sentence: str) -> None:
        super().__init__(f"{place}: {sentence}")
        self.place = place
        self.sentence = sentence


class UnknownFormat(ExchangeError):
    """No importer recognises the file, or none has that name."""
