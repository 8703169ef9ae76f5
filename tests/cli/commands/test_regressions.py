"""`pyrometer regressions`: findings in plain words, and their triage."""

import csv
import json
import math
from collections.abc import Iterator
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path

import pytest
from typer.testing import CliRunner, Result

from analysis.comparison.verdict import Verdict
from analysis.dispatch_difference import compare_cases
from cli.commands.regressions import moment_of
from cli.output.finding_report import finding_lines
from cli.registry import app
from db.connection.engine import Database, open_database
from db.findings import store as findings
from records.evidence import (
    Confirmation,
    Continuation,
    Evidence,
    RelatedVerdict,
    evidence_body,
    evidence_of,
)
from records.findings import TriageEntry
from scheduled_jobs.detection.evidence import pair_verdict
from support.builders.detection_nights import HOSTILE, TOML, Nights, a_finding, a_regression
from support.builders.run_records import MLP, RESNET, a_case_fingerprint, a_night
from support.golden import Golden
from support.sqlite_files import sqlite_with_tables


@pytest.fixture
def database(bare_folder: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Database]:
    """The database of the current folder, with a few nights."""
    monkeypatch.setenv("COLUMNS", "200")
    (bare_folder / "pyrometer.toml").write_text('timezone = "Europe/Berlin"\n' + TOML)
    with open_database(sqlite_with_tables(bare_folder / "pyrometer.db")) as opened:
        Nights(opened).add(range(4))
        yield opened


def call(*arguments: str, code: int = 0) -> Result:
    done = CliRunner().invoke(app, ["regressions", *arguments])
    assert done.exit_code == code, done.output
    return done


def test_a_list_has_the_open_regressions(database: Database) -> None:
    one = a_regression(database)
    gone = a_finding(database, RESNET)
    findings.decide(database, gone.id, "refuted", 0.0, None, None, Confirmation(), one.found_at)
    assert [each["id"] for each in json.loads(call("list", "--json").stdout)] == [one.id]
    body = json.loads(call("list", "--all", "--json").stdout)
    assert [(each["id"], each["kind"], each["case"]) for each in body] == [
        (gone.id, "refuted", RESNET),
        (one.id, "regression", MLP),
    ]
    assert call("list", "--schedule", "nightly").output.strip() == "no open regression"
    assert 'did you mean "nightly"' in call("list", "--schedule", "nightli", code=2).output


def test_the_whole_reports(database: Database, golden: Golden) -> None:
    reports = {"Nothing is open": call("list").output, "Nothing was found": call("list", "--all").output}
    one = a_regression(database)
    candidate = a_finding(database, RESNET)
    findings.defer(database, [candidate.id], "no space left")
    reports["A list"] = call("list").output
    reports["All of them"] = call("list", "--all").output
    reports["A candidate"] = call("show", str(candidate.id)).output
    at = a_night(4)
    log = [
        TriageEntry(one.id, at, "ada", "acknowledge", "looking"),
        TriageEntry(one.id, at, "bob", "mute", ""),
    ]
    shown = replace(one, triage="acknowledged", link="https://example.org/7", muted_until=at, returns_of=3)
    night = Continuation(0.2, "2026-09-20T02:00:00+00:00", "2026", one.at_run)
    shown = replace(shown, evidence=replace(one.evidence, goes_on=night, began_as=4))
    reports["A regression"] = "\n".join(finding_lines(shown, log, UTC, a_night(3)))
    elsewhere = replace(shown.evidence, goes_on=replace(night, finding=8))
    lines = finding_lines(replace(shown, evidence=elsewhere), log, UTC, a_night(3))
    (reports["Continued by another finding"],) = [line for line in lines if line.startswith("goes on")]
    golden.check_terminal("regressions.md", reports)


@pytest.mark.parametrize("relative", [True, False])
def test_a_change_relative_to_the_baseline_is_labelled_so(database: Database, relative: bool) -> None:
    one = a_finding(database)
    evidence = replace(one.evidence, detected=replace(one.evidence.detected, relative=relative))
    lines = finding_lines(replace(one, evidence=evidence), (), UTC, one.found_at)
    assert any("relative to the baseline of the same nights" in line for line in lines) == relative


@pytest.mark.parametrize(("metric", "word"), [("rss_peak", "worse"), ("latency_floor", "slower")])
def test_a_verdict_is_called_slower_only_where_it_is_about_a_time(
    database: Database, metric: str, word: str
) -> None:
    verdict = pair_verdict(Verdict(metric, "slower", n=8, old=512.0, new=640.0, change=0.22))
    evidence = Evidence(
        confirmation=Confirmation(verdict=verdict, related=(RelatedVerdict(RESNET, verdict),))
    )
    lines = list(finding_lines(replace(a_finding(database), evidence=evidence), (), UTC, a_night(4)))
    assert f"    {word}, from 8 pairs of processes" in lines and f"    {RESNET}: {word} +24.6 %" in lines
    # What was stored before a row named its metric reads as it did.
    row = {"case": RESNET, "word": "slower"}
    old = replace(a_finding(database), evidence=evidence_of({"neighbours": [row]}))
    assert f"    {RESNET}: slower" in finding_lines(old, (), UTC, a_night(4))


