"""`pyrometer report RUN --report FILE` of a run of one environment, and files that are refused."""

import json
from datetime import UTC, datetime
from pathlib import Path

import pytest

from records.outcomes import Outcome, PlannedReplicate
from runner.journal import Journal
from support.builders.journals import ENVIRONMENTS, a_header
from support.builders.run_records import BERT, MLP
from support.command_line import called
from support.site import Done

RUN = "20261121-144620-57a7"
SUFFIXES = ("html", "md", "json", "xml")


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """A folder with the journal of a run in which one case crashed."""
    (tmp_path / "pyrometer.toml").touch()
    fingerprint, now = ENVIRONMENTS[1].fingerprint, datetime.now(UTC)
    planned = tuple(PlannedReplicate(case, fingerprint, number) for case in (MLP, BERT) for number in (0, 1))
    with Journal(tmp_path / ".pyrometer" / "runs" / RUN) as journal:
        bodies = a_header(RUN, planned).environments[1:]
        journal.header(a_header(RUN, planned, environments=bodies).to_body())
        for one in planned:
            about = (one.case, one.environment, one.replicate)
            if one.case == BERT:
                journal.outcome(Outcome(*about, status="crashed", reason="SIGSEGV", started_at=now))
            else:
                journal.outcome(Outcome(*about, status="ok", started_at=now, metrics={"latency": 2.0}))
        journal.ended({"at": now.isoformat(), "state": "complete"})
    return tmp_path


def typed(folder: Path, *words: str) -> Done:
    return called(folder, {"HOME": str(folder)}, *words)


def test_a_run_has_all_forms(folder: Path) -> None:
    files = [word for suffix in SUFFIXES for word in ("--report", f"v.{suffix}")]
    done = typed(folder, "report", RUN, *files)
    assert done.code == 0, done
    assert [line for line in done.err.splitlines() if line.startswith("report: ")] == [
        f"report: v.{suffix}" for suffix in SUFFIXES
    ]
    body = json.loads((folder / "v.json").read_text())
    assert (body["decision"], body["run"]["id"]) == ("failed", RUN)
    assert [(one["case"], one["status"]) for one in body["cases"]] == [(BERT, "crashed"), (MLP, "ok")]
    assert all(MLP in (folder / f"v.{suffix}").read_text() for suffix in ("md", "xml"))
    assert "Failed" in (folder / "v.html").read_text()


@pytest.mark.parametrize("command", [("run",), ("report", RUN)])
@pytest.mark.parametrize(
    ("file", "sentence"),
    [
        ("v.txt", "v.txt: a report needs one of these suffixes: .html, .md, .json, .xml"),
        ("none/v.html", "none/v.html: the file cannot be written (No such file or directory)"),
    ],
)
def test_a_file_that_cannot_be_written_is_refused_before_anything_else(
    folder: Path, command: tuple[str, ...], file: str, sentence: str
) -> None:
    done = typed(folder, *command, "--report", file)
    assert (done.code, done.out, done.err) == (2, "", f"pyrometer: {sentence}\n")
    assert [path.name for path in (folder / ".pyrometer" / "runs").iterdir()] == [RUN]
