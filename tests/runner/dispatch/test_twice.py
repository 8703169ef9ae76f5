"""Cases of every kind, recorded twice: by workers that are forked where they may be, and by others.

`benchmarks/fingerprints.py` does so over all CPU suites, which takes long.
"""

from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from dataclasses import replace
from pathlib import Path

import pytest

from records.dispatch import CaseFingerprint
from records.outcomes import OutcomeStatus
from runner.dispatch.capture import FingerprintSettings, take_fingerprint
from runner.execution import harness
from runner.execution.fork_server import ForkServers
from runner.preset import MachinePreset
from support.site import measured_python

pytestmark = [pytest.mark.torch, pytest.mark.slow, pytest.mark.timeout(1800)]

#: Trained, mixed in precision, recurrent; `test_capture` records a compiled one twice.
CASES = (
    "custom_cnn/train/batch=4/eager",
    "gpt2_small/infer/batch=1,layers=1,tokens=32/precision=amp-bf16",
    "custom_gru_cell/infer/batch=16,hidden=256,steps=8/eager",
)
#: Seconds one case may take on a busy machine.
DEADLINE = 900.0


def recorded(one: CaseFingerprint) -> object:
    """What must be the same twice."""
    if one.fingerprint is None:
        return one.status, one.reason
    return one.fingerprint.parts, one.fingerprint.missing


def test_the_same_environment_twice(tmp_path: Path) -> None:
    """No way to start a worker, order, address, process id or busy machine changes a fingerprint."""
    built = harness.build(tmp_path / "harness")
    about = (str(measured_python()), built, MachinePreset("as-it-comes"), "cpu", DEADLINE)
    alone = FingerprintSettings(*about, tmp_path / "work", "fingerprints-twice")
    with closing(ForkServers(tmp_path / "logs", "fingerprints-twice:fork", profiler=True)) as forks:
        forked = replace(alone, forks=forks)
        with ThreadPoolExecutor(2) as pool:
            first, second = (
                list(pool.map(take_fingerprint, CASES, [way] * len(CASES))) for way in (forked, alone)
            )
    differ = [a.case for a, b in zip(first, second, strict=True) if recorded(a) != recorded(b)]
    assert differ == []
    # A product in bf16 ends with SIGILL on some machines, both times.
    taken = {one.case for one in first if one.status == OutcomeStatus.OK}
    assert {case for case in CASES if "amp-bf16" not in case} <= taken
