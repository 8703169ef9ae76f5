"""The reader of the page that a script renders, and the permission to triage findings."""

import json
import time
from typing import Any, cast

import streamlit as st

from dashboard.auth.identity import STAMP, Reader
from dashboard.auth.policy import AccessRules
from dashboard.server.errors import NotAllowed

_ENDED = "Your login has ended. Load this page again."

_rules = AccessRules()


def hold(rules: AccessRules) -> None:
    """Use `rules` in this process from now on."""
    global _rules
    _rules = rules


def current_rules() -> AccessRules:
    """The rules of this process; by default those of a server without a login."""
    return _rules


def stamp() -> str | None:
    """The header with which the middleware names the reader; only the middleware can send it."""
    return st.context.headers.get(STAMP)


def current() -> Reader | None:
    """The reader of this page; None for a login that has ended or that the middleware has not seen."""
    if _rules.login == "none":
        return Reader()
    reader = _parse_stamp(stamp())
    return None if reader is None or reader.ended(time.time()) else reader


def triage_refused() -> str:
    """The reason why the reader of this page may not triage, as sentences; empty if that is allowed."""
    return _refusal_text(current())


def signature(text: str) -> str:
    """The name for a triage entry: that of the login, or the typed one without a login.

    Raises NotAllowed if the reader may not triage, or no longer.
    """
    reader = current()
    refusal_text = _refusal_text(reader)
    if reader is None or refusal_text:
        raise NotAllowed(refusal_text)
    return reader.name or text


def _refusal_text(reader: Reader | None) -> str:
    if reader is None:
        return _ENDED
    if reader.may_triage:
        return ""
    return f"{reader.name} may read but not triage. Ask {_rules.ask}."


def _parse_stamp(stamp: str | None) -> Reader | None:
    if stamp is None:
        return None
    claims = cast(dict[str, Any], json.loads(stamp))
    return Reader(claims["name"], claims["may_triage"], claims["until"])
