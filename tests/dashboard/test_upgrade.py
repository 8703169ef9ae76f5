"""The upgrade page: the verdict of the report, rules in the address, and honesty where there is nothing."""

import json
import math
import re
import shutil
import tomllib
from collections.abc import Callable
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest
from playwright.sync_api import expect
from sqlalchemy import update

from analysis.comparison.policy import Policy
from analysis.decision.comparison import COMPARED, DECIDED, Comparison
from dashboard.exports.page_recorder import PageRecord
from dashboard.upgrades import load
from dashboard.upgrades.rules import RuleChanges
from db.connection.engine import open_database
from db.runs import queries
from db.schema import core_tables as tables
from reports.upgrade_report import FORMATS, JudgedUpgrade
from support.builders.upgrade_journals import (
    BEGUN,
    BERT,
    BERT_COMPILED,
    GPT,
    GPT_COMPILED,
    KINDS,
    RESNET,
    RUN,
    Story,
    store_upgrades,
)
from support.builders.upgrade_reports import NASTY
from support.pages import UPGRADE, Open, csv_of_section, html, text, typed
from support.servers.browser import Visitor, drawn, fits
from workflows.load_run import judge_loaded, load_run

Filled = Callable[..., str]


@pytest.fixture(scope="module")
def stored(tmp_path_factory: pytest.TempPathFactory) -> Callable[..., Path]:
    """Answers a folder with the database and the journals of some upgrades; the same ones are stored once."""
    made: dict[str, Path] = {}

    def store(*stories: Story) -> Path:
        key = repr(stories)
        if key not in made:
            made[key] = tmp_path_factory.mktemp("upgrades")
            store_upgrades(made[key], *stories)
        return made[key]

    return store


@pytest.fixture
def filled(stored: Callable[..., Path], tmp_path: Path) -> Filled:
    """Makes a database of this test's own with some upgrades, and answers its URL."""

    def fill(*stories: Story) -> str:
        shutil.copytree(stored(*stories), tmp_path, dirs_exist_ok=True)
        return f"sqlite:///{tmp_path}/filled/pyrometer.db"

    return fill


def judged(url: str, changed: RuleChanges | None = None) -> JudgedUpgrade:
    """What the page judges, by the rules of its address."""
    return load.judged_by(url, RUN, 0, "complete", changed or RuleChanges()).judged


class Cells(dict[str, str]):
    """The texts of a matrix by case, and the attributes of each cell in `shaded`."""

    shaded: dict[str, str]


def cells(shown: str) -> Cells:
    """The matrix of a page: a line has a technique, a column a workload."""
    table = re.search(r'<table class="py-matrix">(.*?)</table>', shown, re.DOTALL)
    assert table is not None
    workloads = [
        f"{name.replace(' ', '/')}/{parameters.replace(' ', ',')}"
        for name, parameters in re.findall(r'<th scope="col">([^<]*)<small>(.*?)</small></th>', table[1])
    ]
    found = Cells()
    found.shaded = {}
    for line in re.findall(r"<tr>(.*?)</tr>", table[1], re.DOTALL)[1:]:
        technique = re.sub(r"<[^>]+>", "", re.findall(r"<th .*?</th>", line)[0])
        for workload, (about, cell) in zip(workloads, re.findall(r"<td(.*?)>(.*?)</td>", line), strict=True):
            case = f"{workload}/{technique.replace(' ', ',')}"
            found[case], found.shaded[case] = re.sub(r"<[^>]+>", "", cell).strip(), about
    return found


@pytest.mark.parametrize("database", ["empty_url", "filled_url"])
def test_without_an_upgrade_the_page_says_what_to_type(
    database: str, request: pytest.FixtureRequest, open_page: Open
) -> None:
    page = open_page(request.getfixturevalue(database), UPGRADE)
    assert "No upgrade measured yet" in html(page) and "py-verdict" not in html(page)
    assert typed(page)[0] == "pyrometer upgrade OLD NEW --suite cpu"


