"""The Trends page on nights of a schedule: tracks, marks, a baseline, an opened point; and its address."""

import json
import re
from collections.abc import Iterator, Sequence
from dataclasses import replace
from datetime import timedelta
from html import unescape
from pathlib import Path
from typing import Any
from urllib.parse import parse_qs, urlsplit

import pytest
import streamlit as st
from streamlit.testing.v1 import AppTest

from analysis.detection.default_watched_metrics import HEADLINE
from dashboard.components import load, parts
from dashboard.exports.page_recorder import PageRecord
from db.connection.engine import Database
from db.findings import store as findings
from db.runs import queries, series_queries, store
from records.findings import NewFinding
from records.outcomes import Outcome
from support.builders.detection_nights import METRIC, PINNED, Nights, a_finding, a_regression, nightly
from support.builders.run_records import (
    MLP,
    RESNET,
    RESNET_COMPILED,
    a_machine,
    a_night,
    a_preset,
    a_run,
    an_environment,
    an_outcome,
    measurements_for,
)
from support.builders.stored_run import store_run
from support.pages import HISTORY, Open, html, text, typed
from support.sqlite_files import open_with_tables, sqlite_copy

NIGHTS = 24


@pytest.fixture(scope="module")
def url(tmp_path_factory: pytest.TempPathFactory) -> str:
    """Nights of a nightly and of a pinned release; from the third night on one case takes longer."""
    found = f"sqlite:///{tmp_path_factory.mktemp('nights')}/pyrometer.db"
    with open_with_tables(found) as database:
        fill(database)
    return found


def fill(database: Database) -> None:
    each, pinned = Nights(database), Nights(database, track="2.13.0", environment=lambda night: PINNED)
    for night in range(NIGHTS):
        slower = {MLP: 1.1} if night >= 2 else {}
        each.add(range(night, night + 1), slower, driver="590" if night >= 12 else "580")
        pinned.add(range(night, night + 1), driver="590" if night >= 12 else "580")
    a_regression(database)
    a_finding(database, RESNET, direction="better", night=5)


@pytest.fixture
def shown(open_page: Open, url: str) -> Any:
    """Opens the page on them."""
    return lambda **query: open_page(url, HISTORY, **{"metric": METRIC, "case": MLP, **query})


def spec(at: AppTest) -> dict[str, Any]:
    """The chart's spec as the browser gets it."""
    (chart,) = [*at.get("arrow_vega_lite_chart"), *at.get("vega_lite_chart")]
    return json.loads(chart.proto.spec)


def layers(at: AppTest) -> list[str]:
    """The named data that the chart's layers draw."""
    return [each["data"].get("name", "") for each in spec(at)["layer"]]


def addresses(at: AppTest, label: str) -> list[str]:
    """Where the links with some label lead."""
    return [unescape(each) for each in re.findall(rf'href="([^"]+)"[^>]*>{label}', html(at))]


def warned(at: AppTest) -> list[str]:
    return [str(each.value) for each in at.warning]


def test_two_environments_of_a_schedule_are_two_tracks_with_a_legend(shown: Any) -> None:
    at = shown()
    # Without a baseline in the schedule they are numbered by name.
    assert at.multiselect(key="choose-tracks").options == ["2.13.0", "nightly"]
    assert "1 2.13.0" in html(at) and "2 nightly" in html(at)
    encoding = next(each for each in spec(at)["layer"] if each["mark"]["type"] == "line")["encoding"]
    assert encoding["detail"]["field"] == encoding["strokeDash"]["field"] == "track"
    assert not at.warning


@pytest.fixture(scope="module")
def with_sessions(tmp_path_factory: pytest.TempPathFactory, url: str) -> str:
    """The same nights, with two sessions that confirm a finding and a run by hand between them."""
    found = sqlite_copy(url, tmp_path_factory.mktemp("sessions"))
    with open_with_tables(found) as database:
        for night in (4, 8):
            sides = [nightly(night - 1), nightly(night)]
            run = a_run(
                f"confirm-{night}", environments=sides, started_at=a_night(night) + timedelta(hours=5)
            )
            outcomes = [an_outcome(MLP, environment=each, metrics={METRIC: 11.0}) for each in sides]
            store.save_run(database, run)
            store.save_measurements(database, run.id, measurements_for(outcomes))
        run = a_run("uploaded", started_at=a_night(7), environments=[an_environment("2.12.0")])
        store.save_run(database, run)
        outcome = an_outcome(MLP, environment=run.environments[0], metrics={METRIC: 12.0})
        store.save_measurements(database, run.id, measurements_for([outcome]))
    return found


