"""Runs a snippet of these tests under the measured interpreter, as a real process of its own."""

import json
import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from measuring_site import measured_python

ROOT = Path(__file__).resolve().parents[3]
SNIPPETS = Path(__file__).parent / "snippets"

Measured = Callable[[str], Any]


@pytest.fixture(scope="session")
def measured() -> Measured:
    """Call with a snippet's name: it runs with the repository's root on `sys.path`; returns its JSON."""
    python = measured_python()

    def run(name: str) -> Any:
        environment = {**os.environ, "PYTHONPATH": str(ROOT), "PYTHONDONTWRITEBYTECODE": "1"}
        # One thread: the machine may be busy with other tests, and sums then have one order.
        environment["OMP_NUM_THREADS"] = "1"
        done = subprocess.run(
            [str(python), str(SNIPPETS / name)], env=environment, cwd=ROOT, capture_output=True, text=True
        )
        if done.returncode != 0:
            sys.stderr.write(done.stderr)
            pytest.fail(f"{name} ended with {done.returncode}: {done.stderr.strip().splitlines()[-1:]}")
        return json.loads(done.stdout)

    return run
