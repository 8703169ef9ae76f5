"""Finds attempts whose scheduler is dead, by heartbeats and the monotonic clock of this process alone."""

from collections.abc import Collection, Sequence
from dataclasses import dataclass

from records.tasks import Task

from .process_identity import Owner, dead_process

#: An attempt without a heartbeat for this time is lost.
LEASE_SECONDS = 60.0
#: The most time that counts between two checks, because this process may have been suspended.
_MOST_BETWEEN_SECONDS = 15.0


@dataclass(frozen=True, slots=True)
class Dead:
    """An attempt whose scheduler is dead, and the reason."""

    task: Task
    token: str
    detail: str


@dataclass(slots=True)
class _Heartbeat:
    beats: int
    silent_seconds: float = 0.0


class Reaper:
    """Checks running tasks repeatedly and returns those whose scheduler is dead."""

    def __init__(self, me: Owner) -> None:
        self._me = me
        self._seen: dict[str, _Heartbeat] = {}
        self._looked: float | None = None

    def look(self, running: Sequence[Task], own_tokens: Collection[str], monotonic: float) -> list[Dead]:
        """The running tasks whose scheduler is dead; `own_tokens` are the tokens of this process.

        `monotonic` is a monotonic clock in seconds.
        """
        passed = 0.0 if self._looked is None else min(monotonic - self._looked, _MOST_BETWEEN_SECONDS)
        self._looked = monotonic
        current = {task.token: task for task in running if task.token is not None}
        self._seen = {token: heartbeat for token, heartbeat in self._seen.items() if token in current}
        return [
            Dead(task, token, detail)
            for token, task in current.items()
            if token not in own_tokens and (detail := self._why(token, task, passed))
        ]

    def _why(self, token: str, task: Task, passed: float) -> str:
        owner = task.owner or ""
        parsed = Owner.parse(owner)
        if parsed is not None and parsed.process == self._me.process:
            # The claim succeeded but its answer was lost: no slot runs the task.
            return "claimed, and never begun"
        if (dead := dead_process(owner, self._me)) is not None:
            return f"its scheduler died (process {dead})"
        heartbeat = self._seen.setdefault(token, _Heartbeat(task.beats))
        if heartbeat.beats != task.beats:
            self._seen[token] = _Heartbeat(task.beats)
            return ""
        heartbeat.silent_seconds += passed
        if heartbeat.silent_seconds < LEASE_SECONDS:
            return ""
        return f"no sign of life from its scheduler for {LEASE_SECONDS:g} s"
