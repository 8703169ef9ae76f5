"""What stands in the pages' tables, and that nothing from the database becomes markup."""

import re
from dataclasses import replace
from datetime import UTC, datetime

from dashboard.components import load, markup, tables
from dashboard.exports.page_recorder import frame_of
from dashboard.runs import run_tables
from db.connection.engine import Database
from db.runs.store import save_outcomes, save_run
from records.outcomes import Outcome
from records.runs import RunSummary
from records.series import Headline, SeriesKey, SeriesPoint
from support.builders.run_records import (
    BERT,
    MLP,
    RESNET,
    a_night,
    a_run,
    an_environment,
    an_outcome,
    measurements_for,
)
from support.pages import TableCells

NOW = datetime(2026, 9, 1, 5, 0, tzinfo=UTC)
NASTY = '<img src=x onerror="alert(1)">'


def a_summary(**counts: int) -> RunSummary:
    run = a_run(planned=6)
    return RunSummary(
        id=run.id,
        suite=run.suite,
        started_at=run.started_at,
        ended_at=run.ended_at,
        state=run.state,
        machine=run.machine.name,
        hardware=run.machine.hardware.label,
        torch_versions=("2.13.0",),
        preset="quiet",
        planned=run.planned,
        counts=counts or {"ok": 6},
    )


def a_headline(latest: float, previous: float | None) -> Headline:
    def at(run: str, value: float) -> SeriesPoint:
        low, high = value * 0.99, value * 1.01
        return SeriesPoint(
            MLP, run, a_run().started_at, "e", "2.13.0", "m", "h", value, low, high, low, high, 0.01, 3
        )

    key = SeriesKey(MLP, "latency", "f" * 64, "Xeon, 2 cores", "p" * 64, "quiet")
    return Headline(key, at("run-2", latest), None if previous is None else at("run-1", previous))


def test_what_is_not_ok_is_a_number_as_visible_as_what_is() -> None:
    shown = tables.counts(a_summary(ok=3, crashed=1, oom=1))
    assert [text in shown for text in ("✓ 3 ok", "× 1 crashed", "× 1 oom", "… 1 not reached")] == [True] * 4
    assert "not reached" not in tables.counts(a_summary(ok=6))


def test_a_list_of_runs_says_when_where_and_how_long() -> None:
    _, row = TableCells(tables.runs([a_summary()], NOW).html()).rows
    text = " | ".join(row)
    for part in (
        "run-1",
        "3 hours ago",
        "2026-09-01 02:00 UTC",
        "smoke",
        "✓ complete",
        "bench-1",
        "10 min 00 s",
    ):
        assert part in text


def test_a_run_that_goes_on_has_no_length_yet() -> None:
    running = replace(a_summary(ok=2), state="running", ended_at=None)
    _, row = TableCells(tables.runs([running], NOW).html()).rows
    assert row[-1] == "–"
    assert "… running" in row[3]
    assert "took" not in tables.last_run(running, 1, NOW) + tables.run_title(running, NOW)


def test_a_headline_says_the_number_its_range_n_and_the_run_before() -> None:
    _, row = TableCells(tables.headlines([a_headline(11.0, 10.0)], NOW)).rows
    assert row[1].split() == ["11.0", "10.9", "to", "11.1", "·", "n", "3"]
    assert row[2].split()[:2] == ["+10", "%"]
    assert "py-bad" not in tables.headlines([a_headline(11.0, 10.0)], NOW)
    assert row[3].split()[0] == "10.0"
    _, first = TableCells(tables.headlines([a_headline(11.0, None)], NOW)).rows
    assert "new" in first[2]


def test_headlines_of_unlike_hardware_stand_in_tables_of_their_own() -> None:
    other = a_headline(5.0, None)
    other = replace(other, key=replace(other.key, hardware="0" * 64, hardware_label="H200"))
    html = tables.headlines([a_headline(11.0, None), other], NOW)
    assert html.count("<table") == 2
    assert html.index("H200 ·") < html.index("Xeon, 2 cores ·")


def test_replicates_that_failed_alike_share_a_row() -> None:
    failed = [
        an_outcome(RESNET, replicate=r, status="oom", reason="no memory", phase="build") for r in (0, 1)
    ]
    other = an_outcome(MLP, status="timeout", reason="60 s passed")
    _, *rows = TableCells(tables.failures([(a_summary(), o) for o in [*failed, other]], NOW)).rows
    assert [row[3] for row in rows] == ["2", "1"]
    assert "no memory (while in build)" in rows[0][2]


