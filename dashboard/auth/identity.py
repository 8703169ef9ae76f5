"""The permissions of a proven identity: pure functions that can be tested without a server."""

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from fnmatch import fnmatchcase
from ipaddress import IPv6Address, ip_address
from typing import Any, cast

from dashboard.auth.policy import AccessRules

#: The longest name of a person.
_NAME_CHARACTERS = 200
_GROUP = "group:"

#: The header that tells a script the reader; the middleware removes it from every incoming request.
STAMP = "X-Pyrometer-Reader"


@dataclass(frozen=True, slots=True)
class Person:
    """A person with a proven identity, until `until` (seconds since 1970; None: for each request anew)."""

    name: str
    groups: frozenset[str] = frozenset()
    until: float | None = None


@dataclass(frozen=True, slots=True)
class Reader:
    """A person who may read. The name is empty without a login."""

    name: str = ""
    may_triage: bool = True
    until: float | None = None

    def ended(self, now: float) -> bool:
        """Whether the login of this reader has ended by `now`, in seconds since 1970."""
        return self.until is not None and self.until <= now


@dataclass(frozen=True, slots=True)
class Refusal:
    """A person who may not read, with the reason as sentences; `another_account` is whether another login may
    help.
    """

    why: str
    another_account: bool = False


def authorise_person(person: Person, rules: AccessRules) -> Reader | Refusal:
    """The permissions of `person`: triagers may read too, and without `viewers` every proven identity may
    read.
    """
    if _named(person, rules.triagers):
        return Reader(person.name, True, person.until)
    if not rules.viewers or _named(person, rules.viewers):
        return Reader(person.name, False, person.until)
    return Refusal(f"{person.name} has no access to this dashboard. Ask {rules.ask}.", True)


def _named(person: Person, patterns: Sequence[str]) -> bool:
    # A name never matches a pattern for groups: otherwise a person who can choose a name could choose that of
    # a group.
    for pattern in patterns:
        group = pattern.removeprefix(_GROUP)
        if group != pattern:
            if any(fnmatchcase(each, group) for each in person.groups):
                return True
        elif fnmatchcase(person.name, pattern):
            return True
    return False


def sent_by_a_proxy(peer: str | None, rules: AccessRules) -> bool:
    """Whether the peer of the connection is a trusted proxy, which may name the reader."""
    try:
        address = ip_address(peer or "")
    except ValueError:
        return False
    # A socket for both families shows IPv4 as ::ffff:10.0.0.5.
    if isinstance(address, IPv6Address) and address.ipv4_mapped is not None:
        address = address.ipv4_mapped
    return any(address in network for network in rules.proxies)


def person_of_proxy(headers: Sequence[tuple[bytes, bytes]], rules: AccessRules) -> Person | Refusal:
    """The person that a trusted proxy names; `headers` are those of one request, names in lower case."""
    names = _values(headers, rules.user_header)
    header = rules.user_header.decode()
    if len(names) > 1:
        # A proxy that adds its header to that of the browser would let the browser choose the name.
        return Refusal(
            f"The request has {len(names)} headers {header}; the proxy must replace the header that browsers "
            f"send."
        )
    if names and ("," in names[0] or names[0].count("@") > 1):
        # So would a proxy that appends its name to the value from the browser, with any separator.
        return Refusal(
            f"{header} contains several names; the proxy must replace the header that browsers send."
        )
    if not names or not _usable(names[0]):
        return Refusal(f"The proxy names no reader: {header} is missing or not a name.")
    # One line for each group, or all in one line, with a comma or a bar between them.
    lines = _values(headers, rules.groups_header)
    groups = {part.strip() for line in lines for part in re.split(r"[,|]", line)}
    return Person(names[0], frozenset(groups - {""}))


def _values(headers: Sequence[tuple[bytes, bytes]], name: bytes) -> list[str]:
    matches = [value for each, value in headers if name and each == name]
    # Header values are bytes; names outside of ASCII come as UTF-8.
    return [value.decode("utf-8", "replace").strip() for value in matches]


def person_of_provider(claims: Mapping[str, Any], rules: AccessRules) -> Person | Refusal | None:
    """The person named by the claims of a provider's ID token; None if they are not a login."""
    issue_time = claims.get("iat")
    if isinstance(issue_time, bool) or not isinstance(issue_time, int | float):
        return None
    name = claims.get(rules.user_claim)
    if not isinstance(name, str) or not _usable(name):
        why = f"The provider does not name the reader: claim {rules.user_claim!r} is missing or not a name."
        return Refusal(why, True)
    # Some providers accept any unverified address, and some send `true` as text.
    verification = claims.get("email_verified")
    if rules.user_claim == "email" and verification is not True and verification != "true":
        why = f"The provider has not verified {name}: claim 'email_verified' is not true. Ask {rules.ask}."
        return Refusal(why, True)
    groups = _texts(claims.get(rules.groups_claim))
    return Person(name, frozenset(groups), issue_time + rules.login_seconds)


def group_patterns(rules: AccessRules) -> list[str]:
    """The patterns over groups in `rules`, without their prefix."""
    patterns = (*rules.viewers, *rules.triagers)
    return [each.removeprefix(_GROUP) for each in patterns if each.startswith(_GROUP)]


def matching_group(groups: object, pattern: str) -> str | None:
    """The first group of a claim that `pattern` matches; None without one."""
    return next((each for each in _texts(groups) if fnmatchcase(each, pattern)), None)


def _texts(claim: object) -> list[str]:
    items = [claim] if isinstance(claim, str) else claim if isinstance(claim, list) else []
    return [each for each in cast(list[object], items) if isinstance(each, str)]


def _usable(name: str) -> bool:
    # Invisible characters could make a name look like another.
    return name == name.strip() and 0 < len(name) <= _NAME_CHARACTERS and name.isprintable()
