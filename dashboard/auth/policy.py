"""The rules of this server: the kind of login and the permissions."""

from dataclasses import dataclass, field
from ipaddress import IPv4Network, IPv6Network, ip_network
from pathlib import Path
from secrets import token_hex
from typing import Literal, cast
from urllib.parse import urlsplit

from configuration.dashboard import DashboardSettings, Login
from configuration.errors import WrongValue
from configuration.reading import one_line

#: The path of a provider's metadata (OpenID Connect Discovery 1.0, section 4).
_METADATA = "/.well-known/openid-configuration"
_SECRET_CHARACTERS = 32
_DEFAULT_CONTACT = "the administrator"

Network = IPv4Network | IPv6Network
#: The roles of programs with an API token.
Role = Literal["read", "triage", "submit", "trigger"]


@dataclass(frozen=True, slots=True)
class AccessRules:
    """The settings of `[dashboard]` in the form that the server needs; the default is no login and all
    permissions for everyone.

    `viewers` and `triagers` are globs, `ask` is the contact for readers without access; header names are in
    lower case, `login_seconds` is how long a login lasts. `provider` are the settings of an OpenID Connect
    provider.
    """

    login: Login = "none"
    url: str = ""
    viewers: tuple[str, ...] = ()
    triagers: tuple[str, ...] = ()
    ask: str = _DEFAULT_CONTACT
    user_claim: str = ""
    groups_claim: str = ""
    login_seconds: float = 0.0
    user_header: bytes = b""
    groups_header: bytes = b""
    proxies: tuple[Network, ...] = ()
    logout: str = ""
    metrics: Literal["open", "token", "viewers"] = "open"
    metrics_token: str = field(default="", repr=False)
    api_token: str = field(default="", repr=False)
    triage_token: str = field(default="", repr=False)
    submit_token: str = field(default="", repr=False)
    trigger_token: str = field(default="", repr=False)
    provider: dict[str, str] = field(default_factory=dict[str, str], repr=False)

    @property
    def tokens(self) -> dict[Role, str]:
        """The configured tokens by role."""
        every: dict[Role, str] = {
            "read": self.api_token,
            "triage": self.triage_token,
            "submit": self.submit_token,
            "trigger": self.trigger_token,
        }
        return {role: token for role, token in every.items() if token}

    @property
    def host(self) -> str:
        """The host name under which browsers reach the server; empty if it is not configured."""
        return urlsplit(self.url).hostname or ""

    @property
    def encrypted(self) -> bool:
        """Whether browsers connect by https, so that cookies are sent only encrypted."""
        return self.url.startswith("https://")


def access_rules(settings: DashboardSettings) -> AccessRules:
    """The rules from `settings`; reads the files with secrets. Raises ConfigurationError."""
    login = settings.login
    open_or_not = settings.metrics or ("open" if login == "none" else "viewers")
    return AccessRules(
        login=login,
        url=settings.url or "",
        viewers=settings.viewers,
        triagers=settings.triagers,
        ask=settings.ask or _DEFAULT_CONTACT,
        user_claim=settings.user_claim,
        groups_claim=settings.groups_claim,
        login_seconds=settings.login_hours * 3600,
        user_header=(settings.user_header or "").lower().encode(),
        groups_header=(settings.groups_header or "").lower().encode(),
        proxies=tuple(ip_network(each) for each in settings.trusted_proxies),
        logout="/auth/logout" if login == "oidc" else settings.logout_path or "",
        metrics=open_or_not,
        metrics_token=_secret(settings, "metrics_token") if open_or_not == "token" else "",
        api_token=_secret_if_given(settings, "api_token"),
        triage_token=_secret_if_given(settings, "triage_token"),
        submit_token=_secret_if_given(settings, "submit_token"),
        trigger_token=_secret_if_given(settings, "trigger_token"),
        provider=_provider(settings) if login == "oidc" else {},
    )


def _provider(settings: DashboardSettings) -> dict[str, str]:
    issuer = settings.issuer or ""
    result = {
        "redirect_uri": f"{settings.url}/oauth2callback",
        "client_id": settings.client_id or "",
        "client_secret": _secret(settings, "client_secret"),
        "server_metadata_url": issuer if issuer.endswith(_METADATA) else issuer + _METADATA,
    }
    # With a random secret, logins end when the server ends.
    secret = settings.cookie_secret or settings.cookie_secret_file
    result["cookie_secret"] = _secret(settings, "cookie_secret") if secret else token_hex()
    return result


def _secret_if_given(settings: DashboardSettings, name: str) -> str:
    secret = getattr(settings, name) or getattr(settings, f"{name}_file")
    return _secret(settings, name) if secret else ""


def _secret(settings: DashboardSettings, name: str) -> str:
    """A secret from the table or its file; a signing secret must have the required length in both."""
    file = cast(Path | None, getattr(settings, f"{name}_file"))
    if file is None:
        return str(getattr(settings, name))
    where = f"{file} (dashboard.{name}_file)"
    secret = one_line(file, where, "a secret")
    if name == "cookie_secret" and len(secret) < _SECRET_CHARACTERS:
        raise WrongValue(f"{where} is too short, expected a random text of 32 characters or more")
    return secret
