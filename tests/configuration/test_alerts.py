"""`[alerts]`: read whole, refused in one sentence, and never repeated where it may hold a password."""

from pathlib import Path

import pytest

from configuration.settings import load_settings
from support.settings_file import complaint, loaded

FULL = """
[alerts]
targets = ["mailto://user:hunter2@mail.example.org", "json://hooks.example.org/x"]
targets_file = "secrets/alerts"
dashboard_url = "https://pyrometer.example.org"
quiet = "skip"
silent_minutes = 5
overdue_hours = 3
disturbed_share = 0.2
"""


def test_it_is_read_whole(tmp_path: Path) -> None:
    alerts = loaded(tmp_path, FULL).alerts
    assert len(alerts.targets) == 2
    assert alerts.targets_file == tmp_path / "secrets/alerts"
    assert (alerts.quiet, alerts.silent_minutes, alerts.overdue_hours) == ("skip", 5, 3)
    assert (alerts.dashboard_url, alerts.disturbed_share) == ("https://pyrometer.example.org", 0.2)


def test_without_a_file_there_are_no_recipients(tmp_path: Path) -> None:
    alerts = load_settings(cwd=tmp_path, environ={}).alerts
    assert (alerts.targets, alerts.targets_file, alerts.quiet) == ((), None, "send")


def test_variables_override_it_and_their_paths_count_from_the_current_folder(tmp_path: Path) -> None:
    (tmp_path / "sub").mkdir()
    (tmp_path / "sub/p.toml").write_text(FULL)
    environ = {"PYROMETER_ALERTS__QUIET": "send", "PYROMETER_ALERTS__TARGETS_FILE": "mine"}
    alerts = load_settings(Path("sub/p.toml"), cwd=tmp_path, environ=environ).alerts
    assert (alerts.quiet, alerts.targets_file) == ("send", tmp_path / "mine")


def test_no_password_is_in_what_settings_show(tmp_path: Path) -> None:
    assert "hunter2" not in repr(loaded(tmp_path, FULL))


@pytest.mark.parametrize(
    ("text", "sentence"),
    [
        ('[alerts]\ntargets = "json://u:hunter2@h"', "alerts.targets is not usable, expected a list"),
        ('[alerts]\ntargets = ["u:hunter2@h"]', "alerts.targets.0 is not usable, expected a list"),
        ('alerts = "json://u:hunter2@h"', "alerts is not usable, expected a table [alerts]"),
        ('[alerts]\nquiet = "never"', 'alerts.quiet is "never", expected "send" or "skip"'),
        ("[alerts]\nsilent_minutes = 0", "alerts.silent_minutes is 0, expected a whole number"),
        ('[alerts]\ntarget = ["json://u:hunter2@h"]', 'alerts: unknown key "target"'),
    ],
)
def test_a_mistake_is_one_sentence_that_repeats_no_secret(tmp_path: Path, text: str, sentence: str) -> None:
    said = str(complaint(tmp_path, text))
    assert sentence in said and "hunter2" not in said


def test_a_variable_that_is_nearly_ours_is_refused(tmp_path: Path) -> None:
    problem = complaint(tmp_path, "", PYROMETER_ALERTS__QUIETS="skip", PYROMETER_ALERTS__QIET__X="1")
    assert "PYROMETER_ALERTS__QUIET" in str(problem)
