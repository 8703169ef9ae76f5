"""A database as two weeks of nightly runs leave it, and an empty one."""

import os
import random
import signal
import subprocess
import sys
import urllib.error
import urllib.request
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from datetime import timedelta
from email.message import Message
from functools import cache
from hashlib import sha256
from pathlib import Path
from typing import Any

import pytest
import streamlit as st
from playwright.sync_api import Browser
from streamlit.components.v2 import manifest_scanner

from dashboard.exports import page_recorder
from dashboard.exports.page_recorder import PageRecord
from dashboard.server.database import database_at
from dashboard.server.settings import METRICS_CASES
from db.connection.engine import Database
from records.environments import Environment
from records.machines import Machine
from records.outcomes import Outcome
from records.runs import RunPreset
from support.builders import full_database
from support.builders.run_records import (
    BERT,
    MLP,
    RESNET,
    RESNET_COMPILED,
    a_machine,
    a_night,
    a_preset,
    a_run,
    an_environment,
    an_outcome,
)
from support.builders.schedule_nights import Mornings
from support.builders.stored_run import store_run
from support.builders.telemetry import a_host, an_h200, with_telemetry
from support.made_once import made_once
from support.pages import Open, opener
from support.servers.browser import KnownBrowser, Visitor
from support.sqlite_files import open_with_tables, sqlite_copy, sqlite_with_tables
from support.waiting import PATIENCE_SECONDS, until

#: What each case takes on the first night, in milliseconds.
LATENCY_MS = {MLP: 2.0, RESNET: 48.0, RESNET_COMPILED: 31.0, BERT: 210.0}
VERSIONS = [*["2.13.0+cpu"] * 5, *["2.14.0.dev20260906+cpu", "2.14.0.dev20260907+cpu"], *["2.14.0+cpu"] * 5]
NIGHTS = len(VERSIONS)
LAST = f"run-{NIGHTS - 1}"
LOG = "Traceback (most recent call last):\n  ...\nRuntimeError: <b>could not</b> create a primitive\n"


def fingerprint(text: str) -> str:
    """As long and as arbitrary as a real one."""
    return sha256(text.encode()).hexdigest()


def machine() -> Machine:
    found = a_machine()
    hardware = replace(found.hardware, fingerprint=fingerprint(found.hardware.fingerprint))
    return replace(found, fingerprint=fingerprint(found.fingerprint), hardware=hardware)


def preset() -> RunPreset:
    return replace(a_preset(), fingerprint=fingerprint("profile"))


def environment(version: str) -> Environment:
    found = an_environment(version, name="my nightly")
    return replace(found, fingerprint=fingerprint(found.fingerprint))


def one_night(night: int) -> list[Outcome]:
    """Three replicates of each case; from version 2.14 on the compiled case takes a tenth more, and bert
    crashes on the last night."""
    noise = random.Random(night)
    version = VERSIONS[night]
    outcomes: list[Outcome] = []
    for case, base in LATENCY_MS.items():
        slower = 1.1 if case == RESNET_COMPILED and version >= "2.14" else 1.0
        for replicate in range(3):
            latency = base * slower * (1 + noise.gauss(0, 0.008))
            crashed = case == BERT and night == NIGHTS - 1 and replicate > 0
            nanoseconds = latency * 1e6
            blocks = tuple(
                tuple(round(nanoseconds * (1 + abs(noise.gauss(0, 0.01)))) for _ in range(25))
                for _ in range(4)
            )
            outcomes.append(
                an_outcome(
                    case,
                    environment=environment(version),
                    replicate=replicate,
                    status="crashed" if crashed else "ok",
                    reason="killed by signal 4 (SIGILL): <illegal> instruction" if crashed else "",
                    phase="first_call" if crashed else "",
                    latency=latency,
                    log_tail=LOG if crashed else "",
                    blocks=() if crashed else blocks,
                    started_at=a_night(night) + timedelta(seconds=40 * len(outcomes)),
                )
            )
    return outcomes