def test_what_runs_differently_is_evidence(database: Database) -> None:
    old, new = (a_case_fingerprint(onednn={f"matmul by {name}": 2}) for name in ("gemm:jit", "ref:any"))
    (differs,) = compare_cases({MLP: old}, {MLP: new})
    body = evidence_body(Evidence(confirmation=Confirmation(run="one", dispatch=differs.to_body())))
    one = replace(a_finding(database), evidence=evidence_of(json.loads(json.dumps(body))))
    lines = list(finding_lines(one, (), UTC, a_night(4)))
    at = lines.index("what runs differently:")
    assert lines[at + 1] == "    [reference kernel] oneDNN: matmul by ref:any instead of gemm:jit, 2x"
    alike = replace(differs, difference=replace(differs.difference, changes=()))
    evidence = Evidence(confirmation=Confirmation(run="one", dispatch=alike.to_body()))
    lines = list(finding_lines(replace(one, evidence=evidence), (), UTC, a_night(4)))
    assert lines[lines.index("what runs differently:") + 1] == "    no recorded difference"
    lines = list(finding_lines(a_finding(database), (), UTC, a_night(4)))
    assert "what runs differently:" not in lines


def test_an_operator_that_moved_too_is_called_as_in_its_own_report(database: Database) -> None:
    row = {"finding": 9, "case": MLP, "metric": "latency_floor", "direction": "better", "change": -0.1}
    one = replace(a_finding(database), evidence=evidence_of({"moved_with": [{**row, "state": "confirmed"}]}))
    lines = finding_lines(one, (), UTC, a_night(4))
    assert f"    {MLP}: latency_floor -9.5 % (finding 9, improvement)" in list(lines)


def test_the_reason_why_a_candidate_waits_is_shown_only_while_it_is_one(database: Database) -> None:
    one = a_finding(database)
    findings.defer(database, [one.id], "no space left")
    assert "because      no space left" in call("show", str(one.id)).output
    for state in ("confirming", "no longer"):
        findings.set_state(database, [one.id], state)
        assert "no space left" not in call("show", str(one.id)).output
    assert (
        "because      the session shows the change too" in call("show", str(a_regression(database).id)).output
    )


def test_a_table_of_them_holds_no_formula(database: Database, tmp_path: Path) -> None:
    one = a_regression(database)
    findings.triage(database, one.id, "link", "ada", "=1+1", None, datetime.now(UTC))
    assert "1 findings" in call("list", "--csv", "found.csv").output
    (row,) = csv.DictReader((tmp_path / "found.csv").read_text().splitlines())
    assert (row["kind"], row["link"], float(row["ratio"])) == ("regression", "'=1+1", math.exp(0.095))
    assert float(row["ratio_low"]) < float(row["ratio"]) < float(row["ratio_high"]) and "change" not in row
    body = json.loads(call("show", str(one.id), "--json").stdout)
    assert body["ratio"] == body["evidence"]["verdict"]["ratio"] == math.exp(0.095) and "change" not in body


def test_nothing_that_strangers_wrote_steers_a_terminal(database: Database) -> None:
    lines = list(finding_lines(a_regression(database), (), UTC, a_night(4)))
    assert sum(HOSTILE.partition("\x1b")[0] in line for line in lines) == 4
    assert all(line.isprintable() for line in lines)


def test_what_people_do_is_kept_with_their_names(database: Database) -> None:
    number = str(a_regression(database).id)
    assert call("acknowledge", number, "looking", "--by", "ada").output == "finding 1: acknowledged\n"
    call("note", number, "the allocator", "--by", "bob")
    call("link", number, "https://example.org/issues/7", "--by", "bob")
    assert "muted until 2999-12-01 00:00 CET" in call("mute", number, "--until", "2999-12-01").output
    assert "muted" not in call("mute", number, "--off", "--by", "ada").output
    call("fixed", number, "mended upstream", "--by", "ada")
    one = findings.finding(database, 1)
    assert one is not None and (one.triage, one.link) == ("fixed", "https://example.org/issues/7")
    text = call("show", number).output
    for part in ("ada: acknowledge: looking", "bob: note: the allocator", "ada: fixed: mended upstream"):
        assert part in text
    actions = [entry["action"] for entry in json.loads(call("show", number, "--json").stdout)["log"]]
    assert actions == ["acknowledge", "note", "link", "mute", "mute", "fixed"]
    assert json.loads(call("list", "--json").stdout) == []
    assert "1 triaged or muted" in call("list").output
    call("expected", number)
    assert findings.triage_log(database, 1)[-1].who


@pytest.mark.parametrize(
    "arguments",
    [
        ("show", "77"),
        ("acknowledge", "77"),
        ("acknowledge", "99999999999999999999"),
        ("list", "--schedule", "never"),
        ("link", "1", "javascript:alert(1)"),
        ("link", "1", "https://ann:secret@example.org/7"),
        ("mute", "1"),
        ("mute", "1", "--until", "soon"),
        ("mute", "1", "--until", "2020-12-01"),
        ("mute", "1", "--until", "9999-12-31T23:59:59+00:00"),
        ("mute", "1", "--until", "2999-12-01", "--off"),
        ("note", "1", " "),
        ("fixed", "1", "--by", " "),
    ],
)
def test_what_makes_no_sense_is_refused(database: Database, arguments: tuple[str, ...]) -> None:
    a_regression(database)
    done = call(*arguments, code=2)
    assert "Traceback" not in done.output and findings.triage_log(database, 1) == []


def test_a_date_is_the_beginning_of_a_day_where_people_are() -> None:
    assert moment_of("2026-12-01", "Europe/Berlin") == datetime(2026, 11, 30, 23, tzinfo=UTC)
    assert moment_of("2026-12-01T08:00+00:00", "Europe/Berlin") == datetime(2026, 12, 1, 8, tzinfo=UTC)
