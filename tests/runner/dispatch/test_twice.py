"""The cases of suite `smoke`, recorded twice: by workers that are forked where they may be, and by others.

`benchmarks/fingerprints.py` does so over all CPU suites, which takes long.
"""

from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from dataclasses import replace
from pathlib import Path

import pytest

from records.dispatch import CaseFingerprint, DispatchPart
from records.outcomes import OutcomeStatus
from runner.dispatch.capture import FingerprintSettings, take_fingerprint
from runner.execution import harness
from runner.execution.fork_server import ForkServers
from runner.preset import MachinePreset
from runner.suites.suite import built_in
from runner.worker.case_key import CaseKey
from support.site import measured_python

pytestmark = [pytest.mark.torch, pytest.mark.slow, pytest.mark.timeout(1800)]

#: Seconds one case may take on a busy machine.
DEADLINE = 900.0


def cases() -> list[str]:
    """The cases of the suite, without those of several processes."""
    every = built_in()["smoke"].cases
    return [case for case in every if not {"instances", "parallel"} & {*dict(CaseKey.parse(case).technique)}]


def recorded(one: CaseFingerprint) -> object:
    """What must be the same twice."""
    if one.fingerprint is None:
        return one.status, one.reason
    parts = dict(one.fingerprint.parts)
    if "max-autotune" in one.case:
        # oneDNN, MKL and operators follow the kernel that was the fastest.
        parts = {DispatchPart.COMPILER: parts[DispatchPart.COMPILER]}
    return parts, one.fingerprint.missing


def test_the_same_environment_twice(tmp_path: Path) -> None:
    """No way to start a worker, order, address, process id or busy machine changes a fingerprint."""
    built = harness.build(tmp_path / "harness")
    about = (str(measured_python()), built, MachinePreset("as-it-comes"), "cpu", DEADLINE)
    alone = FingerprintSettings(*about, tmp_path / "work", "fingerprints-twice")
    every = cases()
    assert len(every) >= 8
    with closing(ForkServers(tmp_path / "logs", "fingerprints-twice:fork", profiler=True)) as forks:
        forked = replace(alone, forks=forks)
        with ThreadPoolExecutor(2) as pool:
            first, second = (
                list(pool.map(take_fingerprint, every, [way] * len(every))) for way in (forked, alone)
            )
    differ = [a.case for a, b in zip(first, second, strict=True) if recorded(a) != recorded(b)]
    assert differ == []
    taken = [one for one in first if one.status == OutcomeStatus.OK]
    assert len(taken) >= len(every) - 2
