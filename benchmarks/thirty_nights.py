"""Thirty nights on a fast clock, with planted problems: what was reported, what was not, and why.

    python benchmarks/thirty_nights.py [--nights N] [--folder FOLDER]

Real schedulers, as processes of their own, share a real database: one on the machine that measures, one in an
office that only plans and reports. Timetable, queue, detection, confirmation, triage and digests are the
product's; only the numbers are made up (`made_up_machine.py`), and the clock is a file. The machine is killed
for its outage.
"""

import argparse
import math
import os
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from pathlib import Path

from made_up_machine import BERT, DRIFTING, HIDDEN, RESNET, VISION

from configuration.settings import load_settings
from db.connection.engine import Database, open_database
from db.findings import store as stored
from db.findings.notices import notices
from db.findings.store import findings
from db.queue.queries import scheduled_runs, schedulers, tasks
from records.findings import Finding
from reports.text.finding_text import because
from scheduled_jobs.jobs.context import CONTROL_JOBS
from scheduled_jobs.jobs.registry import JOBS
from scheduled_jobs.scheduler import scheduler
from scheduled_jobs.scheduler.log import Log
from scheduled_jobs.scheduler.scheduler import SchedulerConfig, Service
from scheduled_jobs.scheduler.worker_pool import WorkerSlot
from workflows.fleet_status import MEASURING

BENCH, OFFICE = "bench-1", "office"
#: No machine in these nights: its power is cut before them and comes back after them.
OUTAGE = (14, 15)
#: The first night of a second schedule, which pins no baseline.
YOUNG = 8
CHILD = Path(__file__).with_name("made_up_machine.py")
START = datetime(2026, 9, 1, tzinfo=UTC)
TOML = f"""
[schedules.nightly]
cron = "30 2 * * *"
environments = ["nightly", "2.13.0"]
baseline = "2.13.0"
machines = ["{BENCH}"]

[schedules.young]
cron = "30 3 {YOUNG}-30 9 *"
environments = ["nightly"]
machines = ["{BENCH}"]

[schedules.digest]
cron = "0 8 * * *"
job = "digest"

[schedules.check]
cron = "0 9 * * *"
job = "check"

[schedules.discover]
cron = "0 0 1 1 *"
job = "discover"
enabled = false
"""


@dataclass(frozen=True, slots=True)
class Planted:
    """Something that goes wrong: when, what, and by which case or which word of a digest it is known."""

    night: int
    what: str
    case: str = ""
    word: str = ""
    nights: int = 3


PLANTED = (
    Planted(5, "PyTorch: gpt2 0.4 % slower every night from here on", case=DRIFTING, nights=25),
    Planted(11, "PyTorch: bert 12 % slower; muted by people once it was reported", case=BERT),
    Planted(12, "PyTorch: resnet50 8 % slower, eager", case=RESNET[0]),
    Planted(12, "PyTorch: resnet50 8 % slower, compiled", case=RESNET[1]),
    Planted(14, "the machine has no power for two nights", word="is silent"),
    Planted(17, "another program at work: vit 6 % slower for three nights", case=VISION),
    Planted(20, "PyTorch: bert, which is muted, another 10 % slower", case=BERT),
    Planted(21, "the machine: a new driver, everything 3 % slower", word="driver"),
    Planted(21, "PyTorch: unet 8 % slower, on the night of that driver", case=HIDDEN),
    Planted(21, "the same where no baseline is: by how much levels moved", word="not judged"),
    Planted(23, "PyTorch: resnet50 as it was, eager; people say it is fixed", case=RESNET[0]),
    Planted(23, "PyTorch: resnet50 as it was, compiled", case=RESNET[1]),
    Planted(25, "PyTorch: lstm crashes from now on", word="lstm"),
    Planted(27, "PyTorch: resnet50 8 % slower again, eager", case=RESNET[0]),
    Planted(27, "PyTorch: resnet50 8 % slower again, compiled", case=RESNET[1]),
    Planted(28, "the machine: a third of the processes throttled", word="throttled"),
)