def test_the_verdict_comes_first_and_correctness_before_speed(open_page: Open, filled: Filled) -> None:
    page = open_page(filled(Story(broken=(GPT_COMPILED,))), UPGRADE)
    shown = html(page)
    assert (
        f'No-go</p><div class="py-words"><p>{GPT_COMPILED} broke: crashed (6 of 6 replicates: RuntimeError'
        in shown
    )
    assert "2.13.0 → 2.15.0 <small>on Xeon 6430, 2 cores, suite cpu, 2026-11-21 14:46 UTC" in shown
    titles = [each.value for each in page.header]
    assert titles == [
        "Hardware",
        "Every case, change in %",
        "Correctness",
        "What moved: Latency (min-based)",
        "Reasons, in order of weight",
        "Over all, and by technique",
        "Compile time",
        "Memory",
        "First call",
        "Graph breaks",
        "Exclusions",
        "What else differs between the environments",
        "How it was measured",
        "Measure a case again",
        "Upgrades",
    ]
    assert f"pyrometer upgrade 2.13.0 2.15.0 --case {RESNET} --suite cpu --pairs 12" in shown
    # What differs, why a pair does not count, and which telemetry was missing.
    for part in ("triton", "2.4.0", "had 55 % of its core", "frequency is not readable"):
        assert part in shown


def test_the_page_says_what_the_command_says(tmp_path: Path, open_page: Open, filled: Filled) -> None:
    url = filled()
    loaded = judge_loaded(load_run(tmp_path / "data", RUN, lambda: open_database(url)))
    assert loaded is not None
    of_the_command, of_the_page = (json.loads(FORMATS[".json"](each)) for each in (loaded, judged(url)))
    del of_the_command["run"]["ended_at"], of_the_page["run"]["ended_at"]
    assert of_the_page == of_the_command
    page = open_page(url, UPGRADE)
    for reason in of_the_command["reasons"]:
        assert reason["text"] in html(page)
    assert f"<p>{of_the_command['headline'].partition(': ')[2]}</p>" in html(page)
    offered = [each.proto.label for each in page.get("download_button")]
    assert [label for label in offered if label not in ("CSV", "Markdown", "Page as Markdown")] == [
        "Report as HTML",
        "Report as Markdown",
        "Report as JSON",
    ]


def test_a_threshold_in_the_address_judges_anew(open_page: Open, filled: Filled) -> None:
    url = filled()
    before = judged(url).upgrade
    assert before.verdicts[RESNET].word == "slower" and before.decision == "no-go"
    page = open_page(url, UPGRADE, threshold="8")
    after = judged(url, RuleChanges(threshold=8.0)).upgrade
    # The word of a case changes; from what on a case is materially slower is another rule.
    assert after.verdicts[RESNET].word == "same" and after.decision == "no-go"
    assert "same within ±8 %" in html(page)
    (said,) = [each.value for each in page.warning]
    assert said.startswith("Judged by the rules in this address, not by those of pyrometer.toml")
    assert "by those it is No-go." in said
    # The report that is taken along says so too.
    assert "judged by rules that a reader of the dashboard chose" in FORMATS[".md"](
        judged(url, RuleChanges(threshold=8.0))
    )
    # The page's own link shows the same thing.
    assert f'href="/compare?run={RUN}&amp;threshold=8&amp;shown=latency_floor"' in html(page)
    kept = next(each for each in typed(page) if each.startswith("[policies"))
    assert tomllib.loads(kept)["policies"]["ours"]["thresholds"] == {"latency_floor": 0.08}


def test_metric_weights_and_guards_in_the_address_count(open_page: Open, filled: Filled) -> None:
    url = filled()
    page = open_page(url, UPGRADE, metric="throughput")
    assert "What moved: Throughput" in [each.value for each in page.header]
    assert "higher is better" in html(page)
    page = open_page(url, UPGRADE, must=BERT_COMPILED, weight=[f"{BERT}:0.5", "resnet50/*:2"])
    assert f"{BERT_COMPILED}: Latency (min-based) unclear" in html(page)
    assert "it must not regress" in html(page)
    assert "counts 2 times" in html(page) and "counts 0.5 times" in html(page)
    assert page.text_area(key="rules-weight").value == f"{BERT}:0.5\nresnet50/*:2"