def test_measurements_stand_in_the_order_of_the_catalogue_and_name_their_case_once() -> None:
    run = a_run()
    outcomes = [an_outcome(MLP, replicate=r, latency=2.0 + r) for r in (0, 1)]
    measured = measurements_for([*outcomes, an_outcome(RESNET, metrics={"graph_breaks": 2.0})])
    _, *rows = TableCells(tables.measurements(run, list(reversed(measured))).html()).rows
    assert [row[1] for row in rows] == ["Latency", "Throughput", "Peak RSS", "Graph breaks"]
    assert [bool(row[0]) for row in rows] == [True, False, False, True]
    assert rows[0][2:6] == ["2.50", "ms", "2.00 to 3.00", "2.00 to 3.00"]
    assert rows[3][2:] == ["2", "count", "–", "–", "–", "1"], "one replicate has no range"


def test_parameters_that_all_cases_have_stand_once_above_the_table() -> None:
    keys = [f"resnet50/infer/batch=8,image={size}/eager" for size in (64, 224)]
    outcomes = [an_outcome(key) for key in (*keys, MLP)]
    shown = tables.outcomes(a_run(), outcomes).html()
    assert shown.count("batch=8") == 1 and "All cases: batch=8." in shown.partition("<table")[0]
    assert [f"image={size}" in shown for size in (64, 224)] == [True, True]
    measured = measurements_for(outcomes)
    for numbers in (tables.measurements(a_run(), measured), run_tables.by_case(a_run(), measured)):
        assert "All cases: batch=8." in numbers.html()
    # Of one case, or where none is shared, they stay in the rows.
    alone = tables.outcomes(a_run(), outcomes[:1]).html()
    assert "All cases" not in alone and "batch=8 image=64" in alone
    other = tables.outcomes(a_run(), [*outcomes, an_outcome(BERT)]).html()
    assert "All cases" not in other and other.count("batch=8") == 3


def test_throughput_is_in_the_items_that_a_case_counts() -> None:
    metrics = {"throughput": 5.0, "latency": 2.0}
    known, unknown = (
        an_outcome(RESNET, metrics=metrics, facts={"unit": "images"}),
        an_outcome(MLP, metrics=metrics),
    )
    outcomes = [known, unknown]
    table = tables.measurements(a_run(), measurements_for(outcomes), None, tables.items_of(outcomes))
    units = {(row["case"], row["metric"]): row["unit"] for row in table.records()}
    assert units[RESNET, "throughput"] == "images/s" and units[RESNET, "latency"] == "ms"
    assert units[MLP, "throughput"] == "items/s"
    assert "5.00 images/s" in tables.outcome_facts(a_run(), known)


def test_a_metric_that_is_called_as_a_column_takes_none_of_its_place() -> None:
    metrics = {"latency": 2.0, "phase": 3.0, "wall_seconds": 900.0, "metric_phase": 4.0, "replicate": 7.0}
    outcomes = [an_outcome(MLP, metrics={"phase": 5.0}), an_outcome(MLP, replicate=1, metrics=metrics)]
    frame = frame_of(tables.outcomes(a_run(), outcomes))
    assert frame["metric_metric_phase"].tolist() == [5.0, 3.0], "the same column for all"
    assert frame["wall_seconds"].tolist() == [each.wall_seconds for each in outcomes]
    assert (frame["phase"].tolist(), frame["replicate"].tolist()) == (["", ""], [0, 1])
    named = ("latency", "metric_wall_seconds", "metric_metric_phase", "metric_phase", "metric_replicate")
    assert [frame[name].tolist()[1] for name in named] == [2.0, 900.0, 3.0, 4.0, 7.0]


def test_two_environments_of_one_pytorch_are_distinguished() -> None:
    sides = [an_environment("2.14.0a0+git", name) for name in ("before my patch", "after my patch")]
    other = an_environment("2.13.0", "stable")
    run = a_run(environments=[*sides, other])
    measured = measurements_for([an_outcome(MLP, environment=each) for each in run.environments])
    table = tables.measurements(run, measured)
    names = ("torch", "environment", "environment_name")
    assert {tuple(row[name] for name in names) for row in table.records()} == {
        (each.torch_version, each.fingerprint, each.name) for each in run.environments
    }
    named = {row[0] for row in TableCells(table.html()).rows if row and MLP[:3] in row[0]}
    assert [each.partition("batch=8 ")[2] for each in sorted(named)] == [
        "torch 2.13.0",
        "torch 2.14.0a0+git after my patch",
        "torch 2.14.0a0+git before my patch",
    ]
    twins = [replace(each, name="mine", fingerprint=f"{number}" * 64) for number, each in enumerate(sides)]
    run = a_run(environments=twins)
    assert "<small>111111111111</small>" in tables.case(run, MLP, twins[1].fingerprint)


