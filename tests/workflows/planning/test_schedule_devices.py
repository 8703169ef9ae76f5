"""A scheduler says which device each schedule measures, and when a GPU is measured by none."""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from configuration.settings import load_settings
from support.fakes.nvml import Shim
from support.sqlite_files import sqlite_with_tables
from workflows.planning.select_cases import schedule_devices, unmeasured_gpus

TOML = """
[schedules.nightly]
cron = "30 2 * * *"
suite = "{suite}"
environments = ["2.13.0", "nightly"]
machines = ["h200"]
[schedules.away]
cron = "30 2 * * *"
suite = "smoke"
enabled = false
[schedules.elsewhere]
cron = "30 2 * * *"
suite = "smoke"
machines = ["a100"]
[schedules.prune]
cron = "0 12 * * 0"
job = "prune"
"""


@pytest.mark.parametrize(
    ("suite", "gpus", "device", "on_gpu"),
    [
        ("nightly-gpu", ["NVIDIA H200"], "NVIDIA H200", True),
        ("nightly-gpu", [], "a GPU, which this machine does not have", True),
        ("cpu", ["NVIDIA H200"], "the CPU", False),
        ("smoke", ["NVIDIA H200"], "NVIDIA H200", True),
        ("smoke", [], "the CPU", False),
    ],
)
def test_a_schedule_measures_the_device_of_its_suite(
    tmp_path: Path, suite: str, gpus: list[str], device: str, on_gpu: bool
) -> None:
    (tmp_path / "pyrometer.toml").write_text(TOML.format(suite=suite))
    (found,) = schedule_devices(load_settings(cwd=tmp_path, environ={}), ("bench", "h200"), gpus)
    assert (found.schedule, found.on_gpu) == ("nightly", on_gpu)
    assert found.sentence == f"nightly: suite {suite} of 2.13.0, nightly on {device}"
    assert bool(unmeasured_gpus([found], gpus)) is (bool(gpus) and not on_gpu)


def test_a_schedules_own_device_comes_before_its_suites(tmp_path: Path) -> None:
    text = TOML.format(suite="smoke").replace('machines = ["h200"]', 'machines = ["h200"]\ndevice = "cpu"')
    (tmp_path / "pyrometer.toml").write_text(text)
    (found,) = schedule_devices(load_settings(cwd=tmp_path, environ={}), ("h200",), ["NVIDIA H200"])
    assert not found.on_gpu


@pytest.mark.slow
def test_the_log_of_a_scheduler_begins_with_what_it_measures(tmp_path: Path, shim: Shim) -> None:
    settings = 'machine_labels = ["h200"]\n' + TOML.format(suite="cpu")
    (tmp_path / "pyrometer.toml").write_text(settings)
    sqlite_with_tables(tmp_path / "pyrometer.db")
    done = subprocess.run(
        [Path(sys.executable).with_name("pyrometer"), "scheduler", "--once", "--log", "json"],
        cwd=tmp_path,
        env={**os.environ, **shim.variables("h200")},
        capture_output=True,
        text=True,
        timeout=120,
    )
    assert done.returncode == 0, done.stderr
    events = [json.loads(line) for line in done.stdout.splitlines()]
    measures = [event for event in events if event["event"] == "measures"]
    assert [event["text"] for event in measures] == [
        "nightly: suite cpu of 2.13.0, nightly on the CPU",
        "no schedule measures the 1 GPU of this machine: suite nightly-gpu does",
    ]
    assert [event["level"] for event in measures] == ["info", "warning"]
