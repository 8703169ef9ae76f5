"""A folder in which the real command runs: settings, quick cases, a lock and a database of its own."""

import ctypes
import json
import os
import subprocess
import sys
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeVar

import pytest

from records.outcomes import Measurement, Outcome
from runner import journal
from support.sqlite_files import sqlite_with_tables
from support.waiting import PATIENCE_SECONDS, until

ROOT = Path(__file__).resolve().parents[2]
COMMAND = Path(sys.executable).with_name("pyrometer")
#: Names the folder of the lock that has one run at a time measure this machine.
LOCK_FOLDER = "PYROMETER_TEST_LOCK_FOLDER"
#: What tests compile is small: to try instruction sets and to compile headers took most of the time.
INDUCTOR = {"TORCHINDUCTOR_VEC_ISA_OK": "1", "TORCHINDUCTOR_CPP_CACHE_PRECOMPILE_HEADERS": "0"}
#: A record that names its case.
Row = TypeVar("Row", Outcome, Measurement)

ADD = "add/infer/size=8/eager"
LINEAR = "linear/infer/width=8/eager"
RAISES = "raises/infer/-/eager"
WOBBLES = "wobbles/infer/width=8/eager"

CASES = '''"""Cases of microseconds, and some that go wrong."""

import torch
from runner.worker.case import Workload, case
from torch import nn


@case(size=[8])
def add(size):
    """One addition."""
    ones = torch.ones(size)
    return lambda: ones + ones


@case(phases=("infer", "train"), width=[8])
def linear(width):
    """One small layer."""
    layer = nn.Linear(width, width)
    inputs = (torch.randn(4, width),)
    flops = 2.0 * 4 * width * width
    return Workload(layer, inputs, items=4, flops=flops, loss=lambda out: out.square().mean())


@case()
def raises():
    """Cannot be built."""
    raise RuntimeError("no such weather")


class Wobble(nn.Module):
    def forward(self, x):
        return x * torch.rand(())


@case(width=[8])
def wobbles(width):
    """Never the same answer twice."""
    return Workload(Wobble(), (torch.ones(1, width),), items=1)
'''

SUITES = f"""
[suites.quick]
cases = ["{ADD}", "{LINEAR}"]
replicates = 2
measure_seconds = 0.05
warm_up_max_seconds = 0.1

[suites.mixed]
cases = ["{ADD}", "{LINEAR}", "{RAISES}", "{WOBBLES}"]
replicates = 2
measure_seconds = 0.05
warm_up_max_seconds = 0.1

[suites.long]
cases = ["{ADD}", "{LINEAR}"]
replicates = 6
measure_seconds = 0.05
warm_up_max_seconds = 0.1
"""


#: Of <linux/prctl.h> and <linux/capability.h>.
_PR_CAPBSET_DROP, _CAP_DAC_OVERRIDE = 24, 1


def obey_permissions() -> None:
    """Root may write wherever it likes, unless it gives that up before it becomes the command."""
    if os.geteuid() == 0:
        ctypes.CDLL(None).prctl(_PR_CAPBSET_DROP, _CAP_DAC_OVERRIDE, 0, 0, 0)


def measured_python() -> Path:
    """The interpreter to measure; skips the test where there is none, fails it where all must run."""
    given = os.environ.get("PYROMETER_TEST_PYTHON")
    python = Path(given) if given else ROOT / ".pyrometer/environments/default/bin/python"
    if not python.exists():
        unavailable(f"no measured environment at {python}: run `make setup` or set PYROMETER_TEST_PYTHON")
    return python


def run_snippet(snippet: Path) -> Any:
    """Run a file under the measured interpreter, our root on its `sys.path`; returns the JSON it prints."""
    # One thread: the machine may be busy with other tests, and sums then have one order.
    settings = {"PYTHONPATH": str(ROOT), "OMP_NUM_THREADS": "1"}
    command, environ = [str(measured_python()), str(snippet)], {**os.environ, **INDUCTOR, **settings}
    done = subprocess.run(command, env=environ, cwd=ROOT, capture_output=True, text=True)
    if done.returncode != 0:
        sys.stderr.write(done.stderr)
        last = done.stderr.strip().splitlines()[-1:]
        pytest.fail(f"{snippet.name} ended with {done.returncode}: {last}")
    return json.loads(done.stdout)


