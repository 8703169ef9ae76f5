"""`[dashboard]` as it was written: whole for the login it names, and without what that login never reads."""

from collections.abc import Callable
from pathlib import Path

from ..database_url import absolute
from ..error_messages import Origin
from ..errors import WrongValue
from .dashboard import SECRETS, DashboardSettings, Login

#: What a login reads beside what all of them do; a key of another one would seem to guard and would not.
_PEOPLE = frozenset(("viewers", "triagers", "ask"))
_OWN: dict[Login, frozenset[str]] = {
    "none": frozenset(),
    "oidc": _PEOPLE
    | {"issuer", "client_id", "client_secret", "client_secret_file", "cookie_secret", "cookie_secret_file"}
    | {"user_claim", "groups_claim", "login_hours"},
    "proxy": _PEOPLE | {"user_header", "groups_header", "trusted_proxies", "logout_path"},
}
_ALL = frozenset[str]().union(*_OWN.values())
#: What a login cannot do without; a secret may come as a file.
_NEEDED: dict[Login, tuple[str, ...]] = {
    "none": (),
    "oidc": ("url", "issuer", "client_id", "client_secret"),
    "proxy": ("user_header", "trusted_proxies"),
}


def settled_dashboard(
    written: DashboardSettings, base_of: Callable[..., Path], origin: Origin
) -> DashboardSettings:
    """The settings with absolute paths; `base_of` says from which folder a key's relative path counts.

    Raises WrongValue for a key of another login, a missing one, a secret that is given twice, and a token
    that nobody asks for.
    """
    login, given = written.login, written.model_fields_set
    if strange := sorted(given & (_ALL - _OWN[login])):
        raise WrongValue(
            f'{origin.of(("dashboard", strange[0]))} is nothing that login "{login}" reads; it is for login '
            f"{' and '.join(_quoted(other) for other, own in _OWN.items() if strange[0] in own)}"
        )
    for name in SECRETS:
        if name in given and f"{name}_file" in given:
            where = origin.of(("dashboard", name))
            raise WrongValue(f"{where} and {name}_file are both given; leave one of them out")
    needed = (*_NEEDED[login], *(("metrics_token",) if written.metrics == "token" else ()))
    for name in needed:
        # An empty list of proxies is one that nobody is on.
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


def _quoted(login: Login) -> str:
    return f'"{login}"'
