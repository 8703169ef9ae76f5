"""`pyrometer dashboard`: what it hands to the server, and what it says before anything is served."""

from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner, Result

from cli.registry import app
from configuration.dashboard import DashboardSettings
from dashboard.auth.policy import AccessRules, access_rules
from dashboard.server import server
from dashboard.server.settings import METRICS_CASES, ServerSettings

PROVIDER = """
[dashboard]
login = "oidc"
url = "https://perf.example.com"
issuer = "https://id.example.com"
client_id = "pyrometer"
client_secret_file = "secret"
"""


@pytest.fixture
def typed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Any:
    """Type the command in a folder with these settings; what would be served is in the list."""
    served: list[tuple[Any, ...]] = []

    def serve(*given: Any) -> None:
        served.append(given)

    def type_it(settings: str, *words: str) -> tuple[Result, list[tuple[Any, ...]]]:
        (tmp_path / "pyrometer.toml").write_text(settings)
        return CliRunner().invoke(app, ["dashboard", *words]), served

    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(server, "serve", serve)
    # The command sets them for the server, which lives in the same process.
    monkeypatch.setenv("PYROMETER_DATABASE_URL", "")
    monkeypatch.setenv("PYROMETER_DATA_DIR", "")
    monkeypatch.setenv(METRICS_CASES, "")
    return type_it


def test_on_this_machine_there_is_no_login_and_no_note(typed: Any) -> None:
    said, served = typed("")
    assert said.exit_code == 0 and "authentication is off" not in said.stderr
    assert [each[:4] for each in served] == [("127.0.0.1", 8501, (), access_rules(DashboardSettings()))]
    assert (served[0][3].login, served[0][3].metrics) == ("none", "open")


def test_how_many_cases_metrics_have_results_of_reaches_the_server(typed: Any) -> None:
    typed("[dashboard]\nmetrics_cases = 50")
    assert ServerSettings.from_environment().metrics_cases == 50
    typed("")
    assert ServerSettings.from_environment().metrics_cases == 0


@pytest.mark.parametrize("host", ["0.0.0.0", "::", "10.0.0.9", "perf.example.com"])
def test_beyond_this_machine_serving_without_a_login_is_said(typed: Any, host: str) -> None:
    said, _ = typed("", "--host", host)
    (line,) = [line for line in said.stderr.splitlines() if "authentication" in line]
    assert line == (
        f"note: authentication is off: anyone who can reach {host} can read and triage; see docs/dashboard.md"
    )


def test_a_login_is_handed_on_with_its_secret(typed: Any, tmp_path: Path) -> None:
    (tmp_path / "secret").write_text("hunter2")
    said, served = typed(PROVIDER, "--host", "0.0.0.0")
    assert said.exit_code == 0 and "authentication is off" not in said.stderr and "hunter2" not in said.output
    rules = served[0][3]
    assert (rules.login, rules.provider["client_secret"]) == ("oidc", "hunter2")


def test_a_secret_that_cannot_be_read_is_one_sentence(typed: Any, tmp_path: Path) -> None:
    said, served = typed(PROVIDER)
    assert (said.exit_code, served) == (2, [])
    where = f"{tmp_path}/secret (dashboard.client_secret_file)"
    assert said.stderr == f"pyrometer: {where} cannot be read: No such file or directory\n"


def test_without_what_a_login_needs_nothing_is_served(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(server, "find_spec", lambda _: None)
    with pytest.raises(server.LoginUnusable, match=r"install pyrometer\[oidc\]"):
        server.serve("127.0.0.1", 0, (), AccessRules(login="oidc"))
