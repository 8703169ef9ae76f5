"""A trace is handed out only from within its own run's folder."""

from pathlib import Path

import pytest

from dashboard.runs.operators import trace_file

NAME = "traces/abc/case-0.json.gz"


@pytest.fixture
def data(tmp_path: Path) -> Path:
    """A data folder with one run that has a trace, and what lies around it."""
    for run in ("run-1", "run-2"):
        (tmp_path / "data/runs" / run / "traces/abc").mkdir(parents=True)
    for file in (f"data/runs/run-1/{NAME}", "data/runs/run-1/journal.jsonl", "data/secret.json.gz"):
        (tmp_path / file).write_text("x")
    (tmp_path / "data/runs/run-2/traces/abc/case-0.json.gz").symlink_to(tmp_path / "data/secret.json.gz")
    return tmp_path / "data"


def test_a_trace_in_its_runs_folder_is_found(data: Path) -> None:
    assert trace_file(data, "run-1", NAME) == (data / "runs/run-1" / NAME).resolve()


def test_the_data_folder_may_be_a_link(data: Path, tmp_path: Path) -> None:
    (tmp_path / "linked").symlink_to(data)
    assert trace_file(tmp_path / "linked", "run-1", NAME) == data / "runs/run-1" / NAME


@pytest.mark.parametrize(
    ("run", "name"),
    [
        ("run-1", "traces/abc/other.json.gz"),
        ("run-1", "../../secret.json.gz"),
        ("run-1", "../run-2/../../secret.json.gz"),
        ("run-1", "journal.jsonl"),
        ("run-1", "traces/abc"),
        ("run-1", "nul\0.json.gz"),
        ("run-1", None),
        ("run-1", ["traces"]),
        ("run-2", NAME),
        ("..", "secret.json.gz"),
        (".", f"run-1/{NAME}"),
        ("", f"run-1/{NAME}"),
        ("run-9", NAME),
    ],
)
def test_nothing_else_is(data: Path, run: str, name: object) -> None:
    assert trace_file(data, run, name) is None


def test_nothing_outside_by_an_absolute_path(data: Path) -> None:
    assert trace_file(data, "run-1", str(data / "secret.json.gz")) is None
    assert trace_file(data, str(data), "secret.json.gz") is None
