"""Series from a Pyrometer server, and results to it or into the database of this machine."""

import json
import re
import shlex
import subprocess
import time
from collections.abc import Mapping, Sequence
from contextlib import suppress
from datetime import datetime, timezone
from hashlib import sha256
from http.client import HTTPException, InvalidURL
from typing import Any
from urllib.error import HTTPError, URLError
from urllib.parse import urlencode, urlsplit
from urllib.request import HTTPRedirectHandler, Request, build_opener

_SECONDS = 60
#: How often results are posted where no answer comes, and how long it waits before the second time.
_TRIES, _PAUSE_SECONDS = 3, 1.0
#: What a proxy answers for a server that it does not reach, or waits for in vain.
_NO_ANSWER = (502, 503, 504)
#: The time of results that no server answered, by their digest: submitted again, they are the same run.
_UNANSWERED: "dict[str, str]" = {}
_NO_HEADERS: "Mapping[str, str]" = {}
_NEXT = re.compile(r'<([^>]*)>\s*;\s*rel="?next\b')
#: Columns of a DataFrame, which it has without points too, and the numbers among them.
_NUMBERS = ("point", "low", "high", "smallest", "largest", "spread")
_COLUMNS = (
    *("case", "metric", "unit", "hardware_label", "preset_name", "run", "started_at", "torch_version"),
    *("environment", "machine", "harness", *_NUMBERS, "n"),
)


class ClientError(RuntimeError):
    """A server or a program that refuses or cannot be reached, in one sentence."""


class _NoAnswer(ClientError):
    """A server that perhaps has done what it was asked for."""


def series(
    url: str,
    case: str,
    metric: str = "latency_floor",
    *,
    hardware: str = "",
    token: str = "",
    headers: Mapping[str, str] = _NO_HEADERS,
    frame: bool = False,
) -> Any:
    """All points of every series of a case and metric, oldest first, as a list of dictionaries.

    `url` is the address of the dashboard, `hardware` a label or a fingerprint (default: all), `token` its
    `api_token` where users log in, `headers` what a proxy wants. Each point has the fields of
    `/api/v1/series/points` and `case`, `metric`, `unit`, `hardware_label` and `preset_name`; a number that is
    not known is None. With `frame` a pandas DataFrame, where such a number is NaN and `started_at` a time in
    UTC. Raises ClientError.
    """
    points: list[dict[str, Any]] = []
    headers = {**headers, **_bearer(token)}
    for one in _every(url, "series", {"case": case, "metric": metric}, headers):
        if hardware in ("", one["hardware"], one["hardware_label"]):
            key = {name: one[name] for name in ("case", "metric", "hardware", "preset")}
            # Older servers know no unit.
            names = {name: one.get(name, "") for name in _COLUMNS[:5]}
            points += [{**names, **point} for point in _every(url, "series/points", key, headers)]
    return _frame(points) if frame else points


def _frame(points: "list[dict[str, Any]]") -> Any:
    import pandas

    frame = pandas.DataFrame(points, columns=None if points else list(_COLUMNS))
    # A column of nothing but None would be no numbers, and times that come as text would not be in order.
    frame = frame.astype({name: float for name in _NUMBERS if name in frame})
    frame["started_at"] = pandas.to_datetime(frame["started_at"], utc=True, format="ISO8601")
    return frame


def submit(
    results: "Mapping[str, Any] | Sequence[Mapping[str, Any]]",
    command: str = "pyrometer",
    *,
    url: str = "",
    token: str = "",
    machine: str = "",
    hardware: str = "",
) -> str:
    """Store results with `pyrometer submit` on this machine, or at a server; returns what either answers.

    A result is an object as docs/import.md describes it: `suite`, `case`, `metrics` and more; `started_at` is
    now where it is missing. Values may be numbers of NumPy or PyTorch, and times `datetime`. `command` is how
    `pyrometer` is called. With `url`, the address of a dashboard, they go there, with its `submit_token`.
    `machine` and `hardware` are the labels of what measured: a server needs them, and without one they are
    by default those of this machine. What a server does not answer is posted again, at most three times in
    all; submitted again, it is the same run. Raises ClientError with one sentence.
    """
    if url and not (machine.strip() and hardware.strip()):
        raise ClientError("a server needs the labels of what measured: give machine and hardware")
    each = [results] if isinstance(results, Mapping) else list(results)
    try:
        sent = json.dumps([url, machine, hardware, [{**one} for one in each]], default=_plain)
        digest = sha256(sent.encode()).hexdigest()
        now = _UNANSWERED.get(digest) or datetime.now(timezone.utc).isoformat()  # noqa: UP017 -- Python 3.9
        text = json.dumps([{"started_at": now, **one} for one in each], default=_plain)
    except (TypeError, ValueError, RuntimeError) as error:
        raise ClientError(f"the results are no JSON: {error}") from None
    if url:
        query = urlencode({"machine": machine, "hardware": hardware})
        try:
            answer = _post(f"{url.rstrip('/')}/api/v1/submit?{query}", text.encode(), token)
        except _NoAnswer as error:
            if all("started_at" in one for one in each):
                raise
            # It may be stored: under another time, it would be another run.
            _UNANSWERED[digest] = now
            raise ClientError(f'{error}; submit it again with "started_at": "{now}"') from None
        _UNANSWERED.pop(digest, None)
        return answer
    labels = {"machine": machine, "hardware": hardware}
    words = [*shlex.split(command), "submit", "-"]
    words += [f"--{name}={label}" for name, label in labels.items() if label]
    try:
        done = subprocess.run(words, input=text, capture_output=True, encoding="utf-8", errors="replace")
    except OSError as error:
        raise ClientError(f"{words[0]}: {error.strerror}") from None
    if done.returncode:
        # What it stored and what it set aside is on stdout; on stderr are its notes, and then its error.
        raise ClientError(done.stdout.strip() or done.stderr.strip())
    return done.stdout


