"""Times functions in tests, and submits the times to Pyrometer. Imports nothing but pytest and Python."""

import json
import platform
import re
import shlex
import statistics
import subprocess
import sys
import time
from contextlib import suppress
from datetime import datetime, timezone
from pathlib import Path

import pytest

#: A batch of calls that takes shorter does not count: the clock's own time would be part of it.
_BATCH_SECONDS = 1e-3
_LEAST_BATCHES = 3
#: Times are divided into so many blocks for the metric that is made of the fastest of each.
_BLOCKS = 5
#: Under which pytest knows pytest-benchmark.
_PYTEST_BENCHMARK = ("benchmark", "pytest_benchmark.plugin")


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
    """Collect the times of this session; where they are stored, in the place of pytest-benchmark."""
    plugins = config.pluginmanager
    others = [name for name in _PYTEST_BENCHMARK if plugins.hasplugin(name)]
    if config.getoption("pyrometer") or config.getoption("pyrometer_json"):
        # It fails each test whose fixture `benchmark` is another than its own.
        while others:
            plugins.unregister(name=others.pop())
    if not others:
        config.addinivalue_line("markers", "benchmark(**options): of pytest-benchmark; changes nothing")
        plugins.register(_Benchmark(), "pyrometer-benchmark")
    plugins.register(_Session(config), "pyrometer-session")


class _Benchmark:
    """The fixture of pytest-benchmark."""

    @pytest.fixture
    def benchmark(self, pyrometer):
        """As `pyrometer`."""
        return pyrometer


class _Session:
    """The results of one pytest process, and what becomes of them at its end."""

    def __init__(self, config):
        self.config = config
        self.started_at = datetime.now(timezone.utc).isoformat()  # noqa: UP017 -- runs on older Pythons
        #: Of tests that have not ended yet, and of those that ended well.
        self.timed, self.results = {}, {}
        #: By test the key of its case, and by that all tests of this key, also those that are not selected.
        self.keys, self.tests = {}, {}
        self.failed = ""

    def pytest_itemcollected(self, item):
        """Note what a test is called, and which others are called so."""
        key = self.keys[item.nodeid] = case_key(_name(item))
        if {"pyrometer", "benchmark"}.intersection(getattr(item, "fixturenames", ())):
            self.tests.setdefault(key, {})[item.nodeid] = True

    def pytest_runtest_logreport(self, report):
        """Keep the time of a test that ends well; of any other it may be that of a wrong answer."""
        if not report.passed:
            self.timed.pop(report.nodeid, None)
            self.results.pop(report.nodeid, None)
        elif report.when != "setup" and report.nodeid in self.timed:
            self.results[report.nodeid] = self.timed.pop(report.nodeid)

    def pytest_sessionfinish(self):
        """Write and submit the times."""
        file, submits = self.config.getoption("pyrometer_json"), self.config.getoption("pyrometer")
        if not (file or submits) or hasattr(self.config, "workerinput"):
            return
        if self.config.pluginmanager.hasplugin("dsession"):
            # A process of pytest-xdist has only some of the tests.
            self.failed = "the times of tests that run at once are none: leave out -n of pytest-xdist"
        if not self.results:
            return
        submission, failed = [], []
        for one in self._submission():
            tests = self.tests.get(one["case"], ())
            if len(tests) > 1:
                # In one series the times of one would pass for those of another.
                failed.append(f"{' and '.join(tests)} are all called {one['case']}: give each another id")
            else:
                submission.append(one)
        if submission:
            text = json.dumps(submission, indent=1)
            failed += [self._write(file, text) if file else "", self._submit(text) if submits else ""]
        self.failed = "; ".join(dict.fromkeys(filter(None, failed)))

    def _write(self, file, text):
        """Write the times to a file; returns why that failed, empty where it has not."""
        try:
            with open(file, "w", encoding="utf-8") as stream:
                stream.write(text)
        except OSError as error:
            return f"{file}: {error.strerror}"
        return ""

    def _submit(self, text):
        """The same for `pyrometer submit`."""
        command = [*shlex.split(self.config.getoption("pyrometer_command")), "submit", "-"]
        try:
            done = subprocess.run(
                command, input=text, capture_output=True, encoding="utf-8", errors="replace"
            )
        except OSError as error:
            return f"{command[0]}: {error.strerror}"
        return _refusal(done) if done.returncode else ""

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
                "case": self.keys[test],
                "metrics": {
                    "latency": {"value": 1e3 * measured.stats.median},
                    "latency_floor": {"value": 1e3 * measured.stats.floor},
                },
                "facts": {**measured.facts(), "calls": measured.stats.calls},
            }
            for test, measured in self.results.items()
        ]

    def pytest_terminal_summary(self, terminalreporter):
        """Print a line for each test."""
        if self.results:
            terminalreporter.section("pyrometer: times of a call")
        for test, measured in self.results.items():
            times = measured.stats
            least, median = 1e3 * times.min, 1e3 * times.median
            terminalreporter.write_line(
                f"{least:9.4g} ms min {median:9.4g} ms median {times.calls:7} calls {test}"
            )
        if self.failed:
            terminalreporter.write_line(f"not stored: {self.failed}", red=True)


