"""The acceptance for GPUs, on a machine without one and with no package but those it may count on."""

import json
import os
import subprocess
import sys
import sysconfig
import venv
from collections.abc import Iterator
from importlib.metadata import PackageNotFoundError, distribution
from pathlib import Path

import pytest
from packaging.requirements import Requirement

from runner import journal
from support.fakes.nvml import Shim
from support.scripts import BENCHMARKS, script
from support.site import ROOT, measured_python

#: For all steps: a busy machine takes three times as long as the acceptance has by default.
SECONDS = 1710

pytestmark = [pytest.mark.slow, pytest.mark.torch, pytest.mark.timeout(SECONDS + 200)]

#: What a GPU machine has besides PyTorch, and the wheels that come along; PyTorch itself brings Jinja.
LISTED = (
    *("pandas", "pyarrow", "numpy", "scipy", "psutil", "rich", "typer", "nvidia-ml-py", "pytest", "jinja2"),
    *("sqlalchemy", "zstandard", "pydantic", "alembic", "cronsim"),
)
COMMANDS = (
    *("run", "upgrade", "report", "doctor", "profile", "export", "import", "suites", "cases", "environments"),
    *("db", "submit", "fingerprint"),
)
PROGRAM = ("-c", "from cli.app import main; main()")
#: Imports each command and prints its help, all in one process.
HELP = """
import sys

from typer.testing import CliRunner

from cli.registry import app

for command in sys.argv[1:]:
    done = CliRunner().invoke(app, [command, "--help"])
    assert done.exit_code == 0 and command in done.output, (command, done.output, done.exception)
"""


def closure(names: tuple[str, ...]) -> set[str]:
    """These packages and all that they require here."""
    found: set[str] = set()
    waiting = list(names)
    while waiting:
        name = waiting.pop()
        try:
            known = distribution(name)
        except PackageNotFoundError:
            # A requirement of another platform or Python.
            continue
        if known.metadata["Name"] in found:
            continue
        found.add(known.metadata["Name"])
        requirements = map(Requirement, known.requires or ())
        waiting += [one.name for one in requirements if not one.marker or one.marker.evaluate({"extra": ""})]
    return found


@pytest.fixture(scope="module")
def poor_python(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """An interpreter that has the program and the listed packages, linked from this environment."""
    folder = tmp_path_factory.mktemp("poor")
    venv.create(folder / "venv", with_pip=False, symlinks=True)
    packages = next((folder / "venv/lib").glob("python*")) / "site-packages"
    installed = Path(sysconfig.get_path("purelib"))
    for name in (*closure(LISTED), "pyrometer"):
        for file in distribution(name).files or ():
            top = file.parts[0]
            if top not in ("..", "__pycache__") and not (packages / top).exists():
                (packages / top).symlink_to(installed / top)
    (packages / "program.pth").write_text(f"{ROOT}\n")
    return folder / "venv/bin/python"


def test_the_commands_import_with_the_listed_packages_only(poor_python: Path) -> None:
    absent = (
        "import importlib.util as u; print([n for n in ('streamlit', 'altair', 'apprise') if u.find_spec(n)])"
    )
    done = subprocess.run([poor_python, "-c", absent], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"
    done = subprocess.run([poor_python, "-c", HELP, *COMMANDS], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr


@pytest.fixture(scope="module")
def accepted(
    poor_python: Path, shim: Shim, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[tuple["subprocess.CompletedProcess[str]", Path]]:
    """The acceptance to its end, beside a driver that lists an idle H200 and a PyTorch for CPUs."""
    out = tmp_path_factory.mktemp("acceptance")
    driver = shim.variables("h200", "0 0 processes -", "0 0 memory_used 104857600")
    command = [poor_python, str(BENCHMARKS / "gpu/acceptance.py"), str(out), "--seconds", str(SECONDS)]
    # As one types it: the processes of the acceptance have another working folder.
    command += ["--python", os.path.relpath(measured_python())]
    lock = {"PYROMETER_TEST_LOCK_FOLDER": str(tmp_path_factory.mktemp("lock"))}
    done = subprocess.run(
        command, env={**os.environ, **driver, **lock}, capture_output=True, text=True, timeout=SECONDS + 100
    )
    yield done, out


def test_it_runs_to_its_end_without_a_gpu(
    accepted: tuple["subprocess.CompletedProcess[str]", Path],
) -> None:
    done, out = accepted
    lines = script("gpu/lines").LINES
    report = json.loads((out / "accept.json").read_text())
    verdicts = {line["name"]: (line["verdict"], line["reason"]) for line in report["lines"]}
    skipped = ("skip", "no CUDA device")
    assert verdicts == {line.name: skipped if line.needs == "cuda" else ("pass", "") for line in lines}
    assert done.returncode == 0, done.stdout + done.stderr
    assert "no CUDA device" in done.stdout.splitlines()[-1]
    assert report["complete"] is True


def test_the_bundle_is_small_and_holds_the_runs(
    accepted: tuple["subprocess.CompletedProcess[str]", Path],
) -> None:
    _, out = accepted
    names = {path.name for path in out.iterdir()}
    assert names == {"accept.json", "doctor.json", "log.txt", "run.jsonl.gz", "journals.tar.gz"}
    assert len(names) <= 8 and sum(path.stat().st_size for path in out.iterdir()) < 16 << 20
    subprocess.run(["tar", "xzf", "journals.tar.gz"], cwd=out, check=True)
    runs = [journal.read_contents(path) for path in sorted(out.glob(f"*/{journal.FILE}"))]
    assert [run.header["suite"] for run in runs] == ["accept-cpu", "accept-kills", "accept-kills"]


def test_the_comparison_without_a_gpu_skips_what_it_compares(poor_python: Path, tmp_path: Path) -> None:
    command = [poor_python, str(BENCHMARKS / "gpu/comparison.py"), str(tmp_path / "out")]
    command += ["--python", str(measured_python())]
    done = subprocess.run(command, capture_output=True, text=True)
    skipped = "skip: no CUDA device"
    assert (done.returncode, done.stdout.splitlines()) == (
        0,
        [f"fingerprints: {skipped}", f"upgrade: {skipped}"],
    )


def test_an_environment_is_made_of_this_machines_packages_and_wheels(tmp_path: Path) -> None:
    (tmp_path / "wheels").mkdir()
    python = script("gpu/layout").make(tmp_path / "program", tmp_path / "wheels")
    done = subprocess.run([python, *PROGRAM, "version"], capture_output=True, text=True, cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    ours = subprocess.run([sys.executable, *PROGRAM, "version"], capture_output=True, text=True, cwd=ROOT)
    assert done.stdout == ours.stdout
