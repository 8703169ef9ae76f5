"""A million characters of markup, and NUL, wherever a run of one's own has text, on pages in a browser."""

from collections.abc import Iterator
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest

from dashboard.components import links
from records.outcomes import Outcome
from runner.journal import Journal
from support.builders.journals import ENVIRONMENTS, a_header, a_plan, an_outcome
from support.builders.run_records import BERT
from support.servers.browser import Visitor, fits
from support.sqlite_files import open_with_tables
from workflows.ingest import ingest

pytestmark = [pytest.mark.browser, pytest.mark.slow]

#: Markup that would be seen to work, a terminal's escape, a mark of direction, NUL, and more of it.
HOSTILE = (
    '<img src=x onerror="alert(1)"><script>alert(2)</script>](javascript:alert(3))`$\\x\x1b]0;y\x07\u202e\0'
)
MILLION = (HOSTILE * 10_000)[:1_000_000]
#: A name is stored without NUL, and compared with what is stored.
NAME = HOSTILE.replace("\0", "")
RUNS = ("20260901-020000-0001", "20260902-020000-0002")


def outcomes() -> Iterator[Outcome]:
    """Those of a plan; what crashed has texts of a million characters."""
    for planned in a_plan():
        outcome = an_outcome(planned, datetime.now(UTC))
        if planned.case == BERT:
            facts = {"odd": MILLION, HOSTILE: HOSTILE, "traceback": MILLION}
            outcome = replace(outcome, reason=MILLION, log_tail=MILLION, phase="first_call", facts=facts)
        yield outcome


@pytest.fixture(scope="module")
def home(serve: Any, tmp_path_factory: pytest.TempPathFactory) -> str:
    """The address of a dashboard on two runs whose texts are hostile."""
    folder: Path = tmp_path_factory.mktemp("hostile")
    url = f"sqlite:///{folder}/pyrometer.db"
    environments = tuple(
        {"fingerprint": each.fingerprint, "name": NAME, "python": "python3"}
        | {"facts": {"torch": NAME, "python": each.python_version}}
        for each in ENVIRONMENTS
    )
    plan = a_plan()
    machine = {**a_header("", plan).machine, "name": NAME, "hardware_label": NAME}
    machine["conditions"] = {"odd": MILLION, HOSTILE: HOSTILE}
    with open_with_tables(url) as database:
        for run in RUNS:
            texts = {"suite": MILLION.replace("\0", ""), "command": MILLION, "notes": (MILLION, HOSTILE)}
            header = a_header(run, plan, machine=machine, environments=environments, **texts)
            with Journal(folder / "runs" / run) as journal:
                journal.header(header.to_body())
                for each in outcomes():
                    journal.outcome(each)
                journal.ended({"at": datetime.now(UTC).isoformat(), "state": "complete"})
            assert ingest(journal.path, database).set_aside == ()
    return serve(url).url


@pytest.mark.parametrize(
    "address",
    [
        "/",
        "/runs",
        links.run(RUNS[0]),
        links.outcome(RUNS[0], BERT, ENVIRONMENTS[0].fingerprint, 1),
        "/runs?view=machines",
        "/runs?view=schedule",
        "/explore",
        links.HISTORY,
        "/explore?view=utilisation",
        "/explore?view=profile",
        "/compare",
        "/compare?view=hardware",
        links.view(links.RUN_PAIR, {"a": [RUNS[0]], "b": [RUNS[1]]}),
        "/regressions?state=all",
    ],
)
def test_hostile_text_is_text_and_a_page_stays_a_page(visitor: Visitor, address: str) -> None:
    page = visitor.open(address)
    assert page.locator("[data-testid=stException]").count() == 0
    assert page.locator("img[onerror], [data-testid=stMain] script[src]").count() == 0
    assert page.locator("a[href^='javascript:']").count() == 0
    assert fits(page)
    shown: str = page.locator("[data-testid=stMain]").inner_text()
    assert not {"\0", "\x1b", "\u202e"} & set(shown)
    # What is seen has an end: a page of megabytes is none.
    assert len(shown) < 300_000, f"{len(shown):,} characters"
