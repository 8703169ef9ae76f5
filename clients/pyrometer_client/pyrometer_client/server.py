"""Series from a Pyrometer server, and results to it or into the database of this machine."""

import json
import re
import shlex
import subprocess
from collections.abc import Mapping, Sequence
from datetime import datetime, timezone
from http.client import HTTPException
from typing import Any
from urllib.error import HTTPError, URLError
from urllib.parse import urlencode, urlsplit
from urllib.request import HTTPRedirectHandler, Request, build_opener

_SECONDS = 60
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


def series(
    url: str,
    case: str,
    metric: str = "latency_floor",
    *,
    hardware: str = "",
    headers: Mapping[str, str] = _NO_HEADERS,
    frame: bool = False,
) -> Any:
    """All points of every series of a case and metric, oldest first, as a list of dictionaries.

    `url` is the address of the dashboard, `hardware` a label or a fingerprint (default: all), `headers` what
    a proxy or login wants. Each point has the fields of `/api/v1/series/points` and `case`, `metric`, `unit`,
    `hardware_label` and `preset_name`; a number that is not known is None. With `frame` a pandas DataFrame,
    where such a number is NaN and `started_at` a time in UTC. Raises ClientError.
    """
    points: list[dict[str, Any]] = []
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
    by default those of this machine. Raises ClientError with one sentence.
    """
    each = [results] if isinstance(results, Mapping) else list(results)
    now = datetime.now(timezone.utc).isoformat()  # noqa: UP017 -- runs on Python 3.9
    try:
        text = json.dumps([{"started_at": now, **one} for one in each], default=_plain)
    except (TypeError, ValueError, RuntimeError) as error:
        raise ClientError(f"the results are no JSON: {error}") from None
    if url:
        query = urlencode({"machine": machine, "hardware": hardware})
        return _post(f"{url.rstrip('/')}/api/v1/submit?{query}", text.encode(), token)
    labels = {"machine": machine, "hardware": hardware}
    words = [*shlex.split(command), "submit", "-"]
    words += [f"--{name}={label}" for name, label in labels.items() if label]
    try:
        done = subprocess.run(words, input=text, capture_output=True, encoding="utf-8", errors="replace")
    except OSError as error:
        raise ClientError(f"{words[0]}: {error.strerror}") from None
    if done.returncode:
        raise ClientError(done.stderr.strip() or done.stdout.strip())
    return done.stdout


def _plain(value: Any) -> Any:
    """What JSON has of a time, and of numbers of another package."""
    if isinstance(value, datetime):
        return value.isoformat()
    if hasattr(value, "tolist"):
        return value.tolist()
    raise TypeError(f"{type(value).__name__} is neither a number nor a text")


class _NoRedirects(HTTPRedirectHandler):
    """Of results that are posted a redirection would drop the content and pass the token on."""

    def redirect_request(self, *_: Any) -> None:
        """Follow none: the answer is an error."""


def _post(address: str, content: bytes, token: str) -> str:
    headers = {"Authorization": f"Bearer {token}", "Content-Type": "application/json"}
    text, _ = _answer(address, content, headers)
    _json_of(text, address)
    return text


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


def _answer(address: str, content: "bytes | None", headers: Mapping[str, str]) -> "tuple[str, str]":
    """The text of an answer and its header `Link`; raises ClientError."""
    opener = build_opener() if content is None else build_opener(_NoRedirects)
    try:
        with opener.open(Request(address, content, dict(headers)), timeout=_SECONDS) as answer:
            return answer.read().decode(), ", ".join(answer.headers.get_all("link", []))
    except HTTPError as error:
        said = error.read().decode(errors="replace").strip()
        if error.code == 405 and content is not None:
            said = "the server takes no results over its API: it is older, or its address is another one"
        elif error.code in range(300, 400):
            said = f"nothing is stored: it redirects to {error.headers.get('location')}"
        elif said.startswith("<"):
            # A page for people.
            said = ""
        raise ClientError(f"{address}: {error.code} {said or error.reason}") from None
    except (OSError, HTTPException, ValueError) as error:
        # ValueError: no address at all, or an answer that is no text.
        reason = error.reason if isinstance(error, URLError) else error
        raise ClientError(f"{address}: {reason}") from None
