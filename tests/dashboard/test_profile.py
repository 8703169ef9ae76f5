"""The operators of traces, without a detour through the list of runs."""

from dataclasses import replace
from datetime import timedelta
from pathlib import Path

import pytest

from records.kinds import RunKind
from support.builders.run_records import FIRST_NIGHT, MLP, RESNET, a_run, an_outcome
from support.builders.technique_runs import save
from support.pages import PROFILE, Open, html, text


@pytest.fixture
def traced(tmp_path: Path) -> str:
    """A database with two traces of one case, and an older one of another."""
    url = f"sqlite:///{tmp_path}/p.db"
    totals = {"steps": 5.0, "self_cpu_us": 100.0, "self_device_us": 0.0, "outside_us": 8.0}
    for night, (run, case, name) in enumerate(
        (("first", MLP, "aten::addmm"), ("second", RESNET, "aten::conv"), ("third", RESNET, "fused"))
    ):
        row = {"name": name, "kind": "operator", "calls": 3.0, "self_cpu_us": 60.0, "total_cpu_us": 60.0}
        facts = {"operators": [row], "traced": totals, "device": "cpu"}
        made = a_run(run, suite="profile", started_at=FIRST_NIGHT + timedelta(days=night))
        save(url, replace(made, kind=RunKind.TRACE), [an_outcome(case, metrics={}, blocks=(), facts=facts)])
    return url


def test_it_opens_on_the_newest_trace_and_offers_all(open_page: Open, traced: str) -> None:
    at = open_page(traced, PROFILE)
    box = at.selectbox(key="choose-table")
    assert box.value == f"third/{RESNET}" and len(box.options) == 3
    assert "Operators" in [each.value for each in at.header]
    assert "fused" in at.dataframe[0].value.to_string()
    # Another trace of the workload can be subtracted, and stands in the address.
    at.selectbox(key="choose-against").set_value(f"second/{RESNET}").run()
    assert at.query_params["against"] == f"second/{RESNET}" and at.header[1].value == "Difference"
    at.selectbox(key="choose-table").set_value(f"first/{MLP}").run()
    assert dict(at.query_params) == {"view": "profile", "run": "first", "case": MLP}


def test_an_address_names_a_trace_and_an_unknown_one_is_said(open_page: Open, traced: str) -> None:
    at = open_page(traced, PROFILE, run="first", case=MLP)
    assert at.selectbox(key="choose-table").value == f"first/{MLP}" and not at.warning
    assert "No other table of this workload" in text(at)
    at = open_page(traced, PROFILE, run="fourth")
    assert (
        at.warning[0].value.startswith("There is no trace") and "fused" in at.dataframe[0].value.to_string()
    )


def test_it_opens_on_the_workload_that_was_looked_at(open_page: Open, traced: str) -> None:
    at = open_page(traced, PROFILE, run="first", case=MLP)
    at.query_params.clear()
    at.query_params["view"] = "profile"
    assert at.run().selectbox(key="choose-table").value == f"first/{MLP}"


def test_without_a_trace_the_page_says_what_makes_one(
    open_page: Open, filled_url: str, empty_url: str
) -> None:
    assert "pyrometer profile resnet50" in html(open_page(filled_url, PROFILE))
    assert "Nothing measured yet" in html(open_page(empty_url, PROFILE))
