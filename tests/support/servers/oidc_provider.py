"""An OpenID Connect provider on this machine: the code flow, with everything checked that can be."""

import base64
import hashlib
import json
import secrets
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from html import escape
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any
from urllib.parse import parse_qs, urlencode, urlsplit

from joserfc import jwt
from joserfc.jwk import RSAKey

from support.servers.loopback import Quiet, served

CLIENT, SECRET = "pyrometer", "a-secret-of-client-and-provider"


@dataclass
class Provider:
    """One that knows `accounts` (claims by subject) and one client; `complaints` are what it refused."""

    accounts: dict[str, dict[str, Any]]
    url: str = ""
    redirect: str = ""
    complaints: list[str] = field(default_factory=list[str])
    ended: int = 0
    codes: dict[str, dict[str, str]] = field(default_factory=dict[str, dict[str, str]])
    key: RSAKey = field(default_factory=lambda: RSAKey.generate_key(2048, {"kid": "1", "use": "sig"}))

    def metadata(self) -> dict[str, Any]:
        """What OpenID Connect Discovery 1.0, section 3, requires, and the end of a session."""
        return {
            "issuer": self.url,
            "authorization_endpoint": f"{self.url}/authorize",
            "token_endpoint": f"{self.url}/token",
            "jwks_uri": f"{self.url}/keys",
            "end_session_endpoint": f"{self.url}/end",
            "response_types_supported": ["code"],
            "subject_types_supported": ["public"],
            "id_token_signing_alg_values_supported": ["RS256"],
            "code_challenge_methods_supported": ["S256"],
        }

    def begins(self, query: dict[str, str]) -> str:
        """Why an authentication request (OpenID Connect Core 1.0, 3.1.2.1) is refused; empty if it is not."""
        for name, wanted in (
            ("client_id", CLIENT),
            ("redirect_uri", self.redirect),
            ("response_type", "code"),
            ("code_challenge_method", "S256"),
        ):
            if query.get(name) != wanted:
                return f"{name} is {query.get(name)!r}"
        missing = [name for name in ("state", "nonce", "code_challenge") if not query.get(name)]
        return f"{missing} missing" if missing or "openid" not in query.get("scope", "").split() else ""

    def code(self, subject: str, query: dict[str, str]) -> str:
        """A code for a person who has logged in here, good for one use."""
        code = secrets.token_urlsafe()
        self.codes[code] = query | {"subject": subject}
        return code

    def token(self, form: dict[str, str], authorization: str) -> dict[str, Any] | str:
        """The answer to a token request (Core 3.1.3, RFC 7636), or why there is none."""
        given = base64.b64encode(f"{CLIENT}:{SECRET}".encode()).decode()
        by_form = form.get("client_id") == CLIENT and form.get("client_secret") == SECRET
        if authorization != f"Basic {given}" and not by_form:
            return "the client is another one"
        query = self.codes.pop(form.get("code", ""), None)
        if query is None or form.get("grant_type") != "authorization_code":
            return "there is no such code"
        verifier = hashlib.sha256(form.get("code_verifier", "").encode()).digest()
        if base64.urlsafe_b64encode(verifier).rstrip(b"=").decode() != query["code_challenge"]:
            return "another one began this login"
        if form.get("redirect_uri") != query["redirect_uri"]:
            return "redirect_uri is another one"
        now = int(time.time())
        claims = {
            "iss": self.url,
            "aud": CLIENT,
            "sub": query["subject"],
            "nonce": query["nonce"],
            "iat": now,
            "exp": now + 300,
            **self.accounts[query["subject"]],
        }
        signed = jwt.encode({"alg": "RS256", "kid": "1"}, claims, self.key)
        return {"id_token": signed, "access_token": secrets.token_urlsafe(), "token_type": "Bearer"}


class _Server(ThreadingHTTPServer):
    """Listens for one provider."""

    def __init__(self, provider: Provider) -> None:
        super().__init__(("127.0.0.1", 0), _Handler)
        self.provider = provider
        provider.url = f"http://127.0.0.1:{self.server_port}"


class _Handler(Quiet, BaseHTTPRequestHandler):
    """Answers one request."""

    server: _Server  # pyright: ignore[reportIncompatibleVariableOverride]

    def do_GET(self) -> None:
        provider = self.server.provider
        path, query = self._path_and_query()
        if path == "/.well-known/openid-configuration":
            self._json(provider.metadata())
        elif path == "/keys":
            self._json({"keys": [provider.key.as_dict(private=False)]})
        elif path == "/authorize":
            self._authorize(query)
        elif path == "/end":
            self._end(query)
        elif path == "/favicon.ico":
            self._send(404, "text/plain", "")
        else:
            self._refuse(f"GET {path}")

    def do_POST(self) -> None:
        provider = self.server.provider
        path, query = self._path_and_query()
        length = int(self.headers["content-length"])
        form = {name: values[0] for name, values in parse_qs(self.rfile.read(length).decode()).items()}
        if path == "/authorize" and not provider.begins(query):
            answer = {"code": provider.code(form["account"], query), "state": query["state"]}
            self._redirect(f"{query['redirect_uri']}?{urlencode(answer)}")
        elif path == "/token":
            token = provider.token(form, self.headers.get("authorization", ""))
            self._refuse(token) if isinstance(token, str) else self._json(token)
        else:
            self._refuse(f"POST {path}")

    def _authorize(self, query: dict[str, str]) -> None:
        provider = self.server.provider
        if why := provider.begins(query):
            self._refuse(why)
            return
        buttons = "".join(
            f'<button name="account" value="{escape(subject)}">{escape(subject)}</button>'
            for subject in provider.accounts
        )
        self._send(200, "text/html", f'<form method="post"><h1>Who are you?</h1>{buttons}</form>')

    def _end(self, query: dict[str, str]) -> None:
        provider = self.server.provider
        if query.get("client_id") != CLIENT or query.get("post_logout_redirect_uri") != provider.redirect:
            self._refuse(f"end of a session: {query}")
            return
        provider.ended += 1
        self._redirect(provider.redirect)

    def _path_and_query(self) -> tuple[str, dict[str, str]]:
        parts = urlsplit(self.path)
        return parts.path, {name: values[0] for name, values in parse_qs(parts.query).items()}

    def _json(self, body: dict[str, Any]) -> None:
        self._send(200, "application/json", json.dumps(body))

    def _redirect(self, address: str) -> None:
        self._send(303, "text/plain", "", ("location", address))

    def _refuse(self, why: str) -> None:
        self.server.provider.complaints.append(why)
        self._send(400, "application/json", json.dumps({"error": "invalid_request"}))

    def _send(self, status: int, kind: str, body: str, *more: tuple[str, str]) -> None:
        self.send_response(status)
        for name, value in (("content-type", kind), ("content-length", str(len(body.encode()))), *more):
            self.send_header(name, value)
        self.end_headers()
        self.wfile.write(body.encode())


@contextmanager
def provider(accounts: dict[str, dict[str, Any]]) -> Iterator[Provider]:
    """A provider that listens on this machine."""
    one = Provider(accounts)
    with served(_Server(one)):
        yield one