def _plain(value: Any) -> Any:
    """What JSON has of a time, and of numbers of another package."""
    if isinstance(value, datetime):
        return value.isoformat()
    if hasattr(value, "tolist"):
        return value.tolist()
    raise TypeError(f"{type(value).__name__} is neither a number nor a text")


class _Redirects(HTTPRedirectHandler):
    """Follows redirections on the same host: no other gets the headers, which may hold a token or a cookie.

    Of results that are posted none is followed: it would drop the content.
    """

    def redirect_request(self, req: Request, *about: Any) -> Any:
        """The request that follows; None where the redirection is an error."""
        before, after = urlsplit(req.full_url), urlsplit(about[-1])
        same = after.hostname == before.hostname and after.scheme in (before.scheme, "https")
        return super().redirect_request(req, *about) if same and req.data is None else None


def _post(address: str, content: bytes, token: str) -> str:
    """The answer to results, which are stored once, however often they are sent; raises ClientError."""
    headers = {**_bearer(token), "Content-Type": "application/json"}
    tried = 0
    while True:
        tried += 1
        try:
            text, _ = _answer(address, content, headers)
        except _NoAnswer:
            if tried == _TRIES:
                raise
            time.sleep(_PAUSE_SECONDS * tried)
        else:
            _json_of(text, address)
            return text


def _bearer(token: str) -> "dict[str, str]":
    """The header that brings a token, which often ends with the line of its file; none without one."""
    return {"Authorization": f"Bearer {token.strip()}"} if token.strip() else {}


def _every(url: str, what: str, query: Mapping[str, str], headers: Mapping[str, str]) -> list[dict[str, Any]]:
    """The rows of all pages."""
    page = f"{url.rstrip('/')}/api/v1/{what}"
    address, rows = f"{page}?{urlencode(query)}", []
    while address:
        text, link = _answer(address, None, headers)
        found = _json_of(text, address)
        if not isinstance(found, list):
            raise ClientError(f"{address} answers no rows: is it a Pyrometer with an API?")
        rows += found
        following = _NEXT.search(link)
        # Only its query: a proxy may serve the dashboard under another path.
        address = f"{page}?{urlsplit(following[1]).query}" if following else ""
    return rows


def _json_of(text: str, address: str) -> Any:
    try:
        return json.loads(text)
    except ValueError:
        raise ClientError(f"{address} answers no JSON: is it a Pyrometer with an API?") from None


def _detail(text: str) -> str:
    """The sentences of a refusal by the API, or its whole text."""
    try:
        detail = json.loads(text)["detail"]
        if isinstance(detail, list):
            return "; ".join(f"{'.'.join(map(str, one['loc']))}: {one['msg']}" for one in detail)
    except (ValueError, LookupError, TypeError):
        return text
    return detail if isinstance(detail, str) else text


def _answer(address: str, content: "bytes | None", headers: Mapping[str, str]) -> "tuple[str, str]":
    """The text of an answer and its header `Link`; raises ClientError."""
    for name, value in headers.items():
        # The error of http.client would show the value, which may be a secret.
        if "\r" in value or "\n" in value:
            raise ClientError(f"the header {name} holds the end of a line")
    opener = build_opener(_Redirects)
    try:
        if "@" in urlsplit(address).netloc:
            # Nothing would send them, and each error would show them.
            raise ClientError("the address holds a user or a password: give what a proxy wants in headers")
        with opener.open(Request(address, content, dict(headers)), timeout=_SECONDS) as answer:
            return answer.read().decode(), ", ".join(answer.headers.get_all("link", []))
    except HTTPError as error:
        said = ""
        with suppress(OSError, HTTPException):
            # The reason may break off.
            said = _detail(error.read().decode(errors="replace").strip())
        if error.code == 405 and content is not None:
            said = "the server takes no results over its API: it is older, or its address is another one"
        elif error.code in range(300, 400):
            lost = "" if content is None else "nothing is stored: "
            said = f"{lost}it redirects to {error.headers.get('location')}"
        elif said.startswith("<"):
            # A page for people.
            said = ""
        kind = _NoAnswer if error.code in _NO_ANSWER else ClientError
        raise kind(f"{address}: {error.code} {said or error.reason}") from None
    except (ValueError, InvalidURL) as error:
        # No address at all, or an answer that is no text.
        raise ClientError(f"{address}: {error}") from None
    except (OSError, HTTPException) as error:
        reason = error.reason if isinstance(error, URLError) else error
        raise _NoAnswer(f"{address}: {reason}") from None
