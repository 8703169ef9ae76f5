"""What others see of the nights: what was due and what became of it, and what a fleet is made of."""

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime

from .queue.records import SUPERSEDED


@dataclass(frozen=True, slots=True)
class NightTask:
    """A `measure` task, without what only its job reads.

    `track` is the environment that it follows, as the schedule asks for it; `baseline` the one that the
    schedule pins, empty for none. The rest is as in `Task`.
    """

    id: int
    schedule: str
    part: str
    label: str
    track: str
    baseline: str
    due_at: datetime
    not_before: datetime | None
    state: str
    attempts: int
    owner: str | None
    run_id: str | None
    started_at: datetime | None
    ended_at: datetime | None
    error: str

    @property
    def superseded(self) -> bool:
        """As in `Task`."""
        return self.state == "cancelled" and self.error == SUPERSEDED

    @property
    def machine(self) -> str:
        """The machine that has the task or had it last; before anybody had it, whom it is for."""
        return (self.owner or self.label).partition("/")[0]


@dataclass(frozen=True, slots=True)
class LastFire:
    """The newest fire of a schedule. `states` counts its tasks, `error` is why one of them is not done."""

    schedule: str
    due_at: datetime
    how: str
    states: Mapping[str, int]
    error: str


@dataclass(frozen=True, slots=True)
class EnvironmentUsed:
    """An environment and the newest run that used it; `runs` counts those among the runs looked at."""

    fingerprint: str
    name: str
    torch_version: str
    python_version: str
    runs: int
    run: str
    started_at: datetime
    machine: str
