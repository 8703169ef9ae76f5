"""The Trends page where two environments have much in common: a release, a version, a run."""

from pathlib import Path
from urllib.parse import parse_qs, urlsplit

import pytest

from dashboard.components.wording import metric
from dashboard.trends import frames, lines, words
from db.runs import store
from records.series import SeriesPoint
from support.builders.run_records import MLP, a_night, a_run, an_environment, an_outcome, measurements_for
from support.builders.technique_runs import environment
from support.builders.telemetry import a_host, with_telemetry
from support.builders.trends import a_line, a_point, tracks_of_place
from support.pages import HISTORY, UTILISATION, Open, html, text
from support.sqlite_files import open_with_tables


@pytest.fixture
def builds(tmp_path: Path) -> str:
    """Two builds of one release, 10 and 6 ms, and 8 ms of the next release."""
    found = f"sqlite:///{tmp_path}/pyrometer.db"
    measured = (("2.13.0+cu126", 10.0), ("2.13.0+cu130", 6.0), ("2.14.0+cu130", 8.0))
    with open_with_tables(found) as database:
        for night, (version, latency) in enumerate(measured):
            environment = an_environment(version)
            run = a_run(f"run-{night}", environments=[environment], started_at=a_night(night))
            outcomes = [
                an_outcome(MLP, environment=environment, replicate=replicate, latency=latency)
                for replicate in range(3)
            ]
            store.save_run(database, run)
            store.save_measurements(database, run.id, measurements_for(outcomes))
    return found


def in_turns(shown: str) -> dict[str, list[str]]:
    """What the link to the upgrade asks for."""
    address = shown.partition('href="/compare?')[2].partition('"')[0]
    return parse_qs(urlsplit(f"/compare?{address}").query.replace("&amp;", "&"))


def test_two_builds_of_a_release_are_two_baselines_and_never_one(open_page: Open, builds: str) -> None:
    query = {"metric": "latency", "scale": "relative", "case": MLP}
    at = open_page(builds, HISTORY, **query, baseline="2.13.0+cu130")
    choice = at.selectbox(key="choose-baseline")
    assert (choice.value, choice.options) == ("2.13.0+cu130", ["2.14.0", "2.13.0+cu130", "2.13.0+cu126"])
    assert "+33 %" in html(at) and "A 6.00 ms." in text(at)
    ends = in_turns(html(at))
    assert (ends["from"], ends["to"]) == (["2.13.0+cu130"], ["2.14.0"])
    assert open_page(builds, HISTORY, **query).selectbox(key="choose-baseline").value == "2.13.0+cu126"


def test_a_link_to_a_release_of_two_builds_says_which_of_them_it_is(open_page: Open, builds: str) -> None:
    at = open_page(builds, HISTORY, metric="latency", scale="relative", case=MLP, baseline="2.13.0")
    assert "A 6.00 ms of 2.13.0+cu130." in text(at) and not at.warning
    assert "8.00 ms." not in text(at), "the median of both builds, which was not measured"
    assert in_turns(html(at))["from"] == ["2.13.0+cu130"]


def test_a_point_leads_to_the_window_of_its_own_pytorch(open_page: Open, url: str) -> None:
    old, new, bare = (environment(version) for version in ("2.13.0+cpu", "2.14.0+cpu", "2.15.0+cpu"))
    outcomes = [an_outcome(MLP, environment=each) for each in (old, new, bare)]
    observed = [with_telemetry(each, a_host()) for each in outcomes[:2]]
    with open_with_tables(url) as database:
        run = a_run("run-1", environments=[old, new, bare])
        store.save_run(database, run)
        store.save_outcomes(database, run.id, [*observed, outcomes[2]])
        store.save_measurements(database, run.id, measurements_for(outcomes))
    shown = html(open_page(url, HISTORY, metric="latency", case=MLP, at="run-1"))
    led = {}
    for panel in shown.split("<dt>PyTorch</dt><dd>")[1:]:
        address = (
            panel.partition('href="/explore?view=utilisation&amp;')[2].partition('"')[0].replace("&amp;", "&")
        )
        query = {name: values[-1] for name, values in parse_qs(address).items()}
        led[panel.partition("<")[0]] = query.get("environment", "nowhere")
    assert led == {
        "2.13.0+cpu": old.fingerprint[:12],
        "2.14.0+cpu": new.fingerprint[:12],
        "2.15.0+cpu": "nowhere",
    }
    there = open_page(url, UTILISATION, run="run-1", case=MLP, environment=led["2.13.0+cpu"])
    assert there.selectbox(key="choose-environment").value == old.fingerprint and not there.warning


@pytest.mark.parametrize(
    ("names", "command"),
    [
        (("on 12.6", "on 13"), f"pyrometer upgrade 'on 12.6' 'on 13' --case {MLP}"),
        (("2.13.0", "2.13.0"), ""),
        (("", "on 13"), ""),
    ],
)
def test_two_builds_of_a_release_go_by_the_names_of_their_environments(
    names: tuple[str, str], command: str
) -> None:
    old, new = a_point(0, "2.13.0+cu126"), a_point(1, "2.13.0+cu130")
    about = tracks_of_place([old], name=names[0]) if names[0] else {}
    about |= tracks_of_place([new], name=names[1])
    sides = about.get(lines.place_of(old)), about.get(lines.place_of(new))
    assert words.comparison(*sides, old, new) == command


def test_a_value_without_a_share_is_not_reported_as_never_measured() -> None:
    none, zero = a_line([a_point(0, "2.12.0")]), a_line([a_point(1, "2.13.0", point=0.0)], "B")
    for baseline, run in (("2.13.0", False), ("run-1", True)):
        sentence = words.against(metric("graph_breaks"), baseline, {}, [none, zero], run=run)
        assert f"A has nothing measured with {baseline} and cannot be drawn." in sentence
        assert f"What B measured with {baseline} is not above 0: there is no share of it to draw." in sentence


def test_two_environments_of_one_version_in_one_run_are_no_two_runs() -> None:
    once = [a_point(0, run="s", environment=each) for each in ("before", "after")]
    again = [a_point(1), a_point(2)]

    def runs_text(points: list[SeriesPoint]) -> str:
        return frames.points([a_line(points)], {lines.OTHER: "runs"}, "version")["run"].tolist()[0]

    assert runs_text(once) == "s, in 2 environments"
    assert runs_text([*once, *again]) == "3 runs, newest run-2"
