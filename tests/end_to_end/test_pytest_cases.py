"""`pyrometer upgrade OLD NEW --pytest`: a project's tests as cases, in two real environments with pytest."""

import os
import sysconfig
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from records.outcomes import Outcome
from support.command_line import typed
from support.interpreters import make_interpreter, measured_packages
from support.measuring import ENVIRONMENT, conditions, forked, measure
from support.site import Site, one_site

#: What pytest consists of: the measured environment of this checkout has none.
PYTEST = ("pytest", "_pytest", "py.py", "pluggy", "iniconfig", "packaging", "pygments")
#: What the tests below are called as cases, and how those end that hand nothing over.
MEASURED = ("test_step", "test_add:8", "TestGroup.test_pedantic", "test_threads", "test_device")
NOT_MEASURED = {
    "test_raises": ("crashed", "ValueError: the model is gone"),
    "test_skipped": ("unsupported", "the test is skipped: needs a disk"),
    "test_without_a_call": ("unsupported", "ended without a call of its fixture"),
    "test_setup": ("unsupported", "pedantic with setup or teardown is not supported"),
    "test_weave": ("unsupported", "benchmark.weave is not supported"),
    "test_of_something_else": ("unsupported", "no case is named"),
}
TESTS = '''"""Performance tests of a project, as they run under plain pytest."""

import sys
from pathlib import Path

import pytest
import torch

from helper import wide

NEW = (Path(sys.prefix) / "new").exists()


@pytest.fixture
def kept(tmp_path):
    file = tmp_path / "kept"
    file.touch()
    yield file
    file.unlink()


def test_step(pyrometer, kept):
    weight = torch.randn(wide(), wide(), requires_grad=True)

    def step():
        # The fixture is still set up, and the mode around the call holds.
        assert kept.exists() and not torch.is_grad_enabled()
        return [weight @ weight for _ in range(8 if NEW else 1)]

    with torch.no_grad():
        pyrometer(step)
    raise AssertionError("what follows the call is not run")


@pytest.mark.benchmark(group="sums")
@pytest.mark.parametrize("width", [8])
def test_add(benchmark, width):
    assert benchmark.params == {"width": width} and benchmark.group == "sums" and benchmark.enabled
    assert benchmark.fullname.endswith(benchmark.name) and benchmark.name == "test_add[8]"
    result = benchmark(torch.add, torch.ones(width), 1)
    assert result.sum() == 2 * width


class TestGroup:
    def test_pedantic(self, benchmark):
        benchmark.extra_info["of"] = "pytest-benchmark"
        benchmark.pedantic(torch.sqrt, args=(torch.ones(4),), rounds=3, iterations=2)


def test_threads(pyrometer):
    torch.set_num_threads(3)
    pyrometer(torch.ones, 1)


def test_device(pyrometer):
    def step():
        assert torch.ones(1).is_meta

    torch.set_default_device("meta")
    pyrometer(step)


def test_raises(pyrometer):
    raise ValueError("the model is gone")


@pytest.mark.skip(reason="needs a disk")
def test_skipped(pyrometer):
    pass


def test_without_a_call(pyrometer):
    pass


def test_setup(benchmark):
    benchmark.pedantic(torch.sqrt, setup=lambda: ((torch.ones(4),), {}))


def test_weave(benchmark):
    benchmark.weave(torch.sqrt)


def test_of_something_else():
    raise AssertionError("a test without a fixture of ours is not run")
'''

#: Its addopts would start other processes; a mark that is not known would be an error.
INI = """[pytest]
addopts = -n 2 --cov
filterwarnings = error::pytest.PytestUnknownMarkWarning
"""

#: Two tests whose ids differ by a sign that no case has in its name.
TWICE = """import pytest


@pytest.mark.parametrize("shape", ["2 3", "2-3"])
def test_shape(pyrometer, shape):
    pyrometer(len, shape)
"""


@pytest.fixture(scope="module")
def place(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Site]:
    """A project with tests, and environments that have the measured one's packages, two also pytest."""
    for site in one_site(tmp_path_factory.mktemp("project")):
        site.measure_shortly()
        tests = site.folder / "tests" / "perf"
        tests.mkdir(parents=True)
        (tests / "test_speed.py").write_text(TESTS)
        twice = site.folder / "tests" / "twice"
        twice.mkdir()
        (twice / "test_ids.py").write_text(TWICE)
        # What the tests import lies at the top of the project.
        (site.folder / "helper.py").write_text("def wide():\n    return 64\n")
        (site.folder / "pytest.ini").write_text(INI)
        only_pytest = site.folder / "only_pytest"
        only_pytest.mkdir()
        for name in PYTEST:
            (only_pytest / name).symlink_to(Path(sysconfig.get_path("purelib")) / name)
        for name in ("old", "new"):
            make_interpreter(site.folder / name, measured_packages(), only_pytest)
        make_interpreter(site.folder / "lacks", measured_packages())
        (site.folder / "new" / "new").touch()
        yield site