def unavailable(reason: str) -> None:
    """Skip the test, or fail it where PYROMETER_TEST_REQUIRE_ALL is 1."""
    if os.environ.get("PYROMETER_TEST_REQUIRE_ALL") == "1":
        pytest.fail(reason)
    pytest.skip(reason)


def own_cpu() -> int:
    """The CPU on which this test process measures: of several that run side by side each has another."""
    cpus = sorted(os.sched_getaffinity(0), reverse=True)
    return cpus[int(os.environ.get("PYTEST_XDIST_WORKER", "gw0").removeprefix("gw")) % len(cpus)]


@dataclass(frozen=True)
class Done:
    """A command that has ended."""

    code: int
    out: str
    err: str

    @property
    def events(self) -> list[dict[str, Any]]:
        """The lines of `--json`, each of which must parse."""
        return [json.loads(line) for line in self.out.splitlines()]

    @property
    def run(self) -> str:
        """The run that `--json` speaks of."""
        return next(str(event["run"]) for event in self.events if "run" in event)

    def one_sentence(self) -> str:
        """What a usage error says: exit code 2, stdout empty, one line, no traceback."""
        assert (self.code, self.out) == (2, ""), self
        sentence = self.err.strip()
        assert "\n" not in sentence and "Traceback" not in sentence, sentence
        return sentence


class Running:
    """A command under way with `--json`."""

    def __init__(self, process: subprocess.Popen[str], err: Path) -> None:
        self.process = process
        self._err = err
        self.lines: list[str] = []

    def until(self, event: str, **wanted: object) -> dict[str, Any]:
        """Read events up to the first of that kind with those values."""
        assert self.process.stdout is not None
        for line in self.process.stdout:
            self.lines.append(line)
            body = json.loads(line)
            if body["event"] == event and wanted.items() <= body.items():
                return dict(body)
        self.process.wait()
        raise AssertionError(f"ended without {event} {wanted}: {self.lines[-3:]} {self.said()}")

    def said(self) -> str:
        """What it has written for people so far."""
        return self._err.read_text()

    def end(self) -> Done:
        """Wait for the end."""
        assert self.process.stdout is not None
        self.lines += self.process.stdout.readlines()
        code = self.process.wait(PATIENCE_SECONDS)
        self.process.stdout.close()
        return Done(code, "".join(self.lines), self.said())