def runs_drawn(at: AppTest) -> set[str]:
    """The runs whose points the page lists, which are those that its chart draws."""
    return {parse_qs(urlsplit(each).query)["at"][0] for each in addresses(at, "Point<")}


def test_sessions_and_single_runs_are_no_lines_unless_they_are_chosen(
    open_page: Open, with_sessions: str
) -> None:
    at = open_page(with_sessions, HISTORY, case=MLP)
    tracks = at.multiselect(key="choose-tracks").options
    assert len(tracks) == 2 + 3, "the old side of each session, and all else by hand"
    assert {run.rpartition("-")[0] for run in runs_drawn(at)} == {
        "alone-nightly-bench-1",
        "alone-2.13.0-bench-1",
    }
    legend = html(at).partition('aria-label="Tracks"')[2].partition("</ul>")[0]
    assert legend.count("<li>") == 2
    assert "Not drawn: 3 tracks" in text(at)
    at = open_page(with_sessions, HISTORY, case=MLP, track=nightly(7).name)
    assert runs_drawn(at) == {"confirm-8"}
    # A version measured in a session alone is one all the same.
    assert "2.12.0" in html(open_page(with_sessions, HISTORY, case=MLP, axis="version"))


def test_a_track_can_be_chosen_and_the_address_holds_it(shown: Any) -> None:
    at = shown()
    at.multiselect(key="choose-tracks").set_value(["2.13.0"]).run()
    assert at.query_params["track"] in ("2.13.0", ["2.13.0"])
    again = shown(track="2.13.0")
    assert "dev2026" not in html(again) and "2.13.0+cpu" in html(again)
    assert "strokeDash" not in str([each["encoding"] for each in spec(again)["layer"]])
    assert not again.warning


def test_an_unknown_track_is_said_and_all_are_shown(shown: Any) -> None:
    at = shown(track="nigthly")
    assert "nightly" in warned(at)[0] and "dev2026" in html(at)


def test_along_versions_each_version_is_one_point_of_one_line(shown: Any) -> None:
    at = shown(axis="version")
    assert "median over all runs of a version" in text(at)
    assert "Tracks</ul>" not in html(at) and "detail" not in spec(at)["layer"][1]["encoding"]
    assert "What changed along the way" not in [each.value for each in at.header]


@pytest.mark.parametrize("chosen", [{}, {"metric": "latency"}])
def test_a_confirmed_finding_is_seen_by_default_and_on_a_metric_that_follows(
    open_page: Open, tmp_path: Path, chosen: dict[str, str]
) -> None:
    found = f"sqlite:///{tmp_path}/pyrometer.db"
    with open_with_tables(found) as database:
        runs = Nights(database).add(range(NIGHTS))
        for night, run in enumerate(runs):
            (floor,) = queries.measurements_of_run(database, run, cases=[MLP])
            value = 22.0 if night >= 2 else 20.0
            latency = replace(floor, metric="latency", point=value, smallest=value, largest=value)
            store.save_measurements(database, run, [latency])
        a_regression(database)
    at = open_page(found, HISTORY, case=MLP, **chosen)
    assert at.selectbox(key="choose-metric").value == chosen.get("metric", HEADLINE)
    listed = html(at).partition('aria-label="Change points"')[2].partition("</table>")[0]
    assert addresses(at, "Finding") == ["/regressions?finding=1"] and "× regression" in listed
    assert "moves" in layers(at) and "not confirmed" not in listed
    assert ("Latency (min-based)" in listed) == bool(chosen), "the metric it was confirmed on"


