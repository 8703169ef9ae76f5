"""A night of many machines through one head: what it costs, and what grows first.

    python benchmarks/fleet_simulation.py [--machines 10,100,1000] [--cases 300] [--seconds 300] [--postgres]

Everything of the head is real: the service with its slots and claims, the hosts with their looks every two
seconds, the mirrored journals with their fsyncs, the ingest of each run, and the database. The nodes are not:
what stands for the engine answers for all of them from arithmetic, at once, so transport costs nothing here.
Each machine has one task, a run of so many cases with three replicates, whose outcomes appear evenly over
about so many seconds, a tenth more or less. A real night takes longer and has as many outcomes: what is paid
by the second (looks, beats) and what is paid by the run are printed apart, and the last line adds them up for
a night of eight hours.
"""

import argparse
import json
import random
import shutil
import sys
import tempfile
import threading
import time
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field
from datetime import UTC, datetime
from functools import partial
from pathlib import Path
from typing import Any

import psutil
from sqlalchemy import event

sys.path.append(str(Path(__file__).resolve().parent.parent / "tests"))
from configuration.settings import Settings, load_settings
from db.connection.engine import Database, open_database
from db.queue.queries import tasks
from db.runs.queries import run_ids
from fleet.engine import CHUNK_BYTES, Chunk, EngineNode, NodeJournal, Order, OrderPaths
from fleet.hosts import FleetHosts
from records.outcomes import Outcome, Planned
from runner.journal import FILE, Journal
from runner.session_plan import Timing
from scheduled_jobs.jobs.context import CONTROL_JOBS, ChildExit, JobResult
from scheduled_jobs.jobs.measure import measure
from scheduled_jobs.scheduler import scheduler
from scheduled_jobs.scheduler.log import Log
from scheduled_jobs.scheduler.planner import trigger_schedule
from scheduled_jobs.scheduler.worker_pool import WorkerSlot
from support.servers.postgres import PostgresServer, postgres_binaries
from workflows.run_header import Header

REPLICATES = 3
#: What a replicate leaves: samples, and metrics by name.
SAMPLES = 50
METRICS = ("latency", "latency_floor", "latency_min", "throughput", "rss_peak", "cpu_busy", "foreign_cpu")
ENVIRONMENT = "an-environment"
NIGHT_SECONDS = 8 * 3600
#: The steady state is looked at for at most so long, from when all have begun.
STEADY_SECONDS = 60.0
JITTER = 0.1
SEED = 9


@dataclass(slots=True)
class _Child:
    """A run on a node: its journal, where each line ends, when it began and when it ends."""

    journal: bytes
    ends: Sequence[int]
    began: float
    seconds: float

    def known(self, now: float) -> int:
        """How many bytes of the journal are written by now."""
        share = min(1.0, (now - self.began) / self.seconds)
        return self.ends[min(len(self.ends) - 1, int(share * (len(self.ends) - 1)))]


@dataclass(slots=True)
class Nodes:
    """An engine (`fleet.engine.Engine`) whose nodes are made up."""

    names: Sequence[str]
    lines: Sequence[bytes]
    header: Mapping[str, Any]
    seconds: float
    looks: int = 0
    children: dict[str, _Child] = field(default_factory=dict[str, _Child])
    closed: threading.Event = field(default_factory=threading.Event)

    def nodes(self) -> Sequence[EngineNode]:
        """All of them, always."""
        return [EngineNode(name, name, {"kind": f"k{number % 4}"}) for number, name in enumerate(self.names)]

    def describe(self, node: str) -> Mapping[str, Any]:
        """What a node reports about itself."""
        about = {"machine": node, "labels": [], "version": "simulated", "python": "3.11", "folder": "/"}
        return {**about, "idle": True, "notes": [], "examined": True}

    def submit(self, order: Order) -> "_Simulated":
        """Begin a run."""
        if order.token not in self.children:
            machine = {**self.header["machine"], "name": order.node, "fingerprint": f"machine-{order.node}"}
            header = {**self.header, "run": order.run, "machine": machine}
            lines = [journal_line({**header, "started_at": datetime.now(UTC).isoformat()}), *self.lines]
            ends, at = [], 0
            for line in lines:
                at += len(line)
                ends.append(at)
            rng = random.Random(f"{SEED} {order.node}")
            seconds = self.seconds * rng.uniform(1 - JITTER, 1 + JITTER)
            self.children[order.token] = _Child(b"".join(lines), ends, time.monotonic(), seconds)
        return _Simulated(self, order.token)

    def runs(self, node: str) -> Sequence[NodeJournal]:
        """None from before."""
        return []

    def read(self, node: str, offsets: Mapping[str, int], *, final: bool) -> Mapping[str, Chunk]:
        """What the journal has more; the logs are empty."""
        found: dict[str, Chunk] = {}
        for path, at in offsets.items():
            token, _, name = path.partition("/")
            child = self.children[token]
            known = child.known(time.monotonic()) if name == "journal" else 0
            data = child.journal[at : min(known, at + CHUNK_BYTES)]
            found[path] = Chunk(data, more=at + len(data) < known)
        return found

    def close(self) -> None:
        """Let those who wait go on."""
        self.closed.set()


