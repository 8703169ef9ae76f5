"""`--run-id`: a name that has a journal is refused, with what can be done about it."""

from pathlib import Path
from typing import Any, cast

import pytest

from configuration.data_dirs import DataDirs
from configuration.settings import load_settings
from runner.journal import FILE
from support.builders.journals import write_journal
from workflows.app_context import AppContext
from workflows.errors import UsageError
from workflows.planning.plan_run import prepare

RUN = "20260901-020000-0000"


def refusal(folder: Path) -> str:
    """Why the run is not begun: nothing else of it is looked at before."""
    nothing = cast(Any, None)
    app = AppContext(load_settings(environ={}, cwd=folder), DataDirs(folder, "", ()), nothing, "")
    with pytest.raises(UsageError) as refused:
        prepare(app, nothing, nothing, nothing, RUN)
    return str(refused.value)


def test_a_run_that_began_is_to_be_resumed(tmp_path: Path) -> None:
    write_journal(tmp_path, RUN)
    assert refusal(tmp_path) == f"run {RUN} has already begun: continue it with --resume {RUN}"


def test_a_journal_that_cannot_be_read_is_not_to_be_resumed(tmp_path: Path) -> None:
    path = tmp_path / "runs" / RUN / FILE
    path.parent.mkdir(parents=True)
    path.write_text("no journal\n")
    said = refusal(tmp_path)
    assert f"{path} has no readable header" in said and "--resume" not in said