def test_a_view_opens_where_most_nights_are_on_cases_with_findings_and_most_points(
    open_page: Open, tmp_path: Path
) -> None:
    """A newer machine has two nights; the first case by name was measured on two nights only."""
    found, rare = f"sqlite:///{tmp_path}/pyrometer.db", "aardvark/infer/batch=1/eager"
    with open_with_tables(found) as database:
        Nights(database).add(range(NIGHTS))
        Nights(database, "weekly", machine=a_machine("bench-22"), cases=(rare,)).add(range(2))
        other = Nights(database, schedule="young", machine=a_machine("new", "8 x H200"))
        a_regression(database, RESNET)
        other.add(range(NIGHTS, NIGHTS + 2))
    at = open_page(found, HISTORY)
    assert at.multiselect(key="choose-hardware").value == [a_machine().hardware.fingerprint]
    assert at.multiselect(key="choose-cases").value == [RESNET, MLP, RESNET_COMPILED]
    assert not at.warning
    # A finding on another metric is not drawn, so that nothing leads there.
    place = (a_machine().hardware.fingerprint,), a_preset().fingerprint
    led = [load.leading_cases(found, metric, *place)[:1] for metric in ("throughput", "compile_warm")]
    assert led == [[RESNET], []]


def test_a_candidate_is_a_question(shown: Any) -> None:
    at = shown(case=RESNET)
    listed = html(at).partition('aria-label="Change points"')[2].partition("</table>")[0]
    assert "? -9.5 %" in listed and "candidate" in listed and "better" in listed


def test_what_else_changed_is_ticked_and_listed(shown: Any) -> None:
    at = shown()
    assert "ticks" in layers(at)
    listed = html(at).partition('aria-label="What changed along the way"')[2].partition("</table>")[0]
    assert listed.count("driver: 580 → 590") == 2, "once for each track"
    assert "triton: 3.0.0 → 3.1.0" in listed and "torch:" not in listed
    assert listed.count("<tr>") == 1 + (NIGHTS - 1) + 1


def test_relative_is_against_the_version_in_the_address(shown: Any) -> None:
    at = shown(scale="relative", baseline="2.13.0")
    assert parts.plain("Latency (min-based), change against 2.13.0 (%) · below 0 % is better") in [
        each.value for each in at.header
    ]
    page_text = text(at).replace("\\", "")
    assert (
        "0 % is 2.13.0, the median over the points of its runs: A 10.0 ms." in page_text
        and "a hint, not a verdict" in page_text
    )
    (upgrade,) = addresses(at, "A/B interleaved")
    query = parse_qs(urlsplit(upgrade).query)
    assert query["from"] == ["2.13.0"] and query["to"] == ["2.16.0.dev20260924"]
    only = text(shown(scale="relative", baseline="2.13.0", track="nightly")).replace("\\", "")
    assert "0 % is 2.13.0, the median over the points of its runs: A 10.0 ms." in only, (
        "its track need not be drawn"
    )
    # The track that takes a tenth more, and the pinned one.
    rows = re.findall(r"([+−±][\d.]+) %</td>", html(at))
    assert {round(float(each.replace("−", "-").replace("±", ""))) for each in rows} <= {-1, 0, 1, 9, 10, 11}
    assert not at.warning


def test_without_a_baseline_the_oldest_version_is_taken_and_pinned(shown: Any) -> None:
    at = shown(scale="relative")
    assert at.selectbox(key="choose-baseline").value == "2.16.0.dev20260901"
    (pinned,) = addresses(at, "Permanent link to this view")
    assert parse_qs(urlsplit(pinned).query)["baseline"] == ["2.16.0.dev20260901"]


def test_an_unknown_baseline_is_said_and_another_is_taken(shown: Any) -> None:
    at = shown(scale="relative", baseline="2.31.0")
    assert 'did you mean "2.13.0"?' in warned(at)[0].replace("\\", "")


