"""A slow-down that was planted over five real interpreters is found, through a `kill -9`."""

import subprocess
from pathlib import Path

import pytest

from db.connection.engine import open_database
from db.runs import queries
from support.fakes.scripted_workers import CASE, end_of
from support.site import COMMAND, Running, Site, measured_python

PLANTED = '''"""An addition, again and again; twice as often where the interpreter is a slow one."""

import sys

import torch
from runner.worker.case import case


@case()
def planted():
    ones = torch.ones(64)
    if sys.prefix.endswith("-gone"):
        raise RuntimeError("no such operator")
    times = 400 if sys.prefix.endswith("-slow") else 200

    def step():
        for _ in range(times):
            last = ones + ones
        return last

    return step
'''


def make_interpreter(folder: Path, torch_from: Path | None) -> None:
    """A virtual environment that has PyTorch from elsewhere, or has none, and one package of its own."""
    subprocess.run([measured_python(), "-m", "venv", "--without-pip", folder], check=True)
    (packages,) = folder.glob("lib/python*/site-packages")
    if torch_from:
        (packages / "from_elsewhere.pth").write_text(f"{torch_from}\n")
    about = packages / "planted-1.0.dist-info"
    about.mkdir()
    (about / "METADATA").write_text(f"Metadata-Version: 2.1\nName: planted\nVersion: 1.0+{folder.name}\n")


@pytest.mark.torch
@pytest.mark.timeout(900)
def test_five_real_interpreters_one_kill_and_what_was_planted(site: Site) -> None:
    (packages,) = measured_python().parents[1].glob("lib/python*/site-packages")
    names = ["a", "b-slow", "c", "d", "e-gone"]
    for name in names:
        make_interpreter(site.folder / name, None if name in ("c", "d") else packages)
    (site.folder / "planted.py").write_text(PLANTED)
    with (site.folder / "pyrometer.toml").open("a") as file:
        file.write(
            f'\n[suites.planted]\ncases = ["{CASE}"]\nmeasure_seconds = 0.05\nobserve_seconds = 0\n'
            "warm_up_max_seconds = 0.3\n\n[policies.default]\nthresholds = {latency_floor = 0.5}\n"
        )
    running = start(
        site,
        *("bisect", "./a", "./e-gone", "--candidates", "./b-slow,./c,./d", "--case", "planted"),
        *("--suite", "planted", "--cases", "planted.py", "--pairs", "4", "--json"),
    )
    try:
        name = running.until("bisection")["id"]
        running.until("compared", mark="skip")
        running.until("comparing", new=1)
        running.until("phase", phase="build")
    finally:
        running.process.kill()
        running.end()

    done = site.call("bisect", "--resume", str(name), "--json")
    end = end_of(done)
    assert (done.code, end["end"]) == (0, "pair"), done
    steps = [(Path(one["new"]).name, one["mark"]) for one in end["comparisons"]]
    assert steps == [("e-gone", "bad"), ("c", "skip"), ("d", "skip"), ("b-slow", "bad")]
    ends, no_torch, _, found = end["comparisons"]
    assert "no such operator" in ends["message"] and "No module named 'torch'" in no_torch["message"]
    assert found["evidence"]["verdict"]["word"] == "slower"
    assert found["changes"] == [{"what": "planted", "old": "1.0+a", "new": "1.0+b-slow"}]
    with open_database(site.url, create=False) as database:
        assert sorted(queries.run_ids(database)) == [ends["run"], found["run"]]


def start(site: Site, *arguments: str) -> Running:
    """Any command with `--json`, in the background."""
    err = site.folder / "stderr"
    with err.open("w") as file:
        process = subprocess.Popen(
            [COMMAND, *arguments],
            cwd=site.folder,
            env=site.environ({}),
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=file,
            text=True,
        )
    return Running(process, err)
