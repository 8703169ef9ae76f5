"""The errors of measuring, except those that are an outcome.

* RunnerError
  * BadCaseFile          a user's file of cases cannot join the harness
  * BadSpec              what was written for an environment means none
  * BadStep              a script has no function that could be measured as a step
  * BadSuite             a suite names what does not exist
  * BrokenEnvironment    an interpreter is missing, or cannot import torch
  * BuildFailed          an environment could not be built; what there was of it is gone
  * ClocksNotLocked      a driver refuses to hold the clock of a GPU
  * EnvironmentInUse     an environment cannot be removed while it is measured
  * IndexFailed          a package index does not answer, or offers no PyTorch
  * JournalError         a journal cannot be opened, or belongs to something else
  * MachineBusy          another run measures this machine
  * NodeFailed           a node of a run over several is not reached, or has another environment

How a *case* goes wrong is never an exception on this side: it is an outcome.
"""

from collections.abc import Iterable


class RunnerError(Exception):
    """Base of everything this folder raises; its text is one sentence for people."""


class BadCaseFile(RunnerError):
    """A user's file of cases cannot join the harness."""


class ClocksNotLocked(RunnerError):
    """A driver refuses to hold the clock of a GPU, or does not answer."""


class BadSuite(RunnerError):
    """A suite names what does not exist, or what cannot be meant.

    `path` is where in the suite's table, such as `("matrix", 0, "compile", 1)`. Where one word is at fault,
    `kind` says what it should have been, and `valid` what it could have been. Without a `kind` the sentence
    stands, and the word may be a slip for one of `valid`.
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


class BadSpec(RunnerError):
    """What was written for an environment means none; `word` is what could have been a declared name."""

    def __init__(self, sentence: str, *, word: str = "") -> None:
        super().__init__(sentence)
        self.word = word


class BadStep(RunnerError):
    """A script has no function that could be measured as a step."""


class BuildFailed(RunnerError):
    """An environment could not be built. What there was of it is gone."""


class EnvironmentInUse(RunnerError):
    """An environment cannot be removed while something measures it."""


class IndexFailed(RunnerError):
    """A package index does not answer, or offers no PyTorch for this Python."""


class JournalError(RunnerError):
    """A journal cannot be opened, or does not belong to this run."""


class MachineBusy(RunnerError):
    """Another run measures this machine at present."""


class NodeFailed(RunnerError):
    """A node of a run over several is not reached, or has another environment."""
