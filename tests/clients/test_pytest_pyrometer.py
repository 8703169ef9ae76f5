"""pytest-pyrometer in a pytest of its own: plain runs, stored ones, and what it does without `pyrometer`."""

import json
import os
import subprocess
import sys
from pathlib import Path
from statistics import median

import pytest

from db.connection.engine import open_database
from db.runs import queries
from records.kinds import RunSource
from runner.worker.case_key import CaseKey
from support.fakes.coarse_clock import CoarseClock
from support.site import ROOT

pytestmark = pytest.mark.slow

PLUGIN = ROOT / "clients" / "pytest_pyrometer"
PYROMETER = str(Path(sys.executable).with_name("pyrometer"))
TESTS = """
import pytest


def test_step(pyrometer):
    assert pyrometer(sum, [1, 2]) == 3


class TestGroup:
    @pytest.mark.parametrize("size", [8, 16])
    def test_of_pytest_benchmark(self, benchmark, size):
        benchmark.extra_info["size"] = size
        result = benchmark.pedantic(sorted, args=(range(size),), kwargs={"reverse": True}, rounds=2)
        assert result[0] == size - 1


def test_that_raises(pyrometer):
    pyrometer(int, "x")


def test_without_the_fixture():
    pass
"""


@pytest.fixture
def project(tmp_path: Path) -> Path:
    """A project of tests that is a project folder of Pyrometer."""
    (tmp_path / "perf").mkdir()
    (tmp_path / "perf" / "test_speed.py").write_text(TESTS)
    (tmp_path / "pyrometer.toml").touch()
    return tmp_path


def run(project: Path, *options: str) -> subprocess.CompletedProcess[str]:
    """pytest with the plugin, and without those of this checkout."""
    kept = {k: v for k, v in os.environ.items() if not k.startswith(("PYROMETER_", "PYTEST_"))}
    variables = {"PYTHONPATH": str(PLUGIN), "PYTEST_DISABLE_PLUGIN_AUTOLOAD": "1", "HOME": str(project)}
    command = [
        sys.executable,
        "-m",
        "pytest",
        "-p",
        "pytest_pyrometer",
        "--pyrometer-seconds",
        "0.01",
        "perf",
    ]
    return subprocess.run(
        [*command, *options], cwd=project, env={**kept, **variables}, capture_output=True, text=True
    )


SEVERAL = """
import time


def test_of_a_wrong_answer(pyrometer):
    assert pyrometer(sum, [1, 2]) == 4


def test_of_two_functions(pyrometer):
    pyrometer(sum, [1, 2])
    pyrometer(time.sleep, 0.05)
"""


def test_a_wrong_answer_has_no_time_and_of_two_functions_the_first_has(project: Path) -> None:
    (project / "perf" / "test_speed.py").write_text(SEVERAL)
    file = project / "times.json"
    done = run(project, f"--pyrometer-json={file}")
    assert "1 failed, 1 passed" in done.stdout, done.stdout
    (result,) = json.loads(file.read_text())
    assert result["facts"]["test"] == "perf/test_speed.py::test_of_two_functions"
    # The second one would fill three batches with three calls.
    assert result["facts"]["calls"] > 3