def _refusal(done):
    """What a `pyrometer submit` that did not store everything says: what it set aside, or why.

    Its notes, which are on stderr as an error is, say neither.
    """
    aside = "set aside: "
    lines = [line[len(aside) :] for line in done.stdout.splitlines() if line.startswith(aside)]
    return "; ".join(lines) or done.stderr.strip() or f"exit code {done.returncode}"


class Times:
    """What the rounds of one function took, in seconds by call; `calls` is how many there were.

    The attributes, which are keys as well, are those that pytest-benchmark has in `benchmark.stats`, and
    `floor`: the fastest call of all would be less the longer a function is called.
    """

    def __init__(self, data, iterations, calls):
        self.data, self.sorted_data = data, sorted(data)
        self.iterations, self.rounds, self.calls = iterations, len(data), calls
        self.min, self.max, self.total = min(data), max(data), sum(data)
        self.mean, self.median = statistics.fmean(data), statistics.median(data)
        self.floor = _floor(data)
        self.stddev = statistics.stdev(data) if len(data) > 1 else 0.0
        self.ops = 1 / self.mean if self.mean else 0.0
        self.q1, self.q3 = _quartile(self.sorted_data), _quartile(self.sorted_data[::-1])
        self.iqr = self.q3 - self.q1

    @property
    def stats(self):
        """The same, for `benchmark.stats.stats.mean`."""
        return self

    def __getitem__(self, name):
        return getattr(self, name)


