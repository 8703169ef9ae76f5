"""`pyrometer init`: what it writes can be read, as it stands and with its examples."""

import re
from pathlib import Path

from configuration.settings import load_settings
from support.command_line import called


def test_the_settings_can_be_read_as_they_stand_and_with_every_example(tmp_path: Path) -> None:
    environ = {"HOME": str(tmp_path / "home")}
    assert called(tmp_path, environ, "init").code == 0
    file = tmp_path / "pyrometer.toml"
    settings = load_settings(cwd=tmp_path, environ=environ)
    assert settings.in_project and settings.environments["default"].torch
    assert settings.environments_gib >= 1 and settings.built_in_schedules == frozenset(settings.schedules)
    examples = re.sub(r"(?m)^# (?=\[|\w+ = )", "", file.read_text())
    every = load_settings(file, environ=environ, content=examples.encode())
    assert every.schedules["nightly"].baseline == settings.environments["default"].torch
    assert every.alerts.targets and every.policies["default"].worst and every.machine_labels


def test_an_existing_file_is_not_changed(tmp_path: Path) -> None:
    file = tmp_path / "pyrometer.toml"
    file.write_text("# mine\n")
    said = called(tmp_path, {"HOME": str(tmp_path)}, "init").one_sentence()
    assert said.endswith("exists already and is not changed")
    assert file.read_text() == "# mine\n"


def test_a_broken_link_is_not_followed(tmp_path: Path) -> None:
    (tmp_path / "pyrometer.toml").symlink_to(tmp_path / "elsewhere.toml")
    assert called(tmp_path, {"HOME": str(tmp_path)}, "init").code == 2
    assert not (tmp_path / "elsewhere.toml").exists()


def test_where_earlier_runs_are_is_said(tmp_path: Path) -> None:
    state = tmp_path / "home/.local/state/pyrometer"
    (state / "runs").mkdir(parents=True)
    done = called(tmp_path, {"HOME": str(tmp_path / "home")}, "init")
    assert done.out.splitlines()[1] == f"earlier runs stay in {state}"