class _Simulated:
    """A run under way."""

    def __init__(self, nodes: Nodes, token: str) -> None:
        self._nodes, self._child, self.wait_reason = nodes, nodes.children[token], ""
        self.paths = OrderPaths(f"{token}/log", f"{token}/events", f"{token}/journal")

    def done(self, seconds: float = 0.0) -> bool:
        """Whether its time is over."""
        self._nodes.looks += 1
        end = self._child.began + self._child.seconds
        self._nodes.closed.wait(min(seconds, max(0.0, end - time.monotonic())))
        return time.monotonic() >= end

    def result(self) -> ChildExit:
        """All goes well."""
        return ChildExit(0, None, "")

    def cancel(self) -> None:
        """It ends by itself."""


def journal_line(header: Mapping[str, Any]) -> bytes:
    """A header as the journal writes it."""
    with tempfile.TemporaryDirectory(dir="/dev/shm") as folder:
        with Journal(Path(folder)) as journal:
            journal.header(header)
        return (Path(folder) / FILE).read_bytes()


def template(cases: int) -> tuple[Mapping[str, Any], list[bytes]]:
    """The header of such a run, and the lines behind it."""
    rng = random.Random(SEED)
    names = [f"case{number}/infer/batch=8/eager" for number in range(cases)]
    planned = [Planned(name, ENVIRONMENT, n) for n in range(REPLICATES) for name in names]
    described = {
        "fingerprint": ENVIRONMENT,
        "name": "nothing",
        "python": "python",
        "facts": {"torch": "2.13.0+cpu", "python": "3.11.7", "fingerprint": ENVIRONMENT},
    }
    header = Header(
        run="run",
        suite="nightly",
        started_at=datetime.now(UTC).isoformat(),
        command="pyrometer run",
        machine={
            "fingerprint": "machine",
            "name": "machine",
            "hardware_fingerprint": "made-up",
            "hardware_label": "made up",
            "hardware": {"cpu": "made up", "cores": 2},
            "conditions": {"driver": "none", "kernel": "6.8.0"},
        },
        environments=(described,),
        preset={"fingerprint": "quiet", "name": "quiet", "settings": {}},
        harness="made-up",
        harness_path="made-up.zip",
        user_version="",
        timing=asdict(Timing()),
        device="cpu",
        budget_seconds=3600.0,
        planned=tuple((one.case, one.environment, one.replicate) for one in planned),
    )
    with tempfile.TemporaryDirectory(dir="/dev/shm") as folder:
        with Journal(Path(folder)) as journal:
            for one in planned:
                journal.outcome(_outcome(one, rng))
            journal.ended({"at": datetime.now(UTC).isoformat(), "state": "complete"})
        lines = (Path(folder) / FILE).read_bytes().splitlines(keepends=True)
    return header.to_body(), lines


def _outcome(one: Planned, rng: random.Random) -> Outcome:
    blocks = (tuple(round(rng.gauss(1e7, 1e5)) for _ in range(SAMPLES)),)
    metrics = {name: rng.uniform(1, 100) for name in METRICS}
    now = datetime.now(UTC)
    about = (one.case, one.environment, one.replicate)
    return Outcome(*about, "ok", started_at=now, wall_seconds=9.0, metrics=metrics, blocks=blocks)


class Counted:
    """CPU seconds of this process and of a database server, and how many statements were sent."""

    def __init__(self, server: int | None) -> None:
        self.statements = 0
        self._server = None if server is None else psutil.Process(server)
        self._gone: dict[int, float] = {}

    def open(self, url: str) -> Database:
        """A database whose statements are counted."""
        database = open_database(url, timeout=60)
        event.listen(database.engine, "before_cursor_execute", self._count)
        return database

    def now(self) -> tuple[float, float, int]:
        """Head's CPU, the server's, statements."""
        return time.process_time(), self._of_server(), self.statements

    def _count(self, *_: Any) -> None:
        self.statements += 1

    def _of_server(self) -> float:
        if self._server is None:
            return 0.0
        for one in (self._server, *self._server.children(recursive=True)):
            try:
                times = one.cpu_times()
            except psutil.Error:
                continue
            self._gone[one.pid] = max(self._gone.get(one.pid, 0.0), times.user + times.system)
        return sum(self._gone.values())


