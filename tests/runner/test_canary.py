"""The canary: frozen work, on the measured CPUs, whatever becomes of it."""

import hashlib
import os
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import pytest

from runner.execution import canary_runner
from runner.execution.canary_runner import CASES, Canary, canary_of
from runner.preset import MachinePreset
from runner.worker.case_key import CaseKey
from support.waiting import until

SCRIPT = Path(canary_runner.__file__).with_name("canaries") / "canary.py"
CPU = max(os.sched_getaffinity(0))


def test_its_work_is_frozen() -> None:
    # A changed script measures another thing: it needs new names in drift.CASES, then this hash.
    assert hashlib.sha256(SCRIPT.read_bytes()).hexdigest()[:16] == "d0cc8fb4488fddb2"
    assert [str(CaseKey.parse(case)) for case in CASES] == [
        "canary_compute/infer/-/eager",
        "canary_bandwidth/infer/-/eager",
    ]


def test_it_returns_two_outcomes_with_all_their_samples() -> None:
    canary = Canary((CPU,))
    compute, bandwidth = canary.run(7, "test:canary")
    for outcome, repetitions in ((compute, 24), (bandwidth, 8)):
        assert (outcome.status, outcome.reason) == ("ok", "")
        assert (outcome.replicate, outcome.environment) == (7, canary.fingerprint)
        ((*samples,),) = outcome.blocks
        assert len(samples) == repetitions
        assert outcome.metrics["latency_min"] == min(samples) / 1e6 <= outcome.metrics["latency"]
        assert 0 < outcome.facts["cpu_share"] < 1.1
    assert [outcome.case for outcome in (compute, bandwidth)] == list(CASES)
    # 128 MiB moved in that many milliseconds.
    moved = 2 * 64 * 2**20 / 1e9
    assert bandwidth.facts["gb_per_second"] == pytest.approx(moved / bandwidth.metrics["latency"] * 1e3)


def test_it_works_on_the_measured_cpus() -> None:
    command = [sys.executable, "-I", "-S", str(SCRIPT), "--cpus", str(CPU)]
    process = subprocess.Popen(command, stdout=subprocess.PIPE)
    status = Path(f"/proc/{process.pid}/status")
    until(lambda: f"Cpus_allowed_list:\t{CPU}\n" in status.read_text(), "pinned")
    output, _ = process.communicate()
    assert process.returncode == 0 and b"canary_compute" in output


def test_it_is_known_by_script_interpreter_and_cpus_and_by_no_pytorch() -> None:
    one = canary_of(MachinePreset("p", {"A": "1"}, (CPU,)), "cpu")
    assert one == Canary((CPU,)) and one.fingerprint == Canary((CPU,)).fingerprint
    assert one.fingerprint != Canary(()).fingerprint
    environment = one.environment()
    assert (environment["name"], environment["fingerprint"]) == ("canary", one.fingerprint)
    assert "torch" not in environment["facts"]


def test_what_goes_wrong_is_an_outcome(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    nowhere = Canary((100_000,)).run(0, "test:canary")
    assert [(o.status, o.metrics, o.blocks) for o in nowhere] == [("crashed", {}, ())] * 2
    assert nowhere[0].reason == "the canary ended with 1: OSError: [Errno 22] Invalid argument"
    monkeypatch.setattr(canary_runner, "_TIMEOUT_SECONDS", 0.001)
    late = Canary(()).run(0, "test:canary")
    assert late[0].reason == late[1].reason == "the canary did not end within 0.001 s"
    monkeypatch.setattr(sys, "executable", str(tmp_path / "nothing"))
    missing = Canary(()).run(0, "test:canary")
    assert missing[0].reason == "the canary cannot be started: No such file or directory"
    assert replace(missing[0], case="") == replace(missing[1], case="")
