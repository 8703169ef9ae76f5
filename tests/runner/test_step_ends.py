"""Step scripts that cannot be measured: each ends in its worker with a status and a reason."""

import re
from dataclasses import replace
from pathlib import Path

import pytest

from records.runs import StepScript
from runner.execution import harness
from runner.step_file import step_case
from support.measuring import QUICK, conditions, measure

pytestmark = pytest.mark.torch

FOR_EVER = "import time\n\ntime.sleep(600)\n\ndef step():\n    pass\n"


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
            FOR_EVER,
            "timeout",
            # On a machine that needs so long to import torch, it has come no further.
            "no end within 10 s, last seen in (build|import)",
        ),
    ],
    ids=["imports", "exits", "lacks a package", "defines none", "sets up for ever"],
)
def test_a_step_that_cannot_be_measured_ends_with_a_reason(
    tmp_path: Path, text: str, status: str, reason: str
) -> None:
    step = StepScript("repro.py", "step", text)
    built = harness.build(tmp_path / "harness", step=step)
    timing = replace(QUICK, deadline_seconds=10.0) if text == FOR_EVER else QUICK
    shared = replace(conditions(tmp_path, timing=timing), harness=built)
    (outcome,) = measure(shared, [[step_case(step)]]).outcomes
    assert outcome.status == status
    assert re.search(reason, outcome.reason)