def main() -> None:
    """Simulate, print each night, then what became of what was planted."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--nights", type=int, default=30)
    parser.add_argument("--folder", type=Path)
    parser.add_argument("--be", choices=(BENCH, OFFICE), help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.be:
        _be(options.folder, options.be)
        return
    with tempfile.TemporaryDirectory() as temporary:
        folder = options.folder or Path(temporary)
        folder.mkdir(parents=True, exist_ok=True)
        (folder / "pyrometer.toml").write_text(TOML)
        World(folder).live(options.nights)


def _be(folder: Path, machine: str) -> None:
    """One scheduler, until it is killed."""
    scheduler.TICK_SECONDS, scheduler.BEAT_SECONDS = 0.05, 0.2
    clock, data = folder / "clock", folder / machine

    def now() -> datetime:
        return datetime.fromisoformat(clock.read_text())

    os.environ |= {"MADE_UP_CLOCK": str(clock), "MADE_UP_DATA": str(data), "MADE_UP_MACHINE": machine}
    settings = load_settings(cwd=folder, environ={})
    around = SchedulerConfig(
        settings=lambda: settings,
        data_dir=data,
        open_database=lambda: open_database(settings.database_url),
        machine=machine,
        labels=(machine,),
        jobs=JOBS,
        log=Log("json", now),
        now=now,
        version="simulated",
        command=(sys.executable, str(CHILD)),
    )
    slots = [WorkerSlot("measuring", MEASURING)] if machine == BENCH else []
    Service(around, [*slots, WorkerSlot("thinking", CONTROL_JOBS)]).run(lambda: False)


class World:
    """The clock, both schedulers, and the people who read the reports."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._processes: dict[str, subprocess.Popen[bytes]] = {}
        self._printed: set[tuple[str, str]] = set()
        self._set(START)
        self._database = open_database(load_settings(cwd=folder, environ={}).database_url)

    def live(self, nights: int) -> None:
        """All nights, one after the other."""
        for one in PLANTED:
            print(f"planted from night {one.night:2d}: {one.what}")
        with self._power(OFFICE), self._database:
            self._start(BENCH)
            for night in range(1, nights + 1):
                if night == OUTAGE[0]:
                    self._kill(BENCH)
                if night == OUTAGE[-1] + 1:
                    self._start(BENCH)
                self._night(night)
            self._kill(BENCH)
            _report(self._database)

    def _night(self, night: int) -> None:
        day = START + timedelta(days=night - 1)
        young = ((3, 30, "young"),) if night >= YOUNG else ()
        for hours, minutes, due in ((2, 30, "nightly"), *young, (8, 0, "digest"), (9, 0, "check")):
            moment = day + timedelta(hours=hours, minutes=minutes)
            # A live scheduler is seen shortly before, as it would be on a clock that does not jump.
            self._set(moment - timedelta(minutes=1))
            self._until(lambda before=moment - timedelta(minutes=2): self._seen(before), "seen")
            self._set(moment)
            self._until(lambda name=due, at=moment: self._over(name, at), due)
            self._print(night, moment)
        self._people(night)

    def _people(self, night: int) -> None:
        """What the readers of digests do about what they read."""
        confirmed = findings(self._database, states=("confirmed",), triage=("open",))
        for one in confirmed:
            at = self._now()
            if one.key.case == BERT and night < 20 and one.muted_until is None:
                stored.triage(
                    self._database, one.id, "mute", "ada", "known, wait for 2.16", at + timedelta(days=60), at
                )
                print(f"night {night:2d}        ada mutes {_named(one)} for 60 days")
            if one.key.case.startswith("resnet50") and one.direction == "worse" and night == 25:
                stored.triage(self._database, one.id, "fixed", "ada", "repaired upstream", None, at)
                print(f"night {night:2d}        ada says that {_named(one)} is fixed")

    def _print(self, night: int, moment: datetime) -> None:
        for one in reversed(notices(self._database, 50)):
            if (one.kind, one.key) not in self._printed:
                self._printed.add((one.kind, one.key))
                print(f"night {night:2d} {moment:%H:%M}  {one.title}")
                for line in str(one.facts["text"]).splitlines():
                    if line.strip() and one.kind == "digest" and not one.facts.get("quiet"):
                        print(f"                   | {line}")
        sys.stdout.flush()

    def _over(self, name: str, moment: datetime) -> bool:
        if not any(run.due_at == moment for run in scheduled_runs(self._database, name, 5)):
            return False
        waiting = [one for state in ("waiting", "running") for one in tasks(self._database, state=state)]
        return all(one.label == BENCH and BENCH not in self._processes for one in waiting)

    def _seen(self, since: datetime) -> bool:
        seen = {one.machine: one.seen_at for one in schedulers(self._database)}
        return all(machine in seen and seen[machine] >= since for machine in self._processes)

    def _until(self, done: Callable[[], bool], what: str) -> None:
        patience = time.monotonic() + 300.0
        while not done():
            if time.monotonic() > patience:
                raise SystemExit(f"still waiting for {what} at {self._now()}; see {self._folder}")
            time.sleep(0.05)

    def _now(self) -> datetime:
        return datetime.fromisoformat((self._folder / "clock").read_text())

    def _set(self, moment: datetime) -> None:
        partial = self._folder / ".clock"
        partial.write_text(moment.isoformat())
        partial.replace(self._folder / "clock")

    @contextmanager
    def _power(self, machine: str) -> Iterator[None]:
        self._start(machine)
        try:
            yield
        finally:
            for one in list(self._processes):
                self._kill(one)

    def _start(self, machine: str) -> None:
        log = (self._folder / f"{machine}.log").open("ab")
        command = [sys.executable, __file__, "--be", machine, "--folder", str(self._folder)]
        self._processes[machine] = subprocess.Popen(command, stdout=log, stderr=log)

    def _kill(self, machine: str) -> None:
        process = self._processes.pop(machine, None)
        if process is not None:
            process.send_signal(signal.SIGKILL)
            process.wait()


