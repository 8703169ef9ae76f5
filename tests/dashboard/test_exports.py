"""Pages to take along: whole as Markdown, every table as CSV, every chart under a name of its own."""

import csv
import io
import re
from collections.abc import Sequence
from dataclasses import replace
from datetime import UTC, datetime
from operator import itemgetter
from pathlib import Path

import pandas as pd
import pytest
from streamlit.testing.v1 import AppTest

from dashboard.components import links, markup, parts, tables
from dashboard.exports import page_recorder as shown
from dashboard.exports.page_recorder import PageItem, PageRecord, frame_of
from dashboard.regressions import findings as findings_page
from dashboard.runs import run_tables
from db.connection.engine import open_database
from db.findings import store as findings
from db.runs import queries
from records.evidence import evidence_body
from records.runs import RunSummary
from reports.table import Column, DataTable
from reports.text.html_markdown import convert_html
from support.builders import technique_runs, upgrade_journals
from support.builders.detection_nights import HOSTILE, Nights, a_regression
from support.builders.run_records import BERT, MLP, RESNET, a_run
from support.golden import Golden
from support.pages import (
    HARDWARE,
    HISTORY,
    MACHINES,
    REGRESSIONS,
    RUNS,
    SCHEDULE,
    TECHNIQUES,
    TODAY,
    UPGRADE,
    UTILISATION,
    Open,
    typed,
)

HOME = "http://bench:8501/run"
NOON = datetime(2026, 9, 20, 12, 30, tzinfo=UTC)

#: Every page, the query that opens it, and its golden file.
PAGES: list[tuple[str, dict[str, str], str]] = [
    (TODAY, {}, "today.md"),
    (HISTORY, {}, "history.md"),
    (TECHNIQUES, {"hardware": technique_runs.fingerprint(technique_runs.CPU)}, "techniques.md"),
    (HARDWARE, {"to": technique_runs.fingerprint(technique_runs.CPU)}, "hardware.md"),
    (UPGRADE, {"run": upgrade_journals.RUN}, "upgrade.md"),
    (UTILISATION, {}, "utilisation.md"),
    (REGRESSIONS, {}, "regressions.md"),
    (REGRESSIONS, {"finding": "1"}, "finding.md"),
    (MACHINES, {}, "machines.md"),
    (SCHEDULE, {}, "schedule.md"),
    (RUNS, {}, "runs.md"),
    (RUNS, {"run": "run-11"}, "run.md"),
    (RUNS, {"run": "run-11", "case": RESNET, "replicate": "1"}, "outcome.md"),
    (RUNS, {"run": "run-11", "case": BERT, "replicate": "1"}, "crashed.md"),
]


def written(record: PageRecord) -> str:
    return shown.of_page(record, HOME, NOON)


def downloads(at: AppTest) -> list[str]:
    return [each.proto.label for each in at.get("download_button")]


def undated(text: str) -> str:
    """The text without how long ago something was."""
    return re.sub(r"\b\d+ [a-z]+ ago\b", "AGO", text)


@pytest.mark.parametrize(("path", "query", "name"), PAGES, ids=[name for _, _, name in PAGES])
def test_every_page_can_be_taken_along_as_markdown_and_its_tables_as_csv(
    open_page: Open,
    past_url: str,
    records: list[PageRecord],
    golden: Golden,
    path: str,
    query: dict[str, str],
    name: str,
) -> None:
    at = open_page(past_url, path, **query)
    assert not at.exception
    heading: PageItem | None = None
    found = 0
    for piece in records[-1].pieces:
        if piece.kind == "heading":
            heading = piece
        if piece.kind == "table" or (piece.kind == "html" and "<table" in piece.text):
            assert heading is not None and heading.csv_of is not None, piece.text[:200]
            assert len(frame_of(heading.csv_of)) > 0
            found += 1
    charts = any(piece.kind == "chart" for piece in records[-1].pieces)
    assert found or (charts and heading is not None and heading.csv_of is not None)
    # An open panel lies over the foot of the page.
    assert downloads(at).count("Page as Markdown") == (2 if name in ("outcome.md", "crashed.md") else 1)
    text = written(records[-1])
    golden.check(name, undated(text))
    assert text.count("\n## ") == sum(piece.kind == "heading" for piece in records[-1].pieces)
    assert len(text) < 65_536, "an issue holds no more"
    assert "\x1b" not in text
    assert "<" not in re.sub(r"```.*?```|`[^`\n]*`", "", text, flags=re.DOTALL)


def test_the_newest_run_is_called_by_its_name_for_tomorrow_there_is_another(
    open_page: Open, past_url: str, records: list[PageRecord]
) -> None:
    with open_database(past_url) as database:
        (newest,) = queries.recent_runs(database, limit=1)
    open_page(past_url, RUNS, run="latest", case=RESNET)
    assert records[-1].pinned == links.run(newest.id, {"run": ["latest"], "case": [RESNET]})
    open_page(past_url, RUNS, run="run-11")
    assert records[-1].pinned == ""