def test_a_point_is_opened_by_its_run(shown: Any) -> None:
    run = "alone-nightly-bench-1-005"
    at = shown(at=run)
    assert "opened" in layers(at)
    assert parts.plain(f"Point of run {run}") in [each.value for each in at.header]
    page = html(at)
    # Two runs confirm nothing: their change has no colour.
    card = page.partition("Against the point before")[2].partition("</section>")[0]
    assert "py-good" not in card and "py-bad" not in card and "%" in card
    assert "<dt>replicates (n)</dt><dd>3</dd>" in page
    assert addresses(at, "The whole run")[0] == f"/runs?run={run}"
    assert f"&at={run}&detail=mlp_overhead" in addresses(at, "Samples and log")[0]
    assert "at=alone-nightly-bench-1-004" in addresses(at, "← The point before")[0]
    assert f"baseline={run}" in addresses(at, "Set all against it")[0]
    (command,) = typed(at)
    assert command.startswith("pyrometer upgrade 2.16.0.dev20260905 2.16.0.dev20260906 --case mlp_overhead/")
    differs = page.partition('aria-label="What changed"')[2].partition("</table>")[0]
    assert "triton" in differs and "3.5.0" in differs


def test_a_case_that_missed_the_night_of_a_change_lists_it_next_to_others_too(
    open_page: Open, tmp_path: Path
) -> None:
    """The driver is new on the second night, on which one of two cases has no number."""
    found = f"sqlite:///{tmp_path}/pyrometer.db"
    with open_with_tables(found) as database:
        for night, cases in enumerate(((MLP, RESNET), (RESNET,), (MLP, RESNET))):
            outcomes = [
                an_outcome(case, replicate=replicate, latency=2.0 + night, started_at=a_night(night))
                for case in cases
                for replicate in range(3)
            ]
            run = a_run(f"run-{night}", started_at=a_night(night), planned=len(outcomes))
            conditions = {"conditions": {"driver": "590" if night else "580"}}
            store_run(database, replace(run, facts=run.facts | conditions), outcomes)
    for cases in ([MLP], [MLP, RESNET]):
        at = open_page(found, HISTORY, metric="latency", case=cases, at="run-2")
        differs = html(at).partition('aria-label="What changed"')[2].partition("</table>")[0]
        assert "driver" in differs and "580" in differs and "590" in differs


def test_the_first_point_has_none_before_it(shown: Any) -> None:
    at = shown(at="alone-nightly-bench-1-000")
    assert "Against the point before" not in html(at) and not typed(at) and not at.warning


def test_a_run_without_a_point_is_said(shown: Any) -> None:
    at = shown(at="gone")
    assert warned(at) == [parts.plain("Run gone has no point in what is shown.")]


def test_every_point_in_the_table_leads_to_itself_and_to_its_samples(shown: Any) -> None:
    at = shown()
    opened = [parse_qs(urlsplit(each).query)["at"][0] for each in addresses(at, "Point<")]
    assert len(opened) == len(set(opened)) == 2 * NIGHTS
    assert len(addresses(at, "Samples<")) == 2 * NIGHTS


def test_a_point_opens_the_panel_of_its_case_in_its_run(
    open_page: Open, tmp_path: Path, records: list[PageRecord]
) -> None:
    """One run measured a case in two environments: each point opens its own."""
    found = f"sqlite:///{tmp_path}/pyrometer.db"
    sides = [replace(an_environment(v, name=v), fingerprint=f"{v}-environment") for v in ("2.14.0", "2.15.0")]
    outcomes = [an_outcome(MLP, environment=each, latency=2.0) for each in sides]
    with open_with_tables(found) as database:
        store_run(database, a_run("run-1", environments=sides, planned=2), outcomes)
    at = open_page(found, HISTORY, metric="latency", case=MLP)
    assert not processes(records[-1])
    (prefix,) = [each["value"] for each in spec(at)["params"] if each["name"] == "address"]
    ways = addresses(at, "Samples<")
    assert len(ways) == 2 and all(each.startswith(prefix) for each in ways)
    opened: set[str] = set()
    for way in ways:
        assert not warned(open_page(found, HISTORY, **parse_qs(urlsplit(way).query)))
        opened |= {each.environment for each in processes(records[-1])}
    assert opened == {each.fingerprint for each in sides}
    assert warned(open_page(found, HISTORY, case=MLP, at="run-1", detail="nothing"))


def processes(record: PageRecord) -> Sequence[Outcome]:
    """The processes that the panel of a page lists."""
    found = [piece.table for piece in record.pieces if piece.text == "Processes" and piece.table]
    return found[0].rows if found else []