def test_a_batch_is_long_enough_for_the_clock(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.syspath_prepend(str(PLUGIN))
    import pytest_pyrometer

    clock = CoarseClock(slow_calls=2)
    monkeypatch.setattr(pytest_pyrometer, "time", clock)
    times, _ = pytest_pyrometer.time_calls(clock.step, 0.05)
    assert times.median == pytest.approx(3e-6, rel=0.03)
    assert times.min == pytest.approx(3e-6, rel=0.03)


#: As tests of pytest-benchmark are written, by its documentation.
OF_PYTEST_BENCHMARK = """
import pytest


@pytest.mark.benchmark(group="sums", min_rounds=5, disable_gc=True)
@pytest.mark.parametrize("size", [8])
def test_attributes(benchmark, size):
    assert benchmark.stats is None and benchmark.enabled and not benchmark.disabled
    assert benchmark.name == "test_attributes[8]" and benchmark.fullname.endswith("::test_attributes[8]")
    assert benchmark.param == "8" and benchmark.params == {"size": 8}
    assert benchmark.group == "sums"

    @benchmark
    def result():
        return sum(range(size))

    assert result == 28
    stats = benchmark.stats.stats
    assert 0 < stats.min <= stats.q1 <= stats.median <= stats.q3 <= stats.max
    assert stats.min <= stats.mean <= stats.max and stats.stddev >= 0 and stats.rounds >= 3
    assert benchmark.stats["mean"] == stats.mean and stats.ops == 1 / stats.mean
    benchmark.extra_info["of"] = {"size": size, 1: float("nan"), "path": benchmark}


def test_setup(benchmark):
    events = []

    def setup():
        events.append("setup")
        return ([len(events)],), {"reverse": True}

    def target(values, reverse):
        events.append("target")
        return values, reverse

    def teardown(values, reverse):
        events.append("teardown")

    found = benchmark.pedantic(target, setup=setup, teardown=teardown, rounds=3, warmup_rounds=2)
    assert events == 5 * ["setup", "target", "teardown"]
    assert found == ([13], True)
    assert benchmark.stats["rounds"] == 3 and benchmark.stats["iterations"] == 1


def test_rounds(benchmark):
    calls = []
    benchmark.pedantic(calls.append, args=(1,), kwargs={}, iterations=4, rounds=3, warmup_rounds=1)
    assert len(calls) == 16
    assert benchmark.stats["rounds"] == 3 and len(benchmark.stats["data"]) == 3


def test_what_is_refused(benchmark):
    for wrong in ({"rounds": 0}, {"iterations": 1.5}, {"warmup_rounds": -1}):
        with pytest.raises(ValueError):
            benchmark.pedantic(len, args=("a",), **wrong)
    with pytest.raises(ValueError):
        benchmark.pedantic(len, setup=lambda: None, iterations=2)
    with pytest.raises(TypeError):
        benchmark.pedantic(len, args=("a",), setup=lambda: (("b",), {}))
    with pytest.raises(NotImplementedError, match="weave"):
        benchmark.weave(len)
"""


def test_tests_of_pytest_benchmark_pass_as_they_are(project: Path) -> None:
    (project / "perf" / "test_speed.py").write_text(OF_PYTEST_BENCHMARK)
    done = run(project, "--pyrometer-json=times.json", "--strict-markers")
    assert "4 passed" in done.stdout, done.stdout
    stored = {each["case"].split("/")[0]: each for each in json.loads((project / "times.json").read_text())}
    assert list(stored) == [
        f"perf.test_speed:{name}" for name in ("test_attributes:8", "test_setup", "test_rounds")
    ]
    facts = stored["perf.test_speed:test_attributes:8"]["facts"]
    assert facts["group"] == "sums"
    assert facts["extra_info"]["of"].pop("path").startswith("<")
    assert facts["extra_info"] == {"of": {"size": 8, "1": "NaN"}}
    assert [
        stored[f"perf.test_speed:{name}"]["facts"]["calls"] for name in ("test_setup", "test_rounds")
    ] == [
        3,
        12,
    ]


@pytest.mark.parametrize(
    ("seconds", "first", "third"),
    [([3.0], 3.0, 3.0), ([1.0, 2.0, 3.0, 4.0], 1.5, 3.5), ([5.0, 1.0, 2.0, 3.0, 4.0], 1.75, 4.25)],
)
def test_the_quartiles_are_those_of_pytest_benchmark(
    monkeypatch: pytest.MonkeyPatch, seconds: list[float], first: float, third: float
) -> None:
    monkeypatch.syspath_prepend(str(PLUGIN))
    from pytest_pyrometer import Times

    times = Times(seconds, 1, len(seconds))
    assert (times.q1, times.q3, times.iqr) == (first, third, third - first)


SLOWER_AND_SLOWER = """
import time


def test_rounds(benchmark):
    milliseconds = iter(range(1, 11))
    benchmark.pedantic(lambda: time.sleep(next(milliseconds) / 1e3), rounds=10)
    benchmark.extra_info["seconds"] = benchmark.stats.data
"""


def test_the_floor_is_the_median_over_blocks_and_not_the_fastest_call(project: Path) -> None:
    (project / "perf" / "test_speed.py").write_text(SLOWER_AND_SLOWER)
    run(project, "--pyrometer-json=times.json")
    (result,) = json.loads((project / "times.json").read_text())
    seconds = result["facts"]["extra_info"]["seconds"]
    fastest = [min(seconds[start : start + 2]) for start in range(0, 10, 2)]
    assert result["metrics"]["latency_floor"]["value"] == pytest.approx(1e3 * median(fastest))


def test_plain_pytest_times_and_stores_nothing(project: Path) -> None:
    done = run(project)
    assert "1 failed, 4 passed" in done.stdout, done.stdout
    lines = [line for line in done.stdout.splitlines() if " ms median " in line]
    assert [line.rpartition(" ")[2] for line in lines] == [
        "perf/test_speed.py::test_step",
        "perf/test_speed.py::TestGroup::test_of_pytest_benchmark[8]",
        "perf/test_speed.py::TestGroup::test_of_pytest_benchmark[16]",
    ]
    assert not (project / "pyrometer.db").exists()


def test_the_times_are_stored_as_a_submission(project: Path) -> None:
    done = run(project, "--pyrometer", f"--pyrometer-command={PYROMETER}", "--pyrometer-json=times.json")
    assert "not stored" not in done.stdout, done.stdout
    with open_database(f"sqlite:///{project}/pyrometer.db") as database:
        (summary,) = queries.recent_runs(database)
        measured = queries.measurements_of_run(database, summary.id)
    assert (summary.suite, summary.source) == ("pytest", RunSource.SUBMITTED)
    keys = [f"perf.test_speed:{name}/infer/-/eager" for name in NAMES]
    assert {(one.case, one.metric) for one in measured} == {
        (key, metric) for key in keys for metric in ("latency", "latency_floor")
    }
    assert all(one.low is None and one.n == 1 and one.point > 0 for one in measured), (
        "one process, one sample"
    )
    written = json.loads((project / "times.json").read_text())
    assert [each["case"] for each in written] == keys
    assert all(str(CaseKey.parse(key)) == key for key in keys)


NAMES = ("test_step", "TestGroup.test_of_pytest_benchmark:8", "TestGroup.test_of_pytest_benchmark:16")


def test_the_mark_of_pytest_benchmark_is_known(project: Path) -> None:
    (project / "perf" / "test_speed.py").write_text(
        "import pytest\n\n\n@pytest.mark.benchmark(group='sums')\ndef test_sum(benchmark):\n"
        "    assert benchmark(sum, [1, 2]) == 3\n"
    )
    done = run(project, "--strict-markers")
    assert done.returncode == 0 and "1 passed" in done.stdout, done.stdout


#: As pytest-benchmark: a plugin with a fixture of that name, which takes no other.
PYTEST_BENCHMARK = """
import pytest


class Fixture:
    def __call__(self, function, *arguments):
        return function(*arguments)


def pytest_configure(config):
    config.addinivalue_line("markers", "benchmark: as there")


@pytest.fixture
def benchmark():
    return Fixture()


@pytest.hookimpl(hookwrapper=True)
def pytest_runtest_makereport(item, call):
    yield
    if not isinstance(item.funcargs.get("benchmark", Fixture()), Fixture):
        raise TypeError("You should not use other plugins that define a `benchmark` fixture")
"""


def test_tests_of_pytest_benchmark_are_stored_where_that_is_installed(project: Path) -> None:
    (project / "pytest_benchmark").mkdir()
    (project / "pytest_benchmark" / "plugin.py").write_text(PYTEST_BENCHMARK)
    (project / "perf" / "test_speed.py").write_text("def test_sum(benchmark):\n    benchmark(sum, [1, 2])\n")
    file, other = project / "times.json", ("-p", "pytest_benchmark.plugin")
    done = run(project, *other)
    assert "1 passed" in done.stdout and "times of a call" not in done.stdout, done.stdout
    done = run(project, *other, f"--pyrometer-json={file}")
    assert "1 passed" in done.stdout, done.stdout
    assert [one["case"] for one in json.loads(file.read_text())] == ["perf.test_speed:test_sum/infer/-/eager"]


def test_a_test_is_called_the_same_whatever_path_an_option_has(project: Path, tmp_path: Path) -> None:
    """Without a file of settings pytest takes the path of an option for one of tests."""
    file = tmp_path.parent / "times.json"
    cases = []
    for _ in range(2):
        # The second time the file is there.
        done = run(project, "--pyrometer-json", str(file), "-k", "test_step")
        assert "1 passed" in done.stdout, done.stdout
        cases += [one["case"] for one in json.loads(file.read_text())]
    assert cases == ["perf.test_speed:test_step/infer/-/eager"] * 2


def test_a_missing_program_fails_no_test(project: Path) -> None:
    done = run(project, "--pyrometer", "--pyrometer-command=no-such-program", "-k", "test_step")
    assert done.returncode == 0 and "not stored: no-such-program: No such file" in done.stdout


def test_a_file_that_cannot_be_written_keeps_no_time_from_the_database(project: Path) -> None:
    options = ("--pyrometer", f"--pyrometer-command={PYROMETER}", "--pyrometer-json=no/folder/times.json")
    done = run(project, *options, "-k", "test_step")
    assert done.returncode == 0 and "INTERNALERROR" not in done.stdout + done.stderr, done.stderr
    assert "not stored: no/folder/times.json: No such file" in done.stdout
    with open_database(f"sqlite:///{project}/pyrometer.db") as database:
        assert queries.count_runs(database) == 1


def test_the_time_of_a_test_that_is_interrupted_is_not_kept(project: Path) -> None:
    (project / "perf" / "test_speed.py").write_text(
        "def test_whole(pyrometer):\n    pyrometer(len, [])\n\n\n"
        "def test_interrupted(pyrometer):\n    pyrometer(len, [])\n    raise KeyboardInterrupt\n"
    )
    done = run(project, "--pyrometer-json=times.json")
    assert done.returncode == 2, done.stdout
    (written,) = json.loads((project / "times.json").read_text())
    assert written["facts"]["test"] == "perf/test_speed.py::test_whole"


def test_that_a_program_that_prints_no_text_is_quoted(project: Path) -> None:
    (project / "submit.py").write_text(
        "import sys\nsys.stdin.read()\nsys.stderr.buffer.write(b'no space \\xff')\nsys.exit(2)\n"
    )
    done = run(project, "--pyrometer", f"--pyrometer-command={sys.executable} submit.py", "-k", "test_step")
    assert done.returncode == 0 and "not stored: no space" in done.stdout, done.stdout + done.stderr


def test_that_tests_which_run_at_once_are_not_stored_is_printed(project: Path) -> None:
    file = project / "times.json"
    done = run(project, f"--pyrometer-json={file}", "-p", "xdist.plugin", "-n", "2", "-k", "test_step")
    assert "not stored: the times of tests that run at once" in done.stdout, done.stdout
    assert not file.exists()


def test_what_pyrometer_refuses_is_printed(project: Path) -> None:
    (project / "pyrometer.toml").write_text("nonsense = 1\n")
    done = run(project, "--pyrometer", f"--pyrometer-command={PYROMETER}", "-k", "test_step")
    assert (
        done.returncode == 0
        and 'not stored: pyrometer: pyrometer.toml: unknown key "nonsense"' in done.stdout
    )


#: As `pyrometer submit` where the folder cannot be written and the numbers contradict what is stored.
ASIDE_WITH_A_NOTE = """
import sys

sys.stdin.read()
print("20261121-pytest: stored already, nothing is new")
print("set aside: stdin: latency is stored as 1.0 and here as 2.0")
print("note: data goes to another folder", file=sys.stderr)
sys.exit(1)
"""


def test_what_was_set_aside_is_printed_and_not_a_note(project: Path) -> None:
    (project / "submit.py").write_text(ASIDE_WITH_A_NOTE)
    command = f"{sys.executable} {project}/submit.py"
    done = run(project, "--pyrometer", f"--pyrometer-command={command}", "-k", "test_step")
    assert "not stored: stdin: latency is stored as 1.0 and here as 2.0" in done.stdout, done.stdout


@pytest.mark.parametrize("chosen", ["test_shape or test_other", "2-3 or test_other"])
def test_of_tests_that_are_called_alike_no_time_is_stored(project: Path, chosen: str) -> None:
    """Also of one that runs alone: its time would go on the series of the other."""
    (project / "perf" / "test_speed.py").write_text(
        "import pytest\n\n"
        "@pytest.mark.parametrize('shape', ['2 3', '2-3'])\n"
        "def test_shape(pyrometer, shape):\n    pyrometer(len, shape)\n\n"
        "def test_other(pyrometer):\n    pyrometer(len, '')\n"
    )
    file = project / "times.json"
    done = run(project, f"--pyrometer-json={file}", "-k", chosen)
    assert done.returncode == 0 and "called perf.test_speed:test_shape:2-3/infer/-/eager" in done.stdout
    alike = "perf/test_speed.py::test_shape[2 3] and perf/test_speed.py::test_shape[2-3] are all called"
    assert done.stdout.count(f"not stored: {alike}") == 1, done.stdout
    assert [one["case"] for one in json.loads(file.read_text())] == [
        "perf.test_speed:test_other/infer/-/eager"
    ]


def test_what_a_test_is_called() -> None:
    code = (
        "import json, sys; sys.path.insert(0, sys.argv[1])\n"
        "from pytest_pyrometer import case_key\n"
        "print(json.dumps([case_key(test) for test in json.loads(sys.argv[2])]))"
    )
    tests = ["perf/test_a.py::test_b", "perf/test_a.py::TestC::test_d[1-a b]", "test_e.py::test_f[x[0]]"]
    command = [sys.executable, "-c", code, str(PLUGIN), json.dumps(tests)]
    named = json.loads(subprocess.run(command, capture_output=True, text=True, check=True).stdout)
    assert named == [
        "perf.test_a:test_b/infer/-/eager",
        "perf.test_a:TestC.test_d:1-a-b/infer/-/eager",
        "test_e:test_f:x-0-/infer/-/eager",
    ]
