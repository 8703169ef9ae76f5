"""The utilisation page and telemetry on the run page, through the router and without a browser."""

import json
import sqlite3
from dataclasses import replace
from pathlib import Path
from typing import Any
from urllib.parse import parse_qs, urlsplit

import pytest
from streamlit.testing.v1 import AppTest

from analysis.comparison import rounds
from dashboard.components import links, tables
from dashboard.components.query_params import SharedLabel
from dashboard.exports.page_recorder import frame_of
from dashboard.runs import capabilities
from dashboard.utilisation import telemetry as telemetry_parts
from dashboard.utilisation import view
from db.runs import store
from db.telemetry import queries as telemetry
from records.old_runs import kind_of_old_run
from records.telemetry import TelemetryWindow
from support.builders import telemetry as made_up
from support.builders.run_records import (
    BERT,
    MLP,
    RESNET,
    RESNET_COMPILED,
    a_machine,
    a_night,
    a_run,
    an_environment,
    an_outcome,
)
from support.builders.telemetry import H200, H200_TWO
from support.pages import RUNS, UTILISATION, opener, text, typed
from support.sqlite_files import open_with_tables


@pytest.fixture(scope="module")
def url(tmp_path_factory: pytest.TempPathFactory) -> str:
    """A run without telemetry, one of an A100, one of two H200s; tests only read it."""
    made = f"sqlite:///{tmp_path_factory.mktemp('telemetry')}/pyrometer.db"
    made_up.fill(made)
    return made


@pytest.fixture
def show(url: str, monkeypatch: pytest.MonkeyPatch) -> Any:
    """Open a page with the query of its URL."""

    def show_it(database: str = url, page: str = UTILISATION, **query: Any) -> AppTest:
        at = opener(monkeypatch)(database, page, **query)
        assert not at.exception
        return at

    return show_it


def html(at: AppTest) -> str:
    return "\n".join(each.proto.body for each in at.get("html"))


def specs(at: AppTest) -> list[dict[str, Any]]:
    drawn = [*at.get("arrow_vega_lite_chart"), *at.get("vega_lite_chart")]
    return [json.loads(each.proto.spec) for each in drawn]


def titles(spec: dict[str, Any]) -> list[str]:
    return [panel["title"]["text"] for panel in spec["vconcat"]]


def headers(at: AppTest) -> list[str]:
    return [header.value for header in at.header]


def the_windows(url: str, run: str) -> list[TelemetryWindow]:
    with open_with_tables(url) as database:
        return telemetry.windows(database, run=run, limit=100)


def test_it_opens_on_the_machine_with_most_runs_and_on_a_run_that_tells_something(url: str) -> None:
    window = the_windows(url, "on-h200")[0]

    def of(run: str, machine: str, utilisation: float | None) -> TelemetryWindow:
        return replace(window, run=run, machine=machine, utilisation=utilisation)

    newest = [
        of("silent", "h200", None),
        of("alone", "laptop", 50.0),
        of("second", "h200", 90.0),
        of("second", "h200", None),
        of("first", "h200", 80.0),
    ]
    assert telemetry_parts.opening_run(newest) == "second"
    assert telemetry_parts.opening_run(newest[:3]) == "alone", "of as many runs the newest"
    assert telemetry_parts.opening_run(newest[:1]) == "silent"


def test_the_page_opens_on_the_newest_run_with_telemetry_and_names_every_source(show: Any) -> None:
    at = show()
    assert headers(at) == ["NVIDIA H200 · 5d0c4f0a", "Host · Xeon 6430", "All windows of this run"]
    gpu, host = specs(at)
    assert titles(gpu)[:3] == [
        "SM utilisation (hardware counters, GPM) · %",
        "GPU busy, share of time with a kernel (driver's buffer) · %",
        "Occupancy, tensor cores, DRAM bandwidth (GPM) · %",
    ]
    assert titles(host)[0] == "Each CPU busy · %"
    shown = html(at)
    for part in ("no answer for 0.5 s", "Not available: NVLink.", "hardware counters, GPM", "6.56 %"):
        assert part in shown
    assert set(at.query_params) == {"view"}


def test_an_older_gpu_says_busy_and_why_not_more(show: Any) -> None:
    at = show(run="on-a100")
    assert titles(specs(at)[0])[0] == "GPU busy, share of time with a kernel (driver's buffer) · %"
    assert "SM utilisation: needs Hopper or newer (GPM)." in html(at)
    assert "SM utilisation (hardware" not in json.dumps(specs(at))


