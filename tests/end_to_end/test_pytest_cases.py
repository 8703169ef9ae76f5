"""`pyrometer upgrade OLD NEW --pytest`: a project's tests as cases, in two real environments with pytest."""

import json
import os
import subprocess
import sysconfig
from pathlib import Path

import pytest

from support.site import Site, measured_python

#: What pytest consists of: the measured environment of this checkout has none.
PYTEST = ("pytest", "_pytest", "py.py", "pluggy", "iniconfig", "packaging", "pygments")
PAIRS = ("--pairs", "4", "--no-fingerprint")
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
        return [weight @ weight for _ in range(4 if NEW else 1)]

    with torch.no_grad():
        pyrometer(step)
    raise AssertionError("what follows the call is not run")


@pytest.mark.parametrize("width", [8])
def test_add(benchmark, width):
    result = benchmark(torch.add, torch.ones(width), 1)
    assert result.sum() == 2 * width


class TestGroup:
    def test_pedantic(self, benchmark):
        benchmark.extra_info["of"] = "pytest-benchmark"
        benchmark.pedantic(torch.sqrt, args=(torch.ones(4),), rounds=3, iterations=2)


def test_raises(pyrometer):
    raise ValueError("the model is gone")


@pytest.mark.skip(reason="needs a disk")
def test_skipped(pyrometer):
    pass


def test_without_a_call(pyrometer):
    pass


def test_of_something_else():
    raise AssertionError("a test without a fixture of ours is not run")
'''

#: Two tests whose ids differ by a sign that no case has in its name.
TWICE = """import pytest


@pytest.mark.parametrize("shape", ["2 3", "2-3"])
def test_shape(pyrometer, shape):
    pyrometer(len, shape)
"""


@pytest.fixture
def place(site: Site) -> Site:
    """A project with tests, and two environments that have the measured one's packages and pytest."""
    tests = site.folder / "tests" / "perf"
    tests.mkdir(parents=True)
    (tests / "test_speed.py").write_text(TESTS)
    twice = site.folder / "tests" / "twice"
    twice.mkdir()
    (twice / "test_ids.py").write_text(TWICE)
    # What the tests import lies at the top of the project; its addopts would start other processes.
    (site.folder / "helper.py").write_text("def wide():\n    return 64\n")
    (site.folder / "pytest.ini").write_text("[pytest]\naddopts = -n 2 --cov\n")
    only_pytest = site.folder / "only_pytest"
    only_pytest.mkdir()
    for name in PYTEST:
        (only_pytest / name).symlink_to(Path(sysconfig.get_path("purelib")) / name)
    base = measured_python()
    where = "import sysconfig; print(sysconfig.get_path('purelib'))"
    packages = subprocess.run([base, "-c", where], capture_output=True, text=True, check=True).stdout.strip()
    for name in ("old", "new", "lacks"):
        folder = site.folder / name
        subprocess.run([base, "-m", "venv", "--without-pip", folder], check=True)
        (own,) = folder.glob("lib/python*/site-packages")
        (own / "shared.pth").write_text(
            "\n".join([packages, *([] if name == "lacks" else [str(only_pytest)])])
        )
    (site.folder / "new" / "new").touch()
    return site


@pytest.mark.timeout(900)
def test_tests_are_measured_in_pairs(place: Site) -> None:
    done = place.call("upgrade", "./old", "./new", "--pytest", "tests/perf", *PAIRS, "--report", "v.json")
    assert "Traceback" not in done.err and done.code in (1, 3), done
    report = json.loads((place.folder / "v.json").read_text())
    cases = {row["case"].partition("/")[0].rpartition("test_speed:")[2]: row for row in report["cases"]}
    assert set(cases) == {
        *("test_step", "test_add:8", "TestGroup.test_pedantic"),
        *("test_raises", "test_skipped", "test_without_a_call"),
    }
    assert cases["test_step"]["case"].startswith("tests.perf.test_speed:test_step/infer/")
    slower = cases["test_step"]["verdict"]
    assert slower["new"] > 2 * slower["old"] > 0 and slower["n"] >= 2
    for name in ("test_add:8", "TestGroup.test_pedantic"):
        assert cases[name]["verdict"]["n"] >= 2, cases[name]
    text = json.dumps(report)
    assert "ValueError: the model is gone" in text
    assert "the test is skipped: needs a disk" in text
    assert "ended without a call of its fixture" in text


def test_one_test_of_a_file_by_its_node_id(place: Site) -> None:
    node = "tests/perf/test_speed.py::test_add[8]"
    done = place.call("upgrade", "./old", "./old", "--pytest", node, *PAIRS, "--report", "v.json")
    assert done.code in (0, 3), done
    (row,) = json.loads((place.folder / "v.json").read_text())["cases"]
    assert row["case"] == "tests.perf.test_speed:test_add:8/infer/-/eager"


@pytest.mark.parametrize(
    ("arguments", "sentence"),
    [
        (("--pytest", "nowhere"), f"there is no {os.sep}"),
        (("--pytest", "tests", "--suite", "smoke"), "--pytest selects the cases"),
        (("--pytest", "tests", "--on", "gpu"), "--pytest does not go with --on"),
        (("--pytest", "helper.py"), "no test in"),
        (("--pytest", "tests/twice"), "are both called tests.twice.test_ids:test_shape:2-3"),
    ],
)
def test_what_cannot_be_measured_is_one_sentence(
    place: Site, arguments: tuple[str, ...], sentence: str
) -> None:
    assert sentence in place.call("upgrade", "./old", "./new", *arguments).one_sentence()


def test_an_environment_without_pytest_is_named(place: Site) -> None:
    done = place.call("upgrade", "./lacks", "./lacks", "--pytest", "tests/perf")
    assert "tests need pytest, which this environment lacks" in done.one_sentence()
