"""What dies in the middle of a case: when that is noticed, who goes on, whether each case is there once."""

import os
import signal
import time
from collections.abc import Iterable
from dataclasses import dataclass

import psutil
from nodes.head import until
from nodes.night import Night

from records.tasks import Task, machine_of
from support.servers.ray_fleet import Member

_WORKER = r"^\S+ -I \S+harness-[0-9a-f-]+\.zip serve"
_RUN = r"cli\.app.*run .*--run-id|cli\.app.*run .*--resume"


@dataclass(frozen=True, slots=True)
class Death:
    """Seconds from the deed until it was noticed, until another attempt began and until all was done.

    `ways` are how the attempts ended and on which node, in their order.
    """

    what: str
    noticed: float
    again: float | None
    done: float
    ways: str
    cases: str
    left: int


def deaths(night: Night) -> Iterable[Death]:
    """One after the other, each with a task of its own."""
    for what, kill in (
        ("a measured process, kill -9", _kill_worker),
        ("`pyrometer run` on a node, kill -9", _kill_run),
        ("a whole node, kill -9 of everything", _kill_node),
        ("a node frozen for 100 s (SIGSTOP)", _freeze_node),
        ("`pyrometer fleet head`, kill -9 of everything", _kill_head),
        ("the scheduler, kill -9", _kill_scheduler),
    ):
        yield kill(night, what)


def processes_of(member: Member) -> list[psutil.Process]:
    """Everything that runs for a machine: all that was given its folder as home."""
    found: list[psutil.Process] = []
    for process in psutil.process_iter():
        try:
            own = process.environ().get("HOME") == str(member.folder)
        except (psutil.NoSuchProcess, psutil.AccessDenied):
            continue
        if own and process.pid != os.getpid() and process.status() != psutil.STATUS_ZOMBIE:
            found.append(process)
    return found


class _Watch:
    """A task in the middle of a case, on a node, and the time since something was done to it."""

    def __init__(self, night: Night, what: str) -> None:
        self.night, self.what = night, what
        (self.task,) = night.trigger("slow")
        until(lambda: self.outcomes() >= 1, "its first case is measured")
        self.member = night.fleet.members[machine_of(night.tried(self.task)[-1].owner)]
        until(lambda: self.member.below(_WORKER), "a case is under way")
        time.sleep(1.5)
        self.attempts = len(night.tried(self.task))
        self.began = time.monotonic()

    def outcomes(self) -> int:
        """Outcomes in the journal that the head has."""
        return self.night.mirrored(self.task)

    def noticed(self) -> float:
        """Until the attempt is over."""
        over = lambda: self.night.tried(self.task)[self.attempts - 1].ended  # noqa: E731
        return until(over, "it is noticed") - self.began

    def again(self) -> float:
        """Until there is another."""
        return (
            until(lambda: len(self.night.tried(self.task)) > self.attempts, "it is tried again") - self.began
        )

    def end(self, noticed: float, again: float | None) -> Death:
        """Wait for the end of the task, and look what there is."""
        done = until(lambda: self._task().state == "done", "the task is done") - self.began
        measured = self.night.measured(self.task)
        cases = {outcome.case for outcome in measured}
        statuses = sorted({outcome.status for outcome in measured})
        summary = f"{len(measured)} outcomes of {len(cases)} cases: {', '.join(statuses)}"
        ways = "; ".join(
            f"{each.ended or 'runs'} on {machine_of(each.owner)}" for each in self.night.tried(self.task)
        )
        left = sum(bool(member.below(_WORKER)) for member in self._others())
        return Death(self.what, noticed, again, done, ways, summary, left)

    def _others(self) -> list[Member]:
        living = [each for each in self.night.fleet.members.values() if each.process.poll() is None]
        return [each for each in living if each.name != "head"]

    def _task(self) -> Task:
        return self.night.now(self.task)


def _kill_worker(night: Night, what: str) -> Death:
    with night.scheduler("--no-measuring"):
        watch = _Watch(night, what)
        before = watch.outcomes()
        for process in watch.member.below(_WORKER):
            process.kill()
        noticed = until(lambda: watch.outcomes() > before, "its outcome is there") - watch.began
        return watch.end(noticed, None)


def _kill_run(night: Night, what: str) -> Death:
    with night.scheduler("--no-measuring"):
        watch = _Watch(night, what)
        for process in watch.member.below(_RUN):
            process.kill()
        return watch.end(watch.noticed(), watch.again())


def _kill_node(night: Night, what: str) -> Death:
    with night.scheduler("--no-measuring"):
        watch = _Watch(night, what)
        _signal(processes_of(watch.member), signal.SIGKILL)
        death = watch.end(watch.noticed(), watch.again())
        watch.member.process.wait()
        night.begin(watch.member.name)
        return death


def _freeze_node(night: Night, what: str) -> Death:
    with night.scheduler("--no-measuring"):
        watch = _Watch(night, what)
        frozen = processes_of(watch.member)
        _signal(frozen, signal.SIGSTOP)
        noticed, again = watch.noticed(), watch.again()
        time.sleep(max(0.0, 100.0 - (time.monotonic() - watch.began)))
        _signal(frozen, signal.SIGCONT)
        death = watch.end(noticed, again)
        _returned(night, watch.member)
        return death


def _kill_head(night: Night, what: str) -> Death:
    with night.scheduler("--no-measuring") as scheduler:
        watch = _Watch(night, what)
        head = night.fleet.members["head"]
        mine = {scheduler.pid, *(each.pid for each in psutil.Process(scheduler.pid).children(recursive=True))}
        _signal([each for each in processes_of(head) if each.pid not in mine], signal.SIGKILL)
        head.process.wait()
        noticed = watch.noticed()
        night.fleet.start_head()
        for member in list(watch.night.fleet.members.values()):
            if member.name != "head":
                _returned(night, member)
        return watch.end(noticed, watch.again())


def _kill_scheduler(night: Night, what: str) -> Death:
    first = night.schedule("--no-measuring")
    watch = _Watch(night, what)
    first.kill()
    first.wait()
    with night.scheduler("--no-measuring"):
        return watch.end(watch.noticed(), watch.again())


def _returned(night: Night, member: Member) -> None:
    """What systemd does: a node that left is started again."""
    member.process.wait(180)
    night.begin(member.name)


def _signal(processes: Iterable[psutil.Process], number: int) -> None:
    for process in processes:
        try:
            process.send_signal(number)
        except psutil.NoSuchProcess:
            continue


def describe_death(found: Death) -> str:
    """A row of the table."""
    again = "-" if found.again is None else f"{found.again:.0f} s"
    return (
        f"{found.what:48s} noticed {found.noticed:5.1f} s  again {again:>6s}  done {found.done:5.0f} s  "
        f"{found.cases}; attempts: {found.ways}; nodes that still measure: {found.left}"
    )
