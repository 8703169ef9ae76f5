"""Two schedulers, one database, 200 scheduled runs, `kill -9` of either at random: is each carried out once?

    python benchmarks/scheduled_runs.py [URL of an empty database; default: SQLite in a temporary folder]
        [--runs 200]

Both schedulers are real ones that plan, claim, beat and bury. Sixty schedules run once an hour, each at a
minute of its own, under a clock that goes on by a minute when its run is planned and few tasks wait. What is
started instead of `pyrometer run` measures nothing: it writes a journal with four replicates, and into a file
one line for each that it carries out. Whenever one of the two is killed, it is started again after a moment.
At the end the file, the journals, the tasks and the stored runs must agree: one run each, every
replicate of it once.
"""

import argparse
import json
import os
import random
import signal
import statistics
import subprocess
import sys
import tempfile
import threading
import time
from collections import Counter
from datetime import UTC, datetime, timedelta
from functools import partial
from pathlib import Path
from typing import Any

from db.connection.engine import open_database
from db.queue import queries as queue
from db.runs import queries
from scheduled_jobs.scheduler import scheduler as loop
from scheduled_jobs.scheduler.log import Log

sys.path.insert(0, str(Path(__file__).resolve().parent.parent / "tests"))

from support.fakes.pyrometer_run import plan
from support.servers.schedulers import a_service, executions, settings_of, write_header

SEED = 20261122
#: The clock waits while more tasks do.
MOST_WAITING = 4
STEP_SECONDS = 0.2
BASE = datetime(2026, 6, 1, tzinfo=UTC)
KILL_EVERY_SECONDS = (1.0, 6.0)
DOWN_SECONDS = (0.0, 1.5)
SCHEDULES = [f"minute-{minute:02}" for minute in range(60)]
TOML = "".join(
    f'[schedules.{name}]\ncron = "{minute} * * * *"\nenvironments = ["slow"]\n'
    for minute, name in enumerate(SCHEDULES)
)
_SCHEDULER = "scheduler"


def scheduler(folder: Path, url: str) -> None:
    """Be one of the two until SIGTERM."""
    loop.TICK_SECONDS = 0.2
    stop_requested = threading.Event()
    service = a_service(
        url,
        folder,
        settings_of(TOML, folder),
        Log("json", lambda: datetime.now(UTC)),
        now=partial(clock, folder),
    )

    def request_stop(*_: object) -> None:
        stop_requested.set()
        service.wake()

    signal.signal(signal.SIGTERM, request_stop)
    service.run(stop_requested.is_set)


def clock(folder: Path) -> datetime:
    """The timetable's time."""
    return BASE + timedelta(minutes=int((folder / "minutes").read_text()))


class Scheduler:
    """One of the two as a process; `log` receives its events, each with the time at which it came."""

    def __init__(self, folder: Path, url: str, log: list[tuple[float, dict[str, Any]]]) -> None:
        self.process = subprocess.Popen(
            [sys.executable, "-P", __file__, _SCHEDULER, str(folder), url], stdout=subprocess.PIPE, text=True
        )

        def listen() -> None:
            assert self.process.stdout is not None
            for line in self.process.stdout:
                log.append((time.monotonic(), json.loads(line)))

        threading.Thread(target=listen, daemon=True).start()

    def kill(self) -> None:
        """`kill -9`."""
        self.process.kill()
        self.process.wait()


def main() -> int:
    """Plan, kill, and print how it ended; 1 when something was lost or doubled."""
    parser = argparse.ArgumentParser(description="Two schedulers, one database, `kill -9` of either.")
    parser.add_argument("url", nargs="?", help="an empty database [default: SQLite]")
    parser.add_argument("--runs", type=int, default=200)
    parser.add_argument("--seed", type=int, default=SEED)
    options = parser.parse_args()
    signal.signal(signal.SIGTERM, lambda *_: sys.exit("stopped"))
    with tempfile.TemporaryDirectory(prefix="pyrometer-") as name:
        folder = Path(name)
        url = options.url or f"sqlite:///{folder}/pyrometer.db"
        return ScheduledRuns(folder, url, options.runs, random.Random(options.seed)).run()


