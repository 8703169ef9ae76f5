"""The Hardware page through the router: one machine, two, other settings, prices, and nothing at all."""

import re
from dataclasses import replace
from datetime import timedelta
from pathlib import Path
from urllib.parse import parse_qs, urlsplit

import pytest
import streamlit as st
from streamlit.testing.v1 import AppTest

from dashboard.exports.page_recorder import PageRecord
from dashboard.server.settings import PRICES, Prices
from support.builders.run_records import FIRST_NIGHT, a_machine, a_run, an_outcome
from support.builders.stored_run import store_run
from support.builders.technique_runs import (
    CPU,
    GPU,
    MLP,
    RESNET,
    VERSION,
    Measured,
    fingerprint,
    outcomes,
    preset,
    run,
    save,
)
from support.pages import HARDWARE, Open, csv_of_section, html, text
from support.sqlite_files import open_with_tables

NASTY = '<img src=x onerror="alert(1)">'
NEWER = "2.14.0+cpu"

SLOW = (Measured(f"{RESNET}/eager", (100.0, 100.0)), Measured(f"{MLP}/eager", (2.0, 2.0)))
#: 20 and 10 times as fast, and a case of its own.
FAST = (
    Measured(f"{RESNET}/eager", (5.0, 5.0)),
    Measured(f"{MLP}/eager", (0.2, 0.2)),
    Measured(f"{RESNET}/compile=default", (2.0, 2.0), cold=9.0, warm=1.0),
)


def plain(at: AppTest) -> str:
    """What the page shows, without the backslashes that keep Markdown out of it."""
    return text(at).replace("\\", "")


def two_machines(url: str) -> str:
    """One version on both, with 10 % between two runs on the slower one."""
    save(url, run("slow-1"), outcomes(SLOW))
    again = (Measured(f"{RESNET}/eager", (110.0, 110.0)), SLOW[1])
    save(url, run("slow-2", started_at=FIRST_NIGHT + timedelta(days=1)), outcomes(again))
    gpu = run("fast-1", hardware=GPU, under=preset(pinned=30), started_at=FIRST_NIGHT + timedelta(days=2))
    return save(url, gpu, outcomes(FAST, device="cuda"))


@pytest.fixture(scope="module")
def two_url(tmp_path_factory: pytest.TempPathFactory) -> str:
    return two_machines(f"sqlite:///{tmp_path_factory.mktemp('hardware')}/pyrometer.db")


def test_two_machines_are_normalised_to_one(open_page: Open, two_url: str) -> None:
    at = open_page(two_url, HARDWARE, to=CPU)
    shown = plain(at)
    # 105 / 5 and 2 / 0.2: the median of two runs, and the only number.
    for part in (
        "<strong>▲ 14.5×</strong>",
        "10.0× to 21.0×",
        "▲ 21.0×</strong>",
        "2 runs, 2026-09-02",
        "2 replicates, 2026-09-03",
        "▲ and ▼ mark only differences above 5.0 %",
        "is 5.0 %",
        "a process has different numbers of CPUs on these machines",
        f"not measured on {CPU}",
    ):
        assert part in shown, part
    assert [each.value for each in at.header] == [
        "Latency (min-based), normalised",
        "Case by case",
        "Left out of the geomeans, with reasons",
        "Cost per 1 M items",
    ]


def test_only_what_has_a_ratio_can_have_another_number_of_cpus(open_page: Open, url: str) -> None:
    two_machines(url)
    alone = "Xeon 6436, 2 cores"
    own = run("own-1", hardware=alone, started_at=FIRST_NIGHT + timedelta(days=4))
    save(url, own, outcomes([Measured("gpt2_small/infer/-/eager", (3.0, 3.0))]))
    said = "different numbers of CPUs on these machines"
    assert said in plain(open_page(url, HARDWARE, to=CPU))
    # It shares no case with others: nothing is held against the 30 CPUs of another.
    assert said not in plain(open_page(url, HARDWARE, to=alone))


def test_the_other_way_round_is_the_inverse_and_higher_is_better_too(open_page: Open, two_url: str) -> None:
    assert "<strong>▼ 0.0690×</strong>" in html(open_page(two_url, HARDWARE, to=GPU))
    throughput = html(open_page(two_url, HARDWARE, to=GPU, metric="throughput"))
    # 8 items in 100 and in 110 ms: 76.4 items/s are the median, of 1,600.
    assert "▼ 0.0477×" in throughput


