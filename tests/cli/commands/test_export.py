"""`pyrometer export`: a file is there whole or not at all, and a mistake gets one sentence."""

import csv
import errno
import gzip
import json
import os
import shutil
import signal
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pyarrow.parquet as pq
import pytest
from typer.testing import CliRunner, Result

from cli.registry import app
from db.runs import store
from support.builders.run_records import a_night, a_run, an_outcome
from support.site import COMMAND
from support.sqlite_files import open_with_tables
from workflows.ingest import measurements_of
from workflows.transfer import export_runs

FIRST, LAST = "20260901-020000-aaaa", "20260902-020000-bbbb"


@pytest.fixture(scope="module")
def a_database(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """An SQLite file with two runs."""
    file = tmp_path_factory.mktemp("two-runs") / "pyrometer.db"
    with open_with_tables(f"sqlite:///{file}") as database:
        for number, name in enumerate((FIRST, LAST)):
            store.save_run(database, a_run(name, started_at=a_night(number)))
            outcomes = [an_outcome(replicate=each, latency=1.5 + each) for each in range(3)]
            store.save_outcomes(database, name, outcomes)
            store.save_measurements(database, name, measurements_of(outcomes))
    return file


@pytest.fixture(autouse=True)
def folder(a_database: Path, bare_folder: Path) -> Path:
    """The current folder, with a copy of that database."""
    shutil.copy(a_database, bare_folder)
    return bare_folder


def export(*words: str) -> Result:
    """What `pyrometer export` with these words does."""
    return CliRunner().invoke(app, ["export", *words])


def visible(folder: Path) -> set[str]:
    """What lies in the folder beside the database and its data."""
    return {path.name for path in folder.iterdir()} - {"pyrometer.db", ".pyrometer"}


def kinds(content: bytes) -> list[str]:
    """The kinds of the lines of an export of whole runs."""
    return [json.loads(line)["kind"] for line in content.splitlines()]


WHOLE = ["header", *["metric"] * 3, *["outcome"] * 3, *["measurement"] * 3, "end"]


def test_the_name_of_the_file_says_what_is_written(folder: Path) -> None:
    done = export("latest", "run.jsonl")
    assert (done.exit_code, done.stdout) == (0, "")
    assert done.stderr == "run.jsonl: 1 run, 3 outcomes, 3 measurements\n"
    content = (folder / "run.jsonl").read_bytes()
    assert kinds(content) == WHOLE
    assert json.loads(content.splitlines()[0])["body"]["record"]["id"] == LAST
    assert export("--all", "history.jsonl.gz").exit_code == 0
    assert kinds(gzip.decompress((folder / "history.jsonl.gz").read_bytes())).count("header") == 2
    assert export(FIRST, LAST, "points.csv").stderr == "points.csv: table measurements of 2 runs\n"
    with (folder / "points.csv").open(newline="") as file:
        assert {row["run"] for row in csv.DictReader(file)} == {FIRST, LAST}
    assert export("latest", "--table", "samples", "raw.parquet").exit_code == 0
    assert pq.read_table(folder / "raw.parquet").num_rows == 12
    assert export("latest", "v3.json").exit_code == 0
    assert len(json.loads((folder / "v3.json").read_bytes())) == 3
    assert visible(folder) == {"run.jsonl", "history.jsonl.gz", "points.csv", "raw.parquet", "v3.json"}


def test_an_option_says_more_than_the_name(folder: Path) -> None:
    assert export("latest", "--format", "oss-v3", "points.txt").exit_code == 0
    assert json.loads((folder / "points.txt").read_bytes())[0]["schema_version"] == "v3"
    assert export("latest", "--table", "runs", "-").stdout.startswith("run,suite,state,started_at,")
    assert kinds(export("latest", "-").stdout_bytes) == WHOLE


@pytest.mark.parametrize(
    ("words", "sentence"),
    [
        ([], "give runs and a file: pyrometer export latest run.jsonl"),
        (["latest"], "give runs and a file: pyrometer export latest run.jsonl"),
        (["--all"], "with --all give only the file: pyrometer export --all history.jsonl.gz"),
        (["--all", "latest", "x.csv"], "with --all give only the file"),
        (["20260902-020000-bbbc", "x.csv"], 'unknown run "20260902-020000-bbbc": did you mean "2026'),
        (["latest", "x.xlsx"], "x.xlsx has no known suffix: use .jsonl, .csv, .parquet,"),
        (["latest", "--table", "runs", "x.jsonl"], "--table is for csv and parquet; x.jsonl has format"),
        (["latest", "none/x.csv"], "there is no folder "),
        (["latest", "--format", "csv", "."], ". is a folder: name a file in it"),
        (["latest", "there.csv"], "there.csv exists already; --force replaces it"),
        (["latest", "--force", "--format", "csv", "/dev/null"], "/dev/null is not a regular file"),
    ],
)
def test_a_mistake_gets_one_sentence(folder: Path, words: list[str], sentence: str) -> None:
    (folder / "there.csv").write_text("mine")
    done = export(*words)
    assert (done.exit_code, done.stdout) == (2, "")
    assert done.stderr.startswith(f"pyrometer: {sentence}") and done.stderr.count("\n") == 1
    assert visible(folder) == {"there.csv"}
    assert (folder / "there.csv").read_text() == "mine"


def test_force_replaces_what_a_link_points_to(folder: Path) -> None:
    (folder / "real.jsonl").write_text("old")
    (folder / "link.jsonl").symlink_to("real.jsonl")
    assert export("latest", "--force", "link.jsonl").exit_code == 0
    assert (folder / "link.jsonl").is_symlink()
    assert kinds((folder / "real.jsonl").read_bytes()) == WHOLE


def test_an_interruption_leaves_what_was_there(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def interrupted(*given: object, **named: object) -> Iterator[bytes]:
        yield b"half of it\n"
        os.kill(os.getpid(), signal.SIGINT)
        yield b"never\n"

    monkeypatch.setattr(export_runs.pyrometer, "lines_of", interrupted)
    (folder / "run.jsonl").write_text("mine")
    done = export("latest", "--force", "run.jsonl")
    assert (done.exit_code, done.stderr) == (130, "interrupted: nothing was written\n")
    assert visible(folder) == {"run.jsonl"}
    assert (folder / "run.jsonl").read_text() == "mine"


@pytest.mark.parametrize("name", ["run.jsonl", "run.jsonl.gz", "run.csv", "run.parquet", "run.json"])
def test_a_full_disk_leaves_nothing(folder: Path, monkeypatch: pytest.MonkeyPatch, name: str) -> None:
    def full(descriptor: int) -> None:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    monkeypatch.setattr(os, "fsync", full)
    done = export("latest", name)
    assert done.exit_code == 2
    assert done.stderr == f"pyrometer: {name} cannot be written: No space left on device\n"
    assert visible(folder) == set()


def test_a_full_device_is_no_defect() -> None:
    with open("/dev/full", "wb") as full:
        words = [COMMAND, "export", "--all", "-"]
        done = subprocess.run(words, stdout=full, stderr=subprocess.PIPE, text=True, check=False)
    assert (done.returncode, done.stderr) == (2, "pyrometer: No space left on device\n")


def test_a_closed_pipe_causes_no_traceback() -> None:
    with subprocess.Popen(
        [COMMAND, "export", "latest", "-"], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    ) as process:
        assert process.stdout is not None and process.stderr is not None
        process.stdout.close()
        assert "Traceback" not in process.stderr.read()
