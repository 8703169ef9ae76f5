"""The cookies of a request, and the one that stores the requested page during a login."""

import re
from collections.abc import Mapping
from urllib.parse import quote, unquote

from starlette.requests import cookie_parser
from starlette.responses import Response

#: The header of answers about a person, which browsers and proxies must not store.
KEPT_NOWHERE = {"cache-control": "no-store"}

#: The cookie with the page that was requested before the login, and its lifetime in seconds.
WANTED = "pyrometer_wanted"
_WANTED_SECONDS = 900
#: The longest address: a browser would refuse a longer cookie.
_ADDRESS_CHARACTERS = 2000

Headers = list[tuple[bytes, bytes]]


def request_cookies(headers: Headers) -> dict[str, str]:
    """The cookies of a request."""
    result: dict[str, str] = {}
    for name, value in headers:
        if name == b"cookie":
            result |= cookie_parser(value.decode("latin-1"))
    return result


def own_address(text: str) -> str:
    """`text` if it is the path and query of a page of this server; else the address of the first page."""
    # `//host` would lead to another site, and so would a backslash in place of a slash.
    local = re.fullmatch(r"/(?![/\\])[!-~]*", text) and len(text) <= _ADDRESS_CHARACTERS
    return text if local else "/"


def remember(response: Response, address: str, *, encrypted: bool) -> None:
    """Store the requested page in a cookie."""
    response.set_cookie(
        WANTED,
        quote(address, safe=""),
        max_age=_WANTED_SECONDS,
        httponly=True,
        samesite="lax",
        secure=encrypted,
    )


def target_page(cookies: Mapping[str, str]) -> str | None:
    """The requested page; None without the cookie."""
    address = cookies.get(WANTED)
    return None if address is None else own_address(unquote(address))
