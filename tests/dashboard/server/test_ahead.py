"""What a page will ask is asked while the browser still loads the program that shows it."""

import asyncio
import logging
import threading
from collections.abc import Iterator
from typing import Any
from urllib.parse import urlencode

import pytest
import streamlit as st
from builders import MLP, RESNET
from starlette.applications import Starlette

from dashboard.server import ahead, front
from dashboard.trends import load
from dashboard.trends.page_data import asked

TRENDS = "dashboard.trends.page_data"
QUERY = {"metric": ["latency"], "case": [MLP, RESNET]}


@pytest.fixture(autouse=True)
def url(filled_url: str, monkeypatch: pytest.MonkeyPatch) -> Iterator[str]:
    monkeypatch.setenv("PYROMETER_DATABASE_URL", filled_url)
    st.cache_resource.clear()
    yield filled_url
    st.cache_resource.clear()


def waited() -> None:
    """Until nothing is being asked ahead."""
    for thread in threading.enumerate():
        if thread.name == "ahead":
            thread.join()


def got(path: str, query: str) -> int:
    """The status with which the dashboard's own routes answer a browser that opens an address."""
    scope = {"type": "http", "method": "GET", "path": path, "query_string": query.encode(), "headers": []}
    told: list[Any] = []

    async def receive() -> Any:
        return {"type": "http.request", "body": b"", "more_body": False}

    async def send(message: Any) -> None:
        told.append(message)

    asyncio.run(Starlette(routes=front.routes())(scope, receive, send))
    return int(told[0]["status"])


def test_who_opens_the_page_has_its_answers_asked_already(url: str, monkeypatch: pytest.MonkeyPatch) -> None:
    assert got("/trends", urlencode(QUERY, doseq=True)) == 200
    waited()

    def never(*_: Any, **__: Any) -> Any:
        raise AssertionError("asked again")

    monkeypatch.setattr(load.queries, "series", never)
    found = asked(url, QUERY)
    assert found is not None and [line.key.case for line in found.known.lines] == [MLP, RESNET]
    # What nobody asked for is not there.
    with pytest.raises(AssertionError, match="asked again"):
        asked(url, {"metric": ["latency"], "case": [MLP]})


def test_pages_that_name_nothing_ask_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    seen: list[str] = []
    monkeypatch.setattr(ahead, "ask", lambda module, query: seen.append(module))
    assert [got(path, "") for path in ("/", "/fleet", "/trends")] == [200] * 3
    assert seen == [TRENDS]


@pytest.mark.parametrize("where", ["mysql://somewhere/else", "sqlite:////proc/no/such/place.db"])
def test_a_database_that_is_gone_is_the_pages_to_tell(
    where: str, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setenv("PYROMETER_DATABASE_URL", where)
    with caplog.at_level(logging.INFO):
        for _ in range(5):
            ahead.ask(TRENDS, QUERY)
            waited()
    assert not caplog.records


def test_a_defect_is_logged_and_stays_here(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    def broken(*_: Any, **__: Any) -> Any:
        raise KeyError("a defect")

    monkeypatch.setattr(load.queries, "series", broken)
    for _ in range(5):
        ahead.ask(TRENDS, QUERY)
        waited()
    assert [record.message for record in caplog.records] == ["asking ahead failed"] * 5


def test_of_many_at_once_two_are_asked_for(monkeypatch: pytest.MonkeyPatch) -> None:
    begun, go_on = threading.Semaphore(0), threading.Event()
    many: list[int] = []

    def slow(*_: Any, **__: Any) -> Any:
        many.append(1)
        begun.release()
        go_on.wait()
        return []

    monkeypatch.setattr(load.queries, "series", slow)
    for case in (MLP, RESNET, MLP, RESNET):
        ahead.ask(TRENDS, {"case": [case]})
    assert begun.acquire(timeout=30) and begun.acquire(timeout=30)
    go_on.set()
    waited()
    assert len(many) == 2