class Night:
    """One night of so many machines."""

    def __init__(self, folder: Path, url: str, machines: int, nodes: Nodes, counted: Counted) -> None:
        self._folder, self._url, self._machines, self._nodes = folder, url, machines, nodes
        self._counted = counted
        labels = json.dumps([f"m{number:04}" for number in range(machines)])
        (folder / "pyrometer.toml").write_text(
            f'[schedules.night]\ncron = "0 0 1 1 *"\nenvironments = ["nothing"]\nmachines = {labels}\n'
        )
        self._settings: Settings = load_settings(cwd=folder, environ={})

    def live(self) -> str:
        """Fire, measure, store; answers the row."""
        opened = partial(self._counted.open, self._url)
        with opened() as database:
            trigger_schedule(database, self._settings, "night", datetime.now(UTC))
        hosts = FleetHosts(self._nodes, self._folder, opened, lambda sentence: print(sentence, flush=True))
        around = scheduler.SchedulerConfig(
            settings=lambda: self._settings,
            data_dir=self._folder,
            open_database=opened,
            machine="head",
            labels=("head",),
            jobs={"measure": measure, "detect": lambda task, context: JobResult()},
            log=Log("json", lambda: datetime.now(UTC), (self._folder / "events").open("w")),
            now=lambda: datetime.now(UTC),
            version="benchmark",
        )
        service = scheduler.Service(around, [WorkerSlot("thinking", CONTROL_JOBS)], hosts)
        over = threading.Event()
        thread = threading.Thread(target=lambda: service.run(over.is_set))
        began = time.monotonic()
        thread.start()
        try:
            return self._watch(began)
        finally:
            over.set()
            service.wake()
            thread.join()

    def _watch(self, began: float) -> str:
        whole = self._counted.now()
        while len(self._nodes.children) < self._machines:
            time.sleep(0.1)
        started = time.monotonic() - began
        before, looks, at = self._counted.now(), self._nodes.looks, time.monotonic()
        first_end = min(child.began + child.seconds for child in self._nodes.children.values())
        time.sleep(max(1.0, min(STEADY_SECONDS, first_end - time.monotonic() - 1)))
        after, passed = self._counted.now(), time.monotonic() - at
        looks = self._nodes.looks - looks
        memory = psutil.Process().memory_info().rss / 2**20
        last_end = max(child.began + child.seconds for child in self._nodes.children.values())
        with open_database(self._url, timeout=60) as database:
            while True:
                done = len(tasks(database, job="measure", state="done", newest=10**6))
                failed = len(tasks(database, job="measure", state="failed", newest=10**6))
                if done + failed >= self._machines:
                    break
                time.sleep(0.5)
            stored = len(list(run_ids(database)))
        late = time.monotonic() - last_end
        end = self._counted.now()
        head, server, statements = ((b - a) / passed for a, b in zip(before, after, strict=True))
        night = time.monotonic() - began
        in_all = [b - a for a, b in zip(whole, end, strict=True)]
        # What is not paid by the second is paid by the run: claims, mirrors' lines, ingest.
        by_run = [
            (total - rate * night) / self._machines
            for total, rate in zip(in_all, (head, server), strict=False)
        ]
        hours = [
            rate * NIGHT_SECONDS + each * self._machines
            for rate, each in zip((head, server), by_run, strict=True)
        ]
        return (
            f"{self._machines:8} {done:5}/{failed} {stored:6} {started:9.1f} {looks / passed:7.0f} "
            f"{1000 * head:9.0f} {1000 * server:9.0f} {statements:9.0f} {memory:7.0f} "
            f"{by_run[0]:9.2f} {by_run[1]:9.2f} {late:8.1f} "
            f"{100 * hours[0] / NIGHT_SECONDS:9.1f} {100 * hours[1] / NIGHT_SECONDS:9.1f}"
        )


HEADS = (
    "machines  done/failed stored start[s] looks/s  head[ms/s]  db[ms/s]  stmts/s  RSS[MiB] "
    "head/run[s] db/run[s] late[s] night head[%] db[%]"
)


def main() -> None:
    """Print a row for each size."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--machines", default="10,100,1000")
    parser.add_argument("--cases", type=int, default=300)
    parser.add_argument("--seconds", type=float, default=300.0)
    parser.add_argument("--postgres", action="store_true", help="a server of its own instead of SQLite")
    options = parser.parse_args()
    header, lines = template(options.cases)
    print(f"a run: {options.cases * REPLICATES} outcomes, {sum(map(len, lines)) / 2**20:.1f} MiB of journal")
    print(HEADS, flush=True)
    for machines in map(int, options.machines.split(",")):
        folder = Path(tempfile.mkdtemp(prefix="fleet-simulation-"))
        server = None
        try:
            folder.chmod(0o755)
            url = f"sqlite:///{folder / 'night.db'}"
            if options.postgres:
                server = _server(folder / "server")
                url = server.new_database()
            nodes = Nodes([f"m{number:04}" for number in range(machines)], lines, header, options.seconds)
            counted = Counted(None if server is None else _pid(server))
            with open_database(url, timeout=60):
                pass
            print(Night(folder, url, machines, nodes, counted).live(), flush=True)
        finally:
            if server is not None:
                server.stop()
            shutil.rmtree(folder, ignore_errors=True)


def _server(folder: Path) -> PostgresServer:
    binaries = postgres_binaries()
    if binaries is None:
        raise SystemExit("postgres: no initdb under /usr/lib/postgresql or on PATH")
    folder.mkdir()
    server = PostgresServer(binaries, folder, durable=True)
    server.execute("ALTER SYSTEM SET max_connections = 400")
    server.stop()
    server.start()
    return server


def _pid(server: PostgresServer) -> int:
    return int((server.folder / "data" / "postmaster.pid").read_text().split()[0])


if __name__ == "__main__":
    main()