def test_the_address_is_the_one_that_shows_the_same_tomorrow() -> None:
    assert shown.address(HOME, {"run": ["a b"], "case": ["x", "y"]}, "") == f"{HOME}?run=a+b&case=x&case=y"
    assert shown.address("http://bench:8501/explore", {}, "/explore?view=history&metric=latency") == (
        "http://bench:8501/explore?view=history&metric=latency"
    )
    assert shown.address("", {}, "") == ""


def test_complaints_are_exported_too(open_page: Open, past_url: str, records: list[PageRecord]) -> None:
    open_page(past_url, RUNS, run="run-1l")
    assert "> ! There is no run 'run-1l' in this database; did you mean 'run-1'?" in written(records[-1])


@pytest.mark.parametrize("path", [TODAY, RUNS, REGRESSIONS])
def test_a_page_with_nothing_to_show_has_nothing_to_take_along(
    open_page: Open, empty_url: str, path: str
) -> None:
    at = open_page(empty_url, path)
    assert "Page as Markdown" not in downloads(at)


def test_the_markdown_is_shown_on_request(open_page: Open, past_url: str) -> None:
    at = open_page(past_url, RUNS, run="run-11")
    assert not any(code.startswith("# Runs") for code in typed(at))
    at.toggle(key="show-markdown-runs").set_value(True).run()
    assert any(code.startswith("# Runs") for code in typed(at))


def test_nothing_is_recorded_between_runs_of_a_script() -> None:
    shown.note("words", "lost")
    with shown.record_page() as one:
        shown.note("words", "kept")
        with shown.record_page() as inner:
            shown.section("A", None, "a.csv")
        shown.note("words", "too")
    assert [piece.text for piece in one.pieces] == ["kept", "too"]
    assert [piece.text for piece in inner.pieces] == ["A"]
    assert not inner.empty and PageRecord("x", [PageItem("title", "x"), PageItem("complaint", "y")]).empty


def test_a_chart_is_saved_under_the_name_of_its_section() -> None:
    with shown.record_page():
        assert [shown.chart_name(), shown.chart_name()] == ["chart", "chart-2"]
        shown.section("Samples", None, "samples-run 1/x.csv")
        assert [shown.chart_name(), shown.chart_name()] == ["samples-run-1-x", "samples-run-1-x-2"]
        assert shown.chart_name("Own name") == "own-name"
    assert shown.chart_name() == "chart"


def test_buttons_say_what_they_save_and_escape_it() -> None:
    made = markup.chart_buttons('Latency of "<b>"', "trend", "Latency", "<i>")
    assert made.count("<button") == 2 and "<b>" not in made
    assert 'aria-label="SVG file of the chart: Latency of &quot;&lt;b&gt;&quot;"' in made
    assert (
        ">PNG</button>" in made and 'data-name="trend" data-title="Latency" data-subtitle="&lt;i&gt;"' in made
    )


def test_the_script_holds_nothing_that_a_sanitizer_would_drop() -> None:
    inside = shown.browser_script().removeprefix("<script>").removesuffix("</script>")
    assert not re.search(r"<[/\w!]", inside)
    assert "http" not in inside.replace("http://www.w3.org/", "")


def a_table(heads: Sequence[tuple[str, bool]], rows: Sequence[tuple[str, ...]]) -> str:
    columns: list[Column[tuple[str, ...]]] = [
        Column("", title, html=itemgetter(place), number=number)
        for place, (title, number) in enumerate(heads)
    ]
    return DataTable("x", columns, rows).html()


def test_tables_lists_cards_and_links_become_markdown() -> None:
    link = markup.link("/runs?run=a(b)|c", "Open [it] →")
    rows = [(markup.case(RESNET), "<strong>1</strong><small>n 3</small>"), (link, markup.chip("ok", 3))]
    assert convert_html(a_table([("Case", False), ("N|o", True)], rows), HOME).splitlines() == [
        "| Case | N&#124;o |",
        "| --- | --- |",
        "| resnet50 · infer `eager` · batch=8 image=224 | 1 · n 3 |",
        "| [Open &#91;it&#93; →](http://bench:8501/runs?run=a%28b%29%7Cc) | ✓ 3 ok |",
    ]
    cards = markup.panels(
        markup.card("Runs", "5", markup.link("/runs", "All →")), markup.card("Other", "6", "")
    )
    assert convert_html(cards, HOME) == "- Runs · 5 · [All →](http://bench:8501/runs)\n- Other · 6"
    assert convert_html(cards, "") == "- Runs · 5 · All →\n- Other · 6"
    facts = convert_html(markup.facts("Machine", "bench", {"cores": 2, "build": "flag " * 100}), HOME)
    assert facts.startswith("### Machine\n\nbench\n\n- cores: 2\n- build: flag flag")
    assert facts.count("flag") == 100


