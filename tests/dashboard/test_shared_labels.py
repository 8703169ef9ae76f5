"""An address with a label that several things have: the page asks which one is meant and shows no number."""

import re
from dataclasses import replace
from datetime import timedelta
from html import escape, unescape
from urllib.parse import parse_qs, urlsplit

import pytest
from streamlit.testing.v1 import AppTest

from support.builders.run_records import FIRST_NIGHT
from support.builders.technique_runs import CPU, GPU, MLP, Measured, fingerprint, outcomes, preset, run, save
from support.pages import HARDWARE, HISTORY, TECHNIQUES, Open, html

CASES = (Measured(f"{MLP}/eager", (4.0, 4.0)), Measured(f"{MLP}/compile=default", (2.0, 2.0)))


@pytest.fixture(scope="module")
def shared(tmp_path_factory: pytest.TempPathFactory) -> str:
    """Two kinds of hardware with one label, and on the first of them two presets with one name."""
    url = f"sqlite:///{tmp_path_factory.mktemp('shared')}/pyrometer.db"
    save(url, run("run-1"), outcomes(CASES))
    save(
        url, run("run-2", under=preset(pinned=2), started_at=FIRST_NIGHT + timedelta(days=1)), outcomes(CASES)
    )
    other = run("run-3", hardware=GPU, started_at=FIRST_NIGHT + timedelta(days=2))
    machine = replace(other.machine, hardware=replace(other.machine.hardware, label=CPU))
    return save(url, replace(other, machine=machine), outcomes(CASES))


def choices(at: AppTest, question: str) -> list[dict[str, str]]:
    """The queries of the links that answer a question, which stands alone on the page."""
    shown = html(at)
    assert question in shown and not at.warning and not at.exception
    assert "<table" not in shown and not at.selectbox and not at.header
    addresses = re.findall(r'<li><a href="([^"]*)"', shown)
    parsed = (parse_qs(urlsplit(unescape(each)).query) for each in addresses)
    return [{name: values[0] for name, values in query.items()} for query in parsed]


def test_the_reference_of_the_hardware_page(open_page: Open, shared: str) -> None:
    found = choices(open_page(shared, HARDWARE, to=CPU, metric="latency"), "Which hardware?")
    assert len(found) == 2
    chosen = []
    for query in found:
        assert query["metric"] == "latency"
        at = open_page(shared, HARDWARE, **query)
        assert not at.warning
        chosen.append(at.selectbox(key="choose-to").value)
    assert sorted(chosen) == sorted((fingerprint(CPU), fingerprint(GPU)))


@pytest.mark.parametrize("page", [TECHNIQUES, HISTORY])
def test_the_preset_of_a_page(open_page: Open, shared: str, page: str) -> None:
    at = open_page(shared, page, hardware=fingerprint(CPU), preset="quiet")
    found = choices(at, "Which preset?")
    presets = [open_page(shared, page, **query).selectbox(key="choose-preset").value for query in found]
    assert sorted(presets) == sorted((preset().fingerprint, preset(pinned=2).fingerprint))


def test_history_shows_each_hardware_of_a_label_by_itself(open_page: Open, shared: str) -> None:
    at = open_page(shared, HISTORY, hardware=CPU)
    names = {each: f"{CPU} ({each[:8]})" for each in (fingerprint(CPU), fingerprint(GPU))}
    assert sorted(at.multiselect(key="choose-hardware").value) == sorted(names)
    legend = html(at).partition('<ul class="py-legend">')[2].partition("</ul>")[0]
    assert all(f"<small>{escape(name)}</small>" in legend for name in names.values())
    grid = html(open_page(shared, HISTORY, hardware=CPU, shown="grid"))
    assert all(escape(name) in grid for name in names.values())


def test_a_price_of_two_kinds_of_hardware_is_one_of_none(open_page: Open, shared: str) -> None:
    at = open_page(shared, HARDWARE, to=fingerprint(CPU), price=f"{CPU}:7.25")
    (warning,) = (each.value for each in at.warning)
    assert "exists 2 times" in warning and "7.25" not in html(at)


def test_a_label_that_is_remembered_from_another_page_asks_nothing(open_page: Open, shared: str) -> None:
    at = open_page(shared, HISTORY, hardware=CPU)
    assert any("each has its own lines" in warning.value for warning in at.warning)
    at.query_params.clear()
    at.query_params["view"] = "techniques"
    at.run()
    assert not at.warning and "Which hardware?" not in html(at) and at.selectbox(key="choose-hardware").value
