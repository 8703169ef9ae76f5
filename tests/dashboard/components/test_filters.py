"""A selection goes into the URL and comes back the same; an unknown value is reported and replaced."""

from dataclasses import replace
from datetime import UTC, datetime
from urllib.parse import parse_qs, urlsplit

import pytest

from dashboard.components import links, query_params
from dashboard.regressions import load as regressions
from dashboard.runs import page as runs
from dashboard.runs.case_panel import declared_name
from dashboard.utilisation import view as utilisation
from records.fingerprints import AGAIN
from records.telemetry import TelemetryWindow
from support.builders.notifications import a_finding
from support.builders.run_records import MLP, a_night, a_run, an_environment, an_outcome


def a_window(environment: str, run: str) -> TelemetryWindow:
    return TelemetryWindow(
        run=run,
        started_at=a_night(0),
        case=MLP,
        environment=environment,
        environment_name="default",
        torch_version="2.13.0",
        hardware="GPU",
        hardware_fingerprint="hardware-GPU",
        machine="bench-1",
        replicate=0,
        device="host",
        name="",
        utilisation_source="host",
        rows=10,
        seconds=1.0,
        utilisation=None,
        power=None,
        temperature=None,
    )


def test_an_outcome_is_found_by_what_its_link_says() -> None:
    run = a_run()
    environment = an_environment("2.14.0", name="b")
    outcomes = [an_outcome(MLP, replicate=r, environment=environment) for r in (0, 1)]
    address = links.outcome(run.id, MLP, environment.fingerprint, 1)
    found, complaints = runs.chosen_outcome(parse_qs(urlsplit(address).query), run, outcomes)
    assert (found, complaints) == (outcomes[1], [])
    assert runs.chosen_outcome({}, run, outcomes) == (None, [])
    missing, (sentence,) = runs.chosen_outcome({"case": [MLP], "replicate": ["7"]}, run, outcomes)
    assert missing is None
    assert "replicate 7" in sentence
    _, (sentence,) = runs.chosen_outcome({"case": ["mlp"]}, run, outcomes)
    assert MLP in sentence


def test_both_sides_of_an_environment_against_itself_have_links_of_their_own() -> None:
    once = replace(an_environment(name="default"), fingerprint="0123456789abcdef")
    again = replace(once, fingerprint=once.fingerprint + AGAIN, name="default-again")
    run = a_run(environments=[once, again])
    for order in ((once, again), (again, once)):
        outcomes = [an_outcome(MLP, environment=each) for each in order]
        measured = [a_window(each.environment, run.id) for each in outcomes]
        for place, each in enumerate(order):
            for address in (
                links.outcome(run.id, MLP, each.fingerprint, 0),
                links.result(run.id, MLP, each.fingerprint),
            ):
                query = parse_qs(urlsplit(address).query)
                assert runs.chosen_outcome(query, run, outcomes) == (outcomes[place], [])
            query = parse_qs(urlsplit(links.utilisation(run.id, MLP, each.fingerprint, 0)).query)
            view, _, complaints = utilisation.utilisation(query, run.id, measured)
            assert (view.environment, complaints) == (each.fingerprint, [])
            first = parse_qs(urlsplit(links.windows(run.id, MLP, each.fingerprint)).query)
            assert utilisation.utilisation(first, run.id, measured)[0] == view
            # What the page itself writes into its address.
            assert utilisation.utilisation(view.query(), run.id, measured)[0] == view
    # No command knows the second name.
    assert [declared_name(each) for each in run.environments] == ["default", "default"]
    assert declared_name(an_environment(name="default-again")) == "default-again"


def test_a_schedule_that_is_called_all_is_one_of_them() -> None:
    for name, others in (("all", "nightly"), ("nightly", "all")):
        view, complaints = regressions.chosen(
            {"schedule": [query_params.encode_name(name)]}, ["all", "nightly"]
        )
        assert (view.filters(datetime.now(UTC))["schedule"], complaints) == (name, [])
        assert [view.holds(a_finding(schedule=each)) for each in (name, others)] == [True, False]
    view, _ = regressions.chosen({"schedule": ["all"]}, ["all", "nightly"])
    assert view.filters(datetime.now(UTC))["schedule"] is None
    assert all(view.holds(a_finding(schedule=each)) for each in ("all", "nightly"))


@pytest.mark.parametrize(
    ("wanted", "page"), [(None, 1), ("2", 2), ("9", 3), ("0", 1), ("-1", 1), ("two", 1), ("²", 1)]
)
def test_a_page_is_always_one_that_exists(wanted: str | None, page: int) -> None:
    query = {} if wanted is None else {"page": [wanted]}
    complaints: list[str] = []
    assert runs.list_page(query, 101, 50, complaints) == page
    # What is shown is what was asked for, or it is said.
    assert bool(complaints) == (query.get("page", [str(page)])[-1] != str(page))
