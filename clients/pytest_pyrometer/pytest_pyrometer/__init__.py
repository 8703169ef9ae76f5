"""Times functions in tests, and submits the times to Pyrometer. Imports nothing but pytest and Python."""

import json
import platform
import re
import shlex
import statistics
import subprocess
import sys
import time
from datetime import datetime, timezone
from importlib.util import find_spec

import pytest

#: A batch of calls that takes shorter does not count: the clock's own time would be part of it.
_BATCH_SECONDS = 1e-3
_LEAST_BATCHES = 3
_HAS_PYTEST_BENCHMARK = find_spec("pytest_benchmark") is not None


def pytest_addoption(parser):
    """Add the options; see README.md."""
    group = parser.getgroup("pyrometer")
    group.addoption("--pyrometer", action="store_true", help="store the times with `pyrometer submit`")
    group.addoption(
        "--pyrometer-json", metavar="FILE", help="write the times to a file that `pyrometer submit` reads"
    )
    group.addoption(
        "--pyrometer-command", metavar="COMMAND", default="pyrometer", help="how `pyrometer` is called"
    )
    group.addoption("--pyrometer-suite", metavar="NAME", default="pytest", help="the suite of the results")
    group.addoption(
        "--pyrometer-seconds",
        metavar="SECONDS",
        type=float,
        default=0.5,
        help="how long each function is called for",
    )


def pytest_configure(config):
    """Collect the times of this session; know the mark of pytest-benchmark where that is not installed."""
    if not _HAS_PYTEST_BENCHMARK:
        config.addinivalue_line("markers", "benchmark(**options): of pytest-benchmark; changes nothing")
    config.pluginmanager.register(_Session(config), "pyrometer-session")


class _Session:
    """The results of one pytest process, and what becomes of them at its end."""

    def __init__(self, config):
        self.config = config
        self.started_at = datetime.now(timezone.utc).isoformat()  # noqa: UP017 -- runs on older Pythons
        self.results = {}
        self.failed = ""

    def pytest_runtest_logreport(self, report):
        """Forget the time of a test that fails or is skipped after it: it may be that of a wrong answer."""
        if not report.passed:
            self.results.pop(report.nodeid, None)

    def pytest_sessionfinish(self):
        """Write and submit the times."""
        file, submits = self.config.getoption("pyrometer_json"), self.config.getoption("pyrometer")
        # A process of pytest-xdist has only some of the tests; the times of tests that run at once are none.
        if not self.results or not (file or submits) or hasattr(self.config, "workerinput"):
            return
        text = json.dumps(self._submission(), indent=1)
        if file:
            with open(file, "w", encoding="utf-8") as stream:
                stream.write(text)
        if submits:
            self._submit(text)

    def _submit(self, text):
        command = [*shlex.split(self.config.getoption("pyrometer_command")), "submit", "-"]
        try:
            done = subprocess.run(command, input=text, capture_output=True, text=True)
            self.failed = _refusal(done) if done.returncode else ""
        except OSError as error:
            self.failed = f"{command[0]}: {error.strerror}"

    def _submission(self):
        torch = sys.modules.get("torch")
        about = {
            "suite": self.config.getoption("pyrometer_suite"),
            "started_at": self.started_at,
            "torch": getattr(torch, "__version__", ""),
            "python": platform.python_version(),
        }
        return [
            {
                **{name: value for name, value in about.items() if value},
                "case": case_key(test),
                "metrics": {
                    "latency": {"value": times.median_ms},
                    "latency_floor": {"value": times.least_ms},
                },
                "facts": {"test": test, "calls": times.calls},
            }
            for test, times in self.results.items()
        ]

    def pytest_terminal_summary(self, terminalreporter):
        """Print a line for each test."""
        if self.results:
            terminalreporter.section("pyrometer: times of a call")
        for test, times in self.results.items():
            terminalreporter.write_line(
                f"{times.least_ms:9.4g} ms min {times.median_ms:9.4g} ms median {times.calls:7} calls {test}"
            )
        if self.failed:
            terminalreporter.write_line(f"not stored: {self.failed}", red=True)


def _refusal(done):
    """What a `pyrometer submit` that did not store everything says: why, or what it set aside."""
    aside = "set aside: "
    lines = [line[len(aside) :] for line in done.stdout.splitlines() if line.startswith(aside)]
    return done.stderr.strip() or "; ".join(lines) or f"exit code {done.returncode}"


class Times:
    """What the calls of one function took: `least_ms` and `median_ms` of batches, by call."""

    def __init__(self, batches_ms, calls):
        self.least_ms = min(batches_ms)
        self.median_ms = statistics.median(batches_ms)
        self.calls = calls


def timed(step, seconds):
    """Call `step` for about `seconds`, after a batch that does not count; returns Times and its result."""
    step()
    _, batch, result = _batch(step, 1)
    batches, calls, over = [], 0, time.perf_counter() + seconds
    while len(batches) < _LEAST_BATCHES or time.perf_counter() < over:
        took, batch, result = _batch(step, batch)
        batches.append(1e3 * took / batch)
        calls += batch
    return Times(batches, calls), result


def _batch(step, calls):
    """Call `step` so often, or as often as a batch needs; returns seconds, how often, and the last result."""
    while True:
        started = time.perf_counter()
        for _ in range(calls):
            result = step()
        took = time.perf_counter() - started
        if took >= _BATCH_SECONDS:
            return took, calls, result
        calls *= 2


class Measured:
    """The fixture: call it with a function and its arguments. Of pytest-benchmark it has what tests use."""

    def __init__(self, session, test):
        self._session, self._test = session, test
        self.extra_info = {}
        self.group = None
        self.name = test

    def __call__(self, function, *arguments, **named):
        """Time the function; returns what its last call returned."""
        seconds = self._session.config.getoption("pyrometer_seconds")
        times, result = timed(lambda: function(*arguments, **named), seconds)
        # Of several calls the first one counts, as in `pyrometer upgrade --pytest`.
        self._session.results.setdefault(self._test, times)
        return result

    def pedantic(self, target, args=(), kwargs=None, setup=None, **_):
        """Time `target`; how often it is called is decided here. Raises ValueError for a `setup`."""
        if setup is not None:
            raise ValueError("pedantic(setup=...) is not supported: the setup would be part of the number")
        return self(target, *args, **(kwargs or {}))


@pytest.fixture
def pyrometer(request):
    """Time a function: `pyrometer(function, *arguments, **named)`."""
    session = request.config.pluginmanager.getplugin("pyrometer-session")
    return Measured(session, request.node.nodeid)


if not _HAS_PYTEST_BENCHMARK:

    @pytest.fixture
    def benchmark(pyrometer):
        """The fixture of pytest-benchmark, where that is not installed."""
        return pyrometer


def case_key(test):
    """The key of the case that a test (a node id) is, as `pyrometer upgrade --pytest` calls it."""
    file, _, inside = test.partition("::")
    function, _, parameters = inside.partition("[")
    module = re.sub(r"\.py$", "", file).replace("/", ".")
    parts = (module, function.replace("::", "."), re.sub(r"\]$", "", parameters))
    return re.sub(r"[^A-Za-z0-9_.+:-]", "-", ":".join(filter(None, parts))) + "/infer/-/eager"