def _floor(data):
    """The median over consecutive blocks of the fastest of each, as `latency_floor` is."""
    blocks, n = min(_BLOCKS, len(data)), len(data)
    ends = [n * number // blocks for number in range(blocks + 1)]
    return statistics.median(min(data[ends[number] : ends[number + 1]]) for number in range(blocks))


def _quartile(ordered):
    """The quartile nearer the beginning: the middle of the half there, with and without the median."""
    half = len(ordered) // 2
    middles = [statistics.median(ordered[:end]) for end in (half, len(ordered) - half) if end]
    return statistics.fmean(middles)


def time_calls(step, seconds):
    """Call `step` for about `seconds`, after a batch that does not count; returns Times and its result."""
    step()
    _, batch, result = _batch(step, 1)
    batches, calls, over = [], 0, time.perf_counter() + seconds
    while len(batches) < _LEAST_BATCHES or time.perf_counter() < over:
        took, batch, result = _batch(step, batch)
        batches.append(took / batch)
        calls += batch
    return Times(batches, batch, calls), result


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


class BenchmarkFixture:
    """The fixture: call it with a function and its arguments. Of pytest-benchmark it has what tests use."""

    #: As without `--benchmark-disable`.
    enabled, disabled = True, False

    def __init__(self, session, node):
        self._session = session
        self.name, self.fullname = node.name, node.nodeid
        parameters = getattr(node, "callspec", None)
        self.param, self.params = (parameters.id, parameters.params) if parameters else (None, None)
        mark = node.get_closest_marker("benchmark")
        self.group = mark.kwargs.get("group") if mark else None
        self.extra_info = {}
        self.stats = None

    def __call__(self, function, *arguments, **named):
        """Time the function; returns what its last call returned."""
        seconds = self._session.config.getoption("pyrometer_seconds")
        times, result = time_calls(lambda: function(*arguments, **named), seconds)
        self._keep(times)
        return result

    def pedantic(
        self,
        target,
        args=(),
        kwargs=None,
        setup=None,
        teardown=None,
        rounds=1,
        warmup_rounds=0,
        iterations=1,
    ):
        """Time `rounds` of `iterations` calls of `target`; returns what the last one returned.

        `setup`, which may return the arguments, is called before each round and `teardown` after it, and
        their time does not count. Raises ValueError and TypeError for what pytest-benchmark refuses too.
        """
        for value, least in ((rounds, 1), (iterations, 1), (warmup_rounds, 0)):
            if not isinstance(value, int) or value < least:
                raise ValueError("pedantic takes whole numbers of rounds, iterations and warmup_rounds")
        if setup and iterations > 1:
            raise ValueError("pedantic(setup=...) prepares one call: it takes no iterations")
        seconds = []
        for number in range(-warmup_rounds, rounds):
            given = setup() if setup else None
            if given and (args or kwargs):
                raise TypeError("pedantic takes arguments from setup or from args and kwargs, not both")
            arguments, named = given or (args, kwargs or {})
            took, result = _round(target, arguments, named, iterations)
            if teardown:
                teardown(*arguments, **named)
            if number >= 0:
                seconds.append(took / iterations)
        self._keep(Times(seconds, iterations, rounds * iterations))
        return result

    def weave(self, *_, **__):
        """Raise NotImplementedError: functions are not replaced from here."""
        raise NotImplementedError(
            "benchmark.weave is not supported: let monkeypatch of pytest replace the function by one that "
            "calls benchmark(function, ...)"
        )

    patch = weave

    def facts(self):
        """What the test says about itself, in values that JSON has."""
        facts = {"test": self.fullname}
        if self.group is not None:
            facts["group"] = self.group
        if self.extra_info:
            facts["extra_info"] = self.extra_info
        return json.loads(json.dumps(facts, default=_plain, skipkeys=True), parse_constant=str)

    def _keep(self, times):
        # Of several calls the first one counts, as in `pyrometer upgrade --pytest`.
        if self.stats is None:
            self.stats = times
            self._session.timed[self.fullname] = self


def _plain(value):
    """What JSON has of a number of another package, or of anything."""
    return value.tolist() if hasattr(value, "tolist") else str(value)


def _round(function, arguments, named, calls):
    """What so many calls take, in seconds, and what the last one returns."""
    numbers = range(calls)
    started = time.perf_counter()
    for _ in numbers:
        result = function(*arguments, **named)
    return time.perf_counter() - started, result


@pytest.fixture
def pyrometer(request):
    """Time a function: `pyrometer(function, *arguments, **named)`."""
    session = request.config.pluginmanager.getplugin("pyrometer-session")
    return BenchmarkFixture(session, request.node)


def _name(item):
    """The node id of a test; where nothing marks the root of a project, from where pytest is called.

    pytest then takes for the root what all paths on its command line have in common, those of options too:
    with `--pyrometer-command /opt/bin/pyrometer` the node ids are others.
    """
    config, (file, colons, inside) = item.config, item.nodeid.partition("::")
    if config.inipath is None and not (config.rootpath / "setup.py").exists():
        with suppress(ValueError):
            file = item.path.relative_to(Path(config.invocation_params.dir)).as_posix()
    return f"{file}{colons}{inside}"


def case_key(test):
    """The key of the case that a test (a node id) is, as `pyrometer upgrade --pytest` calls it."""
    file, _, inside = test.partition("::")
    function, _, parameters = inside.partition("[")
    module = re.sub(r"\.py$", "", file).replace("/", ".")
    parts = (module, function.replace("::", "."), re.sub(r"\]$", "", parameters))
    return re.sub(r"[^A-Za-z0-9_.+:-]", "-", ":".join(filter(None, parts))) + "/infer/-/eager"
