"""Own runs beside imported ones: what is shown first, and that no text of a stranger's file gets loose."""

import re
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
import streamlit as st
from playwright.sync_api import Browser, expect

from analysis.metrics import METRICS
from dashboard.components import links, parts, tables, wording
from dashboard.hardware import load as hardware_load
from db.runs import queries, series_queries
from db.runs.metric_definitions import save_metrics
from db.runs.store import save_measurements, save_outcomes, save_run
from interchange.errors import SourcePlace
from interchange.foreign_runs import Failure, ForeignOrigin, Point, assemble_run, case_key, machine_called
from records.kinds import RunSource
from records.runs import RunSummary
from support.builders.technique_runs import RESNET, Measured, outcomes, run, save
from support.pages import (
    HARDWARE,
    HISTORY,
    RUN_PAIR,
    RUNS,
    TECHNIQUES,
    TODAY,
    UPGRADE,
    Open,
    html,
    text,
    typed,
)
from support.servers.browser import Visitor, fits
from support.sqlite_files import open_with_tables, sqlite_copy

LATER = datetime(2026, 11, 20, 12, tzinfo=UTC)
MANY = 25
HOSTILE = "<img src=x onerror=alert(1)> **b** [x](javascript:alert(1)) :red[r] $x$ www.evil.org \"'&amp;"


def put(
    url: str,
    format: str,
    suite: str,
    hostile: str,
    hardware: str,
    failed: int,
    started: datetime,
    torch_version: str = "2.3.0",
    dated: bool = True,
    name: str = "",
    latency: float = 3.0,
) -> str:
    """Store a run of another tool in which every text is `hostile` and `failed` cases crashed; its id."""
    origin = ForeignOrigin(
        format=format,
        suite=suite,
        started_at=started,
        dated=dated,
        machine=hardware,
        hardware=hardware,
        torch_version=torch_version,
        environment=hostile,
        facts={"file": f"{hostile}.csv"},
    )
    place = SourcePlace("a.csv")
    case = case_key(name or hostile, "infer", {"batch": hostile})
    points = [
        Point(
            case=case, metric="latency", unit="ms", better="lower", values=(latency, latency + 1), place=place
        ),
        Point(
            case=case,
            metric="tool.odd",
            unit=hostile,
            better="higher",
            values=(1.0,),
            place=place,
            title=hostile,
        ),
    ]
    failures = [Failure(case_key(f"{hostile}{n}", "infer"), "crashed", hostile) for n in range(failed)]
    run, definitions, problems = assemble_run(origin, points, failures)
    assert not problems
    with open_with_tables(url) as database:
        save_run(database, run.run)
        save_outcomes(database, run.run.id, run.outcomes)
        save_measurements(database, run.run.id, run.measurements)
        save_metrics(database, definitions)
    return run.run.id


@pytest.fixture(scope="module")
def mixed(filled_url: str, tmp_path_factory: pytest.TempPathFactory) -> tuple[str, str]:
    """A database with two weeks of own nights, and above them a later import; and the import's id."""
    url = sqlite_copy(filled_url, tmp_path_factory.mktemp("mixed"))
    return url, put(url, "torchbench", "group_bench", "model", "A100", MANY, LATER)


@pytest.fixture(scope="module")
def hostile(tmp_path_factory: pytest.TempPathFactory) -> tuple[str, str]:
    """A database with nothing but an import whose every text wants out; and its id."""
    url = f"sqlite:///{tmp_path_factory.mktemp('hostile')}/pyrometer.db"
    return url, put(url, "submitted", HOSTILE, HOSTILE, HOSTILE, MANY, LATER)


def test_imports_of_several_hardware_stand_side_by_side(open_page: Open, url: str) -> None:
    for hardware in ("A100", "H100"):
        put(url, "torchbench", "group_bench", "model", hardware, 0, LATER)
    at = open_page(url, HARDWARE)
    assert at.selectbox(key="choose-metric").options == ["Latency", "model"] and not at.exception
    assert ": ;" not in text(open_page(url, HARDWARE, metric="tool.odd"))
    shown = html(at)
    assert "H100" in shown and "1.00×" in shown and "Cost per 1 M" not in shown
    # A file does not say how many CPUs a process had, so neither does the page.
    assert "CPUs of a process" in shown and "not pinned" not in shown
    assert any("A hint, not a verdict" in each.value for each in at.caption)
    assert "model" in html(open_page(url, HARDWARE, metric="tool.odd"))
    assert open_page(url, HARDWARE, metric="throughput").warning