def test_the_matrix_shows_the_metric_that_is_chosen_and_only_what_is_proved_is_shaded(
    open_page: Open, filled: Filled
) -> None:
    url = filled(Story(broken=(GPT_COMPILED,)))
    page = open_page(url, UPGRADE)
    assert page.button_group(key="choose-shown").value == "latency_floor"
    latency = cells(html(page))
    assert latency[BERT] == "· same"
    assert latency[RESNET].startswith("▲ slower +7.0 %") and "py-shaded" in latency.shaded[RESNET]
    assert latency[GPT_COMPILED] == "✗ broken" and re.fullmatch(
        r"\? unclear -.* % to \+.* %", latency[BERT_COMPILED]
    )
    assert "py-shaded" not in latency.shaded[BERT] + latency.shaded[BERT_COMPILED]
    memory = cells(html(open_page(url, UPGRADE, shown="rss_peak_steady")))
    assert memory[BERT] == "▲ worse +9.0 %" and memory[GPT_COMPILED] == "✗ broken"
    unknown = open_page(url, UPGRADE, shown="beauty")
    assert "nknown shown" in unknown.warning[0].value and cells(html(unknown))[BERT] == "· same"


def test_the_matrix_csv_has_the_selected_metric(
    open_page: Open, filled: Filled, records: list[PageRecord]
) -> None:
    url = filled(Story(broken=(GPT_COMPILED,)))
    changes: dict[str, float] = {}
    for metric in ("latency_floor", "rss_peak_steady"):
        open_page(url, UPGRADE, shown=metric)
        frame = csv_of_section(records[-1], "Every case, change in %").set_index("case")
        changes[metric] = frame.loc[BERT, "ratio"]
        assert frame.loc[BERT, "metric"] == metric
    assert changes["latency_floor"] == pytest.approx(1.0, abs=0.01)
    assert changes["rss_peak_steady"] == pytest.approx(1.09, abs=0.001)


def test_cases_stand_in_groups_and_what_did_not_move_is_folded(open_page: Open, filled: Filled) -> None:
    page = open_page(filled(Story(broken=(GPT_COMPILED,))), UPGRADE)
    assert "2 same" in [each.label for each in page.expander]
    groups = re.findall(r'<h3 class="py-sub">(\d+ [a-z]+)</h3>', html(page))
    assert groups[:4] == ["1 broken", "1 slower", "1 unclear", "1 faster"]
    assert "Also: numpy 2.3.1 to 2.4.0, triton – to 3.8.0." in html(page)


def test_what_blocks_by_itself_is_waived_by_a_command(open_page: Open, filled: Filled) -> None:
    page = open_page(filled(Story(broken=(GPT_COMPILED,), still=True, memory=1.0)), UPGRADE)
    assert page.expander[0].label == "Waive 1 blocker" and "1 blocker; without it: " in html(page)
    assert typed(page)[0] == f"pyrometer report {RUN} --waive {GPT_COMPILED} --because REASON"


