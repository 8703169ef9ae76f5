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


NEWER = """from datetime import UTC


def word(value: int | None) -> object:
    match value:
        case None:
            return UTC
"""


def problems(folder: Path, python: str) -> list[tuple[str, str]]:
    """What pyright reports for files of a folder if they run under a version of Python, with their names."""
    settings = {"pythonVersion": python, "typeCheckingMode": "basic"}
    (folder / "pyrightconfig.json").write_text(json.dumps(settings))
    pyright = Path(sys.executable).with_name("pyright")
    command = [pyright, "-p", folder, "--pythonpath", sys.executable, "--outputjson"]
    report = json.loads(subprocess.run(command, capture_output=True, text=True).stdout)
    assert report["summary"]["filesAnalyzed"] > 0
    found = [one for one in report["generalDiagnostics"] if one["severity"] == "error"]
    return [(Path(one["file"]).name, one["message"]) for one in found]


def test_distributions_need_no_newer_python_than_they_declare_and_newer_words_are_found(
    tmp_path: Path,
) -> None:
    for distribution in DISTRIBUTIONS:
        declared = tomllib.loads((distribution / "pyproject.toml").read_text())["project"]["requires-python"]
        oldest = re.fullmatch(r">=(3\.\d+)", declared)
        assert oldest, declared
        shutil.copytree(distribution / distribution.name, tmp_path / oldest[1] / distribution.name)
    for folder in sorted(tmp_path.iterdir()):
        (folder / "newer.py").write_text(NEWER)
        assert [name for name, _ in problems(folder, folder.name)] == ["newer.py"] * 3
    new = tmp_path / "new"
    new.mkdir()
    (new / "newer.py").write_text(NEWER)
    assert problems(new, "3.11") == []