class ScheduledRuns:
    """One run of the benchmark."""

    def __init__(self, folder: Path, url: str, runs: int, rng: random.Random) -> None:
        self.folder, self.url, self.runs, self.rng = folder, url, runs, rng
        self.database = open_database(url, timeout=30)
        self.log: list[tuple[float, dict[str, Any]]] = []
        self.kills: list[float] = []
        #: Tasks that ran when their scheduler was killed, and when that was.
        self.orphans: list[tuple[int, float]] = []
        write_header(folder)
        self.minutes = -1
        self._advance()

    def run(self) -> int:
        """Until there are enough scheduled runs and all of them are over."""
        began = time.monotonic()
        both = [self._start() for _ in range(2)]
        try:
            self._plan_and_kill(both)
            for each in both:
                each.process.terminate()
                each.process.wait()
        finally:
            for each in both:
                each.kill()
        return self._report(time.monotonic() - began)

    def _plan_and_kill(self, both: list[Scheduler]) -> None:
        # Nothing is due before all schedules were seen.
        while SCHEDULES[-1] not in queue.last_due(self.database):
            time.sleep(STEP_SECONDS)
        kill_at = time.monotonic() + KILL_EVERY_SECONDS[1]
        # Until the last one is over: it must be taken over as well.
        while len(tasks := self._tasks()) < self.runs or self._unfinished(tasks):
            time.sleep(STEP_SECONDS)
            if time.monotonic() >= kill_at:
                self._kill_one(both)
                kill_at = time.monotonic() + self.rng.uniform(*KILL_EVERY_SECONDS)
            planned, resting = len(tasks) == self.minutes, self._resting(tasks)
            few = self._unfinished(tasks) - resting <= MOST_WAITING
            # What was lost twice is taken up again only minutes later, by this clock.
            if planned and few and (len(tasks) < self.runs or resting):
                self._advance()

    def _advance(self) -> None:
        """Let the clock go on by a minute, for both at once."""
        self.minutes += 1
        partial_file = self.folder / "minutes.new"
        partial_file.write_text(str(self.minutes))
        partial_file.replace(self.folder / "minutes")

    @staticmethod
    def _unfinished(tasks: list[Any]) -> int:
        return sum(task.state in ("waiting", "running") for task in tasks)

    def _resting(self, tasks: list[Any]) -> int:
        now = clock(self.folder)
        return sum(task.state == "waiting" and (task.not_before or now) > now for task in tasks)

    def _start(self) -> Scheduler:
        return Scheduler(self.folder, self.url, self.log)

    def _kill_one(self, both: list[Scheduler]) -> None:
        number = self.rng.randrange(2)
        victim = both[number].process.pid
        moment = time.monotonic()
        both[number].kill()
        held = [task for task in queue.running_tasks(self.database) if task.job == "measure"]
        owned = [task.id for task in held if str(task.owner).split("/")[2] == str(victim)]
        self.orphans += [(task, moment) for task in owned]
        self.kills.append(moment)
        time.sleep(self.rng.uniform(*DOWN_SECONDS))
        both[number] = self._start()

    def _tasks(self) -> list[Any]:
        return queue.tasks(self.database, job="measure", newest=10 * self.runs)

    def _report(self, seconds: float) -> int:
        tasks = self._tasks()
        planned = [
            run for name in SCHEDULES for run in queue.scheduled_runs(self.database, name, newest=self.runs)
        ]
        kinds = Counter(run.kind for run in planned if run.tasks)
        carried_out = Counter(executions(self.folder))
        expected = {f"{task.run_id} {one.case}" for task in tasks for one in plan()}
        states = Counter(str(task.state) for task in tasks)
        stored = [queries.run_record(self.database, str(task.run_id)) for task in tasks]
        ends = Counter(each.ended for task in tasks for each in queue.attempts(self.database, task.id))
        twice = sum(count - 1 for count in carried_out.values())
        once = (
            carried_out.keys() == expected
            and twice == 0
            and states == {"done": len(tasks)}
            and len({task.run_id for task in tasks}) == len(tasks) == len({task.due_at for task in tasks})
            and all(run is not None and run.state == "complete" for run in stored)
            and len(list((self.folder / "runs").iterdir())) == len(tasks)
        )
        recoveries = self._recoveries()
        print(f"{self.database.name}: {seconds:.0f} s, {len(self.kills)} times kill -9")
        print(f"scheduled runs: {kinds.total()} {dict(kinds)}")
        print(f"tasks: {dict(states)}; attempts: {dict(ends)}")
        print(f"runs: {len(stored)}; replicates carried out: {carried_out.total()} of {len(expected)}")
        print(f"carried out twice: {twice}; never: {len(expected - carried_out.keys())}")
        if recoveries:
            middle, longest = statistics.median(recoveries), max(recoveries)
            print(f"taken over: {len(recoveries)}, after {middle:.1f} s (median), {longest:.1f} s at most")
        print("each once" if once else "NOT each once")
        return 0 if once else 1

    def _recoveries(self) -> list[float]:
        """For each task whose scheduler was killed: how long until another one had it."""
        claims = [(moment, each["task"]) for moment, each in self.log if each["event"] == "claimed"]
        return [
            min(moment - killed for moment, task in claims if task == orphan and moment > killed)
            for orphan, killed in self.orphans
            if any(task == orphan and moment > killed for moment, task in claims)
        ]


if __name__ == "__main__":
    os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")
    if sys.argv[1:2] == [_SCHEDULER]:
        sys.exit(scheduler(Path(sys.argv[2]), sys.argv[3]))
    sys.exit(main())
