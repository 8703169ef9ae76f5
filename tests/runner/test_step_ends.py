"""Step scripts that cannot be measured: each ends in its worker with a status and a reason."""

from dataclasses import replace
from pathlib import Path

import pytest

from records.runs import StepScript
from runner.execution import harness
from runner.step_file import step_case
from support.measuring import QUICK, conditions, measure

pytestmark = [pytest.mark.torch, pytest.mark.timeout(600)]

#: Long enough to import torch on a busy machine.
TIMING = replace(QUICK, deadline_seconds=15.0)


@pytest.mark.parametrize(
    ("text", "status", "reason"),
    [
        ("def step():\n    import torch.no_such_module\n", "crashed", "torch.no_such_module"),
        ("import sys\n\ndef step():\n    sys.exit('enough')\n", "crashed", "the case called sys.exit"),
        (
            "import einops_of_our_own\n\ndef step():\n    pass\n",
            "unsupported",
            "repro.py needs einops_of_our_own, which this environment lacks: --package NAME installs",
        ),
        ("step = [1, 2, 3]\n", "unsupported", "repro.py defines no function step"),
        (
            "import time\n\ntime.sleep(600)\n\ndef step():\n    pass\n",
            "timeout",
            "no end within 15 s, last seen in build",
        ),
    ],
    ids=["imports", "exits", "lacks a package", "defines none", "sets up for ever"],
)
def test_a_step_that_cannot_be_measured_ends_with_a_reason(
    tmp_path: Path, text: str, status: str, reason: str
) -> None:
    step = StepScript("repro.py", "step", text)
    built = harness.build(tmp_path / "harness", step=step)
    shared = replace(conditions(tmp_path, timing=TIMING), harness=built)
    (outcome,) = measure(shared, [[step_case(step)]]).outcomes
    assert outcome.status == status
    assert reason in outcome.reason