def test_a_case_opens_in_a_panel_with_all_that_is_known_of_it(
    open_page: Open, filled: Filled, records: list[PageRecord]
) -> None:
    url = filled(Story(broken=(GPT_COMPILED,)))
    shown = html(open_page(url, UPGRADE, threshold="8"))
    # Each cell of the matrix, and each row of the cases, by the rules that hold.
    for metric in ("&amp;shown=latency_floor", ""):
        address = f"/compare?run={RUN}&amp;threshold=8{metric}&amp;detail="
        assert shown.count(f'href="{address}') == len(KINDS)
    page = open_page(url, UPGRADE, detail=RESNET)
    assert not page.exception and not page.warning
    pieces = records[-1].pieces
    tables = {piece.text: piece.table for piece in pieces if piece.kind == "table" and piece.table}
    assert [one.metric for one in tables["Every metric"].rows][:1] == ["latency_floor"]
    (row, *_), (verdict, *_) = tables["Every metric"].records(), tables["Every metric"].rows
    assert row["ratio"] == math.exp(verdict.change) and "change" not in row, "files hold ratios"
    assert row["ratio_low"] < row["ratio"] < row["ratio_high"]
    # Twelve processes were measured; all others were not needed.
    assert [one.status for one in tables["Processes"].rows] == ["ok"] * 12
    assert tables["Processes"].omitted > 0
    assert any(piece.text.startswith(f"pyrometer upgrade 2.13.0 2.15.0 --case {RESNET}") for piece in pieces)
    open_page(url, UPGRADE, detail=GPT_COMPILED)
    (failed,) = [piece.table for piece in records[-1].pieces if piece.text == "Processes" and piece.table]
    assert failed.rows[0].status == "crashed", "what did not end well comes first"
    unknown = open_page(url, UPGRADE, detail="nothing")
    assert unknown.warning[0].value.startswith("Unknown case")


def test_limits_of_a_case_in_the_address_decide(open_page: Open, filled: Filled) -> None:
    url = filled()
    assert judged(url).upgrade.decision == "no-go"
    # 7 % is not material then, and no single case may be as slow.
    assert judged(url, RuleChanges(case=12.0)).upgrade.decision == "go"
    page = open_page(url, UPGRADE, case="12", worst="latency_floor:5")
    after = judged(url, RuleChanges(case=12.0, worst=(("latency_floor", 5.0),))).upgrade
    assert [reason.cases for reason in after.grounds] == [(RESNET,)] and after.decision == "no-go"
    assert "No-go</p>" in html(page)
    assert page.number_input(key="rules-case").value == 12.0
    assert page.text_area(key="rules-worst").value == "latency_floor:5"


@pytest.mark.parametrize(
    ("query", "said"),
    [
        ({"threshold": "much"}, 'not "much"'),
        ({"threshold": "0"}, "needs a threshold above 0"),
        ({"threshold": "nan"}, "from 0 to 100"),
        ({"metric": "latency_flor"}, 'did you mean "latency_floor"?'),
        ({"metric": "power"}, "Unknown metric"),
        ({"weight": "bert"}, 'not "bert"'),
        ({"weight": "bert:-1"}, "numbers above 0"),
        ({"case": "much"}, 'not "much"'),
        ({"case": "0"}, "numbers above 0"),
        ({"worst": "10"}, 'not "10"'),
        ({"worst": "latency_flor:10"}, 'did you mean "latency_floor"?'),
        ({"worst": "latency_floor:-1"}, "numbers above 0"),
    ],
)
def test_rules_that_cannot_be_meant_are_said_and_left_out(
    open_page: Open, filled: Filled, query: dict[str, Any], said: str
) -> None:
    page = open_page(filled(), UPGRADE, **query)
    (warning,) = [each.value.replace("\\", "") for each in page.warning]
    assert said in warning and warning.endswith("the rule is ignored.")
    assert "No-go</p>" in html(page)


def test_rules_that_match_no_case_are_said(open_page: Open, filled: Filled) -> None:
    page = open_page(filled(), UPGRADE, must="no_such_model/*")
    warnings = [each.value.replace("\\", "") for each in page.warning]
    assert 'must_not_regress: "no_such_model/*" matches none of the 6 cases.' in warnings