def test_a_choice_is_written_whole_into_the_url_and_the_url_opens_the_same_view(show: Any) -> None:
    at = show(run="on-h200", case=RESNET)
    assert at.multiselect(key="choose-devices").value == [H200, H200_TWO, "host"]
    at.multiselect(key="choose-devices").set_value([H200_TWO]).run()
    assert set(at.query_params) == {"view", "run", "case", "environment", "replicate", "device"}
    again = show(**dict(at.query_params))
    assert headers(again)[0] == "NVIDIA H200 · 9e77b1d2"
    assert len(specs(again)) == 1


def test_another_case_and_another_run_bring_their_own_devices(show: Any) -> None:
    at = show(run="on-h200", case=RESNET, device=[H200_TWO])
    at.selectbox(key="choose-case").select(RESNET_COMPILED).run()
    assert headers(at)[:2] == ["NVIDIA H200 · 5d0c4f0a", "Host · Xeon 6430"]
    at.selectbox(key="choose-case").select(RESNET).run()
    at.selectbox(key="choose-run").select("on-a100").run()
    assert headers(at)[0] == "NVIDIA A100-SXM4-80GB · a1007c55"
    assert not at.warning


def test_an_address_survives_in_both_spellings(url: str) -> None:
    windows = the_windows(url, "on-h200")
    environment = an_environment().fingerprint
    for chosen in (
        view.Utilisation("on-h200", RESNET, environment, 0, (H200_TWO, "host")),
        view.Utilisation("on-h200", MLP, environment, 0, ("host",)),
    ):
        assert view.utilisation(chosen.query(), "on-h200", windows)[::2] == (chosen, [])
        read = parse_qs(urlsplit(chosen.address).query)
        assert view.utilisation(read, "on-h200", windows)[::2] == (chosen, [])


@pytest.mark.parametrize(
    ("query", "near"),
    [
        ({"case": ["resnet5"]}, RESNET),
        ({"device": ["GPU-5d0c4f0a"]}, H200),
        ({"environment": ["torch-2.12.0+cpu"]}, "torch-2.13.0+cpu"),
        ({"replicate": ["7"]}, "0"),
    ],
)
def test_unknown_values_are_one_sentence_and_the_view_falls_back(
    url: str, query: dict[str, list[str]], near: str
) -> None:
    windows = the_windows(url, "on-h200")
    chosen, _, (sentence,) = view.utilisation(query, "on-h200", windows)
    assert chosen == view.utilisation({}, "on-h200", windows)[0]
    assert near in sentence


def test_an_environment_is_not_found_by_a_name_that_two_have(url: str) -> None:
    (window, *_) = (each for each in the_windows(url, "on-h200") if each.device == "host")
    both = [replace(window, environment=digit * 64, environment_name="night") for digit in "12"]
    with pytest.raises(SharedLabel, match='"night" exists 2 times'):
        view.utilisation({"environment": ["night"]}, "on-h200", both)
    for each in both:
        query = {"environment": [each.environment[:12]]}
        assert view.utilisation(query, "on-h200", both)[0].environment == each.environment


def test_eight_gpus_leave_room_for_the_host(url: str) -> None:

    (window, *_) = [w for w in the_windows(url, "on-h200") if w.device == "host" and w.case == MLP]
    gpus = [replace(window, device=f"GPU-{number}", name="NVIDIA H200") for number in range(8)]
    chosen, own, _ = view.utilisation({}, "on-h200", [window, *gpus])
    assert chosen.devices == ("GPU-0", "GPU-1", "GPU-2", "host")
    assert len(own) == 9
    every = {"device": [w.device for w in own]}
    chosen, _, (sentence,) = view.utilisation(every, "on-h200", [window, *gpus])
    assert len(chosen.devices) == view.MAX_DEVICES
    assert "4 devices" in sentence


def test_a_run_without_telemetry_is_named_and_the_newest_with_some_is_shown(show: Any) -> None:
    at = show(run="before")
    assert at.warning[0].value == "Run before has no telemetry; the page shows the newest run with telemetry."
    assert at.selectbox(key="choose-run").value == "on-h200"
    assert "There is no run 'on-h20'" in show(run="on-h20").warning[0].value


