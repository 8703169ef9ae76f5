"""`[dashboard]`: read whole, and refused in one sentence where it would guard less than it seems to."""

from pathlib import Path

import pytest

from configuration.settings import load_settings
from support.settings_file import complaint, loaded

PROVIDER = """
[dashboard]
login = "oidc"
url = "https://perf.example.com/"
issuer = "https://id.example.com/realms/perf"
client_id = "pyrometer"
client_secret_file = "secrets/client"
cookie_secret = "0123456789abcdef0123456789abcdef-hunter2"
viewers = ["*@example.com", "group:perf"]
triagers = ["ada@example.com"]
ask = "perf@example.com"
login_hours = 8
"""
PROXY = """
[dashboard]
login = "proxy"
user_header = "X-Forwarded-Email"
groups_header = "X-Forwarded-Groups"
trusted_proxies = ["10.0.0.5", "fd00::/64"]
logout_path = "/oauth2/sign_out"
"""


def test_without_a_table_there_is_no_login(tmp_path: Path) -> None:
    assert loaded(tmp_path, "").dashboard.login == "none"


def test_a_provider_is_read_whole(tmp_path: Path) -> None:
    settings = loaded(tmp_path, PROVIDER).dashboard
    assert (settings.login, settings.url, settings.login_hours) == ("oidc", "https://perf.example.com", 8)
    assert settings.issuer == "https://id.example.com/realms/perf"
    assert settings.client_secret_file == tmp_path / "secrets/client"
    assert settings.viewers == ("*@example.com", "group:perf") and settings.triagers == ("ada@example.com",)
    assert (settings.user_claim, settings.groups_claim) == ("email", "groups")
    assert "hunter2" not in repr(settings)


def test_metrics_have_results_of_as_many_cases_as_it_says(tmp_path: Path) -> None:
    assert loaded(tmp_path, "").dashboard.metrics_cases == 0
    assert loaded(tmp_path, "[dashboard]\nmetrics_cases = 50").dashboard.metrics_cases == 50
    for wrong in ("1001", "-1", "true", '"all"'):
        error = complaint(tmp_path, f"[dashboard]\nmetrics_cases = {wrong}")
        assert "expected a number from 0 to 1000" in str(error)


def test_a_proxy_is_read_whole(tmp_path: Path) -> None:
    settings = loaded(tmp_path, PROXY).dashboard
    assert (settings.user_header, settings.groups_header) == ("X-Forwarded-Email", "X-Forwarded-Groups")
    assert settings.trusted_proxies == ("10.0.0.5", "fd00::/64")
    assert (settings.viewers, settings.triagers, settings.metrics) == ((), (), None)


def test_variables_override_it_and_their_paths_count_from_the_current_folder(tmp_path: Path) -> None:
    (tmp_path / "sub").mkdir()
    (tmp_path / "sub/p.toml").write_text(PROVIDER)
    environ = {
        "PYROMETER_DASHBOARD__CLIENT_SECRET_FILE": "mine",
        "PYROMETER_DASHBOARD__URL": "http://localhost:8501",
    }
    settings = load_settings(Path("sub/p.toml"), cwd=tmp_path, environ=environ).dashboard
    assert (settings.client_secret_file, settings.url) == (tmp_path / "mine", "http://localhost:8501")


def test_tokens_that_write_are_for_every_login(tmp_path: Path) -> None:
    for login in ("[dashboard]", PROVIDER, PROXY):
        (tmp_path / "token").write_text("hunter2\n")
        text = login + '\nsubmit_token = "hunter2"\ntrigger_token_file = "token"'
        settings = loaded(tmp_path, text).dashboard
        assert (settings.submit_token, settings.trigger_token_file) == ("hunter2", tmp_path / "token")
        assert "hunter2" not in repr(settings)


def without(text: str, key: str) -> str:
    return "\n".join(line for line in text.splitlines() if not line.startswith(f"{key} ="))


@pytest.mark.parametrize(
    ("text", "sentence"),
    [
        # What would seem to guard, and would not.
        (
            '[dashboard]\nviewers = ["ada"]',
            'dashboard.viewers is not a key of login "none"; it is for login "oidc" and "proxy"',
        ),
        (
            PROVIDER + 'trusted_proxies = ["10.0.0.5"]',
            'not a key of login "oidc"; it is for login "proxy"',
        ),
        (
            PROXY + 'issuer = "https://id.example.com"',
            'not a key of login "proxy"; it is for login "oidc"',
        ),
        (PROXY + "viewers = []", "dashboard.viewers is an empty list, expected a list of names and groups"),
        (PROXY + 'triagers = ["group:"]', 'dashboard.triagers.0 is "group:", expected a list of names'),
        (PROXY + 'triagers = [" ada"]', 'dashboard.triagers.0 is " ada", expected a list of names'),
        ("[dashboard]\nmetrics_token = 'hunter2'", 'dashboard.metrics_token is for metrics = "token" only'),
        # Proxies that are all addresses, or none.
        (
            PROXY.replace("10.0.0.5", "0.0.0.0/0"),
            'trusted_proxies.0 is "0.0.0.0/0", expected a list of addresses',
        ),
        (PROXY.replace("10.0.0.5", "::/0"), "expected a list of addresses"),
        (PROXY.replace("10.0.0.5", "10.0.0.5/24"), "expected a list of addresses"),
        (PROXY.replace("10.0.0.5", "proxy.example.com"), "expected a list of addresses"),
        (without(PROXY, "trusted_proxies"), '"trusted_proxies" is missing: login "proxy" needs it'),
        (PROXY.replace('["10.0.0.5", "fd00::/64"]', "[]"), '"trusted_proxies" is missing: login "proxy"'),
        (without(PROXY, "user_header"), '"user_header" is missing: login "proxy" needs it'),
        (PROXY.replace("X-Forwarded-Email", "X Email"), "expected the name of an HTTP header"),
        (PROXY.replace("/oauth2/sign_out", "//evil.example"), "expected a path at the proxy"),
        # A login that others on the way could read.
        (PROVIDER.replace("https://perf", "http://perf"), "dashboard.url is"),
        (PROVIDER.replace("https://id", "http://id"), "dashboard.issuer is"),
        (PROVIDER.replace("perf.example.com/", "perf.example.com/pyrometer"), "without a path"),
        (PROVIDER.replace("https://perf", "https://ada@perf"), "dashboard.url is"),
        *(
            (without(PROVIDER, key), f'"{key.removesuffix("_file")}" is missing: login "oidc" needs it')
            for key in ("url", "issuer", "client_id", "client_secret_file")
        ),
        (PROVIDER + 'client_secret = "hunter2"', "client_secret and client_secret_file are both given"),
        (PROVIDER.replace("0123456789abcdef0123456789abcdef-", ""), "dashboard.cookie_secret is not usable"),
        ('[dashboard]\nmetrics = "token"', '"metrics_token" is missing: metrics "token" needs it'),
        ('[dashboard]\nlogin = "ldap"', 'dashboard.login is "ldap", expected "none", "oidc" or "proxy"'),
        (
            "[dashboard]\nclient_secret = 27182818",
            "dashboard.client_secret is not usable, expected the client",
        ),
        ('dashboard = "hunter2"', "dashboard is not usable, expected a table [dashboard]"),
    ],
)
def test_a_mistake_is_one_sentence_that_repeats_no_secret(tmp_path: Path, text: str, sentence: str) -> None:
    said = str(complaint(tmp_path, text))
    assert sentence in said and "27182818" not in said and "hunter2" not in said
