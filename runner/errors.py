"""What can go wrong while measuring, beyond an outcome.

* RunnerError
  * BadCaseFile          a user's file of cases cannot join the harness
  * BrokenEnvironment    an interpreter is missing, or cannot import torch
  * JournalError         a journal cannot be opened, or belongs to something else
  * MachineBusy          another run measures this machine

How a *case* goes wrong is never an exception on this side: it is an outcome.
"""


class RunnerError(Exception):
    """Base of everything this folder raises; its text is one sentence for people."""


class BadCaseFile(RunnerError):
    """A user's file of cases cannot join the harness."""


class BrokenEnvironment(RunnerError):
    """The interpreter of an environment is missing, or cannot import torch."""


class JournalError(RunnerError):
    """A journal cannot be opened, or does not belong to this run."""


class MachineBusy(RunnerError):
    """Another run measures this machine at present."""
