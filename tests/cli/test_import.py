"""`pyrometer import` and `pyrometer submit` as they are typed: what they say, and how they end."""

import json
import os
import subprocess
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner, Result

import cli
from cli.registry import app
from db.connection.engine import Database, open_database
from db.runs import queries
from interchange.source_file import NO_TIME
from runner import machine
from support.builders.foreign_files import SAMPLES, SUBMITTED, TORCHBENCH, of_json, one_file, written
from support.site import measured_python
from support.sqlite_files import sqlite_with_tables

EXAMPLES = Path(cli.__path__[0]).parent / "examples"
EXAMPLE = EXAMPLES / "submit_from_training.py"
#: Of a value that is a number and of one that is none.
HALF_GOOD = {**TORCHBENCH, "metrics": {**TORCHBENCH["metrics"], "resnet50-eval-latencies": [1]}}


@pytest.fixture(autouse=True)
def start_folder(bare_folder: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder of its own for each test, with an empty database and nothing set."""
    folder = bare_folder / "here"
    sqlite_with_tables(folder / "pyrometer.db")
    monkeypatch.chdir(folder)
    return folder


@pytest.fixture
def database(start_folder: Path) -> Iterator[Database]:
    with open_database(f"sqlite:///{start_folder}/pyrometer.db") as opened:
        yield opened


def typed(*arguments: str | Path, stdin: str | None = None) -> Result:
    """The command's end; stdout and stderr apart."""
    return CliRunner().invoke(app, [str(each) for each in arguments], input=stdin)


def events(result: Result) -> list[dict[str, Any]]:
    return [json.loads(line) for line in result.stdout.splitlines()]


def test_it_says_what_each_file_holds_and_what_of_it_is_new(start_folder: Path) -> None:
    path = written(start_folder, SAMPLES["torchbench"])
    first = typed("import", path)
    assert first.exit_code == 0
    assert first.stdout.splitlines() == [
        f"{path}: torchbench, 1 run, 2 outcomes, 1 measurement; new: 1 run, 2 outcomes, 1 measurement",
        "1 file read, new: 1 run, 2 outcomes, 1 measurement",
    ]
    again = typed("import", path)
    assert again.exit_code == 0 and "1 measurement; nothing is new" in again.stdout


def test_the_runs_of_a_real_h100_can_still_be_read(database: Database) -> None:
    result = typed("import", "--json", EXAMPLES / "gpu/h100/run.jsonl.gz")
    assert result.exit_code == 0
    new = [event["new"] for event in events(result) if "new" in event][-1]
    assert (new["runs"], new["outcomes"], new["measurements"]) == (8, 152, 905)
    newest = queries.recent_runs(database, limit=9)
    assert {run.hardware for run in newest} == {"1 x NVIDIA H100 80GB HBM3"}
    statuses = [run.counts for run in newest if run.counts.get("oom")]
    assert [(each["oom"], each["crashed"], each["ok"]) for each in statuses] == [(1, 2, 3)]


def test_a_folder_is_imported_and_unknown_files_are_named(start_folder: Path) -> None:
    for name in ("torchbench", "timm-csv", "asv"):
        written(start_folder / "files", SAMPLES[name])
    (start_folder / "files" / "notes.txt").write_text("nothing to read here")
    result = typed("import", "files")
    assert result.exit_code == 0
    assert "skipped, in no known format: 1 file: files/notes.txt" in result.stdout
    assert result.stdout.splitlines()[-1].startswith("3 files read, new: 3 runs, ")


def test_what_is_set_aside_has_its_place_and_the_others_go_in(start_folder: Path, database: Database) -> None:
    bad = written(start_folder, of_json("metrics-20240307222831.json", HALF_GOOD))
    good = written(start_folder, SAMPLES["timm-csv"])
    result = typed("import", bad, good)
    assert result.exit_code == 1
    assert "  set aside: metrics-20240307222831.json, metrics.resnet50-eval-latencies: " in result.stdout
    assert result.stdout.splitlines()[-1].endswith(", 1 set aside")
    assert queries.count_runs(database) == 2


def test_a_copy_of_a_file_without_a_time_changes_nothing(start_folder: Path, database: Database) -> None:
    first = written(start_folder / "clone", SAMPLES["timm-csv"])
    os.utime(first, (1_700_000_000, 1_700_000_000))
    other = written(start_folder / "again", SAMPLES["timm-csv"])
    result = typed("import", first)
    note = f"  note: {NO_TIME}; --date says when it was measured"
    assert result.exit_code == 0 and result.stdout.splitlines()[1] == note
    assert events(typed("import", "--json", first))[0]["undated"] == 1
    again = typed("import", other)
    assert again.exit_code == 0 and "nothing is new" in again.stdout
    assert queries.count_runs(database) == 1
    (run,) = queries.recent_runs(database)
    assert run.started_at.timestamp() == 1_700_000_000


def test_date_and_hardware_say_what_the_file_does_not(start_folder: Path, database: Database) -> None:
    path = written(start_folder, SAMPLES["timm-csv"])
    said = ("--date", "2025-03-01T12:30+02:00", "--hardware", "RTX 4090")
    assert "note:" not in typed("import", *said, path).stdout
    assert "nothing is new" in typed("import", *said, path).stdout
    (run,) = queries.recent_runs(database)
    assert (run.started_at.isoformat(), run.hardware) == ("2025-03-01T10:30:00+00:00", "RTX 4090")


def test_a_date_is_refused_where_the_file_has_its_own(start_folder: Path) -> None:
    result = typed("import", "--date", "2025-03-01", written(start_folder, SAMPLES["asv"]))
    assert result.exit_code == 1
    assert "states the time itself; --date is for files without a time" in result.stdout


def test_a_repeat_is_a_note_and_no_loss(start_folder: Path) -> None:
    folder = start_folder / "tree"
    for name in ("a", "b"):
        written(folder / name, SAMPLES["optimum"])
    result = typed("import", folder)
    assert result.exit_code == 0 and "set aside" not in result.stdout
    assert "  note: 1 repeat of entries that are in already, such as b/benchmark.json" in result.stdout
    assert len(events(typed("import", "--json", folder))[0]["repeats"]) == 1


def test_everything_set_aside_is_an_event(start_folder: Path) -> None:
    bad = {f"model{number}-eval-latencies": [1] for number in range(14)}
    document = {**TORCHBENCH, "metrics": {**TORCHBENCH["metrics"], **bad}}
    path = written(start_folder, of_json("metrics-20240307222831.json", document))
    (file, ended) = events(typed("import", "--json", path))
    assert len(file["set_aside"]) == 14 and ended["set_aside"] == 14
    assert file["set_aside"][0].keys() == {"file", "line", "field", "reason"}


def test_a_refused_file_ends_with_1_and_the_others_go_in(start_folder: Path, database: Database) -> None:
    broken = written(start_folder, one_file("metrics-20240307222831.json", b'{"metrics": {'))
    good = written(start_folder, SAMPLES["timm-csv"])
    result = typed("import", broken, good, "--format", "torchbench")
    assert result.exit_code == 1 and result.stdout.count("refused: ") == 2
    result = typed("import", broken, good)
    assert result.exit_code == 1
    assert (
        f"refused: {start_folder}/metrics-20240307222831.json, line 1, column 14: is no JSON: "
        in result.stdout
    )
    assert queries.count_runs(database) == 1
    refused, _, ended = events(typed("import", "--json", broken, good))
    assert (refused["event"], refused["line"], ended["refused"], ended["read"]) == ("refused", 1, 1, 1)


def test_a_file_of_unknown_format_is_refused_when_it_was_named(start_folder: Path) -> None:
    (start_folder / "notes.txt").write_text("nothing to read here")
    result = typed("import", "notes.txt")
    assert result.exit_code == 1 and "refused: notes.txt is in none of the formats" in result.stdout
    (start_folder / "empty").mkdir()
    assert typed("import", "empty").exit_code == 1


@pytest.mark.parametrize("name", [(), ("--format", "journal"), ("--format", "asv")])
def test_a_pipe_is_refused_before_it_is_read(start_folder: Path, name: Sequence[str]) -> None:
    os.mkfifo(start_folder / "pipe")
    # Opened for both, so that who reads it all the same does not wait for ever.
    pipe, held = os.open(start_folder / "pipe", os.O_RDWR | os.O_NONBLOCK), b" " * 4096
    try:
        os.write(pipe, held)
        result = typed("import", *name, "pipe")
        assert os.read(pipe, len(held)) == held
    finally:
        os.close(pipe)
    assert result.exit_code == 1
    assert "refused: ./pipe: is a pipe or a device: write it to a file, and import that" in result.stdout


def test_a_dry_run_stores_nothing_and_makes_no_database(start_folder: Path) -> None:
    (start_folder / "pyrometer.db").unlink()
    path = written(start_folder, SAMPLES["torchbench"])
    result = typed("import", "--dry-run", path)
    assert result.exit_code == 0 and "would be new: 1 run, 2 outcomes, 1 measurement" in result.stdout
    assert not (start_folder / "pyrometer.db").exists()
    typed("import", path)
    assert "nothing is new" in typed("import", "--dry-run", path).stdout


@pytest.mark.parametrize(
    ("arguments", "sentence"),
    [
        (["import", "missing.json"], "there is no missing.json; nothing was imported"),
        (
            ["import", "--format", "torchbnch", "."],
            "there is no format torchbnch: the formats are pyrometer, ",
        ),
        (["import", "--date", "yesterday", "."], "--date is a time such as 2026-03-01 or "),
        (["import", "--date", "2999-01-01", "."], "--date 2999-01-01 is in the future"),
        (["import", "--hardware", " ", "."], "--hardware is empty"),
        (["submit", "--machine", "", "missing.json"], "--machine is empty"),
        (["submit", "--hardware", " ", "missing.json"], "--hardware is empty"),
        (["submit", "missing.json"], "missing.json: No such file or directory; nothing was stored"),
    ],
)
def test_a_call_that_makes_no_sense_gets_one_sentence(arguments: Sequence[str], sentence: str) -> None:
    result = typed(*arguments)
    assert result.exit_code == 2 and result.stdout == ""
    assert result.stderr.startswith("pyrometer: ") and sentence in result.stderr
    assert result.stderr.count("\n") == 1


def test_what_strangers_write_steers_no_terminal(start_folder: Path) -> None:
    metrics = {
        "model=\x1b[31mred, test=eval, device=cuda, bs=1, metric=latencies": [1],
        "m-eval-latencies": 1,
    }
    path = written(start_folder, of_json("metrics-20240307222831.json", {**TORCHBENCH, "metrics": metrics}))
    result = typed("import", path)
    assert "set aside" in result.stdout and "\x1b" not in result.stdout
    assert "\x1b" not in typed("report").stdout


def test_the_help_lists_every_format() -> None:
    text = typed("import", "--help").stdout
    assert all(f"  {name} " in text for name in (*SAMPLES, "journal"))


def test_the_report_of_an_imported_run_tells_every_metric_in_its_unit(start_folder: Path) -> None:
    typed("import", written(start_folder, SAMPLES["timm-csv"]))
    report = typed("report")
    assert report.exit_code == 0
    lines = [" ".join(line.split()) for line in report.stdout.splitlines()]
    assert any("2,543" in line and line.endswith(" samples/s higher") for line in lines)
    assert "1 ok, imported from timm benchmark results (CSV), begun " in lines[-1]
    text = events(typed("report", "--json"))
    assert [each["event"] for each in text] == ["outcome", "ended"] and text[-1]["gains"] == []


def test_a_submission_is_a_point_of_this_machine(start_folder: Path, database: Database) -> None:
    path = written(start_folder, of_json("results.json", SUBMITTED))
    result = typed("submit", path)
    assert result.exit_code == 0 and "new: 1 run, 2 outcomes, 2 measurements" in result.stdout
    run = queries.run_record(database, result.stdout.partition(":")[0])
    assert run is not None
    own = machine.describe([])
    assert run.machine.fingerprint == own.fingerprint
    assert run.machine.hardware.fingerprint == own.hardware_fingerprint
    assert "stored already; nothing is new" in typed("submit", path).stdout
    assert queries.count_runs(database) == 1


def test_a_submission_comes_from_stdin_and_from_another_machine(database: Database) -> None:
    there = ("--machine", "gpu-07", "--hardware", "8 x H200", "--json")
    result = typed("submit", "-", *there, stdin=json.dumps(SUBMITTED))
    (event,) = events(result)
    run = queries.run_record(database, event["runs"][0])
    assert run is not None
    assert (run.machine.name, run.machine.hardware.label) == ("gpu-07", "8 x H200")
    assert (event["new"]["measurements"], event["set_aside"]) == (2, [])
    again = typed("submit", "-", stdin=json.dumps({**SUBMITTED, "started_at": None}))
    assert again.exit_code == 2 and "stdin, started_at: is missing; nothing was stored" in again.stderr
    assert typed("submit", "-", stdin="\x00").exit_code == 2


@pytest.mark.parametrize("values", [[1e-30, 1e30], [1e308, 1.5e308]])
def test_values_that_are_too_far_apart_are_stored_without_an_interval(
    database: Database, values: list[float]
) -> None:
    body = {"suite": "far", "case": "model/train", "started_at": "2026-01-04T00:00:00Z"}
    result = typed("submit", "-", stdin=json.dumps({**body, "metrics": {"latency": {"values": values}}}))
    assert result.exit_code == 0, result.stderr
    (run,) = queries.run_ids(database)
    (found,) = queries.measurements_of_run(database, run)
    assert (found.smallest, found.largest, found.low, found.high, found.n) == (*values, None, None, 2)
    assert typed("report").exit_code == 0


def test_a_metric_that_is_stored_otherwise_ends_with_1(start_folder: Path) -> None:
    typed("submit", written(start_folder, of_json("results.json", SUBMITTED)))
    metrics = {"tokens_per_second": {"value": 51, "unit": "k tokens/s", "better": "higher"}}
    other = {**SUBMITTED, "started_at": "2026-11-20T20:15:00+00:00", "metrics": metrics}
    result = typed("submit", written(start_folder, of_json("results.json", other)))
    assert result.exit_code == 1
    assert "set aside: results.json: metric tokens_per_second is stored as tokens/s" in result.stdout


@pytest.mark.torch
def test_the_example_writes_what_can_be_submitted(start_folder: Path) -> None:
    subprocess.run([measured_python(), EXAMPLE, "results.json"], check=True, cwd=start_folder, timeout=120)
    assert typed("submit", "results.json").exit_code == 0
    text = typed("report").stdout
    assert "samples_per_second" in text and "final_loss" in text and "submitted by a script" in text
