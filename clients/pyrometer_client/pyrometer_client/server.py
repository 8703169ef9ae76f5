"""Series from a Pyrometer server, and results to it or into the database of this machine."""

import json
import shlex
import subprocess
from collections.abc import Mapping, Sequence
from datetime import datetime, timezone
from typing import Any
from urllib.error import HTTPError, URLError
from urllib.parse import urlencode, urljoin
from urllib.request import Request, urlopen

_SECONDS = 60
_NO_HEADERS: "Mapping[str, str]" = {}


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
    a proxy or login wants. With `frame` a pandas DataFrame. Each point has the fields of
    `/api/v1/series/points` and `case`, `metric`, `hardware_label` and `preset_name`. Raises ClientError.
    """
    points: list[dict[str, Any]] = []
    for one in _every(url, "series", {"case": case, "metric": metric}, headers):
        if hardware in ("", one["hardware"], one["hardware_label"]):
            key = {name: one[name] for name in ("case", "metric", "hardware", "preset")}
            names = {name: one[name] for name in ("case", "metric", "hardware_label", "preset_name")}
            points += [{**names, **point} for point in _every(url, "series/points", key, headers)]
    if not frame:
        return points
    import pandas

    return pandas.DataFrame.from_records(points)


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
    now where it is missing. `command` is how `pyrometer` is called. With `url`, the address of a dashboard,
    they go there, with its `submit_token` and the labels of the machine and the hardware that measured.
    Raises ClientError with one sentence.
    """
    each = [results] if isinstance(results, Mapping) else list(results)
    now = datetime.now(timezone.utc).isoformat()  # noqa: UP017 -- runs on Python 3.9
    text = json.dumps([{"started_at": now, **one} for one in each])
    if url:
        query = urlencode({"machine": machine, "hardware": hardware})
        return _post(f"{url.rstrip('/')}/api/v1/submit?{query}", text.encode(), token)
    words = [*shlex.split(command), "submit", "-"]
    try:
        done = subprocess.run(words, input=text, capture_output=True, text=True)
    except OSError as error:
        raise ClientError(f"{words[0]}: {error.strerror}") from None
    if done.returncode:
        raise ClientError(done.stderr.strip() or done.stdout.strip())
    return done.stdout


def _post(address: str, content: bytes, token: str) -> str:
    headers = {"Authorization": f"Bearer {token}", "Content-Type": "application/json"}
    try:
        with urlopen(Request(address, content, headers), timeout=_SECONDS) as answer:
            text: str = answer.read().decode()
    except HTTPError as error:
        said = error.read().decode(errors="replace").strip()
        if error.code == 405:
            said = "the server takes no results over its API: it is older, or its address is another one"
        raise ClientError(f"{address}: {error.code} {said or error.reason}") from None
    except URLError as error:
        raise ClientError(f"{address}: {error.reason}") from None
    return text


def _every(url: str, what: str, query: Mapping[str, str], headers: Mapping[str, str]) -> list[dict[str, Any]]:
    """The rows of all pages."""
    address, rows = f"{url.rstrip('/')}/api/v1/{what}?{urlencode(query)}", []
    while address:
        try:
            with urlopen(Request(address, headers=dict(headers)), timeout=_SECONDS) as answer:
                rows += json.load(answer)
                following = answer.headers.get("link", "")
        except HTTPError as error:
            raise ClientError(f"{address}: {error.code} {error.reason}") from None
        except URLError as error:
            raise ClientError(f"{address}: {error.reason}") from None
        except ValueError:
            raise ClientError(f"{address} answers no JSON: is it a Pyrometer with an API?") from None
        address = urljoin(address, following[1 : following.index(">")]) if following else ""
    return rows