def test_a_newer_run_of_cases_that_were_named_says_why_it_has_no_window(show: Any, tmp_path: Path) -> None:
    filled = f"sqlite:///{tmp_path}/named.db"
    made_up.fill(filled)
    timing = {"observe_seconds": 0.0, "trace_steps": 0}
    with open_with_tables(filled) as database:
        run = a_run("named", suite="chosen", started_at=a_night(400))
        store.save_run(database, replace(run, facts={"timing": timing}))
        store.save_outcomes(database, run.id, [an_outcome(MLP)])
    for query, which in (({}, "The newest run named"), ({"run": "named"}, "Run named")):
        at = show(filled, **query)
        said = text(at).replace("\\", "")
        assert (
            f"{which} has no telemetry." in said and "Why: it was measured without a telemetry window" in said
        )
        assert typed(at) == [f"pyrometer run --suite cpu --case {MLP}"]
        assert at.selectbox(key="choose-run").value == "on-h200"
    # One that has some says nothing, and neither does a page that was opened on it.
    assert not typed(show(filled, run="on-a100"))


@pytest.mark.parametrize(
    ("facts", "why"),
    [
        ({"timing": {"observe_seconds": 3.0, "trace_steps": 0}}, "older than `telemetry_days`"),
        ({"timing": {"observe_seconds": 0.0, "trace_steps": 8}}, "traced, not measured"),
        ({"timing": {"observe_seconds": 0.0}}, "`observe_seconds` is 0)"),
        ({"timing": "odd"}, "older than"),
        ({}, "older than"),
    ],
)
def test_why_a_run_has_no_window(facts: dict[str, Any], why: str) -> None:
    assert why in telemetry_parts.why_none(replace(a_run(), facts=facts, kind=kind_of_old_run("", facts)))


def test_without_any_telemetry_the_page_says_what_to_run_and_what_is_absent(
    show: Any, tmp_path: Path
) -> None:
    plain = f"sqlite:///{tmp_path}/plain.db"
    made_up.save(plain, "plain", 0, a_machine(), made_up.observed(MLP))
    at = show(plain)
    assert "No telemetry yet" in html(at)
    assert typed(at) == ["pyrometer run --suite smoke", "pyrometer doctor"]
    absent = {"gpu": {**made_up.CAPABILITIES["gpu"], "gpus": [], "absent": "no NVIDIA driver is installed"}}
    url_of_telemetry = f"sqlite:///{tmp_path}/told.db"
    made_up.save(url_of_telemetry, "told", 0, a_machine(), made_up.observed(MLP), telemetry=absent)
    assert "No GPU telemetry: no NVIDIA driver is installed." in html(show(url_of_telemetry))


def test_a_damaged_recording_leaves_the_others_as_they_are(show: Any, tmp_path: Path) -> None:
    damaged = f"sqlite:///{tmp_path}/damaged.db"
    made_up.save(damaged, "one", 0, a_machine(), made_up.observed(MLP, made_up.an_h200(), made_up.a_host()))
    with sqlite3.connect(tmp_path / "damaged.db") as connection:
        connection.execute("update telemetry set blob = x'00' where device <> 'host'")
    connection.close()
    at = show(damaged)
    assert headers(at)[:2] == ["NVIDIA H200 · 5d0c4f0a", "Host · Xeon 6430"]
    assert len(specs(at)) == 1
    assert "py-notes" in html(at)


def test_what_a_device_is_called_is_shown_and_not_interpreted(show: Any, tmp_path: Path) -> None:
    nasty = "![x](https://example.org/x.png) <b>"
    recording = replace(made_up.an_a100(), name=nasty, device=nasty, notes=(nasty,))
    made_up.save(f"sqlite:///{tmp_path}/nasty.db", "one", 0, a_machine(), made_up.observed(MLP, recording))
    at = show(f"sqlite:///{tmp_path}/nasty.db")
    assert headers(at)[0].replace("\u2060", "").startswith(r"!\[x\](https\://example.org/x.png) \<b\> · ")
    assert "<b>" not in html(at)
    assert html(at).count("&lt;b&gt;") >= 2


def test_the_csv_of_windows_says_what_each_number_is(url: str) -> None:
    frame = frame_of(telemetry_parts.table(the_windows(url, "on-h200")))
    assert frame["case"].tolist() == sorted(frame["case"])
    gpus = frame[frame["device"] != "host"]
    assert set(gpus["utilisation_of"]) == {"SM utilisation · hardware counters, GPM"}
    assert frame["power_w"].isna().tolist() == (frame["device"] == "host").tolist()


def test_the_table_of_windows_names_what_each_number_is(show: Any) -> None:
    shown = html(show(run="on-a100"))
    assert "GPU busy, share of time with a kernel<small>driver&#x27;s buffer</small>" in shown
    assert "Measured CPUs busy<small>kernel&#x27;s counters</small>" in shown
    assert links.utilisation("on-a100", RESNET, an_environment().fingerprint, 0).split("?")[0] in shown


