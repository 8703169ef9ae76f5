"""`[dashboard]`: who may look at the pages, who may triage, and how they say who they are."""

from ipaddress import ip_address, ip_network
from typing import Annotated, Literal
from urllib.parse import urlsplit

from pydantic import AfterValidator, BeforeValidator, Field, StringConstraints

from ..fields import PathText, Positive, Table, Text

Login = Literal["none", "oidc", "proxy"]


def web_address(value: str) -> str:
    """An `https` URL without query and without the slash at its end; `http` on this machine only.

    Raises ValueError for anything else: what a login hands over in clear, others on the way can read.
    """
    parts = urlsplit(value)
    # Asked for its port, it raises ValueError where that is no number.
    if parts.scheme not in ("http", "https") or not parts.hostname or "@" in parts.netloc or parts.port == 0:
        raise ValueError("not the address of a web server")
    if parts.query or parts.fragment or (parts.scheme == "http" and not _is_loopback(parts.hostname)):
        raise ValueError("not an address that a login can go over")
    return value.rstrip("/")


def _origin(value: str) -> str:
    if urlsplit(value).path:
        raise ValueError("a path, and the pages lie at the root")
    return value


def _is_loopback(host: str) -> bool:
    try:
        return ip_address(host).is_loopback
    except ValueError:
        return host == "localhost"


def _network(value: object) -> str:
    if not isinstance(value, str) or ip_network(value).prefixlen == 0:
        raise ValueError("not a network, or all of them")
    return value


def _pattern(value: str) -> str:
    if value.removeprefix("group:").strip() != value.removeprefix("group:") or value == "group:":
        raise ValueError("white space around a name, or a group without one")
    return value


WebAddress = Annotated[Text, AfterValidator(web_address)]
Network = Annotated[str, BeforeValidator(_network)]
Patterns = tuple[Annotated[Text, AfterValidator(_pattern)], ...]
Header = Annotated[str, StringConstraints(pattern=r"^[A-Za-z0-9-]+$")]
#: Signs cookies: what is shorter can be guessed.
Secret = Annotated[str, StringConstraints(min_length=32)]

_PATH = "the path of a file with one line"
_PATTERNS = 'a list of names and groups such as "ada@example.com", "*@example.com" or "group:perf"'
_HEADER = "the name of an HTTP header"
_ADDRESS = "an https:// URL, http:// on this machine only"


class DashboardSettings(Table):
    """`[dashboard]`: how users log in, and what they may do.

    `login` is "none" (no authentication), "oidc" (an OpenID Connect provider) or "proxy" (a proxy in
    front sends `user_header`; trusted on connections from `trusted_proxies` only). `viewers` may read:
    every user unless set. `triagers` may also write triage: none unless set. Both are globs over names,
    or over groups after `group:`. `ask` is shown to users who may not. `url` is the address that browsers
    call. A secret can be in a file of its own. `metrics` says who may read /metrics: "open", or "token";
    by default viewers where users log in, else everyone.
    """

    login: Login = Field(default="none", description='"none", "oidc" or "proxy"')
    url: Annotated[WebAddress, AfterValidator(_origin)] | None = Field(
        default=None, description=f"{_ADDRESS}, without a path"
    )
    viewers: Annotated[Patterns, Field(min_length=1)] = Field(default=(), description=_PATTERNS)
    triagers: Patterns = Field(default=(), description=_PATTERNS)
    ask: Text | None = Field(default=None, description="whom to ask, in words")
    issuer: WebAddress | None = Field(default=None, description=_ADDRESS)
    client_id: Text | None = Field(default=None, description="the client's name at the provider")
    client_secret: Text | None = Field(default=None, description="the client's secret", repr=False)
    client_secret_file: PathText | None = Field(default=None, description=_PATH)
    cookie_secret: Secret | None = Field(
        default=None, description="a random text of 32 characters or more", repr=False
    )
    cookie_secret_file: PathText | None = Field(default=None, description=_PATH)
    user_claim: Text = Field(default="email", description="the name of a claim")
    groups_claim: Text = Field(default="groups", description="the name of a claim")
    login_hours: Positive = Field(default=12, description="a number of hours above 0")
    user_header: Header | None = Field(default=None, description=_HEADER)
    groups_header: Header | None = Field(default=None, description=_HEADER)
    trusted_proxies: tuple[Network, ...] = Field(
        default=(), description='a list of addresses and networks such as "10.0.0.5" or "10.0.0.0/24"'
    )
    logout_path: Annotated[str, StringConstraints(pattern=r"^/[^/\\\s][^\\\s]*$")] | None = Field(
        default=None, description="a path at the proxy such as /oauth2/sign_out"
    )
    metrics: Literal["open", "token"] | None = Field(default=None, description='"open" or "token"')
    metrics_token: Text | None = Field(default=None, description="a token", repr=False)
    metrics_token_file: PathText | None = Field(default=None, description=_PATH)


#: Each may stand in the table, or in the file that the key with `_file` names.
SECRETS: tuple[str, ...] = ("client_secret", "cookie_secret", "metrics_token")