def test_the_form_writes_the_rules_into_the_address(open_page: Open, filled: Filled) -> None:
    page = open_page(filled(Story(policy=Policy(must_not_regress=("gpt2_small/*",)))), UPGRADE)
    page.number_input(key="rules-threshold").set_value(8.0)
    page.text_area(key="rules-weight").set_value(f"{RESNET}:2\n\n")
    page.text_area(key="rules-must").set_value("")
    page.number_input(key="rules-case").set_value(12.0)
    page.text_area(key="rules-worst").set_value("latency_floor:20")
    next(each for each in page.button if each.label == "Judge").click().run()
    assert dict(page.query_params) == {
        "run": RUN,
        "threshold": "8",
        "case": "12",
        "worst": "latency_floor:20",
        "weight": f"{RESNET}:2",
        "must": "",
    }
    assert "<li>gpt2_small/* must not regress.</li>" not in html(page) and "counts 2 times" in html(page)
    next(each for each in page.button if each.label == "As it was measured").click().run()
    assert dict(page.query_params) == {"run": RUN} and not page.warning


def test_a_line_that_is_taken_out_of_the_form_takes_its_limit_away(open_page: Open, filled: Filled) -> None:
    page = open_page(filled(), UPGRADE)
    assert page.text_area(key="rules-worst").value == "latency_floor:10"
    page.text_area(key="rules-worst").set_value("")
    next(each for each in page.button if each.label == "Judge").click().run()
    assert dict(page.query_params) == {"run": RUN, "worst": "latency_floor:none"} and not page.exception
    assert page.text_area(key="rules-worst").value == ""
    assert "No case may be worse" not in html(page)


def test_another_metric_has_a_threshold_of_its_own(open_page: Open, filled: Filled) -> None:
    page = open_page(filled(), UPGRADE)
    page.selectbox(key="rules-metric").select("first_call")
    next(each for each in page.button if each.label == "Judge").click().run()
    assert dict(page.query_params) == {"run": RUN, "metric": "first_call"}
    assert page.number_input(key="rules-threshold").value == 10.0


LATER, OTHER = "20261122-080000-aaaa", "20261123-080000-bbbb"


def two() -> tuple[Story, Story]:
    """An upgrade, and one of the same day the other way round."""
    one = Story()
    old, new = one.sides
    return one, Story(LATER, begun=BEGUN + timedelta(days=1), sides=(new, old))


@pytest.mark.parametrize(
    ("query", "run"),
    [
        ({}, LATER),
        ({"run": "latest"}, LATER),
        ({"run": RUN}, RUN),
        ({"from": "2.13.0", "to": "2.15.0"}, RUN),
        ({"from": "2.15.0+cpu"}, LATER),
        ({"to": "2.15.0", "hardware": "Xeon 6430, 2 cores"}, RUN),
    ],
)
def test_an_address_names_a_run_or_its_versions(
    open_page: Open, filled: Filled, query: dict[str, str], run: str
) -> None:
    page = open_page(filled(*two()), UPGRADE, **query)
    assert page.selectbox(key="choose-run").value == run and not page.warning
    assert "shown above" in html(page) and f"/runs?run={run}" in html(page)


def test_environments_without_a_common_session_are_not_compared(open_page: Open, filled: Filled) -> None:
    url = filled(*two())
    page = open_page(url, UPGRADE, **{"from": "2.13.0", "to": "2.14.0", "hardware": "Xeon 6430, 2 cores"})
    (said,) = [each.value for each in page.warning]
    assert said.startswith("2.13.0 and 2.14.0 were never measured together on Xeon 6430, 2 cores")
    assert typed(page)[0] == "pyrometer upgrade 2.13.0 2.14.0"
    assert "py-verdict" not in html(page) and f"/compare?run={RUN}" in html(page)
    page = open_page(url, UPGRADE, hardware="8 x H200")
    assert "nknown hardware" in page.warning[0].value and "py-verdict" not in html(page)


def test_an_unknown_run_is_said_and_the_newest_shown(open_page: Open, filled: Filled) -> None:
    page = open_page(filled(), UPGRADE, run=RUN[:-1])
    assert "There is no run" in page.warning[0].value
    assert page.warning[0].value.endswith(f"The page shows the newest upgrade instead\\: {RUN}.")
    assert "No-go</p>" in html(page)


