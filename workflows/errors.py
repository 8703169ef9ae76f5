"""The errors of workflows.

* JobError * UsageError the request names or combines what does not exist * RunInterrupted a run was stopped
  at once * NothingToMeasure the selection matches no case * CannotResume the run to resume is unknown,
  forgotten, or its conditions have changed * NothingToResume the run to resume is complete, or there is none
  at all * NoSuchRun the requested run is unknown * CannotForget the run to forget is being measured *
  TargetsUnreadable the file of notification targets cannot be read * NoSuchSchedule the schedule to trigger
  is unknown
"""


class JobError(Exception):
    """Base of all errors of this folder; the text is one sentence for users."""


class UsageError(JobError):
    """The request asks for something that does not exist; the text is one sentence."""


class RunInterrupted(JobError):
    """A run was stopped at once; the text says how to resume it."""


class NothingToMeasure(JobError):
    """No case is left to measure."""


class CannotResume(JobError):
    """This run can never be resumed: a new one has to begin."""


#: The exit code of a command that resumes such a run: it tells a caller that trying again is useless.
CANNOT_RESUME = 4


class NothingToResume(JobError):
    """The run is complete."""


class NoSuchRun(JobError):
    """No run of that name is known here."""


class CannotForget(JobError):
    """This run cannot be forgotten now."""


class NoSuchSchedule(JobError):
    """No schedule of that name is configured."""


class TargetsUnreadable(JobError):
    """The file of notification targets cannot be read."""