def observed(outcome: Outcome) -> bool:
    """Whether it has a telemetry window, as the first replicate of a case has."""
    return outcome.case == RESNET and outcome.replicate == 0


def fill(url: str) -> None:
    """Twelve nights of four cases, three replicates each; the last was interrupted, one case observed."""
    with open_with_tables(url) as database:
        for night, version in enumerate(VERSIONS):
            last = night == NIGHTS - 1
            run = a_run(
                f"run-{night}",
                environments=[environment(version)],
                started_at=a_night(night),
                machine=machine(),
                preset=preset(),
                planned=15 if last else 12,
                state="interrupted" if last else "complete",
                notes=("No GPU: CUDA memory was not measured.",) if last else (),
            )
            outcomes = one_night(night)
            if last:
                outcomes = [
                    with_telemetry(each, an_h200(), a_host()) if observed(each) else each for each in outcomes
                ]
            store_run(database, run, outcomes)


@pytest.fixture(scope="session", autouse=True)
def installed_components() -> Iterator[None]:
    """Streamlit looks for components in all installed packages for each AppTest: half of a test's time."""
    with pytest.MonkeyPatch.context() as patch:
        once = cache(manifest_scanner.scan_component_manifests)
        patch.setattr(manifest_scanner, "scan_component_manifests", once)
        yield


def url_in(folder: Path) -> str:
    """The URL of the database in a folder."""
    return f"sqlite:///{folder}/pyrometer.db"


@pytest.fixture(scope="session")
def filled_url(tmp_path_factory: pytest.TempPathFactory) -> str:
    """The URL of a filled database that tests only read."""
    return url_in(made_once(tmp_path_factory, "filled", lambda folder: fill(url_in(folder))))


@pytest.fixture(scope="session")
def past_url(filled_url: str, tmp_path_factory: pytest.TempPathFactory) -> str:
    """The URL of a database with something for every page, all of it of fixed days; tests only read it."""

    def make(folder: Path) -> None:
        full_database.add_past(sqlite_copy(filled_url, folder), folder)

    return url_in(made_once(tmp_path_factory, "past", make))


@pytest.fixture(scope="session")
def full_url(filled_url: str, tmp_path_factory: pytest.TempPathFactory) -> str:
    """The URL of a database with something for every page, that tests only read."""

    def make(folder: Path) -> None:
        full_database.add(sqlite_copy(filled_url, folder), folder)

    return url_in(made_once(tmp_path_factory, "full", make))


@pytest.fixture
def full_copy(full_url: str, tmp_path: Path) -> str:
    """The URL of a copy of that database, that a test may change."""
    return sqlite_copy(full_url, tmp_path)


@pytest.fixture
def empty_url(tmp_path: Path) -> str:
    """The URL of a database without a row."""
    return sqlite_with_tables(tmp_path / "pyrometer.db")


@pytest.fixture
def url(tmp_path: Path) -> str:
    """The URL of a database that a test fills itself."""
    return sqlite_with_tables(tmp_path / "database/pyrometer.db")


@pytest.fixture
def database(url: str) -> Iterator[Database]:
    """That database."""
    with open_with_tables(url) as opened:
        yield opened


@pytest.fixture
def mornings(database: Database) -> Mornings:
    """Nights and what a scheduler did in them, in that database."""
    return Mornings(database)


@pytest.fixture
def open_page(monkeypatch: pytest.MonkeyPatch) -> Open:
    """Open a page of the dashboard on a database, with the query of its URL."""
    return opener(monkeypatch)


@pytest.fixture
def records(monkeypatch: pytest.MonkeyPatch) -> list[PageRecord]:
    """What the pages showed that are opened from now on, the last one last."""
    kept: list[PageRecord] = []
    real = page_recorder.record_page

    @contextmanager
    def recorded() -> Iterator[PageRecord]:
        with real() as record:
            kept.append(record)
            yield record

    monkeypatch.setattr(page_recorder, "record_page", recorded)
    return kept