def test_a_median_of_runs_names_every_harness_that_measured_them(
    open_page: Open, two_url: str, url: str, records: list[PageRecord]
) -> None:
    two_machines(url)
    said = "These points were measured by several harnesses"
    assert said not in plain(open_page(two_url, HARDWARE, to=CPU))
    # A day after the last of the slower machine, by another harness; the median holds runs of both.
    newer = replace(run("slow-3", started_at=FIRST_NIGHT + timedelta(days=4)), harness="harness-new")
    save(url, newer, outcomes(SLOW))
    shown = plain(open_page(url, HARDWARE, to=CPU))
    assert said in shown and "Medians over runs may include several." in shown
    cells = csv_of_section(records[-1], "Case by case")
    found = cells[cells["hardware"] == CPU]["harness"]
    assert {tuple(sorted(each.split())) for each in found} == {("harness-1f3a", "harness-new")}
    assert set(cells[cells["hardware"] == GPU]["harness"]) == {"harness-1f3a"}


def test_the_newest_of_each_says_where_pytorches_differ(open_page: Open, url: str) -> None:
    two_machines(url)
    newer = run("fast-2", hardware=GPU, version=NEWER, under=preset(pinned=30))
    save(url, newer, outcomes(FAST, version=NEWER, device="cuda"))
    assert "These points are of several PyTorch versions" not in text(open_page(url, HARDWARE, to=CPU))
    later = run(
        "fast-3",
        hardware=GPU,
        version=NEWER,
        under=preset(pinned=30),
        started_at=FIRST_NIGHT + timedelta(days=5),
    )
    save(url, later, outcomes(FAST, version=NEWER, device="cuda"))
    shown = text(open_page(url, HARDWARE, to=CPU, version="newest"))
    assert "These points are of several PyTorch versions" in shown
    assert f"torch {NEWER}</small>" in shown


@pytest.mark.slow
def test_the_release_that_machines_share_is_compared_below_months_of_nightlies(
    open_page: Open, url: str
) -> None:
    slow, fast = "2.15.0+cpu", "2.15.0+cu130"
    save(url, run("slow", version=slow), outcomes(SLOW, version=slow))
    save(url, run("fast", version=fast, hardware=GPU), outcomes(FAST, version=fast, device="cuda"))
    with open_with_tables(url) as database:
        for night in range(70):
            started = FIRST_NIGHT + timedelta(days=night)
            version = f"2.16.0.dev{started:%Y%m%d}+cu130"
            each = run(f"night-{night}", version=version, hardware=GPU, started_at=started)
            store_run(database, each, outcomes(FAST[:1], version=version, device="cuda"))
    at = open_page(url, HARDWARE, to=CPU)
    assert at.selectbox(key="choose-version").value == "2.15.0"
    shown = plain(at)
    assert "The machines have different builds of that release (2.15.0+cpu, 2.15.0+cu130)" in shown
    assert "▲ 20.0×" in shown and "These points are of several PyTorch versions" not in shown


def test_one_hardware_says_that_there_is_nothing_to_hold_it_against(open_page: Open, url: str) -> None:
    at = open_page(save(url, run(), outcomes(SLOW)), HARDWARE)
    shown = text(at)
    assert "Only one hardware was measured" in shown
    assert "reference" in shown and "100" in shown


def test_other_settings_of_the_preset_are_left_out_and_named(open_page: Open, url: str) -> None:
    two_machines(url)
    capped = run("capped", hardware="Cray", under=preset(ONEDNN_MAX_CPU_ISA="AVX2"))
    shown = plain(open_page(save(url, capped, outcomes(SLOW)), HARDWARE, to=CPU))
    assert "Left out: Cray, because its preset of that name has other settings (ONEDNN_MAX_CPU_ISA)" in shown
    assert "<strong>Cray</strong>" not in shown