def test_what_to_type_after_an_import_is_for_a_machine_with_gpus_too(open_page: Open, url: str) -> None:
    put(url, "torchbench", "group_bench", "model", "A100", 0, LATER)
    at = open_page(url, TECHNIQUES)
    (command,) = [each for each in typed(at) if "--suite" in each]
    assert command.startswith("pyrometer run --suite gpu ") and command.endswith("--suite cpu")


def test_imports_that_name_no_pytorch_stand_side_by_side_too(open_page: Open, url: str) -> None:
    for hardware in ("A100", "H100"):
        put(url, "action-benchmark", "benchmarks", "model", hardware, 0, LATER, torch_version="")
    shown = html(open_page(url, HARDWARE))
    assert "H100" in shown and "1.00×" in shown


def test_hardware_opens_on_what_shares_most_cases_and_says_so(open_page: Open, url: str) -> None:
    for hardware, model in (("A100", "alone"), ("H100", "model"), ("H200", "model")):
        put(url, "torchbench", "group_bench", "model", hardware, 0, LATER, name=model)
    at = open_page(url, HARDWARE)
    assert at.selectbox(key="choose-to").value == machine_called("H100", "H100").hardware.fingerprint
    assert any("most cases" in each.value for each in at.caption)
    chosen = open_page(url, HARDWARE, to="A100")
    assert not any("most cases" in each.value for each in chosen.caption), "what was chosen needs no reason"


def test_a_file_that_states_no_time_gives_none_to_any_page(open_page: Open, url: str) -> None:
    runs = [
        put(url, "torchbench", "group_bench", "model", hardware, 1, LATER, dated=False)
        for hardware in ("A100", "H100")
    ]
    pages = {name: html(open_page(url, name)) for name in (RUNS, HARDWARE, RUN_PAIR, HISTORY, TODAY)}
    pages["a run"] = html(open_page(url, RUNS, run=runs[0]))
    assert [name for name, shown in pages.items() if f"{LATER:%Y-%m-%d}" in shown] == []
    assert [name for name, shown in pages.items() if "nknown" not in shown] == []
    dated = put(url, "torchbench", "group_bench", "model", "A100", 0, LATER)
    assert f"{LATER:%Y-%m-%d}" in html(open_page(url, RUNS, run=dated))


@pytest.fixture
def files(url: str) -> str:
    """Two cases of three PyTorch versions on an A100, which no time is known of; a newer file of an H100.

    The files were written in another order than the versions came out; the second case moved.
    """
    for hour, (version, moved) in enumerate((("2.4.0", 1.5), ("1.10.0", 3.0), ("2.1.0", 2.9))):
        for name, latency in (("aardvark", 3.0), ("zebra", moved)):
            put(
                *(url, "torchbench", f"{version} {name}", "model", "A100", 0, LATER + timedelta(hours=hour)),
                torch_version=version,
                dated=False,
                name=name,
                latency=latency,
            )
    put(url, "torchbench", "group_bench", "model", "H100", 0, LATER + timedelta(days=9), name="zebra")
    return url


def test_history_of_files_opens_on_the_longest_series_that_moved_most(open_page: Open, files: str) -> None:
    at = open_page(files, HISTORY)
    a100 = machine_called("A100", "A100").hardware.fingerprint
    assert at.multiselect(key="choose-hardware").value == [a100]
    cases = [each.partition("/")[0] for each in at.multiselect(key="choose-cases").value]
    assert cases == ["zebra", "aardvark"] and not at.warning


def test_files_without_a_time_are_drawn_in_the_order_of_their_versions(open_page: Open, files: str) -> None:
    at = open_page(files, HISTORY)
    assert at.button_group(key="choose-axis").value == "version"
    assert "against 1.10.0" in text(open_page(files, HISTORY, scale="relative"))
    listed = html(open_page(files, HISTORY, shown="grid"))
    zebra = next(row for row in listed.split("<tr") if "zebra" in row and "3 points" in row)
    # Against the versions before the newest one, and not against the file that was written last.
    assert "−42 %" in zebra
    data = html(at).partition('aria-label="The newest points"')[2].partition("</table>")[0]
    assert (
        re.findall(r"\b(?:2\.4|2\.1|1\.10)\.0\b(?=<| )", data)[::2]
        == ["2.4.0"] * 2 + ["2.1.0"] * 2 + ["1.10.0"] * 2
    )
    # Which of them came before another nothing says.
    dated = html(open_page(files, HISTORY, axis="date"))
    opened = [
        html(open_page(files, HISTORY, axis="date", at=each))
        for each in set(re.findall(r"at=(undated-[\w-]+)", dated))
    ]
    assert len(opened) == 6 and not any("Against the point before" in each for each in opened)


