"""The first page after the first run: speed-ups, what limited them, and the next commands."""

import altair as alt

from dashboard.components import charts
from dashboard.today import manual_runs
from db.connection.engine import Database
from db.runs import queries
from records.outcomes import Outcome
from support.builders.run_records import (
    MLP,
    RESNET,
    RESNET_COMPILED,
    a_run,
    an_environment,
    an_outcome,
)
from support.builders.stored_run import store_run
from support.pages import TODAY, Open, html, typed


def fill(database: Database) -> None:
    """One run: eager, the same compiled in half of the time, and a crash."""
    outcomes = [
        *(
            an_outcome(
                case,
                replicate=number,
                metrics={"latency": value, "latency_floor": value + number / 10},
                facts={"items": 8},
            )
            for case, value in ((RESNET, 40.0), (RESNET_COMPILED, 20.0))
            for number in range(3)
        ),
        an_outcome(MLP, status="crashed", reason="out of luck"),
    ]
    store_run(database, a_run("first", environments=[an_environment("2.13.0+cpu")], planned=7), outcomes)


def test_the_first_run_shows_speed_ups_limits_and_three_commands(
    open_page: Open, url: str, database: Database
) -> None:
    fill(database)
    page = open_page(url, TODAY)
    titles = [each.value for each in page.header]
    assert titles[:3] == ["What this machine says", "What limited it", "Next steps"]
    assert "Latest latency (min-based)" not in titles and "nothing before" not in html(page)
    assert "1 of 7 processes crashed" in html(page)
    assert typed(page) == [
        "pyrometer upgrade 2.13.0 nightly --suite smoke",
        "pyrometer serve",
        "pyrometer import PATH",
    ]
    (bar,) = manual_runs.bars(queries.outcomes_of_run(database, "first"))
    assert 1.9 < bar["ratio"] < 2.1 and bar["label"] == "resnet50 infer · compile=default"


def test_a_speed_up_that_others_disturbed_has_a_star() -> None:
    def outcomes(share: float) -> list[Outcome]:
        facts = {"items": 8, "device": "cpu", "cpu_share": share}
        return [
            an_outcome(case, replicate=number, metrics={"latency_floor": value}, facts=facts)
            for case, value in ((RESNET, 40.0), (RESNET_COMPILED, 20.0))
            for number in range(3)
        ]

    (quiet,), (disturbed,) = manual_runs.bars(outcomes(0.99)), manual_runs.bars(outcomes(0.6))
    assert (quiet["text"], disturbed["text"]) == ("2.00×", "2.00×*")


def test_what_limited_a_run_counts_the_processes_that_were_needed() -> None:
    outcomes = [
        an_outcome(RESNET, status="contended", reason="others ran"),
        an_outcome(MLP, status="skipped", reason="budget of 60 s"),
        an_outcome(MLP, replicate=1, status="skipped", reason="not needed: decided before"),
    ]
    canary = an_environment("", name="canary")
    outcomes.append(an_outcome("canary_compute/infer/-/eager", environment=canary))
    run = a_run(environments=[an_environment(), canary], notes=("no clock",))
    contended, advice, skipped, note = manual_runs.limits(run, outcomes)
    assert (contended, skipped, note) == (
        "1 of 2 processes contended",
        "1 of 2 processes skipped",
        "no clock",
    )
    assert "measure again" in advice


def test_the_chart_is_a_valid_specification() -> None:
    made = charts.speed_ups(3, dark=False)
    alt.Chart.from_dict({name: value for name, value in made.items() if name != "usermeta"})
    assert made["height"] == 3 * 28 + 58


def test_a_bar_begins_at_1_so_that_what_is_slower_points_the_other_way() -> None:
    made = charts.speed_ups(2)
    (bar,) = [each["encoding"] for each in made["layer"] if each["mark"]["type"] == "bar"]
    assert bar["x"]["field"] == "ratio" and bar["x2"]["datum"] == 1
    # A few per cent do not fill the axis.
    assert (bar["x"]["scale"]["zero"], bar["x"]["scale"]["domain"]) == (False, {"unionWith": [0.5, 1.5]})