class Site:
    """A folder with a `pyrometer.toml`, a file of cases and an empty database."""

    def __init__(self, folder: Path, python: Path, *, settings: str = "") -> None:
        self.folder = folder
        self.temporary = folder / "tmp"
        self.temporary.mkdir()
        sqlite_with_tables(folder / "pyrometer.db")
        (folder / "cases.py").write_text(CASES)
        preset = f'preset = "apart"\n{settings}\n[presets.apart]\ncpus = "{own_cpu()}"\n'
        head = f'{preset}\n[environments.default]\npython = "{python}"\n'
        (folder / "pyrometer.toml").write_text(head + SUITES)
        #: Variables of every command.
        self.variables: dict[str, str] = {}
        #: Called in the child before a command that is run to its end.
        self.before_exec: Callable[[], object] | None = None
        self._started: list[subprocess.Popen[str]] = []

    def environ(self, variables: Mapping[str, str]) -> dict[str, str]:
        """This process's variables without settings of ours; the lock lies where no other test looks.

        Other load on this machine does not concern a test that does not say so.
        """
        inherited = {k: v for k, v in os.environ.items() if not k.startswith(("PYROMETER_", "XDG_"))}
        inherited["PYROMETER_CONTENTION_LIMIT"] = "1"
        own = {LOCK_FOLDER: str(self.temporary), "TMPDIR": str(self.temporary), "HOME": str(self.folder)}
        return {**inherited, **INDUCTOR, **own, **self.variables, **variables}

    def measure_shortly(self) -> None:
        """Have commands measure cases that are in no suite as shortly as those of the suites here."""
        self.variables["PYTHONPATH"] = str(Path(__file__).with_name("short_timing"))

    def call(self, *arguments: str, **variables: str) -> Done:
        """Run `pyrometer` to its end."""
        return self.execute(str(COMMAND), *arguments, **variables)

    def execute(self, *command: str, **variables: str) -> Done:
        """Run any command here to its end."""
        done = subprocess.run(
            command,
            cwd=self.folder,
            env=self.environ(variables),
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            preexec_fn=self.before_exec,
        )
        return Done(done.returncode, done.stdout, done.stderr)

    def run(self, suite: str, *arguments: str, **variables: str) -> Done:
        """`pyrometer run` of a suite with the cases of this folder, to its end."""
        return self.call(
            "run", "--suite", suite, "--cases", "cases.py", *self.narrowed(suite), *arguments, **variables
        )

    def start(self, *arguments: str, **variables: str) -> Running:
        """`pyrometer run` with these arguments, in the background."""
        return self.start_command("run", *arguments, **variables)

    def start_command(self, *arguments: str, **variables: str) -> Running:
        """A command that takes `--json`, in the background."""
        err = self.folder / f"stderr-{len(self._started)}"
        with err.open("w") as file:
            process = subprocess.Popen(
                [COMMAND, *arguments, "--json"],
                cwd=self.folder,
                env=self.environ(variables),
                stdin=subprocess.DEVNULL,
                stdout=subprocess.PIPE,
                stderr=file,
                text=True,
            )
        self._started.append(process)
        return Running(process, err)

    def kill_after(self, outcomes: int, *arguments: str) -> str:
        """Start a command that measures and kill it after so many outcomes; answers the run."""
        running = self.start_command(*arguments)
        run = str(running.until("began")["run"])
        for _ in range(outcomes):
            running.until("outcome")
        running.process.kill()
        running.process.wait()
        return run

    def start_suite(self, suite: str, *arguments: str, **variables: str) -> Running:
        """`start` a suite with the cases of this folder."""
        return self.start(
            "--suite", suite, "--cases", "cases.py", *self.narrowed(suite), *arguments, **variables
        )

    @staticmethod
    def narrowed(suite: str) -> tuple[str, ...]:
        """A file of cases joins a suite as a whole; these keep it to what the suite lists."""
        cases = (ADD, LINEAR, RAISES, WOBBLES) if suite == "mixed" else (ADD, LINEAR)
        return tuple(part for case in cases for part in ("--case", case))

    def journal(self, run: str) -> Path:
        """The journal of a run."""
        return self.folder / ".pyrometer" / "runs" / run / journal.FILE

    @property
    def url(self) -> str:
        """The default database."""
        return f"sqlite:///{self.folder}/pyrometer.db"

    def close(self) -> None:
        """End what a failed test left running."""
        for process in self._started:
            process.kill()
            process.wait()
            if process.stdout:
                process.stdout.close()


def carriers(run: str) -> list[int]:
    """The processes that carry the token of a run."""
    mark = f"PYROMETER_TOKEN={run}:".encode()
    found: list[int] = []
    for entry in Path("/proc").iterdir():
        try:
            variables = (entry / "environ").read_bytes().split(b"\0") if entry.name.isdigit() else []
        except OSError:
            continue
        if any(variable.startswith(mark) for variable in variables):
            found.append(int(entry.name))
    return found


def of_the_plan(rows: Iterable[Row]) -> list[Row]:
    """Outcomes or measurements without the canary's, which stand in no plan."""
    return [row for row in rows if not row.case.startswith("canary_")]


def wait_until_gone(run: str) -> None:
    """Return when no process carries the token of the run any more."""
    until(lambda: not carriers(run), f"no process of run {run} is left")


def one_site(folder: Path) -> Iterator[Site]:
    """For fixtures: a site, and afterwards none of its processes."""
    place = Site(folder, measured_python())
    try:
        yield place
    finally:
        place.close()
