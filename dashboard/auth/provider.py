"""Logins at an OpenID Connect provider: redirects to and from it, and the cookie of a login."""

import logging
from collections.abc import Mapping
from typing import Any, cast

from itsdangerous import BadData, URLSafeTimedSerializer
from starlette.requests import Request
from starlette.responses import RedirectResponse, Response
from starlette.types import Receive, Scope

from dashboard.auth import cookies, login_page
from dashboard.auth.identity import group_patterns, matching_group
from dashboard.auth.policy import AccessRules

_LOG = logging.getLogger(__name__)

LOGIN, LOGOUT, CALLBACK = "/login", "/auth/logout", "/oauth2callback"
#: The signed cookie of a login, and that of the provider's token, which a logout there requires.
COOKIE, _ID_TOKEN = "pyrometer_login", "pyrometer_id_token"
#: The lifetime of the cookies in seconds; a login ends earlier, and an open page then reports it.
_COOKIE_SECONDS = 30 * 24 * 3600
#: The longest cookie that a browser stores.
_COOKIE_CHARACTERS = 3800


class Provider:
    """The provider of `rules`, accessed with Authlib. Answers the paths LOGIN, LOGOUT and CALLBACK."""

    def __init__(self, rules: AccessRules) -> None:
        self._rules = rules
        self._signer = URLSafeTimedSerializer(rules.provider["cookie_secret"], salt=COOKIE)

    def claims(self, headers: cookies.Headers) -> dict[str, Any]:
        """The claims of the login; empty without a cookie that this server signed."""
        claims = self._session(headers).get("claims")
        return cast(dict[str, Any], claims) if isinstance(claims, dict) else {}

    async def answer(self, scope: Scope, receive: Receive, *, page: bool) -> Response:
        """The response to a request for one of the three paths; `page`: the sender reads HTML."""
        request = Request({**scope, "session": self._session(scope["headers"])}, receive)
        if scope["path"] == LOGIN:
            return await self._begin(request, page=page)
        if scope["path"] == LOGOUT:
            return await self._leave(request)
        return await self._finish(request)

    async def _begin(self, request: Request, *, page: bool) -> Response:
        """Redirect to the provider; the requested page is stored in a cookie."""
        request.session.pop("claims", None)
        try:
            client = self._client()
            response: Response = await client.authorize_redirect(
                request, self._rules.provider["redirect_uri"]
            )
        except Exception:
            # The reader cannot correct any error of the provider.
            _LOG.warning("The login provider does not answer.", exc_info=True)
            return login_page.outage_page(self._rules.ask, page=page)
        self._keep(response, COOKIE, self._sign_session(request.session))
        target = request.query_params.get("to")
        if target is not None:
            cookies.remember(response, cookies.own_address(target), encrypted=self._rules.encrypted)
        response.headers.update(cookies.KEPT_NOWHERE)
        return response

    async def _finish(self, request: Request) -> Response:
        """The return from the provider: with claims after a login, without them after a logout."""
        response = RedirectResponse("/", 302, cookies.KEPT_NOWHERE)
        if not {"code", "error"} & set(request.query_params):
            return response
        try:
            token: dict[str, Any] = await self._client().authorize_access_token(request)
        except Exception:
            # A login that another browser started, a stale page, or a token of another issuer.
            _LOG.warning("The login at the provider failed.", exc_info=True)
            self._forget(response)
            return response
        claims = kept_claims(token.get("userinfo") or {}, self._rules)
        self._keep(response, COOKIE, self._sign_session({"claims": claims}))
        id_token = str(token.get("id_token", ""))
        if id_token and len(id_token) <= _COOKIE_CHARACTERS:
            self._keep(response, _ID_TOKEN, id_token, LOGOUT)
        return response

    async def _leave(self, request: Request) -> Response:
        """Log out of this dashboard and, if the provider supports it, of the provider."""
        address = "/"
        if self.claims(request.scope["headers"]):
            try:
                logout_url = await self._client().create_logout_url(
                    post_logout_redirect_uri=self._rules.provider["redirect_uri"],
                    id_token_hint=request.cookies.get(_ID_TOKEN),
                    client_id=self._rules.provider["client_id"],
                )
                address = str(logout_url["url"])
            except Exception:
                _LOG.warning("The logout at the provider failed.", exc_info=True)
        response = RedirectResponse(address, 302, cookies.KEPT_NOWHERE)
        self._forget(response)
        return response

    def _client(self) -> Any:
        """A client of the provider; its metadata is fetched when it is first needed."""
        # Imported here, because only logins need it (extra `oidc`).
        from authlib.integrations import starlette_client

        provider = self._rules.provider
        return (
            cast(Any, starlette_client)
            .OAuth()
            .register(
                "provider",
                client_id=provider["client_id"],
                client_secret=provider["client_secret"],
                server_metadata_url=provider["server_metadata_url"],
                client_kwargs={"scope": "openid email profile", "code_challenge_method": "S256"},
                authorize_params={"prompt": "select_account"},
            )
        )

    def _session(self, headers: cookies.Headers) -> dict[str, Any]:
        value = cookies.request_cookies(headers).get(COOKIE)
        if value is None:
            return {}
        try:
            result: object = self._signer.loads(value, max_age=_COOKIE_SECONDS)
        except BadData:
            return {}
        return cast(dict[str, Any], result) if isinstance(result, dict) else {}

    def _sign_session(self, session: Mapping[str, Any]) -> str:
        return str(self._signer.dumps(dict(session)))

    def _keep(self, response: Response, name: str, value: str, path: str = "/") -> None:
        response.set_cookie(
            name,
            value,
            max_age=_COOKIE_SECONDS,
            path=path,
            httponly=True,
            samesite="lax",
            secure=self._rules.encrypted,
        )

    def _forget(self, response: Response) -> None:
        for name, path in ((_ID_TOKEN, LOGOUT), (COOKIE, "/")):
            response.delete_cookie(name, path, httponly=True, samesite="lax", secure=self._rules.encrypted)


def kept_claims(claims: Mapping[str, Any], rules: AccessRules) -> dict[str, Any]:
    """The claims of a token that permissions depend on, with one group for each pattern of `rules`: a reader
    may be in hundreds of groups, and a cookie is limited to 4 KiB.

    A new pattern takes effect at the next login; a removed one takes effect at once.
    """
    names = ("iat", "email_verified", rules.user_claim)
    own = {name: claims[name] for name in names if name in claims}
    groups = claims.get(rules.groups_claim)
    patterns = group_patterns(rules)
    groups_matched = [group for pattern in patterns if (group := matching_group(groups, pattern)) is not None]
    return own | {rules.groups_claim: list(dict.fromkeys(groups_matched))}