def test_an_outcome_that_is_not_ok_says_why() -> None:
    outcomes = [an_outcome(RESNET, status="wrong", reason="off by 0.2"), an_outcome(MLP)]
    _, first, second = TableCells(tables.outcomes(a_run(), outcomes).html()).rows
    assert "× wrong" in first[0]
    assert "off by 0.2" in first[4]
    assert "✓ ok" in second[0]


def test_nothing_from_the_database_becomes_markup() -> None:
    run = replace(a_run(), id=NASTY, suite=NASTY, command=NASTY)
    summary = replace(a_summary(), id=NASTY, suite=NASTY, machine=NASTY, hardware=NASTY)
    outcome: Outcome = an_outcome(
        NASTY, status="lost", reason=NASTY, phase=NASTY, facts={NASTY: {NASTY: NASTY}}
    )
    html = "".join(
        [
            tables.runs([summary], NOW).html(),
            tables.last_run(summary, 1, NOW),
            tables.run_title(summary, NOW),
            run_tables.facts_panels(run),
            tables.failures([(summary, outcome)], NOW),
            tables.outcomes(run, [outcome]).html(),
            tables.outcome_title(outcome),
            tables.outcome_facts(run, outcome),
            markup.notes([NASTY]),
            markup.legend([NASTY]),
            markup.strong(NASTY),
            markup.chip(NASTY),
        ]
    )
    assert "img" not in TableCells(html).tags
    assert "&lt;img" in html


def test_nested_facts_are_flattened_and_nothing_is_dropped() -> None:
    facts = {
        "gpu": {"name": "H200", "memory_mib": 143771},
        "isa": ["avx2", "amx"],
        "smt": False,
        "OMP_NUM_THREADS": 2,
        "driver": None,
    }
    assert markup.flat(facts) == [
        ("gpu name", "H200"),
        ("gpu memory mib", "143,771"),
        ("isa", "avx2, amx"),
        ("smt", "no"),
        ("OMP_NUM_THREADS", "2"),
        ("driver", "–"),
    ]


def test_long_facts_are_folded_and_whole() -> None:
    build = "PyTorch built with: " + "- a flag and its <value> " * 20
    html = markup.facts("Environment", "default", {"build": build, "torch": "2.13.0"})
    assert html.count("<details>") == 1
    assert build.replace("<", "&lt;").replace(">", "&gt;") in html


def test_integers_keep_every_digit_and_none_is_too_long_for_the_page() -> None:
    endless = 10**5000
    facts = {"seed": 2**63 - 1, "big": 10**400, "small": -7, "endless": endless, "several": [1, endless]}
    flat = dict(markup.flat({**facts, "whole": 2.0, "part": 0.25}))
    assert flat["seed"] == "9,223,372,036,854,775,807"
    assert flat["big"].replace(",", "") == "1" + "0" * 400
    assert [flat[name] for name in ("small", "whole", "part")] == ["-7", "2", "0.25"]
    assert flat["endless"] == "a number too long to print"
    assert flat["several"] == "1, a number too long to print"


def test_a_long_text_that_begins_with_blanks_is_folded_below_its_first_words() -> None:
    html = markup.facts("Facts", "mine", {"table": " " * 70 + "a " * 40, "nothing": "\n" * 200})
    assert html.count("<details>") == 2 and "<summary>a a " in html and "<summary> …</summary>" in html


def test_replicates_that_took_turns_share_a_row(database: Database, url: str) -> None:
    environment = an_environment()
    save_run(database, a_run("turns", environments=[environment], planned=6))
    outcomes = [
        an_outcome(case, environment=environment, replicate=replicate, status=status, reason="as before")
        for replicate in range(3)
        for case, status in ((MLP, "crashed"), (BERT, "wrong"))
    ]
    save_outcomes(database, "turns", outcomes)
    table = tables.failures(load.failures(url, load.recent_runs(url, limit=5)), a_night(1))
    body = table.partition("<tbody>")[2]
    assert body.count("<tr>") == 2
    assert re.findall(r'data-title="Replicates">(\d)<', body) == ["3", "3"]
