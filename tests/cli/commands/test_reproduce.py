"""`pyrometer reproduce`: comments and requirements that pip reads, and one sentence for what is unknown."""

from pathlib import Path

import pytest
from packaging.requirements import Requirement

from common.journal_lines import decode_line, encode_line
from support.builders.upgrade_journals import RESNET, Story, write_upgrade
from support.command_line import called
from support.site import Done
from support.sqlite_files import sqlite_with_tables


@pytest.fixture
def project(tmp_path: Path) -> Path:
    """A project folder with the journal of an upgrade."""
    (tmp_path / "pyrometer.toml").touch()
    sqlite_with_tables(tmp_path / "pyrometer.db")
    write_upgrade(tmp_path / ".pyrometer", Story())
    return tmp_path


def reproduce(project: Path, *arguments: str) -> Done:
    return called(project, {"HOME": str(project)}, "reproduce", *arguments)


def test_all_but_the_requirements_are_comments(project: Path) -> None:
    lines = reproduce(project, f"latest:{RESNET}").out.splitlines()
    command = f"pyrometer upgrade 2.13.0 2.15.0 --case {RESNET} --suite cpu --pairs 12"
    assert f"# command: {command}" in lines
    requirements = [Requirement(line) for line in lines if not line.startswith("#")]
    assert [str(one) for one in requirements] == [
        *("numpy==2.3.1", "torch==2.13.0+cpu"),
        *("numpy==2.4.0", "triton==3.8.0"),
    ]
    assert sum(line.startswith("# environment 2.1") for line in lines) == 2
    # A reader of the data folder may not write there.
    assert not (project / ".pyrometer/harness").exists()


def test_what_is_unknown_is_one_sentence(project: Path) -> None:
    assert reproduce(project, "latest").code == 0, "from now on the run is stored"
    assert 'unknown run "none"' in reproduce(project, "none").one_sentence()
    assert 'unknown case "none"' in reproduce(project, "latest:none", "--run").one_sentence()


def test_only_commands_that_measure_with_a_journal_in_this_folder_are_run(project: Path) -> None:
    """Of a run from a file that is whatever the file says."""
    assert reproduce(project, "latest").code == 0
    (journal,) = (project / ".pyrometer/runs").glob("*/journal.jsonl")
    run = journal.parent.name
    line = decode_line(journal.read_bytes().splitlines()[0])
    command = f"pyrometer db forget {run} --yes --force"
    evil = project / ".pyrometer/runs/20991231-020000-0001/journal.jsonl"
    evil.parent.mkdir()
    body = {**line.body, "run": evil.parent.name, "command": command, "comparison": None, "kind": "run"}
    evil.write_bytes(encode_line("header", body)[0])
    assert "cannot be run again" in reproduce(project, evil.parent.name, "--run").one_sentence()
    evil.unlink()
    assert command in reproduce(project, evil.parent.name).out
    assert (
        "has no journal in this data folder" in reproduce(project, evil.parent.name, "--run").one_sentence()
    )
    assert reproduce(project, run).code == 0, "the run is there still"