def test_a_choice_leads_to_another_upgrade_without_the_rules_of_this_one(
    open_page: Open, filled: Filled
) -> None:
    page = open_page(filled(*two()), UPGRADE, run=LATER, threshold="8")
    page.selectbox(key="choose-run").select(RUN).run()
    assert dict(page.query_params) == {"run": RUN} and "2.13.0 → 2.15.0" in html(page)


def test_sessions_about_findings_are_no_upgrades(open_page: Open, filled: Filled) -> None:
    session = Story(OTHER, begun=BEGUN + timedelta(days=2), confirms=True)
    url = filled(Story(), session)
    page = open_page(url, UPGRADE)
    assert page.selectbox(key="choose-run").value == RUN
    assert page.selectbox(key="choose-run").options == [
        "2.13.0+cpu → 2.15.0+cpu · Xeon 6430, 2 cores · 2026-11-21 14:46 UTC"
    ]
    assert [each.value for each in page.header][-2:] == ["Upgrades", "Sessions about findings"]
    # Its own address shows it all the same.
    assert open_page(url, UPGRADE, run=OTHER).selectbox(key="choose-run").value == OTHER


def test_one_from_before_comparisons_were_stored_says_where_its_verdict_is(
    open_page: Open, filled: Filled
) -> None:
    url = filled()
    with open_database(url) as database, database.writing() as connection:
        connection.execute(update(tables.RunRow).values(facts={"device": "cpu"}))
    page = open_page(url, UPGRADE)
    assert page.warning[0].value.startswith("Measured by an old version that did not store the comparison")
    assert typed(page)[0] == f"pyrometer report {RUN}"
    assert "py-verdict" not in html(page) and "not stored" in html(page)


@pytest.mark.parametrize("facts", [{COMPARED: {"old": 1}}, {COMPARED: "x"}])
def test_a_comparison_from_another_time_is_one_sentence(
    open_page: Open, filled: Filled, facts: dict[str, Any]
) -> None:
    url = filled()
    with open_database(url) as database, database.writing() as connection:
        connection.execute(update(tables.RunRow).values(facts=facts))
    page = open_page(url, UPGRADE, run=RUN)
    assert "cannot read" in page.warning[0].value and "py-verdict" not in html(page)


def test_one_that_lacks_an_environment_is_one_sentence(open_page: Open, filled: Filled) -> None:
    url = filled()
    body = Comparison("elsewhere", Story().comparison.new, Story().comparison.plan, Policy()).to_body()
    with open_database(url) as database, database.writing() as connection:
        connection.execute(update(tables.RunRow).values(facts={COMPARED: body}))
    page = open_page(url, UPGRADE, run=RUN)
    assert "which the run does not have" in page.warning[0].value


def test_half_an_upgrade_is_shown_as_far_as_it_has_come(open_page: Open, filled: Filled) -> None:
    page = open_page(filled(Story(unfinished=True)), UPGRADE)
    assert "Unclear</p>" in html(page) and "3 of at least 4 pairs" in html(page)
    assert typed(page)[0] == f"pyrometer upgrade --resume {RUN}"
    # The rest of its own plan decides before any new one.
    assert "What would decide it" not in [each.value for each in page.header]


def test_of_an_unclear_upgrade_one_command_measures_all_open_cases(open_page: Open, filled: Filled) -> None:
    page = open_page(filled(Story(still=True, memory=1.0, policy=Policy(overall=0.0005))), UPGRADE)
    assert "What would decide it" in [each.value for each in page.header]
    # With the pairs of the one that takes most.
    (command,) = [each for each in typed(page) if each.count("--case") > 1]
    assert command.startswith("pyrometer upgrade 2.13.0 2.15.0 --case ") and "--pairs " in command
    # What it takes stands above it, not behind a sign.
    (takes,) = re.findall(r">One command for (\d+ cases?), about [\d,]+ minutes? of measuring", html(page))
    assert int(takes.split()[0]) == command.count("--case ")