def test_tests_are_measured_in_pairs_and_named_by_their_node_ids(place: Site) -> None:
    ids = [
        part
        for node in ("test_step", "test_add[8]")
        for part in ("--pytest", f"tests/perf/test_speed.py::{node}")
    ]
    # The budget has room for the first pair.
    done = place.call("upgrade", "./old", "./new", *ids, "--budget", "1", "--no-fingerprint", "--json")
    assert done.code == 3 and "Traceback" not in done.err, done
    outcomes = [event for event in done.events if event["event"] == "outcome"]
    step, add = (f"tests.perf.test_speed:{name}/infer/-/eager" for name in ("test_step", "test_add:8"))
    assert {one["case"] for one in outcomes} == {step, add}
    latency = [one["metrics"]["latency"] for one in outcomes if one["status"] == "ok"]
    assert len(latency) == 2
    # Eight times the work in the new environment.
    assert max(latency) > 2 * min(latency) > 0


@pytest.fixture(scope="module")
def outcomes(place: Site) -> dict[str, Outcome]:
    """How every test of the folder ends, each in a forked worker of its own."""
    cases = place.folder / "all_tests.py"
    arguments = f"__name__, {str(place.folder)!r}, [{str(place.folder / 'tests/perf')!r}]"
    cases.write_text(f"from runner.worker.pytest_cases import register\n\nregister({arguments})\n")
    shared = conditions(place.temporary, cases)
    target = replace(shared.targets[ENVIRONMENT], python=str(place.folder / "old/bin/python"))
    shared = replace(shared, targets={ENVIRONMENT: target})
    named = {name: f"tests.perf.test_speed:{name}/infer/-/eager" for name in (*MEASURED, *NOT_MEASURED)}
    with forked(shared) as forking:
        happened = measure(forking, [[case] for case in named.values()])
    by_case = {outcome.case: outcome for outcome in happened.outcomes}
    return {name: by_case[case] for name, case in named.items()}


@pytest.mark.parametrize("name", MEASURED)
def test_every_way_to_call_the_fixture_is_measured(outcomes: dict[str, Outcome], name: str) -> None:
    assert (outcomes[name].status, outcomes[name].reason) == ("ok", "")
    assert outcomes[name].metrics["latency"] > 0


def test_a_function_computes_with_the_threads_that_its_test_chose(outcomes: dict[str, Outcome]) -> None:
    assert outcomes["test_threads"].facts["threads"] == 3


@pytest.mark.parametrize("name", NOT_MEASURED)
def test_a_test_that_hands_nothing_over_ends_with_a_reason(outcomes: dict[str, Outcome], name: str) -> None:
    status, reason = NOT_MEASURED[name]
    assert outcomes[name].status == status
    assert reason in outcomes[name].reason


@pytest.mark.parametrize(
    ("arguments", "sentence"),
    [
        (("--pytest", "nowhere"), f"there is no {os.sep}"),
        (("--pytest", "tests", "--suite", "smoke"), "--pytest selects the cases"),
        (("--pytest", "tests", "--on", "gpu"), "--pytest cannot be combined with --on"),
        (("--pytest", "helper.py"), "no test in"),
        (("--pytest", "tests/twice"), "are both called tests.twice.test_ids:test_shape:2-3"),
    ],
)
def test_what_cannot_be_measured_is_one_sentence(
    place: Site, arguments: tuple[str, ...], sentence: str
) -> None:
    assert sentence in typed(place, "upgrade", "./old", "./old", *arguments).one_sentence()


def test_an_environment_without_pytest_is_named(place: Site) -> None:
    done = typed(place, "upgrade", "./lacks", "./lacks", "--pytest", "tests/perf")
    assert "tests need pytest, which this environment lacks" in done.one_sentence()
    # No case broke in it: it has none.
    done = typed(place, "upgrade", "./old", "./lacks", "--pytest", "tests/perf")
    assert "cannot be loaded in lacks: " in done.one_sentence()
