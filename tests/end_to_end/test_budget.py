"""A budget too small for everything: replicates are left out before cases are, and each says so."""

import re
from collections import Counter

import pytest

from db.connection.engine import open_database
from db.runs import queries
from support.command_line import typed
from support.site import ADD, LINEAR, Site

pytestmark = pytest.mark.torch


def test_a_budget_too_small_leaves_out_later_replicates_and_says_so(site: Site) -> None:
    done = site.run("quick", "--replicates", "50", "--budget", "8", "--json")
    assert done.code == 0, done
    outcomes = [event for event in done.events if event["event"] == "outcome"]
    counts = Counter(outcome["status"] for outcome in outcomes)
    assert counts.keys() == {"ok", "skipped"} and sum(counts.values()) == 100
    measured = [(o["replicate"], o["case"]) for o in outcomes if o["status"] == "ok"]
    # A loaded machine may get no further than the first case within the budget.
    assert measured and measured[:2] == [(0, ADD), (0, LINEAR)][: len(measured)]
    assert measured == sorted(measured)
    for outcome in outcomes:
        if outcome["status"] == "skipped":
            assert re.fullmatch(
                r"budget of 8 s: \d+ s are spent, this would take about \d+ s", outcome["reason"]
            )
    assert done.events[-1]["state"] == "complete"
    with open_database(site.url, create=False) as database:
        summary = queries.run_summary(database, done.run)
        assert summary is not None and (summary.state, summary.counts) == ("complete", counts)
        assert {m.n for m in queries.measurements_of_run(database, done.run) if m.case == ADD} == {
            sum(case == ADD for _, case in measured)
        }
    assert "there is nothing to resume" in typed(site, "run", "--resume", done.run).one_sentence()
