"""A run's tables in a browser: what all cases have in common is said once."""

from pathlib import Path

from playwright.sync_api import Browser, expect

from support.builders.run_records import MLP, RESNET, RESNET_COMPILED, a_run, an_outcome
from support.builders.technique_runs import save
from support.pages import RUNS
from support.servers.browser import Visitor, fits


def test_common_parameters_stand_above_the_tables_of_a_run(chromium: Browser, serve, tmp_path: Path) -> None:
    url = f"sqlite:///{tmp_path}/p.db"
    save(url, a_run("one"), [an_outcome(case) for case in (MLP, RESNET, RESNET_COMPILED)])
    visitor = Visitor(chromium, serve(url).url)
    page = visitor.open(f"{RUNS}?run=one", "phone")
    # One for the measurements, one for the outcomes.
    expect(page.get_by_text("All cases: batch=8.", exact=True)).to_have_count(2)
    rows = page.get_by_role("region", name="Outcomes").locator(".py-case")
    expect(rows).to_have_count(3)
    assert [text.strip().endswith("eager") for text in rows.all_inner_texts()] == [True, False, False]
    assert sum("image=224" in text for text in rows.all_inner_texts()) == 2 and fits(page)
    assert visitor.leave() == []
