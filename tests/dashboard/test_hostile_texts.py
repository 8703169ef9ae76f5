"""A million characters of markup, and NUL, wherever a run has text, on pages in a real browser."""

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from dashboard.components import links
from db.runs.store import save_measurements, save_outcomes, save_run
from support.builders.run_records import MLP, a_machine, a_run, an_environment, an_outcome, measurements_for
from support.servers.browser import Visitor, fits
from support.sqlite_files import open_with_tables

pytestmark = [pytest.mark.browser, pytest.mark.slow]

#: Markup that would be seen to work, a terminal's escape, a mark of direction, NUL, and more of it.
HOSTILE = (
    '<img src=x onerror="alert(1)"><script>alert(2)</script>](javascript:alert(3))`$\\x\x1b]0;y\x07\u202e\0'
)
MILLION = (HOSTILE * 10_000)[:1_000_000]
RUN = "run-of-hostile-texts"


@pytest.fixture(scope="module")
def home(serve: Any, tmp_path_factory: pytest.TempPathFactory) -> str:
    """The address of a dashboard on two runs whose texts are hostile."""
    folder: Path = tmp_path_factory.mktemp("hostile")
    url = f"sqlite:///{folder}/pyrometer.db"
    environment = replace(an_environment(), name=HOSTILE, torch_version=HOSTILE)
    machine = a_machine(HOSTILE, HOSTILE)
    with open_with_tables(url) as database:
        for number in range(2):
            outcomes = [
                an_outcome(MLP, environment=environment),
                an_outcome(
                    MLP,
                    environment=environment,
                    replicate=1,
                    status="crashed",
                    reason=MILLION,
                    log_tail=MILLION,
                    phase="first_call",
                ),
            ]
            run = a_run(
                f"{RUN}-{number}",
                environments=[environment],
                machine=machine,
                suite=MILLION,
                notes=(MILLION, HOSTILE),
            )
            run = replace(run, facts={"odd": MILLION, HOSTILE: HOSTILE})
            save_run(database, run)
            save_outcomes(database, run.id, outcomes)
            save_measurements(database, run.id, measurements_for(outcomes))
    return serve(url).url


@pytest.mark.parametrize(
    "address",
    [
        "/",
        "/runs",
        links.run(f"{RUN}-0"),
        links.outcome(f"{RUN}-0", MLP, "", 1),
        "/runs?view=machines",
        "/runs?view=schedule",
        "/explore",
        links.HISTORY,
        "/explore?view=utilisation",
        "/explore?view=profile",
        "/compare",
        "/compare?view=hardware",
        links.run_pair({"a": [f"{RUN}-0"], "b": [f"{RUN}-1"]}),
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