def test_the_run_page_links_to_the_window_and_says_what_does_not_count(show: Any) -> None:
    at = show(page=RUNS, run="on-h200", case=MLP)
    shown = html(at)
    assert shown.count("Utilisation →") == 3 and "Utilisation of GPU and CPUs →" in shown
    assert (
        "1 block left out and taken again (1 contended); at worst: others took 31 % of &lt;CPU 1&gt;" in shown
    )
    assert "! contended" in shown
    assert "! throttled" in shown
    assert "tainted blocks" not in shown
    captions = "\n".join(caption.value for caption in at.caption)
    assert "60 samples in 3 blocks, median 2.01 ms" in captions
    assert "1 block disturbed by other programs, left out of median" in captions
    assert "Utilisation →" not in html(show(page=RUNS, run="before", case=MLP))


def test_capabilities_stand_on_the_run_page_with_their_reasons(show: Any) -> None:
    at = show(page=RUNS, run="on-h200")
    (expander,) = at.expander
    inside = "\n".join(each.proto.body for each in expander if each.type == "html")
    for part in (
        "GPU 0: NVIDIA H200",
        H200,
        "✓ present",
        "– absent",
        "no permission &lt;yet&gt;",
        "580.65.06",
    ):
        assert part in inside
    assert inside.count("<table") == 2
    assert len(show(page=RUNS, run="on-a100").expander) == 0


def test_bad_health_of_a_card_is_on_its_page() -> None:
    (gpu,) = made_up.CAPABILITIES["gpu"]["gpus"]
    sick = {**gpu, "health": {"pcie_width": 8, "pcie_width_possible": 16}}
    changed = {**made_up.CAPABILITIES, "gpu": {**made_up.CAPABILITIES["gpu"], "gpus": [sick]}}
    sound, warned = (
        capabilities.tables(replace(a_run(), facts={"telemetry": each}))
        for each in (made_up.CAPABILITIES, changed)
    )
    assert "8 of 16 lanes" in warned and "lanes" not in sound


@pytest.mark.parametrize(
    "facts_value",
    [None, 5, [], ["x"], [{"block": []}], {"gpu": 7, "cpu": 7}, {"gpu": {"gpus": [{}]}, "cpu": [{}]}],
)
def test_facts_of_another_version_are_no_error(facts_value: Any) -> None:
    run = replace(a_run(), facts={"telemetry": facts_value})
    assert (capabilities.tables(run), capabilities.absent(run)) == ("", [])
    facts = {"tainted_blocks": facts_value}
    assert (rounds.tainted_block_numbers(facts), tables.in_words(facts)) == (frozenset(), "")


def test_an_outcome_of_which_no_block_counts_shows_its_samples_and_no_median(
    show: Any, tmp_path: Path
) -> None:
    spoilt = f"sqlite:///{tmp_path}/spoilt.db"
    taints = [{"block": 0, "status": "throttled", "cause": "gpu", "reason": "hot", "share": None}]
    outcome = made_up.observed(
        BERT, status="throttled", reason="hot", blocks=((1_000, 2_000),), facts={"tainted_blocks": taints}
    )
    made_up.save(spoilt, "one", 0, a_machine(), outcome)
    at = show(spoilt, page=RUNS, run="one", case=BERT)
    assert len(specs(at)) == 1
    captions = "\n".join(caption.value for caption in at.caption)
    assert "2 samples in 1 block. " in captions
    assert "median " not in captions.replace("left out of median and distribution", "")


def test_of_many_windows_those_of_the_case_come_first_and_the_rest_is_counted(url: str) -> None:
    windows = the_windows(url, "on-h200")
    many = [replace(each, replicate=number) for number in range(30) for each in windows]
    table = telemetry_parts.table(many, RESNET)
    shown = table.html()
    assert shown.count("<tr>") == telemetry_parts.MOST_WINDOWS + 1
    assert f"and {len(many) - telemetry_parts.MOST_WINDOWS:,} more in the CSV file" in shown
    assert shown.index("resnet50") < shown.index("Open")
    assert "mlp" not in shown.partition("Open")[0]
    assert len(table.records()) == len(many)


def test_windows_of_several_replicates_say_which(url: str) -> None:
    windows = [each for each in the_windows(url, "on-h200") if each.case == RESNET]
    assert "<small>replicate" not in telemetry_parts.table(windows).html()
    several = [*windows, *(replace(each, replicate=each.replicate + 1) for each in windows)]
    shown = telemetry_parts.table(several).html()
    for replicate in {each.replicate for each in several}:
        assert shown.count(f"<small>replicate {replicate}</small>") == 1
