"""The pages for readers without access, served before Streamlit: one page, one sentence, one link."""

from base64 import b64encode
from functools import cache
from html import escape
from pathlib import Path
from string import Template
from urllib.parse import quote

from starlette.responses import HTMLResponse, PlainTextResponse, Response

from dashboard.auth.cookies import KEPT_NOWHERE

_FOLDER = Path(__file__).parent
#: The header of a 401: how a program says who it is.
CHALLENGE = {"www-authenticate": 'Bearer realm="pyrometer"'}


def log_in(address: str, *, page: bool) -> Response:
    """The page that asks for a login, and goes on to `address` from there."""
    sentence = "This dashboard is for those who log in."
    way = ("Log in", f"/login?to={quote(address, safe='')}")
    return _answer("Log in", sentence, way, page=page)


def refuse(sentence: str, logout: str, *, page: bool) -> Response:
    """The page that says why access is refused; with the address `logout` another account can be tried."""
    return _answer("Not open to you", sentence, ("Log out", logout) if logout else None, page=page)


def outage_page(ask: str, *, page: bool) -> Response:
    """The page that says that the login is not available just now."""
    sentence = f"The provider of logins does not answer. If that lasts, ask {ask}."
    return _answer("No login just now", sentence, ("Try again", "/login"), page=page, status=503)


def token_refusal(sentence: str) -> Response:
    """The answer to a program without a token that it needs, or with another one."""
    return PlainTextResponse(f"{sentence}\n", 401, KEPT_NOWHERE | CHALLENGE)


def _answer(
    title: str, sentence: str, way: tuple[str, str] | None, *, page: bool, status: int = 403
) -> Response:
    if not page:
        return PlainTextResponse(f"{sentence}\n", status, KEPT_NOWHERE)
    link = f'<p><a href="{escape(way[1])}">{escape(way[0])}</a></p>' if way else ""
    shown = _template().substitute(title=escape(title), sentence=escape(sentence), way=link, icon=_icon())
    return HTMLResponse(shown, status, KEPT_NOWHERE)


@cache
def _template() -> Template:
    return Template((_FOLDER / "login_page.html").read_text())


@cache
def _icon() -> str:
    return (
        "data:image/png;base64," + b64encode((_FOLDER.parent / "static" / "icon.png").read_bytes()).decode()
    )