def test_when_everything_broke_the_page_says_so(open_page: Open, filled: Filled) -> None:
    page = open_page(filled(Story(broken=tuple(KINDS))), UPGRADE)
    assert "No-go</p>" in html(page) and html(page).count("✗ broken") >= len(KINDS)
    assert not [each for each in page.main if each.type == "arrow_vega_lite_chart"]


def test_no_text_of_a_case_becomes_markup(open_page: Open, filled: Filled) -> None:
    story = Story(
        broken=(GPT, GPT_COMPILED), reason=NASTY, notes=(NASTY,), command=f"pyrometer upgrade {NASTY}"
    )
    url = filled(story)
    page = open_page(url, UPGRADE, must=NASTY, weight=f"{NASTY}:2", run=RUN)
    shown = html(page)
    assert "<img" not in shown and "<script" not in shown and "\x1b" not in text(page)
    assert shown.count("&lt;img src=x onerror=alert(1)&gt;") >= 4
    assert not any("[me](http://x)" in each.value for each in (*page.warning, *page.caption, *page.markdown))
    with open_database(url) as database:
        run = queries.run_record(database, RUN)
    assert run is not None and run.facts[DECIDED]["decision"] == "no-go"


@pytest.mark.browser
def test_a_phone_shows_all_of_it_and_requests_no_other_site(visitor: Visitor) -> None:
    page = visitor.open(f"/compare?run={RUN}", "phone")
    # A chart in a folded section may be drawn before that is opened, or only then.
    page.get_by_text("By technique, and other metrics").click()
    # Cases with a ratio that are not the same, their geomean, and the techniques.
    drawn(page, 3 + 1 + 3)
    assert fits(page)
    page.get_by_text("Change policy").click()
    threshold = page.get_by_label("Threshold of a change, %")
    threshold.fill("8")
    threshold.press("Enter")
    expect(page).to_have_url(re.compile("threshold=8"))
    expect(page.get_by_text("Judged by the rules in this address")).to_be_visible()
    with page.expect_download() as saved:
        page.get_by_role("button", name="Report as JSON").click()
    report = json.loads(Path(saved.value.path()).read_text())
    assert report["policy"]["thresholds"]["latency_floor"]["relative"] == 0.08


@pytest.mark.browser
def test_what_moved_begins_on_the_first_screen(visitor: Visitor) -> None:
    page = visitor.open(f"/compare?run={RUN}")
    moved = page.get_by_role("heading", name=re.compile("What moved")).bounding_box()
    assert moved is not None and moved["y"] < 1000


@pytest.mark.browser
@pytest.mark.parametrize(("how", "wide"), [("light", True), ("phone", False)])
def test_the_name_of_a_row_stands_left_of_its_mark_on_a_wide_chart(
    visitor: Visitor, how: str, wide: bool
) -> None:
    page = visitor.open(f"/compare?run={RUN}", how)
    name = page.locator("svg .mark-text.role-mark text").first.bounding_box()
    mark = page.locator("svg .mark-symbol path").first.bounding_box()
    assert name is not None and mark is not None
    assert not wide or name["x"] + name["width"] < mark["x"]
    between = (mark["y"] + mark["height"] / 2) - (name["y"] + name["height"] / 2)
    assert abs(between) < 4 if wide else between > 8


@pytest.mark.browser
def test_each_report_that_is_taken_along_is_the_report(visitor: Visitor) -> None:
    page = visitor.open(f"/compare?run={RUN}")
    files: dict[str, str] = {}
    for name in ("HTML", "Markdown", "JSON"):
        with page.expect_download() as saved:
            page.get_by_role("button", name=f"Report as {name}").click()
        files[saved.value.suggested_filename] = Path(saved.value.path()).read_text()
    assert list(files) == [f"upgrade-{RUN}{ending}" for ending in (".html", ".md", ".json")]
    as_html, as_markdown, as_json = files.values()
    assert json.loads(as_json)["decision"] == "no-go"
    assert as_html.startswith("<!doctype html>") and '<p class="decision">' in as_html
    for report in (as_html, as_markdown):
        assert "No-go" in report and RESNET in report and "Streamlit" not in report