@pytest.fixture
def two(tmp_path: Path) -> Iterator[tuple[str, list[str]]]:
    """Forty runs by hand on two kinds of hardware, one of which became slower; and the fingerprints."""
    found = f"sqlite:///{tmp_path}/pyrometer.db"
    hardware = ["Xeon 6430, 2 cores", "EPYC, <b>64</b> cores"]
    with open_with_tables(found) as database:
        for night in range(40):
            for place, label in enumerate(hardware):
                machine = a_machine(f"bench-{place}", label)
                latency = (1.0 + place) * (1.2 if place and night >= 20 else 1.0) * (1 + night % 3 / 500)
                run = a_run(f"run-{place}-{night}", started_at=a_night(night), machine=machine)
                outcomes = [an_outcome(MLP, latency=latency), an_outcome(RESNET, latency=latency)]
                store.save_run(database, run)
                store.save_measurements(database, run.id, measurements_for(outcomes))
        yield found, [k.hardware for k in series_queries.series_keys(database) if k.metric == "latency"][:2]


def test_cases_on_several_kinds_of_hardware_are_lines_of_their_own(
    open_page: Open, two: tuple[str, list[str]]
) -> None:
    url, hardware = two
    at = open_page(url, HISTORY, hardware=hardware, case=MLP)
    legend = html(at).partition('class="py-legend"')[2].partition("</ul>")[0]
    assert legend.count("<li>") == 2 and "Xeon 6430, 2 cores" in legend
    assert "EPYC, &lt;b&gt;64&lt;/b&gt; cores" in legend
    assert len(at.multiselect(key="choose-hardware").value) == 2
    # An unwatched line marks where it moved: one of the two, at its night.
    listed = html(at).partition('aria-label="Change points"')[2].partition("</table>")[0]
    assert listed.count("moved here, not confirmed") == 1 and "△ +20" in listed
    assert f"{a_night(20):%Y-%m-%d}" in listed and "bench-1" in listed
    assert not at.warning


def test_a_link_from_before_shows_one_line(open_page: Open, two: tuple[str, list[str]]) -> None:
    url, hardware = two
    with open_with_tables(url) as database:
        preset = series_queries.series_keys(database)[0].preset
    at = open_page(
        url, HISTORY, metric="latency", hardware=hardware[0][:12], preset=preset[:12], axis="date", case=MLP
    )
    legend = html(at).partition('class="py-legend"')[2].partition("</ul>")[0]
    assert legend.count("<li>") == 1 and not at.warning


def test_both_sides_of_a_session_by_hand_are_apart(open_page: Open, tmp_path: Path) -> None:
    found = f"sqlite:///{tmp_path}/pyrometer.db"
    sides = [an_environment("2.13.0+cpu", "stable"), an_environment("2.15.0+cpu", "candidate")]
    with open_with_tables(found) as database:
        run = a_run("session", environments=sides)
        outcomes = [an_outcome(MLP, environment=each, latency=2.0 + n) for n, each in enumerate(sides)]
        store.save_run(database, run)
        store.save_measurements(database, run.id, measurements_for(outcomes))
    at = open_page(found, HISTORY, at="session")
    assert at.multiselect(key="choose-tracks").options == ["stable", "candidate"]
    assert html(at).count("replicates (n)") == 2
    assert not typed(at) and not at.warning


def test_a_finding_of_a_hostile_schedule_stays_text(open_page: Open, tmp_path: Path) -> None:
    found = f"sqlite:///{tmp_path}/pyrometer.db"
    hostile = "<img src=x onerror=alert(1)> **b** [x](javascript:alert(1))"
    with open_with_tables(found) as database:
        Nights(database, track=hostile).add(range(4))
        other = Nights(database, track="2.13.0", machine=a_machine("bench-22"), environment=lambda _: PINNED)
        other.add(range(4))
        one = findings.save_findings(database, [hostile_finding(database, hostile)], a_night(4))
    assert one
    opened = {"metric": METRIC, "case": MLP, "at": "alone-2.13.0-bench-22-002"}
    at = open_page(found, HISTORY, **opened)
    assert "<img" not in html(at) and "2 &lt;img" in html(at)
    assert open_page(found, HISTORY, **opened, track=hostile).warning.values == []
    for each in [at, open_page(found, HISTORY, **opened, track=f"{hostile} {hostile}")]:
        shown = [*each.caption, *each.header, *each.warning]
        assert not [one for one in shown if re.search(r"(?<!\\)(<img|\*\*b|\[x\])", str(one.value))]


