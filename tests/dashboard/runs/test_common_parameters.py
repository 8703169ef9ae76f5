"""A run's tables: what all cases have in common is said once."""

import re

from support.builders.run_records import MLP, RESNET, RESNET_COMPILED, a_run, an_outcome
from support.builders.technique_runs import save
from support.pages import RUNS, Open, html


def test_common_parameters_stand_above_the_tables_of_a_run(open_page: Open, url: str) -> None:
    save(url, a_run("one"), [an_outcome(case) for case in (MLP, RESNET, RESNET_COMPILED)])
    shown = html(open_page(url, RUNS, run="one"))
    # Two for the measurements, by case and by metric, and one for the outcomes.
    assert shown.count("All cases: batch=8.") == 3
    outcomes = shown[shown.index('aria-label="Outcomes"') :]
    rows = [re.sub(r"<[^>]+>", " ", row) for row in re.findall(r"<tr.*?</tr>", outcomes, re.DOTALL)[1:]]
    assert len(rows) == 3 and not any("batch=8" in row for row in rows)
    assert sum("image=224" in row for row in rows) == 2