def test_files_open_on_the_versions_that_can_be_compared(open_page: Open, files: str) -> None:
    shown = html(open_page(files, UPGRADE))
    (pair,) = re.findall(
        r'href="/compare\?view=runs&amp;a=([\w-]+)&amp;b=([\w-]+)" [^>]*>2.4.0 against 2.1.0', shown
    )
    at = open_page(files, RUN_PAIR)
    assert (at.selectbox(key="choose-a").value, at.selectbox(key="choose-b").value) == pair
    assert html(at).count("zebra") and not at.warning


def test_hardware_of_files_is_compared_though_a_run_is_our_own(open_page: Open, url: str) -> None:
    save(url, run("own"), outcomes([Measured(f"{RESNET}/eager", (10.0, 10.0))]))
    put(url, "torchbench", "group_bench", "model", "A100", 0, LATER)
    assert open_page(url, HARDWARE).selectbox(key="choose-preset").value == "quiet", "nothing else is shared"
    put(url, "torchbench", "group_bench", "model", "H100", 0, LATER)
    st.cache_resource.clear()
    at = open_page(url, HARDWARE)
    assert "H100" in html(at) and "1.00×" in html(at) and not at.warning
    at.selectbox(key="choose-preset").set_value("quiet").run()
    assert at.selectbox(key="choose-preset").value == "quiet" and "H100" not in html(at) and not at.warning
    at.selectbox(key="choose-preset").set_value("torchbench").run()
    assert "H100" in html(at) and not at.warning


def test_today_speaks_of_own_runs_where_there_are_any(open_page: Open, mixed: tuple[str, str]) -> None:
    at = open_page(mixed[0], TODAY)
    shown = html(at)
    assert "Last own run" in shown and "10 of 15" in shown
    assert "Failures in the last 5 own runs" in [each.value for each in at.header]
    before, _, listed = shown.partition('aria-label="Runs"')
    assert mixed[1] not in before and "A100" not in before
    assert mixed[1] in listed and "<small>model.csv</small>" in listed


def test_trends_open_on_the_newest_own_series(open_page: Open, mixed: tuple[str, str]) -> None:
    at = open_page(mixed[0], HISTORY)
    assert "at=run-11&amp;" in html(at) and mixed[1] not in html(at)
    assert "median of all timed iterations" in text(at)
    # What an address asks for comes first.
    with open_with_tables(mixed[0]) as database:
        foreign = next(k for k in series_queries.series_keys(database) if k.preset_name == "torchbench")
    at = open_page(mixed[0], HISTORY, hardware=foreign.hardware)
    assert "as TorchBench user benchmark reports it" in text(at)
    assert "median of all timed iterations" not in text(at)


def test_an_imported_run_took_a_dash_and_says_what_it_was(open_page: Open, mixed: tuple[str, str]) -> None:
    at = open_page(mixed[0], RUNS, run=mixed[1], case="model/infer/batch=model/eager")
    shown = html(at)
    assert re.search(r"<dt>took</dt><dd>–</dd>", shown) and "0 s" not in shown
    assert "model.csv" in shown and "imported from TorchBench user benchmark" in shown
    assert "<dt>imported from</dt>" not in shown
    assert "as TorchBench user benchmark reports it" in shown
    assert METRICS["latency"].meaning not in shown


def test_an_imported_run_is_one_line_of_the_list(
    chromium: Browser, serve: Any, mixed: tuple[str, str]
) -> None:
    visitor = Visitor(chromium, serve(mixed[0]).url)
    page = visitor.open(RUNS)
    for width in (1280, 1680):
        page.set_viewport_size({"width": width, "height": 900})
        rows = page.get_by_role("region", name="Runs", exact=True).locator("tbody tr")
        expect(rows.filter(has_text="imported from TorchBench user benchmark")).to_have_count(1)
        heights = rows.evaluate_all("all => all.map(row => row.getBoundingClientRect().height)")
        assert len(heights) == 13 and max(heights) <= 36
        assert fits(page)
        # What is cut of a line stands in its tooltip.
        whole = rows.first.locator("span[title]").evaluate_all("all => all.map(e => e.title)")
        assert "group_bench · model.csv · imported from TorchBench user benchmark" in whole
    assert visitor.leave() == []


