"""A slow-down that was planted over five real interpreters is found, through a `kill -9`."""

from pathlib import Path

import pytest

from db.connection.engine import open_database
from db.runs import queries
from support.fakes.scripted_workers import CASE, end_of
from support.interpreters import make_interpreter, measured_packages
from support.site import Site

PLANTED = '''"""An addition, again and again; six times as often where the interpreter is a slow one."""

import sys

import torch
from runner.worker.case import case


@case()
def planted():
    ones = torch.ones(64)
    if sys.prefix.endswith("-gone"):
        raise RuntimeError("no such operator")
    times = 1_200 if sys.prefix.endswith("-slow") else 200

    def step():
        for _ in range(times):
            last = ones + ones
        return last

    return step
'''


def planted_interpreter(folder: Path, *packages: str) -> None:
    """An interpreter with one package of its own."""
    about = make_interpreter(folder, *packages) / "planted-1.0.dist-info"
    about.mkdir()
    (about / "METADATA").write_text(f"Metadata-Version: 2.1\nName: planted\nVersion: 1.0+{folder.name}\n")


@pytest.mark.torch
def test_five_real_interpreters_one_kill_and_what_was_planted(site: Site) -> None:
    names = ["a", "b-slow", "c", "d", "e-gone"]
    for name in names:
        planted_interpreter(site.folder / name, *(() if name in ("c", "d") else (measured_packages(),)))
    (site.folder / "planted.py").write_text(PLANTED)
    with (site.folder / "pyrometer.toml").open("a") as file:
        file.write(
            f'\n[suites.planted]\ncases = ["{CASE}"]\nmeasure_seconds = 0.05\nobserve_seconds = 0\n'
            "warm_up_max_seconds = 0.3\n\n[policies.default]\nthresholds = {latency_floor = 0.5}\n"
        )
    running = site.start_command(
        *("bisect", "./a", "./e-gone", "--candidates", "./b-slow,./c,./d", "--case", "planted"),
        *("--suite", "planted", "--cases", "planted.py", "--pairs", "4"),
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
    # A comparison that a busy machine left unclear is measured again.
    decided = [one for one in end["comparisons"] if one["mark"] != "unclear"]
    steps = [(Path(one["new"]).name, one["mark"]) for one in decided]
    assert steps == [("e-gone", "bad"), ("c", "skip"), ("d", "skip"), ("b-slow", "bad")]
    ends, no_torch, _, found = decided
    assert "no such operator" in ends["message"] and "No module named 'torch'" in no_torch["message"]
    assert found["evidence"]["verdict"]["word"] == "slower"
    assert found["changes"] == [{"what": "planted", "old": "1.0+a", "new": "1.0+b-slow"}]
    with open_database(site.url, create=False) as database:
        assert sorted(queries.run_ids(database)) == sorted(
            {one["run"] for one in end["comparisons"] if one["run"]}
        )
