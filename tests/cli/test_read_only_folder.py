"""Commands that read, in a project folder that the user may not write to: their answers, or one sentence."""

import json
import os
import shutil
import subprocess
import urllib.request
from collections.abc import Iterator
from pathlib import Path

import pytest

from db.connection.engine import open_database
from db.runs import queries
from support.builders import full_database
from support.servers.ports import free_port
from support.site import COMMAND, obey_permissions

pytestmark = pytest.mark.slow


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """A project folder with runs and findings, without permission to write."""
    folder = tmp_path_factory.mktemp("project")
    full_database.add(f"sqlite:///{folder}/pyrometer.db", folder)
    (folder / "pyrometer.toml").touch()
    (folder / "pyrometer.db").chmod(0o444)
    folder.chmod(0o555)
    yield folder
    folder.chmod(0o755)


@pytest.fixture(scope="module")
def run(folder: Path) -> str:
    with open_database(f"sqlite:///{folder}/pyrometer.db", create=False) as database:
        return queries.upgrade_runs(database)[0].id


def pyrometer(folder: Path, home: Path, *words: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [str(COMMAND), *words],
        cwd=folder,
        env={"PATH": os.environ["PATH"], "HOME": str(home)},
        preexec_fn=obey_permissions,
        capture_output=True,
        text=True,
    )


def test_what_is_stored_there_is_read(folder: Path, run: str, tmp_path: Path) -> None:
    report, table = tmp_path / "verdict.html", tmp_path / "run.csv"
    assert "2.13.0 to 2.15.0" in pyrometer(folder, tmp_path, "report", run, "--report", str(report)).stdout
    assert report.stat().st_size > 10_000
    assert run in pyrometer(folder, tmp_path, "reproduce", run).stdout
    assert pyrometer(folder, tmp_path, "export", run, str(table)).returncode == 0
    assert len(table.read_text().splitlines()) > 10
    found = pyrometer(folder, tmp_path, "regressions", "list").stdout
    assert "no open regression" not in found and "bench-1" in found
    assert sorted(file.name for file in folder.iterdir()) == ["data", "pyrometer.db", "pyrometer.toml"]


def test_a_dashboard_needs_no_place_to_write_to(folder: Path, run: str, tmp_path: Path) -> None:
    place = tmp_path / "place"
    (place / ".pyrometer").mkdir(parents=True)
    for name in ("pyrometer.db", "pyrometer.toml"):
        shutil.copy(folder / name, place)
    for path in (place / ".pyrometer", place):
        path.chmod(0o555)
    port = free_port()
    served = subprocess.Popen(
        [str(COMMAND), "dashboard", "--port", str(port)],
        cwd=place,
        # Nor has its user a folder to write to.
        env={"PATH": os.environ["PATH"], "HOME": str(place)},
        preexec_fn=obey_permissions,
        stdout=subprocess.PIPE,
        text=True,
    )
    with served:
        try:
            assert served.stdout and f":{port}" in served.stdout.readline()
            with urllib.request.urlopen(f"http://127.0.0.1:{port}/readyz") as answer:
                assert answer.status == 200
            with urllib.request.urlopen(f"http://127.0.0.1:{port}/api/v1/runs") as answer:
                assert run in [row["id"] for row in json.load(answer)]
        finally:
            served.terminate()
            place.chmod(0o755)
            (place / ".pyrometer").chmod(0o755)
    assert sorted(file.name for file in place.iterdir()) == [".pyrometer", "pyrometer.db", "pyrometer.toml"]


@pytest.mark.parametrize(
    "words",
    [
        ("report", "RUN", "--report", "verdict.html"),
        ("export", "RUN", "run.csv"),
        ("db", "backup", "copy.db"),
    ],
)
def test_a_file_that_cannot_be_written_there_is_one_sentence(
    folder: Path, run: str, tmp_path: Path, words: tuple[str, ...]
) -> None:
    done = pyrometer(folder, tmp_path, *(run if word == "RUN" else word for word in words))
    sentence = done.stderr.splitlines()[-1]
    assert (done.returncode, done.stdout) == (2, "")
    assert words[-1] in sentence and "Permission denied" in sentence and "Traceback" not in done.stderr