def test_a_long_list_of_failures_is_cut_and_says_where_the_rest_is(hostile: tuple[str, str]) -> None:
    with open_with_tables(hostile[0]) as database:
        (summary,) = queries.recent_runs(database)
        outcomes = queries.outcomes_of_run(database, hostile[1])
    items = [(summary, outcome) for outcome in outcomes if outcome.status != "ok"]
    odd = replace(items[0][1], status="contended", case="odd/infer/-/eager")
    shown = tables.failures([(summary, odd), *items], LATER)
    assert shown.count("Log →") == 20 and "contended" not in shown
    assert f'and 6 more in <a href="{links.run(summary.id)}"' in shown
    assert "more in" not in tables.failures(items[:20], LATER)


def test_a_script_says_what_its_numbers_mean() -> None:
    own, script = (
        RunSummary(source, "s", LATER, None, "complete", "m", "h", (), "p", 1, {}, source=source)
        for source in (RunSource.MEASURED, RunSource.SUBMITTED)
    )
    assert [tables.source_tool(each) for each in (own, script)] == ["", "the script"]


@pytest.mark.parametrize("page", [TODAY, HISTORY, RUNS, "a run", "a case", "a metric"])
def test_no_text_of_a_file_becomes_html_or_markdown(
    open_page: Open, hostile: tuple[str, str], page: str
) -> None:
    url, run = hostile
    queries: dict[str, dict[str, Any]] = {
        "a run": {"run": run},
        "a case": {"run": run, "case": case_key(HOSTILE, "infer", {"batch": HOSTILE})},
        "a metric": {"metric": "tool.odd", "hardware": HOSTILE, "case": HOSTILE},
    }
    at = open_page(
        url, {"a metric": HISTORY}.get(page, page if page.startswith("/") else RUNS), **queries.get(page, {})
    )
    assert not at.exception
    shown = html(at)
    assert "&lt;img src=x onerror=alert(1)&gt;" in shown
    assert "<img" not in shown and "\"'&amp;" not in shown
    markdown = [*at.header, *at.caption, *at.warning, *at.markdown]
    for words in (str(each.value) for each in markdown):
        assert not re.search(r"(?<!\\)(<img|\*\*|\[x\]|:red|\$x|&amp;|www\.evil)", words), words


def test_plain_text_says_nothing_in_markdown() -> None:
    assert parts.plain("# a\n# b") == "\\# a \\# b"
    assert parts.plain("www.a.org a@b http://c") == "www\u2060.a.org a@\u2060b http\\:\u2060//c"
    assert parts.plain("a/b-c 1.5 %") == "a/b-c 1.5 %"


def test_an_unknown_duration_is_a_dash() -> None:
    assert wording.duration(0.0) == wording.duration(None) == "–"
    assert wording.duration(0.004) == "0.00400 s"


def test_the_metric_with_most_cases_to_compare_comes_first(url: str) -> None:
    place = SourcePlace("a.csv")
    for hardware, cases in (("h1", "ab"), ("h2", "ab"), ("h3", "c"), ("h4", "d")):
        points = [
            Point(
                case=case_key(each, "infer"),
                metric=metric,
                unit="ms",
                better="lower",
                values=(3.0,),
                place=place,
            )
            for each in cases
            for metric in ("tool.rare", *(["tool.shared"] if each in "ab" else []))
            if (metric, each) != ("tool.rare", "b")
        ]
        origin = ForeignOrigin(
            format="torchbench",
            suite="suite",
            started_at=LATER,
            machine=hardware,
            hardware=hardware,
            torch_version="2.3.0",
        )
        run, definitions, _ = assemble_run(origin, points, [])
        with open_with_tables(url) as database:
            save_run(database, run.run)
            save_outcomes(database, run.run.id, run.outcomes)
            save_measurements(database, run.run.id, run.measurements)
            save_metrics(database, definitions)
    assert list(hardware_load.imported_metrics(url)) == ["tool.shared", "tool.rare"]
