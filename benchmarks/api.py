"""How fast `/api/v1` answers on a million results: every GET route, by one client over one connection.

    python benchmarks/api.py [--results N | --database URL] [--rounds N]

Fills an SQLite file from a seed, as dashboard.py does, and serves it by the command that users type. In every
round each route is asked for another run, series or page of a list. The goal is a p95 of 150 ms.
"""

import argparse
import http.client
import json
import random
import tempfile
import time
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path
from typing import Any
from urllib.parse import urlencode, urlsplit

from nights.history import History
from nights.timetable import fill_file
from readers import serving

GOAL_MS = 150.0
PREFIX = "/api/v1"
#: Rows of a page of points, fewer than a series has, so that a series takes several.
A_PAGE = 100

Headers = Mapping[str, str]
Address = Callable[[], str]


@dataclass(frozen=True, slots=True)
class Answer:
    """Status, content and headers, and the milliseconds from the request to the last byte."""

    status: int
    content: bytes
    headers: Headers
    milliseconds: float


@dataclass(slots=True)
class Route:
    """What is asked under one name: an address that differs from round to round, and its answers."""

    name: str
    address: Address
    headers: Headers = field(default_factory=dict[str, str])
    answers: list[Answer] = field(default_factory=list[Answer])


class Client:
    """A client that keeps its connection."""

    def __init__(self, url: str) -> None:
        self._connection = http.client.HTTPConnection(urlsplit(url).netloc, timeout=60)

    def ask(self, address: str, headers: Headers | None = None) -> Answer:
        """One GET below `PREFIX`."""
        started = time.perf_counter()
        self._connection.request("GET", PREFIX + address, headers=dict(headers or {}))
        answer = self._connection.getresponse()
        content = answer.read()
        return Answer(
            answer.status,
            content,
            {name.lower(): value for name, value in answer.getheaders()},
            (time.perf_counter() - started) * 1e3,
        )

    def rows(self, address: str) -> list[dict[str, Any]]:
        """The rows of a list."""
        found: list[dict[str, Any]] = json.loads(self.ask(address).content)
        return found


def main() -> None:
    """Fill, serve, ask, and print a line for each route."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--results", type=int, default=1_000_000)
    parser.add_argument("--database", metavar="URL", help="one that is filled already")
    parser.add_argument("--rounds", type=int, default=100)
    options = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="pyrometer-") as name:
        url = options.database or fill_file(Path(name), History(options.results, 0, datetime.now(UTC)))
        server = serving.dashboard(url, Path(name))
        try:
            client = Client(server.url)
            routes = list(_routes(client))
            for number in range(options.rounds + 1):
                for route in routes:
                    answer = client.ask(route.address(), route.headers)
                    # The first time the database's pages come from the disk.
                    route.answers += [answer] if number else []
            _print(routes)
        finally:
            server.stop()


def _routes(client: Client) -> Iterator[Route]:
    dice = random.Random(31)
    runs = [run["id"] for run in client.rows("/runs?limit=1000")]
    series = client.rows("/series?metric=latency")
    findings = [one["id"] for one in client.rows("/findings")]
    verdicts = [one["id"] for one in client.rows("/verdicts")]

    def of(template: str, known: list[Any]) -> Address:
        return lambda: template.format(dice.choice(known))

    yield Route("/runs, 100", lambda: "/runs")
    yield Route("/runs, 1,000", lambda: "/runs?limit=1000")
    yield Route("/runs, an older page", lambda: f"/runs?offset={dice.randrange(len(runs))}")
    yield Route("/runs/{run}", of("/runs/{}", runs))
    yield Route("/runs/{run}/measurements", of("/runs/{}/measurements", runs))
    yield Route("/runs/{run}/outcomes", of("/runs/{}/outcomes", runs))
    yield Route("/cases", lambda: "/cases")
    yield Route("/series", lambda: "/series")
    yield Route("/series of a metric", lambda: "/series?metric=latency")
    yield Route("/series/points", lambda: _points(dice.choice(series)))
    yield Route("/series/points, the newest 60", lambda: _points(dice.choice(series), newest=60))
    pages = _pages(client, _points(series[0], limit=A_PAGE))
    many = f"/series/points, a page of {A_PAGE}"
    yield Route(
        many, lambda: _points(dice.choice(series), limit=A_PAGE, offset=A_PAGE * dice.randrange(pages))
    )
    yield Route("/series/points, CSV", lambda: _points(dice.choice(series)), {"Accept": "text/csv"})
    first = client.ask(_points(series[0]))
    yield Route(
        "/series/points, known (304)", lambda: _points(series[0]), {"If-None-Match": first.headers["etag"]}
    )
    yield Route("/findings", lambda: "/findings")
    yield Route("/findings/{number}", of("/findings/{}", findings))
    yield Route("/verdicts", lambda: "/verdicts")
    yield Route("/verdicts/{run}", of("/verdicts/{}", verdicts))
    for name in ("/machines", "/schedules", "/openapi.json"):
        yield Route(name, of(name, [0]))


def _points(one: Mapping[str, Any], **paging: int) -> str:
    key = {name: one[name] for name in ("case", "metric", "hardware", "preset")}
    return f"/series/points?{urlencode({**key, **paging})}"


def _pages(client: Client, address: str) -> int:
    """How many pages a list has, by following the links from one to the next."""
    pages = 1
    while link := client.ask(address).headers.get("link"):
        address = link.removeprefix("<").partition(">")[0].removeprefix(PREFIX)
        pages += 1
    return pages


def _print(routes: list[Route]) -> None:
    print(f"{'':34}{'times':>6}{'KiB':>7}{'p50 ms':>9}{'p95':>8}{'largest':>9}")
    reached = 0
    for route in routes:
        times = sorted(one.milliseconds for one in route.answers)
        p50, p95 = (times[max(0, round(share * len(times)) - 1)] for share in (0.5, 0.95))
        kib = max(len(one.content) for one in route.answers) / 1024
        wrong = sorted({one.status for one in route.answers} - {200, 304})
        reached += p95 <= GOAL_MS and not wrong
        notes = [f"above {GOAL_MS:g} ms"] if p95 > GOAL_MS else []
        notes += [f"answers {status}" for status in wrong]
        print(
            f"{route.name:34}{len(times):6}{kib:7.0f}{p50:9.1f}{p95:8.1f}{times[-1]:9.1f}  {', '.join(notes)}"
        )
    print(f"goal: a p95 of at most {GOAL_MS:g} ms: {reached} of {len(routes)}")


if __name__ == "__main__":
    main()
