"""`[dashboard]`: authentication, and the permissions to read and to triage."""

from collections.abc import Callable
from ipaddress import ip_address, ip_network
from pathlib import Path
from typing import Annotated, Literal
from urllib.parse import urlsplit

from pydantic import AfterValidator, BeforeValidator, Field, StringConstraints

from .database_url import absolute
from .errors import Origin, WrongValue
from .fields import ConfigTable, PathText, Positive, Text, no_bool

Login = Literal["none", "oidc", "proxy"]


def web_address(value: str) -> str:
    """An `https` URL without query and without the slash at its end; `http` on this machine only.

    Raises ValueError for anything else, because a login over `http` can be read on the network.
    """
    parts = urlsplit(value)
    # Reading `port` raises ValueError if it is not a number.
    if parts.scheme not in ("http", "https") or not parts.hostname or "@" in parts.netloc or parts.port == 0:
        raise ValueError("not the address of a web server")
    if parts.query or parts.fragment or (parts.scheme == "http" and not is_loopback(parts.hostname)):
        raise ValueError("not an https address, which a login needs")
    return value.rstrip("/")


def _origin(value: str) -> str:
    if urlsplit(value).path:
        raise ValueError("a path, and the pages lie at the root")
    return value


def is_loopback(host: str) -> bool:
    """Whether only this machine reaches a server that listens on `host`."""
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
#: The limit of cases: each is three time series in Prometheus.
CaseCount = Annotated[int, BeforeValidator(no_bool), Field(ge=0, le=1000)]
Header = Annotated[str, StringConstraints(pattern=r"^[A-Za-z0-9-]+$")]
#: The shortest secret that signs cookies: a shorter one can be guessed.
Secret = Annotated[str, StringConstraints(min_length=32)]

_PATH = "the path of a file with one line"
_PATTERNS = 'a list of names and groups such as "ada@example.com", "*@example.com" or "group:perf"'
_HEADER = "the name of an HTTP header"
_ADDRESS = "an https:// URL, http:// on this machine only"


class DashboardSettings(ConfigTable):
    """`[dashboard]`: how users log in, and their permissions.

    `login` is "none" (no authentication), "oidc" (an OpenID Connect provider) or "proxy" (a proxy in front
    sends `user_header`; trusted on connections from `trusted_proxies` only). `viewers` may read (default:
    all). `triagers` may also triage (default: none). Both are globs over names, or over groups after
    `group:`. `url` is the address that browsers call. `metrics` controls access to /metrics: "open" or
    "token"; by default viewers if users log in, else everyone. `metrics_cases` is the number of cases in it.
    With `api_token` a program reads /api/v1 without a login; `triage_token`, `submit_token` and
    `trigger_token` permit those actions.
    """

    login: Login = Field(default="none", description='"none", "oidc" or "proxy"')
    url: Annotated[WebAddress, AfterValidator(_origin)] | None = Field(
        default=None, description=f"{_ADDRESS}, without a path"
    )
    viewers: Annotated[Patterns, Field(min_length=1)] = Field(default=(), description=_PATTERNS)
    triagers: Patterns = Field(default=(), description=_PATTERNS)
    ask: Text | None = Field(default=None, description="a contact, as text")
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
    metrics_cases: CaseCount = Field(default=0, description="a number from 0 to 1000")
    metrics_token: Text | None = Field(default=None, description="a token", repr=False)
    metrics_token_file: PathText | None = Field(default=None, description=_PATH)
    api_token: Text | None = Field(default=None, description="a token", repr=False)
    api_token_file: PathText | None = Field(default=None, description=_PATH)
    triage_token: Text | None = Field(default=None, description="a token", repr=False)
    triage_token_file: PathText | None = Field(default=None, description=_PATH)
    submit_token: Text | None = Field(default=None, description="a token", repr=False)
    submit_token_file: PathText | None = Field(default=None, description=_PATH)
    trigger_token: Text | None = Field(default=None, description="a token", repr=False)
    trigger_token_file: PathText | None = Field(default=None, description=_PATH)


#: Secrets: each may be in the table, or in the file that the key with `_file` names.
SECRETS: tuple[str, ...] = (
    *("client_secret", "cookie_secret", "metrics_token"),
    *("api_token", "triage_token", "submit_token", "trigger_token"),
)


#: Keys of one kind of login. Keys of another kind are errors: they would look effective and have no effect.
_PEOPLE = frozenset(
    ("viewers", "triagers", "ask", "api_token", "api_token_file", "triage_token", "triage_token_file")
)
_OWN: dict[Login, frozenset[str]] = {
    "none": frozenset(),
    "oidc": _PEOPLE
    | {"issuer", "client_id", "client_secret", "client_secret_file", "cookie_secret", "cookie_secret_file"}
    | {"user_claim", "groups_claim", "login_hours"},
    "proxy": _PEOPLE | {"user_header", "groups_header", "trusted_proxies", "logout_path"},
}
_ALL = frozenset[str]().union(*_OWN.values())
#: The keys that a kind of login requires; a secret may be in a file.
_NEEDED: dict[Login, tuple[str, ...]] = {
    "none": (),
    "oidc": ("url", "issuer", "client_id", "client_secret"),
    "proxy": ("user_header", "trusted_proxies"),
}


def resolve_dashboard(
    written: DashboardSettings, base_of: Callable[..., Path], origin: Origin
) -> DashboardSettings:
    """The settings with absolute paths; `base_of` says from which folder a key's relative path counts.

    Raises WrongValue for a key of another login, a missing one, a secret that is given twice, and a token
    that is never used.
    """
    login, given = written.login, written.model_fields_set
    if strange := sorted(given & (_ALL - _OWN[login])):
        raise WrongValue(
            f'{origin.of(("dashboard", strange[0]))} is not a key of login "{login}"; it is for login '
            f"{' and '.join(_quote_login(other) for other, own in _OWN.items() if strange[0] in own)}"
        )
    for name in SECRETS:
        if name in given and f"{name}_file" in given:
            where = origin.of(("dashboard", name))
            raise WrongValue(f"{where} and {name}_file are both given; leave one of them out")
    needed = (*_NEEDED[login], *(("metrics_token",) if written.metrics == "token" else ()))
    for name in needed:
        # An empty value counts as missing: with an empty list no proxy would be trusted.
        if not getattr(written, name) and not getattr(written, f"{name}_file", None):
            why = f'login "{login}"' if name in _NEEDED[login] else 'metrics "token"'
            raise WrongValue(f'{origin.table(("dashboard", name))}: "{name}" is missing: {why} needs it')
    if written.metrics != "token" and (tokens := sorted(given & {"metrics_token", "metrics_token_file"})):
        raise WrongValue(f'{origin.of(("dashboard", tokens[0]))} is for metrics = "token" only')
    files = {
        key: absolute(file, base_of("dashboard", key))
        for key in (f"{name}_file" for name in SECRETS)
        if (file := getattr(written, key)) is not None
    }
    return written.model_copy(update=files)


def _quote_login(login: Login) -> str:
    return f'"{login}"'