def test_no_text_becomes_markup_on_its_way_to_markdown() -> None:
    nasty = "@ann #1 | *b* ![x](http://evil) <img src=x> `c` __d__"
    for made in (
        convert_html(a_table([("A", False)], [(markup.case(nasty),)]), HOME),
        convert_html(markup.notes([nasty]), HOME),
        shown.plain_words(parts.plain(nasty)),
        shown.of_page(PageRecord("x", [PageItem("chart", nasty), PageItem("complaint", nasty)]), "", NOON),
    ):
        # An entity is the sign it stands for and nothing more.
        plain = re.sub(r"&#\d+;", "", made)
        for sign in ("@ann", "#1", "*b*", "](http", "<img", "`c`", "__d__"):
            assert sign not in plain, made


def test_a_script_address_is_no_link() -> None:
    assert convert_html('<a href="javascript:alert(1)">x</a>', HOME) == "x"


def test_long_tables_and_logs_are_cut_and_say_so() -> None:
    rows = [(str(number),) for number in range(60)]
    table = convert_html(a_table([("N", True)], rows), HOME)
    assert table.count("\n| ") == 51 and table.endswith("and 10 more rows, which the CSV file has")
    frame = pd.DataFrame({"n": range(60), "x": [None, 0.123456789, *[float("nan")] * 58], "t": [NOON] * 60})
    record = PageRecord("x", [PageItem("heading", "A", lambda: frame)])
    text = written(record)
    assert "and 10 more rows" in text and "| 1 | 0.123 | 2026-09-20 12:30 UTC |" in text
    assert "| 0 | – |" in text
    log = written(PageRecord("x", [PageItem("code", "\n".join(f"line {n}" for n in range(100)) + "\n```")]))
    assert "the last 40 of 101 lines" in log and "line 60\n" not in log and "\n````" in log


def test_the_facts_of_a_run_are_a_csv_file(past_url: str) -> None:
    with open_database(past_url) as database:
        run = queries.run_record(database, "run-11")
    assert run is not None
    frame = run_tables.facts_frame(run)
    assert set(frame["of"]) == {"machine", "environment", "preset", "run"}
    assert frame.query("fact == 'harness'")["value"].tolist() == ["harness-1f3a"]


def test_whole_numbers_of_a_column_with_gaps_stay_whole() -> None:
    about = ("s", a_run().started_at, None, "complete", "m", "h", (), "p", 12)
    runs = [RunSummary("a", *about, {"ok": 12}), RunSummary("b", *about, {"ok": 3, "crashed": 9})]
    written = [*csv.DictReader(io.StringIO(parts.csv(shown.frame_of(tables.runs(runs, NOON))).decode()))]
    assert [(row["ok"], row["crashed"]) for row in written] == [("12", ""), ("3", "9")]
    frame = pd.DataFrame({"some": [1.5, None], "large": [1e300, None], "none": [None, None]}, dtype=float)
    assert parts.csv(frame).decode().splitlines()[1] == "1.5,1e+300,"


@pytest.mark.parametrize(
    ("value", "digits"),
    [
        (1234567.891, "1234567.891"),
        (0.123456789, "0.123456789"),
        (25557032, "25557032"),
        (-5, "-5"),
        (2**64, str(2**64)),
        pytest.param(10**5000, "a number too long to print", id="of 5,001 digits"),
        ([1, None, "=x"], '"1, None, =x"'),
        ("=1+1", "'=1+1"),
        (True, "True"),
        (float("nan"), "nan"),
        (float("-inf"), "'-inf"),
        (None, ""),
        ({"b": 1.5}, "1.5"),
    ],
)
def test_the_file_of_facts_has_all_their_digits(value: object, digits: str) -> None:
    written = parts.csv(run_tables.facts_frame(replace(a_run(), facts={"a": value}))).decode()
    assert written.endswith(f"{',a b,' if isinstance(value, dict) else ',a,'}{digits}\r\n")


def test_a_wide_table_keeps_all_columns_that_have_a_value() -> None:
    frame = pd.DataFrame([range(20)], columns=[f"c{n}" for n in range(20)]).assign(empty=None)
    text = written(PageRecord("x", [PageItem("heading", "A", lambda: frame)]))
    head, _, row = [line for line in text.splitlines() if line.startswith("|")]
    assert head.strip("| ").split(" | ") == [f"c{n}" for n in range(20)]
    assert row.strip("| ").split(" | ") == [str(n) for n in range(20)]