def hostile_finding(database: Database, track: str) -> NewFinding:
    (key,) = (k for k in series_queries.series_keys(database) if (k.case, k.metric) == (MLP, METRIC))
    runs = [run for run in queries.runs_by_age(database) if "2.13.0" not in run]
    points = {point.run: point for point in series_queries.series(database, [key])}
    return NewFinding(
        key=key,
        schedule="alone",
        track=track,
        label="",
        direction="worse",
        shape="step",
        at_run=runs[2],
        before_run=runs[1],
        old_environment=points[runs[1]].environment,
        new_environment=points[runs[2]].environment,
        change=0.1,
    )


def test_the_same_address_draws_the_same_chart(shown: Any) -> None:
    one, other = shown(), shown()
    assert spec(one) == spec(other)


@pytest.fixture
def few(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """The last five nights of two tracks are enough by default."""
    monkeypatch.setattr(load, "RECENT_POINTS", 10)
    st.cache_resource.clear()
    yield
    st.cache_resource.clear()


def drawn_points(at: AppTest) -> int:
    return html(at).count(">Samples</a>")


@pytest.mark.usefixtures("few")
def test_the_last_nights_are_drawn_and_a_link_leads_to_all_and_back(shown: Any) -> None:
    at = shown()
    assert drawn_points(at) == 10
    assert "Of each line the newest 10 points; `pyrometer export` has all" in text(at)
    (more,) = addresses(at, "Up to 1,000 points of each line →")
    query = parse_qs(urlsplit(more).query)
    assert query["points"] == ["all"]
    at = shown(**query)
    assert drawn_points(at) == 2 * NIGHTS
    assert "Of each line the newest" not in text(at)
    (fewer,) = addresses(at, "Only the newest points →")
    assert "points" not in parse_qs(urlsplit(fewer).query)


def test_all_cases_of_the_metric_are_small_pictures_that_lead_to_their_lines(shown: Any) -> None:
    at = shown()
    at.button_group(key="choose-shown").set_value("grid").run()
    assert at.query_params["shown"] == "grid" and not at.get("arrow_vega_lite_chart")
    assert "Last 60 nights</th>" in html(at) and "Hardware</th>" not in html(at)
    body = html(at)
    assert "py-sparkline" in body and "Last 60 nights" in body
    addresses = {unescape(each) for each in re.findall(r'<td><a href="([^"]+)"', body)}
    queries = [parse_qs(urlsplit(each).query) for each in addresses]
    assert [MLP] in [query["case"] for query in queries]
    assert not any("shown" in query for query in queries)


def test_a_range_of_days_is_drawn_and_stands_in_the_address(shown: Any) -> None:
    at = shown(points="30d")
    assert at.button_group(key="choose-points").value == "30d" and not at.warning
    (address,) = addresses(at, "Permanent link to this view")
    assert parse_qs(urlsplit(address).query)["points"] == ["30d"]
    at.button_group(key="choose-axis").set_value("version").run()
    assert "choose-points" not in [each.key for each in at.button_group]


@pytest.mark.usefixtures("few")
@pytest.mark.parametrize("choice", [{"scale": "relative"}, {"axis": "version"}])
def test_what_sums_nights_up_has_all_of_them(shown: Any, choice: dict[str, str]) -> None:
    at = shown(**choice)
    assert drawn_points(at) == 2 * NIGHTS
    assert not addresses(at, "Only the newest points →") and not addresses(at, "Up to 1,000 points")


@pytest.mark.usefixtures("few")
def test_an_older_night_that_is_opened_is_there(shown: Any, url: str) -> None:
    with open_with_tables(url) as database:
        runs = sorted(queries.recent_runs(database, limit=100), key=lambda run: run.started_at)
    newest, oldest = runs[-1].id, runs[0].id
    assert drawn_points(shown(at=newest)) == 10
    at = shown(at=oldest)
    assert drawn_points(at) == 2 * NIGHTS
    assert f"Point of run {oldest}" in text(at) and not at.warning
