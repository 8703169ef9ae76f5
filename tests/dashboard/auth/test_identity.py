"""Who a reader is and what that person may do: every decision, with what a forger would try."""

from ipaddress import ip_network
from pathlib import Path
from typing import Any

import pytest

from configuration.dashboard import DashboardSettings
from configuration.errors import ConfigurationError
from dashboard.auth.identity import (
    Person,
    Reader,
    Refusal,
    authorise_person,
    person_of_provider,
    person_of_proxy,
    sent_by_a_proxy,
)
from dashboard.auth.policy import AccessRules, access_rules

PROXY = AccessRules(
    login="proxy",
    viewers=("*@example.com", "group:perf"),
    triagers=("ada@example.com", "group:perf-leads"),
    ask="perf@example.com",
    user_header=b"x-user",
    groups_header=b"x-groups",
    proxies=(ip_network("10.0.0.5"), ip_network("192.168.7.0/24"), ip_network("fd00::/64")),
)
PROVIDER = AccessRules(login="oidc", user_claim="email", groups_claim="groups", login_seconds=3600.0)
CLAIMS = {"iat": 1000, "email": "ada@example.com", "email_verified": True, "sub": "7"}


@pytest.mark.parametrize(
    ("person", "may_triage"),
    [
        (Person("ada@example.com"), True),
        (Person("bob@example.com"), False),
        (Person("bob@example.com", frozenset(("perf-leads",))), True),
        (Person("eve@evil.example", frozenset(("perf",))), False),
        (Person("eve@evil.example", frozenset(("staff",))), None),
        # No person gets in by a name that looks like a group, nor a group by one that looks like a name.
        (Person("group:perf-leads"), None),
        (Person("perf-leads"), None),
        (Person("eve@evil.example", frozenset(("ada@example.com",))), None),
        # As it is written, and whole.
        (Person("ADA@example.com"), False),
        (Person("ada@example.com.evil.example"), None),
    ],
)
def test_who_is_named_where(person: Person, may_triage: bool | None) -> None:
    seen = authorise_person(person, PROXY)
    assert (seen.may_triage if isinstance(seen, Reader) else None) == may_triage
    if isinstance(seen, Refusal):
        assert person.name in seen.why and "Ask perf@example.com." in seen.why


def test_without_names_every_login_may_look_and_none_may_triage() -> None:
    assert authorise_person(Person("ada"), AccessRules(login="proxy")) == Reader("ada", False)


@pytest.mark.parametrize(
    ("peer", "trusted"),
    [
        ("10.0.0.5", True),
        ("::ffff:10.0.0.5", True),
        ("192.168.7.200", True),
        ("fd00::1", True),
        ("10.0.0.6", False),
        ("::ffff:10.0.0.6", False),
        ("127.0.0.1", False),
        ("", False),
        (None, False),
        ("testclient", False),
    ],
)
def test_only_named_proxies_are_believed(peer: str | None, trusted: bool) -> None:
    assert sent_by_a_proxy(peer, PROXY) is trusted


def test_a_proxy_names_a_person_and_groups_in_one_line_or_many() -> None:
    headers = [
        (b"x-user", "zoë@example.com".encode()),
        (b"x-groups", b"perf, staff"),
        (b"x-groups", b"a|b"),
        (b"x-groups", b""),
    ]
    person = person_of_proxy(headers, PROXY)
    assert person == Person("zoë@example.com", frozenset(("perf", "staff", "a", "b")))


@pytest.mark.parametrize(
    "headers",
    [
        [],
        [(b"x-user", b"")],
        [(b"x-user", b"  ")],
        [(b"x-user", b"ada\x00")],
        [(b"x-user", "ada\u200b".encode())],
        [(b"x-user", b"a" * 201)],
        # A proxy that adds its header to the one that a browser sent.
        [(b"x-user", b"ada@example.com"), (b"x-user", b"bob@example.com")],
        [(b"x-user", b"ada@example.com"), (b"x-user", b"ada@example.com")],
    ],
)
def test_a_proxy_that_names_no_person_for_sure_is_refused(headers: list[tuple[bytes, bytes]]) -> None:
    assert isinstance(person_of_proxy(headers, PROXY), Refusal)