def test_numbers_have_the_digits_of_the_page() -> None:
    frame = pd.DataFrame({"n": [3.0, None], "speed_up": [1.92456, 1.0], "run": ["a", "b"]})
    text = written(PageRecord("x", [PageItem("heading", "A", lambda: frame)]))
    assert [line for line in text.splitlines() if line.startswith("|")] == [
        "| n | speed up | run |",
        "| --- | --- | --- |",
        "| 3 | 1.92 | a |",
        "| – | 1.00 | b |",
    ]


def test_a_chart_without_a_table_is_exported_as_its_data() -> None:
    columns: list[Column[float]] = [
        Column("case", "Case", lambda row: "x"),
        Column("speed_up", "Speed-up", lambda row: row, lambda row: f"{row:.2f}×"),
    ]
    heading = PageItem("heading", "A", DataTable("A", columns, [1.92456]))
    text = written(PageRecord("x", [heading, PageItem("chart", "Speed-up: " + "case 1.92×; " * 200)]))
    assert "| Case | Speed-up |\n| --- | --- |\n| x | 1.92× |" in text and "speed_up" not in text
    (line,) = [line for line in text.splitlines() if line.startswith("> Chart:")]
    assert line.startswith("> Chart: Speed-up: case 1.92×;") and len(line) < 220


def test_addresses_of_ours_can_be_read() -> None:
    text = written(
        PageRecord("Runs", [PageItem("html", '<p><a href="https://a.example/1">https://a.example/1</a></p>')])
    )
    assert f"[Runs]({HOME}), as of" in text
    assert "[https://a.example/1](https://a.example/1)" in text and "&#58;" not in text


def test_a_log_keeps_its_tabs() -> None:
    assert "a\tb\n\tc" in written(PageRecord("x", [PageItem("code", "a\tb\n\tc\n")]))


def test_commands_stay_lines_of_their_own() -> None:
    commands = "<pre><code>pyrometer run &amp;&amp; a\nb  c</code></pre>"
    body = f"<p>These:</p><details><summary>two</summary>{commands}</details>"
    assert convert_html(body, HOME) == "These:\n\ntwo\n\n```text\npyrometer run && a\nb  c\n```"
    cell = f"<table><tr><td>why</td></tr><tr><td>slower{body}</td></tr></table>"
    assert "| slower · These: `pyrometer run && a` · `b c` |" in convert_html(cell, HOME)
    long = "<dl><dt>built</dt><dd><details><summary>a …</summary><pre>a\nb *c*</pre></details></dd></dl>"
    assert convert_html(long, HOME) == "- built: a b &#42;c&#42;"


def test_no_cell_of_the_evidence_starts_a_formula(tmp_path: Path) -> None:
    with open_database(f"sqlite:///{tmp_path}/pyrometer.db") as database:
        Nights(database).add(range(4))
        one = a_regression(database)
        findings.triage(database, one.id, "note", "=ann", "=1+1", None, NOON)
        log = findings.triage_log(database, one.id)
    body = evidence_body(one.evidence)
    for name in ("related", "moved_with", "operators", "verdict"):
        assert len(findings_page.evidence_frame(body[name])) == 1
    assert parts.csv(frame_of(findings_page.log(log))).decode().splitlines()[1].endswith(",'=ann,note,'=1+1")
    (change,) = findings_page.changes(one.evidence.changes).records()
    assert change["after"] == HOSTILE
    for name in ("related", "moved_with", "verdict"):
        assert "ratio" in (shown := findings_page.evidence_frame(body[name])) and "change" not in shown


def test_no_name_of_a_column_starts_a_formula() -> None:
    rows: list[dict[str, object]] = [{"=1+1": 1, "@a": -0.5, "low": "-x"}]
    assert parts.csv(findings_page.evidence_frame(rows)).decode().splitlines() == [
        "'=1+1,'@a,low",
        "1,-0.5,'-x",
    ]
    assert parts.csv(pd.DataFrame([[1, 2]], columns=["=a", "=a"])).decode().splitlines()[0] == "'=a,'=a"
    assert parts.csv(pd.DataFrame()).strip() == b""


def test_every_line_end_in_a_text_comes_back() -> None:
    texts = ["10%\r100%", "a\nb", "a\r\nb", 'a,"b"', "\rb", "plain"]
    body = parts.csv(pd.DataFrame({"reason": texts, "n": range(len(texts))}))
    header, *rows = csv.reader(io.StringIO(body.decode(), newline=""))
    # One begins as what a spreadsheet may take for a formula does.
    assert header == ["reason", "n"] and [row[0].removeprefix("'") for row in rows] == texts
    assert pd.read_csv(io.BytesIO(body))["n"].tolist() == [*range(len(texts))]


def test_a_letter_and_its_case_are_two_words() -> None:
    assert convert_html(markup.legend([MLP, RESNET])).splitlines() == [
        "- A mlp_overhead · infer `eager` · batch=8",
        "- B resnet50 · infer `eager` · batch=8 image=224",
    ]