def test_prices_of_the_settings_and_of_the_address_make_costs(
    open_page: Open, two_url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    shown = text(open_page(two_url, HARDWARE, to=CPU))
    assert "[prices]" in shown and CPU in shown
    monkeypatch.setenv(PRICES, Prices("EUR", {CPU: 0.36, GPU: 36.0}).text)
    at = open_page(two_url, HARDWARE, to=CPU)
    shown = text(at)
    # 4,000 items/s for 0.36 an hour: 0.0001 / 4000 x 1e6.
    assert f"{CPU}, at 0.36 EUR/h" in shown
    assert "0.0250<small>4,000 items/s" in shown
    # A hundred times the price for 14.5 times the speed.
    assert "▲ dearer" in shown and "2 cases" in shown
    at = open_page(two_url, HARDWARE, to=CPU, price=f"{GPU}:0.36")
    assert "▼ cheaper" in text(at)
    pinned = [part for part in html(at).split('"') if part.startswith("/compare?view=hardware")]
    assert parse_qs(urlsplit(pinned[-1].replace("&amp;", "&")).query)["price"] == [
        f"{fingerprint(GPU)[:12]}:0.36"
    ]


def test_a_case_on_one_gpu_of_eight_costs_an_eighth_of_the_machine(
    open_page: Open, url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    made = run("fast-1", hardware=GPU)
    facts = {"gpus": ["NVIDIA H200"] * 8, "cpus": 192}
    made = replace(made, machine=replace(made.machine, hardware=replace(made.machine.hardware, facts=facts)))
    save(url, made, outcomes([Measured(f"{MLP}/eager", (0.2, 0.2), items=8)], device="cuda"))
    monkeypatch.setenv(PRICES, Prices("USD", {GPU: 24.0}).text)
    shown = text(open_page(url, HARDWARE))
    assert "Price (USD per GPU-hour)</th>" in shown and ">3.00</td>" in shown
    # 8 items in 0.2 ms: 40,000 items/s; 24 / 8 = 3 an hour for the one GPU; 3 / 3600 / 40,000 x 1e6.
    assert "0.0208<small>40,000 items/s, 2 replicates, 1 of 8 GPUs" in shown
    assert f"{GPU}, at 24 USD/h = 3.00 USD per GPU-hour" in shown.replace("\\", "")


def test_unknown_values_in_the_address_are_said(open_page: Open, two_url: str) -> None:
    query = {"metric": "speed", "to": "abacus", "preset": "loud", "version": "9.9", "price": "abacus:2"}
    at = open_page(two_url, HARDWARE, **query)
    assert len(at.warning) == 5
    assert "Latency (min-based), normalised" in text(at)


def test_a_metric_without_results_is_a_sentence(open_page: Open, two_url: str) -> None:
    at = open_page(two_url, HARDWARE, metric="energy_per_item", to=CPU, version=VERSION)
    assert "There is no energy per item of torch" in text(at)
    assert not at.exception


def test_an_empty_database_says_what_to_type(open_page: Open, empty_url: str) -> None:
    assert "pyrometer run --suite smoke" in text(open_page(empty_url, HARDWARE))


def test_what_others_measured_is_compared_where_nothing_else_is(open_page: Open, tmp_path: Path) -> None:
    foreign = a_run("20260910-000000-timm-csv-0123456789abcdef", machine=a_machine("theirs", "Their GPU"))
    imported = [an_outcome(f"{RESNET}/eager", metrics={"latency_floor": 1.0})]
    url = save(f"sqlite:///{tmp_path}/p.db", foreign, imported)
    said = "Imported from other tools"
    shown = text(open_page(url, HARDWARE))
    assert said in shown and "Their GPU" in shown
    both = f"sqlite:///{tmp_path}/beside.db"
    save(both, foreign, imported)
    shown = text(open_page(save(both, run(), outcomes(SLOW)), HARDWARE))
    assert said not in shown and "Their GPU" not in shown


def test_nothing_from_the_database_becomes_markup(open_page: Open, url: str) -> None:
    save(url, run("one", hardware=f"{NASTY} a"), outcomes(SLOW))
    named = Measured(f"m{NASTY.translate(str.maketrans('', '', ' =/'))}/infer/batch=8/eager", (4.0, 4.0))
    save(url, run("two", hardware=f"{NASTY} b"), outcomes([*SLOW, named]))
    at = open_page(url, HARDWARE, price=f"{NASTY}:x")
    assert "<img" not in html(at) and "&lt;img" in html(at)
    # In Streamlit's Markdown a backslash keeps what follows a text.
    said = [each.value.replace("\\<", "") for each in (*at.caption, *at.warning, *at.header)]
    assert not any("<" in words for words in said)


def test_what_all_values_have_in_common_stands_once(open_page: Open, url: str) -> None:
    save(url, run("one", hardware=CPU), outcomes(SLOW))
    alone = html(open_page(url, HARDWARE))
    assert len(re.findall(r"Each: \d+ replicates?, \d{4}-\d\d-\d\d\.", alone)) == 1
    assert not re.search(r"<small>\d+ replicates?", alone)
    later = run("two", hardware=CPU, started_at=FIRST_NIGHT + timedelta(days=4))
    save(url, later, outcomes([Measured("gpt2_small/infer/-/eager", (3.0, 3.0))]))
    st.cache_resource.clear()
    shown = html(open_page(url, HARDWARE))
    assert not re.search(r"Each: [^.]*\d{4}-\d\d-\d\d", shown) and re.search(
        r"<small>[^<]*\d{4}-\d\d-\d\d", shown
    )
