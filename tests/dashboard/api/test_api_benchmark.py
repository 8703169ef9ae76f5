"""The benchmark of the API still runs against the API as it is, small: every route answers."""

import re
import subprocess
import sys

import pytest

from support.site import ROOT

pytestmark = pytest.mark.slow


def test_every_route_answers_and_a_series_is_followed_page_by_page() -> None:
    command = [sys.executable, "benchmarks/api.py", "--results", "28000", "--rounds", "2"]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    lines = re.findall(r"^(/.+?) +2 +\d+ +[\d.]+ +[\d.]+ +[\d.]+  (.*)$", done.stdout, re.MULTILINE)
    assert len(lines) > 15 and "/series/points, a page of 100" in dict(lines), done.stdout
    assert not any("answers" in said for _, said in lines), done.stdout
