"""The distributions of `clients/` are written for the oldest Python that each of them declares."""

import json
import re
import shutil
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest

from support.site import ROOT

pytestmark = pytest.mark.slow

DISTRIBUTIONS = sorted(file.parent for file in (ROOT / "clients").glob("*/pyproject.toml"))


def problems(folder: Path, python: str) -> list[str]:
    """What pyright reports for the files of a folder if they run under a version of Python."""
    settings = {"pythonVersion": python, "typeCheckingMode": "basic"}
    (folder / "pyrightconfig.json").write_text(json.dumps(settings))
    pyright = Path(sys.executable).with_name("pyright")
    command = [pyright, "-p", folder, "--pythonpath", sys.executable, "--outputjson"]
    report = json.loads(subprocess.run(command, capture_output=True, text=True).stdout)
    assert report["summary"]["filesAnalyzed"] > 0
    return [one["message"] for one in report["generalDiagnostics"] if one["severity"] == "error"]


@pytest.mark.parametrize("distribution", DISTRIBUTIONS, ids=lambda each: each.name)
def test_a_distribution_needs_no_newer_python_than_it_declares(distribution: Path, tmp_path: Path) -> None:
    declared = tomllib.loads((distribution / "pyproject.toml").read_text())["project"]["requires-python"]
    oldest = re.fullmatch(r">=(3\.\d+)", declared)
    assert oldest, declared
    shutil.copytree(distribution / distribution.name, tmp_path / distribution.name)
    assert problems(tmp_path, oldest[1]) == []


def test_newer_syntax_and_names_are_found(tmp_path: Path) -> None:
    (tmp_path / "newer.py").write_text(
        "from datetime import UTC\n\n\ndef word(value: int | None) -> object:\n"
        "    match value:\n        case None:\n            return UTC\n"
    )
    found = problems(tmp_path, "3.9")
    assert len(found) == 3 and problems(tmp_path, "3.11") == [], found
