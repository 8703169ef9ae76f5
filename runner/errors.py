"""What can go wrong while measuring, beyond an outcome.

* RunnerError
  * BadCaseFile          a user's file of cases cannot join the harness
  * BadSuite             a suite names what does not exist
  * BrokenEnvironment    an interpreter is missing, or cannot import torch
  * JournalError         a journal cannot be opened, or belongs to something else
  * MachineBusy          another run measures this machine

How a *case* goes wrong is never an exception on this side: it is an outcome.
"""

from collections.abc import Iterable


class RunnerError(Exception):
    """Base of everything this folder raises; its text is one sentence for people."""


class BadCaseFile(RunnerError):
    """A user's file of cases cannot join the harness."""


class BadSuite(RunnerError):
    """A suite names what does not exist, or what cannot be meant.

    `path` is where in the suite's table, such as `("matrix", 0, "compile", 1)`. Where one word is at fault,
    `kind` says what it should have been, and `valid` what it could have been.
    """

    def __init__(
        self,
        path: tuple[str | int, ...],
        sentence: str,
        *,
        kind: str = "",
        word: str = "",
        valid: tuple[str, ...] = (),
    ) -> None:
        super().__init__(sentence)
        self.path = path
        self.kind = kind
        self.word = word
        self.valid = valid

    @staticmethod
    def unknown(path: tuple[str | int, ...], kind: str, word: str, valid: Iterable[str]) -> "BadSuite":
        """A word that is none of the valid ones."""
        words = tuple(valid)
        return BadSuite(
            path, f"unknown {kind} {word!r}: one of {', '.join(words)}", kind=kind, word=word, valid=words
        )


class BrokenEnvironment(RunnerError):
    """The interpreter of an environment is missing, or cannot import torch."""


class JournalError(RunnerError):
    """A journal cannot be opened, or does not belong to this run."""


class MachineBusy(RunnerError):
    """Another run measures this machine at present."""