@pytest.fixture(autouse=True)
def forget() -> Iterator[None]:
    """Answers kept for one database must not reach the next test."""
    yield
    st.cache_data.clear()
    st.cache_resource.clear()
    database_at.cache_clear()


class Served:
    """A dashboard in a process of its own; `url` once it is ready, `log` what it wrote."""

    def __init__(
        self,
        database_url: str,
        folder: Path,
        port: int = 0,
        host: str = "127.0.0.1",
        metrics_cases: int = 0,
    ) -> None:
        self._log = folder / "server.log"
        with self._log.open("w") as log:
            self.process = subprocess.Popen(
                [sys.executable, "-c", f"from dashboard.server.server import serve; serve({host!r}, {port})"],
                # Not the checkout: nothing may depend on where the server is started.
                cwd=folder,
                env={
                    **os.environ,
                    "PYROMETER_DATABASE_URL": database_url,
                    METRICS_CASES: str(metrics_cases),
                },
                stdout=log,
                stderr=subprocess.STDOUT,
            )

    @property
    def log(self) -> str:
        return self._log.read_text()

    @property
    def url(self) -> str:
        def ready() -> bool:
            said = "Dashboard: " in self.log
            assert said or self.process.poll() is None, self.log
            return said

        until(ready, "the dashboard is ready")
        return self.log.partition("Dashboard: ")[2].split()[0]

    def get(self, path: str) -> tuple[int, Message, bytes]:
        """Status, headers and body."""
        try:
            with urllib.request.urlopen(self.url + path, timeout=PATIENCE_SECONDS) as answer:
                return answer.status, answer.headers, answer.read()
        except urllib.error.HTTPError as error:
            with error:
                return error.code, error.headers, error.read()

    def stop(self, by: signal.Signals = signal.SIGTERM) -> int:
        self.process.send_signal(by)
        return self.process.wait(PATIENCE_SECONDS)


Serve = Callable[..., Served]


@pytest.fixture(scope="session")
def serve(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Serve]:
    """Start a dashboard on a database; all are stopped at the end."""
    started: list[Served] = []

    def start(database_url: str, **how: Any) -> Served:
        started.append(Served(database_url, tmp_path_factory.mktemp("served"), **how))
        return started[-1]

    yield start
    for each in started:
        if each.process.poll() is None:
            each.process.kill()
            each.process.wait()


@pytest.fixture(scope="session")
def served(serve: Serve, filled_url: str) -> Served:
    """A dashboard on the filled database."""
    return serve(filled_url)


@pytest.fixture(scope="session")
def full_home(serve: Serve, full_url: str) -> str:
    """The address of a dashboard with something for every page; tests only look at it."""
    return serve(full_url).url


@pytest.fixture(scope="session")
def past_home(serve: Serve, past_url: str) -> str:
    """The address of a dashboard with something for every page, all of it of fixed days; tests only look."""
    return serve(past_url).url


@pytest.fixture
def home(full_home: str) -> str:
    """The address that a visitor comes to."""
    return full_home


@pytest.fixture(scope="module")
def known(chromium: Browser) -> KnownBrowser:
    """The browser of a module's visitors: only the first one loads all of Streamlit's program."""
    return KnownBrowser(chromium)


@pytest.fixture
def visitor(chromium: Browser, home: str, known: KnownBrowser) -> Iterator[Visitor]:
    """A visitor who opens pages; at the end nothing may have gone wrong in the browser."""
    reader = Visitor(chromium, home, known)
    yield reader
    assert reader.leave() == []


@pytest.fixture
def past_visitor(chromium: Browser, past_home: str, known: KnownBrowser) -> Iterator[Visitor]:
    """A visitor of fixed days; at the end nothing may have gone wrong in the browser."""
    reader = Visitor(chromium, past_home, known)
    yield reader
    assert reader.leave() == []