def test_a_provider_vouches_for_so_long() -> None:
    claims = CLAIMS | {"groups": ["perf", 7, "staff"]}
    assert person_of_provider(claims, PROVIDER) == Person(
        "ada@example.com", frozenset(("perf", "staff")), 4600.0
    )
    assert person_of_provider(CLAIMS | {"groups": "perf"}, PROVIDER) == Person(
        "ada@example.com", frozenset(("perf",)), 4600.0
    )


@pytest.mark.parametrize("verified", [False, None, "false", 1, "yes"])
def test_an_unverified_address_is_no_name(verified: Any) -> None:
    claims = {**CLAIMS, "email_verified": verified}
    refusal = person_of_provider(claims, PROVIDER)
    assert isinstance(refusal, Refusal) and refusal.another_account and "email_verified" in refusal.why
    by_number = AccessRules(login="oidc", user_claim="sub", groups_claim="groups")
    assert isinstance(person_of_provider(claims, by_number), Person)


def test_a_verified_address_may_be_verified_in_words() -> None:
    assert isinstance(person_of_provider({**CLAIMS, "email_verified": "true"}, PROVIDER), Person)


@pytest.mark.parametrize("claims", [{}, {**CLAIMS, "iat": None}, {**CLAIMS, "iat": True}])
def test_what_is_no_login_is_none(claims: dict[str, Any]) -> None:
    assert person_of_provider(claims, PROVIDER) is None


@pytest.mark.parametrize("name", [None, 7, "", " ada", "a\nb"])
def test_a_login_without_a_name_is_refused(name: Any) -> None:
    assert isinstance(person_of_provider({**CLAIMS, "email": name}, PROVIDER), Refusal)


def test_settings_become_rules(tmp_path: Path) -> None:
    (tmp_path / "secret").write_text("hunter2\n")
    settings = DashboardSettings(
        login="oidc",
        url="https://perf.example.com",
        issuer="https://id.example.com/realms/perf",
        client_id="pyrometer",
        client_secret_file=tmp_path / "secret",
        login_hours=2,
    )
    rules = access_rules(settings)
    # Without a secret of its own, logins end when the server does.
    assert len(rules.provider.pop("cookie_secret")) >= 32
    assert rules.provider == {
        "redirect_uri": "https://perf.example.com/oauth2callback",
        "client_id": "pyrometer",
        "client_secret": "hunter2",
        "server_metadata_url": "https://id.example.com/realms/perf/.well-known/openid-configuration",
    }
    assert (rules.host, rules.encrypted, rules.login_seconds) == ("perf.example.com", True, 7200)
    # With a login /metrics is closed by default; without one it is as open as the pages.
    assert (rules.metrics, access_rules(DashboardSettings()).metrics) == ("viewers", "open")
    assert "hunter2" not in repr(rules)


def test_a_secret_that_signs_is_as_long_in_a_file(tmp_path: Path) -> None:
    (tmp_path / "client").write_text("hunter2")
    (tmp_path / "cookie").write_text("short-hunter2")
    settings = DashboardSettings(
        login="oidc", client_secret_file=tmp_path / "client", cookie_secret_file=tmp_path / "cookie"
    )
    with pytest.raises(ConfigurationError, match=r"cookie_secret_file\) is too short") as caught:
        access_rules(settings)
    assert "hunter2" not in str(caught.value)


@pytest.mark.parametrize("name", [f"eve@evil{between}ada@example.com" for between in (", ", ",", " ", ";")])
def test_a_proxy_that_appends_to_what_a_browser_sent_names_no_person(name: str) -> None:
    refused = person_of_proxy([(PROXY.user_header, name.encode())], PROXY)
    assert isinstance(refused, Refusal) and "contains several names" in refused.why
