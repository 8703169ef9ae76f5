"""The cookies of a request, and the one that remembers a reader's address over a login."""

import re
from collections.abc import Mapping
from urllib.parse import quote, unquote

from starlette.requests import cookie_parser
from starlette.responses import Response

#: The header of answers about a person, which no browser and no proxy may keep.
KEPT_NOWHERE = {"cache-control": "no-store"}

#: The page that was requested before the login, and for how many seconds it is remembered.
WANTED = "pyrometer_wanted"
_WANTED_SECONDS = 900
#: With a longer address a cookie would not be kept.
_ADDRESS_CHARACTERS = 2000

Headers = list[tuple[bytes, bytes]]


def request_cookies(headers: Headers) -> dict[str, str]:
    """The cookies of a request."""
    found: dict[str, str] = {}
    for name, value in headers:
        if name == b"cookie":
            found |= cookie_parser(value.decode("latin-1"))
    return found


def own_address(text: str) -> str:
    """`text` where it is an address of a page here, path and query; else the first page's."""
    # `//host` leads to another site, and so does a backslash in place of a slash.
    local = re.fullmatch(r"/(?![/\\])[!-~]*", text) and len(text) <= _ADDRESS_CHARACTERS
    return text if local else "/"


def remember(response: Response, address: str, *, encrypted: bool) -> None:
    """Have the browser keep the requested page."""
    response.set_cookie(
        WANTED,
        quote(address, safe=""),
        max_age=_WANTED_SECONDS,
        httponly=True,
        samesite="lax",
        secure=encrypted,
    )


def target_page(cookies: Mapping[str, str]) -> str | None:
    """The requested page; None where none is remembered."""
    address = cookies.get(WANTED)
    return None if address is None else own_address(unquote(address))