def _named(one: Finding) -> str:
    return f"{one.key.case} ({100 * math.expm1(one.change):+.1f} %, {one.state})"


def _report(database: Database) -> None:
    """What became of what was planted, and whatever else was found."""
    found = sorted(findings(database, newest=1000), key=lambda one: one.id)
    digests = [one for one in reversed(notices(database, 500)) if one.kind == "digest"]
    reported_at = {number: one.key for one in reversed(digests) for number in one.facts["ids"]}
    explained: set[int] = set()
    print("\nwhat became of it:")
    for planted in PLANTED:
        first = (START + timedelta(days=planted.night - 1)).date()
        last = first + timedelta(days=planted.nights)
        if planted.word:
            mentioned = [one.key for one in digests if one.key >= str(first) and planted.word in one.body]
            print(
                f"night {planted.night:2d} {planted.what}: "
                + (f"reported on {mentioned[0]}" if mentioned else "NOT REPORTED")
            )
            continue
        # The place of a change is estimated, and may be a night early.
        begin = first - timedelta(days=1)
        own = [one for one in found if one.key.case == planted.case and begin <= one.at.date() < last]
        own = [one for one in own if one.id not in explained]
        explained |= {one.id for one in own}
        print(f"night {planted.night:2d} {planted.what}:{'' if own else ' no finding'}")
        for one in own:
            print(f"          {_fate(one, reported_at.get(one.id))}")
    print("\nfound and not planted:")
    for one in found:
        if one.id not in explained:
            print(f"          {one.key.case} {_fate(one, reported_at.get(one.id))}")


def _fate(one: Finding, night: str | None) -> str:
    why = because(one.state, one.evidence)
    people = "" if one.triage == "open" and one.muted_until is None else f", {one.triage}"
    muted = ", muted" if one.muted_until else ""
    change = f"{100 * math.expm1(one.change):+.1f} % {one.shape}"
    reported = f"reported on {night}" if night else "not reported"
    return (
        f"finding {one.id} of {one.schedule}, {one.track}: {change} from {one.at:%m-%d}, "
        f"found {one.found_at:%m-%d}, {one.state}{people}{muted}{f' ({why})' if why else ''}: {reported}"
    )


if __name__ == "__main__":
    main()
