"""Forked workers: the same fingerprints, pairs that can be measured, and what dies and prints alone."""

import os
import signal
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import psutil
import pytest

from records.dispatch import CaseFingerprint
from runner.dispatch.capture import FingerprintSettings, take_fingerprint
from runner.execution import harness
from runner.execution.fork_server import ForkServers, may_fork
from runner.execution.process import sweep
from runner.preset import MachinePreset
from runner.worker.case_key import CaseKey
from support.measuring import CASE_FILES, Scratch, below, conditions, measure
from support.processes import alive, processes_below
from support.site import PATIENCE_SECONDS, measured_python

AFFINE, MLP = "affine/infer/width=32/eager", "mlp_overhead/train/batch=1/eager"
TOKEN = "fork-test"


@pytest.fixture(scope="module")
def settings(
    tmp_path_factory: pytest.TempPathFactory, module_scratch: Scratch
) -> Iterator[FingerprintSettings]:
    """Fingerprints by forked workers, whose server the tests share; no process is left."""
    before, tmp_path = below(), tmp_path_factory.mktemp("forks")
    files = [CASE_FILES / name for name in ("dispatches.py", "ends_badly.py", "noisy.py")]
    built = harness.build(tmp_path / "harness", files)
    forks = ForkServers(tmp_path / "logs", f"{TOKEN}:fork", profiler=True)
    preset, work = MachinePreset("as-it-comes"), tmp_path / "work"
    yield FingerprintSettings(
        str(measured_python()), built, preset, "cpu", PATIENCE_SECONDS, work, TOKEN, forks
    )
    forks.close()
    assert sweep(TOKEN) == []
    assert below() == before


def servers() -> list[psutil.Process]:
    """The processes that fork workers, below this one; workers have the command line of theirs."""
    return processes_below(lambda line: line[3:4] == ["fork"])


@pytest.mark.torch
def test_a_worker_that_dies_or_hangs_leaves_its_server_alone(settings: FingerprintSettings) -> None:
    died = take_fingerprint("dies/infer/-/eager", settings)
    (server,) = servers()
    assert (died.status, "SIGILL" in died.reason) == ("crashed", True)
    hung = take_fingerprint("hangs/infer/-/eager", replace(settings, deadline_seconds=1.0))
    assert hung.status == "timeout"
    assert take_fingerprint(AFFINE, settings).status == "ok"
    assert servers() == [server] and not server.children()


@pytest.mark.torch
def test_without_its_server_a_worker_is_started_by_itself_and_takes_the_same_fingerprint(
    settings: FingerprintSettings,
) -> None:
    def taken() -> CaseFingerprint:
        return take_fingerprint(AFFINE, settings)

    first = taken()
    assert (first.status, first.reason) == ("ok", "")
    (server,) = servers()
    os.kill(server.pid, signal.SIGKILL)
    server.wait(PATIENCE_SECONDS)
    assert taken().fingerprint == first.fingerprint
    assert servers() == []
    assert settings.forks is not None
    settings.forks.renew(1)
    assert taken().fingerprint == first.fingerprint
    assert len(servers()) == 1


@pytest.mark.torch
def test_a_session_of_forked_workers_is_measured(settings: FingerprintSettings, tmp_path: Path) -> None:
    shared = replace(
        conditions(tmp_path, preset=settings.preset), harness=settings.harness, forks=settings.forks
    )
    found = measure(shared, [["segfaults", MLP], [MLP]])
    (server,) = servers()
    assert alive(server.pid) and not server.children()
    assert found.of("segfaults").status == "crashed"
    assert [one.status for one in found.outcomes if one.case == MLP] == ["ok", "ok"]
    assert all(one.facts["exit"]["exit_code"] == 0 for one in found.outcomes if one.status == "ok")


@pytest.mark.torch
def test_forked_workers_leave_a_bounded_log_and_no_process(
    settings: FingerprintSettings, tmp_path: Path, module_scratch: Scratch
) -> None:
    shared = replace(
        conditions(tmp_path, preset=settings.preset), harness=settings.harness, forks=settings.forks
    )
    found = measure(shared, [["floods_stdout", "leaves_a_session"]])
    assert [one.status for one in found.outcomes] == ["ok", "ok"]
    (log,) = tmp_path.glob("run/logs/*/floods_stdout__*.log")
    printed = log.read_bytes()
    assert len(printed) < 2 << 20
    assert printed.startswith(b"the beginning\n") and b"the end\n" in printed[-1000:]
    (left,) = module_scratch.pids("session")
    (server,) = servers()
    assert (alive(left), alive(server.pid)) == (False, True)


@pytest.mark.parametrize(
    ("case", "device", "forked"),
    [
        (AFFINE, "cpu", True),
        ("affine/infer/width=32/precision=bf16", "cpu", True),
        (AFFINE, "cuda:0", False),
        ("affine/infer/width=32/compile=default", "cpu", False),
        ("affine/infer/width=32/instances=2", "cpu", False),
        ("affine/infer/width=32/threads=2", "cpu", False),
    ],
)
def test_what_the_start_decides_is_not_forked(case: str, device: str, forked: bool) -> None:
    assert may_fork(CaseKey.parse(case), device) == forked
