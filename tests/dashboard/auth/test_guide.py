"""docs/dashboard.md: what is there to copy are settings and options of ours."""

import re
import shlex
from pathlib import Path
from textwrap import dedent

import pytest
import yaml
from typer.testing import CliRunner

from cli.registry import app
from configuration.settings import load_settings

ROOT = Path(__file__).resolve().parents[3]
PAGE = (ROOT / "docs/dashboard.md").read_text()


def blocks(language: str) -> list[str]:
    """The blocks in a language, with the indentation of a list taken off."""
    return [dedent(found) for found in re.findall(rf"^ *```{language}\n(.*?)^ *```", PAGE, re.M | re.S)]


@pytest.mark.parametrize("text", blocks("toml"))
def test_a_table_can_be_read(tmp_path: Path, text: str) -> None:
    (tmp_path / "pyrometer.toml").write_text(text)
    assert load_settings(cwd=tmp_path, environ={}).dashboard.model_fields_set


def test_all_three_logins_are_shown() -> None:
    shown = {login for text in blocks("toml") for login in re.findall(r'^login = "(\w+)"', text, re.M)}
    assert shown == {"oidc", "proxy"} and "ssh -N -L 8501:127.0.0.1:8501" in PAGE


def test_the_header_that_is_set_is_the_header_that_is_read(tmp_path: Path) -> None:
    nginx = (ROOT / "deploy/nginx.conf").read_text()
    (tmp_path / "pyrometer.toml").write_text(blocks("toml")[0])
    settings = load_settings(cwd=tmp_path, environ={}).dashboard
    replaced = re.findall(r"proxy_set_header (\S+)", nginx)
    assert {settings.user_header, settings.groups_header, "Host", "Upgrade"} <= set(replaced)


def test_a_command_is_one_of_ours() -> None:
    lines = [line for block in blocks("bash") for line in block.splitlines() if line.startswith("pyrometer ")]
    assert lines
    for line in lines:
        _, command, *words = shlex.split(line, comments=True)
        shown = CliRunner().invoke(app, [command, "--help"])
        assert shown.exit_code == 0
        assert all(word in shown.output for word in words if word.startswith("--"))


def test_secrets_are_for_the_service_that_reads_them() -> None:
    override = yaml.safe_load((ROOT / "deploy/compose.oidc.yml").read_text())
    assert list(override["services"]) == ["dashboard"]
    named = {Path(path).name for path in re.findall(r'"/run/secrets/(oidc_\w+)"', PAGE)}
    assert set(override["services"]["dashboard"]["secrets"]) == set(override["secrets"]) == named
